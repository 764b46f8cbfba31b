"""The build side: from a module tree to a shared library. Owns the compiler and every write to an
ELF file.

Users reach it through `import mblob`. It never imports `mblob.loader`: packing works where nothing
may be loaded.
"""
