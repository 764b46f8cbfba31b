"""Kinds of files, told by their first bytes: a shared library, or something that must be linked to
one first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mblob.binary.elf_records import IDENT, layout_of

SNIFF_SIZE = 512  # bytes to read: a tar header, more than an ELF header
_ET_REL = 1
ELF_MAGIC = b"\x7fELF"
AR_MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"  # archives; thin ones hold names alone

GZIP_MAGIC = b"\x1f\x8b\x08"  # deflated: a .tar.gz
BZIP2_MAGIC, XZ_MAGIC = b"BZh", b"\xfd7zXZ\0"

# What messages call each kind.
NAMES = {"object": "an object file", "archive": "an archive of objects", "tar": "a tar archive"}


def linkable_kind(start: bytes) -> str | None:
    """ "object", "archive" or "tar" if a file that starts so holds objects to be linked, else None.

    Args:
        start: the first SNIFF_SIZE bytes, fewer if the file is smaller.
    """
    if start[:4] == ELF_MAGIC:
        # Each load comes here: the two fields are read without their declarations, whose import
        # takes longer than the load. With program headers (e_phnum) it was linked, whatever e_type
        # says.
        order = "big" if start[5:6] == b"\2" else "little"
        count = start[56:58] if start[4:5] == b"\2" else start[44:46]
        is_object = int.from_bytes(start[16:18], order) == _ET_REL and not any(count)  # type: ignore[arg-type]
        return "object" if is_object else None
    if start[:8] == AR_MAGIC:
        return "archive"
    return "tar" if start[257:262] == b"ustar" or is_compressed(start) else None


def is_compressed(start: bytes) -> bool:
    """True if a file that starts so was packed by gzip, bzip2 or xz."""
    is_bzip2 = start[:3] == BZIP2_MAGIC and start[4:10] == b"1AY&SY"
    return start[:3] == GZIP_MAGIC or is_bzip2 or start[:6] == XZ_MAGIC


def elf_header(start: bytes) -> Callable[[str], int]:
    """The fields of the ELF header by name, as far as the first bytes of a file have them; 0 for
    others."""
    bits = 64 if IDENT.field_at(start, "e_ident[EI_CLASS]") == 2 else 32
    order = ">" if IDENT.field_at(start, "e_ident[EI_DATA]") == 2 else "<"
    return partial(layout_of(bits, order).ehdr.field_at, start)
