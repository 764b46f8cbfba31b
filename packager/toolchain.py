"""The compilers: found, asked, run. The only place that starts processes.

Processes get their own group, so that an interrupt can end a compiler together with what it started.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from mblob.errors import IncompatibleError, ToolchainError

Command = tuple[str, ...]

C_COMPILERS = ("cc", "gcc", "clang")
CXX_COMPILERS = ("c++", "g++", "clang++")


# -- processes ------------------------------------------------------------------------------------------


class Processes:
    """Runs commands, and can end all of them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, command: Sequence[str], cwd: Path | None = None) -> tuple[int, str]:
        """Exit status and everything printed.

        Raises:
            ToolchainError: the program cannot be started.
        """
        environment = {**os.environ, "LC_ALL": "C"}
        if cwd is not None:
            environment["TMPDIR"] = str(cwd)  # which is removed, whatever happens
        with self._lock:
            if self._stopped:
                return -signal.SIGTERM, ""
            try:
                process = subprocess.Popen(
                    command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, start_new_session=True, env=environment,
                )  # fmt: skip
            except OSError as exc:
                raise ToolchainError(
                    f"{command[0]}: cannot be started: {exc.strerror}; check cc= and $CC", command=command
                ) from None
            self._running.add(process)
        try:
            output, _ = process.communicate()
        except BaseException:
            self._end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, output.decode(errors="replace")

    def stop(self) -> None:
        """End everything that runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started; compilers get a moment to remove their temporary files."""
        for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, None)):
            if process.poll() is not None:
                return
            with suppress(OSError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)


@dataclass(frozen=True)
class Job:
    """A compilation.

    Attributes:
        culprit: what messages call the source.
        command: the command line.
    """

    culprit: str
    command: Command


def run_all(jobs: Sequence[Job], cwd: Path) -> None:
    """Run compilations in parallel, as many at a time as there are processors.

    Raises:
        ToolchainError: one failed; the others are ended.
    """
    if not jobs:
        return
    processes = Processes()
    pool = ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1))
    try:
        futures = [pool.submit(processes.run, job.command, cwd) for job in jobs]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
        results = [future.result() for future in futures]
    finally:
        # Reached early only by an interrupt or a compiler that cannot be started.
        processes.stop()
        pool.shutdown(wait=True)
    for job, (status, output) in zip(jobs, results):
        if status:
            raise ToolchainError(
                f"{job.culprit}: does not compile: {first_error(output, status)}",
                command=job.command,
                output=output,
            )


_TELLING = re.compile(r"error|undefined reference|cannot find|multiple definition|relocation", re.IGNORECASE)


def first_error(output: str, status: int) -> str:
    """The line of a tool's output that says most, for a one-line message."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    # The compiler driver only repeats that the linker failed.
    own = [line for line in lines if not line.startswith("collect2:")]
    told = next((line for line in own if _TELLING.search(line)), None)
    ended = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    return told or next(iter([*own, *lines]), ended)


# -- compilers ------------------------------------------------------------------------------------------


def as_options(options: str | Sequence[str] | None) -> tuple[str, ...]:
    """Options of a caller as a tuple: a string is split as a shell would."""
    if options is None:
        return ()
    return tuple(shlex.split(options)) if isinstance(options, str) else tuple(str(o) for o in options)


_LINK_ONLY = ("-l", "-L", "-Wl,", "-shared", "-static", "-fuse-ld=", "-rdynamic", "-pie", "-no-pie")
_LINK_INPUTS = (".o", ".a", ".so", ".ld", ".lds")


def compile_options(options: Sequence[str]) -> list[str]:
    """Those of the caller's options that a compilation without link understands."""
    kept: list[str] = []
    skip_next = False
    for option in options:
        if skip_next:
            skip_next = False
        elif option in ("-Xlinker", "-T", "-z", "-u"):
            skip_next = True
        elif option.startswith("-"):
            if not option.startswith(_LINK_ONLY):
                kept.append(option)
        elif not option.endswith(_LINK_INPUTS):
            kept.append(option)
    return kept


@dataclass(frozen=True)
class Toolchain:
    """A C compiler and its companions.

    Attributes:
        cc: the command of the C compiler, with the words a caller put behind its name.
        triple: the target it compiles for, as it says itself.
    """

    cc: Command
    triple: str

    @cached_property
    def cxx(self) -> Command:
        """The C++ compiler of the same family and target.

        Raises:
            ToolchainError: there is none.
        """
        for command in _cxx_candidates(self.cc):
            if shutil.which(command[0]):
                return command
        raise ToolchainError(
            f"no C++ compiler found beside {self.cc[0]}: tried $CXX, "
            f"{', '.join(' '.join(c) for c in _cxx_candidates(self.cc))}; install g++ or set $CXX"
        )

    @cached_property
    def nvcc(self) -> Command:
        """The CUDA compiler.

        Raises:
            ToolchainError: there is none.
        """
        command = tuple(shlex.split(os.environ.get("NVCC", ""))) or ("nvcc",)
        if not shutil.which(command[0]):
            raise ToolchainError(
                f"no CUDA compiler found: {command[0]} is not installed; a .cu source needs nvcc ($NVCC)"
            )
        return command

    def link(self, command: Sequence[str], cwd: Path) -> None:
        """Run a link command.

        Raises:
            ToolchainError: it failed.
        """
        status, output = Processes().run(command, cwd)
        if status:
            raise ToolchainError(f"the link failed: {first_error(output, status)}", command=command, output=output)

    def linker_name(self, options: Sequence[str], cwd: Path) -> str:
        """Which linker the compiler uses with these options: "bfd", "gold", "lld", "mold", or "" if unknown."""
        _, output = Processes().run((*self.cc, *options, "-Wl,--version"), cwd)
        head = output[:200]
        for mark, name in (("mold", "mold"), ("LLD", "lld"), ("GNU gold", "gold"), ("GNU ld", "bfd")):
            if mark in head:
                return name
        return ""


def _cxx_candidates(cc: Command) -> list[Command]:
    """Commands that may be the C++ side of a C compiler, likeliest first."""
    name = cc[0]
    found: list[Command] = []
    if cc[0] in C_COMPILERS and os.environ.get("CXX"):
        found.append(tuple(shlex.split(os.environ["CXX"])))
    head, slash, base = name.rpartition("/")
    for c, cxx in (("clang", "clang++"), ("gcc", "g++")):
        if c in base:
            found.append((head + slash + cxx.join(base.rsplit(c, 1)), *cc[1:]))
    if base.endswith("cc") and "gcc" not in base:
        found.append((head + slash + base[:-2] + "c++", *cc[1:]))
    if cc[0] in C_COMPILERS:
        found += [(c,) for c in CXX_COMPILERS]
    return found


def find(cc: str | Sequence[str] | None = None, target: str | None = None) -> Toolchain:
    """The compiler to use.

    Args:
        cc: a command ("aarch64-linux-gnu-gcc", "ccache gcc", "clang --target=..."); by default $CC, then cc, gcc,
            clang; for a target that is not theirs `<target>-gcc`, `clang --target=<target>`.
        target: a triple that the compiler must compile for.

    Raises:
        ToolchainError: no compiler.
        IncompatibleError: `cc` compiles for another target.
    """
    if cc is not None:
        given = tuple(shlex.split(cc)) if isinstance(cc, str) else tuple(cc)
        return _checked(given, target, "cc=")
    own = tuple(shlex.split(os.environ.get("CC", "")))
    if own and not target:
        return _checked(own, None, "$CC")
    tried: list[Command] = [c for c in (own, *((name,) for name in C_COMPILERS)) if c]
    if target:
        tried = [*tried, (f"{target}-gcc",), (f"{target}-cc",), ("clang", f"--target={target}")]
    for command in tried:
        if shutil.which(command[0]):
            triple = _dumpmachine(command)
            if not target or same_target(triple, target):
                return Toolchain(command, triple)
    wanted = f" for {target}" if target else ""
    raise ToolchainError(
        f"no C compiler found{wanted}: tried $CC, {', '.join(' '.join(c) for c in tried)}; install one or pass cc="
    )


def _checked(command: Command, target: str | None, where: str) -> Toolchain:
    if not command or not shutil.which(command[0]):
        name = command[0] if command else "(empty)"
        raise ToolchainError(f"{where}: no C compiler {name!r} found; install it or name another", command=command)
    triple = _dumpmachine(command)
    if target and not same_target(triple, target):
        if "clang" in Path(command[0]).name:
            return Toolchain((*command, f"--target={target}"), target)
        raise IncompatibleError(
            f"{' '.join(command)} compiles for {triple}, target= asks for {target}; pass cc= of a compiler for {target}"
        )
    return Toolchain(command, triple)


@cache
def _dumpmachine(command: Command) -> str:
    status, output = Processes().run((*command, "-dumpmachine"))
    words = output.split()
    if status or not words:
        raise ToolchainError(
            f"{' '.join(command)}: is no working C compiler: -dumpmachine says {first_error(output, status)}",
            command=(*command, "-dumpmachine"), output=output,
        )  # fmt: skip
    return words[-1]


def same_target(a: str, b: str) -> bool:
    """Whether two triples mean one target: the vendor is left out, x86's 32-bit generations are one."""

    def key(triple: str) -> tuple[str, ...]:
        parts = triple.split("-")
        arch = "i386" if parts[0] in ("i386", "i486", "i586", "i686") else parts[0]
        arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
        rest = [p for p in parts[1:] if p not in ("pc", "unknown", "none", "redhat", "suse", "w64", "alpine")]
        return (arch, *rest)

    return key(a) == key(b)
