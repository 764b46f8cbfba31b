"""The part of a worker that is the same in each: it measures actions inside one Python process, as
it is asked to.

A worker reads requests from stdin, a line of JSON each: {"do": name, ...arguments}, and answers on
stdout, a line of JSON each: what the action named so gives. Standard library only, since workers
run in environments of others too.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of memory that this process has now."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 - pathlib costs more than what is measured
        return int(file.read().split()[1]) * PAGE


def peak() -> int:
    """Bytes of memory that this process had at most, since the peak was last reset."""
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
        file.write("5")


def faults() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def installed_bytes(packages: list[str]) -> int:
    """Bytes of the files of packages, without what Python compiles of them."""
    found = 0
    for package in packages:
        (folder,) = importlib.import_module(package).__path__
        for at, folders, names in os.walk(folder, followlinks=True):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += sum(os.stat(f"{at}/{name}").st_size for name in names)  # noqa: PTH116
    return found


def mapped_bytes(name: str) -> int:
    """Size of the file of a library that this process has open, by the beginning of its name."""
    with open("/proc/self/maps") as file:  # noqa: PTH123
        paths = {line.split()[-1] for line in file if f"/{name}" in line}
    return sum(os.stat(path).st_size for path in paths)  # noqa: PTH116


def sampled(action: Callable[[], object], with_faults: bool = False) -> dict[str, float]:
    """Wall and CPU seconds of an action, without those of processes it starts, the bytes that it
    added at most, and its page faults if asked for. What it returns is kept until all is
    measured."""
    reset_peak()
    before_memory, before_faults = resident(), faults()
    start, start_cpu = time.perf_counter(), time.process_time()
    kept = action()
    wall, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    after_faults = faults()
    found = {"wall": wall, "cpu": cpu, "peak": max(0, peak() - before_memory)}
    if with_faults:
        found["faults"] = after_faults - before_faults
    del kept
    return found


def per_call(loop: Callable[[int], object], count: int) -> dict[str, float]:
    """CPU seconds of this thread for one turn of a loop of `count`."""
    start = time.thread_time_ns()
    loop(count)
    return {"cpu": (time.thread_time_ns() - start) / count / 1e9}


def repeated(function: Callable[[Any], object], x: Any) -> Callable[[int], None]:
    """A loop of calls with one argument."""

    def run(count: int) -> None:
        for _ in range(count):
            function(x)

    return run


def serve(actions: dict[str, Callable[..., Any]]) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers and libraries print is no answer
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(actions[request.pop("do")](**request)), file=answers, flush=True)
