"""Facts about the functions of an object: those in its DWARF, and those that DWARF does not name.

Only `mblob.packager.objects.object_files.functions_of` imports this, when there is something to
read: pyelftools takes its time to load.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Collection, Sequence
from typing import Any

from elftools.elf.elffile import ELFFile

from mblob.binary.dwarf_functions import (
    DebugFunctions,
    Function,
    agreed,
    function_of,
    read_functions,
)
from mblob.binary.dwarf_types import CType, referred, unnamed
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    SHF_COMPRESSED,
    SHT_REL,
    SHT_RELA,
    STT_FILE,
    STT_GNU_IFUNC,
    Section,
    SectionHeader,
)
from mblob.binary.function_names import MANGLED
from mblob.format.exported_functions import is_helper
from mblob.packager.objects.object_files import LTO_DEBUG, has_debug_info, is_code, lto_functions

# no packed one has no parameters
_UNKNOWN = Function("", CType("other", 0, "?"), (), False, 0, is_guess=True)


def functions(elf: ElfFile, whole: bool = False) -> list[Function]:
    """The functions that an object file defines; [] where its debug information is missing or not
    understood.

    An alias has no entry in debug information, and the types of the function at its address. Nor
    has an indirect function (IFUNC): its resolver may tell its type. What else has no entry, such
    as assembler text in a C source, is of unknown types if all units of the object tell the types
    of their functions.

    Args:
        elf: the object.
        whole: all units tell them, also those that have no function.
    """
    try:
        described = DebugFunctions()  # compilers write nothing where there is no function
        if has_debug_info(elf):
            read = ELFFile(io.BytesIO(relocated(elf)))
            described = read_functions(read.get_dwarf_info(relocate_dwarf_sections=False))
            files = sum(s.type == STT_FILE for s in elf.symtab)
            described.whole = described.whole and files <= described.units
        return [*described.exported, *described.cxx, *_without_entry(elf, described, whole)]
    except Exception:  # pyelftools checks little, so damage makes it raise any of Python's errors
        return []  # as if there were none


# -- functions without an entry --------------------------------------------------------------------

_Place = tuple[int, int]  # st_shndx, st_value


def _without_entry(elf: ElfFile, described: DebugFunctions, whole: bool) -> list[Function]:
    """The functions that an object exports under C names, and that its debug information does not
    name."""
    # A function in top-level asm of a C source has no entry. It counts as plain C, even if it is a
    # packed function. Put such a packed function into an assembler file (.s) of its own.
    listed = {f.name for f in described.exported}
    symbols = [
        s
        for s in elf.symtab
        if s.is_exported
        and s.name not in listed
        and is_code(elf, s)
        and not is_helper(s.name)
        and not s.name.startswith(MANGLED)
    ]
    unseen = [
        name
        for name in lto_functions(elf)
        if name not in listed and not is_helper(name) and not name.startswith(MANGLED)
    ]
    unknown = [_UNKNOWN._replace(name=name) for name in unseen if whole or described.whole]
    if not symbols:
        return unknown
    places: dict[_Place, list[str]] = {}
    indirect: set[_Place] = set()
    for s in elf.symtab:
        if s.type == STT_GNU_IFUNC:
            indirect.add((s.st_shndx, s.st_value))
        elif s.name in described.entries and s.is_defined:
            places.setdefault((s.st_shndx, s.st_value), []).append(s.name)
    resolvers = {name for place in indirect for name in places.get(place, ())}
    found: list[Function] = unknown
    for s in symbols:
        here = places.get((s.st_shndx, s.st_value), [])
        if s.type == STT_GNU_IFUNC:
            function = _indirect(s.name, here, resolvers, described)
        else:
            function = agreed([f for name in here for f in described.named(name)])
        if function is None and (whole or described.whole):
            function = _UNKNOWN
        if function is not None:
            found.append(function._replace(name=s.name))
    return found


def _indirect(
    name: str, here: Sequence[str], resolvers: Collection[str], described: DebugFunctions
) -> Function | None:
    """The function that an indirect one leads to, as far as something tells.

    The result of its resolver does. If that is `void *`, the versions that a compiler made do
    (`name.avx2`). If there are none, the other functions of the object tell whether it is a packed
    one, and no more.

    Args:
        here: names of its resolver.
        resolvers: names of all resolvers.
    """
    for chosen in (
        [
            function_of(name, t, t, size)
            for n in here
            for _, declared, size, _ in described.entries[n]
            for t in [_pointed_function(declared)]
            if t is not None
        ],
        [
            f
            for n in described.entries
            if n.startswith(name.removesuffix(".ifunc") + ".")
            for f in described.named(n)
        ],
    ):
        if chosen:
            return agreed(chosen)
    others = [
        f
        for n in described.entries
        if n not in resolvers
        for f in described.named(n)
        if f.parameters
    ]
    exported = {f.name for f in described.exported}
    found = agreed([f for f in others if f.name not in exported] or others)
    return found and found._replace(is_guess=True)


def _pointed_function(declared: Any) -> Any:
    """The entry of the type of function that a resolver returns a pointer to, None if it returns
    something else."""
    die = unnamed(referred(declared))[0]
    if die is not None and die.tag == "DW_TAG_pointer_type":
        die = unnamed(referred(die))[0]
    return die if die is not None and die.tag == "DW_TAG_subroutine_type" else None


# -- debug information as it will be when the object is linked: decompressed, relocated -------------
# pyelftools relocates too, but refuses an object with one relocation that it does not know, such as
# that of a thread-local variable, and knows few machines.

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
        out,
        elf.e_shoff + index * elf.e_shentsize,
        sh_flags=made.sh_flags,
        sh_offset=made.sh_offset,
        sh_size=size,
    )
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
