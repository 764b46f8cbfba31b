"""The common parts of the readers of formats other than ELF, and an image in ELF's terms.

lief reads the headers, in a copy without references to the rest of the file: several headers may
name the same bytes, which lief would copy for each. So it needs memory for the headers alone. Names
of symbols are read in place, with a budget, because they may share their bytes, too.
"""

from __future__ import annotations

import struct
import threading
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from mblob import texts
from mblob.binary.elf_records import SHN_ABS, SHN_UNDEF, Symbol, global_symbol
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
        self.data, self.name, self.base = data, name, base
        self.sections: list[Span | None] = []  # in the order of the file; None: without bytes in it
        self.exports: list[Symbol] = []
        self.imports: list[Symbol] = []
        self.provided_by: dict[str, str] = {}  # libraries of imported names that the file says
        self.needed: list[str] = []
        self.runpath: list[str] = []
        self.hints: list[str] = []
        self._names_left = name_budget(len(data))
        try:
            import lief
        except ModuleNotFoundError:
            raise needs_package(f"{name}: a {self.title}", "lief") from None

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


def text_of(value: str | bytes) -> str:
    """A name as lief gives it: bytes where it is no UTF-8."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def number_of(value: Any) -> int:
    """A member of an enumeration of lief as a number; one that is not known is a number already."""
    return int(getattr(value, "value", value))
