"""Section headers of a library that another one joined: what `readelf`, `strip`, `objcopy` and
`patchelf` go by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_REL,
    DT_RELA,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERNEED,
    DT_VERSYM,
    PF_W,
    PF_X,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    PT_TLS,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_TLS,
    SHF_WRITE,
    SHF_X86_64_LARGE,
    SHN_LORESERVE,
    SHT_DYNAMIC,
    SHT_GNU_VERNEED,
    SHT_GNU_VERSYM,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_REL,
    SHT_RELA,
    Section,
    SectionHeader,
)
from mblob.format import note
from mblob.packager.join import symbol_versions
from mblob.packager.join.merge import MergedLayout, MergeInput, Name, mapped
from mblob.packager.join.program_header_room import LEFT_SECTION
from mblob.packager.write.elf_patch import Patch
from mblob.packager.write.elf_writer import GROW_SECTION, LARGE_SECTION

PREFIX = ".mblob"  # of the names of the part's sections, so that the host's keep theirs alone
# without those that lead elsewhere
_KEPT_FLAGS = SHF_WRITE | SHF_ALLOC | SHF_EXECINSTR | SHF_TLS | SHF_X86_64_LARGE
_KEPT_NAMES = (GROW_SECTION, LARGE_SECTION, note.SECTION)


def put_sections(patch: Patch, merged: MergeInput, places: MergedLayout, end: int) -> None:
    """Write the table behind everything: the host's sections under their numbers, then the part's."""
    host, part = merged.host, merged.part
    if not host.e_shoff or not host.sections or host.e_shstrndx >= len(host.sections):
        return
    numbers = mapped(host, part)
    if len(host.sections) + len(numbers) + 1 >= SHN_LORESERVE:
        return
    names = bytearray(host.contents(host.sections[host.e_shstrndx]))
    rows = _host_rows(merged, places)
    for number in numbers:
        rows.append(_part_row(names, part, number, places))
    _join_thread(host, part, rows, merged.thread)
    rows += _added_rows(names, merged, rows, places)
    rows += _left_rows(names, merged, rows, places)
    patch.section_headers(rows, bytes(names), end)


def _added_rows(
    names: bytearray, merged: MergeInput, rows: Sequence[SectionHeader], places: MergedLayout
) -> list[SectionHeader]:
    """The headers of tables that the host has none of."""
    layout, numbers = merged.host.layout, {row.sh_addr: i for i, row in enumerate(rows)}
    added = []
    for table, name, kind, entry, link in (
        ("rel", ".rela.dyn", SHT_RELA, layout.rela.size, "dynsym")
        if merged.host.bits == 64
        else ("rel", ".rel.dyn", SHT_REL, layout.rel.size, "dynsym"),
        ("versym", ".gnu.version", SHT_GNU_VERSYM, layout.versym.size, "dynsym"),
        ("verneed", ".gnu.version_r", SHT_GNU_VERNEED, 0, "dynstr"),
    ):
        if table not in places.tables or places.address(table) in numbers:
            continue
        start, size = places.tables[table]
        added.append(
            SectionHeader(
                sh_name=_name(names, name),
                sh_type=kind,
                sh_flags=SHF_ALLOC,
                sh_addr=places.address(table),
                sh_offset=places.offset + start,
                sh_size=size,
                sh_link=numbers.get(places.address(link), 0),
                sh_info=_infos(merged, places).get(table, 0),
                sh_addralign=layout.word.size,
                sh_entsize=entry,
            )
        )
    return added


def _infos(merged: MergeInput, places: MergedLayout) -> dict[Name, int]:
    """sh_info by table, where it says something."""
    files = symbol_versions.files_of(merged.versions)
    return {"dynsym": places.first_global, **({"verneed": len(files)} if files else {})}


def _name(names: bytearray, name: str) -> int:
    at = len(names)
    names += name.encode() + b"\0"
    return at


_TABLES = ((DT_SYMTAB, "dynsym"), (DT_STRTAB, "dynstr"), (DT_HASH, "hash"), (DT_GNU_HASH, "gnu_hash"),
           (DT_VERSYM, "versym"), (DT_VERNEED, "verneed"), (DT_VERDEF, "verdef"), (DT_RELA, "rel"), (DT_REL, "rel"),
           (DT_JMPREL, "jmprel"))  # fmt: skip


def renewed(host: ElfFile, tables: Mapping[Name, Any]) -> dict[int, Name]:
    """Which table takes the place of what a section of the host has, by its number. Several notes
    may be in one."""
    places: dict[int, Name] = {
        host.dynamic[tag][0]: n for tag, n in _TABLES if tag in host.dynamic and n in tables
    }
    found = {
        i: places[s.sh_addr]
        for i, s in enumerate(host.sections)
        if s.sh_addr in places
        and s.sh_flags & SHF_ALLOC
        and s.sh_size
        and s.sh_type not in (SHT_PROGBITS, SHT_NOBITS)
    }
    table = host.first_segment(PT_GNU_EH_FRAME)
    if table is not None and "unwind" in tables:
        found.update(
            {
                i: "unwind"
                for i, s in enumerate(host.sections)
                if s.sh_addr == table.p_vaddr and s.sh_size
            }
        )
    notes = {i: s.sh_offset for i, s in enumerate(host.sections) if s.sh_type == SHT_NOTE}
    return {**found, **{i: offset for i, offset in notes.items() if offset in tables}}


def in_order_of_headers(host: ElfFile, tables: dict[Name, bytes]) -> dict[Name, bytes]:
    """The tables in the order of their section headers: tools that copy a library expect addresses
    in that order."""
    moving = renewed(host, tables)
    known = list(dict.fromkeys(moving[i] for i in sorted(moving)))
    return {
        name: tables[name] for name in [*known, *(name for name in tables if name not in known)]
    }


def _host_rows(merged: MergeInput, places: MergedLayout) -> list[SectionHeader]:
    """The host's headers; those of tables that were written anew lead to the new ones."""
    host, infos = merged.host, _infos(merged, places)
    moving = renewed(host, places.tables)
    rows = []
    headers = places.headers + places.headers_size
    for i, row in enumerate(host.section_headers(len(host.sections), "section headers")):
        name = moving.get(i)
        if host.sections[i].name == LEFT_SECTION and places.headers <= row.sh_offset < headers:
            end = max(row.sh_offset + row.sh_size, places.head)
            by = min(headers, end) - row.sh_offset
            row = row._replace(
                sh_addr=row.sh_addr + by,
                sh_offset=row.sh_offset + by,
                sh_size=end - row.sh_offset - by,
            )
        if isinstance(name, str):
            start, size = places.tables[name]
            row = row._replace(
                sh_addr=places.address(name),
                sh_offset=places.offset + start,
                sh_size=size,
                sh_info=infos.get(name, row.sh_info),
            )
        elif row.sh_type == SHT_NOTE and (at := places.of_note(row.sh_offset)) != row.sh_offset:
            row = row._replace(sh_addr=at + places.shift, sh_offset=at)
        elif row.sh_type == SHT_DYNAMIC:
            at, size = places.dynamic, places.dynamic_size
            row = row._replace(sh_addr=places.dynamic_address, sh_offset=at, sh_size=size)
        elif row.sh_flags & SHF_ALLOC and _is_in(host, row, places.unused):  # the old blob
            row = row._replace(sh_flags=0, sh_addr=0, sh_size=0)
        rows.append(row)
    return rows


def _is_in(host: ElfFile, row: SectionHeader, numbers: Collection[int]) -> bool:
    """True of a section, with bytes, in one of the segments."""
    inside = (host.segments[i] for i in numbers if host.segments[i].p_type == PT_LOAD)
    return row.sh_size > 0 and any(0 <= row.sh_addr - s.p_vaddr < s.p_memsz for s in inside)


def _left_rows(
    names: bytearray, merged: MergeInput, rows: Sequence[SectionHeader], places: MergedLayout
) -> list[SectionHeader]:
    """Headers for segments all of whose sections are elsewhere now, as in a library that was
    converted before, or the first segment of lld, which has tables alone: segments without sections
    are nothing to `strip` and `objcopy`, which would give them wrong offsets. They write the program
    headers in front of the first section."""
    host = merged.host
    taken = [row.sh_addr for row in rows if row.sh_flags & SHF_ALLOC and row.sh_size]
    headers = places.headers + places.headers_size
    left = []
    for number, s in enumerate(host.segments):
        is_head = s.p_offset <= places.headers < s.p_offset + s.p_filesz
        covered = headers - s.p_offset if is_head else 0
        longer = max(places.head - s.p_filesz, 0) if is_head else 0
        if (
            s.p_type != PT_LOAD
            or number in places.unused
            or s.p_filesz + longer <= covered
            or any(0 <= vaddr - s.p_vaddr < s.p_memsz + longer for vaddr in taken)
        ):
            continue
        flags = (
            SHF_ALLOC
            | (SHF_WRITE if s.p_flags & PF_W else 0)
            | (SHF_EXECINSTR if s.p_flags & PF_X else 0)
        )
        name = _name(names, LEFT_SECTION)
        left.append(
            SectionHeader(
                sh_name=name,
                sh_type=SHT_PROGBITS,
                sh_flags=flags,
                sh_addr=s.p_vaddr + covered,
                sh_offset=s.p_offset + covered,
                sh_size=s.p_filesz + longer - covered,
                sh_addralign=1,
            )
        )
    return left


def _join_thread(host: ElfFile, part: ElfFile, rows: list[SectionHeader], thread: int) -> None:
    """Let the sections of variables of a thread be in a row: tools that copy a library make PT_TLS
    anew from them, and of two places the first would be all."""
    theirs, ours = host.first_segment(PT_TLS), part.first_segment(PT_TLS)
    if theirs is None or ours is None:
        return
    in_thread = [i for i, row in enumerate(rows) if row.sh_flags & SHF_TLS]
    added = [i for i in in_thread if i >= len(host.sections)]
    zeros = [i for i in in_thread if i < len(host.sections) and rows[i].sh_type == SHT_NOBITS]
    end, start = theirs.p_vaddr + thread + ours.p_memsz, theirs.p_vaddr + thread
    first = rows[added[0]].sh_addr if added else 0
    for i in added:
        offset, vaddr = theirs.p_offset + theirs.p_filesz, start + rows[i].sh_addr - first
        rows[i] = rows[i]._replace(sh_addr=vaddr, sh_offset=offset)
    if zeros and added:  # one that is longer, instead of a second one behind it
        i = max(zeros, key=lambda i: rows[i].sh_addr)
        align = max(rows[i].sh_addralign, ours.p_align)
        rows[i] = rows[i]._replace(sh_size=end - rows[i].sh_addr, sh_addralign=align)
        for i in added:
            rows[i] = rows[i]._replace(sh_addr=end, sh_size=0)


def _part_row(names: bytearray, part: ElfFile, number: int, places: MergedLayout) -> SectionHeader:
    s: Section = part.sections[number]
    at = places.of_part(s.sh_offset)
    # its own tables are bytes here, which nobody reads
    kind = s.sh_type if s.sh_type in (SHT_NOTE, SHT_NOBITS) else SHT_PROGBITS
    return SectionHeader(
        sh_name=_name(names, s.name if s.name in _KEPT_NAMES else PREFIX + s.name),
        sh_type=kind,
        sh_flags=s.sh_flags & _KEPT_FLAGS,
        sh_addr=s.sh_addr + at - s.sh_offset - places.part + places.moved,
        sh_offset=at,
        sh_size=s.sh_size,
        sh_addralign=s.sh_addralign,
        sh_entsize=0 if kind == SHT_PROGBITS else s.sh_entsize,
    )
