"""docs/format.md as code: both dialects of a blob, the index, the payloads. Reading and writing."""
