"""Debug information of an ELF file in memory: decompressed and, of an object, relocated, for pyelftools to read.

pyelftools reads files, too. But it decompresses without a limit, refuses an object with one relocation that it
does not know, such as that of a thread-local variable, and knows few machines.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DEBUG_PREFIXES,
    ET_REL,
    SHF_COMPRESSED,
    SHF_GROUP,
    SHT_REL,
    SHT_RELA,
    Section,
)
from mblob.errors import needs_package

try:
    from elftools.dwarf.dwarf_expr import DWARFExprParser as DWARFExprParser
    from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
except ModuleNotFoundError:
    raise needs_package("reading debug information", "pyelftools") from None

# Sections that tell of functions and types (and that pyelftools then looks into). Others may be larger.
_READ = (
    "abbrev", "addr", "info", "line", "line_str", "loclists", "ranges", "rnglists", "str", "str_offsets", "types",
)  # fmt: skip
_RELOCATED = ("info", "line", "str_offsets", "types")
_ARGUMENTS = DWARFInfo.__init__.__code__  # releases of pyelftools have more or fewer

_ZLIB = 1  # ELFCOMPRESS_ZLIB
_ZLIB_RATIO = 1100  # it packs no byte into less than 1/1032
_GNU = struct.Struct(">4sQ")  # "ZLIB", and the size when it is decompressed, in front of .zdebug_*


def debug_information(elf: ElfFile, limit: int | None = None) -> Any:
    """The `DWARFInfo` of a file; None if it has none.

    In an object for link-time optimization alone, debug information has other names.

    Args:
        limit: the most bytes that are read, decompressed.

    Raises:
        FormatError: a section lies outside of the file.
        ValueError, struct.error, zlib.error: too large, compressed by another method than zlib, or damaged.
    """
    places: dict[str, int] = {}
    for i, section in enumerate(elf.sections):
        # Of several with a name, those in groups have one type each.
        if section.name not in places or not section.sh_flags & SHF_GROUP:
            places[section.name] = i
    left = len(elf.data) * _ZLIB_RATIO if limit is None else limit
    sections = {}
    for name in _READ:
        index = next((places[p + name] for p in DEBUG_PREFIXES if p + name in places), None)
        if index is None:
            continue
        data: bytes | bytearray | memoryview = _contents(elf, elf.sections[index], left)
        left -= len(data)
        if name in _RELOCATED and elf.e_type == ET_REL:
            data = _relocated(elf, index, data)
        stream = io.BytesIO(data)
        sections[f"debug_{name}_sec"] = DebugSectionDescriptor(stream, name, 0, len(data), 0)
    if "debug_info_sec" not in sections:
        return None
    config = DwarfConfig(elf.byte_order == "<", elf.machine, elf.bits // 8)
    names = _ARGUMENTS.co_varnames[2 : _ARGUMENTS.co_argcount]
    return DWARFInfo(config, **{name: sections.get(name) for name in names})


def _contents(elf: ElfFile, section: Section, limit: int) -> bytes | memoryview:
    """The bytes of a section, decompressed (gABI, chapter 4: Elf64_Chdr; or as GNU's tools did it before).

    Raises:
        FormatError, ValueError: as of `debug_information`.
    """
    raw = elf.contents(section)
    if section.sh_flags & SHF_COMPRESSED:
        header = elf.layout.chdr
        kind, size = header.pick("ch_type", "ch_size")(header.unpack_from(raw))
        start = header.size
    elif section.name.startswith(".zdebug_"):
        magic, size = _GNU.unpack_from(raw)
        kind, start = _ZLIB * (magic == b"ZLIB"), _GNU.size
    else:
        kind, size, start = None, len(raw), 0
    if size > limit:
        raise ValueError(f"{section.name} is too large")
    if kind is None:
        return raw
    if kind != _ZLIB or not 0 < size <= _ZLIB_RATIO * len(raw):
        raise ValueError(f"{section.name} is compressed by an unknown method, or damaged")
    data = zlib.decompressobj().decompress(raw[start:], size)
    if len(data) != size:
        raise ValueError(f"{section.name} is damaged")
    return data


def _relocated(elf: ElfFile, index: int, data: bytes | bytearray | memoryview) -> bytearray:
    """The bytes of a section as they are when the object is linked, as far as they refer to debug information.

    Such references are offsets in sections, and mean the same on every machine. The others are addresses of
    code and data, which tell nothing about types.
    """
    out = bytearray(data)
    symbols = elf.symtab
    in_debug = {i for i, s in enumerate(elf.sections) if s.name.startswith(DEBUG_PREFIXES)}
    # 64-bit DWARF, whose offsets have 8 bytes, starts with 0xffffffff.
    wide = out[:4] == b"\xff" * 4
    word = struct.Struct(elf.byte_order + ("Q" if wide else "I"))
    for section in elf.sections:
        if section.sh_type not in (SHT_REL, SHT_RELA) or section.sh_info != index:
            continue
        record = elf.layout.rela if section.sh_type == SHT_RELA else elf.layout.rel
        raw = elf.contents(section)
        for offset, info, *addend in record.iter_unpack(raw[: len(raw) - len(raw) % record.size]):
            number = info >> elf.layout.symbol_shift
            if not 0 < number <= len(symbols) or offset > len(out) - word.size:
                continue
            symbol = symbols[number - 1]  # the first of the table is left out
            if symbol.st_shndx in in_debug:
                value = symbol.st_value + (
                    addend[0] if addend else word.unpack_from(out, offset)[0]
                )
                word.pack_into(out, offset, value & ((1 << 8 * word.size) - 1))
    return out
