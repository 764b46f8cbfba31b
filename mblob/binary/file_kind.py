"""What a file is, told by its first bytes: a shared library, or something that must be linked to
one first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mblob.binary.elf_records import ET_REL, IDENT, layout_of

SNIFF_SIZE = 512  # bytes to read: a tar header, more than an ELF header
ELF_MAGIC = b"\x7fELF"
AR_MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"  # archives; thin ones hold names alone

GZIP_MAGIC = b"\x1f\x8b\x08"  # deflated: a .tar.gz

# What messages call each kind.
NAMES = {"object": "an object file", "archive": "an archive of objects", "tar": "a tar archive"}


def linkable_kind(start: bytes) -> str | None:
    """ "object", "archive" or "tar" if a file that starts so holds objects to be linked, else None.

    Args:
        start: the first SNIFF_SIZE bytes, fewer if the file is smaller.
    """
    if start[:4] == ELF_MAGIC:
        header = elf_header(start)
        # With program headers it was linked, whatever e_type says.
        is_object = header("e_type") == ET_REL and not header("e_phnum")
        return "object" if is_object else None
    if start[:8] == AR_MAGIC:
        return "archive"
    return "tar" if start[257:262] == b"ustar" or start[:3] == GZIP_MAGIC else None


def elf_header(start: bytes) -> Callable[[str], int]:
    """The fields of the ELF header by name, as far as the first bytes of a file have them; 0 for
    others."""
    bits = 64 if IDENT.field_at(start, "e_ident[EI_CLASS]") == 2 else 32
    order = ">" if IDENT.field_at(start, "e_ident[EI_DATA]") == 2 else "<"
    return partial(layout_of(bits, order).ehdr.field_at, start)
