"""Packing that is interrupted: signals at every step leave the old file or the new, and nothing
that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob import temporary
from mblob.packager.compile import processes

SCRIPT = textwrap.dedent(
    """
    import os, signal, sys, mblob
    from mblob.packager.link import request
    request.EARLY_COPY_SIZE = 1
    number, at, out, storm = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "storm"
    signal.signal(signal.SIGTERM, lambda n, f: sys.exit(128 + n))
    seen = 0
    def hook(event, args):
        global seen
        if event in ("os.mkdir", "os.rename", "os.chmod", "os.remove", "shutil.rmtree", "subprocess.Popen") or (
            event == "open" and isinstance(args[0], str) and out in args[0]
        ):
            seen += 1
            if seen == at or (storm and seen > at):
                os.kill(os.getpid(), number)
        elif storm and seen >= at and event in ("os.rmdir", "os.scandir", "os.listdir"):
            os.kill(os.getpid(), number)
    root = mblob.csource_module("int f;")
    root.import_module(mblob.blob_module("raw", bytes(3000000)))
    import mblob.packager.link.export, mblob.packager.link.linking
    sys.addaudithook(hook)
    try:
        root.export_library(out + "/x.so")
    finally:
        print(seen)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "stride", "more"),
    [
        pytest.param(signal.SIGINT, 1, "alone", marks=pytest.mark.slow),
        (signal.SIGINT, 5, "alone"),
        (signal.SIGTERM, 4, "alone"),
        (signal.SIGINT, 3, "storm"),
    ],
)
def test_a_signal_at_every_step_leaves_nothing(
    tmp_path: Path, root: Path, number: signal.Signals, stride: int, more: str
) -> None:
    """The signal comes at each call that makes, moves or removes a file: one build for each, or for
    every few. It comes alone, or with others at all such calls from there on, those of the clean-up
    too."""
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp_path / "tmp")}
    outcomes = []
    at = 1
    while True:
        (tmp_path / "out" / "x.so").write_bytes(b"old")
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(int(number)), str(at), str(tmp_path / "out"), more],
            env=environment,
            capture_output=True,
            text=True,
        )
        assert [p.name for p in (tmp_path / "out").iterdir()] == ["x.so"], (at, done.stderr)
        assert list((tmp_path / "tmp").iterdir()) == [], (at, done.stderr)
        outcomes.append((tmp_path / "out" / "x.so").read_bytes() == b"old")
        if done.returncode == 0:
            break
        at += stride
    assert outcomes[0]
    assert not outcomes[-1]
    assert at > 10
    with mblob.open(tmp_path / "out" / "x.so") as lib:
        lib.verify("full")


def test_signals_that_waited_are_delivered_behind_the_block() -> None:
    script = textwrap.dedent(
        """
        import os, signal
        from mblob.interrupts import DeferredSignals, at_the_end
        said = []
        signal.signal(signal.SIGTERM, lambda n, f: said.append("TERM"))
        try:
            with DeferredSignals():
                at_the_end(lambda: (os.kill(os.getpid(), signal.SIGTERM), said.append("first")))
                at_the_end(lambda: (os.kill(os.getpid(), signal.SIGINT), said.append("second")))
        except KeyboardInterrupt:
            said.append("INT")
        assert said == ["second", "first", "INT"], said
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            with DeferredSignals():
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            said.append("INT")
        class Dropped:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGINT)
        import sys
        sys.unraisablehook = lambda what: said.append("lost")
        try:
            with DeferredSignals():
                Dropped()  # Python drops what is raised there
                os.kill(os.getpid(), signal.SIGINT)
                said.append("not reached")
        except KeyboardInterrupt:
            said.append("INT")
        assert said[3:] == ["INT", "lost", "INT"], said
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_signals_while_something_is_held_raise_once_at_its_end() -> None:
    script = textwrap.dedent(
        """
        import os, signal, threading
        from mblob.interrupts import DeferredSignals, held
        said = []
        def twice():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            held(lambda: os.kill(os.getpid(), signal.SIGINT))
            said.append("whole")
        for _ in range(2):
            try:
                with DeferredSignals():
                    held(twice)
                    said.append("not reached")
            except KeyboardInterrupt:
                said.append("INT")
        with DeferredSignals():
            held(lambda: said.append("nothing"))
        assert said == ["whole", "INT", "whole", "INT", "nothing"], said
        def alarm(number, frame):
            raise TimeoutError
        signal.signal(signal.SIGALRM, alarm)
        try:
            with DeferredSignals():
                held(lambda: signal.raise_signal(signal.SIGALRM))
        except TimeoutError:
            said.append("ALRM")
        inside, done = threading.Event(), threading.Event()
        thread = threading.Thread(target=held, args=(lambda: (inside.set(), done.wait()),))
        thread.start()
        inside.wait()
        try:
            with DeferredSignals():
                os.kill(os.getpid(), signal.SIGINT)
                said.append("not reached")
        except KeyboardInterrupt:
            said.append("INT")
        done.set()
        assert said[5:] == ["ALRM", "INT"], said
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_while_a_class_is_made_ends_the_command_as_any_other(
    number: int, code: int
) -> None:
    """Python up to 3.11 raises a RuntimeError then."""
    script = textwrap.dedent(
        """
        import os, signal, sys
        from mblob.cli import command_line, main
        number = int(sys.argv[1])
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        class Named:
            def __set_name__(self, owner, name):
                os.kill(os.getpid(), number)
                for _ in range(1000):
                    pass
        def execute(argv):
            class Made:
                attribute = Named()
        command_line.execute = execute
        main.main()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(int(number))], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == ("mblob-pack: interrupted\n" if number == signal.SIGINT else "")


def test_an_interrupted_build_waits_for_threads_that_have_not_begun(tmp_path: Path) -> None:
    """Python's own end crashes in a thread that begins meanwhile (3.11.2)."""
    script = textwrap.dedent(
        """
        import os, signal, sys, threading
        from pathlib import Path
        from mblob.interrupts import DeferredSignals
        from mblob.packager.compile import processes
        begun = []
        class Late(threading.Thread):
            def start(self):
                os.kill(os.getpid(), signal.SIGINT)
                super().start()
                begun.append(self)
        threading.Thread = Late
        processes.Processes.run = lambda running, command, cwd, started: (0, "")
        try:
            with DeferredSignals():
                processes.run_all([processes.Job("a", ("true",))], Path(sys.argv[1]))
        except KeyboardInterrupt:
            assert len(begun) == 1 and not begun[0].is_alive()
        else:
            raise AssertionError("no interrupt")
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)


def test_a_file_that_an_ended_compiler_still_writes_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mblob.packager.path_arguments import workspace

    calls = []
    real = temporary._empty

    def late(fd: int) -> None:
        real(fd)
        calls.append(fd)
        if len(calls) == 1:
            (work / "late.o").touch()

    monkeypatch.setattr(temporary, "_empty", late)
    with workspace(None) as work:
        pass
    assert not work.exists()
    assert len(calls) == 2


def test_what_a_compiler_started_ends_with_it(
    tmp_path: Path, processes_with: Callable[[str], list[str]]
) -> None:
    mark = tmp_path / "started"
    (tmp_path / "cc").write_text(
        f"#!/bin/sh\n(trap '' TERM; echo > {mark}; sleep 300; sleep 300) &\nwait\n"
    )
    (tmp_path / "cc").chmod(0o755)
    running = processes.Processes()
    real = subprocess.Popen.communicate

    def interrupted(self: Any, *args: Any, **kwargs: Any) -> Any:
        while not mark.exists():
            os.sched_yield()
        raise KeyboardInterrupt

    subprocess.Popen.communicate = interrupted  # type: ignore[method-assign]
    try:
        with pytest.raises(KeyboardInterrupt):
            running.run([str(tmp_path / "cc")], tmp_path)
    finally:
        subprocess.Popen.communicate = real  # type: ignore[method-assign]
    assert processes_with(str(mark)) == []


def test_a_thread_that_hangs_does_not_keep_a_process_that_is_to_end(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import os, signal, sys, threading
        from pathlib import Path
        from mblob.packager.compile import processes
        processes._PATIENCE = 0.01
        signal.signal(signal.SIGTERM, lambda n, f: sys.exit(128 + n))
        def hangs(running, command, cwd, started):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()
        processes.Processes.run = hangs
        processes.run_all([processes.Job("a", ("true",))], Path(sys.argv[1]))
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=120)
    assert done.returncode == 128 + signal.SIGTERM
