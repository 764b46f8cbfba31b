"""A blob written into a file: in whole steps, with holes, and by reference where the file system
can."""

from __future__ import annotations

import errno
import os

from mblob.bytes import native_copy
from mblob.bytes.digest import Crc32, crc32_of_zeros
from mblob.bytes.sink import STEP
from mblob.errors import IncompatibleError

# bytes; copy_file_range to an offset that is no multiple takes half as long again as read and write
PAGE = 4096
TAKEN = 64 << 20  # bytes per copy_file_range: an interrupt waits for one of them
RESERVED = 1 << 20  # bytes for which blocks are reserved before they are written
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileSink:
    """A blob written into an open file from the descriptor's position on, where the file has
    nothing yet.

    Args:
        fd: open for writing, positioned where the blob starts; borrowed.
        limit: bytes the blob may have, None for any number.
        what: the thing that has the limit, for the error.
        checksum: keep a CRC-32 of what is written in order.
    """

    def __init__(
        self, fd: int, limit: int | None = None, what: str = "", *, checksum: bool = False
    ) -> None:
        self._fd = fd
        self._start = os.lseek(fd, 0, os.SEEK_CUR)
        self._limit = limit
        self._what = what
        self._checksum = checksum
        self._can_refer = hasattr(os, "copy_file_range") and not checksum
        self.size = 0
        self.crc = 0

    @property
    def _at(self) -> int:
        return self._start + self.size

    @property
    def room(self) -> int:
        """Bytes up to the next multiple of STEP in the file: writes that end there save half a page
        each."""
        return STEP - self._at % STEP

    def _check(self, count: int) -> None:
        if self._limit is not None and count > self._limit - self.size:
            raise IncompatibleError(
                f"{self._what} holds at most {self._limit} bytes, the packed modules are larger;"
                " pack for a 64-bit target or ship the large payloads beside the library"
            )

    def begin(self, type_key: str, size: int | None, /) -> None:
        pass

    def write(self, data: memoryview | bytes, /) -> None:
        left = memoryview(data)
        self._take_in(left)
        while left:  # write() may take less
            done = os.write(self._fd, left[: self.room])
            self.size += done
            left = left[done:]

    def _take_in(self, data: memoryview) -> None:
        """Account for bytes that are about to be in the file."""
        self._check(len(data))
        if self._checksum:
            self.crc = native_copy.crc32(data, self.crc)

    def skip(self, count: int, /) -> None:
        self._check(count)
        if self._checksum:
            self.crc = crc32_of_zeros(self.crc, count)
        os.lseek(self._fd, count, os.SEEK_CUR)
        self.size += count

    def expect(self, count: int, /) -> None:
        if count >= RESERVED:
            self._check(count)
            native_copy.reserve(self._fd, self._at, count)

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        return self._refer_to(fd, offset, count, crc) or self._copy_in(
            fd, offset, count, crc, threads
        )

    def _refer_to(self, fd: int, offset: int, count: int, crc: Crc32 | None) -> int:
        """Let the kernel copy, or share blocks."""
        if crc is not None or not self._can_refer or self._at % PAGE or offset % PAGE:
            return 0
        count = min(count, TAKEN)
        self._check(count)
        try:
            done = os.copy_file_range(fd, self._fd, count, offset)
        except OSError as exc:
            # Two file systems, an old kernel, a filter of system calls. Whatever it is, reading and
            # writing will tell, and say which of the two files it was.
            if exc.errno in NO_ROOM:
                raise
            self._can_refer = False
            return 0
        self.size += done
        return done

    def _copy_in(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int) -> int:
        """Read and write, summing on the way."""
        if native_copy.copy is None or (crc is not None and self._checksum):
            return 0
        if self._limit is not None:
            # nothing is taken beyond it, and writing the rest tells
            count = min(count, self._limit - self.size)
        so_far = crc.value if crc is not None else self.crc if self._checksum else None
        done, value = native_copy.copy(fd, offset, self._fd, count, so_far, threads)
        if value is not None and crc is not None:
            crc.value = value
        elif value is not None:
            self.crc = value
        self.size += done
        return done

    def patch(self, offset: int, data: bytes, /) -> None:
        os.pwrite(self._fd, data, self._start + offset)

    def finish(self) -> None:
        """The blob is complete: whatever was held back is in the file."""
