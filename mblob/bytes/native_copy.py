"""The compiled loops of packing and verifying; in a checkout that is not built, what the standard
library has."""

from __future__ import annotations

from collections.abc import Callable

try:
    from mblob.bytes._copy import IS_FAST, copy, crc32, reserve
except ImportError:
    from zlib import crc32

    IS_FAST = False
    copy: Callable[..., tuple[int, int | None]] | None = None  # type: ignore[no-redef]

    def reserve(file: int, offset: int, count: int, /) -> None:
        """Do nothing: a lack of space is found while the file is written."""


__all__ = ["IS_FAST", "copy", "crc32", "reserve"]
