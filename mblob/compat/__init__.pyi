from typing import Any

# The modules of `mblob.compat.tvm` and `mblob.compat.tvm_ffi` are made when they are imported: for type checkers,
# what they hold is Any. The folders `tvm` and `tvm_ffi` have stubs alone.
def __getattr__(name: str) -> Any: ...
