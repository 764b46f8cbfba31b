"""A bounded reader of Mach-O files, thin and universal: `mach-o/loader.h`, `mach-o/nlist.h`,
`mach-o/fat.h`."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, cast

from mblob.binary.elf_records import Symbol
from mblob.binary.non_elf import SYMBOL_LIMIT, ForeignFile, Span, symbol
from mblob.errors import FormatError

THIN = {
    b"\xfe\xed\xfa\xce": ">",
    b"\xce\xfa\xed\xfe": "<",
    b"\xfe\xed\xfa\xcf": ">",
    b"\xcf\xfa\xed\xfe": "<",
}
FAT = {b"\xca\xfe\xba\xbe": "5I", b"\xca\xfe\xba\xbf": "IIQQII"}
FAT_LIMIT = 24  # machines; Java class files start as universal files do, and have 45 or more there
MACHINES = {
    7: "i386", 12: "arm", 18: "ppc", 0x01000007: "x86_64", 0x0100000C: "aarch64", 0x0200000C: "arm64_32",
    0x01000012: "ppc64",
}  # fmt: skip
KINDS = {1: "object", 2: "executable", 6: "shared", 8: "bundle", 9: "stub"}
PLATFORMS = {
    1: "macOS",
    2: "iOS",
    3: "tvOS",
    4: "watchOS",
    6: "Mac Catalyst",
    7: "iOS simulator",
    11: "visionOS",
}
MH_TWOLEVEL = 0x80
LC_SEGMENT, LC_SEGMENT_64, LC_SYMTAB, LC_UUID, LC_BUILD_VERSION = 0x1, 0x19, 0x2, 0x1B, 0x32
LC_ID_DYLIB, LC_RPATH = 0xD, 0x8000001C
LC_LOADS = (0xC, 0x80000018, 0x8000001F, 0x20, 0x80000023)  # LOAD, WEAK, REEXPORT, LAZY, UPWARD
LC_DYLD_INFO = (0x22, 0x80000022)
LC_DYLD_EXPORTS_TRIE = 0x80000033
LC_VERSION_MIN = {0x24: "macOS", 0x25: "iOS", 0x2F: "tvOS", 0x30: "watchOS"}
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
ZEROFILL = (0x1, 0xC, 0x12)  # types of sections without bytes
SECTION_LIMIT = 1024  # symbols can name 255
CODE = 0x80000400  # attributes of sections with instructions


def is_thin(data: memoryview) -> bool:
    """Whether a file starts as a Mach-O file of one machine does."""
    return bytes(data[:4]) in THIN


class Slice(NamedTuple):
    """One machine's part of a universal file."""

    machine: str
    offset: int
    size: int


def slices(data: memoryview, name: str) -> list[Slice]:
    """The parts of a universal file, [] for other files.

    Raises:
        FormatError: "mach_o": a part lies outside the file.
    """
    fmt = FAT.get(bytes(data[:4]))
    if (
        fmt is None
        or len(data) < 8
        or not 0 < (count := int.from_bytes(data[4:8], "big")) <= FAT_LIMIT
    ):
        return []
    step = struct.calcsize(f">{fmt}")
    if count * step > len(data) - 8:
        raise FormatError(
            f"{name}: {count} machines, the file ends at {len(data)}", code="mach_o", offset=8
        )
    found = []
    for i in range(count):
        cpu, _, offset, size, *_ = struct.unpack_from(f">{fmt}", data, 8 + i * step)
        machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        if size > len(data) or offset > len(data) - size:
            raise FormatError(
                f"{name}: the part for {machine} is {size} bytes at {offset}, the file ends at {len(data)}",
                code="mach_o", offset=8 + i * step,
            )  # fmt: skip
        found.append(Slice(machine, offset, size))
    return found


class MachO(ForeignFile):
    """A Mach-O file of one machine; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "mach_o".
    """

    format = "mach-o"

    def __init__(self, data: memoryview, name: str, base: int = 0) -> None:
        super().__init__(data, name, base)
        self.byte_order = THIN[bytes(data[:4])]
        self.bits = 64 if 0xCF in (data[0], data[3]) else 32
        (
            _,
            self.cputype,
            self.cpusubtype,
            self.filetype,
            self._ncmds,
            self._sizeofcmds,
            self.flags,
        ) = self.unpack("7I", 0, "header")
        self._word = "Q" if self.bits == 64 else "I"
        self.check(self._head, self._sizeofcmds, "load commands")

    @property
    def _head(self) -> int:
        return 32 if self.bits == 64 else 28

    @property
    def machine(self) -> str:
        return MACHINES.get(self.cputype, f"machine {self.cputype:#x}")

    @property
    def kind(self) -> str:
        return KINDS.get(self.filetype, f"Mach-O type {self.filetype}")

    @cached_property
    def commands(self) -> list[tuple[int, int, int]]:
        """(command, offset, size) of each load command."""
        found = []
        at, end = self._head, self._head + self._sizeofcmds
        for _ in range(min(self._ncmds, self._sizeofcmds // 8)):
            if end - at < 8:
                break
            command, size = self.unpack("II", at, "load command")
            if size < 8 or size > end - at:
                raise self.fail(f"a load command of {size} bytes, {end - at} are left", at)
            found.append((command, at, size))
            at += size
        return found

    def _of(self, *kinds: int) -> Iterator[tuple[int, int]]:
        return ((at, size) for command, at, size in self.commands if command in kinds)

    @cached_property
    def spans(self) -> list[Span]:
        """Sections with bytes in the file."""
        return [s for s in self._sections if s is not None]

    @cached_property
    def _sections(self) -> list[Span | None]:
        """All sections in the order by which symbols name them; None for those without bytes."""
        found: list[Span | None] = []
        w = self._word
        fmt = f"16s16s{w}{w}8I" if self.bits == 64 else "16s16s9I"
        head, step = (72, 80) if self.bits == 64 else (56, 68)
        for at, size in self._of(LC_SEGMENT_64 if self.bits == 64 else LC_SEGMENT):
            if size < head:
                raise self.fail(f"a segment command of {size} bytes, expected at least {head}", at)
            *_, initprot, count, _ = self.unpack(f"{w}{w}{w}{w}4I", at + 24, "segment")
            if count > (size - head) // step:
                raise self.fail(f"{count} sections in a segment command of {size} bytes", at)
            for i in range(count):
                fields = self.unpack(fmt, at + head + i * step, "section")
                name, segment = cast("tuple[bytes, bytes]", fields[:2])
                address, length, offset = fields[2:5]
                flags = fields[8]
                both = b",".join(part.rstrip(b"\0") for part in (segment, name))
                title = both.decode("ascii", "backslashreplace")
                # An object has one segment for all sections; where each will go is in its own name.
                writable = (
                    segment.startswith(b"__DATA\0") if self.kind == "object" else bool(initprot & 2)
                )
                span = Span(title, address, offset, length, bool(flags & CODE), writable)
                found.append(None if flags & 0xFF in ZEROFILL else span)
                if len(found) > SECTION_LIMIT:
                    raise self.fail(f"more than {SECTION_LIMIT} sections", at)
        return found

    @cached_property
    def _symbols(self) -> list[tuple[Symbol, int]]:
        """External symbols, and the number of the library that a two-level file takes an undefined
        one from."""
        found = []
        for at, _ in itertools.islice(self._of(LC_SYMTAB), 1):
            table, count, strings, strings_size = self.unpack("4I", at + 8, "symbol table command")
            if count > SYMBOL_LIMIT:
                raise self.fail(f"{count} symbols, the limit is {SYMBOL_LIMIT}", at)
            step = 16 if self.bits == 64 else 12
            self.check(table, count * step, f"{count} symbols")
            self.check(strings, strings_size, "names of symbols")
            for entry in range(table, table + count * step, step):
                found += self._symbol(entry, strings, strings_size)
        return found

    def _symbol(self, at: int, strings: int, strings_size: int) -> list[tuple[Symbol, int]]:
        strx, kind, section, desc, value = self.unpack(f"IBBH{self._word}", at, "symbol")
        if kind & N_STAB or not kind & N_EXT or not strx:
            return []
        if kind & N_PEXT and self.kind != "object":
            return []  # hidden, and linked already
        name = self.text(strings + strx, strings + strings_size, "symbol name").removeprefix("_")
        defined = kind & N_TYPE != 0 or value != 0  # undefined with a value is common
        span = (
            self._sections[section - 1]
            if kind & N_TYPE == N_SECT and 0 < section <= len(self._sections)
            else None
        )
        function = span.executable if span else not defined
        weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
        return [(symbol(name, value, defined=defined, function=function, weak=weak), desc >> 8)]

    @cached_property
    def exports(self) -> Sequence[Symbol]:
        """Exported symbols: of the symbol table, or of the trie where that was stripped."""
        listed = [s for s, _ in self._symbols if s.is_defined]
        names = {s.name for s in listed}
        return listed + [s for s in self._trie_symbols() if s.name not in names]

    @cached_property
    def imports(self) -> Sequence[Symbol]:
        return [s for s, _ in self._symbols if not s.is_defined]

    @property
    def provided_by(self) -> dict[str, str]:
        """The library of each undefined symbol, where the file says it."""
        needed = self.needed
        named = self.flags & MH_TWOLEVEL and self.kind != "object"
        return {
            s.name: needed[n - 1]
            for s, n in self._symbols
            if named and not s.is_defined and 0 < n <= len(needed)
        }

    def _trie_symbols(self) -> Iterator[Symbol]:
        for at, size in itertools.islice(self._of(*LC_DYLD_INFO, LC_DYLD_EXPORTS_TRIE), 2):
            place = at + 8 if size == 16 else at + 40
            start, length = self.unpack("II", place, "export trie")
            self.check(start, length, "export trie")
            text = next((a for a in self._segments() if a[0] == "__TEXT"), ("", 0))[1]
            yield from self._walk_trie(start, start + length, text)

    def _segments(self) -> Iterator[tuple[str, int]]:
        for at, _ in self._of(LC_SEGMENT_64 if self.bits == 64 else LC_SEGMENT):
            name, address = self.unpack(f"16s{self._word}", at + 8, "segment")
            yield name.rstrip(b"\0").decode("ascii", "backslashreplace"), address  # type: ignore[attr-defined]

    def _walk_trie(self, start: int, end: int, text: int) -> Iterator[Symbol]:
        """Each node once: a trie that leads back would be endless."""
        seen: set[int] = set()
        pending = [(start, "")]
        while pending:
            at, prefix = pending.pop()
            if not start <= at < end or at in seen:
                continue
            seen.add(at)
            size, at = self._uleb(at, end)
            children = at + size
            if size and children < end:
                flags, at = self._uleb(at, children)
                value, _ = self._uleb(at, children)
                if not flags & 0x8 and prefix:  # 0x8: re-exported from another library
                    address = value if flags & 3 == 2 else text + value
                    span = next((s for s in self.spans if 0 <= address - s.address < s.size), None)
                    yield symbol(
                        prefix.removeprefix("_"),
                        address,
                        defined=True,
                        function=bool(span and span.executable),
                    )
            if children >= end:
                continue
            count, at = self.data[children], children + 1
            for _ in range(count):
                edge = self.text(at, end, "export trie")
                offset, at = self._uleb(at + len(edge.encode()) + 1, end)
                self.charge(len(prefix) + len(edge))
                pending.append((start + offset, prefix + edge))

    def _uleb(self, at: int, end: int) -> tuple[int, int]:
        value = shift = 0
        while at < end and shift < 64:
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value, at
        raise self.fail("a number in the export trie does not end", at)

    def _path(self, at: int, size: int, what: str) -> str:
        (offset,) = self.unpack("I", at + 8, what)
        return self.text(at + offset, at + size, what)

    @cached_property
    def needed(self) -> list[str]:
        return [self._path(at, size, "library") for at, size in self._of(*LC_LOADS)]

    @property
    def soname(self) -> str | None:
        """The name that the file was installed under (LC_ID_DYLIB)."""
        return next((self._path(at, size, "own name") for at, size in self._of(LC_ID_DYLIB)), None)

    @property
    def runpath(self) -> list[str]:
        return [self._path(at, size, "search path") for at, size in self._of(LC_RPATH)]

    @property
    def build_id(self) -> str | None:
        at = next((at for at, size in self._of(LC_UUID) if size >= 24), None)
        return None if at is None else bytes(self.data[at + 8 : at + 24]).hex()

    @property
    def hints(self) -> list[str]:
        """The subtype of the processor, and the oldest system."""
        found = [f"cpusubtype {self.cpusubtype & 0xFFFFFF}"]
        for command, at, size in self.commands:
            if command == LC_BUILD_VERSION and size >= 24:
                platform, version = self.unpack("II", at + 8, "build version")
                found.append(
                    f"{PLATFORMS.get(platform, f'platform {platform}')} {_version(version)} or later"
                )
            elif command in LC_VERSION_MIN and size >= 16:
                (version,) = self.unpack("I", at + 8, "oldest version")
                found.append(f"{LC_VERSION_MIN[command]} {_version(version)} or later")
        return found


def _version(packed: int) -> str:
    return f"{packed >> 16}.{packed >> 8 & 0xFF}" + (f".{packed & 0xFF}" if packed & 0xFF else "")
