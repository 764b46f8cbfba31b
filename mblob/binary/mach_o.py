"""Mach-O files: load commands, sections, symbols, and the table of universal files. Names are those
of Apple's `mach-o/loader.h`, `fat.h` and `nlist.h`."""

from __future__ import annotations

import struct

from mblob.binary.non_elf import ForeignFile, Span, symbol, text_of
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

THIN = {
    b"\xfe\xed\xfa\xce": (">", 32),
    b"\xce\xfa\xed\xfe": ("<", 32),
    b"\xfe\xed\xfa\xcf": (">", 64),
    b"\xcf\xfa\xed\xfe": ("<", 64),
}
FAT = {b"\xca\xfe\xba\xbe": "5I", b"\xca\xfe\xba\xbf": "IIQQII"}
FAT_LIMIT = 24  # machines; Java class files start as universal files do, and have 45 or more there
MACHINES = {
    7: "i386", 12: "arm", 18: "ppc", 0x01000007: "x86_64", 0x0100000C: "aarch64", 0x0200000C: "arm64_32",
    0x01000012: "ppc64",
}  # fmt: skip
KINDS = {1: "object", 2: "executable", 6: "shared", 8: "bundle", 9: "stub"}
MH_TWOLEVEL = 0x80
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
LC_SYMTAB, LC_ID_DYLIB, LC_RPATH, LC_UUID, LC_BUILD_VERSION = 2, 0xD, 0x8000001C, 0x1B, 0x32
LOADED = (0xC, 0x20, 0x80000018, 0x8000001F, 0x80000023)  # commands that name a library
# segment commands: bits, the fields of the command, and of each section behind it
SEGMENTS = {1: ("24x16xI4xI4x", "16s16s3I8xI8x"), 0x19: ("24x32xI4xI4x", "16s16s2QI12xI12x")}
PLATFORMS = {1: "MACOS", 2: "IOS", 3: "TVOS", 4: "WATCHOS", 6: "MAC_CATALYST", 11: "VISIONOS"}
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
    """A Mach-O file of one machine; an `mblob.binary.image.Image`.

    Raises:
        FormatError: "mach_o".
    """

    format = "mach-o"

    def _read(self) -> None:
        self.byte_order, self.bits = THIN[bytes(self.data[:4])]
        cpu, kind, count, size, flags = self.unpack("4xI4x4I", 0, "a Mach-O header")
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        at = 32 if self.bits == 64 else 28
        self.check(at, size, "load commands")
        end = at + size
        table: tuple[int, ...] = ()
        for _ in range(count):
            command, step = self.unpack("2I", at, "a load command")
            if not 8 <= step <= end - at:
                raise self.fail(f"a load command of {step} bytes", at)
            if command == LC_SYMTAB:
                if table:
                    raise self.fail("more than one table of symbols", at)
                table = self.unpack("8x4I", at, "a table of symbols")
            elif command in SEGMENTS:
                self._read_segment(*SEGMENTS[command], at, at + step)
            else:
                self._read_command(command, at, self.data[at : at + step])
            at += step
        two_level = bool(flags & MH_TWOLEVEL) and self.kind != "object"
        self._read_symbols(*(table or (0, 0, 0, 0)), two_level=two_level)

    def _read_command(self, command: int, at: int, content: memoryview) -> None:
        if command in (LC_ID_DYLIB, LC_RPATH, *LOADED):
            (start,) = self.unpack("8xI", at, "a load command")
            name = text_of(bytes(content[start:]))
            if command == LC_ID_DYLIB:
                self.soname = name
            else:
                (self.runpath if command == LC_RPATH else self.needed).append(name)
        elif command == LC_UUID:
            self.build_id = bytes(content[8:24]).hex()
        elif command == LC_BUILD_VERSION:
            number, oldest = self.unpack("8x2I", at, "the oldest system")
            system = PLATFORMS.get(number, f"system {number}")
            version = f"{oldest >> 16}.{oldest >> 8 & 255}.{oldest & 255}"
            self.hints = [f"{system} {version} or later"]

    def _read_segment(self, segment: str, section: str, at: int, end: int) -> None:
        protection, count = self.unpack(segment, at, "a segment")
        at += struct.calcsize("<" + segment)
        row = struct.Struct(self.byte_order + section)
        if count * row.size > end - at:
            raise self.fail(f"a segment of {count} sections, which its command has no room for", at)
        for raw in row.iter_unpack(self.data[at : at + count * row.size]):
            # an object has one segment for all sections; where each will go is in its own name
            name, place, address, size, offset, flags = raw
            writable = text_of(place) == "__DATA" if self.kind == "object" else protection & 2
            span = Span(
                f"{text_of(place)},{text_of(name)}",
                address,
                offset,
                size,
                bool(flags & CODE),
                bool(writable),
            )
            self.sections.append(None if flags & 0xFF in ZEROFILL else span)

    def _read_symbols(
        self, table: int, count: int, strings: int, size: int, *, two_level: bool
    ) -> None:
        """External symbols; `two_level`: undefined ones have the number of their library."""
        record = struct.Struct(self.byte_order + ("IBBHQ" if self.bits == 64 else "IBBHI"))
        self.check(table, count * record.size, f"a table of {count} symbols")
        self.check(strings, size, "names of symbols")
        rows = record.iter_unpack(self.data[table : table + count * record.size])
        for name_at, kind, section, desc, value in rows:
            # a hidden one is in no table of a library that other libraries see
            if kind & N_STAB or not kind & N_EXT or (kind & N_PEXT and self.kind != "object"):
                continue
            name = self.text_at(strings + name_at, "the name of a symbol").removeprefix("_")
            defined = kind & N_TYPE != 0 or value != 0  # undefined with a value is common
            in_section = kind & N_TYPE == N_SECT and 0 < section <= len(self.sections)
            span = self.sections[section - 1] if in_section else None
            function = span.executable if span else not defined
            weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
            found = symbol(name, value, defined=defined, function=function, weak=weak)
            (self.exports if defined else self.imports).append(found)
            library = desc >> 8 & 0xFF
            if two_level and not defined and 0 < library <= len(self.needed):
                self.provided_by[name] = self.needed[library - 1]
