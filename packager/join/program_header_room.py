"""Room for more program headers at the front of a finished library, where `strip` and `objcopy`
write them in any case: over notes and tables of the dynamic section, which can be elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_GNU_HASH,
    DT_HASH,
    DT_JMPREL,
    DT_REL,
    DT_RELA,
    DT_STRSZ,
    DT_STRTAB,
    DT_SYMTAB,
    DT_VERDEF,
    DT_VERNEED,
    DT_VERSYM,
    MAX_PAGE,
    PT_LOAD,
    PT_NOTE,
    SHF_ALLOC,
    SHT_NOBITS,
    SIZE_TAGS,
)
from mblob.binary.elf_versions import Versions
from mblob.named_tuple import NamedTuple

# A section where nothing is any more (section_headers.py).
LEFT_SECTION = ".mblob.left"
# that can be elsewhere
TABLES = (
    DT_SYMTAB,
    DT_STRTAB,
    DT_VERSYM,
    DT_VERNEED,
    DT_VERDEF,
    DT_RELA,
    DT_REL,
    DT_JMPREL,
    DT_HASH,
    DT_GNU_HASH,
)


class Piece(NamedTuple):
    """Bytes of a file that can be elsewhere, since headers or the dynamic section say where.

    Attributes:
        start, end: offsets in the file.
        is_note: a note, or several; else tables of the dynamic section.
    """

    start: int
    end: int
    is_note: bool


def in_the_way(host: ElfFile, size: int, longest: int = 0) -> list[Piece] | None:
    """The pieces to move if the program headers get `size` bytes, in the order of the file; None if
    something else is in the way, and they cannot stay in front.

    Args:
        longest: where the caller lets the first segment end, if it makes it longer (`end_of_head`).

    Raises:
        FormatError: tables are damaged.
    """
    start, end = host.e_phoff, host.e_phoff + size
    head = host.first_segment(PT_LOAD)
    if start != host.layout.ehdr.size or head is None or head.p_offset:
        return None
    if end > max(head.p_filesz, longest):
        return None
    pieces = _pieces(host)
    at = start + len(host.segments) * host.e_phentsize
    moved = [p for p in pieces if p.start < end and p.end > at]
    if host.sections:
        taken = (
            s
            for s in host.sections
            if s.sh_flags & SHF_ALLOC
            and s.sh_type != SHT_NOBITS
            and s.sh_size
            and s.name != LEFT_SECTION
        )
        for s in taken:
            inside = any(p.start <= s.sh_offset and s.sh_offset + s.sh_size <= p.end for p in moved)
            if s.sh_offset < end and s.sh_offset + s.sh_size > at and not inside:
                return None
        return moved
    for p in pieces:
        if p.start > at + 15:  # less is what an alignment leaves
            break
        at = max(at, p.end)
    return moved if at >= end else None


def end_of_head(host: ElfFile, size: int) -> int:
    """The end of the first segment if the program headers get `size` bytes: it takes what the file
    has free behind it, if they need that and a byte is left for a section."""
    head, *others = (s for s in host.segments if s.p_type == PT_LOAD)
    last = head.p_filesz
    if host.e_phoff + size <= last or not others or head.p_memsz != last:
        return last
    # pages of others stay theirs; so do bytes of the file
    stops = [last + MAX_PAGE, *(s.p_offset for s in others)]
    stops += [(s.p_vaddr - s.p_vaddr % max(s.p_align, 1)) - head.p_vaddr for s in others]
    stops += [s.sh_offset for s in host.sections if s.sh_size and s.sh_offset >= last]
    free = min([*stops, host.e_shoff or len(host.data)])
    if free <= host.e_phoff + size or any(host.data[last:free]):
        return last
    return free


def _pieces(host: ElfFile) -> list[Piece]:
    """All that can move, those that overlap as one."""
    spans = [
        (s.p_offset, s.p_offset + s.p_filesz, True) for s in host.segments if s.p_type == PT_NOTE
    ]
    spans += [(start, end, False) for start, end in _tables(host)]
    pieces: list[Piece] = []
    for start, end, is_note in sorted(spans):
        if pieces and start < pieces[-1].end:
            last = pieces.pop()
            pieces.append(Piece(last.start, max(last.end, end), last.is_note or is_note))
        elif start < end:
            pieces.append(Piece(start, end, is_note))
    return pieces


def _tables(host: ElfFile) -> Iterator[tuple[int, int]]:
    """The start and end of each table in the file that only the dynamic section leads to, and
    nothing refers to by a distance."""
    tags, layout, versions = host.dynamic, host.layout, Versions(host)
    count = len(host.dynsym) + 1
    sizes = {
        DT_SYMTAB: count * layout.sym.size,
        DT_STRTAB: tags[DT_STRSZ][0],
        DT_VERSYM: count * layout.versym.size,
        **{tag: tags.get(SIZE_TAGS[tag], [0])[0] for tag in (DT_RELA, DT_REL, DT_JMPREL)},
        DT_VERNEED: versions.size_of_needed(),
        DT_VERDEF: versions.size_of_defined(),
    }
    if DT_HASH in tags:
        sizes[DT_HASH] = host.sysv_hash_size()
    if DT_GNU_HASH in tags:
        sizes[DT_GNU_HASH] = host.gnu_hash_size(count)
    for tag, size in sizes.items():
        if tag in tags:
            offset = host.offset_of(tags[tag][0], size, "a table")
            yield offset, offset + size
