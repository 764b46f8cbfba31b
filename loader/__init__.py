"""The run side: a library file becomes a tree of modules whose functions can be called.

Thin Python over the C runtime in `csrc`. `mblob.loader._native` (cffi) is the wide API,
`mblob.loader._call` (a C extension) the hot path: calling functions, tensors, callbacks. Users
write `import mblob`, which hands these names on.

Who imports whom, from the ground up: `_native`, `_call` <- runtime, status, tensor, symbols <-
bridge <- loaders <- opened <- load, functions <- hooks, system_lib.
"""

from mblob.loader import hooks

hooks.install()
