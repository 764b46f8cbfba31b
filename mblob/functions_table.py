"""The exported table `__mblob_functions`: docs/format.md, section 7.

It tells plain C functions and packed ones apart, in a library with or without a blob.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mblob.errors import FormatError

SYMBOL = "__mblob_functions"
FIRST_LINE = "mblob functions 1"


@dataclass(frozen=True)
class Row:
    """One function.

    Attributes:
        name: what users call it.
        symbol: the ELF symbol.
        abi: "plain" (C calling convention) or "packed" (TVM's).
        alignment: bytes that tensor data must be aligned to; 0 means the element's own size.
        types: C argument types, "?" if unknown.
    """

    name: str
    symbol: str
    abi: str
    alignment: int
    types: str


def encode(rows: Iterable[Row]) -> bytes:
    """The table's bytes, terminating NUL included."""
    lines = [FIRST_LINE]
    lines += ["\t".join((r.name, r.symbol, r.abi, str(r.alignment), r.types)) for r in rows]
    return "\n".join(lines).encode() + b"\n\0"


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
        lines = body.decode().splitlines()
    except UnicodeDecodeError:
        raise fail("not UTF-8") from None
    if not lines or lines[0] != FIRST_LINE:
        raise fail(f"starts with {lines[0][:40] if lines else ''!r}, expected {FIRST_LINE!r}")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        fields = line.split("\t")
        if len(fields) != 5 or fields[2] not in ("plain", "packed") or not fields[3].isdecimal():
            raise fail(f"line {number} is {line[:80]!r}, expected name, symbol, plain|packed, alignment, types")
        alignment = int(fields[3][:10])
        if alignment & (alignment - 1) or alignment > 1 << 20:
            raise fail(f"line {number}: alignment {fields[3]} is no power of two up to 2^20")
        rows.append(Row(fields[0], fields[1], fields[2], alignment, fields[4]))
    return rows
