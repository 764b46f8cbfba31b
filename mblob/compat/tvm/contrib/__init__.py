"""`tvm.contrib`: executors of graphs."""

from __future__ import annotations

from mblob.compat.lazy_names import COMPILER, DOWNLOAD, RPC, offer_lazily

_HOMES = {
    name: f"{__name__}.{name}"
    for name in ("debugger", "graph_executor", "graph_runtime", "util", "utils")
}
__getattr__, __dir__ = offer_lazily(
    __name__, _HOMES, {"download": DOWNLOAD, "rpc": RPC, "*": COMPILER}
)
