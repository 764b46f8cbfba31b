"""Progress: drawn on a terminal when work is long, silent everywhere else."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from mblob.cli import progress
from mblob.cli.progress import Meter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rate_and_time_left_are_shown() -> None:
    meter = Meter(4 << 20, Terminal())
    meter.advance(1 << 20)
    assert meter.line(2.0) == "1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6 s left"


def test_short_work_shows_nothing() -> None:
    stream = Terminal()
    with Meter(100, stream, clock=iter([0.0, 0.1, 0.2]).__next__) as meter:
        for _ in range(3):
            meter.advance(30)
    assert stream.getvalue() == ""


def test_long_work_is_drawn_and_wiped() -> None:
    stream = Terminal()
    with Meter(100, stream, clock=iter([0.0, 1.0, 2.0]).__next__) as meter:
        for _ in range(3):
            meter.advance(30)
    assert "60 B of 100 B, 60 B/s, 1 s left" in stream.getvalue()
    assert stream.getvalue().endswith(" \r")


def pty_of(columns: int) -> tuple[int, io.TextIOWrapper]:
    """A terminal so wide: what sees what is drawn, and what to draw on."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return ours, io.TextIOWrapper(io.FileIO(theirs, "w"), write_through=True)  # type: ignore[arg-type]


@pytest.mark.usefixtures("terminals")
def test_a_line_fits_on_a_narrow_terminal() -> None:
    ours, theirs = pty_of(20)
    with theirs, Meter(100, theirs, clock=iter([0.0, 1.0, 2.0]).__next__) as meter:
        for _ in range(3):
            meter.advance(30)
        drawn = os.read(ours, 65536).split(b"\r")
    os.close(ours)
    assert drawn[1] == b"60 B of 100 B, 60 B"
    assert max(map(len, drawn)) < 20


@pytest.mark.usefixtures("terminals")
def test_work_goes_on_when_the_terminal_is_gone() -> None:
    ours, theirs = pty_of(80)
    with theirs:
        with Meter(100, theirs, clock=iter([0.0, 1.0, 2.0]).__next__) as meter:
            meter.advance(30)
            os.close(ours)
            meter.advance(30)
            meter.advance(30)
        with pytest.raises(OSError, match="Input/output error"):  # as it really was
            os.write(theirs.fileno(), b"x")


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_no_terminal_or_quiet_shows_nothing(stream: io.StringIO, quiet: bool) -> None:
    with Meter(100, stream, quiet=quiet, clock=iter([0.0, 1.0, 2.0]).__next__) as meter:
        for _ in range(3):
            meter.advance(30)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("terminals")
@pytest.mark.parametrize("quiet", [False, True])
def test_a_build_draws_on_a_terminal_unless_quiet(tmp_path: Path, quiet: bool) -> None:
    """DELAY is set to nothing, so that a small payload is long work."""
    (tmp_path / "k.c").write_text("int f(void) { return 0; }\n")
    (tmp_path / "payload").write_bytes(bytes(8 << 20))
    code = (
        "import sys; from mblob.cli import main, progress; progress.DELAY = progress.INTERVAL = 0;"
        "sys.exit(main.main(sys.argv[1:]))"
    )
    command = [
        "build",
        "--kernel",
        "k.c",
        "--blob",
        "raw=payload",
        "-o",
        "k.so",
        *(["--quiet"] if quiet else []),
    ]
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *command], cwd=tmp_path, stderr=theirs, stdout=subprocess.PIPE
        )
        os.write(theirs, b"end")
        drawn = b""
        while not drawn.endswith(b"end"):
            drawn += os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"")
    assert (b" of 8.0 MiB, " in drawn) == (not quiet)
    assert progress.DELAY > 0
