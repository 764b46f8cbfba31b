"""Mach-O files: lief reads load commands, this module symbols and the table of universal files."""

from __future__ import annotations

import struct
from typing import Any

from mblob.binary.non_elf import ForeignFile, Span, number_of, text_of
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
LC_SEGMENT, LC_SYMTAB, LC_SEGMENT_64 = 1, 2, 0x19
# libraries, a search path, the UUID and the oldest system: commands that refer to nothing in the file
WHOLE_COMMANDS = (0xC, 0xD, 0x20, 0x80000018, 0x8000001F, 0x80000023, 0x8000001C, 0x1B, 0x32)
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

    def _headers(self) -> bytes:
        magic = bytes(self.data[:4])
        self.byte_order = order = THIN[magic]
        self.bits = 64 if 0xCF in magic else 32
        # where the header ends; the place of a segment's bytes in its command
        size, start, end = (32, 40, 56) if self.bits == 64 else (28, 32, 40)
        self.check(0, size, "a Mach-O header")
        count, length = self.numbers(16, "2I", "a Mach-O header")
        self.check(size, length, "load commands")
        headers = bytearray(self.data[: size + length])
        self._symbol_table: tuple[int, ...] = ()
        at = size
        for _ in range(count):
            command, step = struct.unpack_from(order + "2I", headers, at)
            if not 8 <= step <= len(headers) - at:
                raise self.fail(f"a load command of {step} bytes", at)
            if command in (LC_SEGMENT, LC_SEGMENT_64):
                headers[at + start : at + end] = bytes(end - start)
            elif command not in WHOLE_COMMANDS:
                headers[at : at + 4] = bytes(4)
            if command == LC_SYMTAB:
                if self._symbol_table:
                    raise self.fail("more than one table of symbols", at)
                self._symbol_table = struct.unpack_from(order + "4I", headers, at + 8)
            at += step
        return bytes(headers)

    def _read(self, lief: Any, headers: bytes) -> None:
        # "quick" leaves out the export trie: lief 0.17 recurses over it, and a deep one ends the process.
        parsed = lief.MachO.parse(headers, lief.MachO.ParserConfig.quick).at(0)
        cpu, kind = number_of(parsed.header.cpu_type), number_of(parsed.header.file_type)
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        for library in parsed.libraries:
            if library.command == lief.MachO.LoadCommand.TYPE.ID_DYLIB:
                self.soname = text_of(library.name)
            else:
                self.needed.append(text_of(library.name))
        self.runpath = [text_of(c.path) for c in parsed.rpaths]
        if parsed.uuid is not None:
            self.build_id = bytes(parsed.uuid.uuid).hex()
        if (system := parsed.build_version) is not None:
            name = getattr(system.platform, "name", system.platform)
            self.hints = [f"{name} {'.'.join(map(str, system.minos))} or later"]
        self.sections = [self._span(g, s) for g in parsed.segments for s in g.sections]
        self._read_symbols(bool(parsed.header.flags & MH_TWOLEVEL) and self.kind != "object")

    def _span(self, segment: Any, section: Any) -> Span | None:
        """A section, None for one without bytes."""
        if number_of(section.type) in ZEROFILL:
            return None
        # An object has one segment for all sections; where each will go is in its own name.
        place = text_of(section.segment_name)
        return Span(
            f"{place},{text_of(section.name)}",
            section.virtual_address,
            section.offset,
            section.size,
            bool(number_of(section.flags) & CODE),
            place == "__DATA" if self.kind == "object" else bool(segment.init_protection & 2),
        )

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
