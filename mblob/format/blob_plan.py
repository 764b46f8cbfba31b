"""The plan of a blob to be written, and writing it, in either dialect: docs/format.md, sections 2,
4 and 11."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Union

from mblob.binary.elf_records import MAX_PAGE
from mblob.bytes.digest import ALGORITHMS, SIZES
from mblob.bytes.payload_copy import Copier
from mblob.bytes.payload_source import Payload, PlacedPayload
from mblob.bytes.sink import Sink
from mblob.bytes.wire import encode_string, encode_u64, encode_u64s
from mblob.errors import ArgumentError, ArgumentValueError, ChangedError, one_of
from mblob.format import index as ix
from mblob.format.blob_model import Entry
from mblob.format.ffi_dialect import PLACE_SIZE
from mblob.format.grammar import GRAMMARS
from mblob.format.import_tree import flat_tree
from mblob.format.type_keys import LIB_KEY, LIBRARY, SAFETENSORS, TREE_KEY
from mblob.named_tuple import NamedTuple

Target = Union[str, Callable[[], str]]
# To how many bytes a blob is aligned, in the file and in memory. These are all numbers that decide it.
TENSOR_ALIGN = 64  # a small blob: what kernels assume of data
BLOB_ALIGN = 1 << 16  # a large one. Nothing in a blob can be aligned to more.
LARGE_PAYLOAD = 1 << 20  # bytes from which a blob is large: padding to BLOB_ALIGN is nothing then
# The most that a caller may ask for: a page. Dynamic linkers before glibc 2.35 align no more.
PAYLOAD_ALIGN_LIMIT = 4096
SEGMENT_ALIGN = max(BLOB_ALIGN, MAX_PAGE)  # the segment that a blob has for itself


def start_alignment(size: int | None) -> int:
    """Bytes to which a blob is aligned whose payloads have `size` bytes (None: nobody knows)."""
    return BLOB_ALIGN if size is None or size >= LARGE_PAYLOAD else TENSOR_ALIGN


def largest_own(entries: Iterable[tuple[str, int]]) -> int | None:
    """The entry whose payload decides where a blob starts: the largest one of a program's own key,
    the first of several; None if there is none.

    Args:
        entries: type key of each, and bytes that it has in the stream.
    """
    own = [(n, -i) for i, (key, n) in enumerate(entries) if key not in (*GRAMMARS, SAFETENSORS)]
    size, i = max(own, default=(0, 0))
    return -i if size else None


class OutEntry(NamedTuple):
    """A module to write.

    Attributes:
        type_key: its key; `library` for the library itself.
        payload: its bytes; None for the library.
        imports: indices of the modules that it imports, in load order.
        data: opens without a loader.
        alignment: bytes to which byte `align_at` of the payload shall be aligned, in the file and
            in memory (the embedding provides the alignment of the blob). Above 1 the payload goes to the bulk
            region.
        bulk: the payload goes to the bulk region, whatever its alignment.
        digest: of the payload, by the plan's algorithm, where it is known and shall stay; b"": it
            is taken.
    """

    type_key: str
    payload: Payload | None
    imports: tuple[int, ...] = ()
    data: bool = False
    alignment: int = 1
    align_at: int = 0
    bulk: bool = False
    digest: bytes = b""


class BlobPlan:
    """A blob that is to be written: made once for an export, or from a blob that was read.

    Attributes:
        entries: the modules, in writing order.
        dialect: "classic" or "ffi": how the stream is written.
        has_tree: the classic stream has an import tree; without one its first entry, the library,
            has no item either.
        tail: what follows the stream, in a blob without an index.
        index: write the index.
        digest: "crc32", "sha256" or "none".
        target, producer: texts for the index; the target may be a function that is asked when the
        index is written.
    """

    def __init__(
        self,
        entries: Sequence[OutEntry],
        dialect: str = "classic",
        has_tree: bool = True,
        tail: bytes | memoryview = b"",
        index: bool = True,
        digest: str = "crc32",
        target: Target = "",
        producer: str = "",
    ) -> None:
        if digest not in ALGORITHMS:
            raise ArgumentValueError(f"digest: {one_of(ALGORITHMS, digest)}")
        self.entries = entries
        self.dialect = dialect
        self.has_tree = has_tree
        self.tail = tail
        self.index = index
        self.digest = digest
        self.target = target
        self.producer = producer

    @property
    def is_library_alone(self) -> bool:
        """True if there is nothing but host code."""
        return len(self.entries) == 1 and self.entries[0].payload is None

    @property
    def is_needed(self) -> bool:
        """True if the library gets a blob at all. As TVM, a library alone has none; with an index
        it has one."""
        return self.index or not self.is_library_alone

    @property
    def has_digests(self) -> bool:
        """True if the footer of the blob depends on every byte of it."""
        return self.index and self.digest != "none"

    @property
    def known_size(self) -> int | None:
        """Bytes of all payloads; None if one of them does not know, and can perhaps be read only
        once.

        Raises:
            OSError: a payload's file cannot be looked at.
        """
        sizes = [e.payload.size for e in self.entries if e.payload is not None]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def alignment(self) -> int:
        """Bytes to which the start of the blob is aligned, in the file and in memory.

        A blob of LARGE_PAYLOAD or more, or of unknown size, starts at a multiple of BLOB_ALIGN, so
        that its payloads copy fast. A smaller one is aligned to what its payloads need.
        """
        try:
            size = self.known_size
        except OSError:  # which will be told when the payload's turn comes
            size = None
        return max(start_alignment(size), *(e.alignment for e in self.entries))

    @cached_property
    def lead(self) -> int | None:
        """Bytes by which the blob starts behind a multiple of `alignment`, so that the largest
        payload of a program's own key is at a multiple of TENSOR_ALIGN. None if the blob has no such
        payload, or if nobody knows the size of a payload in the stream.

        A graph with parameters in front of the payload decides by itself where it ends: then the
        lead is 0.
        """
        sizes: list[tuple[str, int]] = []
        for e in self.entries:
            try:
                size = 0 if e.payload is None or self.is_bulk(e) else e.payload.size
            except OSError:  # as above
                size = None
            if size is None:
                return None
            sizes.append((e.type_key, size))
        i = largest_own(sizes)
        if i is None:
            return None
        lead = -self._place_of(i, 0) % TENSOR_ALIGN
        return 0 if (lead + self._place_of(i, lead)) % TENSOR_ALIGN else lead

    def _place_of(self, i: int, lead: int) -> int:
        """The offset of the payload of entry i in the stream."""
        return _Writer(_NoSink(), self, lead=lead, measures=True).stream()[i].offset or 0

    def is_bulk(self, e: OutEntry) -> bool:
        """True if a payload is in the bulk region."""
        return self.index and (e.bulk or e.alignment > 1)

    @property
    def unbounded_keys(self) -> list[str]:
        """Type keys of which only an index could tell where their payloads end, and that have
        none."""
        if self.index or self.dialect == "ffi":  # where payloads have a length
            return []
        return sorted({e.type_key for e in self.entries} - {LIBRARY} - GRAMMARS.keys())

    def write(self, sink: Sink, promised: Measured | None = None, *, lead: int = 0) -> int:
        """Write the blob and return its size in bytes (what `st_size` must be). Each payload is
        consumed once, in order, and never held.

        Args:
            promised: what `measure` said, if the blob has to be that. Its bytes are then written in
                order.
            lead: bytes by which the blob starts behind a multiple of its alignment.

        Raises:
            ValueError: in the ffi dialect, a payload that turns out to be empty, which TVM does not
                read.
            ChangedError: a payload has not the size that was promised.
            OSError, MblobError: a payload cannot be read, or changed while it was read.
        """
        return _Writer(sink, self, promised, lead=lead).run()

    def measure(self, *, lead: int = 0) -> Measured:
        """The size and the entries of the blob, before it is written; `lead` as of `write`.

        Raises:
            ValueError: a payload does not know its size.
        """
        writer = _Writer(_NoSink(), self, lead=lead, measures=True)
        return Measured(writer.run(), writer.records)


class Measured(NamedTuple):
    """A blob that is not written yet.

    Attributes:
        size: its bytes.
        entries: as they will stand in the index; digests that are not known are zeros.
    """

    size: int
    entries: Sequence[Entry]


class _NoSink(Sink):
    """Of a blob that is measured."""

    def write(self, data: memoryview | bytes, /) -> None:
        pass

    def patch(self, offset: int, data: bytes, /) -> None:
        pass


def check_ffi(entries: Sequence[OutEntry]) -> None:
    """Refuse what TVM's loader of the ffi dialect refuses, misreads or crashes on, as far as it is
    known before writing.

    Raises:
        ValueError: naming the module and the reason.
    """
    libraries = [i for i, e in enumerate(entries) if e.payload is None]
    if not libraries:
        raise ArgumentValueError(
            "no module of the tree is host code, and TVM keeps a file of the ffi dialect open through that one; import"
            " some, at least csource_module('')"
        )
    if len(libraries) > 1:
        raise ArgumentValueError(
            f"modules {libraries[0]} and {libraries[1]} both stand for the library, expected one"
        )
    for i, e in enumerate(entries):
        if not e.type_key or e.type_key == LIB_KEY:
            raise ArgumentValueError(
                f"module {i}: kind {e.type_key!r}, expected a name that is not {LIB_KEY!r}"
            )
        if e.payload is not None and e.payload.size == 0:
            raise _empty(i, e.type_key)
        if any(c <= before for before, c in zip((i, *e.imports), e.imports)):
            raise ArgumentValueError(
                f"module {i} ({e.type_key}) imports {list(e.imports)}, expected ascending numbers above {i}"
            )


def _empty(i: int, kind: str) -> ArgumentError:
    return ArgumentValueError(
        f"module {i} ({kind!r}) has an empty payload, which TVM's loader of the ffi dialect takes for a damaged file;"
        " give it at least one byte, or use dialect='classic'"
    )


class _Writer:
    """Writes one blob.

    Attributes:
        pos: bytes written so far.
        records: of the entries, as they stand in the index.
        lead: bytes by which the blob starts behind a multiple of its alignment.
        measures: nothing is read; payloads have the size that they say.
    """

    def __init__(
        self,
        sink: Sink,
        plan: BlobPlan,
        promised: Measured | None = None,
        *,
        lead: int = 0,
        measures: bool = False,
    ) -> None:
        self.pos = 0
        self.records: list[Entry] = []
        self.lead = lead
        self.measures = measures
        self._sink = sink
        self._plan = plan
        self._promised = promised
        self._algorithm = ALGORITHMS[plan.digest] if plan.index else 0
        self._structure = bytearray()  # everything outside payloads; small
        # where the ffi stream says where a bulk payload is
        self._places: dict[int, tuple[int, int]] = {}

    def run(self) -> int:
        """Write the blob and return its size in bytes."""
        with (
            Copier(self._sink, self._algorithm) as self._hashing,
            Copier(self._sink, 0) as self._copying,
        ):
            self.stream()
            if self._plan.index:
                self._append_index()
            else:
                self._put(self._plan.tail)
        self._fill((0, 0), encode_u64(self.pos - 8))
        return self.pos

    # -- the streams, which TVM's readers consume --------------------------------------------------

    def stream(self) -> list[Entry]:
        """Write the length prefix and the stream; the records, where bulk payloads have no place
        yet."""
        self._reserve(self._promised and encode_u64(self._promised.size - 8), 8)
        if self._plan.dialect == "ffi":
            self._ffi_stream()
        else:
            self._classic_stream()
        return self.records

    def _classic_stream(self) -> None:
        """Items, then the tree. Without a tree the library imports all others, and is not among the
        items."""
        plan = self._plan
        self._put(encode_u64(len(plan.entries) + (1 if plan.has_tree else -1)))
        for i, e in enumerate(plan.entries):
            item = self.pos if i or plan.has_tree else 0
            if item:
                self._put_key(e)
            self._add(i, item)
        if plan.has_tree:
            self._put(encode_string(TREE_KEY) + self._tree())

    def _ffi_stream(self) -> None:
        """The tree, then the modules, each payload behind its length."""
        self._put(self._tree())
        for i, e in enumerate(self._plan.entries):
            item = self.pos
            self._put_key(e)
            if e.payload is None:
                self._add(i, item)
                continue
            known = self._promised and self._promised.entries[i]
            size = self._reserve(known and encode_u64(PLACE_SIZE if known.bulk else known.size), 8)
            record = self._add(i, item)
            if record.bulk:
                self._places[i] = self._reserve(known and _place(known), PLACE_SIZE)
            elif not record.size and e.payload.size is None:
                raise _empty(i, e.type_key)
            self._fill(size, encode_u64(PLACE_SIZE if record.bulk else record.size))

    def _tree(self) -> bytes:
        row_ptr, child = flat_tree([e.imports for e in self._plan.entries])
        return encode_u64s(row_ptr) + encode_u64s(child)

    def _put(self, data: bytes | memoryview) -> None:
        """Write bytes outside payloads."""
        self._structure += data
        self._sink.write(data)
        self.pos += len(data)

    def _reserve(self, known: bytes | None, size: int) -> tuple[int, int]:
        """Write bytes that `_fill` says, where they are not known already; their place."""
        place = self.pos, len(self._structure)
        self._put(known or bytes(size))
        return place

    def _fill(self, place: tuple[int, int], data: bytes) -> None:
        at, in_structure = place
        if self._structure[in_structure : in_structure + len(data)] != data:
            self._sink.patch(at, data)
            self._structure[in_structure : in_structure + len(data)] = data

    def _put_key(self, e: OutEntry) -> None:
        """Write a key, or kind."""
        self._put(encode_string(LIB_KEY if e.payload is None else e.type_key))

    def _add(self, i: int, item: int) -> Entry:
        """Write the payload of entry i here, unless it is a bulk one or the library's, and its
        record."""
        e, size, value = self._plan.entries[i], 0, b""
        bulk = self._plan.is_bulk(e)
        offset = None if e.payload is None else self.pos
        if e.payload is not None and not bulk:
            size, value = self._copy(i)
        record = Entry(
            i,
            e.type_key,
            offset,
            size,
            e.imports,
            e.data,
            digest=value,
            item_offset=item,
            bulk=bulk,
        )
        self.records.append(record)
        return record

    def _copy(self, i: int) -> tuple[int, bytes]:
        """Write a payload; its size and digest."""
        e = self._plan.entries[i]
        assert e.payload is not None
        payload: Payload = (
            e.payload.at(self.lead + self.pos)
            if isinstance(e.payload, PlacedPayload)
            else e.payload
        )
        if self.measures:
            if payload.size is None:
                raise ArgumentValueError(
                    f"entry {i} ({e.type_key}): its payload does not say how many bytes it has; pass a copy of the file"
                )
            size, value = payload.size, bytes(SIZES[self._algorithm])
        else:
            self._sink.begin(e.type_key, payload.size)
            size, value = (self._copying if e.digest else self._hashing).copy(payload)
        if self._promised and size != (first := self._promised.entries[i].size):
            raise ChangedError(
                f"the new payload of entry {i} ({e.type_key}) has {size} bytes, {first} at first;"
                " swap again when nobody writes to it"
            )
        self.pos += size
        return size, e.digest or value

    # -- behind the stream -------------------------------------------------------------------------

    def _padding(self, e: OutEntry) -> int:
        """Bytes in front of a bulk payload. A large one starts at a multiple of BLOB_ALIGN where
        that aligns its data too: there its file can be copied by reference."""
        assert e.payload is not None
        at = self.lead + self.pos
        if (e.payload.size or 0) >= LARGE_PAYLOAD and not e.align_at % e.alignment:
            return -at % max(BLOB_ALIGN, e.alignment)
        return -(at + e.align_at) % e.alignment

    def _append_index(self) -> None:
        stream_size = self.pos
        for i, e in enumerate(self._plan.entries):
            if self.records[i].bulk:
                self._put_bulk(i, e)
        self._put(bytes(-self.pos % 8))
        at = self.pos
        target = self._plan.target
        raw = ix.encode_index(
            self.records,
            stream_size=stream_size,
            has_tree=self._plan.has_tree,
            algorithm=self._algorithm,
            target=target if isinstance(target, str) else target(),
            producer=self._plan.producer,
        )
        # The footer keeps the blob's size, so the length prefix is known before its checksum is
        # taken.
        blob_size = at + len(raw) + ix.FOOTER.size
        self._fill((0, 0), encode_u64(blob_size - 8))
        footer = ix.encode_footer(raw, at, blob_size, zlib.crc32(self._structure))
        self._sink.write(raw)
        self._sink.write(footer)
        self.pos = blob_size

    def _put_bulk(self, i: int, e: OutEntry) -> None:
        self._put(bytes(self._padding(e)))
        offset = self.pos
        size, value = self._copy(i)
        self.records[i] = self.records[i]._replace(
            offset=offset, size=size, alignment=e.alignment, digest=value
        )
        if self._plan.dialect == "ffi":
            if not size and e.payload is not None and e.payload.size is None:
                raise _empty(i, e.type_key)
            self._fill(self._places[i], _place(self.records[i]))


def _place(e: Entry) -> bytes:
    """The offset and size that stand in the ffi stream for a payload of the bulk region."""
    return encode_u64(e.offset or 0) + encode_u64(e.size)
