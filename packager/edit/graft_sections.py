"""Section headers of a library that another one joined: what `readelf`, `strip`, `objcopy` and
`patchelf` go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_REL,
    DT_RELA,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERSYM,
    PF_W,
    PF_X,
    PT_LOAD,
    PT_TLS,
    SHF_ALLOC,
    SHF_EXECINSTR,
    SHF_TLS,
    SHF_WRITE,
    SHF_X86_64_LARGE,
    SHN_LORESERVE,
    SHT_DYNAMIC,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_PROGBITS,
    SHT_REL,
    SHT_RELA,
    Section,
)
from mblob.packager.edit import unwind_table
from mblob.packager.write.elf_patch import Patch, pack

if TYPE_CHECKING:
    from mblob.packager.edit.graft_writer import Name, Places

PREFIX = ".mblob"  # of the names of the part's sections, so that the host's keep theirs alone
# without those that lead elsewhere
_KEPT_FLAGS = SHF_WRITE | SHF_ALLOC | SHF_EXECINSTR | SHF_TLS | SHF_X86_64_LARGE
_KEPT_NAMES = (".tvm_mblob", ".lrodata", ".note.mblob")


def mapped(host: ElfFile, part: ElfFile) -> dict[int, int]:
    """Numbers of the part's sections in the result."""
    wanted = [i for i, s in enumerate(part.sections) if s.sh_flags & SHF_ALLOC and s.sh_size]
    return {old: len(host.sections) + new for new, old in enumerate(wanted)}


def put_sections(
    patch: Patch, host: ElfFile, part: ElfFile, places: Places, end: int, thread: int
) -> None:
    """Write the table behind everything: the host's sections under their numbers, then the part's.

    Args:
        thread: where the part's variables of a thread go in PT_TLS, if the host has one.
    """
    if not host.e_shoff or not host.sections or host.e_shstrndx >= len(host.sections):
        return
    numbers = mapped(host, part)
    if len(host.sections) + len(numbers) + 1 >= SHN_LORESERVE:
        return
    names = bytearray(host.contents(host.sections[host.e_shstrndx]))
    rows = _host_rows(host, places)
    symbols = next((i for i, row in enumerate(rows) if row[3] == places.address("dynsym")), 0)
    for number in numbers:
        rows.append(_part_row(names, part, number, places))
    _join_thread(host, part, rows, thread)
    if not any(row[3] == places.address("rel") for row in rows):
        kind, entry = (SHT_RELA, 24) if host.bits == 64 else (SHT_REL, 8)
        start, size = places.tables["rel"]
        rows.append([
            _name(names, ".rela.dyn" if host.bits == 64 else ".rel.dyn"), kind, SHF_ALLOC, places.address("rel"),
            places.offset + start, size, symbols, 0, host.bits // 8, entry,
        ])  # fmt: skip
    rows += _left_rows(names, host, rows)
    at = end + -end % 16
    rows[host.e_shstrndx][4:6] = [at, len(names)]
    patch.raw(at, bytes(names))
    table = at + len(names)
    table += -table % 16
    fmt = "IIQQQQIIQQ" if host.bits == 64 else "10I"
    patch.raw(table, b"".join(pack(host, fmt, *row) for row in rows))
    patch.section_table(table, len(rows))


def _name(names: bytearray, name: str) -> int:
    at = len(names)
    names += name.encode() + b"\0"
    return at


def _raw(elf: ElfFile, number: int) -> list[int]:
    fmt = "IIQQQQIIQQ" if elf.bits == 64 else "10I"
    return list(elf.unpack(fmt, elf.e_shoff + number * elf.e_shentsize, "section"))


_TABLES = ((DT_SYMTAB, "dynsym"), (DT_STRTAB, "dynstr"), (DT_HASH, "hash"), (DT_GNU_HASH, "gnu_hash"),
           (DT_VERSYM, "versym"), (DT_RELA, "rel"), (DT_REL, "rel"), (DT_JMPREL, "jmprel"))  # fmt: skip


def _renewed(host: ElfFile, tables: Mapping[Name, Any]) -> dict[int, Name]:
    """Which table is the new form of what a section of the host has, by its number. Several notes
    may be in one."""
    places: dict[int, Name] = {
        host.dynamic[tag][0]: n for tag, n in _TABLES if tag in host.dynamic and n in tables
    }
    found = {
        i: places[s.sh_addr] for i, s in enumerate(host.sections)
        if s.sh_addr in places and s.sh_flags & SHF_ALLOC and s.sh_size and s.sh_type not in (SHT_PROGBITS, SHT_NOBITS)
    }  # fmt: skip
    table = unwind_table.segment(host)
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
    renewed = _renewed(host, tables)
    known = list(dict.fromkeys(renewed[i] for i in sorted(renewed)))
    return {
        name: tables[name] for name in [*known, *(name for name in tables if name not in known)]
    }


def _host_rows(host: ElfFile, places: Places) -> list[list[int]]:
    """The host's headers; those of tables that were written anew lead to the new ones."""
    renewed = _renewed(host, places.tables)
    rows = []
    for i, s in enumerate(host.sections):
        row = _raw(host, i)
        name = renewed.get(i)
        if isinstance(name, str):
            start, size = places.tables[name]
            row[3:6] = [places.address(name), places.offset + start, size]
            if name == "dynsym":
                row[7] = places.first_global
        elif s.sh_type == SHT_NOTE and (at := places.of_note(s.sh_offset)) != s.sh_offset:
            row[3:5] = [at + places.shift, at]
        elif s.sh_type == SHT_DYNAMIC:
            row[3:6] = [places.dynamic + places.shift, places.dynamic, places.dynamic_size]
        rows.append(row)
    return rows


def _left_rows(names: bytearray, host: ElfFile, rows: Sequence[list[int]]) -> list[list[int]]:
    """Headers for segments all of whose sections are elsewhere now, as in a library that was
    converted before: segments without sections are nothing to `strip` and `objcopy`, which would
    give them wrong offsets."""
    taken = [row[3] for row in rows if row[2] & SHF_ALLOC and row[5]]
    left = []
    for s in host.segments:
        if (
            s.p_type != PT_LOAD
            or not s.p_filesz
            or any(0 <= vaddr - s.p_vaddr < s.p_memsz for vaddr in taken)
        ):
            continue
        flags = (
            SHF_ALLOC
            | (SHF_WRITE if s.p_flags & PF_W else 0)
            | (SHF_EXECINSTR if s.p_flags & PF_X else 0)
        )
        name = _name(names, PREFIX + ".left")
        left.append([name, SHT_PROGBITS, flags, s.p_vaddr, s.p_offset, s.p_filesz, 0, 0, 1, 0])
    return left


def _join_thread(host: ElfFile, part: ElfFile, rows: list[list[int]], thread: int) -> None:
    """Let the sections of variables of a thread be in a row: tools that copy a library make PT_TLS
    anew from them, and of two places the first would be all."""
    theirs = next((s for s in host.segments if s.p_type == PT_TLS), None)
    ours = next((s for s in part.segments if s.p_type == PT_TLS), None)
    if theirs is None or ours is None:
        return
    added = [row for row in rows[len(host.sections) :] if row[2] & SHF_TLS]
    zeros = [row for row in rows[: len(host.sections)] if row[2] & SHF_TLS and row[1] == SHT_NOBITS]
    end = theirs.p_vaddr + thread + ours.p_memsz
    for row in added:
        row[3] = theirs.p_vaddr + thread + row[3] - added[0][3]
        row[4] = theirs.p_offset + theirs.p_filesz
    if zeros and added:  # one that is longer, instead of a second one behind it
        last = max(zeros, key=lambda row: row[3])
        last[5] = end - last[3]
        last[8] = max(last[8], ours.p_align)
        for row in added:
            row[3], row[5] = end, 0


def _part_row(names: bytearray, part: ElfFile, number: int, places: Places) -> list[int]:
    s: Section = part.sections[number]
    row = _raw(part, number)
    row[0] = _name(names, s.name if s.name in _KEPT_NAMES else PREFIX + s.name)
    if s.sh_type not in (SHT_NOTE, SHT_NOBITS):  # its own tables are bytes here, which nobody reads
        row[1] = SHT_PROGBITS
    row[3], row[4] = s.sh_addr + places.moved, s.sh_offset + places.part
    row[2] &= _KEPT_FLAGS
    row[6:8] = [0, 0]
    if row[1] == SHT_PROGBITS:
        row[9] = 0
    return row
