"""What both dialects do alike when a blob is written: copies with digests, the bulk region, the index behind the stream
(docs/format.md, section 4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Union

from mblob.bytes.digest import ALGORITHMS
from mblob.bytes.payload_source import Payload, PlacedPayload
from mblob.bytes.sink import Sink
from mblob.bytes.wire import encode_string, encode_u64
from mblob.format import index as ix
from mblob.format.model import Entry
from mblob.module import LIBRARY

if TYPE_CHECKING:
    from mblob.bytes.payload_copy import Copier

Target = Union[str, Callable[[], str]]
LIB_KEY = "_lib"  # of the library's item, in both dialects
LARGE_PAYLOAD = 1 << 20  # bytes from which padding to LARGE_ALIGN is nothing
LARGE_ALIGN = 1 << 16


class OutEntry(NamedTuple):
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


class Layout(NamedTuple):
    """What is to be written, and how; arguments of the `write` of both dialects.

    Attributes:
        entries: the modules, in writing order.
        row_ptr, child: the imports of entry i are child[row_ptr[i]:row_ptr[i + 1]].
        index: write the index.
        digest: "crc32", "sha256" or "none".
        target, producer: texts for the index; the target may be a function that is asked when the index is written.
        hashing: where digests are taken, as of `mblob.bytes.payload_copy.Copier`.
    """

    entries: Sequence[OutEntry]
    row_ptr: Sequence[int]
    child: Sequence[int]
    index: bool = True  # type: ignore[assignment]  # a tuple has a method of that name
    digest: str = "crc32"
    target: Target = ""
    producer: str = ""
    hashing: str = "auto"

    @property
    def is_library_alone(self) -> bool:
        """Whether there is nothing but host code."""
        return len(self.entries) == 1 and self.entries[0].payload is None

    def imports(self, i: int) -> tuple[int, ...]:
        """Indices of what entry i imports."""
        return tuple(self.child[self.row_ptr[i] : self.row_ptr[i + 1]])


class StreamWriter:
    """Writes one blob. A dialect has `stream`, which writes what TVM's readers consume, and fills `records`.

    Attributes:
        pos: bytes written so far.
        records: of the entries, as they will stand in the index.
    """

    has_tree = True

    def __init__(self, sink: Sink, layout: Layout) -> None:
        self.sink = sink
        self.layout = layout
        self.pos = 0
        self.records: list[Entry] = []
        self._algorithm = ALGORITHMS[layout.digest]
        self._copier: Copier | None = None
        self._structure = bytearray()  # everything outside payloads; small

    def stream(self) -> None:
        """Write the stream behind the length prefix."""
        raise NotImplementedError

    def placed(self, record: Entry) -> None:
        """A bulk payload is in its place, which the stream may tell."""

    def run(self) -> int:
        """Write the blob and return its size in bytes.

        Raises:
            What the payloads and the sink raise.
        """
        from mblob.bytes.payload_copy import Copier  # threads and queues: readers need none

        layout = self.layout
        with Copier(self.sink, self._algorithm if layout.index else 0, layout.hashing) as self._copier:
            self.put(bytes(8))
            self.stream()
            if layout.index:
                self._append_index()
        self.sink.patch(0, encode_u64(self.pos - 8))
        return self.pos

    # -- for the dialects -------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        """Write bytes outside payloads."""
        self._structure += data
        self.sink.write(data)
        self.pos += len(data)

    def reserve(self, size: int) -> tuple[int, int]:
        """Write zero bytes that `fill` will overwrite; their place."""
        place = self.pos, len(self._structure)
        self.put(bytes(size))
        return place

    def fill(self, place: tuple[int, int], data: bytes) -> None:
        """Overwrite what was reserved."""
        at, in_structure = place
        self.sink.patch(at, data)
        self._structure[in_structure : in_structure + len(data)] = data

    def add_library(self, i: int, item: int) -> None:
        """The record of the library, whose item starts at `item` (0: it has none)."""
        self.records.append(Entry(i, LIBRARY, None, 0, self.layout.imports(i), item_offset=item))

    def put_key(self, e: OutEntry) -> None:
        """Write a key, or kind."""
        self.put(encode_string(LIB_KEY if e.payload is None else e.type_key))

    def is_bulk(self, e: OutEntry) -> bool:
        """Whether a payload goes behind the stream."""
        return self.layout.index and e.alignment > 1

    def add(self, i: int, item: int) -> Entry:
        """Write the payload of entry i here, unless it is a bulk one, and its record."""
        e, offset, size, value = self.layout.entries[i], self.pos, 0, b""
        bulk = self.is_bulk(e)
        if not bulk:
            size, value = self._copy(e)
        record = Entry(i, e.type_key, offset, size, self.layout.imports(i), e.data, 1, value, item, bulk)
        self.records.append(record)
        return record

    # -- behind the stream ------------------------------------------------------------------------------

    def _copy(self, e: OutEntry) -> tuple[int, bytes]:
        """Write a payload; its size and digest."""
        assert e.payload is not None and self._copier is not None
        payload: Payload = e.payload.at(self.pos) if isinstance(e.payload, PlacedPayload) else e.payload
        self.sink.begin(e.type_key, payload.size)
        size, value = self._copier.copy(payload)
        self.pos += size
        return size, value

    def _padding(self, e: OutEntry) -> int:
        """Bytes in front of a bulk payload. A large one starts at a multiple of LARGE_ALIGN where that aligns its data
        too: there its file can be copied by reference."""
        assert e.payload is not None
        if (e.payload.size or 0) >= LARGE_PAYLOAD and not e.align_at % e.alignment:
            return -self.pos % max(LARGE_ALIGN, e.alignment)
        return -(self.pos + e.align_at) % e.alignment

    def _target(self) -> str:
        target = self.layout.target
        return target if isinstance(target, str) else target()

    def _append_index(self) -> None:
        stream_size = self.pos
        for i, e in enumerate(self.layout.entries):
            if self.records[i].bulk:
                self.put(bytes(self._padding(e)))
                offset = self.pos
                size, value = self._copy(e)
                self.records[i] = self.records[i]._replace(
                    offset=offset, size=size, alignment=e.alignment, digest=value
                )
                self.placed(self.records[i])
        self.put(bytes(-self.pos % 8))
        at = self.pos
        raw = ix.encode_index(
            self.records, stream_size=stream_size, has_tree=self.has_tree, algorithm=self._algorithm,
            target=self._target(), producer=self.layout.producer,
        )  # fmt: skip
        # The footer keeps the blob's size, so the length prefix is known before its checksum is taken.
        blob_size = at + len(raw) + ix.FOOTER.size
        self._structure[:8] = encode_u64(blob_size - 8)
        footer = ix.encode_footer(raw, at, blob_size, zlib.crc32(self._structure))
        self.sink.write(raw)
        self.sink.write(footer)
        self.pos = blob_size


def check_digest(digest: str) -> None:
    """Refuse an unknown digest.

    Raises:
        ValueError: naming those that are known.
    """
    if digest not in ALGORITHMS:
        raise ValueError(f"digest: expected one of {', '.join(ALGORITHMS)}, found {digest!r}")
