"""Mach-O files, and the table of universal files."""

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
MH_TWOLEVEL = 0x80
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
LC_SEGMENT, LC_SYMTAB, LC_ID_DYLIB, LC_UUID, LC_SEGMENT_64, LC_BUILD_VERSION, LC_RPATH = (
    1, 2, 0xD, 0x1B, 0x19, 0x32, 0x8000001C,
)  # fmt: skip
LIBRARIES = (0xC, 0x20, 0x80000018, 0x8000001F, 0x80000023)  # commands that name a library
SYSTEMS = (
    "UNKNOWN", "MACOS", "IOS", "TVOS", "WATCHOS", "BRIDGEOS", "MAC_CATALYST", "IOS_SIMULATOR", "TVOS_SIMULATOR",
    "WATCHOS_SIMULATOR", "DRIVERKIT", "VISIONOS", "VISIONOS_SIMULATOR",
)  # fmt: skip
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
    title = "Mach-O file"

    def _read(self) -> None:
        magic = bytes(self.data[:4])
        self.byte_order = THIN[magic]
        self.bits = 64 if 0xCF in magic else 32
        cpu, _, kind, count, size, flags = self.numbers(4, "6I", "a Mach-O header")
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        self._symbol_table: tuple[int, ...] = ()
        at = 32 if self.bits == 64 else 28
        self.check(at, size, "load commands")
        end = at + size
        for _ in range(count):
            command, step = self.numbers(at, "2I", "a load command")
            if not 8 <= step <= end - at:
                raise self.fail(f"a load command of {step} bytes", at)
            self._read_command(command, at, step)
            at += step
        self._read_symbols(bool(flags & MH_TWOLEVEL) and self.kind != "object")

    def _read_command(self, command: int, at: int, step: int) -> None:
        def text() -> str:
            (start,) = self.numbers(at + 8, "I", "a load command")
            return text_of(bytes(self.data[at + start : at + step]))

        if command in (LC_SEGMENT, LC_SEGMENT_64):
            self._read_segment(at, step)
        elif command == LC_SYMTAB:
            if self._symbol_table:
                raise self.fail("more than one table of symbols", at)
            self._symbol_table = self.numbers(at + 8, "4I", "a load command")
        elif command == LC_ID_DYLIB:
            self.soname = text()
        elif command in LIBRARIES:
            self.needed.append(text())
        elif command == LC_RPATH:
            self.runpath.append(text())
        elif command == LC_UUID:
            self.build_id = bytes(self.data[at + 8 : at + 24]).hex()
        elif command == LC_BUILD_VERSION:
            system, oldest = self.numbers(at + 8, "2I", "a load command")
            name = SYSTEMS[system] if system < len(SYSTEMS) else system
            self.hints = [f"{name} {oldest >> 16}.{oldest >> 8 & 255}.{oldest & 255} or later"]

    def _read_segment(self, at: int, step: int) -> None:
        word = "Q" if self.bits == 64 else "I"
        segment = struct.Struct(f"{self.byte_order}24x4{word}4xI2I")
        section = struct.Struct(
            f"{self.byte_order}16s16s2{word}I12xI{'12x' if word == 'Q' else '8x'}"
        )
        if step < segment.size:
            raise self.fail(f"a segment of {step} bytes", at)
        *_, protection, count, _ = segment.unpack_from(self.data, at)
        if count * section.size > step - segment.size:
            raise self.fail(f"a segment of {step} bytes with {count} sections", at)
        rows = self.data[at + segment.size : at + segment.size + count * section.size]
        for name, place, address, size, offset, flags in section.iter_unpack(rows):
            # An object has one segment for all sections; where each will go is in its own name.
            where = text_of(place)
            writable = where == "__DATA" if self.kind == "object" else bool(protection & 2)
            span = Span(
                f"{where},{text_of(name)}", address, offset, size, bool(flags & CODE), writable
            )
            self.sections.append(None if flags & 0xFF in ZEROFILL else span)

    def _read_symbols(self, two_level: bool) -> None:
        """External symbols; `two_level`: undefined ones have the number of their library."""
        table, count, strings, size = self._symbol_table or (0, 0, 0, 0)
        record = struct.Struct(self.byte_order + ("IBBHQ" if self.bits == 64 else "IBBHI"))
        self.check(table, count * record.size, f"a table of {count} symbols")
        self.check(strings, size, "names of symbols")
        rows = record.iter_unpack(self.data[table : table + count * record.size])
        for name_at, kind, section, desc, value in rows:
            # a hidden one is in no table of a library that other libraries see
            if kind & N_STAB or not kind & N_EXT or (kind & N_PEXT and self.kind != "object"):
                continue
            name = self.text_at(strings + name_at).removeprefix("_")
            defined = kind & N_TYPE != 0 or value != 0  # undefined with a value is common
            weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
            number = section if kind & N_TYPE == N_SECT else 0
            self.add(name, value, number, defined=defined, weak=weak)
            library = desc >> 8 & 0xFF
            if two_level and not defined and 0 < library <= len(self.needed):
                self.provided_by[name] = self.needed[library - 1]
