"""`tvm.contrib`: executors of graphs."""

from __future__ import annotations

from mblob.compat.handed_on import COMPILER, DOWNLOAD, RPC, hand_on

_HOMES = {
    name: f"{__name__}.{name}"
    for name in ("debugger", "graph_executor", "graph_runtime", "util", "utils")
}
__getattr__, __dir__ = hand_on(__name__, _HOMES, {"download": DOWNLOAD, "rpc": RPC, "*": COMPILER})
