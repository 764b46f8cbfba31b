"""Bounds-checked little-endian primitives: docs/format.md, section 1.

`Cursor` is the only way from bytes to fields: it never passes its end and knows where it is.
The `encode_*` functions are its mirror.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from mblob import texts
from mblob.errors import ArgumentTypeError, ArgumentValueError, FormatError, one_line

KEY_LIMIT = 4096  # bytes of a type key; a longer one is damage, not a name


class Cursor:
    """A read position in one blob.

    Attributes:
        data: the bytes being read, read-only.
        pos: offset of the next byte, counted from the first byte of the blob.
        end: offset behind the last byte that may be read.
    """

    __slots__ = ("base", "data", "end", "entry", "pos")

    def __init__(
        self, data: memoryview, pos: int = 0, end: int | None = None, base: int = 0
    ) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end
        self.base = base  # added to offsets in errors
        self.entry: int | None = None  # module being read, for errors

    def fail(self, message: str, code: str = "payload", at: int | None = None) -> FormatError:
        """A FormatError at the current (or given) place."""
        offset = self.base + (self.pos if at is None else at)
        return FormatError(message, code=code, offset=offset, entry=self.entry)

    @property
    def left(self) -> int:
        return self.end - self.pos

    def skip(self, size: int, what: str) -> int:
        """Pass over `size` bytes and return where they start."""
        if size > self.left:
            raise self.fail(f"{what}: needs {size} bytes, {self.left} are left", "truncated")
        start = self.pos
        self.pos += size
        return start

    def take(self, size: int, what: str) -> memoryview:
        """The next `size` bytes, no copy."""
        start = self.skip(size, what)
        return self.data[start : start + size]

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def i64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little", signed=True)

    def i32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little", signed=True)

    def count(self, what: str, item_size: int = 1) -> int:
        """A u64 count of items of at least `item_size` bytes each; refused if they cannot fit."""
        start = self.pos
        count = self.u64(what)
        if count > self.left // item_size:
            raise self.fail(
                f"{what}: {count} items of at least {item_size} bytes, {self.left} bytes are left",
                "truncated",
                start,
            )
        return count

    def string(self, what: str) -> memoryview:
        """A u64 length and that many bytes."""
        return self.take(self.count(what), what)

    def skip_string(self, what: str) -> None:
        self.skip(self.count(what), what)

    def u64s(self, what: str) -> tuple[int, ...]:
        """A u64 count and that many u64."""
        count = self.count(what, 8)
        return struct.unpack(f"<{count}Q", self.take(8 * count, what))

    def key(self, what: str) -> str:
        """A type key: 1 to 4096 bytes of UTF-8, none of them NUL."""
        start = self.pos
        size = self.count(what)
        if not 1 <= size <= KEY_LIMIT:
            raise self.fail(f"{what}: {size} bytes long, expected 1 to {KEY_LIMIT}", "key", start)
        raw = bytes(self.take(size, what))
        if 0 in raw:  # C would read another key than Python
            raise self.fail(f"{what}: {raw[:40]!r} has a NUL byte", "key", start)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what}: {raw[:40]!r} is not UTF-8", "key", start) from None


def encode_u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def encode_string(value: str | bytes) -> bytes:
    """`string`: u64 length, bytes (UTF-8), no terminator.

    Raises:
        TypeError: it is neither text nor bytes.
        ValueError: the text has half of a surrogate pair.
    """
    if not isinstance(value, (str, bytes)):
        raise ArgumentTypeError(texts.say(texts.EXPECTED, "str", type(value).__name__))
    try:
        raw = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise ArgumentValueError(one_line(f"{value!r} is no Unicode text")) from None
    return encode_u64(len(raw)) + raw


def encode_strings(values: Iterable[str | bytes]) -> bytes:
    """`vector<string>`."""
    items = [encode_string(v) for v in values]
    return encode_u64(len(items)) + b"".join(items)


def encode_map(items: Mapping[str, bytes]) -> bytes:
    """`map<string, string>`."""
    pairs = (encode_string(key) + encode_string(value) for key, value in items.items())
    return encode_u64(len(items)) + b"".join(pairs)


def encode_u64s(values: Sequence[int]) -> bytes:
    """`vector<u64>`."""
    return struct.pack(f"<{len(values) + 1}Q", len(values), *values)
