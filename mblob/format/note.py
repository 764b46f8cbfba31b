"""The ELF notes by which a library says what mblob put into it: docs/format.md, section 6."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from mblob.binary.elf_records import layout_of
from mblob.binary.image import Image
from mblob.bytes.record import Record
from mblob.named_tuple import NamedTuple

NAME = b"mblob\0"
TYPE = 1
SECTION = ".note.mblob"
HAS_INDEX = 1  # flag: the blob carries an index, so a missing one is damage
HAS_TABLE = 2  # flag: there is a table of functions, so a missing one is damage
OF_TVM = 4  # flag: mblob added code to what TVM wrote


class NoteContent(NamedTuple):
    """The content of all notes of a library together.

    Attributes:
        flags: of all of them.
        table_crc: CRC-32 of the table of functions, if HAS_TABLE is among the flags.
    """

    flags: int = 0
    table_crc: int = 0


@lru_cache
def descriptor(byte_order: str) -> Record:
    return Record("version I, flags I, table_crc I, reserved I", byte_order)


def words(flags: int, table_crc: int = 0) -> tuple[int, int, int, int]:
    """The fields of the descriptor.

    Args:
        table_crc: CRC-32 of the table of functions, 0 without HAS_TABLE.
    """
    return 1, flags, table_crc, 0


def encode(flags: int, byte_order: str = "<") -> bytes:
    """The whole note record: header, name padded to 4, descriptor.

    Args:
        byte_order: "<" or ">", the target's, as for every ELF structure.
    """
    desc = descriptor(byte_order).pack(*words(flags))
    head = layout_of(64, byte_order).nhdr.pack(len(NAME), len(desc), TYPE)
    return head + NAME + b"\0\0" + desc


def ours(notes: Iterable[tuple[bytes, int, bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """The descriptors of mblob's notes among the notes of a file, with version and flags at least,
    and their offsets."""
    for owner, kind, desc, at in notes:
        if owner == NAME.rstrip(b"\0") and kind == TYPE and len(desc) >= 8:
            yield desc, at


def announced(elf: Image) -> NoteContent:
    """The content of the notes of a file: each part of a library may bring its own."""
    record = descriptor(elf.byte_order)
    flags = table_crc = 0
    for desc, _ in ours(elf.notes()):
        version, new, crc, _ = record.unpack_from(desc.ljust(record.size, b"\0"))
        if version >= 1:
            table_crc = crc if new & HAS_TABLE and not flags & HAS_TABLE else table_crc
            flags |= new
    return NoteContent(flags, table_crc)


def is_of_tvm(elf: Image) -> bool:
    """True if TVM wrote a library or its packed modules, as far as the notes say so: that has none, until mblob
    adds code."""
    flags = announced(elf).flags
    return not flags or bool(flags & OF_TVM)
