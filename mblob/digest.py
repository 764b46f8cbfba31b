"""Digests of payloads: docs/format.md, section 4. CRC-32 finds damage, SHA-256 also tampering."""

from __future__ import annotations

import hashlib
import zlib
from typing import Protocol

CHUNK = 1 << 20  # bytes hashed per step: large against the call, small against caches

ALGORITHMS = {"none": 0, "crc32": 1, "sha256": 2}
SIZES = {0: 0, 1: 4, 2: 32}


class Hasher(Protocol):
    def update(self, data: memoryview | bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class Crc32:
    """CRC-32 of zlib and IEEE 802.3 as a hasher; the digest is 4 bytes, little endian."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: memoryview | bytes, /) -> None:
        self.value = zlib.crc32(data, self.value)

    def digest(self) -> bytes:
        return self.value.to_bytes(4, "little")


class _NoDigest:
    def update(self, data: memoryview | bytes, /) -> None:
        pass

    def digest(self) -> bytes:
        return b""


def hasher(algorithm: int) -> Hasher:
    """A fresh hasher for a number of docs/format.md (0 none, 1 CRC-32, 2 SHA-256)."""
    if algorithm == 1:
        return Crc32()
    if algorithm == 2:
        return hashlib.sha256()
    return _NoDigest()


def digest_of(algorithm: int, data: memoryview) -> bytes:
    """Digest of `data`, in steps, so that a huge mapping is never held in memory at once."""
    h = hasher(algorithm)
    for start in range(0, len(data), CHUNK):
        h.update(data[start : start + CHUNK])
    return h.digest()
