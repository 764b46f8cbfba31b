"""Where the bytes of a payload come from when a blob is written: a buffer, a file, or pieces as they come."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from mblob.errors import ChangedError, MblobError

CHUNK = 256 << 10  # bytes read per step; larger buffers are slower than `cp` under memory pressure


class Payload(Protocol):
    """Bytes to write once.

    `size` is the number of bytes, None if that is known only after the last chunk.
    """

    @property
    def size(self) -> int | None: ...
    def chunks(self) -> Iterator[memoryview | bytes]: ...


class BytesPayload:
    """A buffer, kept without copying."""

    def __init__(self, data: Any) -> None:
        self.data = as_bytes_view(data)

    @property
    def size(self) -> int:
        return self.data.nbytes

    def chunks(self) -> Iterator[memoryview]:
        yield self.data


class FilePayload:
    """A regular file, read in pieces when it is written and never whole.

    Raises (from `chunks` and `size`):
        FileNotFoundError, OSError: it cannot be read.
        ChangedError: it changed while it was read.
    """

    # Files of /proc say that they are empty, so a size of 0 is none: they are read to their end.

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size or None

    def chunks(self) -> Iterator[memoryview | bytes]:
        with self.path.open("rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            buffer = bytearray(CHUNK)
            view = memoryview(buffer)
            left = before.st_size
            if not left:
                while n := file.readinto(view):
                    yield view[:n]
            while left and (n := file.readinto(view[: min(left, CHUNK)])):
                left -= n
                yield view[:n]
            after = os.fstat(file.fileno())
            if left or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                what = (
                    f"{before.st_size} bytes at first, then {after.st_size}"
                    if after.st_size != before.st_size
                    else "somebody wrote to it"
                )
                raise ChangedError(f"{self.path}: changed while it was read: {what}; pack again when nobody does")


class IterPayload:
    """Buffers from an iterable, taken one at a time; can be written once."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces: Iterator[Any] | None = iter(pieces)

    @property
    def size(self) -> None:
        return None

    def chunks(self) -> Iterator[memoryview]:
        if self._pieces is None:
            raise MblobError("this payload came from an iterator, which was used up by an earlier export")
        pieces, self._pieces = self._pieces, None
        for piece in pieces:
            yield as_bytes_view(piece)


def as_bytes_view(data: Any) -> memoryview:
    """A flat read-only view of a contiguous buffer.

    Raises:
        TypeError: `data` is no contiguous bytes-like object.
    """
    try:
        view = memoryview(data)
        return view.toreadonly().cast("B") if view.nbytes else memoryview(b"")
    except TypeError as exc:
        raise TypeError(f"expected contiguous bytes-like data, found {type(data).__name__}: {exc}") from None
