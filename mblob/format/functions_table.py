"""The exported table `__mblob_functions`: docs/format.md, section 7.

It tells plain C functions and packed ones apart, in a library with or without a blob.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mblob.errors import FormatError

SYMBOL = "__mblob_functions"
FIRST_LINE = "mblob functions 1"
ALIGNMENT_LIMIT = 1 << 20  # bytes


class Row(NamedTuple):
    """One function.

    Attributes:
        name: what users call it.
        symbol: the ELF symbol.
        abi: "plain" (C calling convention) or "packed" (TVM's).
        alignment: bytes that tensor data must be aligned to; 0 means the element's own size.
        types: C argument types, "?" if unknown.
        prototype: the C function with the names of its parameters and their dimensions, "" if
            unknown.
    """

    name: str
    symbol: str
    abi: str
    alignment: int
    types: str
    prototype: str = ""


def encode(rows: Iterable[Row]) -> bytes:
    """The table's bytes, terminating NUL included."""
    lines = [FIRST_LINE]
    for r in rows:
        fields = (r.name, r.symbol, r.abi, str(r.alignment), r.types)
        lines.append("\t".join((*fields, r.prototype) if r.prototype else fields))
    return "\n".join(lines).encode() + b"\n\0"


def checksum(data: bytes) -> int:
    """CRC-32 of a table up to and including its terminating NUL; what the linker pads it with does
    not count."""
    return zlib.crc32(data[: data.find(b"\0") + 1])


def decode(data: bytes) -> list[Row]:
    """Rows of a table.

    Raises:
        FormatError: "function_table".
    """

    def fail(what: str) -> FormatError:
        return FormatError(f"{SYMBOL}: {what}", code="function_table")

    body, nul, _ = data.partition(b"\0")
    if not nul:
        raise fail("no terminating NUL")
    try:
        lines = body.decode().split("\n")
    except UnicodeDecodeError:
        raise fail("not UTF-8") from None
    if lines[0] != FIRST_LINE:
        raise fail(f"starts with {lines[0][:40]!r}, expected {FIRST_LINE!r}")
    if lines[-1] == "":
        del lines[-1]  # the last line may or may not end
    return [_row(number, line, fail) for number, line in enumerate(lines[1:], 2)]


def _row(number: int, line: str, fail: Callable[[str], FormatError]) -> Row:
    fields = line.split("\t")
    if (
        len(fields) not in (5, 6)
        or not fields[0]
        or not fields[1]
        or fields[2] not in ("plain", "packed")
    ):
        raise fail(
            f"line {number} is {line[:80]!r}, expected name, symbol, plain|packed, alignment, types"
            "[, prototype]"
        )
    digits = re.fullmatch("0*([0-9]{1,20})", fields[3])
    alignment = int(digits[1]) if digits else -1
    if alignment < 0 or alignment > ALIGNMENT_LIMIT or alignment & (alignment - 1):
        raise fail(
            f"line {number}: alignment {fields[3][:24]!r} is no power of two up to 2^20, nor 0"
        )
    return Row(fields[0], fields[1], fields[2], alignment, *fields[4:])
