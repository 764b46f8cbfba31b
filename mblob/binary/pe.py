"""A bounded reader of PE libraries (`.dll`) and COFF objects: Microsoft's "PE Format"."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import SYMBOL_LIMIT, ForeignFile, Span, symbol

MACHINES = {
    0x14C: "i386",
    0x1C4: "arm",
    0x8664: "x86_64",
    0xAA64: "aarch64",
    0xA641: "arm64ec",
    0x5064: "riscv64",
}
DLL, NX_COMPAT = 0x2000, 0x100
EXPORTS, IMPORTS, DEBUG, DELAYED = 0, 1, 6, 13  # data directories
CODE, UNINITIALIZED, EXECUTE, WRITE = 0x20, 0x80, 0x20000000, 0x80000000
LIBRARY_LIMIT = 4096  # libraries that a file may import from
SECTION_LIMIT = 512  # of a library; Windows takes 96
C_EXTERNAL, C_WEAK_EXTERNAL = 2, 105


def is_pe(data: memoryview) -> bool:
    """Whether a file starts as programs of DOS do, and has the PE signature."""
    if bytes(data[:2]) != b"MZ" or len(data) < 64:
        return False
    at = int.from_bytes(data[60:64], "little")
    return at <= len(data) - 4 and bytes(data[at : at + 4]) == b"PE\0\0"


def is_coff(data: memoryview) -> bool:
    """Whether a file starts as a COFF object of a known machine does, without an optional
    header."""
    return (
        len(data) >= 20
        and int.from_bytes(data[:2], "little") in MACHINES
        and bytes(data[16:18]) == b"\0\0"
        and int.from_bytes(data[2:4], "little") > 0
    )


class _Coff(ForeignFile):
    """What libraries and objects have in common: the header at `at`, and the sections."""

    kind: str

    def __init__(self, data: memoryview, name: str, base: int, at: int) -> None:
        super().__init__(data, name, base)
        (self._machine, self._count, self.timestamp, self._symbols_at, self._symbol_count, self._optional_size,
         self.characteristics) = self.unpack("HHIIIHH", at, "header")  # fmt: skip
        self._optional = at + 20
        self.bits = 32 if self._machine in (0x14C, 0x1C4) else 64

    @property
    def machine(self) -> str:
        return MACHINES.get(self._machine, f"machine {self._machine:#x}")

    @cached_property
    def _all_sections(self) -> list[Span | None]:
        """All sections in their order; None for those without bytes in the file."""
        found: list[Span | None] = []
        table = self._optional + self._optional_size
        if self.kind != "object" and self._count > SECTION_LIMIT:
            raise self.fail(f"{self._count} sections, the limit is {SECTION_LIMIT}")
        self.check(table, self._count * 40, f"{self._count} section headers")
        for at in range(table, table + self._count * 40, 40):
            fields = self.unpack("8s4I", at, "section")
            title, virtual, address, raw, offset = fields
            (flags,) = self.unpack("I", at + 36, "section")
            if flags & UNINITIALIZED or not raw:
                found.append(None)
                continue
            size = min(raw, virtual) if virtual else raw
            text = title.rstrip(b"\0").decode("ascii", "backslashreplace")  # type: ignore[attr-defined]
            found.append(
                Span(
                    text, address, offset, size, bool(flags & (CODE | EXECUTE)), bool(flags & WRITE)
                )
            )
        return found

    @cached_property
    def spans(self) -> list[Span]:
        """Sections with bytes in the file; addresses count from the image's base."""
        return [s for s in self._all_sections if s is not None]


class PeFile(_Coff):
    """A PE library; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "pe".
    """

    format = "pe"

    def __init__(self, data: memoryview, name: str, base: int = 0) -> None:
        at = int.from_bytes(data[60:64], "little")
        super().__init__(data, name, base, at + 4)
        (magic,) = self.unpack("H", self._optional, "optional header")
        if magic not in (0x10B, 0x20B):
            raise self.fail(
                f"an optional header of kind {magic:#x}, expected 0x10b or 0x20b", self._optional
            )
        self.bits = 64 if magic == 0x20B else 32

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "shared" if self.characteristics & DLL else "executable"

    def _directory(self, number: int) -> tuple[int, int]:
        """Address and size of a data directory, (0, 0) if there is none."""
        at = self._optional + (112 if self.bits == 64 else 96)
        (count,) = self.unpack("I", at - 4, "optional header")
        if number >= count or at + 8 * (number + 1) > self._optional + self._optional_size:
            return 0, 0
        address, size = self.unpack("II", at + 8 * number, "data directory")
        return address, size

    def _offset(self, address: int, size: int, what: str) -> int:
        for s in self.spans:
            if 0 <= address - s.address < s.size and size <= s.size - (address - s.address):
                self.check(s.offset + address - s.address, size, what)
                return s.offset + address - s.address
        raise self.fail(f"{what}: no section has {size} bytes at address {address:#x}")

    def _name(self, address: int, what: str) -> str:
        return self.text(self._offset(address, 1, what), len(self.data), what)

    @cached_property
    def exports(self) -> Sequence[Symbol]:
        address, size = self._directory(EXPORTS)
        if not address:
            return []
        at = self._offset(address, 40, "export directory")
        functions_count, names_count, functions, names, ordinals = self.unpack(
            "5I", at + 20, "export directory"
        )
        if max(functions_count, names_count) > SYMBOL_LIMIT:
            raise self.fail(f"{names_count} exported names, the limit is {SYMBOL_LIMIT}", at)
        if not names_count:
            return []
        table = self._numbers(functions, functions_count, "I", "exported addresses")
        found = []
        pairs = zip(
            self._numbers(names, names_count, "I", "exported names"),
            self._numbers(ordinals, names_count, "H", "exported ordinals"),
        )
        for name, ordinal in pairs:
            if ordinal >= functions_count:
                raise self.fail(
                    f"an exported name of ordinal {ordinal}, there are {functions_count}", at
                )
            value = table[ordinal]
            if address <= value < address + size:
                continue  # forwarded to another library
            span = next((s for s in self.spans if 0 <= value - s.address < s.size), None)
            text = self._name(name, "exported name")
            found.append(symbol(text, value, defined=True, function=bool(span and span.executable)))
        return found

    def _numbers(self, address: int, count: int, fmt: str, what: str) -> tuple[int, ...]:
        size = count * (4 if fmt == "I" else 2)
        at = self._offset(address, size, what)
        return struct.unpack_from(f"<{count}{fmt}", self.data, at)

    @cached_property
    def _imported(self) -> list[tuple[str, list[str]]]:
        """Each library that this one imports from, and the names."""
        found = []
        word = 8 if self.bits == 64 else 4
        # each place of a name is used once; tables may not share them without end
        left = len(self.data) // word
        for directory, step, name_at, names_at in ((IMPORTS, 20, 12, 0), (DELAYED, 32, 4, 16)):
            address, _ = self._directory(directory)
            for i in range(LIBRARY_LIMIT if address else 0):
                at = self._offset(address + i * step, step, "import directory")
                (name,) = self.unpack("I", at + name_at, "import directory")
                if not name:
                    break
                (table,) = self.unpack("I", at + names_at, "import directory")
                if not table:
                    (table,) = self.unpack("I", at + 16, "import directory")
                library, names = self._name(name, "imported library"), []
                while table:
                    left -= 1
                    if left < 0:
                        raise self.fail("more imported names than the file has room for", at)
                    entry = self._offset(table, word, "imported names")
                    value = int.from_bytes(self.data[entry : entry + word], "little")
                    if not value:
                        break
                    if not value >> (8 * word - 1):  # by name, not by number
                        names.append(self._name((value & 0x7FFFFFFF) + 2, "imported name"))
                    table += word
                found.append((library, names))
        return found

    @cached_property
    def imports(self) -> Sequence[Symbol]:
        return [
            symbol(n, 0, defined=False, function=True) for _, names in self._imported for n in names
        ]

    @property
    def provided_by(self) -> dict[str, str]:
        """The library of each imported name."""
        return {n: library for library, names in self._imported for n in names}

    @property
    def needed(self) -> list[str]:
        return [library for library, _ in self._imported]

    @property
    def soname(self) -> str | None:
        """The name that the linker gave the library."""
        address, _ = self._directory(EXPORTS)
        if not address:
            return None
        (name,) = self.unpack(
            "I", self._offset(address, 40, "export directory") + 12, "export directory"
        )
        return self._name(name, "own name") if name else None

    runpath: Sequence[str] = ()

    @property
    def build_id(self) -> str | None:
        """The GUID that debuggers look for."""
        address, size = self._directory(DEBUG)
        for i in range(min(size // 28, 16)):
            at = self._offset(address + 28 * i, 28, "debug directory")
            kind, length, _, offset = self.unpack("4I", at + 12, "debug directory")
            found = bytes(self.data[offset : offset + 24]) if kind == 2 and length >= 24 else b""
            if found[:4] == b"RSDS" and len(found) == 24:
                return found[4:20].hex()
        return None

    @property
    def hints(self) -> list[str]:
        (flags,) = self.unpack("H", self._optional + 70, "optional header")
        return [] if flags & NX_COMPAT else ["its data may be run as code (no NX_COMPAT)"]


class CoffObject(_Coff):
    """A COFF object; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "coff".
    """

    format = "coff"
    kind = "object"
    needed: Sequence[str] = ()

    def __init__(self, data: memoryview, name: str, base: int = 0) -> None:
        super().__init__(data, name, base, 0)

    @cached_property
    def _symbols(self) -> list[Symbol]:
        count, table = self._symbol_count, self._symbols_at
        if not table or count > SYMBOL_LIMIT:
            return []
        self.check(table, count * 18 + 4, f"{count} symbols")
        return list(self._read(table, count))

    def _read(self, table: int, count: int) -> Iterator[Symbol]:
        strings = table + count * 18
        i = 0
        while i < count:
            at = table + 18 * i
            value, section, _, storage, auxiliary = self.unpack("IhHBB", at + 8, "symbol")
            i += 1 + auxiliary
            if storage not in (C_EXTERNAL, C_WEAK_EXTERNAL):
                continue
            zeros, offset = self.unpack("II", at, "symbol")
            if zeros:
                name = (
                    bytes(self.data[at : at + 8]).rstrip(b"\0").decode("utf-8", "backslashreplace")
                )
            else:
                name = self.text(strings + offset, len(self.data), "symbol name")
            if self.machine == "i386":
                name = name.removeprefix("_")
            # what a compiler makes of a weak function, beside its own name
            if name.startswith(".weak."):
                continue
            spans = self._all_sections
            span = spans[section - 1] if 0 < section <= len(spans) else None
            weak = storage == C_WEAK_EXTERNAL
            # Addresses of an object count from its sections, so the section is kept beside: its
            # number, as in ELF.
            found = symbol(name, value, defined=section > 0 or (section == 0 and value > 0), function=bool(
                span.executable if span else section == 0 and not value), weak=weak)  # fmt: skip
            yield Symbol(name, value, 0, found.st_info, 0, max(section, 0), at)

    @cached_property
    def exports(self) -> Sequence[Symbol]:
        return [s for s in self._symbols if s.is_defined]

    @cached_property
    def imports(self) -> Sequence[Symbol]:
        return [s for s in self._symbols if not s.is_defined]

    def span_of(self, symbol: Symbol) -> Span | None:
        """The section of a symbol, its address as the symbol counts it."""
        span = (
            self._all_sections[symbol.st_shndx - 1]
            if symbol.st_shndx <= len(self._all_sections)
            else None
        )
        return span._replace(address=0) if span and symbol.st_value < span.size else None
