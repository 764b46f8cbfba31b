"""Vector types for C: see `packager.vector_c.rewrite`."""
