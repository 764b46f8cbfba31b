"""`tvm.runtime.executor.aot_executor`."""

from mblob import aot_executor

AotModule = aot_executor.AotModule

__all__ = ["AotModule"]
