"""Edits of object files in place: symbols renamed and hidden, debug information marked."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from mblob.elf import ElfFile
from mblob.elf_records import SHF_EXCLUDE, SHT_SYMTAB, STB_GLOBAL, STB_LOCAL, STB_WEAK, STV_HIDDEN, Symbol


def rename_symbols(path: Path, names: Mapping[str, str], label: str) -> None:
    """Rename global symbols of an object file in place and hide their definitions.

    Everything in the object that refers to the symbol keeps doing so: relocations name symbols by index. The
    new names go to a longer copy of the string table at the end of the file. Done on the object, not on the
    source: a `-Dname=other` would also change strings, members and types of that name.

    Args:
        names: old name -> new name; names that the object does not mention are passed over.
    """
    data = path.read_bytes()
    elf = ElfFile(memoryview(data), label)
    symbols = [s for s in elf.symtab if s.name in names and s.binding != STB_LOCAL]
    if not symbols:
        return
    table = next(s for s in elf.sections if s.sh_type == SHT_SYMTAB)
    strings = bytearray(elf.contents(elf.sections[table.sh_link]))
    out = bytearray(data)
    order = elf.byte_order
    for s in symbols:
        if names[s.name] != s.name:
            struct.pack_into(f"{order}I", out, s.offset, len(strings))
            strings += names[s.name].encode() + b"\0"
        if s.is_defined:
            _hide(out, s, elf.bits)
    out += bytes(-len(out) % 8)
    header = elf.e_shoff + table.sh_link * elf.e_shentsize
    fmt, at = (f"{order}QQ", 24) if elf.bits == 64 else (f"{order}II", 16)
    struct.pack_into(fmt, out, header + at, len(out), len(strings))  # sh_offset, sh_size
    path.write_bytes(bytes(out) + strings)


def require_symbols(path: Path, is_required: Callable[[str], bool], label: str) -> None:
    """Make weak references of an object file strong, in place: for a weak one linkers take nothing from an archive."""
    elf = ElfFile(memoryview(path.read_bytes()), label)
    with path.open("r+b") as file:
        for s in elf.symtab:
            if s.binding == STB_WEAK and not s.is_defined and is_required(s.name):
                file.seek(s.offset + (4 if elf.bits == 64 else 12))  # st_info
                file.write(bytes([STB_GLOBAL << 4 | s.type]))


def exclude_debug_sections(path: Path, label: str) -> None:
    """Mark the debug information of an object file, in place, as what a link leaves out (gABI: SHF_EXCLUDE)."""
    data = path.read_bytes()
    elf = ElfFile(memoryview(data), label)
    fmt, at = (f"{elf.byte_order}Q", 8) if elf.bits == 64 else (f"{elf.byte_order}I", 8)
    with path.open("r+b") as file:
        for i, section in enumerate(elf.sections):
            if section.name.startswith((".debug_", ".zdebug_", ".rela.debug_", ".rel.debug_")):
                file.seek(elf.e_shoff + i * elf.e_shentsize + at)
                file.write(struct.pack(fmt, section.sh_flags | SHF_EXCLUDE))


def _hide(out: bytearray, symbol: Symbol, bits: int) -> None:
    at = symbol.offset + (5 if bits == 64 else 13)  # st_other
    out[at] = out[at] & ~3 | STV_HIDDEN
