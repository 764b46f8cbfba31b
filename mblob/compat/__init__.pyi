from typing import Any

# `mblob.compat.tvm` and all below it are made when they are imported: for type checkers, what they hold is Any.
def __getattr__(name: str) -> Any: ...
