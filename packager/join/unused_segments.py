"""Segments of a library that have nothing any more once it is joined: tables, a dynamic section and notes that
an earlier addition wrote, and that are written anew, and its blob. Program headers must fit in front of the first
section."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    NT_GNU_BUILD_ID,
    PT_GNU_RELRO,
    PT_LOAD,
    PT_NOTE,
    SHT_DYNAMIC,
    SHT_NOTE,
)
from mblob.format import note
from mblob.packager.join.merge import Name
from mblob.packager.join.section_headers import renewed

_ALIGN = 8  # bytes, of which each table is at a multiple


def unused_segments(
    host: ElfFile, tables: Mapping[Name, Any], blob: tuple[int, int]
) -> frozenset[int]:
    """Numbers of the segments that the result does not need, if the notes in them (`notes_in`) move.

    Args:
        tables: those that are written anew, by name.
        blob: offset and bytes of one that nothing refers to any more, or zeros.
    """
    start, size = blob
    dead = (i for i, s in enumerate(host.segments) if (s.p_offset, s.p_filesz) == (start, size))
    return frozenset([*_tables(host, tables), *_notes(host), *(dead if size else ())])


def notes_in(host: ElfFile, unused: Collection[int]) -> dict[Name, bytes]:
    """Notes that lie in segments without use, by their offsets."""
    spans = [
        (s.p_offset, s.p_offset + s.p_filesz) for i, s in enumerate(host.segments) if i in unused
    ]
    found = (s for i, s in enumerate(host.segments) if s.p_type == PT_NOTE and i not in unused)
    return {
        s.p_offset: bytes(host.data[s.p_offset : s.p_offset + s.p_filesz])
        for s in found
        if any(start <= s.p_offset < end for start, end in spans)
    }


def _tables(host: ElfFile, tables: Mapping[Name, Any]) -> Iterator[int]:
    """Segments each byte of which is in a section that moves, or in a note, which can."""
    moving = renewed(host, tables)
    spans = sorted(
        (s.sh_offset, s.sh_offset + s.sh_size)
        for i, s in enumerate(host.sections)
        if isinstance(moving.get(i), str) or s.sh_type in (SHT_DYNAMIC, SHT_NOTE)
    )
    relro = [s.p_offset for s in host.segments if s.p_type == PT_GNU_RELRO]
    for number, s in enumerate(host.segments):
        at, end = s.p_offset, s.p_offset + s.p_filesz
        if s.p_type != PT_LOAD or not at or s.p_filesz != s.p_memsz:
            continue
        if any(at <= r < end for r in relro):  # of the linker
            continue
        for start, stop in spans:
            if 0 <= start - at < _ALIGN and stop <= end and not any(host.data[at:start]):
                at = stop
        if at == end:
            yield number


def _notes(host: ElfFile) -> Iterator[int]:
    """Notes of earlier additions: what mblob announced, which is announced again, and one more build-id."""
    has_id = False
    owners = [(owner, kind, at) for owner, kind, _, at in host.notes()]
    for number, s in enumerate(host.segments):
        if s.p_type != PT_NOTE:
            continue
        inside = [n for *n, at in owners if s.p_offset <= at < s.p_offset + s.p_filesz]
        build_ids = inside.count([b"GNU", NT_GNU_BUILD_ID])
        own = sum(owner == note.NAME.rstrip(b"\0") for owner, _ in inside)
        if own and own + (build_ids if has_id else 0) == len(inside):
            yield number
        has_id = has_id or build_ids > 0
