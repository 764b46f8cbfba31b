"""Mach-O files: lief reads those of one machine, this module the table of universal files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from mblob.binary.elf_tables import NAME_LIMIT
from mblob.binary.non_elf import ForeignFile, Span, number_of, symbol, text_of
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
OLDEST = {
    "VERSION_MIN_MACOSX": "macOS",
    "VERSION_MIN_IPHONEOS": "iOS",
    "VERSION_MIN_TVOS": "tvOS",
    "VERSION_MIN_WATCHOS": "watchOS",
}
N_STAB, N_PEXT, N_TYPE, N_EXT, N_SECT = 0xE0, 0x10, 0x0E, 0x01, 0x0E
N_WEAK_REF, N_WEAK_DEF = 0x40, 0x80
LC_SEGMENT, LC_SYMTAB, LC_SEGMENT_64 = 1, 2, 0x19
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

    def _for_lief(self) -> bytes:
        data = bytes(self.data)
        self._check_commands(data)
        return data

    def _parsed(self, lief: Any, data: bytes) -> Any:
        # "quick" leaves out the export trie: lief 0.17 recurses over it, and a deep one ends the process.
        found = lief.MachO.parse(data, lief.MachO.ParserConfig.quick)
        return found.at(0) if found is not None and len(found) else None

    def _read(self, lief: Any, parsed: Any) -> None:
        header = parsed.header
        magic = bytes(self.data[:4])
        self.byte_order = THIN[magic]
        self.bits = 64 if 0xCF in magic else 32
        cpu, kind = number_of(header.cpu_type), number_of(header.file_type)
        self.machine = MACHINES.get(cpu, f"machine {cpu:#x}")
        self.kind = KINDS.get(kind, f"Mach-O type {kind}")
        self._check_tables(parsed)
        self._sections = list(self._all_sections(parsed))
        self.spans = [s for s in self._sections if s is not None]
        own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
        libraries = [(c.command == own, text_of(c.name)) for c in parsed.libraries]
        self.needed = [name for is_own, name in libraries if not is_own]
        self.soname = next((name for is_own, name in libraries if is_own), None)
        self.runpath = [text_of(c.path) for c in parsed.rpaths]
        self.build_id = bytes(parsed.uuid.uuid).hex() if parsed.uuid is not None else None
        self.hints = [f"cpusubtype {header.cpu_subtype & 0xFFFFFF}", *_oldest_systems(lief, parsed)]
        self._read_symbols(parsed, bool(header.flags & MH_TWOLEVEL) and self.kind != "object")
        self._read_tries(parsed)

    def _check_commands(self, data: bytes) -> None:
        """Refuse names that many symbols share, and bytes that many segments do, before lief copies
        each."""
        order, wide = THIN[data[:4]], 0xCF in data[:4]
        record = struct.Struct(order + ("I12x" if wide else "I8x"))
        at, found = 32 if wide else 28, False
        (count,) = struct.unpack_from(order + "I", data.ljust(32, b"\0"), 16)
        segment = struct.Struct(
            order + ("40xQQ" if wide else "32xII")
        )  # offset and size in the file
        segments: list[tuple[int, int]] = []
        for _ in range(count):
            if len(data) - at < 24:
                break
            command, size, symbols, number, strings, _ = struct.unpack_from(order + "6I", data, at)
            if command == LC_SYMTAB:
                if found:
                    raise self.fail("more than one table of symbols", at)
                found = True
                self.check(symbols, number * record.size, f"a table of {number} symbols")
                for (name,) in record.iter_unpack(data[symbols : symbols + number * record.size]):
                    end = data.find(b"\0", strings + name)
                    self.spend(max((len(data) if end < 0 else end) - strings - name, 0))
            elif command in (LC_SEGMENT, LC_SEGMENT_64) and len(data) - at >= segment.size:
                segments.append(segment.unpack_from(data, at))
            if size < 8:
                break
            at += size
        self.check_sections(segments)

    def _check_tables(self, parsed: Any) -> None:
        """Refuse a file that is cut off: lief reads what is left and says nothing."""
        wide = self.bits == 64
        self.check(32 if wide else 28, parsed.header.sizeof_cmds, "load commands")
        if len(parsed.commands) < parsed.header.nb_cmds:
            raise self.fail(
                f"{parsed.header.nb_cmds} load commands, lief can read {len(parsed.commands)}"
            )
        if (table := parsed.symbol_command) is not None:
            count = table.numberof_symbols
            self.check(
                table.symbol_offset, count * (16 if wide else 12), f"a table of {count} symbols"
            )
            self.check(table.strings_offset, table.strings_size, "names of symbols")

    def _all_sections(self, parsed: Any) -> Iterator[Span | None]:
        """All sections in the order by which symbols name them; None for those without bytes."""
        for segment in parsed.segments:
            writable = bool(segment.init_protection & 2)
            for s in segment.sections:
                if number_of(s.type) in ZEROFILL:
                    yield None
                    continue
                # An object has one segment for all sections; where each will go is in its own name.
                place = text_of(s.segment_name)
                yield Span(
                    f"{place},{text_of(s.name)}",
                    s.virtual_address,
                    s.offset,
                    s.size,
                    bool(number_of(s.flags) & CODE),
                    place == "__DATA" if self.kind == "object" else writable,
                )

    def _read_symbols(self, parsed: Any, two_level: bool) -> None:
        """External symbols; `two_level`: undefined ones have the number of their library."""
        for s in parsed.symbols:
            kind, section, desc, name = (
                s.raw_type,
                s.numberof_sections,
                s.description,
                text_of(s.name),
            )
            if kind & N_STAB or not kind & N_EXT or not name:
                continue
            if kind & N_PEXT and self.kind != "object":
                continue  # hidden, and linked already
            name = name.removeprefix("_")
            defined = kind & N_TYPE != 0 or s.value != 0  # undefined with a value is common
            in_section = kind & N_TYPE == N_SECT and 0 < section <= len(self._sections)
            span = self._sections[section - 1] if in_section else None
            function = span.executable if span else not defined
            weak = bool(desc & (N_WEAK_DEF if defined else N_WEAK_REF))
            found = symbol(name, s.value, defined=defined, function=function, weak=weak)
            (self.exports if defined else self.imports).append(found)
            library = desc >> 8 & 0xFF
            if two_level and not defined and 0 < library <= len(self.needed):
                self.provided_by[name] = self.needed[library - 1]

    def _read_tries(self, parsed: Any) -> None:
        """Exported symbols that the symbol table lacks, as where it was stripped."""
        names = {s.name for s in self.exports}
        start = next((s.virtual_address for s in parsed.segments if s.name == "__TEXT"), 0)
        info, trie = parsed.dyld_info, parsed.dyld_exports_trie
        places = [info.export_info] if info is not None else []
        places += [(trie.data_offset, trie.data_size)] if trie is not None else []
        for offset, size in places:
            self.check(offset, size, "export trie")
            for name, address in self._walk_trie(bytes(self.data[offset : offset + size]), start):
                if name not in names:
                    span = self._span_at(address)
                    function = bool(span and span.executable)
                    self.exports.append(symbol(name, address, defined=True, function=function))

    def _walk_trie(self, trie: bytes, start: int) -> Iterator[tuple[str, int]]:
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
                    yield text, value if flags & 3 == 2 else start + value
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


def _oldest_systems(lief: Any, parsed: Any) -> Iterator[str]:
    for c in parsed.commands:
        if isinstance(c, lief.MachO.BuildVersion):
            platform = number_of(c.platform)
            system = PLATFORMS.get(platform, f"platform {platform}")
            yield f"{system} {_version(c.minos)} or later"
        elif isinstance(c, lief.MachO.VersionMin):
            system = OLDEST.get(c.command.name, c.command.name)
            yield f"{system} {_version(c.version)} or later"


def _version(parts: Sequence[int]) -> str:
    return ".".join(map(str, parts if parts[2] else parts[:2]))
