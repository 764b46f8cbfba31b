"""The debug information of an object file as it will be when the object is linked: decompressed,
relocated.

pyelftools relocates too, but refuses an object with one relocation that it does not know, such as
that of a thread-local variable, and knows few machines.
"""

from __future__ import annotations

import struct
import zlib

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_COMPRESSED, SHT_REL, SHT_RELA, Section
from mblob.packager.objects.objects import LTO_DEBUG

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
            at = elf.e_shoff + i * elf.e_shentsize
            (name,) = struct.unpack_from(f"{elf.byte_order}I", out, at)
            struct.pack_into(f"{elf.byte_order}I", out, at, name + len(prefix))
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
    fmt = elf.byte_order + ("I4xQ8x" if elf.bits == 64 else "II4x")
    if len(raw) < struct.calcsize(fmt):
        raise ValueError(section.name)
    kind, size = struct.unpack_from(fmt, raw)
    if size > _ZLIB_RATIO * len(raw):
        raise ValueError(section.name)
    try:
        data = (
            zlib.decompressobj().decompress(raw[struct.calcsize(fmt) :], size)
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
    at = elf.e_shoff + index * elf.e_shentsize
    if elf.bits == 64:
        struct.pack_into(
            f"{elf.byte_order}4Q", out, at + 8, made.sh_flags, made.sh_addr, made.sh_offset, size
        )
    else:
        struct.pack_into(
            f"{elf.byte_order}4I", out, at + 8, made.sh_flags, made.sh_addr, made.sh_offset, size
        )
    return made


def _relocate(
    elf: ElfFile, relocations: Section, target: Section, out: bytearray, debug: str
) -> None:
    has_addend = relocations.sh_type == SHT_RELA
    symbols = elf.symtab
    in_debug = {i for i, s in enumerate(elf.sections) if s.name.startswith(debug)}
    # 64-bit DWARF, whose offsets have 8 bytes, starts with 0xffffffff.
    wide = out[target.sh_offset : target.sh_offset + 4] == b"\xff" * 4
    width, size = elf.byte_order + ("Q" if wide else "I"), 8 if wide else 4
    word = "Q" if elf.bits == 64 else "I"
    fmt = elf.byte_order + word * 2 + (word.lower() if has_addend else "")
    raw = elf.contents(relocations)
    for offset, info, *addend in struct.iter_unpack(
        fmt, raw[: len(raw) - len(raw) % struct.calcsize(fmt)]
    ):
        index = info >> (32 if elf.bits == 64 else 8)
        if not 0 < index <= len(symbols) or size > target.sh_size or offset > target.sh_size - size:
            continue
        symbol = symbols[index - 1]  # the first of the table is left out
        if symbol.st_shndx in in_debug:
            at = target.sh_offset + offset
            value = symbol.st_value + (
                addend[0] if addend else struct.unpack_from(width, out, at)[0]
            )
            struct.pack_into(width, out, at, value & ((1 << 8 * size) - 1))
