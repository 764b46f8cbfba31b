"""A blob at the end of the last segment of a library, which grows with it: the way `grow` of `embed=`
(`mblob.packager.link.embed`), and how finished libraries get another blob (`mblob.packager.join.reembed`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from mblob.binary.elf_records import PF_R, PF_W, PT_LOAD, SHF_ALLOC, SHT_NOTE
from mblob.errors import ToolchainError
from mblob.format.blob_plan import SEGMENT_ALIGN, TENSOR_ALIGN
from mblob.packager.write.blob_stream import WriteBlob, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library, read_stub
from mblob.packager.write.elf_writer import GROW_SECTION, BlobSection


class BlobInBackground(Protocol):
    """A blob that is being written to the output: `mblob.packager.link.background_copy`."""

    offset: int

    def cancel(self) -> None: ...
    def result(self) -> tuple[int, bytes]: ...


# An alignment that no other note has: bfd, gold and lld give notes of one alignment one common
# program header.
APPEND_SECTION: BlobSection = BlobSection(".note.tvm_mblob", alignment=32, kind=SHT_NOTE)


def grow_section(alignment: int, lead: int) -> BlobSection:
    """The section of the placeholder, for linkers that know INSERT."""
    return BlobSection(GROW_SECTION, alignment=alignment, lead=lead)


def linker_script(alignment: int) -> str:
    """Keeps the linker's own script and adds one output section behind all others, on pages of its
    own: in memory. The file has no gap in front of it, as of other segments: the address is one on a
    new page that an offset right behind the others' bytes is congruent to. Behind sections with bytes,
    which are last where there is no .bss, bfd begins a new segment only behind a page that is left out.

    The note has its place named, because bfd puts read-only sections that it does not know behind
    the last one it does.
    """
    page = f"MAX({alignment}, CONSTANT(MAXPAGESIZE))"
    address = f"ALIGN(ABSOLUTE(ALIGN(. + {page}, {page})) + (. & ({page} - 1)), {alignment})"
    return f"""SECTIONS
{{
  .note.mblob : {{ KEEP(*(.note.mblob)) }}
}}
INSERT BEFORE .dynsym;
SECTIONS
{{
  {GROW_SECTION} {address} : ALIGN({alignment}) {{ KEEP(*({GROW_SECTION})) }}
}}
INSERT AFTER .bss;
"""


def segment_to_grow(stub: Stub) -> int:
    """Index of the segment that ends with the placeholder.

    Raises:
        ToolchainError: the linker placed it elsewhere, or where it would be writable, so it cannot
            grow.
    """
    segments = stub.elf.segments
    start = stub.symbol.st_value
    end = start + stub.symbol.st_size
    last = max((s.p_vaddr + s.p_memsz for s in segments if s.p_type == PT_LOAD), default=0)
    for i, s in enumerate(segments):
        if s.p_type == PT_LOAD and s.p_vaddr <= start < s.p_vaddr + s.p_memsz:
            if end == last == s.p_vaddr + s.p_filesz and not s.p_flags & PF_W:
                return i
            break
    raise ToolchainError(
        "the linker did not place the packed modules at the end of the last read-only segment; use bfd, gold or"
        " lld (options=['-fuse-ld=bfd']), or embed='object'"
    )


def grow(
    stub_path: Path,
    output: Path,
    symbol: str,
    write: WriteBlob,
    copy: BlobInBackground | None = None,
) -> int:
    """Write `output`: the stub with the blob in place of its placeholder. Returns the blob's size.

    Args:
        stub_path: what the linker made.
        write: writes the blob.
        copy: the blob, if it is being written to `output` already. It stays where it is if the stub
            fits in front of it, and is written anew if not.

    Raises:
        ToolchainError: the stub does not have the shape this needs.
        IncompatibleError: the blob does not fit a 32-bit library.
    """
    return grow_stub(read_stub(stub_path, symbol), stub_path, output, write, copy)


def grow_stub(
    stub: Stub,
    stub_path: Path,
    output: Path,
    write: WriteBlob,
    copy: BlobInBackground | None = None,
    edit: Callable[[Patch], None] | None = None,
    old_fingerprint: bytes | None = None,
    move: int = 0,
) -> int:
    """The same for a stub that was read, or for a finished library whose blob ends its last
    segment.

    Args:
        edit: further changes of bytes that lie before the blob.
        old_fingerprint: of the blob that is replaced; with the same one the build-id stays.
        move: bytes by which the blob starts behind the old one. If it is negative, so many bytes in
            front of the old one are zero and nobody's.
    """
    elf = stub.elf
    segment = segment_to_grow(stub)
    old_size = stub.symbol.st_size
    start = elf.offset_of(stub.symbol.st_value, old_size, stub.symbol.name)
    if copy is not None and not _fits(stub, segment, start, copy.offset):
        copy.cancel()
        copy = None
    old_end = start + old_size
    limit = None
    if elf.bits == 32:
        limit = 0xFFFFFFFF - max(stub.symbol.st_value, len(stub.data)) - SEGMENT_ALIGN
    with new_library(output, stub_path, has_blob=copy is not None) as fd:
        write_all(fd, memoryview(stub.data)[: min(start, start + move)])
        if copy is not None:
            place = copy.offset
            size, fingerprint = copy.result()
        else:
            place = start + move
            os.lseek(fd, place, os.SEEK_SET)
            size, fingerprint = write(fd, limit, elf.machine)
        # What is behind the placeholder is not loaded (.comment, .symtab, names, section headers):
        # it moves by whole cache lines, so that its alignment stays.
        shift = place - start + size - old_size
        shift += -shift % 64
        os.lseek(fd, old_end + shift, os.SEEK_SET)
        write_all(fd, memoryview(stub.data)[old_end:])
        patch = _patch_headers(fd, stub, segment, (start, place), shift, size, move)
        if edit is not None:
            edit(patch)
        if fingerprint != old_fingerprint:
            patch.build_id(fingerprint)
    return size


def _fits(stub: Stub, segment: int, start: int, place: int) -> bool:
    """True if the blob may lie at the offset `place` of the file, where the linker put `start`."""
    s = stub.elf.segments[segment]
    return (
        stub.elf.bits == 64
        and _is_alone(stub, segment, start)
        and start <= place
        and (place - stub.symbol.st_value) % max(s.p_align, 1) == 0
    )


def _is_alone(stub: Stub, segment: int, start: int) -> bool:
    """True if there is nothing in front of the blob in its segment, but zeros for its place."""
    lead = stub.symbol.st_value - stub.elf.segments[segment].p_vaddr
    return lead < TENSOR_ALIGN and not any(stub.data[start - lead : start])


def _patch_headers(
    fd: int, stub: Stub, segment: int, places: tuple[int, int], shift: int, size: int, move: int
) -> Patch:
    """Make the headers say what the file is.

    Args:
        places: offsets of the placeholder in the stub, and of the blob in the file.
        move: bytes by which the address of the blob is behind that of the placeholder.
    """
    elf = stub.elf
    start, place = places
    old_end = start + stub.symbol.st_size

    def moved(at: int) -> int:
        return at + shift if at >= old_end else at

    patch = Patch(fd, elf, moved)
    value = stub.symbol.st_value + move
    lead = value - elf.segments[segment].p_vaddr
    patch.segment(segment, p_offset=place - lead, p_filesz=lead + size, p_memsz=lead + size)
    if _is_alone(
        stub, segment, start
    ):  # lld without a read-only segment of its own would leave the blob executable
        patch.segment(segment, p_flags=PF_R)

    patch.placeholder_symbols(stub, st_value=value, st_size=size)
    table = moved(elf.e_shoff)
    patch.section_table(table)
    for i, section in enumerate(elf.sections):
        if section.sh_offset >= old_end and not section.sh_flags & SHF_ALLOC:
            patch.section(i, sh_offset=moved(section.sh_offset), table=table)
    if stub.section is not None:
        # The section may start before the blob, in a script of the caller's; it moves with it.
        section = elf.sections[stub.section]
        patch.section(
            stub.section,
            sh_offset=section.sh_offset + place - move - start,
            sh_size=section.sh_size + move + size - stub.symbol.st_size,
            table=table,
        )
    return patch
