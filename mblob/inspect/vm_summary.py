"""What the executables of the Relay virtual machine say in short: docs/format.md, section 3."""

from __future__ import annotations

import re
from typing import Any

from mblob.bytes.wire import Cursor
from mblob.errors import FormatError
from mblob.format.grammar import strings, text
from mblob.format.ndarray import ArrayRecord, read_ndarray
from mblob.inspect import vm_code

MAGIC = 0xD225DE2F4214151D
_EARLY_0_8 = (0, 7, 5)  # builds before 0.8: without attributes
# of the Relay machine, csrc/src/exec/relay/reader.c
_LAYOUTS = ((0, 14), (0, 9), (0, 8), _EARLY_0_8, (0, 7))


def relay(
    code: memoryview, base: int, check: bool = False
) -> tuple[dict[str, Any], list[tuple[str, ArrayRecord]]]:
    """An executable of the Relay VM (TVM 0.7 - 0.19): summary, constants by name.

    Args:
        base: offset of `code` in the payload, which offsets of constants count from.
        check: look at every instruction, as loading does.

    Raises:
        FormatError: "payload", "truncated".
    """
    c = Cursor(code)
    version = _head(c, (MAGIC,))
    start, first = c.pos, None
    for release in _layouts(version):
        try:
            c.pos = start
            return _relay_sections(c, base, version, release, check)
        except FormatError as error:
            first = first or error
    assert first is not None
    raise first


def _layouts(version: str) -> list[tuple[int, ...]]:
    """Layouts of sections, that of the version first: builds between releases carry the next
    version."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", version)
    minor = int(found[2]) if found and int(found[1]) == 0 else 99
    named = next(
        i for i, layout in enumerate(_LAYOUTS) if layout[1] <= minor or layout == _LAYOUTS[-1]
    )
    return [*_LAYOUTS[named:], *_LAYOUTS[:named]]


def _relay_sections(
    c: Cursor, base: int, version: str, release: tuple[int, ...], check: bool
) -> tuple[dict[str, Any], list[tuple[str, ArrayRecord]]]:
    devices = _devices(c, release) if release >= (0, 9) else []
    functions = _names(c, "globals")
    arrays: list[tuple[str, ArrayRecord]] = []
    late = []
    constants = c.count("constants", 4)
    for i in range(constants):
        tag = c.u32(f"constant {i}") if release >= (0, 9) else 0
        if tag == 1:
            late.append(text(c.string(f"constant {i}")))
        elif tag == 0:
            arrays.append((f"constant {i}", _moved(read_ndarray(c, f"constant {i}"), base)))
        else:
            raise c.fail(f"constant {i} is of kind {tag}, expected 0 or 1")
    of_constants = c.u64s("devices of constants") if release >= _EARLY_0_8 else None
    primitives = _names(c, "primitives")
    for _ in range(c.count("attributes", 16) if release >= (0, 8) else 0):
        c.u64("attributes")
        for _ in range(2 * c.count("attributes", 16)):
            c.skip_string("attributes")
    program = vm_code.Program(
        functions, len(primitives), constants, len(devices) if release >= (0, 9) else None
    )
    if check and of_constants is not None:
        _check_devices(c, "constants", program, of_constants, constants)
    return {
        "machine": "relay",
        "version": version,
        "devices": devices,
        "globals": functions,
        "functions": _relay_functions(c, release, program if check else None),
        "primitives": primitives,
        "constants": constants,
        "late_constants": late,
    }, arrays


def _names(c: Cursor, what: str) -> list[str]:
    found = [text(s) for s in strings(c, what)]
    if any("\0" in name for name in found):
        raise c.fail(f"{what}: a name has a NUL byte")
    return found


def _check_devices(
    c: Cursor, what: str, program: vm_code.Program, found: tuple[int, ...], count: int
) -> None:
    if len(found) != count or not all(vm_code.check_device(program, device) for device in found):
        raise c.fail(f"{what}: {count} have {len(found)} devices, or one has a device that is none")


def _relay_functions(
    c: Cursor, release: tuple[int, ...], program: vm_code.Program | None
) -> list[dict[str, Any]]:
    """Functions in short. With a program, each instruction is read and held against it."""
    found = []
    checked = []
    for i in range(c.count("functions", 24)):
        head = _names(c, f"function {i}")
        if len(head) != 3 or not all(re.fullmatch("[0-9]{1,9}", n, re.ASCII) for n in head[1:]):
            raise c.fail(f"function {i}: {len(head)} fields, expected a name and two numbers")
        params = _names(c, f"function {i}: params")
        devices = c.u64s(f"function {i}: devices") if release >= _EARLY_0_8 else None
        if program is not None and devices is not None:
            _check_devices(c, f"parameters of function {i}", program, devices, len(params))
        instructions = int(head[2])
        if instructions > c.left // 8:
            raise c.fail(
                f"function {i}: {instructions} instructions, {c.left} bytes are left", "truncated"
            )
        if program is None:
            for _ in range(instructions):
                c.skip(8 * c.count("instruction", 8), "instruction")
        else:
            code = [
                vm_code.read_instruction(c, f"function {head[0]!r}, instruction {k}")
                for k in range(instructions)
            ]
            checked.append(vm_code.Function(head[0], len(params), int(head[1]), code))
        found.append(_function("vm", head[0], len(params), int(head[1]), instructions, params))
    if c.left:
        raise c.fail(f"{c.left} bytes follow the last function")
    if program is not None:
        vm_code.check(c, program, checked)
    return found


def _function(
    kind: str, name: str, args: int, registers: int, instructions: int, params: list[str]
) -> dict[str, Any]:
    return {
        "name": name, "kind": kind, "num_args": args, "registers": registers, "instructions": instructions,
        "params": params,
    }  # fmt: skip


def _head(c: Cursor, magics: tuple[int, ...]) -> str:
    if c.u64("magic") not in magics:
        raise c.fail("no executable of a virtual machine here (wrong magic)", at=0)
    return text(c.string("version")[:64])


def _devices(c: Cursor, release: tuple[int, ...]) -> list[dict[str, Any]]:
    """vector<DLDevice>; from 0.14 on each with a memory scope; then the host's place among them."""
    scoped = release >= (0, 14)
    found = []
    for i in range(c.count("devices", 16 if scoped else 8)):
        kind, number = c.i32(f"device {i}"), c.i32(f"device {i}")
        if not 0 < kind < 1 << 15:
            raise c.fail(f"device {i} is of type {kind}")
        found.append(
            {"type": kind, "id": number, "scope": text(c.string(f"device {i}")) if scoped else ""}
        )
    host = c.i32("host device")
    if not 0 <= host < len(found):
        raise c.fail(f"the host is device {host} of {len(found)}")
    return found


def _moved(record: ArrayRecord, base: int) -> ArrayRecord:
    return ArrayRecord(record.dtype, record.shape, record.data, record.offset + base)
