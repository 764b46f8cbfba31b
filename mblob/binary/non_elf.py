"""What the readers of formats other than ELF share: bounds, names, and symbols in ELF's terms."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from mblob.binary.elf_records import (
    SHN_UNDEF,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_OBJECT,
    Symbol,
)
from mblob.errors import FormatError

SYMBOL_LIMIT = 1 << 22  # symbols of one file
NAME_LIMIT = 1 << 16  # bytes of one name
# names of a file add up to at most this times its size, which shared tails alone could exceed
TEXT_BUDGET = 8


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
    """

    format = ""
    byte_order = "<"

    def __init__(self, data: memoryview, name: str, base: int) -> None:
        self.data = data
        self.name = name
        self.base = base
        self._budget = TEXT_BUDGET * len(data) + NAME_LIMIT

    @property
    def endian(self) -> str:
        return "little" if self.byte_order == "<" else "big"

    def fail(self, message: str, at: int | None = None) -> FormatError:
        return FormatError(f"{self.name}: {message}", code=self.format.replace("-", "_"), offset=at)

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise unless `size` bytes at `offset` are in the file."""
        if offset < 0 or size > len(self.data) or offset > len(self.data) - size:
            raise self.fail(f"{what} needs {size} bytes, the file ends at {len(self.data)}", offset)

    def unpack(self, fmt: str, offset: int, what: str) -> tuple[int, ...]:
        fmt = self.byte_order + fmt
        self.check(offset, struct.calcsize(fmt), what)
        return struct.unpack_from(fmt, self.data, offset)

    def text(self, offset: int, end: int, what: str) -> str:
        """The NUL-terminated text at `offset`, which must end before `end`."""
        end = min(end, len(self.data))
        if not 0 <= offset < end:
            raise self.fail(f"{what} lies outside the file", offset)
        for window in (64, 1024, NAME_LIMIT):  # most names are short, and each look copies
            raw = bytes(self.data[offset : min(offset + window, end)])
            if (stop := raw.find(b"\0")) >= 0:
                self.charge(stop)
                return raw[:stop].decode("utf-8", "backslashreplace")
        raise self.fail(f"{what} has no end within {NAME_LIMIT} bytes", offset)

    def charge(self, size: int) -> None:
        """Count characters of names, and refuse what would fill the memory."""
        self._budget -= size
        if self._budget < 0:
            raise self.fail(f"its names add up to more than {TEXT_BUDGET} times the file")

    @cached_property
    def exports(self) -> Sequence[Symbol]:
        raise NotImplementedError

    @cached_property
    def spans(self) -> Sequence[Span]:
        raise NotImplementedError

    @cached_property
    def _exported(self) -> dict[str, Symbol]:
        return {s.name: s for s in reversed(self.exports)}

    def find(self, name: str) -> Symbol | None:
        return self._exported.get(name)

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section that has the address of a symbol."""
        at = symbol.st_value
        return next((s for s in self.spans if 0 <= at - s.address < s.size), None)

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


def symbol(
    name: str, value: int, *, defined: bool, function: bool, weak: bool = False, local: bool = False
) -> Symbol:
    """A symbol in ELF's terms."""
    binding = STB_LOCAL if local else STB_WEAK if weak else STB_GLOBAL
    kind = STT_FUNC if function else STT_OBJECT
    return Symbol(name, value, 0, binding << 4 | kind, 0, 1 if defined else SHN_UNDEF, 0)
