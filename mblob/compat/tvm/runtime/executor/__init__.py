"""`tvm.runtime.executor`: models that were compiled ahead of time."""

from mblob.compat.tvm.runtime.executor import aot_executor as aot_executor
from mblob.compat.tvm.runtime.executor.aot_executor import AotModule as AotModule
