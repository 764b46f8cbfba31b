"""Writing archives of object files (`.a`), ar(5) as GNU writes them: a static library for any
machine needs no tools of that machine. `mblob.binary.archive` reads them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

from mblob.binary.archive import HEADER_SIZE
from mblob.binary.file_kind import AR_MAGIC
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError

SIZE_LIMIT = 10**10 - 1  # bytes of a member: its header has ten digits for them


class Member(NamedTuple):
    """An object file that goes into an archive.

    Attributes:
        path: the file; its name is the member's.
        symbols: what it defines: linkers find a member by the archive's index of symbols alone.
    """

    path: Path
    symbols: Sequence[str]


def write(path: Path, members: Sequence[Member]) -> None:
    """Write an archive. Times, owners and modes are fixed, so that the same members give the same
    bytes.

    Raises:
        OSError: a file cannot be read or written.
        BuildError: a member is larger than an archive can say.
    """
    sizes = [member.path.stat().st_size for member in members]
    for member, size in zip(members, sizes):
        if size > SIZE_LIMIT:
            raise BuildError(
                f"{member.path.name}: {size} bytes, a member of an archive has at most {SIZE_LIMIT}"
            )
    names, long_names = _names([member.path.name for member in members])
    index = _index(members, sizes, len(long_names))
    with path.open("wb") as out:
        out.write(AR_MAGIC + index + long_names)
        for member, name, size in zip(members, names, sizes):
            out.write(_header(name, size))
            with member.path.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 20)
            out.write(b"\n" * (size & 1))


def _header(name: bytes, size: int) -> bytes:
    return b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"100644", size)


def _table(name: bytes, data: bytes, pad: bytes) -> bytes:
    """A member of the archive's own; its size is even, which readelf takes for granted."""
    data += pad * (len(data) & 1)
    return _header(name, len(data)) + data


def _names(names: Sequence[str]) -> tuple[list[bytes], bytes]:
    """Names as headers have them, and the table of those that are too long for a header, b""
    without any."""
    shown: list[bytes] = []
    table = b""
    for name in names:
        text = name.encode() + b"/"
        if len(text) <= 16:
            shown.append(text)
        else:
            shown.append(b"/%d" % len(table))
            table += text + b"\n"
    return shown, _table(b"//", table, b"\n") if table else b""


def _index(members: Sequence[Member], sizes: Sequence[int], before: int) -> bytes:
    """The index: how many symbols, where the member of each starts (big endian), their names.

    Args:
        before: bytes between the index and the first member.
    """
    strings = b"".join(symbol.encode() + b"\0" for member in members for symbol in member.symbols)
    count = sum(len(member.symbols) for member in members)
    word, width = "I", 4
    while True:
        size = width * (1 + count) + len(strings)
        at = len(AR_MAGIC) + HEADER_SIZE + size + (size & 1) + before
        places: list[int] = []
        for member, length in zip(members, sizes):
            places += [at] * len(member.symbols)
            at += HEADER_SIZE + length + (length & 1)
        if width == 8 or at < 1 << 32:
            break
        word, width = "Q", 8
    name = b"/" if width == 4 else b"/SYM64/"
    return _table(name, struct.pack(f">{1 + count}{word}", count, *places) + strings, b"\0")
