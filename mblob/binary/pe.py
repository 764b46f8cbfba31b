"""PE libraries (`.dll`) and COFF objects: lief reads headers and sections, this module symbols."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import ForeignFile, Span, number_of, symbol, text_of

MACHINES = {
    0x14C: "i386",
    0x1C4: "arm",
    0x8664: "x86_64",
    0xAA64: "aarch64",
    0xA641: "arm64ec",
    0x5064: "riscv64",
}
DLL, PE32_PLUS = 0x2000, 0x20B
CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
LIBRARY_LIMIT = 4096  # libraries that a file may import from
C_EXTERNAL, C_WEAK_EXTERNAL = 2, 105
SYMBOL = struct.Struct(
    "<8sIhHBB"
)  # name, value, section, type, storage class, records that add to it


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

    def _headers_from(self, at: int) -> bytearray:
        """The headers up to the last section's; the COFF header is at an offset."""
        self.check(at, 20, "a COFF header")
        count, self._table, self._count, optional = struct.unpack_from("<2xH4xIIH2x", self.data, at)
        rows = at + 20 + optional
        self.check(rows, 40 * count, f"a table of {count} sections")
        headers = bytearray(self.data[: rows + 40 * count])
        headers[at + 8 : at + 16] = bytes(8)  # the table of symbols
        self._places: list[tuple[int, int]] = []  # size and offset of each section's bytes
        for row in range(rows, len(headers), 40):
            self._places.append(struct.unpack_from("<II", headers, row + 16))
            headers[row + 16 : row + 36] = bytes(20)  # these, relocations and line numbers
        return headers

    def _read_sections(self, parsed: Any) -> None:
        machine = number_of(parsed.header.machine)
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        self.bits = 32 if machine in (0x14C, 0x1C4) else 64
        if len(parsed.sections) < len(self._places):
            raise self.fail(f"lief can read {len(parsed.sections)} of {len(self._places)} sections")
        self._sections = [_span(s, *place) for s, place in zip(parsed.sections, self._places)]
        self.spans = [s for s in self._sections if s is not None]
        for s in self.spans:
            self.check(s.offset, s.size, f"section {s.name!r}")


def _span(section: Any, size: int, offset: int) -> Span | None:
    """A section, its address counted from the image's base. None for one without bytes in the file."""
    flags, virtual = section.characteristics, section.virtual_size
    if flags & UNINITIALIZED or not size:
        return None
    return Span(
        text_of(section.name),
        section.virtual_address,
        offset,
        min(size, virtual) if virtual else size,
        bool(flags & (CODE | EXECUTE)),
        bool(flags & WRITE),
    )


class PeFile(_Coff):
    """A PE library; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "pe".
    """

    format = "pe"
    title = "PE file"

    def _headers(self) -> bytes:
        at = int.from_bytes(self.data[60:64], "little") + 4
        headers = self._headers_from(at)
        self.bits = 64 if headers[at + 20 : at + 22] == PE32_PLUS.to_bytes(2, "little") else 32
        first = at + 20 + (112 if self.bits == 64 else 96)
        size = 8 * min(int.from_bytes(self.data[first - 4 : first], "little"), 16)
        self.check(first, size, "data directories")
        names = bytes(self.data[first : first + min(size, 16)]).ljust(16, b"\0")
        self._exports_at, self._exports_size, self._imports_at = struct.unpack("<3I4x", names)
        headers[first : first + size] = bytes(size)
        return bytes(headers)

    def _read(self, lief: Any, headers: bytes) -> None:
        bits, parsed = self.bits, lief.PE.parse(headers)
        self._read_sections(parsed)
        self.bits = bits
        self.kind = "shared" if parsed.header.characteristics & DLL else "executable"
        self._read_exports(self._exports_at, self._exports_size)
        self._left = len(self.data) // (bits // 8)  # each place of a name is used once
        self._read_imports(self._imports_at)

    def _read_imports(self, address: int) -> None:
        """Libraries, and the names that are imported from each."""
        for i in range(LIBRARY_LIMIT if address else 0):
            at = address + i * 20
            if not (name := self._number(at + 12)):
                break
            self.needed.append(self._name(name, "imported library"))
            for imported in self._imported(self._number(at) or self._number(at + 16)):
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
        return int.from_bytes(self.data[at : at + size], "little")

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

    def _headers(self) -> bytes:
        return bytes(self._headers_from(0))

    def _read(self, lief: Any, headers: bytes) -> None:
        self._read_sections(lief.COFF.parse(headers))
        self.check(self._table, self._count * SYMBOL.size, f"a table of {self._count} symbols")
        at, strings = self._table, self._table + self._count * SYMBOL.size
        while at < strings:
            raw, value, section, _, storage, more = SYMBOL.unpack_from(self.data, at)
            at += SYMBOL.size * (1 + more)
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            name = self._name(raw, strings)
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if name and not name.startswith(".weak."):
                found = self._symbol(name, value, section, storage == C_WEAK_EXTERNAL)
                (self.exports if found.is_defined else self.imports).append(found)

    def _name(self, raw: bytes, strings: int) -> str:
        """The name of a symbol: in its record, or behind the table, where names may share their ends."""
        if raw[:4] != bytes(4):
            return text_of(raw.partition(b"\0")[0])
        start = int.from_bytes(raw[4:], "little")
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
