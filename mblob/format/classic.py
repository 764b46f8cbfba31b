"""The classic dialect, `__tvm_dev_mblob`: docs/format.md, sections 1 and 2. Reads what TVM 0.5 -
0.20 wrote; `mblob.format.blob_plan` writes it."""

from __future__ import annotations

from collections.abc import Sequence

from mblob.bytes.wire import Cursor
from mblob.errors import ArgumentValueError, FormatError, one_of
from mblob.format import index as ix
from mblob.format.grammar import GRAMMARS, Grammars, read_payload
from mblob.format.import_tree import check_tree, flat_tree
from mblob.format.model import SYMBOL as SYMBOL
from mblob.format.model import Blob, Entry
from mblob.format.type_keys import LIB_KEY, LIBRARY, TREE_KEY

ENTRY = "__tvm_main__"  # names the entry function: a text, or the function itself
CONTEXT = "__tvm_module_ctx"  # the variable in which a loader leaves the handle of the library
LEVELS = ("off", "header", "full")


def read(data: memoryview, *, level: str = "header", index_expected: bool = False) -> Blob:
    """Read a blob; nothing is copied.

    Args:
        data: the bytes of the symbol (`st_size` of them), its length prefix included.
        level: "off" (bounds), "header" (and checksums of the index), "full" (and of every byte).
        index_expected: the library's note announces an index.

    Raises:
        FormatError: a rule of docs/format.md is broken; `code`, `offset` and `entry` say which and
            where.
        DigestError: bytes differ from their digest.
    """
    if level not in LEVELS:
        raise ArgumentValueError(f"verify: {one_of(LEVELS, level)}")
    blob = sized(data)
    footer = ix.find_footer(blob, index_expected)
    if footer is None:
        return read_stream(blob)
    found = ix.read_index(blob, footer, "classic", check=level != "off")
    if level == "full" or (level == "header" and ix.is_small(found)):
        ix.check_payloads(blob, found)
        ix.check_structure(blob, found, footer)
        _compare(blob, found)
    return found


def sized(data: memoryview) -> memoryview:
    """The blob without what follows the bytes that its length prefix counts.

    Raises:
        FormatError: "truncated", "size".
    """
    if len(data) < 16:
        raise FormatError(
            f"blob: {len(data)} bytes, expected at least 16", code="truncated", offset=0
        )
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise FormatError(
            f"blob: says {size} bytes follow, {len(data) - 8} do", code="size", offset=0
        )
    return data[: 8 + size]


def read_stream(blob: memoryview, grammars: Grammars = GRAMMARS) -> Blob:
    """Walk the stream of a blob without an index, every payload by the grammar of its key.

    Args:
        grammars: TVM 0.21 wrote this stream with the payloads of the ffi dialect.

    Raises:
        FormatError: see docs/format.md, section 2.
    """
    cursor = Cursor(blob, 8)
    count = cursor.count("blob.count", 8)
    keys: list[tuple[str, int | None, int, int]] = []  # type key, payload offset, size, item offset
    rows: list[tuple[int, ...]] | None = None
    for i in range(count):
        item = cursor.pos
        cursor.entry = i
        key = cursor.key(f"item {i}: key")
        if rows is not None:
            raise cursor.fail(
                f"item {i} ({key!r}) follows the import tree, which must be last", "tree_last", item
            )
        if key == TREE_KEY:
            cursor.entry = None
            rows = _read_tree(cursor, keys)
        elif key == LIB_KEY:
            keys.append((LIBRARY, None, 0, item))
        else:
            start = cursor.pos
            try:
                read_payload(key, cursor, grammars)
            except FormatError as error:
                if error.code == "unknown_key":
                    error.partial = _without_tree(blob, keys, item)
                raise
            keys.append((key, start, cursor.pos - start, item))
    has_tree = rows is not None
    if rows is None:
        # TVM up to 0.6, or nothing packed: the library is the root and imports all items in order.
        rows = [tuple(range(1, len(keys) + 1)), *((),) * len(keys)]
        keys.insert(0, (LIBRARY, None, 0, 0))
    entries = [
        Entry(i, key, offset, size, rows[i], item_offset=item)
        for i, (key, offset, size, item) in enumerate(keys)
    ]
    return Blob("classic", len(blob), tuple(entries), cursor.pos, has_tree=has_tree)


def _without_tree(
    blob: memoryview, keys: Sequence[tuple[str, int | None, int, int]], end: int
) -> Blob:
    """What was read up to `end`, with the tree still unknown: the first module imports all
    others."""
    known = list(keys) or [(LIBRARY, None, 0, 0)]
    rows = [tuple(range(1, len(known))), *((),) * (len(known) - 1)]
    entries = [
        Entry(i, k, offset, size, rows[i], item_offset=at)
        for i, (k, offset, size, at) in enumerate(known)
    ]
    return Blob("classic", len(blob), tuple(entries), end, has_tree=False)


def _read_tree(
    cursor: Cursor, keys: Sequence[tuple[str, int | None, int, int]]
) -> list[tuple[int, ...]]:
    start = cursor.pos
    row_ptr = cursor.u64s("import tree: row_ptr")
    child = cursor.u64s("import tree: child")
    return check_tree(row_ptr, child, len(keys), start)


def _compare(blob: memoryview, found: Blob) -> None:
    """Check that the stream, which TVM reads, says what the index says.

    Raises:
        FormatError: "index_damaged".
    """
    cursor = Cursor(blob, 8, found.stream_size)

    def differ(what: str) -> FormatError:
        return cursor.fail(f"the stream has {what}, the index says otherwise", "index_damaged")

    count = cursor.u64("blob.count")
    listed = [e for e in found.entries if e.item_offset]
    if count not in (len(listed), len(listed) + 1):
        raise differ(f"{count} items")
    for e in listed:
        cursor.entry = e.index
        if e.item_offset != cursor.pos:
            raise differ(f"item {e.index} at {cursor.pos}")
        key = cursor.key("key")
        if key != (LIB_KEY if e.offset is None else e.type_key):
            raise differ(f"key {key!r}")
        if e.bulk and (e.offset or 0) < found.stream_size:
            raise differ("a payload that the index places behind it")
        if e.offset is not None and not e.bulk:
            if e.offset != cursor.pos:
                raise differ(f"its payload at {cursor.pos}")
            cursor.skip(e.size, "payload")
    cursor.entry = None
    has_tree = count > len(listed)
    if has_tree != found.has_tree:
        raise differ("an import tree" if has_tree else "no import tree")
    if has_tree:
        if cursor.key("key") != TREE_KEY:
            raise differ("no import tree")
        row_ptr, child = cursor.u64s("row_ptr"), cursor.u64s("child")
        rows = [e.imports for e in found.entries]
        # The index was searched for cycles; what is equal to it need not be.
        if (row_ptr, child) != flat_tree(rows) and check_tree(
            row_ptr, child, len(listed), cursor.pos
        ) != rows:
            raise differ("another import tree")
    if cursor.left:
        raise differ(f"{cursor.left} bytes after its last item")
