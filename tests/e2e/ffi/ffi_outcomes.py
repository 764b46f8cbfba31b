"""Outcomes of calls of the kernels of ffi_kernels.py: `python -m tests.e2e.ffi.ffi_outcomes
tvm|mblob LIBRARY`.

Printed as JSON: [name, outcome] per call. An outcome is the result or the error (kind, text), what
callbacks got, and what the tensors hold afterwards.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, Callable[[], list[Any]]]
HOST, LIBRARY = sys.argv[1:3] if __name__ == "__main__" else ("", "")
LOG: list[str] = []
INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
E4M3, E5M2, E2M1 = 10, 12, 17


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p * 2),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Memory:
    """Bytes, aligned to 64, with any description of DLPack's."""

    def __init__(self, data: bytes, code: int, bits: int, shape: tuple[int, ...], *, lanes: int = 1,
                 strides: tuple[int, ...] | None = None, offset: int = 0) -> None:  # fmt: skip
        self.size = len(data)
        self.store = ctypes.create_string_buffer(self.size + 64)
        self.address = -(-ctypes.addressof(self.store) // 64) * 64
        ctypes.memmove(self.address, data, self.size)
        extents = ctypes.c_int64 * max(1, len(shape))
        self.shape = extents(*shape)
        self.strides = extents(*strides) if strides is not None else None
        self.tensor = DLTensor(self.address, (1, 0), len(shape), code, bits, lanes, ctypes.addressof(self.shape),
                               ctypes.addressof(self.strides) if self.strides else None, offset)  # fmt: skip

    def __dlpack__(self, **_options: object) -> Any:
        return new_capsule(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def content(self) -> str:
        return ctypes.string_at(self.address, self.size).hex()


def memory(array: Any, **options: Any) -> Memory:
    array = np.asarray(array)
    code = {"i": INT, "u": UINT, "f": FLOAT, "b": BOOL}[array.dtype.kind]
    return Memory(array.tobytes(), code, array.dtype.itemsize * 8, array.shape, **options)


def floats(*shape: int) -> Memory:
    return memory(np.arange(math.prod(shape), dtype="float32").reshape(shape))


def zeros(dtype: str, *shape: int) -> Memory:
    return memory(np.zeros(shape, dtype))


def part(shape: tuple[int, ...], **options: Any) -> Memory:
    """A description of a part of 48 floats."""
    return Memory(np.arange(48, dtype="float32").tobytes(), FLOAT, 32, shape, **options)


# -- cases -----------------------------------------------------------------------------------------


def of_arguments() -> Iterator[Case]:
    somewhere = ctypes.c_void_p(0x1234)
    good = [1, 2, 3.5, 4.5, True, somewhere, 200, -3]
    yield "send", lambda: [floats(2, 3), *good]
    changes = [(4, False), (5, None), (0, True), (1, 2**62), (2, 3), (6, 300), (7, -70000), (0, 2**40), (0, 1.5),
               (2, "x"), (4, 2.0), (5, 5), (5, "text"), (5, b"bytes"), (0, None), (3, None)]  # fmt: skip
    for i, value in changes:
        yield "send", lambda i=i, value=value: [floats(2, 3), *good[:i], value, *good[i + 1 :]]
    yield "send", lambda: [floats(2, 3), *good[:-1]]
    yield "send", lambda: []
    for first in (floats(3, 2), floats(6), zeros("float64", 2, 3), None, "A", [1]):
        yield "send", lambda first=first: [first, *good]
    numbers = [
        0,
        -1,
        127,
        128,
        255,
        256,
        2**31,
        2**32 - 1,
        2**63 - 1,
        -(2**63),
        True,
        1.5,
        1e40,
        None,
        "x",
        b"b",
    ]
    for name in ("int8", "uint32", "uint64", "bool", "float32"):
        for value in (*numbers, np.int8(-3), np.float32(2.5)):
            yield f"take_{name}", lambda name=name, value=value: [zeros(name, 1), value]


def of_types() -> Iterator[Case]:
    types = {"int8": (INT, 8), "uint64": (UINT, 64), "bfloat16": (BFLOAT, 16), "float8_e4m3fn": (E4M3, 8),
             "float8_e5m2": (E5M2, 8), "float16": (FLOAT, 16), "int4": (INT, 4), "uint4": (UINT, 4), "int2": (INT, 2),
             "float4_e2m1fn": (E2M1, 4), "uint16x2": (UINT, 16)}  # fmt: skip
    for name, (code, bits) in types.items():
        lanes = 2 if name.endswith("x2") else 1
        data = bytes((7 * i + 3) % 256 for i in range(2 * bits * lanes))
        out = bytes(len(data))
        yield f"copy_{name}", lambda d=data, o=out, c=code, b=bits, n=lanes: [
            Memory(d, c, b, (16,), lanes=n), Memory(o, c, b, (16,), lanes=n)]  # fmt: skip
        yield f"copy_{name}", lambda d=data, o=out, c=code, b=bits, n=lanes: [
            Memory(d, c, b, (16,), lanes=n), Memory(o, c, b, (15,), lanes=n)]  # fmt: skip
        yield (
            f"copy_{name}",
            lambda o=out, c=code, b=bits, n=lanes: [floats(16), Memory(o, c, b, (16,), lanes=n)],
        )
    flags = np.arange(16) % 3 == 0
    for name in ("copy_bool", "negated"):
        yield name, lambda: [memory(flags), zeros("bool", 16)]
        yield name, lambda: [memory(flags.view("uint8")), zeros("bool", 16)]
    yield "above", lambda: [floats(16), zeros("bool", 16), 7.5]
    yield "half_sum", lambda: [memory(np.arange(16, dtype="float16")), zeros("float16", 16)]
    yield "vectors", lambda: [floats(64), zeros("float32", 64)]


def of_shapes() -> Iterator[Case]:
    yield "no_rank", lambda: [memory(np.float32(3)), zeros("float32")]
    yield "no_rank", lambda: [floats(1), zeros("float32")]
    for strides in ((8, 1), (4, 1), None, (1, 3), (-4, 1), (0, 0)):
        yield (
            "gaps",
            lambda strides=strides: [part((3, 4), strides=strides), zeros("float32", 3, 4)],
        )
    yield "gaps", lambda: [part((3, 4), strides=(8, 1)), part((3, 4), strides=(1, 3))]
    shapes: list[tuple[tuple[int, ...], tuple[int, ...], int]]
    shapes = [
        ((3, 5), (5, 3), 16),
        ((0, 5), (5, 0), 1),
        ((3, 5), (3, 5), 16),
        ((3, 5), (5, 3), 15),
        ((15,), (5, 3), 9),
    ]
    for a, b, n in shapes:
        yield "symbolic", lambda a=a, b=b, n=n: [floats(*a), floats(*b), zeros("float32", n)]
    yield "symbolic", lambda: [part((3, 5), strides=(7, 1)), floats(5, 3), zeros("float32", 16)]
    yield "symbolic", lambda: [part((1, 5), strides=(77, 1)), floats(5, 1), zeros("float32", 6)]
    for k in (2, 3, -1):
        yield "shifted", lambda k=k: [floats(4), zeros("float32", 6), k]
    for at in (0, 4, 8, 64):
        yield "offset", lambda at=at: [part((4,), offset=at), zeros("float32", 4)]
    yield "offset", lambda: [part((4,), strides=(2,)), zeros("float32", 4)]


def of_code() -> Iterator[Case]:
    yield "rows", lambda: [floats(16, 64), zeros("float32", 16, 64)]
    yield "workspace", lambda: [memory(np.arange(1024, dtype="int32")), zeros("int32", 1024)]
    for n in (0, 1, 999):
        yield "wide_loop", lambda n=n: [memory(np.arange(n, dtype="int64")), zeros("int64", n)]
    yield "mathematics", lambda: [memory(np.arange(1, 9) / 2), zeros("float64", 8)]
    for n in (3, 0, -1):
        yield "positive", lambda n=n: [n]
    yield "late", lambda: [zeros("float32", 4), 10]
    yield "late", lambda: [zeros("float32", 4), 2]
    yield "calls_in_tasks", lambda: [zeros("int32", 8)]
    yield "asserts_in_tasks", lambda: [floats(64), 64]
    yield "asserts_in_tasks", lambda: [memory(np.full(64, 5, "float32")), 2]
    for name in ("give_int", "give_uint8", "give_float", "give_bool", "give_nothing"):
        for n in (0, 3, 300, -1, 2**31 - 1):
            yield name, lambda n=n: [n]
    yield "lends", lambda: [floats(4, 6)]
    yield "misses", lambda: [zeros("float32", 4)]
    yield "main", lambda: [floats(4), 3]
    yield "twice", lambda: [3]
    yield "four_times", lambda: [3]
    yield "add_to", lambda: [3]


def cases() -> Iterator[Case]:
    for group in (of_arguments, of_types, of_shapes, of_code):
        yield from group()


# -- running them ----------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value, the same for both hosts: they give pointers and tensors in forms of their own."""
    is_address = type(value) is int and (value == 0x1234 or (value > 2**44 and value % 2**32 != 0))
    if is_address or isinstance(value, ctypes.c_void_p):
        return "pointer"
    if hasattr(value, "__dlpack__"):
        return f"{value.dtype} {tuple(value.shape)}"
    return f"{type(value).__name__} {value!r}"


def see(*values: Any) -> None:
    LOG.append(", ".join(map(shown, values)))


def fail_in(task: int, _data: Any) -> None:
    if task >= 5:
        raise ValueError(f"task {task}")


def failure(error: Exception) -> str:
    kind = getattr(error, "kind", "") or type(error).__name__
    return f"{kind} | {str(error).removeprefix(f'{kind}: ')}"


def outcome(library: Any, name: str, arguments: list[Any]) -> list[str]:
    LOG.clear()
    try:
        function = library[name]
    except AttributeError:
        return ["absent"]
    memories = [a for a in arguments if isinstance(a, Memory)]
    if HOST == "tvm":
        import tvm_ffi

        arguments = [tvm_ffi.from_dlpack(a) if isinstance(a, Memory) else a for a in arguments]
    try:
        result = shown(function(*arguments))
    except Exception as error:
        result = failure(error)
    return [result, *LOG, *(m.content() for m in memories)]


def main() -> None:
    callbacks = {"t.see": see, "t.tensors": see, "t.task": fail_in}
    if HOST == "tvm":
        import tvm
        import tvm_ffi

        for name, function in callbacks.items():
            tvm_ffi.register_global_func(name, function)
        library = tvm.runtime.load_module(LIBRARY)
    else:
        import mblob

        for name, function in callbacks.items():
            mblob.register_func(name, function)
        library = mblob.load_module(LIBRARY)
    print(json.dumps([[name, outcome(library, name, make())] for name, make in cases()]))


if __name__ == "__main__":
    main()
