"""A blob made of another one: some payloads new, everything else as it is, in either dialect, with or without an index.

The stream is spliced, not written anew: keys, tree and order stay byte for byte what they were, whoever wrote them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import mblob
from mblob.bytes.digest import ALGORITHMS
from mblob.bytes.native_copy import crc32
from mblob.bytes.payload_copy import Copier
from mblob.bytes.payload_source import BytesPayload, Payload, PlacedPayload
from mblob.bytes.sink import Sink
from mblob.bytes.wire import encode_u64
from mblob.errors import ChangedError, FormatError
from mblob.format import ffi_dialect, safetensors
from mblob.format import index as ix
from mblob.format.model import Blob, Entry
from mblob.format.stream_writer import LARGE_ALIGN, LARGE_PAYLOAD
from mblob.packager.errors import BuildError
from mblob.packager.write.progress import watched
from mblob.packager.write.reuse import OldLibrary

PLACE_SIZE = 16  # bytes that the ffi dialect has in its stream for a bulk payload: offset and size
_NAMES = {number: name for name, number in ALGORITHMS.items()}


@dataclass
class _Piece:
    """Bytes of the new blob, in order.

    Attributes:
        data: bytes outside payloads; b"" for a payload.
        entry: whose payload it is, None for other bytes.
        payload: where it comes from.
    """

    data: bytes | memoryview = b""
    entry: int | None = None
    payload: Payload | None = None


class RewrittenBlob:
    """The new blob: its size and layout are known before a byte of it is written.

    Args:
        data: the old blob, its length prefix included.
        blob: what it says.
        changed: new payloads by index of their entries; their sizes must be known.
        index: whether the new blob has an index.
        target: for an index that the old blob does not have.

    Raises:
        BuildError: a payload whose size is not known.
        FormatError: payloads overlap.

    Attributes:
        size: bytes of the new blob.
        entries: as the new blob has them; digests of new payloads are known after `write`.
    """

    def __init__(
        self, data: memoryview, blob: Blob, changed: Mapping[int, Payload], *, index: bool, target: str = "",
        old: OldLibrary | None = None,
    ) -> None:  # fmt: skip
        self._data = data
        self._blob = blob
        self._changed = changed
        self.index = index
        self.old = old
        self._algorithm = blob.algorithm if blob.index_offset is not None else ALGORITHMS["crc32"]
        self._target = target if blob.index_offset is None else blob.target
        self._producer = f"mblob {mblob.__version__}" if blob.index_offset is None else blob.producer
        self.entries = list(blob.entries)
        self._pieces: list[_Piece] = []
        self._pos = 0
        self._splice()
        self.stream_size = self._pos
        if index:
            self._place_bulk()
            self._put(bytes(-self._pos % 8))
            self._index_at = self._pos
            self.size = self._pos + len(self._encoded_index()) + ix.FOOTER.size
        else:
            self.size = self._pos
        self._pieces[0].data = encode_u64(self.size - 8)

    # -- as a `mblob.packager.write.blob.BlobWriter` --------------------------------------------------------------------

    @property
    def has_digests(self) -> bool:
        """Whether the footer depends on every byte."""
        return self.index and self._algorithm != 0

    @property
    def digest(self) -> str:
        return _NAMES[self._algorithm]

    # -- layout ---------------------------------------------------------------------------------------------

    @property
    def _has_lengths(self) -> bool:
        """Whether payloads in the stream stand behind their lengths."""
        return self._blob.dialect == "ffi" and not self._blob.symbol.endswith(ffi_dialect.SYMBOL_OF_0_21)

    def _stops(self) -> list[tuple[int, int, Entry, bool]]:
        """Where payloads are in the old stream, or go: start, end, entry, and whether only a place stays there."""
        found = []
        for e in self._blob.entries:
            if e.offset is None:
                continue
            if not e.bulk:
                found.append((e.offset, e.offset + e.size, e, False))
                continue
            at = e.item_offset + 8 + len(e.type_key.encode())
            if self._has_lengths:
                found.append((at + 8, at + 8 + PLACE_SIZE, e, self.index))
            elif not self.index:
                found.append((at, at, e, False))
        return sorted(found, key=lambda stop: (stop[0], stop[2].index))

    def _splice(self) -> None:
        """The new stream, from the length prefix to the end of what follows the old one."""
        end = self._blob.stream_size if self.index or self._blob.index_offset is not None else len(self._data)
        self._pieces.append(_Piece(bytes(8)))
        self._pos, at = 8, 8
        ends, deltas = [0], [0]
        for start, stop, e, is_place in self._stops():
            if start < at + 8 * self._has_lengths or stop > self._blob.stream_size:
                raise FormatError(
                    f"the payload of entry {e.index} at {start} overlaps its neighbours, or the stream's end",
                    code="index_damaged", offset=start, entry=e.index,
                )  # fmt: skip
            size = PLACE_SIZE if is_place else self._size(e, self._pos + start - at)
            self._put(self._data[at : start - 8 * self._has_lengths])
            if self._has_lengths:
                self._put(encode_u64(size))
            if is_place:
                self._put(bytes(PLACE_SIZE))
                self._pieces[-1].entry = ~e.index  # filled when its payload has its place
            else:
                self._put_payload(e, bulk=False)
            at = stop
            ends.append(stop)
            deltas.append(self._pos - stop)
        self._put(self._data[at:end])
        for i, e in enumerate(self.entries):
            if e.item_offset:
                moved = e.item_offset + deltas[bisect_right(ends, e.item_offset) - 1]
                self.entries[i] = e._replace(item_offset=moved)

    def _source(self, e: Entry, position: int) -> Payload:
        """Where the payload of an entry comes from, if it stands at a place of the new blob."""
        payload = self._changed.get(e.index)
        if payload is None:
            assert e.offset is not None
            return BytesPayload(self._data[e.offset : e.offset + e.size])
        return payload.at(position) if isinstance(payload, PlacedPayload) else payload

    def _size(self, e: Entry, position: int) -> int:
        size = self._source(e, position).size
        if size is None:
            raise BuildError(f"entry {e.index} ({e.type_key}): its new payload does not say how many bytes it has")
        return size

    def _put(self, data: bytes | memoryview) -> None:
        if len(data):
            self._pieces.append(_Piece(data))
            self._pos += len(data)

    def _put_payload(self, e: Entry, *, bulk: bool) -> None:
        size = self._size(e, self._pos)
        self._pieces.append(_Piece(entry=e.index, payload=self._source(e, self._pos)))
        kept = e.digest if e.index not in self._changed else b""
        self.entries[e.index] = self.entries[e.index]._replace(
            offset=self._pos, size=size, digest=kept, bulk=bulk, alignment=e.alignment if bulk else 1
        )
        self._pos += size

    def _place_bulk(self) -> None:
        for e in self._blob.entries:
            if e.bulk and e.offset is not None:
                self._put(bytes(self._padding(e)))
                self._put_payload(e, bulk=True)
        for piece in self._pieces:
            if piece.entry is not None and piece.payload is None:
                e = self.entries[~piece.entry]
                piece.data, piece.entry = encode_u64(e.offset or 0) + encode_u64(e.size), None

    def _padding(self, e: Entry) -> int:
        """Bytes in front of a bulk payload, as `mblob.format.classic.write` counts them."""
        size = self._size(e, self._pos)
        first = 0
        if e.type_key == safetensors.TYPE_KEY:
            start = b""
            for chunk in self._source(e, self._pos).chunks():
                start += bytes(chunk[:8])
                if len(start) >= 8:
                    break
            first = safetensors.data_offset(start[:8], size)
        if size >= LARGE_PAYLOAD and not first % e.alignment:
            return -self._pos % max(LARGE_ALIGN, e.alignment)
        return -(self._pos + first) % e.alignment

    def _encoded_index(self) -> bytes:
        return ix.encode_index(
            self.entries, stream_size=self.stream_size, has_tree=self._blob.has_tree, algorithm=self._algorithm,
            target=self._target, producer=self._producer,
        )  # fmt: skip

    # -- writing --------------------------------------------------------------------------------------------

    def write(self, sink: Sink) -> int:
        """Stream the blob; its size in bytes. Payloads that stay keep the digest they had, so damage stays visible.

        Raises:
            OSError, MblobError: a payload cannot be read, or changed while it was read.
        """
        sink = watched(sink)
        crc = 0
        with Copier(sink, self._algorithm if self.index else 0) as hashing, Copier(sink, 0) as copying:
            for piece in self._pieces:
                if piece.payload is None:
                    crc = crc32(piece.data, crc)
                    sink.write(piece.data)
                    continue
                assert piece.entry is not None
                e = self.entries[piece.entry]
                sink.begin(e.type_key, e.size)
                size, value = (copying if e.digest else hashing).copy(piece.payload)
                if size != e.size:
                    raise ChangedError(
                        f"the new payload of entry {e.index} ({e.type_key}) has {size} bytes, {e.size} at first; swap"
                        " again when nobody writes to it"
                    )
                self.entries[e.index] = e._replace(digest=e.digest or value)
        if self.index:
            raw = self._encoded_index()
            sink.write(raw)
            sink.write(ix.encode_footer(raw, self._index_at, self.size, crc))
        return self.size


def fingerprint(data: memoryview, blob: Blob) -> bytes:
    """What tells the old blob apart from others, as `mblob.packager.write.blob_file.write_blob` makes it."""
    if blob.index_offset is not None and blob.algorithm:
        return bytes(data[-64:])
    return crc32(data).to_bytes(4, "little") + len(data).to_bytes(8, "little")
