"""`tvm.module`, as TVM 0.6 and before call what is `tvm.runtime` since."""

from mblob import Module as Module
from mblob import load_module as load
from mblob import load_module as load_module
from mblob import system_lib as system_lib
from mblob.compat.tvm.runtime.module import enabled as enabled

__all__ = ["Module", "enabled", "load", "load_module", "system_lib"]
