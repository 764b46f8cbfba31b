"""`export_library` and what it links: shared libraries, static ones, somebody else's."""
