"""C that is generated around functions: packed forms, tables, registration, adapters between the
dialects."""
