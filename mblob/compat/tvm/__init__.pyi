from typing import Any

from mblob import Device, MblobError
from mblob import get_global_func as get_global_func
from mblob import register_func as register_func
from mblob.compat.tvm import _ffi as _ffi
from mblob.compat.tvm import base as base
from mblob.compat.tvm import contrib as contrib
from mblob.compat.tvm import error as error
from mblob.compat.tvm import ffi as ffi
from mblob.compat.tvm import module as module
from mblob.compat.tvm import relax as relax
from mblob.compat.tvm import relay as relay
from mblob.compat.tvm import runtime as runtime
from mblob.compat.tvm import support as support
from mblob.compat.tvm import testing as testing
from mblob.compat.tvm.runtime import DataType as DataType
from mblob.compat.tvm.runtime import ndarray as ndarray
from mblob.compat.tvm.runtime.ndarray import cl as cl
from mblob.compat.tvm.runtime.ndarray import context as context
from mblob.compat.tvm.runtime.ndarray import cpu as cpu
from mblob.compat.tvm.runtime.ndarray import cuda as cuda
from mblob.compat.tvm.runtime.ndarray import device as device
from mblob.compat.tvm.runtime.ndarray import ext_dev as ext_dev
from mblob.compat.tvm.runtime.ndarray import gpu as gpu
from mblob.compat.tvm.runtime.ndarray import hexagon as hexagon
from mblob.compat.tvm.runtime.ndarray import metal as metal
from mblob.compat.tvm.runtime.ndarray import mtl as mtl
from mblob.compat.tvm.runtime.ndarray import opencl as opencl
from mblob.compat.tvm.runtime.ndarray import rocm as rocm
from mblob.compat.tvm.runtime.ndarray import vpi as vpi
from mblob.compat.tvm.runtime.ndarray import vulkan as vulkan
from mblob.compat.tvm.runtime.ndarray import webgpu as webgpu
from mblob.compat.tvm_ffi.values import convert as convert

TVMContext = Device
TVMError = MblobError
nd = ndarray
register_global_func = register_func
__version__: str

def __getattr__(name: str) -> Any: ...  # of the compiler, and of RPC: a call is an error
