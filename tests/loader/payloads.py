"""Payloads as TVM writes them (docs/format.md, section 3), for tests: written here independently of
the readers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import mblob

CODES = {"i": 0, "u": 1, "f": 2}
ARGUMENT_TYPES = {
    "handle": (3, 64), "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8),
    "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64), "float32": (2, 32), "float64": (2, 64), "bool": (1, 1),
}  # fmt: skip


def unread_module(key: str, payload: bytes) -> mblob.Module:
    """A module that is packed as it is, damaged or not, as another packager may write it."""
    module = mblob.blob_module(key, payload)
    module._node.is_unread = False  # type: ignore[attr-defined]
    return module


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str) -> bytes:
    data = value.encode()
    return u64(len(data)) + data


def texts(values: Iterable[str]) -> bytes:
    items = list(values)
    return u64(len(items)) + b"".join(map(text, items))


def device_code(
    fmt: str, code: bytes, *functions: tuple[str, Sequence[str], Sequence[str]]
) -> bytes:
    """Kernels for a device, (name, argument types, launch tags) each."""
    out = text(fmt) + u64(len(functions))
    for name, types, tags in functions:
        out += text(name) + text("") + u64(len(types))
        out += b"".join(struct.pack("<BBH", *ARGUMENT_TYPES[t], 1) for t in types) + texts(tags)
    return out + u64(len(code)) + code


def numbers(values: Iterable[int]) -> bytes:
    items = list(values)
    return u64(len(items)) + struct.pack(f"<{len(items)}q", *items)


def dtype_fields(dtype: Any) -> tuple[int, int, int]:
    """(code, bits, lanes) of a numpy dtype."""
    kind = np.dtype(dtype)
    if kind.name == "bfloat16":
        return 4, 16, 1
    return (1, 1, 1) if kind == np.bool_ else (CODES[kind.kind], 8 * kind.itemsize, 1)


def array(value: Any) -> bytes:
    """An NDArray record."""
    a = np.ascontiguousarray(value)
    head = struct.pack(
        "<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, np.ndim(value), *dtype_fields(a.dtype)
    )
    return head + struct.pack(f"<{np.ndim(value)}q", *np.shape(value)) + u64(a.nbytes) + a.tobytes()


def const_loader(constants: Mapping[str, Any], symbols: Mapping[str, Sequence[str]]) -> bytes:
    arrays = b"".join(array(v) for v in constants.values())
    lists = b"".join(texts(v) for v in symbols.values())
    return (
        texts(constants) + u64(len(constants)) + arrays + texts(symbols) + u64(len(symbols)) + lists
    )


def aot_factory(params: Mapping[str, Any], name: str) -> bytes:
    return (
        u64(len(params)) + texts(params) + b"".join(array(v) for v in params.values()) + text(name)
    )
