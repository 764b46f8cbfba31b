"""Vector types for C: see `mblob.packager.compile.vector_c.rewrite`."""
