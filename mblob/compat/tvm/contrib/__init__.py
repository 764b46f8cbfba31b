"""`tvm.contrib`: executors of graphs."""

from __future__ import annotations

from mblob.compat.lazy_names import COMPILER, DOWNLOAD, RPC, names_of_stub, offer_lazily

_HOMES = names_of_stub(__file__)
__getattr__, __dir__ = offer_lazily(
    __name__, _HOMES, {"download": DOWNLOAD, "rpc": RPC, "*": COMPILER}
)
