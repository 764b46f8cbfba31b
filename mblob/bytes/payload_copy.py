"""Copying payloads into a blob, and taking their digests on the way: in the copy loop, or on a
second thread.

Every piece of a payload is hashed and written from one buffer, so the digest is that of the bytes
that were written, whatever happens to the file meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from mblob.bytes.digest import ALGORITHMS, Crc32, Hasher, hasher
from mblob.bytes.native_copy import IS_FAST
from mblob.bytes.payload_source import FilePart, OpenFile, Payload
from mblob.bytes.sink import STEP, Sink

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# bytes that the second thread gets at a time: less, and handing over costs more than it saves
HANDED = 1 << 20
LARGE = 8 << 20  # bytes from which a second thread that hashes is worth its start
# bytes from which two threads copy; what they save of less is a few ms, for as many of CPU time
SHARED = 96 << 20


class Copier:
    """Copies the payloads of one blob, one after the other.

    Args:
        sink: where to.
        algorithm: of the digests, a number of docs/format.md.

    Where there is another processor, a thread takes the digest of a large payload if that takes
    longer than the copy, and the sink may use two threads.
    """

    def __init__(self, sink: Sink, algorithm: int) -> None:
        self._sink = sink
        self._algorithm = algorithm
        is_quick = algorithm == ALGORITHMS["crc32"] and IS_FAST
        self._threads = min(2, len(os.sched_getaffinity(0)))
        self._threaded = algorithm != 0 and not is_quick and self._threads > 1
        self._beside: ThreadPoolExecutor | None = None

    def __enter__(self) -> Copier:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._beside is not None:
            self._beside.shutdown()

    def copy(self, payload: Payload) -> tuple[int, bytes]:
        """Write a payload; its size and digest.

        Raises:
            What the payload and the sink raise.
        """
        value = hasher(self._algorithm)
        if isinstance(payload, FilePart):
            with payload.opened() as file:
                size = self._copy_file(file, value)
        else:
            size = 0
            for piece in payload.chunks():
                self._sink.expect(len(piece))
                threaded = self._threaded and len(piece) >= LARGE
                size += self._copy_buffer(memoryview(piece), value, threaded)
        return size, value.digest()

    def _copy_buffer(self, data: memoryview, value: Hasher, threaded: bool) -> int:
        """Write and hash a buffer in steps, between which an interrupt is seen and progress is
        shown."""
        step = HANDED if threaded else STEP
        at = 0
        while at < len(data):
            end = at + (step - STEP + self._sink.room)
            self._pass_on(data[at:end], value, threaded)
            at = end
        return len(data)

    def _copy_file(self, file: OpenFile, value: Hasher) -> int:
        threaded = self._threaded and file.size >= LARGE
        buffer = memoryview(bytearray(HANDED if threaded else STEP))
        copied = 0
        for start, count, is_hole in file.extents():
            if is_hole:
                value.zeros(count)
                self._sink.skip(count)
            else:
                sure = min(count, file.size)  # some files do not say how many bytes they have
                self._sink.expect(sure)
                done = self._take(file, start, count, value, self._threads if sure >= SHARED else 1)
                for piece in self._pieces(file, start + done, count - done, buffer):
                    self._pass_on(piece, value, threaded)
                    done += len(piece)
                if done < count:
                    file.fail(start + done)
                count = done
            copied += count
        return copied

    def _take(self, file: OpenFile, start: int, count: int, value: Hasher, threads: int) -> int:
        """Let the sink do it as far as it can."""
        crc = value if isinstance(value, Crc32) else None
        done = 0
        if self._threaded or (self._algorithm and crc is None):
            return done
        while done < count and (
            n := self._sink.take(file.fd, start + done, count - done, crc, threads)
        ):
            done += n
        return done

    def _pieces(
        self, file: OpenFile, at: int, count: int, buffer: memoryview
    ) -> Iterator[memoryview]:
        """The bytes as they are read; each piece ends where the next should start in the sink."""
        while count and (
            n := file.read(buffer[: min(count, len(buffer) - STEP + self._sink.room)], at)
        ):
            yield buffer[:n]
            at += n
            count -= n

    def _pass_on(self, piece: memoryview, value: Hasher, threaded: bool) -> None:
        if not threaded:
            value.update(piece)
            self._sink.write(piece)
            return
        if self._beside is None:
            from concurrent.futures import ThreadPoolExecutor

            self._beside = ThreadPoolExecutor(1, "mblob-digest")
        try:
            hashed = self._beside.submit(value.update, piece)
        except RuntimeError:  # the interpreter ends, and starts no thread any more
            self._pass_on(piece, value, threaded=False)
            return
        try:
            self._sink.write(piece)
        finally:
            hashed.result()  # the buffer is the next piece's from here on
