"""The reader of `.tar` and `.tar.gz`, as TVM exports them, for what looks and loads. No memory or disk
is used because a header says so.

`convert` has another (packager/edit/convert.py): it takes what else Python unpacks, and copies members
into files, with limits for those.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mblob.errors import FormatError

if TYPE_CHECKING:
    from tarfile import TarInfo

# Bytes that gzip may unpack to: as many, and so many times the file. Libraries pack to a third;
# only zeros to less.
UNPACKED_LEAST, UNPACKED_RATIO = 16 << 20, 100
STEP = 1 << 20


def members(data: memoryview, label: str) -> Iterator[TarInfo]:
    """What is in a tar archive, in order; the bytes of files lie in `data`, in one piece.

    Raises:
        FormatError: "archive".
    """
    import tarfile  # with what compresses, it takes longer to import than all else here

    try:
        with tarfile.open(fileobj=_File(data), mode="r:") as tar:  # type: ignore[call-overload]
            for info in tar:
                start, size = info.offset_data, info.size
                if info.isreg() and info.issparse():
                    raise FormatError.about(
                        f"{label}({info.name})", "stored with holes, unpack it", code="archive"
                    )
                if info.isreg() and size > len(data) - start:
                    raise FormatError.about(
                        f"{label}({info.name})", f"{size} bytes, {max(0, len(data) - start)} are left", code="archive",
                        offset=start,
                    )  # fmt: skip
                yield info
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError.about(label, f"a damaged tar archive: {error}", code="archive") from None


class _File:
    """A view as a file to read from: a copy of the whole would be as large as the archive."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = len(self._data) if size < 0 else min(len(self._data), self._at + size)
        found = bytes(self._data[self._at : end])
        self._at = max(self._at, end)
        return found

    def tell(self) -> int:
        return self._at

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = max(0, at + (0, self._at, len(self._data))[whence])
        return self._at


def unpacked(data: memoryview, label: str) -> memoryview:
    """The content of a gzip file.

    Raises:
        FormatError: "archive": damaged, cut, or larger than UNPACKED_LEAST and UNPACKED_RATIO
            allow.
    """
    import tempfile

    limit = max(UNPACKED_LEAST, UNPACKED_RATIO * len(data))
    inflate = zlib.decompressobj(wbits=31)
    total = 0
    with tempfile.TemporaryFile() as file:
        pending: bytes | memoryview = b""
        for start in range(0, len(data), STEP):
            pending = data[start : start + STEP]
            while len(pending) and not inflate.eof:
                try:
                    piece = inflate.decompress(pending, STEP)
                except zlib.error as error:
                    raise FormatError.about(
                        label, f"damaged gzip: {error}", code="archive", offset=start
                    ) from None
                total += len(piece)
                if total > limit:
                    raise FormatError.about(
                        label,
                        f"unpacks to more than {limit} bytes ({UNPACKED_RATIO} times its size): unpack it"
                        " yourself if you trust it",
                        code="archive",
                    )
                file.write(piece)
                pending = inflate.unconsumed_tail
        if not inflate.eof:
            raise FormatError.about(
                label, f"gzip that ends after {total} bytes: the file is cut", code="archive"
            )
        if total == 0:
            return memoryview(b"")
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), total, access=mmap.ACCESS_READ))
