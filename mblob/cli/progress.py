"""How far a long write is: one line on a terminal, with rate and time left; nothing anywhere else."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TextIO

from mblob.cli.report import human_size, print_warning

DELAY = 0.5  # seconds before anything is shown; what is done by then needs no progress
INTERVAL = 0.1  # seconds between two lines


class Meter:
    """Counts bytes and draws them.

    Args:
        total: bytes expected.
        stream: where to draw; silent unless it is a terminal.
        quiet: silent in any case.
        clock: seconds, monotonic.
    """

    def __init__(
        self, total: int, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._stream = stream
        self._shown = not quiet and stream.isatty()
        self._clock = clock
        self._done = 0
        self._start: float | None = None  # of the first byte: compiling is no part of the rate
        self._next = 0.0
        self._width = 0

    def advance(self, size: int) -> None:
        """Count `size` more bytes."""
        self._done += size
        if not self._shown:
            return
        now = self._clock()
        if self._start is None:
            self._start = now
            self._next = now + DELAY
        elif now >= self._next:
            self._next = now + INTERVAL
            self._draw(self.line(now - self._start))

    def line(self, seconds: float) -> str:
        """The line to show after `seconds` of writing."""
        rate = self._done / seconds
        text = f"{human_size(self._done)} of {human_size(self._total)}, {human_size(int(rate))}/s"
        if 0 < self._done < self._total:
            text += f", {(self._total - self._done) / rate:.0f} s left"
        return text

    def _draw(self, text: str) -> None:
        text = text[: self._columns() - 1]  # one more, and each drawing would take a line of its own
        self._write("\r" + text.ljust(self._width))
        self._width = len(text)

    def _columns(self) -> int:
        """Of the terminal now: its window may be made narrower meanwhile."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone; the work goes on
            self._shown = False

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._width:
            self._write("\r" + " " * self._width + "\r")


@contextmanager
def remarks(*, quiet: bool) -> Iterator[None]:
    """Print what packing warns of, each time; nothing with `quiet`."""
    from mblob.errors import PortabilityWarning, UnreadableWarning

    with warnings.catch_warnings():
        for category in (PortabilityWarning, UnreadableWarning):
            warnings.simplefilter("always", category)
        if quiet:
            warnings.simplefilter("ignore")
        warnings.showwarning = print_warning
        yield
