"""The sorted table of unwind information (`.eh_frame_hdr`, PT_GNU_EH_FRAME) of two libraries as
one.

Unwinders search the one table of a library, so that exceptions pass through functions that another
has none for only if it names them, too. Linux Standard Base, section 10.6.2.
"""

from __future__ import annotations

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import PT_GNU_EH_FRAME

# version 1; forms that all linkers write: distances of 32 bits, a sorted table
_LEAD = bytes((1, 0x1B, 0x03, 0x3B))
_REACH = (1 << 31) - (1 << 28)  # bytes from the table, less some for places that are not final yet


def joined(host: ElfFile, part: ElfFile, address: int, moved: int) -> bytes:
    """The table of both; empty where the host's has to do: one of them has none of that form, or is
    too far away.

    Args:
        address: where it will be.
        moved: what is added to addresses of the part.
    """
    ours, theirs = _read(part), _read(host)
    if ours is None or theirs is None:
        return b""
    frames, rows = theirs
    rows = sorted([*rows, *((start + moved, entry + moved) for start, entry in ours[1])])
    distances = [at - address for row in rows for at in row]
    if any(abs(d) > _REACH for d in (frames - address, *distances)):
        return b""
    head = host.layout.eh_frame_hdr
    lead = head.pack(_LEAD, frames - address - head.offset_of("eh_frame_ptr"), len(rows))
    return lead + host.layout.numbers("i", distances)


def _read(elf: ElfFile) -> tuple[int, list[tuple[int, int]]] | None:
    """Address of the unwind information, and those of each function and of its entry."""
    s = elf.first_segment(PT_GNU_EH_FRAME)
    head, row = elf.layout.eh_frame_hdr, elf.layout.eh_frame_row
    if (
        s is None
        or s.p_filesz < head.size
        or s.p_offset > len(elf.data)
        or s.p_filesz > len(elf.data) - s.p_offset
    ):
        return None
    data = elf.data[s.p_offset : s.p_offset + s.p_filesz]
    lead, frames, count = head.unpack_from(data)
    if lead != _LEAD or count > (len(data) - head.size) // row.size:
        return None
    rows = row.iter_unpack(data[head.size : head.size + count * row.size])
    places = [(s.p_vaddr + start, s.p_vaddr + entry) for start, entry in rows]
    return s.p_vaddr + head.offset_of("eh_frame_ptr") + frames, places
