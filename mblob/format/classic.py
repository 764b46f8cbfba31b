"""The classic dialect, `__tvm_dev_mblob`: docs/format.md, sections 1 and 2. Reads what TVM 0.5 -
0.20 wrote; `mblob.format.blob_plan` writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mblob.bytes.wire import Cursor, encode_string, encode_u64
from mblob.errors import ArgumentValueError, FormatError, one_of
from mblob.format import index as ix
from mblob.format.blob_model import SYMBOL as SYMBOL
from mblob.format.blob_model import Blob, Entry
from mblob.format.grammar import GRAMMARS, Grammars, read_payload, unknown_key
from mblob.format.import_tree import check_tree, flat_tree
from mblob.format.type_keys import LIB_KEY, LIBRARY, TREE_KEY
from mblob.named_tuple import NamedTuple

ENTRY = "__tvm_main__"  # names the entry function: a text, or the function itself
CONTEXT = "__tvm_module_ctx"  # the variable in which a loader leaves the handle of the library
LEVELS = ("off", "header", "full")

REST = -1  # a payload is all that is left of the stream before the import tree
# How many bytes at the start of a view are a payload of a type key that has no grammar: REST, or
# None if nobody knows the key. Raises a FormatError if the view does not begin with such a payload.
Measures = Callable[[str, memoryview], "int | None"]


def no_measures(_key: str, _view: memoryview) -> None:
    """The measures of a reader that knows no further type keys."""


def read(
    data: memoryview,
    *,
    level: str = "header",
    index_expected: bool = False,
    measures: Measures = no_measures,
) -> Blob:
    """Read a blob; nothing is copied.

    Args:
        data: the bytes of the symbol (`st_size` of them), its length prefix included.
        level: "off" (bounds), "header" (and checksums of the index), "full" (and of every byte).
        index_expected: the library's note announces an index.
        measures: tells where payloads end whose type key has no grammar; asked without an index.

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
        return read_stream(blob, measures=measures)
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


class _MeasuredModule(NamedTuple):
    """A module whose payload was measured."""

    key: str
    entry: int

    def wrong(self, what: str, offset: int | None) -> FormatError:
        """The measure of its payload does not fit the stream."""
        return FormatError(
            f"type key {self.key!r}: the layout or measure function of its loader does not fit: {what}",
            code="layout",
            offset=offset,
            entry=self.entry,
        )


def read_stream(
    blob: memoryview, grammars: Grammars = GRAMMARS, measures: Measures = no_measures
) -> Blob:
    """Walk the stream of a blob without an index, every payload by the grammar of its key.

    Args:
        grammars: TVM 0.21 wrote this stream with the payloads of the ffi dialect.
        measures: as of `read`.

    Raises:
        FormatError: see docs/format.md, section 2.
    """
    cursor = Cursor(blob, 8)
    count = cursor.count("blob.count", 8)
    keys: list[tuple[str, int | None, int, int]] = []  # type key, payload offset, size, item offset
    rows: list[tuple[int, ...]] | None = None
    measured: _MeasuredModule | None = None  # the item before, if it was measured
    for i in range(count):
        item = cursor.pos
        cursor.entry = i
        try:
            key = cursor.key(f"item {i}: key")
            size = None
            if not (key in grammars or key in (TREE_KEY, LIB_KEY)):
                size = _measure(key, cursor, measures, measured)
        except FormatError as error:
            if error.code == "unknown_key":
                error.partial = _without_tree(blob, keys, item)
            elif measured and error.code != "layout":
                raise measured.wrong(error.plain, item) from error
            raise
        measured = None
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
            if size is None:
                read_payload(key, cursor, grammars)
            elif size != REST:
                measured = _MeasuredModule(key, i)
                cursor.skip(size, key)
            elif end := _end_of_rest(cursor, len(keys) + 1, count - 1 - i):
                cursor.pos = end
            else:
                unknown = unknown_key(key, cursor, ", and it is not the last module")
                unknown.partial = _without_tree(blob, keys, item)
                raise unknown
            keys.append((key, start, cursor.pos - start, item))
    if measured and cursor.left:
        raise measured.wrong("bytes are left behind it, and there is no further item", cursor.pos)
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


def _measure(key: str, cursor: Cursor, measures: Measures, before: _MeasuredModule | None) -> int:
    """The size of the payload at the cursor, as `measures` tells it.

    Args:
        before: the item before, if it was measured.

    Raises:
        FormatError: "layout": it does not fit; "unknown_key".
    """
    try:
        size = measures(key, cursor.data[cursor.pos : cursor.end])
    except FormatError as error:
        at = cursor.pos + (error.offset or 0)
        raise _MeasuredModule(key, cursor.entry or 0).wrong(error.plain, at) from error.__cause__
    if size is None:
        why = f" (or {before.key!r} before it ends elsewhere)" if before else ""
        raise unknown_key(key, cursor, why)
    return size


def _end_of_rest(cursor: Cursor, modules: int, following: int) -> int:
    """The end of a payload that is all that is left of the stream but for the import tree; 0 if it
    is unknown.

    Args:
        modules: number of modules, its own included.
        following: number of items behind it.
    """
    if following != 1:
        return 0 if following else cursor.end
    # Read from the end: behind the key of the tree are two counted lists, of which the first has
    # modules + 1 numbers. One place at most is right: numbers of a tree are too small for the key.
    data, name = cursor.data, encode_string(TREE_KEY) + encode_u64(modules + 1)
    at = cursor.end - len(name) - 8 * (modules + 2)
    for k in range(min((at - cursor.pos) // 8 + 1, modules * (modules + 1))):
        end = cursor.end - 8 * k
        if data[end - 8 : end] == encode_u64(k) and data[at - 8 * k :][: len(name)] == name:
            return at - 8 * k
    return 0


def _without_tree(
    blob: memoryview, keys: Sequence[tuple[str, int | None, int, int]], end: int
) -> Blob:
    """The blob as read up to `end`, with the tree still unknown: the first module imports all
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
