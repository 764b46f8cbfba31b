"""What a blob says, whatever dialect it is written in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from mblob.errors import FormatError
from mblob.format.import_tree import find_cycle


class Entry(NamedTuple):
    """One module of a blob.

    Attributes:
        index: place in the blob; 0 is the root.
        type_key: "library", "cuda", ...
        offset: of the payload, in bytes from the first byte of the blob; None for a library.
        size: bytes of the payload.
        imports: indices of the imported modules, in load order.
        data: opens without a loader.
        alignment: what the payload's place promises, in bytes (1: nothing).
        digest: of the payload, b"" if none is recorded.
        item_offset: where its item starts in the stream, 0 if it has none.
        bulk: the payload lies behind the stream, which holds only its key.
    """

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    type_key: str
    offset: int | None
    size: int
    imports: tuple[int, ...]
    data: bool = False
    alignment: int = 1
    digest: bytes = b""
    item_offset: int = 0
    bulk: bool = False


SYMBOL = "__tvm_dev_mblob"  # of the classic dialect


class Blob(NamedTuple):
    """A blob read from a library.

    Attributes:
        dialect: "classic" or "ffi".
        size: bytes of the blob, its length prefix included.
        entries: modules in their stored order.
        stream_size: bytes that TVM's own readers consume.
        index_offset: where the index starts, None for a blob without one.
        algorithm: of the digests: 0 none, 1 CRC-32, 2 SHA-256.
        target, producer: as recorded in the index, "" without one.
        has_tree: the stream has an import tree; without one the library is the root of all.
        symbol: that the blob has in a library.
    """

    dialect: str
    size: int
    entries: tuple[Entry, ...]
    stream_size: int
    index_offset: int | None = None
    algorithm: int = 0
    target: str = ""
    producer: str = ""
    has_tree: bool = True
    symbol: str = SYMBOL


def flat_tree(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Imports per module as they are stored: `row_ptr` and `child` of `check_tree`."""
    return tuple(accumulate(map(len, rows), initial=0)), tuple(chain.from_iterable(rows))


def check_tree(
    row_ptr: Sequence[int], child: Sequence[int], modules: int, offset: int | None = None
) -> list[tuple[int, ...]]:
    """Imports per module of a stored tree.

    Args:
        row_ptr, child: CSR arrays as stored.
        modules: how many modules there are.
        offset: of the tree in the blob, for errors.

    Raises:
        FormatError: "tree_empty", "tree_rows", "tree_child", "tree_cycle" (docs/format.md, section
            2).
    """

    def fail(code: str, message: str, entry: int | None = None) -> FormatError:
        return FormatError(f"import tree: {message}", code=code, offset=offset, entry=entry)

    if modules == 0:
        raise fail("tree_empty", "no modules, expected a root")
    if len(row_ptr) != modules + 1:
        raise fail(
            "tree_rows",
            f"{len(row_ptr)} row pointers for {modules} modules, expected {modules + 1}",
        )
    if row_ptr[0] != 0 or row_ptr[-1] != len(child):
        raise fail("tree_rows", f"rows span {row_ptr[0]}..{row_ptr[-1]}, expected 0..{len(child)}")
    rows = []
    for i in range(modules):
        start, stop = row_ptr[i], row_ptr[i + 1]
        if start > stop:
            raise fail("tree_rows", f"row pointer {i + 1} is {stop}, expected at least {start}", i)
        rows.append(tuple(child[start:stop]))
        for c in rows[i]:
            if c >= modules:
                raise fail("tree_child", f"module {i} imports {c}, expected below {modules}", i)
    if cycle := find_cycle(rows):
        raise fail(
            "tree_cycle",
            f"modules import each other: {' -> '.join(map(str, cycle[:20]))}",
            cycle[0],
        )
    return rows
