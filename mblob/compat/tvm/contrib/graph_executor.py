"""`tvm.contrib.graph_executor`."""

from mblob import graph_executor

GraphModule = graph_executor.GraphModule
create = graph_executor.create

__all__ = ["GraphModule", "create"]
