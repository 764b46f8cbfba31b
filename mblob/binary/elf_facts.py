"""Facts in the dynamic section, symbol versions and notes of an ELF library, beside its symbols."""

from __future__ import annotations

import re

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DF_1_NODELETE,
    DF_SYMBOLIC,
    DT_FLAGS_1,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_SYMBOLIC,
    NT_GNU_BUILD_ID,
    PF_W,
    PT_DYNAMIC,
    PT_LOAD,
    STB_GNU_UNIQUE,
    Segment,
    Symbol,
)
from mblob.binary.elf_versions import Versions

_COMMENT_LIMIT = 1 << 16  # bytes


def soname(elf: ElfFile) -> str | None:
    return next(iter(elf.dynamic_strings(DT_SONAME)), None)


def runpath(elf: ElfFile) -> list[str]:
    """Folders that the dynamic linker searches for needed libraries."""
    texts = elf.dynamic_strings(DT_RUNPATH) or elf.dynamic_strings(DT_RPATH)
    return [folder for text in texts for folder in text.split(":")]


def build_id(elf: ElfFile) -> str | None:
    return next(
        (
            d.hex()
            for owner, kind, d, _ in elf.notes()
            if owner == b"GNU" and kind == NT_GNU_BUILD_ID
        ),
        None,
    )


def is_symbolic(elf: ElfFile) -> bool:
    """True if the library's own references find its own symbols first (-Bsymbolic)."""
    return DT_SYMBOLIC in elf.dynamic or bool(elf.dt_flags & DF_SYMBOLIC)


def stays_by(elf: ElfFile) -> tuple[str, ...]:
    """The reasons why a library stays mapped whatever it does: "nodelete" (its flag), "unique" (a
    symbol that glibc joins in all libraries)."""
    nodelete = any(flags & DF_1_NODELETE for flags in elf.dynamic.get(DT_FLAGS_1, ()))
    unique = any(s.binding == STB_GNU_UNIQUE and s.is_defined for s in elf.dynsym)
    return ("nodelete",) * nodelete + ("unique",) * unique


def has_read_only_dynamic_section(elf: ElfFile) -> bool:
    """True if no segment makes the dynamic section writable. False on mips and riscv, where glibc
    never writes there."""
    return elf.machine not in ("mips", "riscv") and any(
        s.p_type == PT_DYNAMIC and not _is_in_data(elf, s) for s in elf.segments
    )


def has_no_room_for_headers(elf: ElfFile) -> bool:
    """True if code joined a library, and its program headers have no room in front of the first section, where
    `strip` and `objcopy` write them."""
    has_joined = any(s.name.startswith(".mblob") for s in elf.readable_sections)
    return has_joined and elf.e_phoff > elf.layout.ehdr.size


def _is_in_data(elf: ElfFile, part: Segment) -> bool:
    """True if a segment is a part of a loaded one that may be written."""
    return any(
        s.p_type == PT_LOAD
        and s.p_flags & PF_W
        and 0 <= part.p_vaddr - s.p_vaddr <= s.p_memsz
        and part.p_memsz <= s.p_memsz - (part.p_vaddr - s.p_vaddr)
        for s in elf.segments
    )


def is_relocated_to(elf: ElfFile, symbol: Symbol) -> bool:
    """True if a dynamic relocation refers to a dynamic symbol by its name, so that another
    library's may be taken."""
    layout = elf.layout
    first = elf.dynsym[0].offset if elf.dynsym else 0
    index = (symbol.offset - first) // layout.sym.size + 1
    for table, size, record in elf.relocation_tables():
        at = elf.offset_of(table, size, "relocations")
        rows = elf.records(record, at, size // record.size, "relocations")
        if any(row[1] >> layout.symbol_shift == index for row in rows):
            return True
    return False


def segment_of(elf: ElfFile, symbol: Symbol) -> Segment | None:
    """The loaded segment that has the address of a symbol."""
    at = symbol.st_value
    return next(
        (
            s
            for s in elf.segments
            if s.p_type == PT_LOAD and 0 <= at - s.p_vaddr < max(s.p_memsz, 1)
        ),
        None,
    )


def is_writable(elf: ElfFile, symbol: Symbol) -> bool:
    segment = segment_of(elf, symbol)
    return segment is not None and bool(segment.p_flags & PF_W)


def versions(elf: ElfFile) -> dict[int, tuple[str, str]]:
    """Version and file of each dynamic symbol that another library must provide, by the offset of
    its entry.

    Raises:
        FormatError: "elf_dynamic", "elf_truncated".
    """
    tables = Versions(elf)
    wanted = ((s, tables.wanted_by(i)) for i, s in enumerate(elf.dynsym))
    return {s.offset: (version.name, version.file) for s, version in wanted if version is not None}


def compilers(elf: ElfFile) -> list[str]:
    """The compilers of the parts, as they name themselves in `.comment`."""
    raw = bytes(elf.section_bytes(".comment")[:_COMMENT_LIMIT])
    texts = (t.decode("utf-8", "backslashreplace").strip() for t in re.split(b"\0+", raw))
    return sorted({t for t in texts if t})[:16]
