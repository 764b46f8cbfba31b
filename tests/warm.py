"""Python programs that many tests run: each in a process forked from one that has imported what
they need.

`warm(modules)("mblob.cli.main", "inspect", path, cwd=folder)` does what `python -m mblob.cli.main
inspect PATH` does, without the time that imports take. What is imported must not have started
anything: threads do not survive a fork. A caller that sets a variable which counts before Python
runs (LD_*, PYTHON*) gets a new interpreter.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.compiled_once import use_in_packager

ROOT = Path(__file__).resolve().parents[1]
BEFORE_PYTHON = ("LD_", "PYTHON", "ASAN_", "MALLOC_")


class Warm:
    """Of one process of the tests; its server ends with it.

    Args:
        modules: what is imported before the first program.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.environment = dict(os.environ)
        command = [sys.executable, "-m", "tests.warm", *modules]
        pipe = subprocess.PIPE
        self.owner = os.getpid()
        # Unbuffered: what select says of the pipe is true of what readline gives.
        self.server = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, bufsize=0)
        atexit.register(self.end)

    def end(self) -> None:
        if self.owner == os.getpid() and self.server.stdin and self.server.stdout:
            self.server.stdin.close()
            self.server.wait()
            self.server.stdout.close()

    def __call__(
        self,
        module: str,
        *arguments: object,
        cwd: Path = ROOT,
        env: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run `python -m module arguments`; its output is captured.

        Args:
            env: the whole environment; None: that of this process.
        """
        env = {**os.environ} if env is None else env
        words = [module, *map(str, arguments)]
        changed = {k for k in {*env, *self.environment} if env.get(k) != self.environment.get(k)}
        if any(name.startswith(BEFORE_PYTHON) for name in changed):
            return subprocess.run(
                [sys.executable, "-m", *words],
                cwd=cwd,
                env=env,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
            places = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)]
            self._say({"words": words, "cwd": str(cwd), "env": env, "places": places})
            (pid,) = self._hear(timeout)
            try:
                (code,) = self._hear(timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._hear(timeout)
                raise subprocess.TimeoutExpired(words, timeout) from None
            out.seek(0), err.seek(0)
            texts = [file.read().decode().replace("\r\n", "\n") for file in (out, err)]
            return subprocess.CompletedProcess([sys.executable, "-m", *words], code, *texts)

    def _say(self, request: Any) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(request).encode() + b"\n")

    def _hear(self, timeout: float) -> list[int]:
        assert self.server.stdout is not None
        if not select.select([self.server.stdout], [], [], timeout)[0]:
            raise TimeoutError
        answer: list[int] = json.loads(self.server.stdout.readline())
        return answer


_warm: dict[tuple[str, ...], Warm] = {}


def warm(*modules: str) -> Warm:
    """The server of this process that has imported `modules`."""
    found = _warm.get(modules)
    # a forked test does not share the pipes of its parent
    if found is None or found.owner != os.getpid():
        found = _warm[modules] = Warm(modules)
    return found


# -- the server ------------------------------------------------------------------------------------


def serve() -> list[str]:
    """Answer requests; in each forked process, return the words of its program."""
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            os.close(answers)
            _become(**request)
            return list(request["words"])
        os.write(answers, f"[{pid}]\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(answers, f"[{os.waitstatus_to_exitcode(status)}]\n".encode())
    return []


def _become(words: list[str], cwd: str, env: dict[str, str], places: list[str]) -> None:
    for number, place in enumerate([os.devnull, *places]):
        fd = os.open(place, os.O_RDWR)
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    sys.argv[:] = words
    sys.path[0] = cwd


if __name__ == "__main__":
    for _module in sys.argv[1:]:
        importlib.import_module(_module)
    if "mblob.packager.compile.processes" in sys.modules:
        use_in_packager()
    if _words := serve():
        runpy.run_module(_words[0], run_name="__main__", alter_sys=True)
