"""PE libraries (`.dll`) and COFF objects: lief reads headers and sections, this module symbols."""

from __future__ import annotations

import struct
from bisect import bisect
from typing import Any

from mblob.binary.non_elf import ForeignFile, Span, number_of, text_of

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
# of a symbol: name, value, section, storage class, records that add to it
SYMBOL = struct.Struct("<8sIh2xBB")


def is_pe(data: memoryview) -> bool:
    """True if a file starts as programs of DOS do, and has the PE signature."""
    if bytes(data[:2]) != b"MZ" or len(data) < 64:
        return False
    at = int.from_bytes(data[60:64], "little")
    return bytes(data[at : at + 4]) == b"PE\0\0"


def is_coff(data: memoryview) -> bool:
    """True if a file starts as a COFF object of a known machine does, without an optional
    header."""
    if len(data) < 20:
        return False
    machine, sections, optional = struct.unpack_from("<2H12xH", data)
    return machine in MACHINES and sections > 0 and optional == 0


class _Coff(ForeignFile):
    """The common parts of libraries and objects: the machine, and the sections."""

    def _headers_from(self, at: int) -> bytearray:
        """The headers up to the last section's; the COFF header is at an offset."""
        count, self._table, self._count, optional = self.numbers(at, "2xH4x2IH2x", "a COFF header")
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
        if len(parsed.sections) < len(self._places):
            raise self.fail(f"lief can read {len(parsed.sections)} of {len(self._places)} sections")
        self.sections = [self._span(s, *place) for s, place in zip(parsed.sections, self._places)]
        for s in self.spans:
            self.check(s.offset, s.size, f"section {s.name!r}")

    def _span(self, section: Any, size: int, offset: int) -> Span | None:
        """A section, its address counted from the image's base; in an object, where symbols count
        from their section, 0. None for one without bytes in the file."""
        flags, virtual = section.characteristics, section.virtual_size
        if flags & UNINITIALIZED or not size:
            return None
        return Span(
            text_of(section.name),
            0 if self.kind == "object" else section.virtual_address,
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
        names = bytes(headers[first : first + min(size, 16)]).ljust(16, b"\0")
        self._directories = struct.unpack("<3I4x", names)
        headers[first : first + size] = bytes(size)
        return bytes(headers)

    def _read(self, lief: Any, headers: bytes) -> None:
        parsed = lief.PE.parse(headers)
        self._read_sections(parsed)
        places = sorted((s.address, i) for i, s in enumerate(self.sections, 1) if s and s.size)
        self._starts = [address for address, _ in places]
        self._numbers = [number for _, number in places]
        self.kind = "shared" if parsed.header.characteristics & DLL else "executable"
        exports, size, imports = self._directories
        if exports and size:
            self._read_exports(exports, size)
        if imports:
            self._read_imports(imports)

    def _read_exports(self, start: int, size: int) -> None:
        """Those with a name that are not forwarded to another library."""
        own, functions, names, *tables = self._at(start, "12xI4x5I")
        addresses = self._at(tables[0], f"{functions}I")
        texts, ordinals = self._at(tables[1], f"{names}I"), self._at(tables[2], f"{names}H")
        self.soname = (self._name(own) or None) if own else None
        for text, ordinal in zip(texts, ordinals):
            address = addresses[ordinal] if ordinal < functions else 0
            name = self._name(text)
            if name and address and not start <= address < start + size:
                self.add(name, address, self._section_at(address), defined=True)

    def _read_imports(self, address: int) -> None:
        """Libraries, and the names that are imported from each."""
        word = self.bits // 8
        left = len(self.data) // word  # each place of a name is used once
        for row in range(address, address + 20 * LIBRARY_LIMIT, 20):
            lookups, library, table = self._at(row, "I8x2I")
            if not library:
                return
            self.needed.append(self._name(library))
            table = lookups or table
            while table and (value := self._at(table, "Q" if word == 8 else "I")[0]):
                left -= 1
                if left < 0:
                    raise self.fail("more imported names than the file has room for")
                if not value >> (self.bits - 1):  # by name, not by number
                    name = self._name((value & 0x7FFFFFFF) + 2)
                    self.provided_by[name] = self.needed[-1]
                    self.add(name, defined=False)
                table += word

    def _at(self, address: int, fmt: str) -> tuple[int, ...]:
        """The numbers at an address; no number is nowhere."""
        size = struct.calcsize("<" + fmt)
        return self.numbers(self._offset(address, size), fmt, "a table") if size else ()

    def _name(self, address: int) -> str:
        return self.text_at(self._offset(address, 1))

    def _offset(self, address: int, size: int) -> int:
        """The offset in the file of `size` bytes at an address."""
        span = self._section(self._section_at(address))
        if span is None or size > span.size - (address - span.address):
            raise self.fail(f"exports or imports: no section has {size} bytes at {address:#x}")
        return span.offset + address - span.address

    def _section_at(self, address: int) -> int:
        """The number of the section with an address, 0 for none. Sections of a valid file do not
        overlap, so it is the last one that begins there or before."""
        at = bisect(self._starts, address) - 1
        number = self._numbers[at] if at >= 0 else 0
        span = self._section(number)
        return number if span is not None and address - span.address < span.size else 0


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
        self.bits = 32 if self.machine in ("i386", "arm") else 64
        strings = self._table + self._count * SYMBOL.size
        self.check(self._table, strings - self._table, f"a table of {self._count} symbols")
        at = self._table
        while at < strings:
            raw, value, section, storage, more = SYMBOL.unpack_from(self.data, at)
            at += SYMBOL.size * (1 + more)
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            # a name of eight bytes, or its place behind the table, where names may share their ends
            start = 0 if any(raw[:4]) else int.from_bytes(raw[4:], "little")
            name = self.text_at(strings + start) if start >= 4 else text_of(raw.partition(b"\0")[0])
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if name and not name.startswith(".weak."):
                defined, weak = section != 0 or value != 0, storage == C_WEAK_EXTERNAL
                self.add(name, value, section, defined=defined, weak=weak)
