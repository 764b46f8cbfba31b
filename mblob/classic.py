"""The classic dialect, `__tvm_dev_mblob`: docs/format.md, sections 1 and 2. Reads what TVM 0.5 - 0.20 wrote, and
writes what they read."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mblob import index as ix
from mblob.digest import ALGORITHMS
from mblob.errors import FormatError
from mblob.grammar import GRAMMARS, Grammars, read_payload
from mblob.model import Blob, Entry, check_tree
from mblob.module import LIBRARY
from mblob.payload_source import Payload, PlacedPayload
from mblob.sink import BytesSink as BytesSink
from mblob.sink import Sink
from mblob.wire import Cursor, encode_string, encode_u64, encode_u64s

if TYPE_CHECKING:
    from mblob.payload_copy import Copier

SYMBOL = "__tvm_dev_mblob"
LIB_KEY = "_lib"
TREE_KEY = "_import_tree"
LARGE_PAYLOAD = 1 << 20  # bytes from which padding to LARGE_ALIGN is nothing
LARGE_ALIGN = 1 << 16
LEVELS = ("off", "header", "full")


# -- reading --------------------------------------------------------------------------------------------


def read(data: memoryview, *, level: str = "header", index_expected: bool = False) -> Blob:
    """Read a blob; nothing is copied.

    Args:
        data: the bytes of the symbol (`st_size` of them), its length prefix included.
        level: "off" (bounds), "header" (and checksums of the index), "full" (and of every byte).
        index_expected: the library's note announces an index.

    Raises:
        FormatError: a rule of docs/format.md is broken; `code`, `offset` and `entry` say which and where.
        DigestError: bytes differ from their digest.
    """
    if level not in LEVELS:
        raise ValueError(f"verify: expected one of {', '.join(LEVELS)}, found {level!r}")
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
        raise FormatError(f"blob: {len(data)} bytes, expected at least 16", code="truncated", offset=0)
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise FormatError(f"blob: says {size} bytes follow, {len(data) - 8} do", code="size", offset=0)
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
            raise cursor.fail(f"item {i} ({key!r}) follows the import tree, which must be last", "tree_last", item)
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
        Entry(i, key, offset, size, rows[i], item_offset=item) for i, (key, offset, size, item) in enumerate(keys)
    ]
    return Blob("classic", len(blob), tuple(entries), cursor.pos, has_tree=has_tree)


def _without_tree(blob: memoryview, keys: Sequence[tuple[str, int | None, int, int]], end: int) -> Blob:
    """What was read up to `end`, with the tree still unknown: the first module imports all others."""
    known = list(keys) or [(LIBRARY, None, 0, 0)]
    rows = [tuple(range(1, len(known))), *((),) * (len(known) - 1)]
    entries = [Entry(i, k, offset, size, rows[i], item_offset=at) for i, (k, offset, size, at) in enumerate(known)]
    return Blob("classic", len(blob), tuple(entries), end, has_tree=False)


def _read_tree(cursor: Cursor, keys: Sequence[tuple[str, int | None, int, int]]) -> list[tuple[int, ...]]:
    start = cursor.pos
    row_ptr = cursor.u64s("import tree: row_ptr")
    child = cursor.u64s("import tree: child")
    rows = check_tree(row_ptr, child, len(keys), start)
    libraries = [i for i, (_, offset, _, _) in enumerate(keys) if offset is None]
    if len(libraries) > 1:
        raise FormatError(
            f"entries {libraries[0]} and {libraries[1]} both stand for the library, expected at most one",
            code="two_libraries", offset=keys[libraries[1]][3], entry=libraries[1],
        )  # fmt: skip
    return rows


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
        if check_tree(row_ptr, child, len(listed), cursor.pos) != [e.imports for e in found.entries]:
            raise differ("another import tree")
    if cursor.left:
        raise differ(f"{cursor.left} bytes after its last item")


# -- writing --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutEntry:
    """A module to write.

    Attributes:
        type_key: its key; `library` for the library itself.
        payload: its bytes; None for the library.
        data: opens without a loader.
        alignment: bytes to which byte `align_at` of the payload shall be aligned, counted in the blob (whose
            own alignment the embedding provides). Above 1 the payload goes to the bulk region.
    """

    type_key: str
    payload: Payload | None
    data: bool = False
    alignment: int = 1
    align_at: int = 0


def write(
    sink: Sink,
    entries: Sequence[OutEntry],
    row_ptr: Sequence[int],
    child: Sequence[int],
    *,
    index: bool = True,
    digest: str = "crc32",
    target: str = "",
    producer: str = "",
    hashing: str = "auto",
) -> int:
    """Write a blob and return its size in bytes (what `st_size` must be).

    A root library alone is written as count 0, without a tree, as TVM does. Each payload is consumed once, in
    order, and never held.

    Args:
        hashing: where digests are taken, as of `mblob.payload_copy.Copier`.

    Raises:
        ValueError: an unknown digest. What the payloads raise.
    """
    if digest not in ALGORITHMS:
        raise ValueError(f"digest: expected one of {', '.join(ALGORITHMS)}, found {digest!r}")
    from mblob.payload_copy import Copier  # threads and queues: readers need none

    with Copier(sink, ALGORITHMS[digest] if index else 0, hashing) as copier:
        return _Writer(sink, entries, row_ptr, child, ALGORITHMS[digest], copier).run(index, target, producer)


class _Writer:
    """One blob being written: position, structure bytes so far, records of what is written."""

    def __init__(
        self, sink: Sink, entries: Sequence[OutEntry], row_ptr: Sequence[int], child: Sequence[int], algorithm: int,
        copier: Copier,
    ) -> None:  # fmt: skip
        self.sink = sink
        self.copier = copier
        self.entries = entries
        self.row_ptr = row_ptr
        self.child = child
        self.algorithm = algorithm
        self.pos = 0
        self.structure = bytearray()  # everything outside payloads; small
        self.records: list[Entry] = []

    def put(self, data: bytes) -> None:
        self.structure += data
        self.sink.write(data)
        self.pos += len(data)

    def copy(self, type_key: str, payload: Payload) -> tuple[int, bytes]:
        """Write a payload; its size and digest."""
        placed = payload.at(self.pos) if isinstance(payload, PlacedPayload) else payload
        self.sink.begin(type_key, placed.size)
        size, value = self.copier.copy(placed)
        self.pos += size
        return size, value

    def run(self, index: bool, target: str, producer: str) -> int:
        alone = len(self.entries) == 1 and self.entries[0].payload is None
        self.put(bytes(8))
        self.put(encode_u64(0 if alone else len(self.entries) + 1))
        for i, e in enumerate(self.entries):
            imports = tuple(self.child[self.row_ptr[i] : self.row_ptr[i + 1]])
            item = 0 if alone else self.pos
            if e.payload is None:
                self.records.append(Entry(i, LIBRARY, None, 0, imports, item_offset=item))
                if not alone:
                    self.put(encode_string(LIB_KEY))
                continue
            self.put(encode_string(e.type_key))
            offset, size, value = self.pos, 0, b""
            bulk = index and e.alignment > 1
            if not bulk:
                size, value = self.copy(e.type_key, e.payload)
            self.records.append(Entry(i, e.type_key, offset, size, imports, e.data, 1, value, item, bulk))
        if not alone:
            self.put(encode_string(TREE_KEY) + encode_u64s(self.row_ptr) + encode_u64s(self.child))
        if index:
            self.append_index(alone, target, producer)
        self.sink.patch(0, encode_u64(self.pos - 8))
        return self.pos

    def padding(self, e: OutEntry) -> int:
        """Bytes in front of a bulk payload. A large one starts at a multiple of LARGE_ALIGN where that aligns its data
        too: there its file can be copied by reference."""
        assert e.payload is not None
        if (e.payload.size or 0) >= LARGE_PAYLOAD and not e.align_at % e.alignment:
            return -self.pos % max(LARGE_ALIGN, e.alignment)
        return -(self.pos + e.align_at) % e.alignment

    def append_index(self, alone: bool, target: str, producer: str) -> None:
        stream_size = self.pos
        for i, e in enumerate(self.entries):
            if self.records[i].bulk and e.payload is not None:
                self.put(bytes(self.padding(e)))
                offset = self.pos
                size, value = self.copy(e.type_key, e.payload)
                self.records[i] = replace(
                    self.records[i], offset=offset, size=size, alignment=e.alignment, digest=value
                )
        self.put(bytes(-self.pos % 8))
        at = self.pos
        raw = ix.encode_index(
            self.records, stream_size=stream_size, has_tree=not alone, algorithm=self.algorithm, target=target,
            producer=producer,
        )  # fmt: skip
        # The footer keeps the blob's size, so the length prefix is known before its checksum is taken.
        blob_size = at + len(raw) + ix.FOOTER.size
        self.structure[:8] = encode_u64(blob_size - 8)
        footer = ix.encode_footer(raw, at, blob_size, zlib.crc32(self.structure))
        self.sink.write(raw)
        self.sink.write(footer)
        self.pos = blob_size
