"""The one reader of `.tar`, plain or compressed, for what looks, loads and converts: what one of them
refuses, all refuse. No memory or disk is used because a header says so.
"""

from __future__ import annotations

import mmap
import posixpath
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from mblob.binary.file_kind import (
    BZIP2_MAGIC,
    GZIP_MAGIC,
    SNIFF_SIZE,
    XZ_MAGIC,
    is_compressed,
    linkable_kind,
)
from mblob.errors import FormatError
from mblob.named_tuple import NamedTuple

# Bytes that a compressed file may unpack to: as many, and so many times the file. Libraries pack to
# a third; only zeros to less.
UNPACKED_LEAST, UNPACKED_RATIO = 16 << 20, 100
STEP = 1 << 18
XZ_MEMORY = 128 << 20  # bytes that unpacking may need; `xz -9` makes files that need 65 MiB
STREAM_LIMIT = 1 << 14  # compressed streams in a row, as parallel compressors write them
MEMBER_LIMIT = 1 << 14  # members of one file


class File(NamedTuple):
    """A file in a tar archive: its bytes lie in the archive, in one piece."""

    name: str
    offset: int
    size: int


def files(data: memoryview, label: str) -> Iterator[File]:
    """The files in a tar archive, in order; folders are left out.

    Raises:
        FormatError: "tar_path": a member is a link or a device, or its name leads out of the
            archive; "archive": one is there twice or stored with holes, or the archive is damaged,
            has too many members, or is followed by something.
    """
    import tarfile  # with what compresses, it takes longer to import than all else here

    names: set[str] = set()
    try:
        with tarfile.open(fileobj=_File(data), mode="r:") as tar:  # type: ignore[call-overload]
            for count, info in enumerate(tar):
                if count == MEMBER_LIMIT:
                    raise FormatError.about(
                        label,
                        f"more than {MEMBER_LIMIT} members",
                        code="archive",
                        offset=info.offset,
                    )
                yield from _checked(info, data, label, names)
            _check_rest(data, tar.offset, label)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError, EOFError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError.about(label, f"a damaged tar archive: {error}", code="archive") from None


def _checked(info: Any, data: memoryview, label: str, names: set[str]) -> Iterator[File]:
    """A member, if it is a file. `names`: of those before it."""
    who, start, size = f"{label}({info.name})", info.offset_data, info.size
    if info.name.startswith("/") or ".." in info.name.split("/"):
        raise FormatError.about(
            who, "its name leads out of the archive; expected a name in it", code="tar_path"
        )
    if info.isdir():
        return
    if not info.isreg():
        raise FormatError.about(
            who, "it is a link or a device, expected plain files", code="tar_path"
        )
    if info.issparse():
        raise FormatError.about(who, "stored with holes, unpack it", code="archive")
    if size > len(data) - start:
        left = max(0, len(data) - start)
        raise FormatError.about(
            who, f"{size} bytes, {left} are left: the file is cut", code="archive", offset=start
        )
    name = posixpath.normpath(info.name)
    if name in names:
        raise FormatError.about(
            who,
            "it is there twice; expected each name once: write the archive anew",
            code="archive",
        )
    names.add(name)
    yield File(info.name, start, size)


_BLOCK = 512  # an archive is some of these


def _check_rest(data: memoryview, end: int, label: str) -> None:
    """Only zeros follow the end of an archive; another archive there would be lost."""
    for at in range(end, len(data), STEP):
        if bytes(data[at : at + STEP]).strip(b"\0"):
            if len(data) % _BLOCK:
                raise FormatError.about(
                    label, f"the tar archive is cut after {len(data)} bytes", code="archive"
                )
            raise FormatError.about(
                label,
                "something follows the end of the tar archive; expected one archive",
                code="archive",
                offset=end,
            )


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


def content(data: memoryview, label: str) -> memoryview:
    """A tar archive as it is before it is compressed by gzip, bzip2 or xz; one that is not
    compressed as it is.

    Raises:
        FormatError: "archive": damaged, cut, or larger than UNPACKED_LEAST and UNPACKED_RATIO
            allow.
    """
    start = bytes(data[:8])
    kind = next((kind for kind in _KINDS if start.startswith(kind.magic)), None)
    if kind is None:
        return data
    found = _unpacked(data, label, kind)
    begins = bytes(found[:SNIFF_SIZE])
    if linkable_kind(begins) != "tar" or is_compressed(begins):
        raise FormatError.about(
            label, "a compressed file, but no tar archive is in it", code="archive"
        )
    return found


class _Kind(NamedTuple):
    """A kind of compression.

    Attributes:
        begin: makes what unpacks one stream.
    """

    name: str
    magic: bytes
    begin: Callable[[], Any]


def _bzip2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=XZ_MEMORY)


_KINDS = (
    _Kind("gzip", GZIP_MAGIC, lambda: zlib.decompressobj(wbits=31)),
    _Kind("bzip2", BZIP2_MAGIC, _bzip2),
    _Kind("xz", XZ_MAGIC, _xz),
)


def _unpacked(data: memoryview, label: str, kind: _Kind) -> memoryview:
    import tempfile

    limit = max(UNPACKED_LEAST, UNPACKED_RATIO * len(data))
    total = 0
    with tempfile.TemporaryFile() as file:
        for piece in _pieces(data, label, kind):
            total += len(piece)
            if total > limit:
                raise FormatError.about(
                    label,
                    f"unpacks to more than {limit} bytes ({UNPACKED_RATIO} times its size): unpack it"
                    " yourself if you trust it",
                    code="archive",
                )
            file.write(piece)
        if total == 0:
            return memoryview(b"")
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), total, access=mmap.ACCESS_READ))


def _pieces(data: memoryview, label: str, kind: _Kind) -> Iterator[bytes]:
    """The contents of compressed streams: one file may have several, with zeros between them."""

    def fail(message: str, at: int | None = None) -> FormatError:
        return FormatError.about(label, message, code="archive", offset=at)

    given: bytes | memoryview = b""  # what was read, and is not unpacked
    at = total = 0
    for _ in range(STREAM_LIMIT):
        try:
            stream = kind.begin()
        except ImportError:
            raise fail(f"packed by {kind.name}, which this Python cannot unpack") from None
        while not stream.eof:
            if not given and getattr(stream, "needs_input", True):
                given = data[at : at + STEP]
                at += len(given)
                if not given:
                    raise fail(f"{kind.name} that ends after {total} bytes: the file is cut")
            try:
                piece = stream.decompress(given, STEP)
            except Exception as error:  # each module has its own
                raise fail(f"damaged {kind.name}: {error}", max(0, at - STEP)) from None
            given = getattr(stream, "unconsumed_tail", b"")
            total += len(piece)
            yield piece
        given = stream.unused_data.lstrip(b"\0")
        while not given and at < len(data):
            given = bytes(data[at : at + STEP]).lstrip(b"\0")
            at = min(len(data), at + STEP)
        if not given:
            return
        begins = bytes(given[: len(kind.magic)]) + bytes(data[at : at + len(kind.magic)])
        if not begins.startswith(kind.magic):
            raise fail(f"something follows the end of the {kind.name} data", at - len(given))
    raise fail(f"more than {STREAM_LIMIT} {kind.name} streams")
