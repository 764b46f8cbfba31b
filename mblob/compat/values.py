"""Element types, devices and conversions of tvm_ffi."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import mblob
from mblob import Tensor
from mblob.dtype import TypeName
from mblob.errors import ArgumentValueError


class DLDeviceType(IntEnum):
    """Types of devices, with DLPack's numbers."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


bool = TypeName("bool")
int8, int16, int32, int64 = map(TypeName, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(TypeName, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64, bfloat16 = map(TypeName, ("float16", "float32", "float64", "bfloat16"))
float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fn = map(
    TypeName, ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn")
)
float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = map(
    TypeName, ("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
)
float6_e2m3fn, float6_e3m2fn, float4_e2m1fn, float4_e2m1fnx2 = map(
    TypeName, ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "float4_e2m1fnx2")
)


def from_dlpack(
    ext_tensor: Any, *, require_alignment: int = 0, require_contiguous: object = False
) -> Tensor:
    """`mblob.from_dlpack`: a view of the array of another library.

    Args:
        require_alignment: bytes that the address must be a multiple of; 0: any.
        require_contiguous: refuse an array with strides.

    Raises:
        ValueError: the array is not aligned, or not contiguous.
    """
    tensor = mblob.from_dlpack(ext_tensor)
    if require_alignment and tensor.data_ptr() % require_alignment:
        raise _refused(f"its address is not a multiple of {require_alignment}")
    if require_contiguous and not tensor.is_contiguous():
        raise _refused("it is not contiguous")
    return tensor


def _refused(what: str) -> Exception:
    return ArgumentValueError(f"from_dlpack: {what}; pass a copy of the array")


def convert(value: Any) -> Any:
    """The argument that a function of tvm_ffi gets for a value: a function for a callable, a tensor
    for an array; other values stay as they are."""
    if isinstance(value, (mblob.PackedFunction, Tensor, type)):
        return value
    if callable(value):
        return mblob.packed_function(value)
    if hasattr(value, "__dlpack__"):
        return mblob.from_dlpack(value)
    return value
