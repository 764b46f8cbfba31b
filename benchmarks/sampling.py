"""Measuring: commands and workers, and cases that take turns so that each has the same machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import Sample

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


class Missing(Exception):
    """Something that is measured beside mblob is not here; the text names it and says why."""


@dataclass(frozen=True)
class Scale:
    """The amount that is measured.

    Attributes:
        pack, peers, loads, opened: MiB of the payloads that are packed, embedded by others too,
            loaded by others too, opened (the last are holes).
        entries: of the library that has many.
        rounds: of each comparison, at most.
        loops: calls that are measured as one.
        installs: whether what is missing may be fetched.
        profiles: whether all that is shipped is compiled and weighed, for all machines.
    """

    pack: Sequence[int]
    peers: Sequence[int]
    loads: Sequence[int]
    opened: Sequence[int]
    entries: int
    rounds: int
    loops: int
    installs: bool
    profiles: bool


SCALES = {
    "full": Scale(
        pack=(0, 16, 64, 256, 1024, 3072, 5120),
        peers=(1, 16, 64, 256, 1024),
        loads=(1, 16, 64, 256),
        opened=(1024, 5120),
        entries=1000,
        rounds=7,
        loops=20_000,
        installs=True,
        profiles=True,
    ),
    "quick": Scale(
        pack=(0, 16, 64, 256),
        peers=(1, 16),
        loads=(1, 16, 64),
        opened=(1024, 5120),
        entries=1000,
        rounds=3,
        loops=5_000,
        installs=False,
        profiles=False,
    ),
    "tiny": Scale(
        pack=(0, 1),
        peers=(1,),
        loads=(1,),
        opened=(8, 16),
        entries=20,
        rounds=1,
        loops=50,
        installs=False,
        profiles=False,
    ),
}


@dataclass
class Bench:
    """The tools that all subjects share.

    Attributes:
        folder: for everything that is written; removed at the end.
        scale: how much is measured.
        tvm: a Python that has Apache TVM, or why there is none.
        before: a worktree of an earlier commit with its `.venv`, or None.
    """

    folder: Path
    scale: Scale
    tvm: Path | str
    before: Path | None = None
    start: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """A line about what is going on."""
        print(f"{time.monotonic() - self.start:6.0f} s  {text}", file=sys.stderr, flush=True)

    def path(self, name: str) -> Path:
        return self.folder / name

    def rounds(self, mib: int) -> int:
        """Fewer where one takes long."""
        return max(1, min(self.scale.rounds, 3 if mib > 4096 else 5 if mib > 256 else 7))

    def room_for(self, size: int) -> bool:
        """True if so many bytes can be written, and a GiB is left."""
        free = os.statvfs(self.folder)
        return free.f_bavail * free.f_frsize >= size + (1 << 30)


def compiled(bench: Bench, source: Path, *options: str) -> Path:
    """A program or library of one C file, built once."""
    target = bench.path(source.stem)
    if not target.exists():
        command = [
            *os.environ.get("CC", "cc").split(),
            "-std=gnu11",
            "-O2",
            str(source),
            "-o",
            str(target),
            *options,
        ]
        subprocess.run(command, check=True)
    return target


def changed(environment: Mapping[str, str | None]) -> dict[str, str]:
    """The variables of this process with others; None takes one away."""
    given = {**os.environ, **environment}
    return {name: text for name, text in given.items() if text is not None}


def command(bench: Bench, words: Sequence[str | Path], **environment: str | None) -> Sample:
    """Run a command to its end, with variables as of `changed`.

    Raises:
        Missing: it failed; with the end of what it said.
    """
    runner, report = compiled(bench, HERE / "runner.c"), bench.path("report")
    done = subprocess.run(
        [runner, report, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=changed(environment),
        cwd=bench.folder,
        check=False,
    )
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise Missing(f"{Path(words[0]).name} failed: {said or done.returncode}")
    wall, cpu, peak = map(float, report.read_text().split())
    return Sample(wall=wall, cpu=cpu, peak=peak * 1024)


class Worker:
    """A process that measures inside itself: benchmarks/worker.py, with variables as of `changed`. Use in a `with`
    statement."""

    def __init__(
        self, name: str, python: Path | str = sys.executable, **environment: str | None
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", str(HERE / f"worker_{name}.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL if name == "tvm" else None,
            env=changed({"PYTHONPATH": "", **environment}),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(timeout=30)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()  # type: ignore[union-attr]

    def ask(self, action: str, **arguments: Any) -> Any:
        """The answer to a request.

        Raises:
            Missing: the process ended instead.
        """
        request = json.dumps({"do": action, **arguments}, default=str)
        try:
            print(request, file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()  # type: ignore[union-attr]
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise Missing(f"worker_{self.name} ended while it was asked for {action}")
        return json.loads(answer)

    def sample(self, action: str, **arguments: Any) -> Sample:
        return Sample(**self.ask(action, **arguments))


@contextmanager
def tvm_worker(bench: Bench, notes: list[str]) -> Iterator[Worker | None]:
    """A worker with Apache TVM; None, and a note why, where there is none."""
    if isinstance(bench.tvm, str):
        notes.append(f"Apache TVM was not measured: {bench.tvm}.")
        yield None
    else:
        with Worker("tvm", bench.tvm) as worker:
            yield worker


def alternate(
    cases: dict[str, Callable[[], Sample]],
    rounds: int,
    before: Callable[[], None] = lambda: None,
    runs: int = 1,
) -> dict[str, list[Sample]]:
    """Samples of all cases, which take turns; the first turn of each does not count.

    Each round begins with another one: what a case leaves in memory makes the next one faster or
    slower.

    Args:
        before: what is done before each run, and not measured.
        runs: of a case in a row at each of its turns; the last one counts.
    """
    found: dict[str, list[Sample]] = {name: [] for name in cases}
    names = list(cases)
    for i in range(rounds + 1):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            for _ in range(runs):
                before()
                sample = cases[name]()
            found[name].append(sample)
    return {name: samples[1:] for name, samples in found.items()}


def cleared(*paths: Path) -> None:
    """Remove files, and let nothing that is still to be written wait for the next case."""
    for path in paths:
        path.unlink(missing_ok=True)
    os.sync()
