"""Models: what an executor adds to its kernels, branches side by side, the first output."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import mblob
from benchmarks import graphs
from benchmarks.results import Section, row_of_pairs
from benchmarks.sampling import ROOT, Bench

INTRO = "Graph executors, inside one process."


def run(bench: Bench) -> Section:
    section = Section("Executors", INTRO)
    bench.say("executors")
    rounds = bench.scale.rounds
    section.rows = [
        row_of_pairs(f"chain of {graphs.NODES} tiny kernels, per node", "the kernel in a C loop", "cpu",
                     graphs.chain(bench.folder, 3 * rounds, max(1, bench.scale.loops // 100))),
        row_of_pairs(f"graph of {graphs.BRANCHES} branches", "the same in order", "wall",
                     graphs.branches(bench.folder, rounds)),
        row_of_pairs("first output of the digits model", "dlopen and dlclose", "wall", first_output(bench)),
    ]  # fmt: skip
    return section


def wall_seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def first_output(bench: Bench) -> Iterator[tuple[float, float]]:
    """From the path of a packed model (the digits) to its first output: open, make an executor,
    set, run, get."""
    path = bench.path("digits.so")
    manifest = ROOT / "examples/digits/digits.toml"
    subprocess.run(
        [sys.executable, "-m", "mblob.cli.main", "build", str(manifest), "-o", str(path)],
        check=True,
    )
    image = np.load(ROOT / "examples/digits/test_images.npy")[:1]
    digit = np.empty(1, np.int32)
    unload = ctypes.CDLL(None).dlclose
    unload.argtypes = [ctypes.c_void_p]

    def ours() -> None:
        model = mblob.graph_executor.GraphModule(mblob.load_module(path)["default"](mblob.cpu(0)))
        model.set_input("image", image)
        model.run()
        model.get_output(0, digit)

    def bare() -> None:
        unload(ctypes.CDLL(str(path))._handle)

    ours()
    for _ in range(20 * bench.scale.rounds):
        yield wall_seconds(ours), wall_seconds(bare)
