from typing import Any

from mblob.compat.tvm.contrib import debugger as debugger
from mblob.compat.tvm.contrib import graph_executor as graph_executor
from mblob.compat.tvm.contrib import graph_runtime as graph_runtime
from mblob.compat.tvm.contrib import util as util
from mblob.compat.tvm.contrib import utils as utils

def __getattr__(name: str) -> Any: ...  # of the compiler, and of RPC: a call is an error
