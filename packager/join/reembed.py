"""Another blob for a finished library: in the place of the old one, at the end of its segment, or
behind everything.

All bytes outside the blob stay as they are but for header fields that say where the blob is, and
the build-id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mblob.binary.elf import ElfFile
from mblob.errors import ToolchainError
from mblob.format.blob_plan import BLOB_ALIGN, TENSOR_ALIGN, BlobPlan, Measured
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError
from mblob.packager.join.blob_references import find_reference
from mblob.packager.join.new_segment import new_segment
from mblob.packager.write.blob_stream import WriteBlob, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library
from mblob.packager.write.elf_writer import GROW_SECTION
from mblob.packager.write.grow import APPEND_SECTION, grow_stub, segment_to_grow

# Those that have the blob alone, and what is in front of it for its place.
_SECTIONS = (GROW_SECTION, APPEND_SECTION.name)

Edit = Callable[[Patch], None]


class Place(NamedTuple):
    """The place of a new blob.

    Attributes:
        how: "in place", "grown" (at the end of its segment) or "moved" (behind everything).
        move: bytes by which it starts behind the old one, unless it is moved.
        lead: as of `BlobPlan.write`.
        measured: the blob there.
    """

    how: str
    move: int
    lead: int
    measured: Measured


def place_for(library: Stub, path: Path, plan: BlobPlan, *, is_placed: bool) -> Place:
    """Choose the place of a new blob: where its payloads are aligned, if nothing refers to the old
    blob by its address.

    Args:
        library: with the old blob.
        path: of the library.
        plan: the new blob.
        is_placed: the old blob is where its payloads are aligned. If it is not, a new one that fits
            into its place may stay there, too.

    Raises:
        BuildError: the new blob is larger, does not fit, and something refers to the old one by its
            address.
    """
    symbol, elf = library.symbol, library.elf
    start = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    reference: str | None = None
    move = 0
    if plan.lead is not None:
        first = symbol.st_value - _zeros(library, start)
        move = first + (plan.lead - first) % TENSOR_ALIGN - symbol.st_value
        if move and (reference := find_reference(elf, symbol)):
            move = 0
    moves = [move] if is_placed or not move else [move, 0]
    for move in moves:
        lead = (start + move) % BLOB_ALIGN
        measured = plan.measure(lead=lead)
        if (move or measured.size != symbol.st_size) and _can_grow(library):
            return Place("grown", move, lead, measured)
        if move + measured.size <= symbol.st_size:
            return Place("in place", move, lead, measured)
    if reference := reference or find_reference(elf, symbol):
        raise BuildError(
            f"{path}: the new blob has {measured.size} bytes, its place {symbol.st_size}, and it cannot move:"
            f" {reference}; pack the library again"
        )
    lead = plan.lead or 0
    return Place("moved", 0, lead, plan.measure(lead=lead))


def check_can_move(elf: ElfFile, symbol: str, path: Path) -> None:
    """Refuse a library whose code or data refers to its blob by its address, or may do so.

    Raises:
        BuildError: naming it.
    """
    found = elf.find(symbol)
    if found is not None and (reference := find_reference(elf, found)):
        raise BuildError(f"{path}: its blob cannot move: {reference}; pack the library again")


def _zeros(library: Stub, start: int) -> int:
    """The number of bytes in front of the old blob that are only there to place it."""
    if library.section is None:
        return 0
    section = library.elf.sections[library.section]
    count = library.symbol.st_value % TENSOR_ALIGN
    is_ours = section.name in _SECTIONS and section.sh_addr <= library.symbol.st_value - count
    return (
        count if is_ours and start > count and not any(library.data[start - count : start]) else 0
    )


def reembed(
    library: Stub,
    path: Path,
    output: Path,
    write: WriteBlob,
    place: Place,
    edit: Edit | None = None,
    old_fingerprint: bytes | None = None,
) -> None:
    """Write `output`: the library with the new blob.

    Args:
        library, path: as of `place_for`.
        write: writes the new blob.
        place: of the new blob.
        edit: further changes of bytes outside the blob.
        old_fingerprint: as of `grow_stub`.

    Raises:
        IncompatibleError: it does not fit a 32-bit library.
        OSError, MblobError: what writing and the payloads raise.
    """
    if place.how == "grown":
        grow_stub(
            library,
            path,
            output,
            write,
            edit=edit,
            old_fingerprint=old_fingerprint,
            move=place.move,
        )
        return
    with new_library(output, path) as fd:
        how = _in_place if place.how == "in place" else _move
        patch, new = how(fd, library, write, place)
        if edit is not None:
            edit(patch)
        if new != old_fingerprint:
            patch.build_id(new)


def _can_grow(library: Stub) -> bool:
    """True if the blob ends the last segment, and nothing that is loaded lies behind it in the
    file."""
    try:
        segment_to_grow(library)
    except ToolchainError:
        return False
    symbol, elf = library.symbol, library.elf
    start = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    end = start + symbol.st_size
    behind = any(s.p_filesz and s.p_offset + s.p_filesz > end for s in elf.segments)
    return not behind and elf.e_phoff < start


def _in_place(fd: int, library: Stub, write: WriteBlob, place: Place) -> tuple[Patch, bytes]:
    """The new blob where the old one is; what is left of the place becomes zero."""
    data, symbol, move = memoryview(library.data), library.symbol, place.move
    start = library.elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    write_all(fd, data[: min(start, start + move)])
    os.lseek(fd, start + move, os.SEEK_SET)
    _, fingerprint = write(fd, symbol.st_size - move, "the place of the old blob")
    os.lseek(fd, start + symbol.st_size, os.SEEK_SET)
    write_all(fd, data[start + symbol.st_size :])
    os.ftruncate(fd, len(data))
    patch = Patch(fd, library.elf)
    size = place.measured.size
    patch.placeholder_symbols(library, st_value=symbol.st_value + move, st_size=size)
    return patch, fingerprint


def _move(fd: int, library: Stub, write: WriteBlob, place: Place) -> tuple[Patch, bytes]:
    """The new blob in a segment and a section of its own behind everything. The old place becomes
    zero."""
    elf, symbol, data = library.elf, library.symbol, memoryview(library.data)
    start = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    lead, size = place.lead, place.measured.size
    new = new_segment(elf, lead + size)
    write_all(fd, data[:start])
    os.lseek(fd, start + symbol.st_size, os.SEEK_SET)
    write_all(fd, data[start + symbol.st_size :])
    os.lseek(fd, new.offset + new.lead + lead, os.SEEK_SET)
    _, fingerprint = write(fd, None, "")
    patch = Patch(fd, elf, new.place_of)
    section = new.put(patch, GROW_SECTION.encode())
    fields = {"st_value": new.vaddr + new.lead + lead, "st_size": size}
    if section is not None:
        fields["st_shndx"] = section
    patch.placeholder_symbols(library, **fields)
    return patch, fingerprint
