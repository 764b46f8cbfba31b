"""The front of a library that joins another one: headers, and tables of its own, which are written anew for both. The
result has none of them."""

from __future__ import annotations

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    PT_LOAD,
    SHF_ALLOC,
    SHT_DYNSYM,
    SHT_GNU_HASH,
    SHT_GNU_VERDEF,
    SHT_GNU_VERNEED,
    SHT_GNU_VERSYM,
    SHT_HASH,
    SHT_NOBITS,
    SHT_NOTE,
    SHT_REL,
    SHT_RELA,
    SHT_STRTAB,
    Section,
)
from mblob.named_tuple import NamedTuple

_OWN = (
    SHT_DYNSYM, SHT_STRTAB, SHT_HASH, SHT_GNU_HASH, SHT_GNU_VERSYM, SHT_GNU_VERNEED, SHT_GNU_VERDEF, SHT_REL, SHT_RELA,
)  # fmt: skip
_ALIGN = 16  # bytes, of which no note wants more


class Front(NamedTuple):
    """The front of a part.

    Attributes:
        end: offset of the first byte that the result has, once the notes have moved.
        notes: offsets of the first note and behind the last one, which stand among the tables.
        by: bytes by which the notes move, to stand in front of all that follows the tables.
    """

    end: int
    notes: tuple[int, int]
    by: int

    def place_of(self, at: int) -> int:
        """The offset that a byte of the part has once the notes have moved."""
        return at + self.by if self.notes[0] <= at < self.notes[1] else at


def front_of(part: ElfFile) -> Front:
    """The front, which is empty in a part without tables."""
    head = part.first_segment(PT_LOAD)
    if head is None or head.p_offset or not any(map(is_own, part.sections)):
        return Front(0, (0, 0), 0)
    inside = [
        s
        for s in part.sections
        if s.sh_flags & SHF_ALLOC
        and s.sh_size
        and s.sh_type != SHT_NOBITS
        and s.sh_offset < head.p_filesz
    ]
    others = [s.sh_offset for s in inside if not is_own(s) and s.sh_type != SHT_NOTE]
    if not others or any(is_own(s) and s.sh_offset > min(others) for s in inside):
        return Front(0, (0, 0), 0)
    first = min(others)
    notes = [s for s in inside if s.sh_type == SHT_NOTE and s.sh_offset < first]
    if not notes:
        return Front(first, (0, 0), 0)
    low, high = notes[0].sh_offset, max(s.sh_offset + s.sh_size for s in notes)
    by = (first - high) // _ALIGN * _ALIGN
    return Front(low + by, (low, high), by)


def is_own(s: Section) -> bool:
    """True for a table of the dynamic section."""
    return bool(s.sh_flags & SHF_ALLOC) and s.sh_type in _OWN
