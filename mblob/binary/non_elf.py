"""The common parts of the readers of formats other than ELF, and a symbol in ELF's terms.

These formats are read for the names that `inspect` shows and for the bytes of a blob, and no
further. Each record is checked against the file before it is read. Several records may name the
same bytes, so the names of symbols have a budget.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from mblob import texts
from mblob.binary.elf_records import (
    SHN_UNDEF,
    STB_GLOBAL,
    STB_WEAK,
    STT_FUNC,
    STT_OBJECT,
    Symbol,
)
from mblob.binary.elf_tables import NAME_LIMIT, name_budget
from mblob.binary.image import OneImage
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple


class Span(NamedTuple):
    """A section: its name, address, bytes in the file, and what may be done with it."""

    name: str
    address: int
    offset: int
    size: int
    executable: bool
    writable: bool


class ForeignFile(OneImage):
    """Base of the readers.

    Args:
        data: the whole file, or the whole member of an archive.
        name: how errors call it.
        base: where `data` starts in the file that is shown.
    """

    format = ""
    kind = ""
    machine = ""
    bits = 64
    byte_order = "<"
    soname: str | None = None
    build_id: str | None = None

    def __init__(self, data: memoryview, name: str, base: int = 0) -> None:
        self.data = data
        self.name = name
        self.base = base
        self.sections: list[Span | None] = []  # by number; None: it has no bytes in the file
        self.exports: list[Symbol] = []
        self.imports: list[Symbol] = []
        self.provided_by: dict[str, str] = {}  # libraries of imported names that the file says
        self.needed: list[str] = []
        self.runpath: list[str] = []
        self.hints: list[str] = []
        self._names_left = name_budget(len(data))
        self._read()

    def _read(self) -> None:
        """Set what an `Image` has."""
        raise NotImplementedError

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    def fail(self, message: str, at: int | None = None) -> FormatError:
        return FormatError.about(self.name, message, code=self.format.replace("-", "_"), offset=at)

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise unless `size` bytes at `offset` are in the file."""
        if offset < 0 or size > len(self.data) or offset > len(self.data) - size:
            raise self.fail(
                f"{what} needs {size} bytes, the file ends at {len(self.data)}{texts.CUT_OFF}",
                offset,
            )

    def unpack(self, codes: str, at: int, what: str) -> tuple[Any, ...]:
        """A record at an offset, by the codes of `struct`."""
        layout = struct.Struct(self.byte_order + codes)
        self.check(at, layout.size, what)
        return layout.unpack_from(self.data, at)

    def text_at(self, at: int, what: str) -> str:
        """The name at an offset, up to a NUL.

        Raises:
            FormatError: it has no end, or all names add up to more than a file has reason to.
        """
        for window in (256, 4096, NAME_LIMIT):  # most names are short, and each look copies
            text, end, _ = bytes(self.data[at : at + window]).partition(b"\0")
            if end:
                self._names_left -= len(text)
                if self._names_left < 0:
                    raise self.fail("its names add up to more than 8 times the file")
                return text_of(text)
        raise self.fail(f"{what} has no end within {NAME_LIMIT} bytes", at)

    @cached_property
    def spans(self) -> list[Span]:
        """The sections that have bytes in the file."""
        return [s for s in self.sections if s is not None]

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.exports)}

    def find(self, name: str) -> Symbol | None:
        return self._exported.get(name)

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section that has the address of a symbol."""
        return self._span_at(symbol.st_value)

    def _span_at(self, address: int) -> Span | None:
        """The section with an address. Sections of a valid file do not overlap, so it is the last
        one that begins there or before."""
        at = bisect_right(self._starts, address) - 1
        span = self._ordered[at] if at >= 0 else None
        return span if span is not None and address - span.address < span.size else None

    @cached_property
    def _ordered(self) -> list[Span]:
        return sorted((s for s in self.spans if s.size), key=lambda s: s.address)

    @cached_property
    def _starts(self) -> list[int]:
        return [s.address for s in self._ordered]

    def bytes_of(self, symbol: Symbol) -> tuple[int, memoryview]:
        """Offset of a symbol in the file, and its bytes: symbols of these formats have no size, so
        all up to the end of the section."""
        span = self.span_of(symbol)
        if span is None:
            raise self.fail(
                f"symbol {symbol.name!r}: no section has bytes at address {symbol.st_value:#x}"
            )
        self.check(span.offset, span.size, f"section {span.name!r}")
        start = span.offset + symbol.st_value - span.address
        return self.base + start, self.data[start : span.offset + span.size]

    def notes(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        return iter(())


def text_of(name: bytes) -> str:
    """A name up to its first NUL."""
    return name.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def symbol(name: str, value: int, *, defined: bool, function: bool, weak: bool = False) -> Symbol:
    """A symbol in ELF's terms."""
    binding = STB_WEAK if weak else STB_GLOBAL
    kind = STT_FUNC if function else STT_OBJECT
    return Symbol(name, value, 0, binding << 4 | kind, 0, 1 if defined else SHN_UNDEF, 0)
