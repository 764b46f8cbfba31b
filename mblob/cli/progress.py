"""Progress of long work, drawn by tqdm (the extra `cli`) on a terminal, and warnings of packing."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from mblob.bytes.sink import listening
from mblob.cli.report import print_warning
from mblob.errors import HiddenNameWarning, PortabilityWarning, UnreadableWarning

_ROOM = {"ncols": 80, "nrows": 24}  # of a terminal that tells no size, such as a serial line
DELAY = 0.5  # seconds from the first byte on before anything is shown, or tqdm imported


@contextmanager
def progress(total: int, stream: TextIO, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Draw how much is done while the block runs; it calls what it is given with each number of
    bytes.

    Args:
        total: bytes expected.
        stream: where to draw; nothing is drawn unless it is a terminal.
        quiet: draw nothing in any case.
    """
    if quiet or not stream.isatty():
        yield lambda size: None
        return
    done, start, bar = 0, None, None

    def advance(size: int) -> None:
        nonlocal done, start, bar
        done += size
        if bar is not None:
            bar.update(size)
        elif start is None:
            start = time.monotonic()
        elif time.monotonic() - start >= DELAY:
            start = float("inf")  # one try
            bar = _bar(total, done, stream)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.close()


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress on a terminal, no warnings"
    )


@contextmanager
def watched_files(args: argparse.Namespace, *files: str) -> Iterator[None]:
    """Draw how far the block is: it goes through about as many bytes as these files have."""
    total = sum(p.stat().st_size for p in map(Path, files) if p.is_file())
    with progress(total, sys.stderr, quiet=args.quiet) as shown, listening(shown):
        yield


def _bar(total: int, done: int, stream: TextIO) -> Any:
    """A bar of tqdm; None where it is not installed."""
    from mblob.interrupts import held

    try:
        held(lambda: import_module("tqdm"))
        from tqdm import tqdm
    except ImportError:
        return None
    tqdm.monitor_interval = 0  # no thread of its own
    try:
        size = os.get_terminal_size(stream.fileno())
        room: dict[str, Any] = {"dynamic_ncols": True} if size.columns and size.lines else _ROOM
    except (OSError, ValueError):
        room = _ROOM
    return tqdm(
        total=total or None,
        initial=done,
        file=stream,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        **room,
    )


@contextmanager
def remarks(*, quiet: bool) -> Iterator[None]:
    """Print what packing warns of, each time; nothing with `quiet`."""
    with warnings.catch_warnings():
        for category in (HiddenNameWarning, PortabilityWarning, UnreadableWarning):
            warnings.simplefilter("always", category)
        if quiet:
            warnings.simplefilter("ignore")
        warnings.showwarning = print_warning
        yield
