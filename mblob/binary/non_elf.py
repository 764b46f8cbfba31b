"""The common parts of the readers of formats other than ELF: bounded reading, and an image in ELF's
terms.

Numbers of a file are believed when what they name lies in the file. Nothing is copied but names, so
that sections and tables that share bytes cost no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
from mblob.bytes.record import Record
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
    """Base of the readers, which read their tables when the file is opened.

    Args:
        data: the whole file, or the whole member of an archive.
        name: how errors call it.
        base: where `data` starts in the file that is shown.
    """

    format = ""
    title = ""
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
        self.spans: Sequence[Span] = ()
        self.exports: list[Symbol] = []
        self.imports: list[Symbol] = []
        self.provided_by: dict[str, str] = {}  # libraries of imported names that the file says
        self.needed: list[str] = []
        self.runpath: list[str] = []
        self.hints: list[str] = []
        self._names_left = name_budget(len(data))
        self._read()

    def _read(self) -> None:
        """Read what an `Image` has.

        Raises:
            FormatError: of the format's name.
        """
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

    def unpack(self, record: Record, at: int, what: str) -> tuple[Any, ...]:
        """The fields of a record at an offset."""
        self.check(at, record.size, what)
        return record.unpack_from(self.data, at)

    def rows(self, record: Record, at: int, count: int, what: str) -> Iterator[tuple[Any, ...]]:
        """The records of a table."""
        self.check(at, count * record.size, f"a table of {count} {what}")
        return record.iter_unpack(self.data[at : at + count * record.size])

    def spend(self, size: int) -> None:
        """Count a name of `size` bytes: records may share one long name.

        Raises:
            FormatError: all names add up to more than a file has reason to.
        """
        self._names_left -= size
        if self._names_left < 0:
            raise self.fail("its names add up to more than 8 times the file")

    def text_at(self, at: int, what: str) -> str:
        """The name at an offset, up to a NUL."""
        for window in (256, 4096, NAME_LIMIT):  # most names are short, and each look copies
            text, end, _ = bytes(self.data[at : at + window]).partition(b"\0")
            if end:
                self.spend(len(text))
                return text_of(text)
        raise self.fail(f"{what} has no end within {NAME_LIMIT} bytes", at)

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


def text_of(value: bytes) -> str:
    """A name, up to a NUL if there is one."""
    return value.partition(b"\0")[0].decode("utf-8", "backslashreplace")


def symbol(
    name: str, value: int, *, defined: bool, function: bool, weak: bool = False, local: bool = False
) -> Symbol:
    """A symbol in ELF's terms."""
    binding = STB_LOCAL if local else STB_WEAK if weak else STB_GLOBAL
    kind = STT_FUNC if function else STT_OBJECT
    return Symbol(name, value, 0, binding << 4 | kind, 0, 1 if defined else SHN_UNDEF, 0)
