"""Arrays that others lend by DLPack (`__dlpack__`), as bytes: PyTorch's tensors have no buffer protocol.
`mblob.loader` has a faster reader of its own, for calls."""

from __future__ import annotations

import ctypes
import itertools
from math import prod
from typing import Any

from mblob.device_types import HOST
from mblob.dtype import DataType
from mblob.errors import ArgumentTypeError, ArgumentValueError, MblobError
from mblob.format.ndarray import NDIM_LIMIT, is_addressable


class _Tensor(ctypes.Structure):
    """A DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def read(source: Any) -> tuple[DataType, tuple[int, ...], memoryview]:
    """Element type, shape, and compact bytes, which keep what `source` lends. Rows that are not
    compact are copied.

    Raises:
        TypeError: it lends nothing, or memory of a device.
        ValueError: a shape or elements that cannot be.
    """
    what = type(source).__name__
    device = getattr(source, "__dlpack_device__", None)
    if device is not None and int(device()[0]) not in HOST:
        raise ArgumentTypeError(
            f"expected memory of the host, found {what} on device {tuple(map(int, device()))}; copy it first (x.cpu())"
        )
    try:
        capsule = source.__dlpack__()
    except MblobError:
        raise
    except Exception as exc:
        raise ArgumentTypeError(f"{what} gives no DLPack tensor: {exc}") from None
    t = _tensor(capsule, what)
    if t.device_type not in HOST:
        raise ArgumentTypeError(f"expected memory of the host, found {what} on a device")
    if not 0 <= t.ndim <= NDIM_LIMIT or (t.ndim and not t.shape):
        raise ArgumentValueError(f"{what} has {t.ndim} dimensions")
    shape = tuple(t.shape[: t.ndim])
    dtype = DataType.from_bytes(bytes(t.dtype)).of_ffi()
    if not dtype.is_possible or (dtype.bits * dtype.lanes % 8 and dtype.bits != 1):
        raise ArgumentValueError(
            f"{what} has elements of type {dtype}, which have no bytes of their own"
        )
    size, count = dtype.itemsize, prod(shape)
    if min(shape, default=0) < 0 or not is_addressable(shape, size) or (count and not t.data):
        raise ArgumentValueError(f"{what} has shape {shape}, which has no addresses")
    if not count:
        return dtype, shape, memoryview(b"")
    strides = t.strides[: t.ndim] if t.strides else None
    return dtype, shape, _bytes(capsule, t.data + t.byte_offset, shape, strides, size)


def _tensor(capsule: Any, what: str) -> _Tensor:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        address = pointer(capsule, b"dltensor")
    except ValueError:
        raise ArgumentTypeError(
            f"{what} gives no DLPack tensor, but {type(capsule).__name__}"
        ) from None
    found = _Tensor.from_address(address)
    found.capsule = capsule
    return found


def _bytes(
    capsule: Any, address: int, shape: tuple[int, ...], strides: list[int] | None, size: int
) -> memoryview:
    inner, run = len(shape), 1  # axes from `inner` on are compact: `run` elements
    while inner and (strides is None or shape[inner - 1] == 1 or strides[inner - 1] == run):
        inner -= 1
        run *= shape[inner]
    if inner == 0 or strides is None:
        memory = (ctypes.c_ubyte * (run * size)).from_address(address)
        memory.capsule = capsule  # type: ignore[attr-defined]
        return memoryview(memory).cast("B")
    rows = itertools.product(*map(range, shape[:inner]))
    starts = (sum(i * stride for i, stride in zip(row, strides)) for row in rows)
    return memoryview(b"".join(ctypes.string_at(address + at * size, run * size) for at in starts))
