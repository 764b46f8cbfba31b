"""The common parts of the readers of formats other than ELF: lief, which reads the tables, and an
image in ELF's terms."""

from __future__ import annotations

import threading
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

SIZE_LIMIT = 256 << 20  # bytes of a file; lief loads all of it and needs twice that
SECTIONS_BUDGET = 4  # sections add up to at most this times the file: lief copies the bytes of each
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
    """Base of the readers. What lief says is copied when the file is opened; `bytes_of` compares
    it with the file before it is used.

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
        if len(data) > SIZE_LIMIT:
            raise self.fail(
                f"{len(data)} bytes; a {self.title} may have {SIZE_LIMIT}, because lief loads it whole. "
                "ELF files of any size are read"
            )
        self._read_by_lief()

    def _read_by_lief(self) -> None:
        """Let lief read, without its log on stderr."""
        import lief

        with _LIEF, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that its enumerations lack
            level = lief.logging.get_level()
            lief.logging.disable()
            try:
                parsed = self._parsed(lief, self._for_lief())
                if parsed is not None:
                    self._read(lief, parsed)
            except FormatError:
                raise
            except Exception:  # damage makes lief raise any of Python's errors
                parsed = None
            finally:
                lief.logging.set_level(level)
        if parsed is None:
            raise self.fail(f"lief cannot read this {self.title}: it is damaged or cut off")

    def _for_lief(self) -> bytes:
        """The bytes that lief gets, checked for what would make it allocate without limit.

        Raises:
            FormatError: parts of the file are named again and again.
        """
        raise NotImplementedError

    def _parsed(self, lief: Any, data: bytes) -> Any:
        """The file as lief parses it; None where it is too damaged."""
        raise NotImplementedError

    def _read(self, lief: Any, parsed: Any) -> None:
        """Copy what an `Image` has."""
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

    def check_sections(self, places: Iterable[tuple[int, int]]) -> None:
        """Refuse sections that share the bytes of the file, given the offset and size of each."""
        left = SECTIONS_BUDGET * len(self.data)
        for offset, size in places:
            left -= max(min(size, len(self.data) - offset), 0)
        if left < 0:
            raise self.fail(f"its sections add up to more than {SECTIONS_BUDGET} times the file")

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
