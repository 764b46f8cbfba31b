"""The one reader of archives (`.a`): System V, GNU and BSD, ar(5): a magic line, then members
behind 60-byte headers.

Thin archives hold no members and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mblob.binary.file_kind import AR_MAGIC
from mblob.errors import FormatError

HEADER_SIZE = 60  # bytes; the name is at 0, the size at 48 in decimal digits, the end mark at 58
# indices of symbols, which `ar` and `ranlib` write
_TABLES, _BSD_TABLE = (b"/", b"/SYM64/"), b"__.SYMDEF"
_NAME_LIMIT = 4096  # bytes


def is_archive(path: Path) -> bool:
    """True if a file starts as an archive does."""
    with path.open("rb") as file:
        return file.read(len(AR_MAGIC)) == AR_MAGIC


def members(data: memoryview, label: str) -> Iterator[tuple[str, memoryview]]:
    """Name as `label(member)` and bytes of each member of an archive, in order, without `ar`'s own
    tables.

    Raises:
        FormatError: "archive": a header or a member does not fit.
    """
    for name, start, size in places(data, label):
        yield f"{label}({name})", data[start : start + size]


def places(data: memoryview, label: str) -> Iterator[tuple[str, int, int]]:
    """Name, offset and size of each member, as `members`. BSD's form is read too: `#1/n`, the name
    before the content.

    Raises:
        FormatError: "archive".
    """
    at = len(AR_MAGIC)
    long_names = b""
    while len(data) - at >= 2:  # one byte of padding may follow the last member
        head = bytes(data[at : at + HEADER_SIZE])
        digits = head[48:58].strip()
        if len(head) < HEADER_SIZE or head[58:] != b"`\n" or not digits.isdigit():
            raise FormatError.about(
                label, "no header of an archive member here", code="archive", offset=at
            )
        size, start = int(digits), at + HEADER_SIZE
        if size > len(data) - start:
            raise FormatError.about(
                label,
                f"a member of {size} bytes, {len(data) - start} are left",
                code="archive",
                offset=at,
            )
        at = start + size + size % 2
        name = head[:16].rstrip()
        if name == b"//":
            long_names = bytes(data[start : start + size])
            continue
        if name[:1] == b"/" and name[1:].isdigit():
            name = long_names[int(name[1:]) :][:_NAME_LIMIT].split(b"\n", 1)[0]
        elif name[:3] == b"#1/" and name[3:].isdigit():
            length = int(name[3:])
            if length > min(size, _NAME_LIMIT):
                raise FormatError.about(
                    label,
                    f"a member's name of {length} bytes, it has {size}",
                    code="archive",
                    offset=start,
                )
            name = bytes(data[start : start + length]).rstrip(b"\0")
            start, size = start + length, size - length
        if not name.startswith(_BSD_TABLE) and name not in _TABLES:
            yield name.rstrip(b"/").decode(errors="backslashreplace"), start, size
