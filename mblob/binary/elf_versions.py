"""Symbol versions of ELF files (GNU extensions of the gABI; Linux Standard Base, "Symbol
Versioning")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    DT_VERNEEDNUM,
    DT_VERSYM,
    HIDDEN,
    Symbol,
)
from mblob.bytes.record import Record
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

FIRST_NAMED = 2  # 0 is local, 1 global without a version
VER_FLG_BASE, VER_FLG_WEAK = 1, 2
# version records of one file, read once or more often; glibc's own libraries have some 50
RECORD_LIMIT = 1 << 14

# For these in a name of a library or a search path the dynamic linker puts another text.
EXPANDED = r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))"


class NeededVersion(NamedTuple):
    """A version that a file wants of a library: `weak` ones are only asked for by weak symbols."""

    file: str
    name: str
    weak: bool


class Versions:
    """The version tables of a file. What it has none of is empty.

    Raises (from all members):
        FormatError: "elf_dynamic", "elf_truncated": a table lies outside the file, or runs
            in circles.
    """

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._left = RECORD_LIMIT

    def _dynamic_value(self, tag: int) -> int | None:
        return next(iter(self._elf.dynamic.get(tag, ())), None)

    @cached_property
    def needed(self) -> dict[int, NeededVersion]:
        """The versions that DT_VERNEED asks for, by version index."""
        elf, layout, found = self._elf, self._elf.layout, dict[int, NeededVersion]()
        for at, (_, count, file, aux, _) in self._records(
            DT_VERNEED, DT_VERNEEDNUM, layout.verneed
        ):
            file_name = elf.dynamic_string(file, "a library's name")
            for _, (_, flags, index, name, _) in self._chain(at + aux, count, layout.vernaux):
                text = elf.dynamic_string(name, "a version")
                found[index] = NeededVersion(file_name, text, bool(flags & VER_FLG_WEAK))
        return found

    @cached_property
    def defined(self) -> dict[int, str]:
        """The versions that DT_VERDEF offers, by version index; the base version, which names the
        file, is left out."""
        elf, layout, found = self._elf, self._elf.layout, dict[int, str]()
        for at, (_, flags, index, _, _, aux, _) in self._records(
            DT_VERDEF, DT_VERDEFNUM, layout.verdef
        ):
            name, _ = self._record(at + aux, layout.verdaux)  # further ones name its parents
            if not flags & VER_FLG_BASE:
                found[index & ~HIDDEN] = elf.dynamic_string(name, "a version")
        return found

    @property
    def has_definitions(self) -> bool:
        """True if the file says which versions it defines. Symbols of a file that does not say so
        fit every reference."""
        return self._dynamic_value(DT_VERDEF) is not None

    @property
    def is_plain(self) -> bool:
        """True if the file knows no versions at all, so that it cannot stand for a library that had
        some."""
        return self._dynamic_value(DT_VERSYM) is None or not (
            self.has_definitions or self._dynamic_value(DT_VERNEED) is not None
        )

    def size_of_needed(self) -> int:
        """Bytes of the table of DT_VERNEED."""
        head, row = self._elf.layout.verneed, self._elf.layout.vernaux
        rows = head.pick("vn_cnt", "vn_aux")
        return self._size(DT_VERNEED, self._records(DT_VERNEED, DT_VERNEEDNUM, head), rows, row)

    def size_of_defined(self) -> int:
        """Bytes of the table of DT_VERDEF."""
        head, row = self._elf.layout.verdef, self._elf.layout.verdaux
        rows = head.pick("vd_cnt", "vd_aux")
        return self._size(DT_VERDEF, self._records(DT_VERDEF, DT_VERDEFNUM, head), rows, row)

    def _size(
        self,
        tag: int,
        heads: Iterator[tuple[int, tuple[int, ...]]],
        rows: Callable[[tuple[int, ...]], tuple[int, ...]],
        row: Record,
    ) -> int:
        """Bytes from the start of a table to the end of its last row, each of which follows its head."""
        start = end = self._dynamic_value(tag) or 0
        for at, fields in heads:
            count, aux = rows(fields)
            for place, _ in self._chain(at + aux, count, row):
                end = max(end, place + row.size)
        return end - start

    def _bad(self, text: str) -> FormatError:
        return FormatError(f"{self._elf.name}: dynamic section: {text}", code="elf_dynamic")

    def _records(
        self, tag: int, count_tag: int, record: Record
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        at = self._dynamic_value(tag)
        if at is not None:
            count = self._dynamic_value(count_tag)
            if not count:
                raise self._bad(f"{tag:#x} leads to a table of no versions")
            yield from self._chain(at, count, record)

    def _chain(self, at: int, count: int, record: Record) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Address and fields of `count` records, whose last field is the distance to the next."""
        for _ in range(count):
            fields = self._record(at, record)
            yield at, fields
            if fields[-1] == 0:
                break
            at += fields[-1]

    def _record(self, at: int, record: Record) -> tuple[int, ...]:
        self._left -= 1  # of both tables together: many records may lead to the same ones
        if self._left < 0:
            raise self._bad(f"more than {RECORD_LIMIT} version records")
        return self._elf.unpack_at(record, at, "a version record")

    def of(self, position: int) -> tuple[int, bool]:
        """Version index of the dynamic symbol at a position in `ElfFile.dynsym`, and whether it is
        hidden."""
        if not self._elf.versym:
            return 1, False
        value = self._elf.versym[position + 1]
        return value & ~HIDDEN, bool(value & HIDDEN)

    def wanted_by(self, position: int) -> NeededVersion | None:
        """The version that an undefined dynamic symbol asks for."""
        return self.needed.get(self.of(position)[0]) if self._elf.versym else None


class Definitions:
    """The symbols that a library offers to others, looked up as the dynamic linker of glibc does.

    Raises (from `find`):
        FormatError: the file's dynamic tables are damaged.
    """

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self.versions = Versions(elf)

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[int, Symbol]]]:
        found: dict[str, list[tuple[int, Symbol]]] = {}
        for position, symbol in enumerate(self._elf.dynsym):
            if symbol.is_exported:
                found.setdefault(symbol.name, []).append((position, symbol))
        return found

    def find(self, name: str, version: str | None, *, here: bool = False) -> Symbol | None:
        """The definition that a reference is bound to, None if the library has none that fits.

        Args:
            here: the reference names this library as the one that has the version.
        """
        if version is not None and here and self.versions.is_plain:
            return None
        newest: list[Symbol] = []
        for position, symbol in self._by_name.get(name, ()):
            index, hidden = self.versions.of(position)
            offered = self.versions.defined.get(index)
            if version is not None:
                if (
                    not self.versions.has_definitions
                    or offered == version
                    or (offered is None and not hidden)
                ):
                    return symbol
            elif index <= FIRST_NAMED:
                return symbol
            elif not hidden:
                newest.append(symbol)
        # A reference without a version takes a later one only where there is no choice.
        return newest[0] if len(newest) == 1 else None
