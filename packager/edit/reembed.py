"""Another blob for a finished library: in the place of the old one, at the end of its segment, or
behind everything.

All bytes outside the blob stay as they are but for header fields that say where the blob is, and
the build-id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mblob.errors import ToolchainError
from mblob.packager.edit.blob_references import find_reference
from mblob.packager.edit.new_segment import new_segment
from mblob.packager.errors import BuildError
from mblob.packager.link import embed
from mblob.packager.write.blob_stream import WriteBlob, write_all
from mblob.packager.write.elf_patch import Patch, Stub, new_library

SECTION_NAME = b".tvm_mblob"

Edit = Callable[[Patch], None]


def reembed(
    library: Stub, path: Path, output: Path, write: WriteBlob, size: int, edit: Edit | None = None,
    old_fingerprint: bytes | None = None,
) -> str:  # fmt: skip
    """Write `output`: the library with the new blob. Returns how: "in place", "grown" or "moved".

    Args:
        library: with the old blob.
        path: of the library.
        write: writes the new blob.
        size: bytes of the new blob.
        edit: further changes of bytes outside the blob.
        old_fingerprint: as of `grow_stub`.

    Raises:
        BuildError: the new blob is larger, does not fit, and something refers to the old one by its
            address.
        IncompatibleError: it does not fit a 32-bit library.
        OSError, MblobError: what writing and the payloads raise.
    """
    same = size == library.symbol.st_size
    if not same and _can_grow(library):
        embed.grow_stub(library, path, output, write, edit=edit, old_fingerprint=old_fingerprint)
        return "grown"
    if size <= library.symbol.st_size:
        how = _in_place
    else:
        reference = find_reference(library.elf, library.symbol)
        if reference is not None:
            raise BuildError(
                f"{path}: the new blob has {size} bytes, its place {library.symbol.st_size}, and it cannot move:"
                f" {reference}; pack the library again"
            )
        how = _move
    with new_library(output, path) as fd:
        patch, new = how(fd, library, write, size)
        if edit is not None:
            edit(patch)
        if new != old_fingerprint:
            patch.build_id(new)
    return "in place" if how is _in_place else "moved"


def _can_grow(library: Stub) -> bool:
    """Whether the blob ends the last segment, and nothing that is loaded lies behind it in the
    file."""
    try:
        embed.segment_to_grow(library)
    except ToolchainError:
        return False
    symbol, elf = library.symbol, library.elf
    start = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    end = start + symbol.st_size
    behind = any(s.p_filesz and s.p_offset + s.p_filesz > end for s in elf.segments)
    return not behind and elf.e_phoff < start


def _in_place(fd: int, library: Stub, write: WriteBlob, size: int) -> tuple[Patch, bytes]:
    """The new blob where the old one is; what is left of the place becomes zero."""
    data, symbol = memoryview(library.data), library.symbol
    start = library.elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    write_all(fd, data[:start])
    _, fingerprint = write(fd, symbol.st_size, "the place of the old blob")
    os.lseek(fd, start + symbol.st_size, os.SEEK_SET)
    write_all(fd, data[start + symbol.st_size :])
    os.ftruncate(fd, len(data))
    patch = Patch(fd, library.elf)
    patch.placeholder_symbols(library, st_size=size)
    return patch, fingerprint


def _move(fd: int, library: Stub, write: WriteBlob, size: int) -> tuple[Patch, bytes]:
    """The new blob in a segment and a section of its own behind everything. The old place becomes
    zero."""
    elf, symbol, data = library.elf, library.symbol, memoryview(library.data)
    start = elf.offset_of(symbol.st_value, symbol.st_size, symbol.name)
    new = new_segment(elf, size)
    write_all(fd, data[:start])
    os.lseek(fd, start + symbol.st_size, os.SEEK_SET)
    write_all(fd, data[start + symbol.st_size :])
    os.lseek(fd, new.offset + new.lead, os.SEEK_SET)
    _, fingerprint = write(fd, None, "")
    patch = Patch(fd, elf, new.place_of)
    section = new.put(patch, SECTION_NAME)
    fields = {"st_value": new.vaddr + new.lead, "st_size": size}
    if section is not None:
        fields["st_shndx"] = section
    patch.placeholder_symbols(library, **fields)
    return patch, fingerprint
