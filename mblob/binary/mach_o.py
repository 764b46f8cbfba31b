"""Mach-O files of one machine, and the table of universal files. Names are those of <mach-o/loader.h>."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mblob.binary.elf_tables import NAME_LIMIT
from mblob.binary.non_elf import ForeignFile, Span, symbol, text_of
from mblob.bytes.record import Record
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
MINIMUM = {0x24: "macOS", 0x25: "iOS", 0x2F: "tvOS", 0x30: "watchOS"}  # LC_VERSION_MIN_*
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
LC_SEGMENT, LC_SYMTAB, LC_SEGMENT_64 = 1, 2, 0x19
LC_ID_DYLIB, LC_UUID, LC_RPATH, LC_BUILD_VERSION = 0xD, 0x1B, 0x8000001C, 0x32
# LC_LOAD_DYLIB, and those of weak, re-exported, late and upward libraries
LIBRARIES = (0xC, 0x80000018, 0x8000001F, 0x20, 0x80000023)
# where commands say offset and size of an export trie: LC_DYLD_INFO, LC_DYLD_INFO_ONLY, LC_DYLD_EXPORTS_TRIE
TRIES = {0x22: 40, 0x80000022: 40, 0x80000033: 8}
HEADER = "magic I, cputype I, cpusubtype I, filetype I, ncmds I, sizeofcmds I, flags I"
SEGMENT = (
    "cmd I, cmdsize I, segname 16s, vmaddr N, vmsize N, fileoff N, filesize N, maxprot I, initprot I, nsects I,"
    " flags I"
)
SECTION = (
    "sectname 16s, segname 16s, addr N, size N, offset I, align I, reloff I, nreloc I, flags I, reserved1 I,"
    " reserved2 I"
)
NLIST = "n_strx I, n_type B, n_sect B, n_desc H, n_value N"
ZEROFILL = (0x1, 0xC, 0x12)  # types of sections without bytes
CODE = 0x80000400  # attributes of sections with instructions
# names of an export trie add up to at most this times the file, which shared prefixes could exceed
TEXT_BUDGET = 8


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
    """A Mach-O file of one machine; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "mach_o".
    """

    format = "mach-o"
    title = "Mach-O file"

    def _read(self) -> None:
        magic = bytes(self.data[:4])
        self.byte_order = THIN[magic]
        self.bits = 64 if 0xCF in magic else 32
        header = self._record(HEADER + (", reserved I" if self.bits == 64 else ""))
        _, cpu, subtype, kind, count, size, flags, *_ = self.unpack(header, 0, "a Mach-O header")
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        self.hints = [f"cpusubtype {subtype & 0xFFFFFF}"]
        self._sections: list[Span | None] = []  # in the order by which symbols name them
        self._start = 0  # the address of the segment __TEXT
        tables: dict[str, list[tuple[int, ...]]] = {"symbols": [], "exported names": []}
        self.check(header.size, size, "load commands")
        for command, at, end in self._commands(header.size, count, header.size + size):
            if command == (LC_SEGMENT_64 if self.bits == 64 else LC_SEGMENT):
                self._read_segment(at, end)
            elif command == LC_SYMTAB:
                tables["symbols"].append(self._numbers(at + 8, 4))
            elif command in (LC_ID_DYLIB, LC_RPATH, *LIBRARIES):
                self._take_name(command, self._text_in(at, end))
            elif command == LC_UUID:
                self.check(at, 24, "a UUID")
                self.build_id = bytes(self.data[at + 8 : at + 24]).hex()
            elif command == LC_BUILD_VERSION:
                platform, version = self._numbers(at + 8, 2)
                system = PLATFORMS.get(platform, f"platform {platform}")
                self.hints.append(f"{system} {_version(version)} or later")
            elif command in MINIMUM:
                (version,) = self._numbers(at + 8, 1)
                self.hints.append(f"{MINIMUM[command]} {_version(version)} or later")
            elif command in TRIES:
                tables["exported names"].append(self._numbers(at + TRIES[command], 2))
        self.spans = [s for s in self._sections if s is not None]
        for what, places in tables.items():
            if len(places) > 1:
                raise self.fail(f"more than one table of {what}")
        two_level = bool(flags & MH_TWOLEVEL) and self.kind != "object"
        for place in tables["symbols"]:
            self._read_symbols(*place, two_level=two_level)
        for place in tables["exported names"]:
            self._read_trie(*place)

    def _record(self, fields: str) -> Record:
        return Record(fields, self.byte_order, self.bits)

    def _numbers(self, at: int, count: int) -> tuple[int, ...]:
        self.check(at, 4 * count, "a load command")
        return struct.unpack_from(f"{self.byte_order}{count}I", self.data, at)

    def _commands(self, at: int, count: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Each load command, where it begins, and where it ends."""
        for i in range(count):
            size = 0
            if end - at >= 8:
                command, size = self._numbers(at, 2)
            if size < 8 or size > end - at:
                raise self.fail(
                    f"load command {i} of {count} has {size} bytes, {end - at} are left", at
                )
            yield command, at, at + size
            at += size

    def _text_in(self, at: int, end: int) -> str:
        """The name in a command, whose offset in it is its third number."""
        (start,) = self._numbers(at + 8, 1)
        return text_of(bytes(self.data[min(at + start, end) : end]))

    def _take_name(self, command: int, name: str) -> None:
        if command == LC_ID_DYLIB:
            self.soname = name
        else:
            (self.runpath if command == LC_RPATH else self.needed).append(name)

    def _read_segment(self, at: int, end: int) -> None:
        segment = self._record(SEGMENT)
        section = self._record(SECTION + (", reserved3 I" if self.bits == 64 else ""))
        _, _, name, address, *_, protection, count, _ = self.unpack(segment, at, "a segment")
        if count > (end - at - segment.size) // section.size:
            raise self.fail(
                f"a segment with {count} sections in a load command of {end - at} bytes", at
            )
        if text_of(name) == "__TEXT" and not self._start:
            self._start = address
        wanted = section.pick("sectname", "segname", "addr", "size", "offset", "flags")
        for row in self.rows(section, at + segment.size, count, "sections"):
            name, place, address, size, offset, flags = wanted(row)
            # An object has one segment for all sections; where each will go is in its own name.
            home = text_of(place)
            writable = home == "__DATA" if self.kind == "object" else bool(protection & 2)
            full = f"{home},{text_of(name)}"
            span = Span(full, address, offset, size, bool(flags & CODE), writable)
            self._sections.append(None if flags & 0xFF in ZEROFILL else span)

    def _read_symbols(
        self, offset: int, count: int, strings: int, size: int, *, two_level: bool
    ) -> None:
        """External symbols; `two_level`: undefined ones have the number of their library."""
        self.check(strings, size, "names of symbols")
        rows = self.rows(self._record(NLIST), offset, count, "symbols")
        for at, kind, section, desc, value in rows:
            if kind & N_STAB or not kind & N_EXT or not at:
                continue
            if kind & N_PEXT and self.kind != "object":
                continue  # hidden, and linked already
            name = self.text_at(strings + at, "the name of a symbol").removeprefix("_")
            defined = kind & N_TYPE != 0 or value != 0  # undefined with a value is common
            in_section = kind & N_TYPE == N_SECT and 0 < section <= len(self._sections)
            span = self._sections[section - 1] if in_section else None
            function = span.executable if span else not defined
            weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
            found = symbol(name, value, defined=defined, function=function, weak=weak)
            (self.exports if defined else self.imports).append(found)
            library = desc >> 8 & 0xFF
            if two_level and not defined and 0 < library <= len(self.needed):
                self.provided_by[name] = self.needed[library - 1]

    def _read_trie(self, offset: int, size: int) -> None:
        """Exported symbols that the symbol table lacks, as where it was stripped."""
        names = {s.name for s in self.exports}
        self.check(offset, size, "export trie")
        for name, address in self._walk_trie(bytes(self.data[offset : offset + size])):
            if name not in names:
                span = self._span_at(address)
                function = bool(span and span.executable)
                self.exports.append(symbol(name, address, defined=True, function=function))

    def _walk_trie(self, trie: bytes) -> Iterator[tuple[str, int]]:
        """Names and addresses, each node once: a trie that leads back would be endless."""
        budget = TEXT_BUDGET * len(self.data)
        seen: set[int] = set()
        pending = [(0, b"")]
        while pending:
            at, name = pending.pop()
            if at >= len(trie) or at in seen:
                continue
            seen.add(at)
            size, at = self._uleb(trie, at)
            children = at + size
            if size and name and children < len(trie):
                flags, at = self._uleb(trie, at)
                value, _ = self._uleb(trie, at)
                if not flags & 0x8:  # 0x8: re-exported from another library
                    text = text_of(name).removeprefix("_")
                    yield text, value if flags & 3 == 2 else self._start + value
            if children >= len(trie):
                continue
            count, at = trie[children], children + 1
            for _ in range(count):
                end = trie.find(b"\0", at, at + NAME_LIMIT)
                if end < 0:
                    raise self.fail("a name in the export trie does not end")
                edge = trie[at:end]
                child, at = self._uleb(trie, end + 1)
                budget -= len(name) + len(edge)
                if budget < 0:
                    raise self.fail(f"its names add up to more than {TEXT_BUDGET} times the file")
                pending.append((child, name + edge))

    def _uleb(self, trie: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        for byte in trie[at : at + 10]:
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value, at
        raise self.fail("a number in the export trie does not end")


def _version(number: int) -> str:
    major, minor, patch = number >> 16, number >> 8 & 0xFF, number & 0xFF
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"
