"""PE libraries (`.dll`) and COFF objects."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import ForeignFile, Span, symbol, text_of
from mblob.bytes.record import Record

MACHINES = {
    0x14C: "i386",
    0x1C4: "arm",
    0x8664: "x86_64",
    0xAA64: "aarch64",
    0xA641: "arm64ec",
    0x5064: "riscv64",
}
DLL, NX_COMPAT, PE32_PLUS = 0x2000, 0x100, 0x20B
CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
LIBRARY_LIMIT = 4096  # libraries that a file may import from
C_EXTERNAL, C_WEAK_EXTERNAL = 2, 105
EXPORTS, IMPORTS, DEBUG, DELAYED_IMPORTS = 0, 1, 6, 13  # data directories
HEADER = Record(
    "machine H, sections H, time I, symbol_table I, symbols I, optional H, characteristics H"
)
SECTION = Record(
    "name 8s, virtual_size I, address I, raw_size I, offset I, relocations I, lines I, relocation_count H,"
    " line_count H, characteristics I"
)
SYMBOL = Record("name 8s, value I, section h, type H, storage B, more B")
DEBUG_ENTRY, DEBUG_LIMIT, CODEVIEW = 28, 64, 2  # bytes of an entry, entries, a type of them


def is_pe(data: memoryview) -> bool:
    """True if a file starts as programs of DOS do, and has the PE signature."""
    if bytes(data[:2]) != b"MZ" or len(data) < 64:
        return False
    at = int.from_bytes(data[60:64], "little")
    return at <= len(data) - 4 and bytes(data[at : at + 4]) == b"PE\0\0"


def is_coff(data: memoryview) -> bool:
    """True if a file starts as a COFF object of a known machine does, without an optional
    header."""
    return (
        len(data) >= 20
        and int.from_bytes(data[:2], "little") in MACHINES
        and bytes(data[16:18]) == b"\0\0"
        and int.from_bytes(data[2:4], "little") > 0
    )


class _Coff(ForeignFile):
    """The common parts of libraries and objects: the machine, and the sections."""

    def _read_sections(self, at: int) -> tuple[int, ...]:
        """The numbers of the COFF header at an offset, whose sections are read."""
        header = self.unpack(HEADER, at, "a COFF header")
        machine, count, optional = header[0], header[1], header[5]
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        self.bits = 32 if machine in (0x14C, 0x1C4) else 64
        rows = self.rows(SECTION, at + HEADER.size + optional, count, "sections")
        self._sections = list(map(_span, rows))
        self.spans = [s for s in self._sections if s is not None]
        for s in self.spans:
            self.check(s.offset, s.size, f"section {s.name!r}")
        return header


def _span(row: tuple[Any, ...]) -> Span | None:
    """Addresses count from the image's base. None for a section without bytes in the file."""
    name, virtual, address, raw, offset, *_, flags = row
    if flags & UNINITIALIZED or not raw:
        return None
    size = min(raw, virtual) if virtual else raw
    is_code, writable = bool(flags & (CODE | EXECUTE)), bool(flags & WRITE)
    return Span(text_of(name), address, offset, size, is_code, writable)


class PeFile(_Coff):
    """A PE library; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "pe".
    """

    format = "pe"
    title = "PE file"

    def _read(self) -> None:
        at = int.from_bytes(self.data[60:64], "little") + 4
        *_, size, characteristics = self._read_sections(at)
        optional = at + HEADER.size
        self.check(optional, size, "an optional header")
        self.bits = 64 if self._word(optional, 2) == PE32_PLUS else 32
        first = optional + (112 if self.bits == 64 else 96)  # the data directories
        if first > optional + size:
            raise self.fail(f"an optional header of {size} bytes is too short", optional)
        count = min(self._word(first - 4, 4), (optional + size - first) // 8)
        directories = [
            (self._word(first + 8 * i, 4), self._word(first + 8 * i + 4, 4))
            if i < count
            else (0, 0)
            for i in range(DELAYED_IMPORTS + 1)
        ]
        self.kind = "shared" if characteristics & DLL else "executable"
        if not self._word(optional + 70, 2) & NX_COMPAT:
            self.hints = ["its data may be run as code (no NX_COMPAT)"]
        self.build_id = self._guid(*directories[DEBUG])
        self._read_exports(*directories[EXPORTS])
        self._left = len(self.data) // (self.bits // 8)  # each place of a name is used once
        self._read_imports(directories[IMPORTS][0], 20, 12, 0)
        self._read_imports(directories[DELAYED_IMPORTS][0], 32, 4, 16)

    def _word(self, at: int, size: int) -> int:
        return int.from_bytes(self.data[at : at + size], "little")

    def _guid(self, at: int, size: int) -> str | None:
        """The GUID by which debuggers look for the debug information; None if there is none."""
        for entry in range(
            at, at + min(size // DEBUG_ENTRY, DEBUG_LIMIT) * DEBUG_ENTRY, DEBUG_ENTRY
        ):
            if self._span_at(entry) is None:
                break
            kind, place = self._number(entry + 12), self._number(entry + 24)
            found = bytes(self.data[place : place + 20])
            if kind == CODEVIEW and found[:4] == b"RSDS" and len(found) == 20:
                return found[4:].hex()
        return None

    def _read_imports(self, address: int, step: int, name_at: int, names_at: int) -> None:
        """Libraries and names of a directory, whose records have `step` bytes."""
        for i in range(LIBRARY_LIMIT if address else 0):
            at = address + i * step
            if not (name := self._number(at + name_at)):
                break
            self.needed.append(self._name(name, "imported library"))
            table = self._number(at + names_at) or self._number(at + 16)
            for imported in self._imported(table):
                self.provided_by[imported] = self.needed[-1]
                self.imports.append(symbol(imported, 0, defined=False, function=True))

    def _imported(self, table: int) -> Iterator[str]:
        word = self.bits // 8
        while table and (value := self._number(table, word)):
            self._left -= 1
            if self._left < 0:
                at = self._offset(table, word, "imported names")
                raise self.fail("more imported names than the file has room for", at)
            if not value >> (8 * word - 1):  # by name, not by number
                yield self._name((value & 0x7FFFFFFF) + 2, "imported name")
            table += word

    def _number(self, address: int, size: int = 4) -> int:
        at = self._offset(address, size, "directory of names")
        return self._word(at, size)

    def _name(self, address: int, what: str) -> str:
        return self.text_at(self._offset(address, 1, what), what)

    def _offset(self, address: int, size: int, what: str) -> int:
        """The offset in the file of `size` bytes at an address."""
        span = self._span_at(address)
        if span is None or size > span.size - (address - span.address):
            raise self.fail(f"{what}: no section has {size} bytes at address {address:#x}")
        return span.offset + address - span.address

    def _read_exports(self, start: int, size: int) -> None:
        """Those with a name that are not forwarded to another library."""
        if not start or not size:
            return
        own, functions, names = (self._number(start + at) for at in (12, 20, 24))
        places = (self._number(start + at) for at in (28, 32, 36))
        addresses, texts, ordinals = (
            self._numbers(place, count, width)
            for place, count, width in zip(places, (functions, names, names), (4, 4, 2))
        )
        self.soname = (self._name(own, "the library's name") or None) if own else None
        for text, ordinal in zip(texts, ordinals):
            address = addresses[ordinal] if ordinal < functions else 0
            name = self._name(text, "exported name")
            if name and address and not start <= address < start + size:
                span = self._span_at(address)
                function = bool(span and span.executable)
                self.exports.append(symbol(name, address, defined=True, function=function))

    def _numbers(self, address: int, count: int, width: int) -> tuple[int, ...]:
        """A table of numbers of 2 or 4 bytes."""
        if not count:
            return ()
        at = self._offset(address, count * width, "export directory")
        return struct.unpack_from(f"<{count}{' HI'[width // 2]}", self.data, at)


class CoffObject(_Coff):
    """A COFF object; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "coff".
    """

    format = "coff"
    title = "COFF object"
    kind = "object"

    def _read(self) -> None:
        _, _, _, table, count, *_ = self._read_sections(0)
        if not count:
            return
        end = table + count * SYMBOL.size
        rows = self.rows(SYMBOL, table, count, "symbols")
        self.check(end, 4, "names of symbols")
        self.check(end, int.from_bytes(self.data[end : end + 4], "little"), "names of symbols")
        for record, value, section, _, storage, more in rows:
            for _ in range(more):
                next(rows, None)  # they add to this one
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            name = self._name(record, end)
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if name and not name.startswith(".weak."):
                found = self._symbol(name, value, section, storage == C_WEAK_EXTERNAL)
                (self.exports if found.is_defined else self.imports).append(found)

    def _name(self, record: bytes, strings: int) -> str:
        """A name of up to 8 bytes, or its place behind the table. LLVM shares the ends of names."""
        if record[:4] != bytes(4):
            return text_of(record)
        start = int.from_bytes(record[4:], "little")
        return self.text_at(strings + start, "the name of a symbol") if start >= 4 else ""

    def _symbol(self, name: str, value: int, section: int, weak: bool) -> Symbol:
        span = self._sections[section - 1] if 0 < section <= len(self._sections) else None
        defined = section > 0 or (section == 0 and value > 0)
        function = bool(span.executable if span else section == 0 and not value)
        found = symbol(name, value, defined=defined, function=function, weak=weak)
        # Addresses of an object count from its sections, so the section is kept beside: its number,
        # as in ELF.
        return found._replace(st_shndx=max(section, 0))

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section of a symbol, its address as the symbol counts it."""
        number = symbol.st_shndx
        span = self._sections[number - 1] if 0 < number <= len(self._sections) else None
        return span._replace(address=0) if span and symbol.st_value < span.size else None
