"""One more segment for a finished library, behind everything.

The program headers, one more now, stay in front: `strip` and `objcopy` write them there in any
case. What is in the way moves into the new segment, in front of its contents. All else keeps its
offset and address.
"""

from __future__ import annotations

from collections.abc import Sequence

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    PF_R,
    PN_XNUM,
    PT_GNU_PROPERTY,
    PT_LOAD,
    PT_NOTE,
    PT_PHDR,
    SHF_ALLOC,
    SHN_LORESERVE,
    SHT_PROGBITS,
    Section,
    SectionHeader,
    Segment,
)
from mblob.errors import IncompatibleError
from mblob.format.blob_plan import SEGMENT_ALIGN, start_alignment
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError
from mblob.packager.join.program_header_room import TABLES, Piece, in_the_way
from mblob.packager.write.elf_patch import Patch, segment_row

PAGE = 4096  # bytes; contents start at a multiple at least, since copies to one are fast
_PIECE_ALIGN = 64  # bytes; no note or table wants more
# rows that other tools may add: patchelf does, and looks only at the first sections
_SPARE = (8, 4, 2, 1, 0)
_NOTES = (PT_NOTE, PT_GNU_PROPERTY)


class NewSegment(NamedTuple):
    """The place of the new segment, and the pieces that move with it.

    Attributes:
        elf: the library as it was.
        offset, vaddr: of the segment.
        lead: bytes in front of its contents.
        size: bytes of the contents.
        headers: offset of the program headers.
        moved: what had to make room, and its offsets now.
    """

    elf: ElfFile
    offset: int
    vaddr: int
    lead: int
    size: int
    headers: int
    moved: Sequence[tuple[Piece, int]]

    def place_of(self, at: int) -> int:
        """The new place of a byte of the library."""
        return next((new + at - p.start for p, new in self.moved if p.start <= at < p.end), at)

    def _address_of(self, vaddr: int) -> int:
        """The same for an address. The first segment, where all that moves has been, starts the
        file."""
        base = next(s.p_vaddr for s in self.elf.segments if s.p_type == PT_LOAD)
        at = vaddr - base
        new = self.place_of(at)
        return vaddr if new == at else new - self.offset + self.vaddr

    def put(self, patch: Patch, name: bytes) -> int | None:
        """Write all but the contents. Returns the index of their section, None in a file without
        section headers.

        Args:
            name: of the section.
        """
        for piece, new in self.moved:
            patch.raw(new, bytes(self.elf.data[piece.start : piece.end]))
        patch.dynamic_addresses(self._address_of, TABLES)
        rows = self._program_headers()
        patch.program_headers(rows, self.headers)
        return self._put_sections(patch, name, len(rows) * self.elf.e_phentsize)

    # -- program headers ---------------------------------------------------------------------------

    def _program_headers(self) -> list[bytes]:
        """The new row stands behind the last that is loaded, which are in ascending order; notes
        that moved behind it: of two segments that start at one place, `llvm-strip` takes the first
        for the one that has the other."""
        elf = self.elf
        last = max(i for i, s in enumerate(elf.segments) if s.p_type == PT_LOAD)
        before: list[bytes] = []
        behind: list[bytes] = []
        for i, s in enumerate(elf.segments):
            has_moved = s.p_type in _NOTES and self.place_of(s.p_offset) != s.p_offset
            (behind if i > last or has_moved else before).append(self._row(i, s))
        size = self.lead + self.size
        new = segment_row(elf, PT_LOAD, PF_R, self.offset, self.vaddr, size, SEGMENT_ALIGN)
        return [*before, new, *behind]

    def _row(self, index: int, s: Segment) -> bytes:
        elf = self.elf
        if s.p_type == PT_PHDR:
            vaddr = self.vaddr if self.headers == self.offset else s.p_vaddr
            size = (len(elf.segments) + 1) * elf.e_phentsize
            return segment_row(elf, PT_PHDR, s.p_flags, self.headers, vaddr, size, s.p_align)
        new = self.place_of(s.p_offset)
        if s.p_type in _NOTES and new != s.p_offset:
            vaddr = new - self.offset + self.vaddr
            return segment_row(elf, s.p_type, s.p_flags, new, vaddr, s.p_filesz, s.p_align)
        return bytes(elf.data[elf.e_phoff + index * elf.e_phentsize :][: elf.e_phentsize])

    # -- sections ----------------------------------------------------------------------------------

    def _put_sections(self, patch: Patch, name: bytes, table_size: int) -> int | None:
        """The table behind everything, with a row for the contents: what no section covers is
        nothing to `strip`."""
        elf = self.elf
        count = elf.e_shnum
        if not elf.e_shoff or not count or count + 1 >= SHN_LORESERVE or elf.e_shstrndx >= count:
            return None
        # headers are covered by none
        lead = table_size if self.headers == self.offset else self.lead
        rows = [self._moved_row(row) for row in elf.section_headers(count, "section headers")]
        names = bytes(elf.contents(elf.sections[elf.e_shstrndx]))
        rows.append(
            SectionHeader(
                sh_name=len(names),
                sh_type=SHT_PROGBITS,
                sh_flags=SHF_ALLOC,
                sh_addr=self.vaddr + lead,
                sh_offset=self.offset + lead,
                sh_size=self.lead - lead + self.size,
                sh_addralign=8,
            )
        )
        patch.section_headers(rows, names + name + b"\0", self.offset + self.lead + self.size)
        self._move_symbols(patch)
        return count

    def _moved_row(self, row: SectionHeader) -> SectionHeader:
        if not self._has_moved(row):
            return row
        new = self.place_of(row.sh_offset)
        return row._replace(sh_offset=new, sh_addr=new - self.offset + self.vaddr)

    def _has_moved(self, s: Section | SectionHeader) -> bool:
        return (
            bool(s.sh_flags & SHF_ALLOC and s.sh_size) and self.place_of(s.sh_offset) != s.sh_offset
        )

    def _move_symbols(self, patch: Patch) -> None:
        """Those that debuggers have for what moved, as `__abi_tag`."""
        moved = {i for i, s in enumerate(self.elf.sections) if self._has_moved(s)}
        for s in (*self.elf.symtab, *self.elf.dynsym):
            if s.st_shndx in moved:
                patch.symbol(self.place_of(s.offset), st_value=self._address_of(s.st_value))


def _make_room(elf: ElfFile, table_size: int) -> list[Piece] | None:
    """The pieces to move, for some more rows if that can be; None if not even for one."""
    for spare in _SPARE:
        pieces = in_the_way(elf, table_size + spare * elf.e_phentsize)
        if pieces is not None:
            return pieces
    return None


def new_segment(elf: ElfFile, size: int) -> NewSegment:
    """Find the places for a segment, read-only, of `size` bytes, which are aligned as a blob of
    this size.

    Raises:
        BuildError, IncompatibleError: there is no room.
        FormatError: tables are damaged.
    """
    table_size = (len(elf.segments) + 1) * elf.e_phentsize
    if len(elf.segments) + 1 >= PN_XNUM or table_size > PAGE:
        raise BuildError(
            f"{elf.name}: {len(elf.segments)} program headers, there is no room for one more"
        )
    alignment = max(PAGE, start_alignment(size))
    offset = len(elf.data) + -len(elf.data) % alignment
    top = max(s.p_vaddr + s.p_memsz for s in elf.segments if s.p_type == PT_LOAD)
    # On pages of its own, and congruent to the offset modulo every page size.
    vaddr = top + -top % SEGMENT_ALIGN + offset % SEGMENT_ALIGN
    pieces = _make_room(elf, table_size)
    moved: list[tuple[Piece, int]] = []
    end = offset
    for p in pieces or ():
        moved.append((p, end))
        end += p.end - p.start
        end += -end % _PIECE_ALIGN
    lead = alignment if pieces is None else end - offset + -end % alignment
    last = max(offset, vaddr) + lead + size
    if elf.bits == 32 and last > 0xFFFFFFFF - SEGMENT_ALIGN:
        raise IncompatibleError(
            f"a 32-bit library ({elf.machine}) has no room for {size} bytes behind its segments"
        )
    if elf.bits == 64 and vaddr + lead + size >= 1 << 47:
        raise BuildError(
            f"{elf.name}: its last segment ends at {top:#x}, there are no addresses behind it"
        )
    return NewSegment(
        elf=elf,
        offset=offset,
        vaddr=vaddr,
        lead=lead,
        size=size,
        headers=offset if pieces is None else elf.e_phoff,
        moved=moved,
    )
