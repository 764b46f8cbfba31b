"""`tvm.contrib.graph_runtime`: `graph_executor`, as TVM 0.7 and before call it."""

from mblob.compat.tvm.contrib.graph_executor import GraphModule as GraphModule
from mblob.compat.tvm.contrib.graph_executor import create as create

__all__ = ["GraphModule", "create"]
