"""PE libraries (`.dll`) and COFF objects: headers, sections, exports, imports and symbols. Names are
those of Microsoft's "PE Format"."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import ForeignFile, Span, symbol, text_of

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
# name, virtual size, address, bytes in the file, their offset, flags
SECTION = struct.Struct("<8s4I12xI")
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

    def _read_sections(self, at: int) -> tuple[int, ...]:
        """Read the COFF header at an offset, and the sections behind it.

        Returns:
            Offset of the table of symbols, number of symbols, flags of the file.
        """
        header = self.unpack("2H4x2I2H", at, "a COFF header")
        machine, count, symbols, symbol_count, optional, flags = header
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        self.bits = 32 if machine in (0x14C, 0x1C4) else 64
        rows = at + 20 + optional
        self.check(rows, 40 * count, f"a table of {count} sections")
        for row in SECTION.iter_unpack(self.data[rows : rows + 40 * count]):
            name, virtual, address, size, offset, kind = row
            size = min(size, virtual) if virtual else size
            span = Span(
                text_of(name),
                address,
                offset,
                size,
                bool(kind & (CODE | EXECUTE)),
                bool(kind & WRITE),
            )
            self.sections.append(None if kind & UNINITIALIZED or not size else span)
        for s in self.spans:
            self.check(s.offset, s.size, f"section {s.name!r}")
        return symbols, symbol_count, flags


class PeFile(_Coff):
    """A PE library; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "pe".
    """

    format = "pe"

    def _read(self) -> None:
        at = int.from_bytes(self.data[60:64], "little") + 4
        _, _, flags = self._read_sections(at)
        self.kind = "shared" if flags & DLL else "executable"
        (magic,) = self.unpack("H", at + 20, "an optional header")
        self.bits = 64 if magic == PE32_PLUS else 32
        first = at + 20 + (112 if self.bits == 64 else 96)
        (count,) = self.unpack("I", first - 4, "data directories")
        count = min(count, 16)
        self.check(first, 8 * count, "data directories")
        # address and size of the exports, and address of the imports
        exports, size, imports = struct.unpack(
            "<3I4x", bytes(self.data[first : first + 8 * min(count, 2)]).ljust(16, b"\0")
        )
        self._read_exports(exports, size)
        self._left = len(self.data) // (self.bits // 8)  # each place of a name is used once
        self._read_imports(imports)

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
    kind = "object"

    def _read(self) -> None:
        at, count, _ = self._read_sections(0)
        self.check(at, count * SYMBOL.size, f"a table of {count} symbols")
        strings = at + count * SYMBOL.size
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
            return text_of(raw)
        start = int.from_bytes(raw[4:], "little")
        return self.text_at(strings + start, "the name of a symbol") if start >= 4 else ""

    def _symbol(self, name: str, value: int, section: int, weak: bool) -> Symbol:
        span = self.sections[section - 1] if 0 < section <= len(self.sections) else None
        defined = section > 0 or (section == 0 and value > 0)
        function = bool(span.executable if span else section == 0 and not value)
        found = symbol(name, value, defined=defined, function=function, weak=weak)
        # Addresses of an object count from its sections, so the section is kept beside: its number,
        # as in ELF.
        return found._replace(st_shndx=max(section, 0))

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section of a symbol, its address as the symbol counts it."""
        number = symbol.st_shndx
        span = self.sections[number - 1] if 0 < number <= len(self.sections) else None
        return span._replace(address=0) if span and symbol.st_value < span.size else None
