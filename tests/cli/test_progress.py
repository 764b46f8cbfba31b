"""Progress: drawn on a terminal when work is long, silent everywhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mblob.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second piece of any work is long work already."""
    pytest.importorskip("tqdm")
    monkeypatch.setattr(progress, "DELAY", 0)


def write(stream: io.StringIO | io.TextIOWrapper, *, quiet: bool = False) -> None:
    with progress.progress(100 << 20, stream, quiet=quiet) as advance:
        for _ in range(3):
            advance(30 << 20)


def test_short_work_shows_nothing() -> None:
    stream = Terminal()
    write(stream)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_long_work_is_drawn_and_wiped() -> None:
    stream = Terminal()
    write(stream)
    assert re.search(r"60%.* 60\.0M/100M ", stream.getvalue())
    assert re.search(r"\r +\r$", stream.getvalue())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_no_terminal_or_quiet_shows_nothing(stream: io.StringIO, quiet: bool) -> None:
    write(stream, quiet=quiet)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("at_once")
def test_without_tqdm_nothing_is_drawn_and_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    write(stream)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("terminals", "at_once")
def test_work_goes_on_when_the_terminal_is_gone() -> None:
    ours, theirs = pty.openpty()
    stream = io.TextIOWrapper(io.FileIO(theirs, "w"), write_through=True)  # type: ignore[arg-type]
    with stream, progress.progress(100, stream) as advance:
        advance(30)
        advance(30)
        os.close(ours)
        for _ in range(30):
            advance(1)
            time.sleep(0.01)
        with pytest.raises(OSError, match="Input/output error"):  # as it really was
            os.write(theirs, b"x")


@pytest.mark.usefixtures("terminals")
@pytest.mark.parametrize("quiet", [False, True])
def test_a_build_draws_on_a_terminal_unless_quiet(tmp_path: Path, quiet: bool) -> None:
    """DELAY is set to nothing, so that a small payload is long work."""
    (tmp_path / "k.c").write_text("int f(void) { return 0; }\n")
    (tmp_path / "payload").write_bytes(bytes(8 << 20))
    code = (
        "import sys; from mblob.cli import main, progress; progress.DELAY = 0;"
        "sys.exit(main.main(sys.argv[1:]))"
    )
    pytest.importorskip("tqdm")
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
            [sys.executable, "-c", code, *command],
            cwd=tmp_path,
            stderr=theirs,
            stdout=subprocess.PIPE,
        )
        os.write(theirs, b"end")
        drawn = b""
        while not drawn.endswith(b"end"):
            drawn += os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, done.stdout) == (0, b"")
    assert (b"/8.00M [" in drawn) == (not quiet)
    assert progress.DELAY > 0


@pytest.mark.sample(4)
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("verb", ["verify", "diff", "extract", "swap", "convert"])
def test_long_verbs_draw_on_stderr_alone(
    verb: str,
    quiet: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each counts the bytes that it goes through, with a rate and the time that is left, once they
    are known."""
    import mblob
    from mblob.bytes import digest
    from mblob.cli.command_line import execute

    monkeypatch.setattr(digest, "CHUNK", 1 << 16)
    for name, byte in (("a", b"a"), ("b", b"b")):
        mblob.blob_module("bulk", bytes(8 << 20) + byte).export_library(tmp_path / f"{name}.so")
    capsys.readouterr()
    stream = Terminal()
    words = {
        "verify": [],
        "diff": [str(tmp_path / "b.so")],
        "extract": ["-o", str(tmp_path / "out")],
        "swap": ["--entry", f"0={tmp_path / 'a.so'}", "-o", str(tmp_path / "new.so")],
        "convert": ["--dialect", "ffi", "-o", str(tmp_path / "new.so")],
    }[verb]
    monkeypatch.setattr(sys, "stderr", stream)
    execute([verb, str(tmp_path / "a.so"), *words, *(["--quiet"] if quiet else [])])
    out = capsys.readouterr().out
    assert "it/s" not in out and "B/s" not in out
    if quiet:
        assert stream.getvalue() == ""
    else:
        assert re.search(r"[0-9]%.*[0-9][kM]?/(8|16)\.[0-9]+M \[.*<.*B/s\]", stream.getvalue())
