"""The debug sections of an object file as they will be when the object is linked: decompressed,
relocated."""

from __future__ import annotations

import struct
import zlib

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_COMPRESSED, SHT_REL, SHT_RELA, Section
from mblob.packager.objects.dwarf import Sections
from mblob.packager.objects.object_files import LTO_DEBUG

_RELOCATED = (".debug_info", ".debug_types", ".debug_str_offsets")
_ZLIB = 1  # ELFCOMPRESS_ZLIB
_ZLIB_RATIO = 1100  # it packs no byte into less than 1/1032


def debug_sections(elf: ElfFile) -> Sections:
    """The debug sections, with those references in place that lead to other debug information.

    They are offsets in sections, and mean the same on every machine. The others are addresses of
    code and data, which tell nothing about types. In an object for link-time optimization alone,
    the sections have names of their own.

    Raises:
        ValueError: a section is compressed, and not by zlib, or damaged.
    """
    prefix = LTO_DEBUG if elf.section(".debug_info") is None else ""
    found: dict[str, list[bytes]] = {}
    for i, section in enumerate(elf.sections):
        if not section.name.startswith(f"{prefix}.debug_"):
            continue
        name = section.name[len(prefix) :]
        data = _contents(elf, section)
        if name in _RELOCATED:
            data = _relocated(elf, i, data, f"{prefix}.debug_")
        found.setdefault(name, []).append(data)

    def only(name: str) -> bytes:
        return found.get(name, [b""])[0]

    return Sections(
        elf.byte_order, found.get(".debug_info", []), found.get(".debug_types", []),
        only(".debug_abbrev"), only(".debug_str"), only(".debug_line_str"),
        only(".debug_str_offsets"),
    )  # fmt: skip


def _contents(elf: ElfFile, section: Section) -> bytes:
    """The bytes of a section, decompressed (gABI, chapter 4: Elf64_Chdr)."""
    raw = bytes(elf.contents(section))
    if not section.sh_flags & SHF_COMPRESSED:
        return raw
    header = elf.layout.chdr
    if len(raw) < header.size:
        raise ValueError(section.name)
    kind, size = header.pick("ch_type", "ch_size")(header.unpack_from(raw))
    if size > _ZLIB_RATIO * len(raw):
        raise ValueError(section.name)
    try:
        data = (
            zlib.decompressobj().decompress(raw[header.size :], size)
            if kind == _ZLIB and size
            else b""
        )
    except zlib.error:
        data = b""
    if not data or len(data) != size:
        raise ValueError(section.name)
    return data


def _relocated(elf: ElfFile, index: int, data: bytes, debug: str) -> bytes:
    out = bytearray(data)
    for section in elf.sections:
        if section.sh_type in (SHT_REL, SHT_RELA) and section.sh_info == index:
            _relocate(elf, section, out, debug)
    return bytes(out)


def _relocate(elf: ElfFile, relocations: Section, out: bytearray, debug: str) -> None:
    record = elf.layout.rela if relocations.sh_type == SHT_RELA else elf.layout.rel
    symbols = elf.symtab
    in_debug = {i for i, s in enumerate(elf.sections) if s.name.startswith(debug)}
    # 64-bit DWARF, whose offsets have 8 bytes, starts with 0xffffffff.
    wide = out[:4] == b"\xff" * 4
    width, size = elf.byte_order + ("Q" if wide else "I"), 8 if wide else 4
    raw = elf.contents(relocations)
    for offset, info, *addend in record.iter_unpack(raw[: len(raw) - len(raw) % record.size]):
        index = info >> elf.layout.symbol_shift
        if not 0 < index <= len(symbols) or size > len(out) or offset > len(out) - size:
            continue
        symbol = symbols[index - 1]  # the first of the table is left out
        if symbol.st_shndx in in_debug:
            value = symbol.st_value + (
                addend[0] if addend else struct.unpack_from(width, out, offset)[0]
            )
            struct.pack_into(width, out, offset, value & ((1 << 8 * size) - 1))
