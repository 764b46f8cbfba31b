"""Arrays that others lend by DLPack (`__dlpack__`, or a capsule), as bytes: PyTorch's tensors have no buffer
protocol. `mblob.loader` has a faster reader of its own, for calls, which takes the same."""

from __future__ import annotations

import ctypes
import itertools
from math import prod
from typing import Any

from mblob import texts
from mblob.arguments import is_capsule
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


class _Managed(ctypes.Structure):
    """A DLManagedTensor."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """A DLManagedTensorVersioned, which alone can lend memory that is read-only."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_KINDS: dict[bytes, type[_Managed] | type[_Versioned]] = {
    b"dltensor": _Managed,
    b"dltensor_versioned": _Versioned,
}
_VERSION = (1, 0)
_PADDED = 4  # of the flags
# Names of capsules whose tensor is taken; the capsules keep their addresses.
_USED = {name: b"used_" + name for name in _KINDS}
# Prototypes of our own: those of `ctypes.pythonapi` are the whole process's.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi)
)


class _Taken:
    """The content of a capsule, which is deleted with this object."""

    def __init__(self, managed: _Managed | _Versioned) -> None:
        self.managed = managed

    def __del__(self) -> None:
        if self.managed.deleter:
            delete = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)
            delete(ctypes.addressof(self.managed))


def read(source: Any) -> tuple[DataType, tuple[int, ...], memoryview]:
    """Element type, shape, and compact bytes, which keep what `source` lends. Rows that are not
    compact are copied. A capsule cannot be used again.

    Raises:
        TypeError: it lends nothing, or memory of a device.
        ValueError: a shape or elements that cannot be.
    """
    what = type(source).__name__
    device = getattr(source, "__dlpack_device__", None)
    try:
        place = (HOST[0], 0) if device is None else tuple(map(int, device()))
        if place[0] not in HOST:
            raise ArgumentTypeError(
                f"expected memory of the host, found {what} on device {place}; copy it first (x.cpu())"
            )
        taken = _taken(source if is_capsule(source) else _capsule_of(source), what)
    except MblobError:
        raise
    except Exception as exc:
        raise ArgumentTypeError(f"{what} gives no DLPack tensor: {exc}") from None
    if getattr(taken.managed, "flags", 0) & _PADDED:
        raise ArgumentValueError(f"{what}: {texts.DLPACK_PADDED}")
    t = taken.managed.tensor
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
    return dtype, shape, _bytes(taken, t.data + t.byte_offset, shape, strides, size)


def _capsule_of(source: Any) -> Any:
    """The capsule of an array. Only one with a version tells of memory that is read-only; producers from before
    DLPack 1.0 do not know the keyword."""
    try:
        return source.__dlpack__(max_version=_VERSION)
    except TypeError:
        return source.__dlpack__()


def _taken(capsule: Any, what: str) -> _Taken:
    """The content of a capsule, which nobody else can take from it from now on."""
    name = (_name_of(capsule) or b"") if is_capsule(capsule) else b""
    if name not in _KINDS:
        found = f"a capsule {name.decode()!r}" if is_capsule(capsule) else type(capsule).__name__
        used = name in _USED.values()
        how = "; ask the array for a new one, __dlpack__()" if used else ""
        raise ArgumentTypeError(f"{what} gives no DLPack tensor, but {found}{how}")
    kind = _KINDS[name]
    managed = kind.from_address(_pointer_of(capsule, name))
    if isinstance(managed, _Versioned) and managed.major != _VERSION[0]:
        raise ArgumentTypeError(
            f"{what} gives a tensor of DLPack {managed.major}.{managed.minor}, expected {_VERSION[0]}.x"
        )
    _rename(capsule, _USED[name])
    return _Taken(managed)


def _bytes(
    taken: _Taken, address: int, shape: tuple[int, ...], strides: list[int] | None, size: int
) -> memoryview:
    inner, run = len(shape), 1  # axes from `inner` on are compact: `run` elements
    while inner and (strides is None or shape[inner - 1] == 1 or strides[inner - 1] == run):
        inner -= 1
        run *= shape[inner]
    if inner == 0 or strides is None:
        memory = (ctypes.c_ubyte * (run * size)).from_address(address)
        memory.taken = taken  # type: ignore[attr-defined]
        return memoryview(memory).cast("B")
    rows = itertools.product(*map(range, shape[:inner]))
    starts = (sum(i * stride for i, stride in zip(row, strides)) for row in rows)
    return memoryview(b"".join(ctypes.string_at(address + at * size, run * size) for at in starts))
