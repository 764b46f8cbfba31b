"""`tvm.contrib.debugger.debug_runtime`: `debug_executor`, as TVM 0.7 and before call it."""

from mblob.compat.tvm.contrib.debugger.debug_executor import GraphModuleDebug as GraphModuleDebug
from mblob.compat.tvm.contrib.debugger.debug_executor import create as create

__all__ = ["GraphModuleDebug", "create"]
