"""A blob streamed into an open file, and what tells it apart from others."""

from __future__ import annotations

import os
from typing import Protocol

from mblob.bytes.native_copy import crc32
from mblob.bytes.sink import Sink
from mblob.packager.write.file_sink import FileSink
from mblob.packager.write.reuse import OldLibrary, SharingSink

COPY = 256 << 10  # bytes per step of a copy
WHOLE = 16 << 20  # bytes of a blob without digests that are all read for the build-id
SAMPLE, SAMPLED, SAMPLES = 4096, 1 << 20, 1 << 14  # bytes read, out of how many at least; how often at most


class BlobSource(Protocol):
    """What writes a blob, as `mblob.packager.write.blob.BlobWriter` does."""

    @property
    def has_digests(self) -> bool:
        """Whether its last bytes, the footer, depend on all others."""

    @property
    def digest(self) -> str: ...
    @property
    def old(self) -> OldLibrary | None:
        """A library whose blocks may be shared."""

    def write(self, sink: Sink, /) -> int: ...


def write_blob(fd: int, blob: BlobSource, limit: int | None, machine: str) -> tuple[int, bytes]:
    """Stream a blob to the descriptor's position; its size, and bytes that depend on all of it.

    Raises:
        IncompatibleError: it has more than `limit` bytes.
    """
    start = os.lseek(fd, 0, os.SEEK_CUR)
    whole = not blob.has_digests and blob.digest != "none"
    what = f"a 32-bit library ({machine})"
    if blob.old is None:
        sink = FileSink(fd, limit, what, checksum=whole)
    else:
        sink = SharingSink(blob.old, fd, limit, what, checksum=whole)
    size = blob.write(sink)
    sink.finish()
    if blob.has_digests:  # the footer holds a checksum of the digests
        return size, os.pread(fd, 64, start + size - 64)
    crc = sink.crc if whole else _crc_of_samples(fd, start, size)
    return size, crc.to_bytes(4, "little") + size.to_bytes(8, "little")


def _crc_of_samples(fd: int, start: int, size: int) -> int:
    """What tells blobs without digests apart: all of a small one, of a large one a page out of each MiB, and its end.

    Reading all of it would cost what leaving out the digests saved.
    """
    step, width = (COPY, COPY) if size <= WHOLE else (max(SAMPLED, -(-size // SAMPLES)), SAMPLE)
    crc = 0
    for at in range(0, size, step):
        crc = crc32(os.pread(fd, min(width, size - at), start + at), crc)
    return crc32(os.pread(fd, min(COPY, size), start + size - min(COPY, size)), crc)


def write_all(fd: int, data: memoryview | bytes) -> None:
    """Write everything at the descriptor's position."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left[:COPY]) :]
