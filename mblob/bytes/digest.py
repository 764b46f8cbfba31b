"""Digests of payloads: docs/format.md, section 4. CRC-32 finds damage, SHA-256 also tampering."""

from __future__ import annotations

from typing import Protocol

from mblob.bytes.native_copy import crc32
from mblob.bytes.sink import advance

CHUNK = 1 << 20  # bytes hashed per step: large against the call, small against caches

ALGORITHMS = {"none": 0, "crc32": 1, "sha256": 2}
ALGORITHM_NAMES = {number: name for name, number in ALGORITHMS.items()}
SIZES = {0: 0, 1: 4, 2: 32}

_ZEROS = memoryview(bytes(CHUNK))


class Hasher(Protocol):
    def update(self, data: memoryview | bytes, /) -> None: ...
    def zeros(self, count: int, /) -> None: ...
    def digest(self) -> bytes: ...


class Crc32:
    """CRC-32 of zlib and IEEE 802.3 as a hasher; the digest is 4 bytes, little endian."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: memoryview | bytes, /) -> None:
        self.value = crc32(data, self.value)

    def zeros(self, count: int, /) -> None:
        self.value = crc32_of_zeros(self.value, count)

    def digest(self) -> bytes:
        return self.value.to_bytes(4, "little")


class _Sha256:
    def __init__(self) -> None:
        import hashlib  # and OpenSSL with it

        self._hash = hashlib.sha256()

    def update(self, data: memoryview | bytes, /) -> None:
        self._hash.update(data)

    def zeros(self, count: int, /) -> None:
        while count > 0:
            self._hash.update(_ZEROS[:count])
            count -= CHUNK

    def digest(self) -> bytes:
        return self._hash.digest()


class _NoDigest:
    def update(self, data: memoryview | bytes, /) -> None:
        pass

    def zeros(self, count: int, /) -> None:
        pass

    def digest(self) -> bytes:
        return b""


def hasher(algorithm: int) -> Hasher:
    """A fresh hasher for a number of docs/format.md (0 none, 1 CRC-32, 2 SHA-256)."""
    if algorithm == 1:
        return Crc32()
    if algorithm == 2:
        return _Sha256()
    return _NoDigest()


_POLYNOMIAL = 0xEDB88320  # reflected: the highest bit is the coefficient of x^0


def _times(a: int, b: int) -> int:
    """The product of two polynomials modulo the CRC's."""
    product = 0
    while a:
        if a & 0x80000000:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def crc32_of_zeros(crc: int, count: int) -> int:
    """`zlib.crc32(bytes(count), crc)` in time that grows with the logarithm of `count`: holes of
    files are not read."""
    power, step = 0x80000000, 0x00800000  # x^0, and x^8: what one byte of zeros multiplies by
    while count:
        if count & 1:
            power = _times(power, step)
        step = _times(step, step)
        count >>= 1
    return _times(crc ^ 0xFFFFFFFF, power) ^ 0xFFFFFFFF


def digest_of(algorithm: int, data: memoryview) -> bytes:
    """Digest of `data`, in steps, so that a huge mapping is never held in memory at once."""
    h = hasher(algorithm)
    for start in range(0, len(data), CHUNK):
        piece = data[start : start + CHUNK]
        h.update(piece)
        advance(len(piece))
    return h.digest()
