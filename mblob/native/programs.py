"""Programs of virtual machines, read and checked by the C readers that the machines run them by.

What these give are the readers' own structs: `csrc/src/exec/relay/executable.h` and
`csrc/src/exec/relax/executable.h`. All numbers in them that index something are right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mblob.dtype import DataType
from mblob.native._programs import ffi as ffi
from mblob.native._programs import lib as lib
from mblob.native.runtime import last_error

CLASSIC, FFI_OF_0_21, FFI = lib.MB_CLASSIC, lib.MB_FFI_OF_0_21, lib.MB_FFI


def read_relax(code: memoryview, dialect: int) -> Any:
    """A program of Relax's virtual machine: a `struct relax_executable`, with slices of `code`.

    Args:
        dialect: CLASSIC, FFI_OF_0_21 or FFI.

    Raises:
        FormatError: "payload", "truncated": what running it would say.
    """
    program = ffi.gc(ffi.new("struct relax_executable *"), lib.relax_executable_free)
    program.dialect = dialect
    _check(lib.relax_executable_read(program, ffi.from_buffer(code), len(code), lib.MB_UNKNOWN))
    return program


def check_relax_parameters(
    program: Any, tensors: Sequence[tuple[str, DataType, Sequence[int]]]
) -> None:
    """Check parameters as the machine of a program does: name, type and shape of each, in their order.

    Raises:
        FormatError: "payload": no function of the program takes them, as far as it says what it takes.
    """
    kept: list[Any] = []  # what structs point to
    for name, dtype, shape in tensors:
        extents = ffi.new("int64_t[]", list(shape))
        row = ffi.new("struct mb_tensor *")
        row.name = text = ffi.new("char[]", name.encode())
        row.view.ndim, row.view.shape = len(shape), extents
        row.view.dtype = (dtype.code, dtype.bits, dtype.lanes)
        kept += [row, text, extents]
    rows = ffi.new("struct mb_tensor *[]", kept[::3])
    model = next(
        (f for f in program.functions[0 : program.function_count] if ffi.string(f.name) == b"main"),
        None,
    )
    found = ffi.NULL if model is None else ffi.addressof(model)
    by_name = ffi.gc(ffi.new("struct mb_map *"), lib.mb_map_free)
    count = len(tensors)
    _check(lib.relax_parameters_check(program, found, rows, count, lib.MB_UNKNOWN, by_name))


def read_relay(code: memoryview) -> Any:
    """A program of Relay's virtual machine: a `struct vm_executable`, with slices of `code`.

    Raises:
        FormatError: "payload", "truncated": what running it would say.
    """
    program = ffi.gc(ffi.new("struct vm_executable *"), lib.vm_executable_free)
    _check(lib.vm_executable_read(program, ffi.from_buffer(code), len(code), lib.MB_UNKNOWN))
    return program


def relay_instructions(function: Any) -> Iterator[tuple[str, dict[str, int], list[int]]]:
    """The instructions of a `struct vm_function`: name, fields by their letters (`enum vm_field`), and the list at the
    end. An element type (`t`) is `t0`, `t1` and `t2`. The second field of a letter is doubled, as `rr`."""
    for k in range(function.code_count):
        instruction = function.code[k]
        info = lib.vm_opcodes[instruction.opcode]
        fields: dict[str, int] = {}
        at, items = instruction.fields, []
        for letter in ffi.string(info.fields).decode():
            if letter in "RS":
                items = [function.fields[at + i] for i in range(fields["n"])]
                continue
            for name in ("t0", "t1", "t2") if letter == "t" else (letter,):
                while name in fields:
                    name += letter
                fields[name] = function.fields[at]
                at += 1
        yield ffi.string(info.name).decode(), fields, items


def slice_bytes(piece: Any) -> bytes:
    """The bytes of a `struct mb_slice`."""
    return bytes(ffi.buffer(piece.data, piece.size)) if piece.size else b""


# Frames that an exception keeps go with the garbage collector, in any order: no lambda may free a
# program then, and no buffer of `code` may be held by a name.


def _check(status: int) -> None:
    """Raise what reading failed with."""
    if status:
        raise last_error(of=lib)
