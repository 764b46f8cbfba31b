"""A sink for tests."""

from __future__ import annotations

from mblob.bytes.sink import PlainSink


class BytesSink(PlainSink):
    """A blob in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview | bytes, /) -> None:
        self.data += data

    def patch(self, offset: int, data: bytes, /) -> None:
        self.data[offset : offset + len(data)] = data
