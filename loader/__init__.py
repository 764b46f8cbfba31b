"""The run side: a library file becomes a tree of modules whose functions can be called.

Thin Python over the C runtime in `csrc`. `loader._native` (cffi) is the wide API, `loader._call` (a C
extension) the hot path: calling functions, tensors, callbacks. `loader.runtime` joins the two. Users write
`import mblob`, which hands these names on.
"""

from loader import runtime as runtime  # first: the compiled modules learn of our classes here
