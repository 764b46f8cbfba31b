"""Payloads as TVM writes them (docs/format.md, section 3), for tests: written here independently of the readers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

CODES = {"i": 0, "u": 1, "f": 2}


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
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, np.ndim(value), *dtype_fields(a.dtype))
    return head + struct.pack(f"<{np.ndim(value)}q", *np.shape(value)) + u64(a.nbytes) + a.tobytes()


def const_loader(constants: Mapping[str, Any], symbols: Mapping[str, Sequence[str]]) -> bytes:
    arrays = b"".join(array(v) for v in constants.values())
    lists = b"".join(texts(v) for v in symbols.values())
    return texts(constants) + u64(len(constants)) + arrays + texts(symbols) + u64(len(symbols)) + lists


def aot_factory(params: Mapping[str, Any], name: str) -> bytes:
    return u64(len(params)) + texts(params) + b"".join(array(v) for v in params.values()) + text(name)
