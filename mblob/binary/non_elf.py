"""The common parts of the readers of formats other than ELF, and an image in ELF's terms.

Headers and names are read in place. Headers may name the same bytes, and so may symbols: names have a
budget, and bytes of sections are views.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property

from mblob import texts
from mblob.binary.elf_records import SHN_ABS, SHN_UNDEF, Symbol, global_symbol
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
    """Base of the readers. Sections may lie outside of the file: `bytes_of` compares them with it.

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
        self.data, self.name, self.base = data, name, base
        self.sections: list[Span | None] = []  # in the order of the file; None: without bytes in it
        self.exports: list[Symbol] = []
        self.imports: list[Symbol] = []
        self.provided_by: dict[str, str] = {}  # libraries of imported names that the file says
        self.needed: list[str] = []
        self.runpath: list[str] = []
        self.hints: list[str] = []
        self._names_left = name_budget(len(data))
        self._read()

    def _read(self) -> None:
        """Set what an `Image` has.

        Raises:
            FormatError: the file ends before its headers do, or they contradict it.
        """
        raise NotImplementedError

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    @property
    def spans(self) -> list[Span]:
        """The sections with bytes in the file."""
        return [s for s in self.sections if s is not None]

    def fail(self, message: str, at: int | None = None) -> FormatError:
        return FormatError.about(self.name, message, code=self.format.replace("-", "_"), offset=at)

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise unless `size` bytes at `offset` are in the file."""
        if size > len(self.data) - offset:
            raise self.fail(
                f"{what} needs {size} bytes, the file ends at {len(self.data)}{texts.CUT_OFF}",
                offset,
            )

    def numbers(self, at: int, fmt: str, what: str) -> tuple[int, ...]:
        """The numbers at an offset."""
        self.check(at, struct.calcsize(self.byte_order + fmt), what)
        return struct.unpack_from(self.byte_order + fmt, self.data, at)

    def text_at(self, at: int, what: str = "the name of a symbol") -> str:
        """The name at an offset, up to a NUL.

        Raises:
            FormatError: all names add up to more than a file has reason to: records may share one.
        """
        for window in (256, 4096, NAME_LIMIT):  # most names are short, and each look copies
            text, end, _ = bytes(self.data[at : at + window]).partition(b"\0")
            if end:
                self._names_left -= len(text)
                if self._names_left < 0:
                    raise self.fail("its names add up to more than 8 times the file")
                return text_of(text)
        raise self.fail(f"{what} has no end within {NAME_LIMIT} bytes", at)

    def add(
        self, name: str, value: int = 0, section: int = 0, *, defined: bool, weak: bool = False
    ) -> None:
        """Add a symbol to the exported or the imported ones.

        Args:
            section: the number of its section, from 1 on; another number: it is in none.
        """
        span = self._section(section)
        number = section if span is not None else SHN_ABS if defined else SHN_UNDEF
        function = span.executable if span is not None else not defined
        found = global_symbol(name, value, number, function=function, weak=weak)
        (self.exports if defined else self.imports).append(found)

    def _section(self, number: int) -> Span | None:
        return self.sections[number - 1] if 0 < number <= len(self.sections) else None

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.exports)}

    def find(self, name: str) -> Symbol | None:
        return self._exported.get(name)

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section of a symbol, if the symbol's address is in it."""
        span = self._section(symbol.st_shndx)
        return span if span and 0 <= symbol.st_value - span.address < span.size else None

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
    """A name of a field, up to the first NUL."""
    return value.partition(b"\0")[0].decode("utf-8", "backslashreplace")
