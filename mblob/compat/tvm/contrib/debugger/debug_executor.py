"""`tvm.contrib.debugger.debug_executor`."""

from mblob import graph_executor

GraphModuleDebug = graph_executor.GraphModuleDebug
create = graph_executor.create_debug

__all__ = ["GraphModuleDebug", "create"]
