"""Programs of virtual machines, read and checked by the C readers that the machines run them by.

What these give are the readers' own structs: `csrc/src/exec/relay/executable.h` and
`csrc/src/exec/relax/executable.h`. All numbers in them that index something are right.
"""

from __future__ import annotations

from typing import Any

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


def read_relay(code: memoryview) -> Any:
    """A program of Relay's virtual machine: a `struct vm_executable`, with slices of `code`.

    Raises:
        FormatError: "payload", "truncated": what running it would say.
    """
    program = ffi.gc(ffi.new("struct vm_executable *"), lib.vm_executable_free)
    _check(lib.vm_executable_read(program, ffi.from_buffer(code), len(code), lib.MB_UNKNOWN))
    return program


def slice_bytes(piece: Any) -> bytes:
    """The bytes of a `struct mb_slice`."""
    return bytes(ffi.buffer(piece.data, piece.size)) if piece.size else b""


# Frames that an exception keeps go with the garbage collector, in any order: no lambda may free a
# program then, and no buffer of `code` may be held by a name.


def _check(status: int) -> None:
    """Raise what reading failed with."""
    if status:
        raise last_error(of=lib)
