"""The common parts of the readers of formats other than ELF, and an image in ELF's terms.

lief reads the headers, in a copy without references to the rest of the file: several headers may
name the same bytes, which lief would copy for each. So it needs memory for the headers alone. Names
of symbols are read in place, with a budget, because they may share their bytes, too.
"""

from __future__ import annotations

import threading
import warnings
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
from mblob.binary.image import OneImage
from mblob.errors import FormatError, needs_package
from mblob.named_tuple import NamedTuple

_LIEF = threading.Lock()  # its log and Python's filters of warnings are one for all threads


class Span(NamedTuple):
    """A section: its name, address, bytes in the file, and what may be done with it."""

    name: str
    address: int
    offset: int
    size: int
    executable: bool
    writable: bool


class ForeignFile(OneImage):
    """Base of the readers. The headers are copied when the file is opened; `bytes_of` compares
    them with the file before they are used.

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
        self._read_by_lief()

    def _read_by_lief(self) -> None:
        """Let lief read, without its log on stderr."""
        try:
            import lief
        except ModuleNotFoundError:
            raise needs_package(f"{self.name}: a {self.title}", "lief") from None

        with _LIEF, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that its enumerations lack
            level = lief.logging.get_level()
            lief.logging.disable()
            try:
                self._read(lief, self._headers())
            except FormatError:
                raise
            except Exception:  # lief gives None for damage, or raises any of Python's errors
                raise self.fail(f"this {self.title} is damaged or cut off") from None
            finally:
                lief.logging.set_level(level)

    def _headers(self) -> bytes:
        """The headers, without references to what lies behind them.

        Raises:
            FormatError: the file ends before they do.
        """
        raise NotImplementedError

    def _read(self, lief: Any, headers: bytes) -> None:
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


def text_of(value: str | bytes) -> str:
    """A name as lief gives it: bytes where it is no UTF-8."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def number_of(value: Any) -> int:
    """A member of an enumeration of lief as a number; one that is not known is a number already."""
    return int(getattr(value, "value", value))


def symbol(
    name: str, value: int, *, defined: bool, function: bool, weak: bool = False, local: bool = False
) -> Symbol:
    """A symbol in ELF's terms."""
    binding = STB_LOCAL if local else STB_WEAK if weak else STB_GLOBAL
    kind = STT_FUNC if function else STT_OBJECT
    return Symbol(name, value, 0, binding << 4 | kind, 0, 1 if defined else SHN_UNDEF, 0)
