"""Code of the Relay virtual machine, held to what `csrc/src/exec/relay/code.c` checks before it
runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from mblob.bytes.wire import Cursor
from mblob.format.ndarray import NDIM_LIMIT

# By opcode, the forms of an instruction, the latest first. What a letter means:
# `csrc/src/exec/relay/opcodes.h`.
_FORMS = (
    ("rd",), ("r",), ("fndR",), ("rndR",), ("pnxR",), ("rrtndS",), ("rrrtd",), ("indR",), ("fndR",), ("rxd",),
    ("rrjj",), ("kvd", "kd"), ("j",), ("rd",), ("id",), ("",), ("satvndS", "satvd", "satd"), ("rd",), ("rrd",),
    ("rvvd",), ("d",),
)  # fmt: skip
_RET, _INVOKE, _PACKED, _CLOSURE, _IF, _GOTO, _FATAL, _STORAGE = 1, 2, 4, 8, 10, 12, 15, 16
_REGISTERS_LIMIT, _ALIGNMENT_LIMIT, _DEVICE_LIMIT = 1 << 20, 65536, 1 << 15
_MASK = (1 << 64) - 1


class Function(NamedTuple):
    """One function: its name, numbers of parameters and registers, and (opcode, fields in the
    latest form)."""

    name: str
    params: int
    registers: int
    code: list[tuple[int, list[int]]]


class Program(NamedTuple):
    """What instructions refer to. `devices` is None where bytecode has no list of them."""

    names: list[str]
    primitives: int
    constants: int
    devices: int | None


def read_instruction(c: Cursor, what: str) -> tuple[int, list[int]]:
    """One instruction; its hash and its number of fields are right.

    Raises:
        FormatError: "payload", "truncated".
    """
    count = c.count(what, 8)
    if count < 2:
        raise c.fail(f"{what}: it has no opcode")
    declared, opcode, *numbers = struct.unpack(f"<2Q{count - 2}q", c.take(8 * count, what))
    if opcode >= len(_FORMS):
        raise c.fail(f"{what}: unknown opcode {opcode}")
    folded = opcode
    for number in numbers:
        folded ^= ((number & _MASK) + 0x9E3779B9 + (folded << 6) + (folded >> 2)) & _MASK
    if folded != declared:
        raise c.fail(f"{what}: its hash differs from what it says")
    form = next((form for form in _FORMS[opcode] if _fits(form, numbers)), None)
    if form is None:
        raise c.fail(f"{what}: {len(numbers)} fields are a wrong number for opcode {opcode}")
    return opcode, _latest(form, _FORMS[opcode][0], numbers)


def check(c: Cursor, program: Program, functions: Sequence[Function]) -> None:
    """Hold all functions against what they refer to.

    Raises:
        FormatError: "payload"; the text names function and instruction.
    """
    names = [f.name for f in functions]
    if len(set(program.names)) != len(program.names) or sorted(names) != sorted(program.names):
        raise c.fail("functions and globals differ")
    params = {f.name: f.params for f in functions}
    counts = [params[name] for name in program.names]
    for f in functions:
        if f.registers > _REGISTERS_LIMIT or f.params > f.registers or not f.code:
            raise c.fail(
                f"function {f.name!r}: {f.registers} registers, {f.params} parameters, {len(f.code)} instructions"
            )
        for pc, (opcode, fields) in enumerate(f.code):
            problem = _problem(program, counts, f, pc, opcode, fields)
            if problem is not None:
                raise c.fail(f"function {f.name!r}, instruction {pc}: {problem}")
        if f.code[-1][0] not in (_RET, _GOTO, _FATAL, _IF):
            raise c.fail(f"function {f.name!r}: it does not end in Ret, Goto, If or Fatal")


def check_device(program: Program, device: int) -> bool:
    """Whether a number may stand for a device."""
    return 0 <= device < (_DEVICE_LIMIT if program.devices is None else program.devices)


def _size(form: str) -> int:
    return sum(3 if kind == "t" else kind not in "RS" for kind in form)


def _fits(form: str, numbers: Sequence[int]) -> bool:
    size = _size(form)
    if form[-1:] not in ("R", "S"):
        return len(numbers) == size
    at = _size(form[: form.index("n")])
    return len(numbers) >= size and numbers[at] == len(numbers) - size


def _latest(form: str, latest: str, numbers: list[int]) -> list[int]:
    """The fields of an older form, 0 for those that it has not."""
    found, taken, at = [], 0, 0
    for kind in latest.rstrip("RS"):
        width = 3 if kind == "t" else 1
        has = form[at : at + 1] == kind
        found += numbers[taken : taken + width] if has else [0] * width
        taken, at = taken + has * width, at + has
    return found + numbers[taken:]


def _problem(
    program: Program,
    counts: Sequence[int],
    f: Function,
    pc: int,
    opcode: int,
    fields: Sequence[int],
) -> str | None:
    limits = {
        "r": f.registers, "d": f.registers, "f": len(counts), "p": program.primitives, "k": program.constants,
        "R": f.registers, "x": 1 << 63, "S": 1 << 63, "n": (1 << 31) - 1,
    }  # fmt: skip
    at = 0
    for kind in _FORMS[opcode][0]:
        width = 3 if kind == "t" else len(fields) - at if kind in "RS" else 1
        values = fields[at : at + width]
        if not all(_allowed(program, f, pc, kind, limits, value) for value in values):
            return f"field {at} of opcode {opcode} is impossible: {', '.join(map(str, values[:8]))}"
        if kind == "t" and not (
            0 <= values[0] < 256 and 0 < values[1] < 256 and 0 < values[2] < 65536
        ):
            return f"an impossible data type: {', '.join(map(str, values))}"
        if kind == "S" and width > NDIM_LIMIT:
            return f"{width} dimensions, expected at most {NDIM_LIMIT}"
        at += width
    if (opcode == _INVOKE and fields[1] != counts[fields[0]]) or (
        opcode == _CLOSURE and fields[1] > counts[fields[0]]
    ):
        return f"{fields[1]} arguments for a function of {counts[fields[0]]} parameters"
    if opcode == _PACKED and fields[2] > fields[1]:
        return "more outputs than arguments"
    if opcode == _STORAGE and fields[6] <= 0 and not 0 <= fields[0] < f.registers:
        return f"no register {fields[0]}"
    return None


def _allowed(
    program: Program, f: Function, pc: int, kind: str, limits: dict[str, int], value: int
) -> bool:
    if kind == "v":
        return check_device(program, value)
    if kind == "j":
        return value != 0 and 0 <= pc + value < len(f.code)
    if kind == "a":
        return 0 < value <= _ALIGNMENT_LIMIT and value & (value - 1) == 0
    return kind not in limits or 0 <= value < limits[kind]
