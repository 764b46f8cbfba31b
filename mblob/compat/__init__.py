"""Other projects' names for what mblob has: `mblob.compat.tvm` and `mblob.compat.tvm_ffi`.

For programs that load and run compiled models. A program that was written for TVM's Python runtime, of
TVM 0.6 to 0.27, changes its import lines, and nothing else. The modules are those of the table in
`names.py`; `modules.py` makes them when they are imported. The other files here have the code behind
names for which mblob has no function with the same parameters.
"""

from mblob.compat import modules as modules
