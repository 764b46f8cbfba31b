"""Edits of object files in place: symbols renamed and hidden."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    SHT_GROUP,
    SHT_SYMTAB,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STV_HIDDEN,
)
from mblob.packager.objects.object_files import objects_of


def rename_symbols(path: Path, names: Mapping[str, str], label: str) -> None:
    """Rename global symbols of an object file in place and hide their definitions.

    Everything in the object that refers to the symbol keeps doing so: relocations name symbols by
    index. The new names go to a longer copy of the string table at the end of the file. Done on the
    object, not on the source: a `-Dname=other` would also change strings, members and types of that
    name.

    A COMDAT group goes by the name of a symbol, which may be a local one: with it linkers take the
    group for another. What the dynamic linker would join in all libraries (STB_GNU_UNIQUE) becomes
    weak.

    Args:
        names: old name -> new name; names that the object does not mention are passed over.
    """
    data = path.read_bytes()
    elf = ElfFile(memoryview(data), label)
    groups = {s.sh_info for s in elf.sections if s.sh_type == SHT_GROUP}
    symbols = [
        s
        for i, s in enumerate(elf.symtab, 1)
        if s.name in names and (s.binding != STB_LOCAL or i in groups)
    ]
    if not symbols:
        return
    table = next(s for s in elf.sections if s.sh_type == SHT_SYMTAB)
    strings = bytearray(elf.contents(elf.sections[table.sh_link]))
    out = bytearray(data)
    sym = elf.layout.sym
    for s in symbols:
        if names[s.name] != s.name:
            sym.put(out, s.offset, st_name=len(strings))
            strings += names[s.name].encode() + b"\0"
        if s.is_defined and s.binding != STB_LOCAL:
            if s.binding == STB_GNU_UNIQUE:
                sym.put(out, s.offset, st_info=STB_WEAK << 4 | s.type)
            sym.put(out, s.offset, st_other=s.st_other & ~3 | STV_HIDDEN)
    out += bytes(-len(out) % 8)
    header = elf.e_shoff + table.sh_link * elf.e_shentsize
    elf.layout.shdr.put(out, header, sh_offset=len(out), sh_size=len(strings))
    path.write_bytes(bytes(out) + strings)


def expose_symbols(path: Path, names: Collection[str], label: str) -> None:
    """Make hidden definitions of an object file visible again, in place: what `rename_symbols`
    hid."""
    elf = ElfFile(memoryview(path.read_bytes()), label)
    record = elf.layout.sym
    with path.open("r+b") as file:
        for s in elf.symtab:
            if s.name in names and s.is_defined and s.binding != STB_LOCAL:
                file.seek(s.offset + record.offset_of("st_other"))
                file.write(record.encode("st_other", s.st_other & ~3))


def require_symbols(path: Path, is_required: Callable[[str], bool], label: str) -> None:
    """Make weak references of an object file strong, in place: for a weak one linkers take nothing
    from an archive."""
    elf = ElfFile(memoryview(path.read_bytes()), label)
    record = elf.layout.sym
    with path.open("r+b") as file:
        for s in elf.symtab:
            if s.binding == STB_WEAK and not s.is_defined and is_required(s.name):
                file.seek(s.offset + record.offset_of("st_info"))
                file.write(record.encode("st_info", STB_GLOBAL << 4 | s.type))


def unshare(source: Path, target: Path, label: str) -> None:
    """Write an object or archive to `target` in which what C++ compilers mark as one for the whole
    process is weak.

    Statics of inline functions and of templates are STB_GNU_UNIQUE: the dynamic linker joins them
    in all libraries, also in those that were opened apart, and never unloads a library that has
    one.

    Raises:
        OSError, BuildError, FormatError: as of `mblob.packager.objects.object_files.read`.
    """
    data = bytearray(source.read_bytes())
    for name, view in objects_of(memoryview(data), label):
        elf = ElfFile(view, name)
        for s in elf.symtab:
            if s.binding == STB_GNU_UNIQUE:
                elf.layout.sym.put(view, s.offset, st_info=STB_WEAK << 4 | s.type)
    target.write_bytes(data)
