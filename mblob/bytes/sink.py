"""The sinks that a blob is written into, and the listener to the progress of long work: the command line, which draws
it on a terminal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mblob.bytes.digest import Crc32

STEP = 256 << 10  # bytes per system call; larger ones are slower than `cp` under memory pressure
_ZEROS = memoryview(bytes(STEP))


class Sink(ABC):
    """Base of what takes the bytes of a blob in order. A sink has `write` and `patch`; what it can do
    better, it overrides."""

    @property
    def room(self) -> int:
        """Bytes up to the next offset at which a piece should start, 1 or more."""
        return STEP

    def begin(self, type_key: str, size: int | None, /) -> None:  # noqa: B027  (few want it)
        """A payload starts here, of so many bytes if that is known."""

    @abstractmethod
    def write(self, data: memoryview | bytes, /) -> None:
        """Write the next bytes."""

    @abstractmethod
    def patch(self, offset: int, data: bytes, /) -> None:
        """Overwrite bytes that were written, counted from the start of the blob."""

    def skip(self, count: int, /) -> None:
        """Write `count` zero bytes, as a hole if there are such."""
        while count > 0:
            self.write(_ZEROS[:count])
            count -= STEP

    def expect(self, count: int, /) -> None:  # noqa: B027
        """The next `count` bytes are written, none of them as a hole."""

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        """Copy up to `count` bytes at `offset` of a file, and add them to `crc`; how many, 0 if
        that does not work.

        `threads`: how many may work.
        """
        return 0


class BytesSink(Sink):
    """A blob in memory, all of it in `data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: memoryview | bytes, /) -> None:
        self.data += data

    def patch(self, offset: int, data: bytes, /) -> None:
        self.data[offset : offset + len(data)] = data


# -- progress ----------------------------------------------------------------------------------------

Listener = Callable[[int], None]

_listener: ContextVar[Listener | None] = ContextVar("mblob_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """While the block runs, call `listener(n)` after every `n` bytes that this thread writes,
    compares or holds against a digest."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current_listener() -> Listener | None:
    """The listener to this thread, None if there is none."""
    return _listener.get()


def advance(size: int) -> None:
    """Tell the listener that `size` more bytes are done."""
    listener = _listener.get()
    if listener is not None:
        listener(size)


class _CountedSink(Sink):
    """A sink that tells the listener what it was given."""

    def __init__(self, sink: Sink, listener: Listener) -> None:
        self._sink = sink
        self._listener = listener

    def begin(self, type_key: str, size: int | None, /) -> None:
        self._sink.begin(type_key, size)

    def write(self, data: memoryview | bytes, /) -> None:
        self._sink.write(data)
        self._listener(len(data))

    def skip(self, count: int, /) -> None:
        self._sink.skip(count)
        self._listener(count)

    def expect(self, count: int, /) -> None:
        self._sink.expect(count)

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        done = self._sink.take(fd, offset, count, crc, threads)
        self._listener(done)
        return done

    @property
    def room(self) -> int:
        return self._sink.room

    def patch(self, offset: int, data: bytes, /) -> None:
        self._sink.patch(offset, data)


def watched(sink: Sink) -> Sink:
    """`sink`, or if somebody listens one that reports what it is given and passes it on."""
    listener = _listener.get()
    return sink if listener is None else _CountedSink(sink, listener)
