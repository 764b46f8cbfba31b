"""The ELF note by which a library says that mblob wrote it: docs/format.md, section 6."""

from __future__ import annotations

import struct

NAME = b"mblob\0"
TYPE = 1
HAS_INDEX = 1  # flag: the blob carries an index, so a missing one is damage


def encode(flags: int, byte_order: str = "<") -> bytes:
    """The whole note record: header, name padded to 4, descriptor {u32 version 1, u32 flags, u32 0, u32 0}.

    Args:
        byte_order: "<" or ">", the target's, as for every ELF structure.
    """
    desc = struct.pack(f"{byte_order}4I", 1, flags, 0, 0)
    return struct.pack(f"{byte_order}3I", len(NAME), len(desc), TYPE) + NAME + b"\0\0" + desc


def flags_of(desc: bytes, byte_order: str) -> int:
    """Flags of a descriptor; 0 if it is too short to be ours."""
    if len(desc) < 8:
        return 0
    version, flags = struct.unpack_from(f"{byte_order}2I", desc)
    return int(flags) if version >= 1 else 0
