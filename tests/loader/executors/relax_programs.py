"""Programs of the Relax virtual machine as TVM writes them: an assembler, and a program that needs
no kernels.

`python -m tests.loader.executors.relax_programs tests/c/exec/relax_programs.bin` writes it for the
C tests.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np

import mblob
from tests.loader.payloads import array, numbers, text, texts, u64

MAGIC = 0xD225DE2F4214151D
VOID, VM = 1 << 54, (1 << 54) + 1
PACKED, CODE, COMPILED = range(3)
TAGS = {  # tensor, dtype, shape, string, int, float
    "classic": (0, 1, 2, 3, 4, 5),
    "0.21": (72, 5, 71, 65, 1, 3),
    "ffi": (70, 5, 69, 65, 1, 3),
}


def r(i: int) -> int:
    """An operand: a register."""
    return i


def i(value: int) -> int:
    """A number."""
    return 1 << 56 | value & (1 << 56) - 1


def c(index: int) -> int:
    """A constant."""
    return 2 << 56 | index


def f(index: int) -> int:
    """A function."""
    return 3 << 56 | index


def call(function: int, operands: Sequence[int] = (), to: int = VOID) -> list[int]:
    return [1, to, function, len(operands), *operands]


def ret(register: int) -> list[int]:
    return [2, register]


def goto(offset: int) -> list[int]:
    return [3, offset]


def branch(register: int, offset: int) -> list[int]:
    return [4, register, offset]


@dataclass
class Function:
    """A row of the table."""

    name: str
    code: Sequence[Sequence[int]] | None = None
    params: Sequence[str] = ()
    registers: int = 8
    kind: int | None = None
    num_args: int | None = None
    place: tuple[int, int] | None = None


@dataclass
class Program:
    """A program; what is not said is as TVM writes it."""

    functions: Sequence[Function]
    constants: Sequence[Any] = ()
    dialect: str = "ffi"
    magic: int = MAGIC + 1
    version: str = "0.14"
    scopes: Mapping[int, str] = field(default_factory=dict)
    offsets: Sequence[int] | None = None
    words: Sequence[int] | None = None
    tail: bytes = b""

    def payload(self) -> bytes:
        rows, code = [], []
        for function in self.functions:
            start = len(code)
            code += function.code or []
            rows.append(self._row(function, start, len(code)))
        words = [word for instruction in code for word in instruction]
        ends = np.cumsum([0, *map(len, code)])
        offsets = [int(end) for end in ends[:-1]] if self.offsets is None else self.offsets
        parts = [u64(self.magic), text(self.version), u64(len(rows)), *rows]
        if self.magic & 0xFF == 0x1E:
            parts += [u64(len(self.scopes))]
            parts += [u64(k) + text(scope) for k, scope in self.scopes.items()]
        parts += [u64(len(self.constants)), *map(self._constant, self.constants)]
        parts += [numbers(offsets), numbers(words if self.words is None else self.words), self.tail]
        return b"".join(parts)

    def _row(self, function: Function, start: int, end: int) -> bytes:
        kind = function.kind
        if kind is None:
            kind = PACKED if function.code is None else CODE
        count = function.num_args
        if count is None:
            count = -2 if kind == PACKED else len(function.params)
        place = function.place or ((start, end) if kind == CODE else (0, 0))
        registers = function.registers if kind != PACKED else 0
        return (
            pack("<i", kind)
            + text(function.name)
            + pack("<4q", *place, count, registers)
            + texts(function.params)
        )

    def _constant(self, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        tags = TAGS[self.dialect]
        if isinstance(value, np.ndarray):
            return pack("<i", tags[0]) + array(value)
        if isinstance(value, np.dtype):
            code = {"i": 0, "u": 1, "f": 2}[value.kind]
            return pack("<iBBH", tags[1], code, 8 * value.itemsize, 1)
        if isinstance(value, (mblob.Shape, tuple)):
            return pack(f"<iQ{len(value)}q", tags[2], len(value), *value)
        if isinstance(value, str):
            return pack("<i", tags[3]) + text(value)
        if isinstance(value, int):
            return pack("<iq", tags[4], value)
        return pack("<id", tags[5], value)


BUILTINS = [
    "alloc_storage", "alloc_tensor", "alloc_shape_heap", "match_shape", "make_shape", "check_tensor_info", "make_tuple",
    "tuple_getitem", "reshape", "shape_of", "copy", "null_value", "read_if_cond", "make_closure", "invoke_closure",
    "check_shape_info", "make_prim_value", "tuple_reset_item",
]  # fmt: skip
F32 = np.dtype("float32")
(
    STORAGE, TENSOR, HEAP, MATCH, SHAPE, CHECK, TUPLE, ITEM, RESHAPE, SHAPE_OF, COPY, NULL, COND, CLOSURE, INVOKE,
    CHECK_SHAPE, PRIM, RESET,
) = range(len(BUILTINS))  # fmt: skip


def sample(dialect: str = "ffi", magic: int = MAGIC + 1) -> Program:
    """Functions that use each kind of value, jumps, calls, closures and recursion."""
    first = len(BUILTINS)
    _main, down, pair, bind, inner, deep = range(first, first + 6)
    constants: list[Any] = [
        np.arange(6, dtype="float32").reshape(2, 3), F32, (2, 3), (24,), np.dtype("uint8"), "global",
        "ErrorContext(fn=main) ", (6,), 1 << 60, 0.5,
    ]  # fmt: skip
    functions = [Function(f"vm.builtin.{name}") for name in BUILTINS]
    functions += [
        Function("main", [
            call(CHECK, [r(0), i(2), c(1), c(6)]),
            call(HEAP, [VM, i(2)], 1),
            call(MATCH, [r(0), r(1), i(2), i(1), i(0), i(1), i(1), c(6)]),
            call(SHAPE, [r(1), i(2), i(1), i(1), i(1), i(0)], 2),
            call(STORAGE, [VM, c(3), i(0), c(4), c(5)], 3),
            call(TENSOR, [r(3), i(0), c(2), c(1)], 4),
            call(NULL, [], 3),
            call(RESHAPE, [c(0), r(2)], 5),
            call(TUPLE, [r(0), r(2), c(6), c(8), c(9), i(-7), VOID, r(5)], 6),
            ret(6),
        ], ["x"]),
        Function("down", [  # down(n): n tuples inside each other
            call(COND, [r(0)], 1),
            branch(1, 3),
            call(pair, [r(0), i(0)], 2),
            goto(2),
            call(COPY, [c(7)], 2),
            ret(2),
        ], ["n"]),
        Function("pair", [call(down, [r(1)], 2), call(TUPLE, [r(0), r(2)], 3), ret(3)], ["a", "b"]),
        Function("bind", [call(CLOSURE, [f(inner), r(0), c(5)], 1), ret(1)], ["x"]),
        Function("inner", [
            call(TUPLE, [r(0), r(1), r(2)], 3),
            call(ITEM, [r(3), i(1)], 4),
            call(TUPLE, [r(4), r(3)], 4),
            ret(4),
        ], ["y", "x", "scope"]),
        Function("deep", [call(deep, [r(0)], 1), ret(1)], ["x"]),
        Function("invoked", [
            call(bind, [r(0)], 1),
            call(INVOKE, [VM, r(1), r(0)], 2),
            ret(2),
        ], ["x"]),
    ]  # fmt: skip
    return Program(functions, constants, dialect, magic)


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(sample().payload())
