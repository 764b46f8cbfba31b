"""A large blob is copied while compilers run: it needs nothing of theirs, only a place in the file
that is known before the linker says how much it puts in front of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path

from mblob.bytes.sink import current_listener, listening
from mblob.format.blob_plan import BLOB_ALIGN, BlobPlan
from mblob.interrupts import held
from mblob.packager.link.request import Cancelled, Request, Triple
from mblob.packager.write.blob_stream import write_blob
from mblob.packager.write.file_sink import OldLibrary

# where the blob is aligned in the file: also the size of a large page; code is rarely more, and the gap is a hole
OFFSET = max(2 << 20, BLOB_ALIGN)  # both are powers of two


class BackgroundCopy:
    """A blob that a thread of its own writes to a file.

    Args:
        path: the file, which is made.
        plan: the blob, which asks for its target when it comes to the index.
        triple: that target.

    Attributes:
        offset: of the blob in the file.
    """

    offset = OFFSET

    def __init__(
        self, path: Path, plan: BlobPlan, triple: Triple, old: OldLibrary | None = None
    ) -> None:
        self._lead = plan.lead or 0
        self.offset += self._lead
        self._path = path
        self._plan = plan
        self._triple = triple
        self._old = old
        self._cancelled = False
        self._result: tuple[int, bytes] | BaseException = Cancelled()
        self._listener = current_listener()
        self._copied = 0
        context = copy_context()  # the file is made first, so that its errors are the caller's
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="mblob-copy", daemon=True
        )
        try:
            held(self._thread.start)
        except RuntimeError:  # there is no thread, which would close it
            os.close(self._fd)
            raise
        except BaseException:
            self._cancelled = True
            self._triple.give_up()
            self._thread.join()
            raise

    def _work(self) -> None:
        try:
            os.lseek(self._fd, self.offset, os.SEEK_SET)
            with listening(self._count):
                self._result = write_blob(
                    self._plan, self._fd, None, "", old=self._old, lead=self._lead
                )
        except BaseException as error:  # belongs to whoever asks for the result
            self._result = error
        finally:
            os.close(self._fd)

    def _count(self, count: int) -> None:
        if self._cancelled:
            raise Cancelled
        self._copied += count
        if self._listener is not None:
            self._listener(count)

    def result(self) -> tuple[int, bytes]:
        """Wait for the end of the copy: what `write_blob` returns.

        Raises:
            What it raises; `Cancelled` if nobody told the triple.
        """
        self._triple.give_up()  # too late to tell it: the caller of this waits
        self._thread.join()
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def cancel(self) -> None:
        """Stop copying, and remove what was copied."""
        if self._cancelled:
            return
        self._cancelled = True
        self._triple.give_up()
        self._thread.join()
        if self._listener is not None:
            self._listener(-self._copied)
        with suppress(FileNotFoundError):
            self._path.unlink()


@contextmanager
def started(path: Path, request: Request) -> Iterator[BackgroundCopy]:
    """The blob on its way to `path`. When the block fails, nothing is left."""
    copy = None
    try:
        copy = BackgroundCopy(path, request.plan, request.triple, request.old)
        yield copy
    except BaseException:
        if copy is not None:
            copy.cancel()
        raise
