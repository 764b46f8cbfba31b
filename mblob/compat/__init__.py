"""Other projects' names for what mblob has: `mblob.compat.tvm` and `mblob.compat.tvm_ffi`.

A program that was written for TVM's Python runtime changes its import lines, and nothing else. The
modules here hold names, and hand on what `import mblob` gives.
"""
