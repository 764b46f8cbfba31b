"""A blob written into a file: in whole steps, with holes, by reference where the file system can, and
with blocks of the library that it replaces."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mblob.bytes import native_copy
from mblob.bytes.digest import Crc32, crc32_of_zeros
from mblob.bytes.sink import STEP, Sink
from mblob.errors import ChangedError, IncompatibleError, MblobError

# bytes; copy_file_range to an offset that is no multiple takes half as long again as read and write
PAGE = 4096
TAKEN = 64 << 20  # bytes per copy_file_range: an interrupt waits for one of them
RESERVED = 1 << 20  # bytes for which blocks are reserved before they are written
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FileSink(Sink):
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


# -- over a library that is there ------------------------------------------------------------------
# Blocks that stay the same are shared with the old file, not written again. Only file systems that
# share blocks can do that (Btrfs, XFS, bcachefs, OCFS2). The old file is only read; who has it mapped
# or open keeps it. Nothing of it is believed: each piece of a payload is compared with what the old
# file has.

MIN_OLD_SIZE = 1 << 20  # bytes of an old file from which it is looked at
# of <linux/fs.h>; where it has another number (PowerPC, MIPS), nothing is shared
FICLONERANGE = 0x4020940D
_RANGE = struct.Struct("=qQQQ")  # struct file_clone_range


class OldLibrary:
    """The library that is being replaced.

    Attributes:
        fd: open for reading.
    """

    def __init__(self, path: Path, fd: int, payloads: list[tuple[str, int, int]]) -> None:
        """`payloads`: type key, size and offset in the file of each."""
        self._path = path
        self._payloads = payloads
        self.fd = fd
        self._before = os.fstat(fd)

    def payloads(self) -> list[tuple[str, int, int]]:
        return list(self._payloads)

    def check(self) -> None:
        """Refuse what was shared if the file is not as it was.

        Raises:
            ChangedError: naming it.
        """
        before, after = self._before, os.fstat(self.fd)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise ChangedError(
                f"{self._path}: somebody wrote to it while it was packed again; pack again when nobody does, or with"
                " reuse=False"
            )


@contextmanager
def old_library(path: Path, wanted: bool = True) -> Iterator[OldLibrary | None]:
    """The library at a path, while the block runs; None if there is no library with payloads worth
    looking at.

    Args:
        wanted: look at it at all.
    """
    fd = _open(path) if wanted else None
    if fd is None:
        yield None
        return
    try:
        payloads = _payloads(fd)
        yield OldLibrary(path, fd, payloads) if payloads else None
    finally:
        os.close(fd)


def _open(path: Path) -> int | None:
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        if os.fstat(fd).st_size >= MIN_OLD_SIZE:
            return fd
        os.close(fd)
    return None


def _payloads(fd: int) -> list[tuple[str, int, int]]:
    """Of the file that is open: another one may get its name meanwhile. What cannot be read has
    none."""
    from mblob.inspect.library import Library

    try:
        with Library(f"/proc/self/fd/{fd}", verify="off") as found:
            return [(e.type_key, e.size, e.offset) for e in found.entries if e.offset is not None]
    except (OSError, MblobError):
        return []


class SharingSink(FileSink):
    """A blob in a file that shares blocks with an old one. Arguments as of `FileSink`."""

    def __init__(
        self,
        old: OldLibrary,
        fd: int,
        limit: int | None = None,
        what: str = "",
        *,
        checksum: bool = False,
    ) -> None:
        super().__init__(fd, limit, what, checksum=checksum)
        self._old = old
        self._block = max(PAGE, os.fstatvfs(fd).f_bsize)
        self._left = old.payloads() if self._can_share() else []
        # how far the old file's bytes lie behind ours; None for no counterpart
        self._lead: int | None = None
        # bytes before the current place that are the old file's, and not written yet
        self._equal = 0

    def _can_share(self) -> bool:
        """Try it, behind the end of the file."""
        end = os.fstat(self._fd).st_size
        try:
            self._clone(0, end + -end % self._block, self._block)
        except OSError:
            return False
        finally:
            os.ftruncate(self._fd, end)
        return True

    def _clone(self, old: int, new: int, count: int) -> None:
        fcntl.ioctl(self._fd, FICLONERANGE, _RANGE.pack(self._old.fd, old, count, new))

    def begin(self, type_key: str, size: int | None, /) -> None:
        self._flush()
        same_key = [p for p in self._left if p[0] == type_key]
        best = next((p for p in same_key if p[1] == size), next(iter(same_key), None))
        self._lead = None
        if best is not None:
            self._left.remove(best)
            lead = best[2] - self._at
            self._lead = None if lead % self._block else lead

    def write(self, data: memoryview | bytes, /) -> None:
        left = memoryview(data)
        while left:
            piece = left[: self.room]
            if self._lead is not None and os.pread(
                self._old.fd, len(piece), self._at + self._lead
            ) == bytes(piece):
                self._take_in(piece)
                self.size += len(piece)
                self._equal += len(piece)
            else:
                self._flush()
                super().write(piece)
            left = left[len(piece) :]

    def _flush(self) -> None:
        """Put what is equal into the file: whole blocks by reference, the rest of the first and the
        last copied."""
        count, self._equal = self._equal, 0
        if not count:
            return
        assert self._lead is not None
        end = self._at
        start = end - count
        first, last = start + -start % self._block, end - end % self._block
        if first < last:
            try:
                self._clone(first + self._lead, first, last - first)
            except OSError as exc:
                if exc.errno in NO_ROOM:
                    raise
                last = first  # whatever it is, writing will do or tell
        else:
            first = last = end
        self._copy(start, first)
        self._copy(last, end)
        os.lseek(self._fd, end, os.SEEK_SET)

    def _copy(self, at: int, end: int) -> None:
        """Copy bytes of the old file."""
        assert self._lead is not None
        while at < end:
            data = os.pread(self._old.fd, min(end - at, 1 << 18), at + self._lead)
            if not data:
                break  # it was made shorter, which `check` tells
            at += os.pwrite(self._fd, data, at)

    def skip(self, count: int, /) -> None:
        self._flush()
        super().skip(count)

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        self._flush()
        return super().take(fd, offset, count, crc, threads)

    def _copy_in(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int) -> int:
        if self._lead is not None:
            return 0  # it is compared, in `write`
        return super()._copy_in(fd, offset, count, crc, threads)

    def patch(self, offset: int, data: bytes, /) -> None:
        self._flush()
        super().patch(offset, data)

    def finish(self) -> None:
        self._flush()
        self._old.check()
