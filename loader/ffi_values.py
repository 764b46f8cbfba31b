"""Stand-ins for Python values that only functions of the ffi dialect take, as tvm_ffi has them for
its own functions, and our functions as objects of tvm_ffi.

The values that a program passes bring numpy or tvm_ffi along: neither is imported for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import c_void_p
from numbers import Real
from typing import Any

from mblob.devices import Device
from mblob.dtype import DataType
from mblob.errors import ArgumentTypeError
from mblob.loader import _call
from mblob.native.runtime import address_of, check, ffi, lib

_NUMPY_CODES = {"i": 0, "u": 1, "f": 2, "c": 5}  # of DLDataType


def stand_in(value: Any) -> Any:
    """The value that `mblob.loader._call` passes for `value`; None if nothing stands for it.

    Data types are (code, bits, lanes), devices a `Device`; objects of tvm_ffi and numbers are
    passed as such.

    Raises:
        TypeError: something stands for it, but not here; the text says what to do.
    """
    kind = type(value)
    if hasattr(kind, "__dlpack_data_type__"):
        return _runtime_dtype(*value.__dlpack_data_type__())
    if (known := getattr(value, "_tvm_ffi_dtype", None)) is not None:
        return _runtime_dtype(known.type_code, known.bits, known.lanes)
    if isinstance(value, str):
        return None
    if _is_numpy_dtype(value):
        return _numpy_dtype(value)
    if (device := _device(value)) is not None:
        return device
    for name, converted in _PROTOCOLS.items():
        if hasattr(kind, name):
            return converted(getattr(value, name)())
    if isinstance(value, dict):
        return None
    if hasattr(kind, "__index__"):
        return int(value.__index__())
    return float(value) if _is_real(value) else None


def _pointer(address: int) -> Any:
    return c_void_p(address)


def _itself(value: Any) -> Any:
    return value


# Methods of a value that give what is passed for it, and what becomes of their results.
_PROTOCOLS: dict[str, Callable[[Any], Any]] = {
    "__tvm_ffi_object__": _itself,
    "__tvm_ffi_value__": lambda value: list(value) if type(value) is tuple else value,
    "__tvm_ffi_int__": int,
    "__tvm_ffi_float__": float,
    "__tvm_ffi_opaque_ptr__": _pointer,
    "__cuda_stream__": lambda stream: _pointer(stream[1]),  # (version, handle)
}


def _runtime_dtype(code: int, bits: int, lanes: int) -> tuple[int, int, int]:
    # as the runtime numbers them; libmblob-ffi.so renames them
    known = DataType(code, bits, lanes).of_ffi()
    return (known.code, known.bits, known.lanes)


def _is_numpy_dtype(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.dtype)


def _numpy_dtype(dtype: Any) -> tuple[int, int, int]:
    if dtype.kind == "b":
        return (1, 1, 1)
    # ml_dtypes has one of the kind of numpy's own floats
    if dtype.kind in _NUMPY_CODES and dtype.isnative and dtype.isbuiltin == 1:
        return (_NUMPY_CODES[dtype.kind], dtype.itemsize * 8, 1)
    try:
        # bfloat16 and the like of ml_dtypes
        known = DataType.parse(dtype.name if dtype.isnative else str(dtype))
    except ValueError:
        raise ArgumentTypeError(
            f"functions have no data type for numpy's {dtype}; pass one of native numbers"
        ) from None
    return (known.code, known.bits, known.lanes)


def _device(value: Any) -> Any:
    """The device that `value` is, of tvm_ffi or by its `__dlpack_device__`; None if it is none."""
    tvm_ffi = sys.modules.get("tvm_ffi")
    if tvm_ffi is not None and isinstance(value, tvm_ffi.Device):
        return Device(value.dlpack_device_type(), value.index)
    if hasattr(type(value), "__dlpack_device__") and not hasattr(type(value), "__dlpack__"):
        device_type, device_id = value.__dlpack_device__()
        return Device(int(device_type), int(device_id))
    return None


def _is_real(value: Any) -> bool:
    return isinstance(value, Real)


# -- our functions as objects of tvm_ffi -----------------------------------------------------------

_receive: Any = None  # tvm_ffi's function that makes its Python object of an address


def function_object(address: int) -> Any:
    """The `tvm_ffi.Function` of the mblob_function at `address`; the very object if it came from
    tvm_ffi.

    Raises:
        ImportError: tvm_ffi is not installed.
        IncompatibleError: libmblob-ffi.so is not there.
    """
    import tvm_ffi

    global _receive
    if _receive is None:
        _receive = tvm_ffi.Function.__from_extern_c__(_call.ffi_hand_over())
    out = ffi.new("void **")
    check(lib.mblob_function_to_ffi(ffi.cast("mblob_function *", address), out))
    return _receive(address_of(out[0]))  # which takes the reference
