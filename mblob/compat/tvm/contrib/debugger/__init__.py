"""`tvm.contrib.debugger`."""

from mblob.compat.tvm.contrib.debugger import debug_executor as debug_executor
from mblob.compat.tvm.contrib.debugger import debug_runtime as debug_runtime
