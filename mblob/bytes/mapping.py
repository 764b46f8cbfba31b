"""Files as memory: mapped, never read whole."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from contextlib import suppress
from pathlib import Path

from mblob.arguments import path as checked_path
from mblob.errors import FormatError

_END = 256 << 10  # bytes of each end of a file that are read at once
_READ_AHEAD = 2 << 20  # smaller files may as well be read ahead whole


def advise_random(data: memoryview, *, begin: bool) -> None:
    """Tell the kernel that what `map_file` gave is read here and there, until told that it is not
    (`begin` False).

    Without, the kernel reads megabytes around each byte of a file that it has not in memory.
    Headers and index, at the two ends, are fetched at once.
    """
    mapping = _advised(data)
    if mapping is None:
        return
    try:
        if not begin:
            mapping.madvise(mmap.MADV_NORMAL)
            return
        mapping.madvise(mmap.MADV_RANDOM)
        mapping.madvise(mmap.MADV_WILLNEED, 0, _END)
        start = (len(data) - _END) // mmap.PAGESIZE * mmap.PAGESIZE
        mapping.madvise(mmap.MADV_WILLNEED, start, len(data) - start)
    except OSError:
        return  # advice: file systems need not take it


def prefetch(data: memoryview, start: int, size: int) -> None:
    """Tell the kernel that a part of what `map_file` gave is read next, all of it."""
    mapping = _advised(data)
    if mapping is None or not 0 <= start <= len(data) or not 0 < size <= len(data) - start:
        return
    begin = start // mmap.PAGESIZE * mmap.PAGESIZE
    with suppress(OSError):
        mapping.madvise(mmap.MADV_WILLNEED, begin, start + size - begin)


def _advised(data: memoryview) -> mmap.mmap | None:
    """The mapping, if advice on it is worth a call."""
    mapping = data.obj
    if isinstance(mapping, mmap.mmap) and len(data) >= _READ_AHEAD and hasattr(mmap, "MADV_RANDOM"):
        return mapping
    return None


def map_file(path: Path) -> memoryview:
    """The bytes of a regular file, as of `map_known_file`."""
    return map_known_file(path)[0]


def map_known_file(path: Path) -> tuple[memoryview, os.stat_result]:
    """The bytes of a regular file, a read-only mapping that lives as long as a view of it; and what `stat`
    says of that file.

    Files that say they are empty but are not (those of /proc) are read.

    Raises:
        OSError: it cannot be read, or is a folder.
        FormatError: "not_elf": no regular file.
        ValueError: no file can have that path.
    """
    # O_NONBLOCK: a FIFO that nobody writes to would block for ever.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        checked_path(path)
        raise
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(info.st_mode):
            raise FormatError(f"{path}: not a regular file", code="not_elf")
        if info.st_size == 0:
            return memoryview(_read(path)), info
        return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ)), info
    finally:
        os.close(fd)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        # that of `read` names no file
        raise OSError(error.errno, error.strerror, str(path)) from None
