from typing import Any

from mblob import Device as Device
from mblob import Module as Module
from mblob import PackedFunction
from mblob import Shape as Shape
from mblob import Tensor as Tensor
from mblob import device as device
from mblob.compat.tvm_ffi import container as container
from mblob.compat.tvm_ffi import core as core
from mblob.compat.tvm_ffi import error as error
from mblob.compat.tvm_ffi import module as module
from mblob.compat.tvm_ffi import registry as registry
from mblob.compat.tvm_ffi.core import Object as Object
from mblob.compat.tvm_ffi.module import load_module as load_module
from mblob.compat.tvm_ffi.module import system_lib as system_lib
from mblob.compat.tvm_ffi.registry import get_global_func as get_global_func
from mblob.compat.tvm_ffi.registry import get_global_func_metadata as get_global_func_metadata
from mblob.compat.tvm_ffi.registry import register_global_func as register_global_func
from mblob.compat.tvm_ffi.registry import remove_global_func as remove_global_func
from mblob.compat.tvm_ffi.values import DLDeviceType as DLDeviceType
from mblob.compat.tvm_ffi.values import bfloat16 as bfloat16
from mblob.compat.tvm_ffi.values import bool as bool
from mblob.compat.tvm_ffi.values import convert as convert
from mblob.compat.tvm_ffi.values import float4_e2m1fn as float4_e2m1fn
from mblob.compat.tvm_ffi.values import float4_e2m1fnx2 as float4_e2m1fnx2
from mblob.compat.tvm_ffi.values import float6_e2m3fn as float6_e2m3fn
from mblob.compat.tvm_ffi.values import float6_e3m2fn as float6_e3m2fn
from mblob.compat.tvm_ffi.values import float8_e3m4 as float8_e3m4
from mblob.compat.tvm_ffi.values import float8_e4m3 as float8_e4m3
from mblob.compat.tvm_ffi.values import float8_e4m3b11fnuz as float8_e4m3b11fnuz
from mblob.compat.tvm_ffi.values import float8_e4m3fn as float8_e4m3fn
from mblob.compat.tvm_ffi.values import float8_e4m3fnuz as float8_e4m3fnuz
from mblob.compat.tvm_ffi.values import float8_e5m2 as float8_e5m2
from mblob.compat.tvm_ffi.values import float8_e5m2fnuz as float8_e5m2fnuz
from mblob.compat.tvm_ffi.values import float8_e8m0fnu as float8_e8m0fnu
from mblob.compat.tvm_ffi.values import float16 as float16
from mblob.compat.tvm_ffi.values import float32 as float32
from mblob.compat.tvm_ffi.values import float64 as float64
from mblob.compat.tvm_ffi.values import from_dlpack as from_dlpack
from mblob.compat.tvm_ffi.values import int8 as int8
from mblob.compat.tvm_ffi.values import int16 as int16
from mblob.compat.tvm_ffi.values import int32 as int32
from mblob.compat.tvm_ffi.values import int64 as int64
from mblob.compat.tvm_ffi.values import uint8 as uint8
from mblob.compat.tvm_ffi.values import uint16 as uint16
from mblob.compat.tvm_ffi.values import uint32 as uint32
from mblob.compat.tvm_ffi.values import uint64 as uint64
from mblob.dtype import TypeName

Array = List = list
Dict = Map = dict
Function = PackedFunction
dtype = TypeName
__version__: str

def __getattr__(name: str) -> Any: ...  # of C++ compilers and of objects: a call is an error
