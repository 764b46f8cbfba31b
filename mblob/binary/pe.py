"""PE libraries (`.dll`) and COFF objects."""

from __future__ import annotations

import struct

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import ForeignFile, Span, text_of

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
C_EXTERNAL, C_WEAK_EXTERNAL = 2, 105
EXPORTS, IMPORTS, DELAYED_IMPORTS = 0, 1, 13  # data directories


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

    def _read_headers(self, at: int) -> tuple[int, int, int, int]:
        """Read the COFF header and the sections.

        Returns:
            Offset and number of the symbols, offset of the optional header, characteristics.
        """
        header = self.unpack("HH4xIIHH", at, "a COFF header")
        machine, count, symbols, symbol_count, optional, flags = header
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        self.bits = 32 if machine in (0x14C, 0x1C4) else 64
        for name, virtual, address, size, offset, kind in self.rows(
            "8s4I12xI", at + 20 + optional, count, "sections"
        ):
            if kind & UNINITIALIZED or not size:
                self.sections.append(None)
                continue
            self.check(offset, size, f"section {text_of(name)!r}")
            used = min(size, virtual or size)
            code, writable = bool(kind & (CODE | EXECUTE)), bool(kind & WRITE)
            # addresses count from the image's base
            self.sections.append(Span(text_of(name), address, offset, used, code, writable))
        return symbols, symbol_count, at + 20, flags


class PeFile(_Coff):
    """A PE library; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "pe".
    """

    format = "pe"

    def _read(self) -> None:
        *_, at, flags = self._read_headers(int.from_bytes(self.data[60:64], "little") + 4)
        magic, options = self.unpack("H68xH", at, "an optional header")
        self.bits = 64 if magic == PE32_PLUS else 32
        self.kind = "shared" if flags & DLL else "executable"
        if not options & NX_COMPAT:
            self.hints = ["its data may be run as code (no NX_COMPAT)"]
        first = at + (112 if self.bits == 64 else 96)
        (count,) = self.unpack("I", first - 4, "an optional header")
        places = [
            self.unpack("II", first + 8 * i, "a data directory") if i < count else (0, 0)
            for i in (EXPORTS, IMPORTS, DELAYED_IMPORTS)
        ]
        self._read_exports(*places[0])
        self._read_imports(places[1][0], "I8xII", (0, 1, 2))
        self._read_imports(places[2][0], "4xI4xII12x", (2, 0, 2))

    def _offset(self, address: int, size: int, what: str) -> int:
        """The offset in the file of `size` bytes at an address."""
        span = self._span_at(address)
        if span is None or size > span.size - (address - span.address):
            raise self.fail(f"{what}: no section has {size} bytes at address {address:#x}")
        return span.offset + address - span.address

    def _name(self, address: int, what: str) -> str:
        return self.text_at(self._offset(address, 1, what), what)

    def _numbers(self, address: int, layout: str, what: str) -> tuple[int, ...]:
        """The fields at an address. Tables may share them, so they are counted as names are."""
        size = struct.calcsize("<" + layout)
        self.spend(size)
        return self.unpack(layout, self._offset(address, size, what), what)

    def _read_exports(self, start: int, size: int) -> None:
        """Those with a name that are not forwarded to another library."""
        if not start or not size:
            return
        what = "export directory"
        own, functions, names, *places = self._numbers(start, "12xI4x5I", what)
        self.soname = (self._name(own, "the library's name") or None) if own else None
        if not names:
            return
        addresses = self._numbers(places[0], f"{functions}I", what)
        texts = self._numbers(places[1], f"{names}I", what)
        for text, ordinal in zip(texts, self._numbers(places[2], f"{names}H", what)):
            address = addresses[ordinal] if ordinal < functions else 0
            name = self._name(text, "exported name")
            if name and address and not start <= address < start + size:
                span = self._span_at(address)
                self.add(name, address, defined=True, function=bool(span and span.executable))

    def _read_imports(self, address: int, layout: str, order: tuple[int, int, int]) -> None:
        """Libraries and names of a directory; `order`: where `layout` has the table of names, the
        library's name, and the table of addresses, which has the names, too."""
        word, form = self.bits // 8, "Q" if self.bits == 64 else "I"
        while address:
            row = self._numbers(address, layout, "import directory")
            table, library, other = (row[i] for i in order)
            if not library:
                break
            self.needed.append(self._name(library, "imported library"))
            table = table or other
            while table and (value := self._numbers(table, form, "imported names")[0]):
                if not value >> (8 * word - 1):  # by name, not by number
                    name = self._name((value & 0x7FFFFFFF) + 2, "imported name")
                    self.provided_by[name] = self.needed[-1]
                    self.add(name, 0, defined=False, function=True)
                table += word
            address += struct.calcsize("<" + layout)


class CoffObject(_Coff):
    """A COFF object; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "coff".
    """

    format = "coff"
    kind = "object"

    def _read(self) -> None:
        at, count, *_ = self._read_headers(0)
        strings, more = at + 18 * count, 0
        for record, value, section, storage, following in self.rows(
            "8sIhxxBB", at, count, "symbols"
        ):
            if more:  # a record that adds to the symbol before it
                more -= 1
                continue
            more = following
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            name = self._name(record, strings)
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if not name or name.startswith(".weak."):
                continue
            span = self.section_of(section)
            defined = section > 0 or (section == 0 and value > 0)
            function = span.executable if span else section == 0 and not value
            weak = storage == C_WEAK_EXTERNAL
            # Addresses of an object count from its sections, so the section is kept beside: its
            # number, as in ELF.
            self.add(
                name, value, defined=defined, function=function, weak=weak, section=max(section, 0)
            )

    def _name(self, record: bytes, strings: int) -> str:
        """Of a symbol: in its record, or behind the table."""
        if record[:4] != bytes(4):
            return text_of(record)
        start = int.from_bytes(record[4:], "little")
        return self.text_at(strings + start, "the name of a symbol") if start >= 4 else ""

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section of a symbol, its address as the symbol counts it."""
        span = self.section_of(symbol.st_shndx)
        return span._replace(address=0) if span and symbol.st_value < span.size else None
