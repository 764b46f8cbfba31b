"""A blob into a file: what is in it, the bytes, the ELF file around it."""
