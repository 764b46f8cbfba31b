"""The sinks that a blob is written into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mblob.bytes.digest import Crc32

STEP = 256 << 10  # bytes per system call; larger ones are slower than `cp` under memory pressure
_ZEROS = memoryview(bytes(STEP))


class Sink(Protocol):
    """Takes the bytes of a blob in order; `PlainSink` has all of it but the first two.

    `room` is the number of bytes up to the next offset at which a piece should start, 1 or more.
    """

    def begin(self, type_key: str, size: int | None, /) -> None:
        """A payload starts here, of so many bytes if that is known."""

    def write(self, data: memoryview | bytes, /) -> None: ...
    def patch(self, offset: int, data: bytes, /) -> None:
        """Overwrite bytes that were written, counted from the start of the blob."""

    def skip(self, count: int, /) -> None:
        """Write `count` zero bytes, as a hole if there are such."""

    def expect(self, count: int, /) -> None:
        """The next `count` bytes are written, none of them as a hole."""

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        """Copy up to `count` bytes at `offset` of a file, and add them to `crc`; how many, 0 if
        that does not work.

        `threads`: how many may work.
        """

    @property
    def room(self) -> int: ...


class PlainSink:
    """The part of a sink that is the same for all that can do nothing better."""

    room = STEP

    def begin(self, type_key: str, size: int | None, /) -> None:
        pass

    def write(self, data: memoryview | bytes, /) -> None:
        raise NotImplementedError

    def skip(self, count: int, /) -> None:
        while count > 0:
            self.write(_ZEROS[:count])
            count -= STEP

    def expect(self, count: int, /) -> None:
        pass

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        return 0
