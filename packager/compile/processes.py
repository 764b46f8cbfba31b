"""Running compilers and linkers: the only place of the packager that starts processes.

Processes get their own group, so that an interrupt can end a compiler together with what it
started.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from mblob.arguments import path as checked_path
from mblob.compilers import ProcessStart, as_by_default, first_error
from mblob.errors import ToolchainError
from mblob.interrupts import held
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError, warn
from mblob.temporary import LEAST_SPACE

Result = TypeVar("Result")
Command = tuple[str, ...]


def _check_word(word: str) -> None:
    try:
        checked_path(word)
    except ValueError:
        raise BuildError(
            f"no command can have the word {word!r}, which has a NUL in it or is no Unicode text; check options=, cc="
            " and target="
        ) from None


class Processes:
    """Runs commands, and can end all of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        cwd: Path | None = None,
        started: Callable[[], object] = lambda: None,
    ) -> tuple[int, str]:
        """Exit status and everything printed.

        Args:
            started: called when the program runs: what takes the interpreter before, such as imports,
                delays its start.

        Raises:
            ToolchainError: the program cannot be started.
        """
        environment = {**os.environ, "LC_ALL": "C"}
        if cwd is not None:
            environment["TMPDIR"] = str(cwd)  # which is removed, whatever happens
            # For ccache the folder, which has another name each time, is none; nor is it one in
            # what is compiled.
            environment.setdefault("CCACHE_BASEDIR", str(cwd))
            environment.setdefault("CCACHE_NOHASHDIR", "1")
        starting = ProcessStart(lambda: self._start(command, cwd, environment))
        try:
            process = starting.wait()
            if process is None:
                return -signal.SIGTERM, ""
            started()
            output, _ = process.communicate()
        except BaseException:
            if begun := starting.begun():
                self._end(begun)
                assert begun.stdout is not None
                begun.stdout.close()
            raise
        finally:
            with self._lock:
                self._running -= {starting.process}
        return process.returncode, output.decode(errors="replace")

    def _start(
        self, command: Sequence[str], cwd: Path | None, environment: dict[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """A process; None once all are to end."""
        with self._lock:
            if self._stopped:
                return None
            try:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=environment,
                    preexec_fn=as_by_default(),
                )
            except ValueError:
                for word in command:
                    _check_word(word)
                raise
            except OSError as exc:
                raise ToolchainError(
                    f"{command[0]}: cannot be started: {exc.strerror}; check cc= and $CC",
                    command=command,
                ) from None
            self._running.add(process)
            return process

    def stop(self) -> None:
        """End everything that runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started; compilers get a moment to remove their temporary
        files."""
        if process.returncode is not None:  # waited for: its number may be another's by now
            return
        # Twice SIGKILL: what a compiler started may live longer than it does.
        for number, patience in (
            (signal.SIGTERM, 2.0),
            (signal.SIGKILL, None),
            (signal.SIGKILL, None),
        ):
            with suppress(OSError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)


class Job(NamedTuple):
    """A compilation.

    Attributes:
        culprit: what messages call the source.
        command: the command line.
        words: makes what the compiler prints of it that of the source as its author knows it.
        compiler: the words that the command starts with, of a compiler that follows gcc's command
            line; () of others.
        before: makes the source, while jobs that have theirs run.
        is_fortran: it runs behind those before it that are, too, whose modules it may use.
        on_output: called with what the compiler printed.
    """

    culprit: str
    command: Command
    words: Callable[[str], str] = str
    compiler: Command = ()
    before: Callable[[], object] | None = None
    is_fortran: bool = False
    on_output: Callable[[str], object] | None = None

    @property
    def output(self) -> str:
        """The file that the command writes: the word behind the last `-o`, or "" without one."""
        words = self.command
        places = [i for i, word in enumerate(words[:-1]) if word == "-o"]
        return words[places[-1] + 1] if places else ""


def run_all(jobs: Sequence[Job], cwd: Path, meanwhile: Callable[[], object] | None = None) -> None:
    """Run compilations in parallel, as many at a time as there are processors.

    Args:
        meanwhile: called while they run, once all sources are made: what compiles longest may be
            waiting for its source. And once as many run as can: who starts a compiler waits for no imports.

    Raises:
        ToolchainError: one failed; the others are ended.
    """
    if not jobs:
        return
    processes = Processes()
    made = threading.Event()

    def task(row: Sequence[Job], started: Callable[[], object]) -> list[tuple[int, str]]:
        if row[0].before is not None:
            made.wait()
        done: list[tuple[int, str]] = []
        for job in row:
            done.append(processes.run(job.command, cwd, started))
            if done[-1][0]:
                break
        return done

    def make_sources() -> None:
        for job in jobs:
            if job.before is not None:
                job.before()
        made.set()

    def stop() -> None:
        processes.stop()
        made.set()  # for nothing

    in_order = [job for job in jobs if job.is_fortran]
    rows = [*([in_order] if in_order else []), *([job] for job in jobs if not job.is_fortran)]
    results = _in_parallel([partial(task, row) for row in rows], stop, make_sources, meanwhile)
    for job, (status, output) in (
        pair for row, done in zip(rows, results) for pair in zip(row, done)
    ):
        if status:
            check_space(job.command, output, cwd)
            output = job.words(output)
            raise ToolchainError(
                f"{job.culprit}: does not compile: {failure(output, status, job.command)}",
                command=job.command,
                output=output,
            )
        check_written(job.command, output, cwd, job.culprit)
        if job.on_output is not None:
            job.on_output(output)


# What C has not allowed since 1999, so that newer compilers refuse it: the code calls what it does not mean.
_REFUSED = re.compile(
    r"\[-W(implicit-(function-declaration|int)|int-conversion|incompatible-pointer-types)\b"
)
_NO_WARNINGS = ("-Wl,", "-Wa,", "-Wp,", "-Wno-")  # other options that begin so
_SHOWN = 6


def warn_of_remarks(words: Callable[[str], str], options: Sequence[str], output: str) -> None:
    """Warn of what a compiler warned of, in a source that it compiled: of all if the options ask for
    warnings, else of what newer compilers refuse.

    Args:
        words: as of `Job`.
        output: all that it printed.
    """
    asks = any(o.startswith("-W") and not o.startswith(_NO_WARNINGS) for o in options)
    lines = [line for line in words(output).splitlines() if ": warning: " in line]
    found = [line for line in dict.fromkeys(lines) if asks or _REFUSED.search(line)]
    for line in found[:_SHOWN]:
        warn(line.replace(": warning: ", ": ", 1))


def _in_parallel(
    tasks: Sequence[Callable[[Callable[[], object]], Result]],
    stop: Callable[[], None],
    prepare: Callable[[], object],
    meanwhile: Callable[[], object] | None,
) -> list[Result]:
    """The results of tasks, of which as many run at a time as there are processors.

    Args:
        tasks: each calls its argument when its process runs.
        stop: makes tasks end soon; called when one raised or this is interrupted, and at the end.
        prepare: called first; tasks may wait for it.
        meanwhile: called when the first process of each thread runs.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    waiting = deque(enumerate(tasks))
    started = threading.Semaphore(0)

    def work() -> None:
        with suppress(IndexError):
            while not errors:
                number, task = waiting.popleft()
                try:
                    results[number] = task(started.release)
                except BaseException as error:  # it is raised below
                    errors.append(error)
                    stop()
        started.release()

    # Daemons: one that hangs, in a file system say, does not keep a process that is to end.
    threads = [
        threading.Thread(target=work, daemon=True)
        for _ in range(min(len(tasks), os.cpu_count() or 1))
    ]
    try:
        held(lambda: deque(map(threading.Thread.start, threads), maxlen=0))
        held(prepare)
        if meanwhile is not None:
            for _ in threads:
                started.acquire()
            held(meanwhile)  # it imports
        for thread in threads:
            thread.join()
    finally:
        stop()
        for thread in threads:
            if thread.is_alive():
                thread.join(_PATIENCE)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]


_PATIENCE = 5.0  # seconds for a thread to end after what it waits for has been ended


def check_written(command: Sequence[str], output: str, cwd: Path, culprit: str) -> Path | None:
    """The file that a command named by `-o`, after it said that all went well; None without such a
    word.

    Raises:
        ToolchainError: it did not write it.
    """
    words = list(command)
    if "-o" not in words[:-1]:
        return None
    target = cwd / words[words.index("-o") + 1]
    if not target.exists() or not target.stat().st_size:
        # In a process that ignores SIGCHLD the exit status is lost, and reads as 0.
        said = first_error(output, command)
        raise ToolchainError(
            f"{culprit}: {said}"
            if said
            else f"{culprit}: the tool ended well but wrote nothing to {target.name}; is {words[0]} what it should be?",
            command=command,
            output=output,
        )
    return target


def failure(output: str, status: int, command: Sequence[str]) -> str:
    """The error of a tool that failed, in one line: its message, its signal or its exit status."""
    return first_error(output, command) or (
        f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    )


_FULL = r"(?i)no space left on device|disk quota exceeded"


def check_space(command: Sequence[str], output: str, cwd: Path) -> None:
    """After a tool failed: tell a full disk from a fault of its input. Some linkers say nothing,
    they crash.

    Raises:
        OSError: there is no room for what it was to write; the file name is that.
    """
    words = list(command)
    target = cwd / (words[words.index("-o") + 1] if "-o" in words[:-1] else "output")
    free = {path: shutil.disk_usage(path.parent).free for path in (target, cwd / "temporary files")}
    path = min(free, key=lambda p: free[p])
    if free[path] < LEAST_SPACE or re.search(_FULL, output):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
