"""PE libraries (`.dll`) and COFF objects, which lief reads."""

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
DLL, NX_COMPAT, PE32_PLUS = 0x2000, 0x100, 0x20B
CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
LIBRARY_LIMIT = 4096  # libraries that a file may import from
C_EXTERNAL, C_WEAK_EXTERNAL = 2, 105
EXPORTS, IMPORTS, DEBUG, DELAYED_IMPORTS = 0, 1, 6, 13  # data directories
DIRECTORIES = 16
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

    @property
    def _header(self) -> int:
        """The offset of the COFF header."""
        return 0

    def _for_lief(self) -> bytes:
        """Without relocations and line numbers: lief makes an object of each, for all sections that
        share them."""
        self.check(self._header, 20, "a COFF header")
        count, optional = (
            int.from_bytes(self.data[at : at + 2], "little")
            for at in (self._header + 2, self._header + 16)
        )
        table = self._header + 20 + optional
        self.check(table, 40 * count, f"a table of {count} sections")
        head = bytearray(self.data[: table + 40 * count])
        places = []
        for at in range(table, len(head), 40):
            size, offset = struct.unpack_from("<II", head, at + 16)
            places.append((offset, size))
            head[at + 32 : at + 36] = bytes(4)
        self.check_sections(places)
        self._edit_head(head)
        return bytes(head) + self.data[len(head) :]

    def _edit_head(self, head: bytearray) -> None:
        """Change what lief gets of the headers."""

    def _read_sections(self, parsed: Any, count: int) -> None:
        """`count`: of the header. lief reads what is left of a file and says nothing."""
        machine = number_of(parsed.header.machine)
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        self.bits = 32 if machine in (0x14C, 0x1C4) else 64
        self._sections = list(map(_span, parsed.sections))
        if len(self._sections) < count:
            raise self.fail(f"{count} sections, lief can read {len(self._sections)}")
        self.spans = [s for s in self._sections if s is not None]
        for s in self.spans:
            self.check(s.offset, s.size, f"section {s.name!r}")


def _span(section: Any) -> Span | None:
    """Addresses count from the image's base. None for a section without bytes in the file."""
    flags, raw, virtual = section.characteristics, section.sizeof_raw_data, section.virtual_size
    if flags & UNINITIALIZED or not raw:
        return None
    return Span(
        text_of(section.name),
        section.virtual_address,
        section.pointerto_raw_data,
        min(raw, virtual) if virtual else raw,
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

    @property
    def _header(self) -> int:
        return int.from_bytes(self.data[60:64], "little") + 4

    def _edit_head(self, head: bytearray) -> None:
        """Leave the directories of names. Of others lief makes objects of any number and size, as
        their records share what they name."""
        optional = self._header + 20
        # lief reads them there, also if the header says that it is shorter.
        head += self.data[len(head) : optional + 112 + 8 * DIRECTORIES]
        is_wide = int.from_bytes(head[optional : optional + 2], "little") == PE32_PLUS
        first = optional + (112 if is_wide else 96)
        count = int.from_bytes(head[first - 4 : first], "little")
        self.check(first, 8 * min(count, DIRECTORIES), "data directories")
        self._debug = (
            struct.unpack_from("<II", head, first + 8 * DEBUG) if count > DEBUG else (0, 0)
        )
        for i in range(min(count, DIRECTORIES)):
            if i not in (EXPORTS, IMPORTS, DELAYED_IMPORTS):
                head[first + 8 * i : first + 8 * i + 8] = bytes(8)

    def _parsed(self, lief: Any, data: bytes) -> Any:
        wanted = lief.PE.ParserConfig()
        wanted.parse_signature = wanted.parse_rsrc = wanted.parse_reloc = False
        wanted.parse_exceptions = wanted.parse_arm64x_binary = False
        # Tables may share their names: of 160 KB lief 0.17 and 1.0 make 40 million imports.
        wanted.parse_imports = wanted.parse_exports = False
        return lief.PE.parse(data, wanted)

    def _read(self, lief: Any, parsed: Any) -> None:
        self._read_sections(parsed, parsed.header.numberof_sections)
        optional = parsed.optional_header
        self.bits = 64 if number_of(optional.magic) == PE32_PLUS else 32
        self.kind = "shared" if parsed.header.characteristics & DLL else "executable"
        if not optional.dll_characteristics & NX_COMPAT:
            self.hints = ["its data may be run as code (no NX_COMPAT)"]
        self.build_id = self._guid()
        self._read_exports(parsed.export_dir)
        self._left = len(self.data) // (self.bits // 8)  # each place of a name is used once
        self._read_imports(parsed.import_dir, 20, 12, 0)
        self._read_imports(parsed.delay_dir, 32, 4, 16)

    def _guid(self) -> str | None:
        """The GUID by which debuggers look for the debug information; None if there is none."""
        at, size = self._debug
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

    def _read_imports(self, directory: Any, step: int, name_at: int, names_at: int) -> None:
        """Libraries and names of a directory, whose records have `step` bytes."""
        address = directory.rva if directory is not None else 0
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
        return int.from_bytes(self.data[at : at + size], "little")

    def _name(self, address: int, what: str) -> str:
        return self.text_at(self._offset(address, 1, what), what)

    def _offset(self, address: int, size: int, what: str) -> int:
        """The offset in the file of `size` bytes at an address."""
        span = self._span_at(address)
        if span is None or size > span.size - (address - span.address):
            raise self.fail(f"{what}: no section has {size} bytes at address {address:#x}")
        return span.offset + address - span.address

    def _read_exports(self, directory: Any) -> None:
        """Those with a name that are not forwarded to another library."""
        start, size = (directory.rva, directory.size) if directory is not None else (0, 0)
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

    def _parsed(self, lief: Any, data: bytes) -> Any:
        return lief.COFF.parse(data)

    def _read(self, lief: Any, parsed: Any) -> None:
        header = parsed.header
        table, count = header.pointerto_symbol_table, header.nb_symbols
        self._read_sections(parsed, header.nb_sections)
        self.check(table, count * 18, f"a table of {count} symbols")
        for s, at in zip(parsed.symbols, self._records(table, table + count * 18)):
            storage = number_of(s.storage_class)
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            name = self._name(at, table + count * 18)
            if not name:
                continue
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if not name.startswith(".weak."):
                found = self._symbol(name, s.value, s.section_idx, storage == C_WEAK_EXTERNAL)
                (self.exports if found.is_defined else self.imports).append(found)

    def _records(self, at: int, end: int) -> Iterator[int]:
        """The offset of each symbol in the table, without the records that add to one."""
        while at < end:
            yield at
            at += 18 * (1 + self.data[at + 17])

    def _name(self, at: int, strings: int) -> str:
        """Of the symbol at `at`: in its record, or behind the table. LLVM shares the ends of names, of
        which lief has only whole ones."""
        record = bytes(self.data[at : at + 8])
        if record[:4] != bytes(4):
            return text_of(record.partition(b"\0")[0])
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
