"""The debug information of an object file as it will be when the object is linked: decompressed,
relocated.

pyelftools relocates too, but refuses an object with one relocation that it does not know, such as
that of a thread-local variable, and knows few machines.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    SHF_COMPRESSED,
    SHF_EXCLUDE,
    SHT_REL,
    SHT_RELA,
    Section,
    SectionHeader,
)
from mblob.packager.objects.object_files import LTO_DEBUG

_RELOCATED = (".debug_info", ".debug_str_offsets")
_ZLIB = 1  # ELFCOMPRESS_ZLIB
_ZLIB_RATIO = 1100  # it packs no byte into less than 1/1032


def relocated(elf: ElfFile) -> bytes:
    """The object with those references of its debug information in place that lead to other debug
    information.

    They are offsets in sections, and mean the same on every machine. The others are addresses of
    code and data, which tell nothing about types. In an object for link-time optimization alone,
    debug information has other names; here it gets those that readers look for.
    """
    out = bytearray(elf.data)
    prefix = LTO_DEBUG if elf.section(".debug_info") is None else ""
    for i, target in enumerate(elf.sections):
        if prefix and target.name.startswith(f"{prefix}.debug_"):
            header, record = elf.e_shoff + i * elf.e_shentsize, elf.layout.shdr
            name = SectionHeader._make(record.unpack_from(out, header)).sh_name
            record.put(out, header, sh_name=name + len(prefix))
        if target.name.removeprefix(prefix) in _RELOCATED:
            if target.sh_flags & SHF_COMPRESSED:
                target = _decompress(elf, i, out)
            for section in elf.sections:
                if section.sh_type in (SHT_REL, SHT_RELA) and section.sh_info == i:
                    _relocate(elf, section, target, out, f"{prefix}.debug_")
    return bytes(out)


def _decompress(elf: ElfFile, index: int, out: bytearray) -> Section:
    """Put a section that is compressed behind the object, decompressed (gABI, chapter 4:
    Elf64_Chdr).

    Raises:
        ValueError: it is not compressed by zlib, or damaged.
    """
    section = elf.sections[index]
    raw = elf.contents(section)
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
    made = section._replace(
        sh_offset=len(out), sh_size=size, sh_flags=section.sh_flags & ~SHF_COMPRESSED
    )
    out += data
    elf.layout.shdr.put(
        out, elf.e_shoff + index * elf.e_shentsize,
        sh_flags=made.sh_flags, sh_offset=made.sh_offset, sh_size=size,
    )  # fmt: skip
    return made


def _relocate(
    elf: ElfFile, relocations: Section, target: Section, out: bytearray, debug: str
) -> None:
    record = elf.layout.rela if relocations.sh_type == SHT_RELA else elf.layout.rel
    symbols = elf.symtab
    in_debug = {i for i, s in enumerate(elf.sections) if s.name.startswith(debug)}
    # 64-bit DWARF, whose offsets have 8 bytes, starts with 0xffffffff.
    wide = out[target.sh_offset : target.sh_offset + 4] == b"\xff" * 4
    width, size = elf.byte_order + ("Q" if wide else "I"), 8 if wide else 4
    raw = elf.contents(relocations)
    for offset, info, *addend in record.iter_unpack(raw[: len(raw) - len(raw) % record.size]):
        index = info >> elf.layout.symbol_shift
        if not 0 < index <= len(symbols) or size > target.sh_size or offset > target.sh_size - size:
            continue
        symbol = symbols[index - 1]  # the first of the table is left out
        if symbol.st_shndx in in_debug:
            at = target.sh_offset + offset
            value = symbol.st_value + (
                addend[0] if addend else struct.unpack_from(width, out, at)[0]
            )
            struct.pack_into(width, out, at, value & ((1 << 8 * size) - 1))


def exclude_debug_sections(path: Path, elf: ElfFile) -> None:
    """Mark the debug information of an object file, in place, as what a link leaves out (gABI:
    SHF_EXCLUDE)."""
    record = elf.layout.shdr
    with path.open("r+b") as file:
        for i, section in enumerate(elf.sections):
            if section.name.startswith((".debug_", ".zdebug_", ".rela.debug_", ".rel.debug_")):
                file.seek(elf.e_shoff + i * elf.e_shentsize + record.offset_of("sh_flags"))
                file.write(record.encode("sh_flags", section.sh_flags | SHF_EXCLUDE))
