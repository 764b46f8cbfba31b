"""What the executables of virtual machines say in short: docs/format.md, section 3 (Relay and
Relax)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, Tuple  # noqa: UP035

from mblob.bytes.wire import Cursor
from mblob.dtype import DataType
from mblob.errors import FormatError
from mblob.format.grammar import strings, text
from mblob.format.ndarray import ArrayRecord, read_ndarray
from mblob.inspect import relax_code, relax_graph, relax_inputs, vm_code
from mblob.inspect.tensors import of_classic

MAGIC, MAGIC_V2 = 0xD225DE2F4214151D, 0xD225DE2F4214151E
_EARLY_0_8 = (0, 7, 5)  # builds before 0.8: without attributes
# of the Relay machine, csrc/src/exec/relay/reader.c
_LAYOUTS = ((0, 14), (0, 9), (0, 8), _EARLY_0_8, (0, 7))
_RELAX_KINDS = {0: "packed", 1: "vm", 2: "tir"}
# Tags of constants in executables of Relax, by dialect: classic, that of TVM 0.21, ffi.
CONSTANTS_OF_CLASSIC = {0: "tensor", 1: "dtype", 2: "shape", 3: "string", 4: "int", 5: "float"}
_FFI_COMMON = {1: "int", 3: "float", 5: "dtype", 65: "string"}
CONSTANTS_OF_0_21 = {**_FFI_COMMON, 72: "tensor", 71: "shape"}
CONSTANTS_OF_FFI = {**_FFI_COMMON, 70: "tensor", 69: "shape"}


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


def relax(
    code: memoryview, base: int, tags: dict[int, str], check: bool = False
) -> tuple[dict[str, Any], list[tuple[str, ArrayRecord]]]:
    """An executable of the Relax VM: summary, constants by name.

    Args:
        base: as of `relay`.
        tags: of constants, CONSTANTS_OF_0_21, CONSTANTS_OF_FFI, or {} for the classic dialect.
        check: look at every instruction, as loading does.

    Raises:
        FormatError: "payload", "truncated".
    """
    read = _relax(code, base, tags, check)
    if check:
        relax_code.check(read.cursor, read.program)
        if read.cursor.left:
            raise read.cursor.fail("bytes follow the last instruction")
    found = enumerate(read.constants)
    return read.facts, [(f"constant {i}", value) for i, (kind, value) in found if kind == "tensor"]


def relax_listing(code: memoryview, tags: dict[int, str]) -> list[str]:
    """Lines of TVM's own listing of an executable of the Relax VM.

    Raises:
        FormatError: "payload", "truncated".
    """
    read = _relax(code, 0, tags, True)
    return list(relax_code.listing(read.program, relax_code.check(read.cursor, read.program)))


def relax_graphs(
    code: memoryview, tags: dict[int, str], meant: Callable[[DataType], DataType]
) -> tuple[list[relax_graph.FunctionGraph], dict[str, str]]:
    """The calls of each function of an executable of the Relax VM; and what its constants are, by
    name.

    Args:
        meant: the element type that a stored one is.

    Raises:
        FormatError: "payload", "truncated".
    """
    read = _relax(code, 0, tags, True)
    checked = relax_code.check(read.cursor, read.program)
    constants = [relax_graph.constant_text(kind, value, meant) for kind, value in read.constants]
    graphs = relax_graph.graphs_of(read.program, checked, constants, read.facts["functions"])
    return list(graphs), {f"constant {i}": text for i, text in enumerate(constants)}


Constant = Tuple[str, Any]  # noqa: UP006  # its kind, and an ArrayRecord or the bytes of its value


class _Read(NamedTuple):
    """An executable of Relax."""

    facts: dict[str, Any]
    constants: list[Constant]
    cursor: Cursor
    program: relax_code.Program


def _relax(code: memoryview, base: int, tags: dict[int, str], check: bool) -> _Read:
    c = Cursor(code)
    version = _head(c, (MAGIC, MAGIC_V2))
    if check and version != relax_code.VERSION:
        raise c.fail(f"its version is not {relax_code.VERSION}, which TVM 0.16 to 0.27 write")
    has_scopes = bytes(code[:8]) == MAGIC_V2.to_bytes(8, "little")
    rows, functions = _relax_functions(c, check)
    scopes = [
        (c.i64("scopes"), text(c.string("scopes")))
        for _ in range(c.count("scopes", 16) if has_scopes else 0)
    ]
    values = _relax_constants(c, base, tags)
    constants = len(values)
    if check and not all(0 <= i < constants for i, _ in scopes):
        raise c.fail("a memory scope is of a constant that is not there")
    offsets, words = (_signed(c.u64s(f"instruction{what}")) for what in (" offsets", "s"))
    program = relax_code.Program(rows, constants, offsets, words)
    _add_inputs(program, functions, values, DataType.of_ffi if tags else of_classic)
    facts = {
        "machine": "relax",
        "version": version,
        "layout": 2 if has_scopes else 1,
        "functions": functions,
        "constants": constants,
        "constant_kinds": dict(Counter(kind for kind, _ in values)),
        "scopes": [{"constant": i, "scope": scope} for i, scope in scopes],
        "instructions": len(offsets),
    }
    return _Read(facts, values, c, program)


def _signed(words: tuple[int, ...]) -> list[int]:
    return [word - (1 << 64) if word >> 63 else word for word in words]


def _relax_functions(
    c: Cursor, check: bool
) -> tuple[list[relax_code.Function], list[dict[str, Any]]]:
    rows, functions = [], []
    for i in range(c.count("functions", 52)):
        kind, name = c.i32(f"function {i}"), text(c.string(f"function {i}: name"))
        start, end, count, registers = (c.i64(f"function {i}") for _ in range(4))
        params = [text(s) for s in strings(c, f"function {i}: params")]
        row = relax_code.Function(kind, name, start, end, count, registers, len(params))
        problem = relax_code.problem_of_function(row) if check else None
        if problem is None and check and any("\0" in word for word in (name, *params)):
            problem = "a name has a NUL byte"
        if problem:
            raise c.fail(f"function {i}: {problem}")
        rows.append(row)
        kind_name = _RELAX_KINDS.get(kind, f"kind {kind}")
        size = max(end - start, 0) if kind == 1 else 0
        functions.append(_function(kind_name, name, max(count, -1), registers, size, params))
    return rows, functions


def _relax_constants(c: Cursor, base: int, tags: dict[int, str]) -> list[Constant]:
    found: list[Constant] = []
    for i in range(c.count("constants", 4)):
        what = f"constant {i}"
        tag = c.i32(what)
        kind = (tags or CONSTANTS_OF_CLASSIC).get(tag)
        if kind is None:
            raise c.fail(f"{what} is of kind {tag}, which is not known")
        if kind == "tensor":
            found.append((kind, _moved(read_ndarray(c, what), base)))
        elif kind == "string":
            found.append((kind, c.string(what)))
        else:
            size = 8 * c.count(what, 8) if kind == "shape" else 4 if kind == "dtype" else 8
            found.append((kind, c.take(size, what)))
    return found


def _add_inputs(
    program: relax_code.Program,
    functions: list[dict[str, Any]],
    constants: list[Constant],
    meant: Callable[[DataType], DataType],
) -> None:
    """What functions expect of their parameters: the annotations, and types and shapes."""
    expected = relax_inputs.annotations_of(constants)
    left = len(program.offsets)  # functions of a damaged program may share code
    for row, function in zip(program.functions, functions):
        if row.kind == relax_code.PACKED:
            continue
        names = function["params"]
        told = expected.get(row.name, {})
        if told:
            function["expects"] = dict(told)
        left -= function["instructions"]
        code = program if left >= 0 else program._replace(offsets=())
        found = relax_inputs.parameters(code, row, names, constants, told, meant)
        function["inputs"] = [
            {
                "name": name, "shape": None if p.shape is None else list(p.shape), "dtype": p.dtype,
                **({"type": p.type} if p.type else {}),
            }
            for name, p in zip(names, found)
        ]  # fmt: skip


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
