"""Sources of the bytes of a payload for writing a blob: a buffer, a file, or pieces as they
come."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mblob.arguments import check_unmasked
from mblob.bytes.sink import STEP
from mblob.errors import OF_CALLER, ArgumentTypeError, ChangedError, StateError

MORE = 1 << 62  # bytes, of a file that does not say how many it has


class Payload(Protocol):
    """Bytes to write once.

    `size` is the number of bytes, None if that is known only after the last chunk.
    """

    @property
    def size(self) -> int | None: ...
    def chunks(self) -> Iterator[memoryview | bytes]: ...


@runtime_checkable
class PlacedPayload(Payload, Protocol):
    """A payload some of whose bytes depend on where it stands, so that what it holds is aligned.

    `at` gives the bytes for a place in the file, of which its alignment counts. `size` is what they are at least.
    """

    def at(self, position: int) -> Payload: ...


class BytesPayload:
    """A buffer, kept without copying."""

    def __init__(self, data: Any) -> None:
        self.data = as_bytes_view(data)

    @property
    def size(self) -> int:
        return self.data.nbytes

    def chunks(self) -> Iterator[memoryview]:
        yield self.data


class OpenFile:
    """A regular file, or a part of one, while it is read.

    Attributes:
        fd: its descriptor.
        size: bytes to read: those that it had when it was opened; 0 of files of /proc too, which are
            read to their end.
    """

    def __init__(self, path: Path, fd: int, start: int = 0, size: int | None = None) -> None:
        self._path = path
        self._before = os.fstat(fd)
        self.fd = fd
        self._start = start
        self.size = self._before.st_size if size is None else size

    def extents(self) -> Iterator[tuple[int, int, bool]]:
        """(offset, bytes, is a hole) of the parts of what is read, in order."""
        if not self.size:
            yield 0, MORE, False
            return
        at, last = self._start, self._start + self.size
        sparse = self._before.st_blocks * 512 < self._before.st_size
        while at < last:
            start, end = self._data_at(at, last) if sparse else (at, last)
            if start > at:
                yield at, start - at, True
            if end > start:
                yield start, end - start, False
            at = end

    def _data_at(self, at: int, last: int) -> tuple[int, int]:
        """The start and end of the next data; all is data where the file system does not tell."""
        try:
            start = min(os.lseek(self.fd, at, os.SEEK_DATA), last)
            end = min(os.lseek(self.fd, start, os.SEEK_HOLE), last) if start < last else start
            return start, end
        except OSError as exc:
            return (last, last) if exc.errno == errno.ENXIO else (at, last)

    def read(self, view: memoryview, at: int) -> int:
        """Fill a buffer from an offset; how many bytes, less only at the end of the file.

        Raises:
            OSError: naming the file.
        """
        try:
            done = 0
            while done < len(view) and (n := os.preadv(self.fd, [view[done:]], at + done)):
                done += n
            return done
        except OSError as exc:
            raise OSError(
                exc.errno, f"the payload cannot be read: {exc.strerror}", str(self._path)
            ) from None

    def fail(self, at: int) -> None:
        """The file ended at an offset; that is an error unless it was opened as one that says
        nothing of its size."""
        if self.size:
            self.check(at)

    def check(self, end: int | None = None) -> None:
        """Refuse what was read if the file is not as it was.

        Args:
            end: where reading met its end, if that was too early.

        Raises:
            ChangedError: saying how it changed.
        """
        before, after = self._before, os.fstat(self.fd)
        if end is None and (after.st_size, after.st_mtime_ns) == (
            before.st_size,
            before.st_mtime_ns,
        ):
            return
        what = "somebody wrote to it"
        if after.st_size != before.st_size:
            what = f"{before.st_size} bytes at first, then {after.st_size}"
        elif end is not None:
            what = f"{before.st_size} bytes at first, then it ended at {end}"
        raise ChangedError(
            f"{self._path}: changed while it was read: {what}; pack again when nobody does"
        )


class FilePart:
    """A part of a regular file, read in pieces when it is written and never whole.

    Raises (from all methods):
        FileNotFoundError, OSError: it cannot be read.
        ChangedError: it changed while it was read.
    """

    def __init__(self, path: str | os.PathLike[str], start: int, size: int | None) -> None:
        self.path = Path(path)
        self._start = start
        self._size = size

    @property
    def size(self) -> int | None:
        return self._size

    @contextmanager
    def opened(self) -> Iterator[OpenFile]:
        """The file, open; when the block ends well, it is checked to be what it was."""
        with self.path.open("rb", buffering=0) as raw:
            file = OpenFile(self.path, raw.fileno(), self._start, self._size)
            yield file
            file.check()

    def chunks(self) -> Iterator[memoryview | bytes]:
        buffer = memoryview(bytearray(STEP))
        with self.opened() as file:
            at, left = self._start, file.size or MORE
            while left and (n := file.read(buffer[: min(left, STEP)], at)):
                yield buffer[:n]
                at += n
                left -= n
            if left:
                file.fail(at)


class FilePayload(FilePart):
    """A whole file, as it is when it is written. Errors as of `FilePart`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, 0, None)

    @property
    def size(self) -> int | None:
        return self.path.stat().st_size or (0 if self._is_empty() else None)

    def _is_empty(self) -> bool:
        """True if the file, whose size is 0, has no bytes. Pipes and files of /proc have that size, too; a
        pipe is not read here."""
        if not self.path.is_file():
            return False
        try:
            with self.path.open("rb", buffering=0) as file:
                return not file.read(1)
        except OSError:  # told when it is copied
            return False


class IterPayload:
    """Buffers from an iterable, taken one at a time; can be written once."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces: Iterator[Any] | None = iter(pieces)

    @property
    def size(self) -> None:
        return None

    def chunks(self) -> Iterator[memoryview]:
        if self._pieces is None:
            raise StateError(
                "this payload came from an iterator, which was used up by an earlier export"
            )
        pieces, self._pieces = self._pieces, None
        while True:
            try:
                piece = next(pieces)
            except StopIteration:
                return
            except OSError as error:
                setattr(error, OF_CALLER, True)
                raise
            yield as_bytes_view(piece)


def as_bytes_view(data: Any) -> memoryview:
    """A flat read-only view of a contiguous buffer.

    Raises:
        TypeError: `data` is no contiguous bytes-like object.
    """
    check_unmasked(data)
    try:
        view = memoryview(data)
        return view.toreadonly().cast("B") if view.nbytes else memoryview(b"")
    except (
        TypeError,
        ValueError,
    ) as exc:  # numpy raises either for elements that no buffer can have
        why = "" if str(exc).startswith("memoryview: a bytes-like") else f": {exc}"
        raise ArgumentTypeError(
            f"expected contiguous bytes-like data, found {type(data).__name__}{why}"
        ) from None
