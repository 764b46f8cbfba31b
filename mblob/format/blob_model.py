"""The content of a blob, whatever dialect it is written in."""

from __future__ import annotations

from mblob.named_tuple import NamedTuple


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
