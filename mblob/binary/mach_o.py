"""Mach-O files of one machine, and the table of universal files."""

from __future__ import annotations

import struct

from mblob.binary.non_elf import ForeignFile, Span, text_of
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

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
LC_SYMTAB, LC_ID_DYLIB, LC_UUID, LC_RPATH, LC_BUILD_VERSION = 2, 0xD, 0x1B, 0x8000001C, 0x32
# commands with a name: libraries that are needed, weakly, lazily or to be exported again, too
NAMED = (LC_ID_DYLIB, LC_RPATH, 0xC, 0x80000018, 0x8000001F, 0x20, 0x80000023)
OLDEST = {0x24: "macOS", 0x25: "iOS", 0x2F: "tvOS", 0x30: "watchOS"}  # LC_VERSION_MIN_*
# LC_SEGMENT and LC_SEGMENT_64: protection and number of sections; the fields of a section
SEGMENTS = {1: ("44xII4x", "16s16s3I12xI8x"), 0x19: ("60xII4x", "16s16sQQI12xI12x")}
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
ZEROFILL = (0x1, 0xC, 0x12)  # types of sections without bytes
CODE = 0x80000400  # attributes of sections with instructions


def is_thin(data: memoryview) -> bool:
    """True if a file starts as a Mach-O file of one machine does."""
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
        raise FormatError.about(
            name, f"{count} machines, the file ends at {len(data)}", code="mach_o", offset=8
        )
    found = []
    for i in range(count):
        cpu, _, offset, size, *_ = struct.unpack_from(f">{fmt}", data, 8 + i * step)
        machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        if size > len(data) or offset > len(data) - size:
            raise FormatError.about(
                name,
                f"the part for {machine} is {size} bytes at {offset}, the file ends at {len(data)}",
                code="mach_o",
                offset=8 + i * step,
            )
        found.append(Slice(machine, offset, size))
    return found


class MachO(ForeignFile):
    """A Mach-O file of one machine; an `mblob.binary.image.Image`. Exported symbols are those of
    the symbol table, not of the export trie, which repeats them for dyld.

    Raises:
        FormatError: "mach_o".
    """

    format = "mach-o"

    def _read(self) -> None:
        magic = bytes(self.data[:4])
        self.byte_order = THIN[magic]
        self.bits = 64 if 0xCF in magic else 32
        cpu, subtype, kind, count, size, flags = self.unpack("4x6I", 0, "a Mach-O header")
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        self.hints = [f"cpusubtype {subtype & 0xFFFFFF}"]
        at = 32 if self.bits == 64 else 28
        self.check(at, size, "load commands")
        end, tables = at + size, []
        for _ in range(count):
            command, size = self.unpack("II", at, "a load command")
            if not 8 <= size <= end - at:
                raise self.fail(f"a load command of {size} bytes, {end - at} are left", at)
            if command == LC_SYMTAB:
                tables.append(at)
            else:
                self._take(command, at, size)
            at += size
        if len(tables) > 1:
            raise self.fail("more than one table of symbols", tables[1])
        if tables:
            self._read_symbols(tables[0], bool(flags & MH_TWOLEVEL) and self.kind != "object")

    def _take(self, command: int, at: int, size: int) -> None:
        """Read a load command other than the one for symbols."""
        if command in SEGMENTS:
            self._read_sections(at, size, *SEGMENTS[command])
        elif command == LC_UUID:
            self.build_id = self.unpack("16s", at + 8, "an identifier")[0].hex()
        elif command in OLDEST or command == LC_BUILD_VERSION:
            platform, version = self.unpack("II", at + 8, "a version")
            system = PLATFORMS.get(platform, f"platform {platform}")
            if command in OLDEST:
                system, version = OLDEST[command], platform
            last = f".{version & 0xFF}" if version & 0xFF else ""
            self.hints.append(f"{system} {version >> 16}.{version >> 8 & 0xFF}{last} or later")
        elif command in NAMED:
            name = self.text_at(at + self.unpack("I", at + 8, "a name")[0], "a name")
            if command == LC_ID_DYLIB:
                self.soname = name
            else:
                (self.runpath if command == LC_RPATH else self.needed).append(name)

    def _read_sections(self, at: int, size: int, head: str, section: str) -> None:
        """Sections of a segment in the order by which symbols name them."""
        protection, count = self.unpack(head, at, "a segment")
        first, step = struct.calcsize("<" + head), struct.calcsize("<" + section)
        if first + count * step > size:
            raise self.fail(f"{count} sections in a load command of {size} bytes", at)
        rows = self.rows(section, at + first, count, "sections")
        for name, segment, address, length, offset, flags in rows:
            if flags & 0xFF in ZEROFILL:
                self.sections.append(None)
                continue
            # An object has one segment for all sections; where each will go is in its own name.
            place = text_of(segment)
            writable = place == "__DATA" if self.kind == "object" else bool(protection & 2)
            called = f"{place},{text_of(name)}"
            self.sections.append(
                Span(called, address, offset, length, bool(flags & CODE), writable)
            )

    def _read_symbols(self, at: int, two_level: bool) -> None:
        """External symbols; `two_level`: undefined ones have the number of their library."""
        places, count, strings, size = self.unpack("4I", at + 8, "a table of symbols")
        self.check(strings, size, "names of symbols")
        layout = "IBBHQ" if self.bits == 64 else "IBBHI"
        for name_at, kind, section, desc, value in self.rows(layout, places, count, "symbols"):
            if kind & N_STAB or not kind & N_EXT or (kind & N_PEXT and self.kind != "object"):
                continue  # for debuggers, not external, or hidden and linked already
            name = self.text_at(strings + name_at, "the name of a symbol").removeprefix("_")
            if not name:
                continue
            defined = kind & N_TYPE != 0 or value != 0  # undefined with a value is common
            span = self.section_of(section) if kind & N_TYPE == N_SECT else None
            function = span.executable if span else not defined
            weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
            self.add(name, value, defined=defined, function=function, weak=weak)
            library = desc >> 8 & 0xFF
            if two_level and not defined and 0 < library <= len(self.needed):
                self.provided_by[name] = self.needed[library - 1]
