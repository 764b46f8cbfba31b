"""The common parts of the readers of Mach-O, PE and COFF: an image in ELF's terms.

Each reader takes what `inspect` shows, and nothing else: the machine, sections, external symbols,
and the libraries that the file needs. Every number is compared with the size of the file before it
is used. docs/design/bytes.md says why no library reads these files.
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
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_OBJECT,
    Symbol,
)
from mblob.binary.elf_tables import NAME_LIMIT, name_budget
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


class ForeignFile:
    """Base of the readers.

    Args:
        data: the whole file, or the whole member of an archive.
        name: how errors call it.
        base: where `data` starts in the file that is shown.

    Raises:
        FormatError: the name of the format: the file is cut off, or its names are an attack on
            memory.
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
        self.sections: list[Span | None] = []  # as symbols number them; None: without bytes
        self.exports: list[Symbol] = []
        self.imports: list[Symbol] = []
        self.provided_by: dict[str, str] = {}  # libraries of imported names that the file says
        self.needed: list[str] = []
        self.runpath: list[str] = []
        self.hints: list[str] = []
        self._names_left = name_budget(len(data))
        self._read()

    def _read(self) -> None:
        """Fill in the attributes."""
        raise NotImplementedError

    @property
    def spans(self) -> list[Span]:
        return [s for s in self.sections if s is not None]

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    def fail(self, message: str, at: int | None = None) -> FormatError:
        return FormatError.about(self.name, message, code=self.format.replace("-", "_"), offset=at)

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise unless `size` bytes at `offset` are in the file."""
        if size > len(self.data) or offset > len(self.data) - size:
            raise self.fail(
                f"{what} needs {size} bytes, the file ends at {len(self.data)}{texts.CUT_OFF}",
                offset,
            )

    def unpack(self, layout: str, offset: int, what: str) -> tuple[Any, ...]:
        """The fields at an offset; `layout` as of `struct`, without a byte order."""
        record = struct.Struct(self.byte_order + layout)
        self.check(offset, record.size, what)
        return record.unpack_from(self.data, offset)

    def rows(self, layout: str, offset: int, count: int, what: str) -> Iterator[tuple[Any, ...]]:
        """The records of a table, as of `unpack`."""
        record = struct.Struct(self.byte_order + layout)
        self.check(offset, count * record.size, f"a table of {count} {what}")
        return record.iter_unpack(self.data[offset : offset + count * record.size])

    def text_at(self, at: int, what: str) -> str:
        """The name at an offset, up to a NUL. Records may share one long name, so all names have a
        budget."""
        for window in (256, 4096, NAME_LIMIT):  # most names are short, and each look copies
            text, end, _ = bytes(self.data[at : at + window]).partition(b"\0")
            if end:
                self.spend(len(text))
                return text_of(text)
        raise self.fail(f"{what} has no end within {NAME_LIMIT} bytes", at)

    def spend(self, size: int) -> None:
        """Count `size` bytes of a name, or of a record that may be read again and again."""
        self._names_left -= size
        if self._names_left < 0:
            raise self.fail("its names add up to more than 8 times the file")

    def add(self, name: str, value: int, *, defined: bool, function: bool, weak: bool = False,
            section: int = 1) -> None:  # fmt: skip
        """Add a symbol in ELF's terms to the exports or to the imports."""
        found = symbol(name, value, defined=defined, function=function, weak=weak)
        if defined:
            found = found._replace(st_shndx=section)
        (self.exports if defined else self.imports).append(found)

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.exports)}

    def find(self, name: str) -> Symbol | None:
        return self._exported.get(name)

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section that has the address of a symbol."""
        return self._span_at(symbol.st_value)

    def section_of(self, number: int) -> Span | None:
        """The section of a number, which counts from 1; None for one without bytes in the file."""
        return self.sections[number - 1] if 0 < number <= len(self.sections) else None

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


def text_of(value: bytes) -> str:
    """A name of a file as text, up to a NUL."""
    return value.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def symbol(
    name: str, value: int, *, defined: bool, function: bool, weak: bool = False, local: bool = False
) -> Symbol:
    """A symbol in ELF's terms."""
    binding = STB_LOCAL if local else STB_WEAK if weak else STB_GLOBAL
    kind = STT_FUNC if function else STT_OBJECT
    return Symbol(name, value, 0, binding << 4 | kind, 0, 1 if defined else SHN_UNDEF, 0)
