"""C that is generated around functions: packed functions, tables, registration, adapters between the
dialects."""
