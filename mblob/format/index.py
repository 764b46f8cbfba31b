"""The index behind the stream: docs/format.md, section 4. Found from its end, checked before
anything is believed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from mblob.bytes.digest import SIZES, digest_of
from mblob.bytes.record import Record
from mblob.bytes.wire import KEY_LIMIT
from mblob.errors import DigestError, FormatError
from mblob.format.blob_model import Blob, Entry
from mblob.format.import_tree import check_tree, flat_tree
from mblob.format.type_keys import LIBRARY
from mblob.named_tuple import NamedTuple

MAGIC = b"mblob index v1\r\n"  # of the footer; the same in all versions of the index
VERSION = 1  # that is written
FOOTER = Record(
    "index_offset Q, index_size Q, blob_size Q, version I, flags I, CRC-32 of the index I,"
    "CRC-32 of the structure I, reserved I, CRC-32 of this footer I, magic 16s"
)
HEADER = Record(
    "version I, flags I, digest algorithm I, digest size I, stream_size Q, entry_count Q,"
    "child_count Q, strings_size Q, target: offset I, target: size I, producer: offset I,"
    "producer: size I"
)
RECORD = Record(
    "payload offset Q, payload size Q, type key: offset I, type key: size I, flags I, alignment I,"
    "digest 32s, item offset Q, reserved Q"
)
_CHECK, _MAGIC = FOOTER.fields["CRC-32 of this footer"], FOOTER.fields["magic"]
NO_TREE, IS_LIBRARY, IS_DATA, IS_BULK = 1, 1, 2, 4
SMALL = 256 << 10  # bytes of payload up to which the level "header" checks all that "full" does


class Footer(NamedTuple):
    """The last bytes: where the index is, and the checksums over it and over the structure."""

    index_offset: int
    index_size: int
    index_crc: int
    structure_crc: int


def encode_index(
    entries: Sequence[Entry],
    *,
    stream_size: int,
    has_tree: bool,
    algorithm: int,
    target: str,
    producer: str,
) -> bytes:
    """The index of a blob whose payloads are written."""
    strings = bytearray()

    def pool(value: str) -> tuple[int, int]:
        raw = value.encode()
        at = strings.find(raw)
        if at < 0:
            at = len(strings)
            strings.extend(raw)
        return at, len(raw)

    places = [pool(e.type_key) for e in entries]
    target_place, producer_place = pool(target), pool(producer)
    row_ptr, child = flat_tree([e.imports for e in entries])
    head = HEADER.pack(
        VERSION, 0 if has_tree else NO_TREE, algorithm, SIZES[algorithm], stream_size, len(entries),
        len(child), len(strings), *target_place, *producer_place,
    )  # fmt: skip
    records = []
    for e, place in zip(entries, places):
        flags = (
            (IS_LIBRARY if e.offset is None else 0)
            | (IS_DATA if e.data else 0)
            | (IS_BULK if e.bulk else 0)
        )
        records.append(
            RECORD.pack(
                e.offset or 0, e.size, *place, flags, e.alignment, e.digest, e.item_offset, 0
            )
        )
    tree = struct.pack(f"<{len(row_ptr) + len(child)}Q", *row_ptr, *child)
    return head + b"".join(records) + tree + bytes(strings)


def encode_footer(index: bytes, index_offset: int, blob_size: int, structure_crc: int) -> bytes:
    """The bytes behind `index`."""
    crc = zlib.crc32(index)
    numbers = (index_offset, len(index), blob_size, VERSION, 0, crc, structure_crc, 0)
    checked = FOOTER.pack(*numbers, 0, MAGIC)[: _CHECK.offset]
    return FOOTER.pack(*numbers, zlib.crc32(checked), MAGIC)


def find_footer(blob: memoryview, expected: bool) -> Footer | None:
    """The footer of a blob, None if it has none.

    Args:
        expected: the library's note says that there is one.

    Raises:
        FormatError: "index_footer" or "index_version".
    """
    at = len(blob) - FOOTER.size

    def fail(message: str, code: str = "index_footer") -> FormatError:
        return FormatError(f"index: {message}", code=code, offset=max(at, 0))

    if at < 8 or blob[at + _MAGIC.offset :] != MAGIC:
        if expected:
            raise fail("its footer is missing or damaged; the file was written with one")
        return None
    offset, size, blob_size, version, flags, crc, structure, reserved, check, _ = (
        FOOTER.unpack_from(blob, at)
    )
    if check != zlib.crc32(blob[at : at + _CHECK.offset]):
        raise fail("the checksum of its footer is wrong")
    if version != VERSION:
        raise fail(f"version {version}, this reader knows {VERSION}", "index_version")
    if flags or reserved:
        raise fail(f"its footer has flags {flags} and reserved bytes {reserved}, expected 0 and 0")
    if blob_size != len(blob):
        raise fail(f"says the blob has {blob_size} bytes, it has {len(blob)}")
    if offset % 8 or offset > at or size != at - offset:
        raise fail(f"says the index is {size} bytes at {offset}, expected to end at {at}")
    return Footer(offset, size, crc, structure)


def place_of(blob: memoryview) -> tuple[int, int]:
    """Offset and bytes of the index of a blob, 0 and 0 without a good footer: for those who want to
    fetch it early."""
    try:
        footer = find_footer(blob, expected=False)
    except FormatError:
        return 0, 0
    return (footer.index_offset, footer.index_size) if footer is not None else (0, 0)


def read_index(blob: memoryview, footer: Footer, dialect: str, check: bool) -> Blob:
    """The modules that the index lists.

    Args:
        check: verify the index's checksum, not only its bounds.

    Raises:
        FormatError: "index_damaged", or a rule of the tree or of keys.
    """
    index = _Index(
        blob[footer.index_offset : footer.index_offset + footer.index_size], footer.index_offset
    )
    if check and zlib.crc32(index.raw) != footer.index_crc:
        raise index.fail("its checksum is wrong")
    index.read_header()
    entries = tuple(index.entry(i, imports) for i, imports in enumerate(index.rows()))
    if index.has_tree and sum(e.offset is None for e in entries) > 1:
        raise index.fail("more than one library")
    target, producer = index.name(*index.target), index.name(*index.producer)
    return Blob(
        dialect,
        size=len(blob),
        entries=entries,
        stream_size=index.stream_size,
        index_offset=index.base,
        algorithm=index.algorithm,
        target=target,
        producer=producer,
        has_tree=index.has_tree,
    )


class _Index:
    """The bytes of an index and what its header says; each method checks what it reads.

    Args:
        raw: header, records, import tree, names.
        base: offset of the index in the blob, which payloads and the stream lie in front of.
    """

    algorithm: int
    digest_size: int
    stream_size: int
    count: int
    children: int

    def __init__(self, raw: memoryview, base: int) -> None:
        self.raw = raw
        self.base = base

    def fail(self, message: str, entry: int | None = None) -> FormatError:
        return FormatError(f"index: {message}", code="index_damaged", offset=self.base, entry=entry)

    def read_header(self) -> None:
        size = len(self.raw)
        if size < HEADER.size:
            raise self.fail(f"{size} bytes, its header alone has {HEADER.size}")
        (version, flags, self.algorithm, self.digest_size, self.stream_size, self.count, self.children, names,
         *places) = HEADER.unpack_from(self.raw)  # fmt: skip
        if version != VERSION or SIZES.get(self.algorithm) != self.digest_size:
            raise self.fail(
                f"version {version} with digests {self.algorithm} of {self.digest_size} bytes is not known"
            )
        if flags & ~NO_TREE:
            raise self.fail(f"flags {flags:#x} are not known")
        # Each limit is compared before the product that it bounds.
        left = size - HEADER.size
        if self.count < 1 or self.count > left // RECORD.size or self.children > left // 8:
            raise self.fail(
                f"{self.count} records and {self.children} imports do not fit {left} bytes"
            )
        if self._tree_at + 8 * (self.count + 1 + self.children) + names != size:
            raise self.fail(
                f"{self.count} records, {self.children} imports, {names} bytes of names make no {size} bytes"
            )
        if not 16 <= self.stream_size <= self.base:
            raise self.fail(f"the stream has {self.stream_size} bytes, expected 16 to {self.base}")
        self.has_tree = not flags & NO_TREE
        self.names = self.raw[size - names :]
        self.target, self.producer = (places[0], places[1]), (places[2], places[3])

    @property
    def _tree_at(self) -> int:
        return HEADER.size + self.count * RECORD.size

    def rows(self) -> list[tuple[int, ...]]:
        """Imports of each module."""
        numbers = struct.unpack_from(f"<{self.count + 1 + self.children}Q", self.raw, self._tree_at)
        row_ptr, child = numbers[: self.count + 1], numbers[self.count + 1 :]
        return check_tree(row_ptr, child, self.count, self.base + self._tree_at)

    def name(self, offset: int, size: int, entry: int | None = None) -> str:
        """A text among the names."""
        room = len(self.names)
        if size > room or offset > room - size:
            raise self.fail(
                f"a name of {size} bytes at {offset} lies outside {room} bytes of names", entry
            )
        found = bytes(self.names[offset : offset + size])
        if 0 in found:
            raise self.fail(f"the name {found[:40]!r} has a NUL byte", entry)
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise self.fail("a name is not UTF-8", entry) from None

    def entry(self, i: int, imports: tuple[int, ...]) -> Entry:
        """Record i."""
        offset, size, key_at, key_size, flags, alignment, digest, item, reserved = (
            RECORD.unpack_from(self.raw, HEADER.size + i * RECORD.size)
        )
        if not 1 <= key_size <= KEY_LIMIT:
            raise self.fail(f"a type key of {key_size} bytes, expected 1 to {KEY_LIMIT}", i)
        key = self.name(key_at, key_size, i)
        library = bool(flags & IS_LIBRARY)
        if library != (key == LIBRARY) or (library and (offset or size)):
            raise self.fail(f"type key {key!r} with flags {flags} and {size} bytes at {offset}", i)
        if not library and (offset < 16 or offset > self.base or size > self.base - offset):
            raise self.fail(
                f"a payload of {size} bytes at {offset} lies outside 16..{self.base}", i
            )
        if flags & ~(IS_LIBRARY | IS_DATA | IS_BULK) or reserved:
            raise self.fail(
                f"a record has flags {flags:#x} and reserved bytes {reserved:#x} that are not known",
                i,
            )
        digest_size = 0 if library else self.digest_size
        if any(digest[digest_size:]):
            raise self.fail("a record has more digest than its algorithm gives", i)
        if alignment < 1 or alignment & (alignment - 1):
            raise self.fail(f"alignment {alignment} is no power of two", i)
        if item and (item < 16 or item > self.stream_size):
            raise self.fail(
                f"its item at {item} lies outside the stream of {self.stream_size} bytes", i
            )
        return Entry(
            index=i,
            type_key=key,
            offset=None if library else offset,
            size=size,
            imports=imports,
            data=bool(flags & IS_DATA),
            alignment=alignment,
            digest=digest[:digest_size],
            item_offset=item,
            bulk=bool(flags & IS_BULK),
        )


def is_small(blob: Blob) -> bool:
    """True if checking every payload costs next to nothing."""
    return sum(e.size for e in blob.entries) <= SMALL


def check_payloads(data: memoryview, blob: Blob) -> None:
    """Compare every payload with its digest.

    Raises:
        DigestError: one differs.
    """
    for e in blob.entries:
        if e.offset is None or not e.digest:
            continue
        found = digest_of(blob.algorithm, data[e.offset : e.offset + e.size])
        if found != e.digest:
            raise DigestError(
                f"entry {e.index} ({e.type_key}): {e.size} bytes at {e.offset} have digest {found.hex()},"
                f" expected {e.digest.hex()}: the file is damaged",
                entry=e.index,
            )


def structure_pieces(blob: memoryview, entries: Sequence[Entry], end: int) -> Iterator[memoryview]:
    """The bytes of [0, end) outside payloads, in order.

    Raises:
        FormatError: "index_damaged": payloads overlap.
    """
    at = 0
    for e in sorted(
        (e for e in entries if e.offset is not None and e.size), key=lambda e: e.offset or 0
    ):
        assert e.offset is not None
        if e.offset < at:
            raise FormatError(
                f"index: the payload at {e.offset} overlaps the one before it, which ends at {at}",
                code="index_damaged",
                offset=e.offset,
                entry=e.index,
            )
        yield blob[at : e.offset]
        at = e.offset + e.size
    yield blob[at:end]


def check_structure(data: memoryview, blob: Blob, footer: Footer) -> None:
    """Compare the bytes outside payloads with their checksum.

    Raises:
        DigestError: they differ. FormatError: payloads overlap.
    """
    crc = 0
    for piece in structure_pieces(data, blob.entries, footer.index_offset):
        crc = zlib.crc32(piece, crc)
    if crc != footer.structure_crc:
        raise DigestError(
            f"structure: checksum {crc:08x}, expected {footer.structure_crc:08x}: keys or the import tree are damaged"
        )
