"""Measure packing, loading, calling and models; write benchmarks/RESULTS.md.

    python benchmarks/bench.py [--quick] [--output FILE]

Each figure is paired with a yardstick that runs beside it: packing with `cp` of the payload, loading with a
bare `dlopen` of the same library, calling with `np.add` on the same arrays, OpenCL launches with C. Ratios are medians
of the pairs, and are what to compare between machines. CPU time is user and system time of the whole process tree.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import graphs
import numpy as np
import onednn
import opencl

import mblob

MIB = 1 << 20
KERNEL = """\
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
"""
PROTOTYPE = "void vadd(const float *a, const float *b, float *c, int64_t n)"


@dataclass(frozen=True)
class Row:
    """One line of the results.

    Attributes:
        what, yardstick: what was measured, and with what it is paired.
        value, reference: median seconds of each.
        ratio: median of the pairs' ratios.
        pairs: how many.
    """

    what: str
    yardstick: str
    value: float
    reference: float
    ratio: float
    pairs: int


def measure(what: str, yardstick: str, pairs: Iterable[tuple[float, float]]) -> Row:
    """A row of the pairs (seconds measured, seconds of the yardstick)."""
    found = list(pairs)
    return Row(
        what,
        yardstick,
        statistics.median(v for v, _ in found),
        statistics.median(r for _, r in found),
        statistics.median(v / r for v, r in found),
        len(found),
    )


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command and its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def payload_file(folder: Path, mib: int) -> Path:
    """A file of random bytes, written once."""
    path = folder / f"payload{mib}"
    if not path.exists():
        generator = np.random.default_rng(mib)
        with path.open("wb") as file:
            for _ in range(mib):
                file.write(generator.bytes(MIB))
    return path


def library_with(folder: Path, mib: int) -> Path:
    """A library with the kernel and a payload of that size."""
    module = mblob.csource_module(KERNEL, functions=[PROTOTYPE])
    module.import_module(mblob.blob_module("raw", payload_file(folder, mib)))
    path = folder / f"library{mib}.so"
    mblob.export_library(module, path)
    return path


def packing(folder: Path, mib: int, pairs: int) -> Row:
    """`mblob-pack build` of an object and a payload, Python start and link included, against `cp`."""
    source, target, kernel = payload_file(folder, mib), folder / "copy", folder / "kernel.o"
    (folder / "kernel.c").write_text(KERNEL)
    subprocess.run(["cc", "-c", "-O2", "-fPIC", str(folder / "kernel.c"), "-o", str(kernel)], check=True)
    build = [
        sys.executable,
        "-m",
        "mblob.cli.main",
        "build",
        "--object",
        str(kernel),
        "--blob",
        f"raw={source}",
    ]

    def pair() -> tuple[float, float]:
        target.unlink(missing_ok=True)
        copying = cpu_seconds(["cp", str(source), str(target)])
        target.unlink()
        return cpu_seconds([*build, "-o", str(target)]), copying

    pair()  # warms the page cache and the byte code
    return measure(f"pack {mib} MiB, whole command, CPU", "cp", (pair() for _ in range(pairs)))


def wall_seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def loading(folder: Path, mib: int, pairs: int) -> Row:
    """`load_module` and `verify="header"` against `dlopen`; both really open the file, each time."""
    path = library_with(folder, mib)
    unload = ctypes.CDLL(None).dlclose
    unload.argtypes = [ctypes.c_void_p]

    def bare() -> None:
        unload(ctypes.CDLL(str(path))._handle)

    def load() -> None:
        assert mblob.load_module(path).imported_modules[0].payload.nbytes == mib * MIB

    load()
    pairs_found = ((wall_seconds(load), wall_seconds(bare)) for _ in range(pairs))
    return measure(f"load {mib} MiB, warm, wall", "dlopen and dlclose", pairs_found)


def per_call(loop: Callable[[int], None], loops: int) -> float:
    """Seconds of CPU time that one call takes in a loop of so many."""
    start = time.thread_time_ns()
    loop(loops)
    return (time.thread_time_ns() - start) / loops / 1e9


def less_aligned() -> np.ndarray:
    """Four floats that lie between addresses of floats: kernels get an aligned copy."""
    return np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)


def calling(folder: Path, pairs: int, loops: int) -> list[Row]:
    """Calls with three float32 arrays of 4 elements and their length, against `np.add(a, b, out=c)`: aligned arrays,
    arrays that have to be copied, and a prepared call."""
    vadd = mblob.load_module(library_with(folder, 1))["vadd"]
    a, b, c = (np.zeros(4, np.float32) for _ in range(3))
    x, y, z = (less_aligned() for _ in range(3))
    bound, add = vadd.bind(a, b, c, 4), np.add

    def aligned(count: int) -> None:
        for _ in range(count):
            vadd(a, b, c, 4)

    def copied(count: int) -> None:
        for _ in range(count):
            vadd(x, y, z, 4)

    def prepared(count: int) -> None:
        for _ in range(count):
            bound()

    def numpy(count: int) -> None:
        for _ in range(count):
            add(a, b, out=c)

    cases = {"three arrays and an int": aligned, "three copied arrays and an int": copied, "prepared": prepared}
    return [
        measure(f"call, {what}, CPU", "np.add(a, b, out=c)",
                ((per_call(loop, loops), per_call(numpy, loops)) for _ in range(pairs)))
        for what, loop in cases.items()
    ]  # fmt: skip


def running(folder: Path, pairs: int) -> list[Row]:
    """Graph executors: what a node costs beside its kernel, and independent branches on two threads."""
    return [
        measure(f"chain of {graphs.NODES} tiny kernels, per node, CPU", "the kernel in a C loop",
                graphs.chain(folder, 3 * pairs, 200)),
        measure(f"graph of {graphs.BRANCHES} branches on 2 threads, wall", "the same in order",
                graphs.branches(folder, pairs)),
    ]  # fmt: skip


def first_output(folder: Path, pairs: int) -> Row:
    """From the path of a packed model (the digits) to its first output: open, make an executor, set, run, get."""
    root = Path(__file__).resolve().parent.parent
    path = folder / "digits.so"
    subprocess.run(
        [sys.executable, "-m", "mblob.cli.main", "build", str(root / "examples/digits/digits.toml"), "-o", str(path)],
        check=True,
    )
    image = np.load(root / "examples/digits/test_images.npy")[:1]
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
    pairs_found = ((wall_seconds(ours), wall_seconds(bare)) for _ in range(pairs))
    return measure("first output of the digits model, warm, wall", "dlopen and dlclose", pairs_found)


def launching(folder: Path, pairs: int) -> Row:
    """An OpenCL kernel with three buffers: arguments and launch, and the wait at the end of many."""
    return measure("launch of an OpenCL kernel, wall", "C with the vendor's interface",
                   opencl.launches(folder, pairs, 2000))  # fmt: skip


def runtime_size(folder: Path) -> str:
    """A line on the size of the runtime library without debug information."""
    import loader

    stripped = folder / "libmblob.so"
    source = next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.*"))
    subprocess.run(["strip", "-o", str(stripped), str(source)], check=True)
    return f"libmblob, stripped: {stripped.stat().st_size / 1000:.0f} kB."


def human_time(seconds: float) -> str:
    """A duration with a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def report(rows: list[Row], notes: Sequence[str], command: str) -> str:
    """The results as Markdown."""
    lines = [
        "# Results",
        "",
        f"`{command}`",
        "",
        f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}, "
        f"Python {platform.python_version()}, numpy {np.__version__}. Medians of paired runs; "
        "the ratio is the median of the pairs' ratios.",
        "",
        "| what | measured | yardstick | measured | ratio | pairs |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.what} | {human_time(r.value)} | {r.yardstick} | {human_time(r.reference)} "
        f"| {r.ratio:.2f} | {r.pairs} |"
        for r in rows
    ]
    return "\n".join([*lines, "", *notes]) + "\n"


def accelerated(folder: Path, pairs: int) -> tuple[list[Row], list[str]]:
    """The network of examples/convnet: its layers in oneDNN, with the threads that that takes, against plain C."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "convnet"))
    import convnet

    models = []
    image = np.random.default_rng(3).random(convnet.IMAGE, dtype="float32")
    try:
        for dnnl in (True, False):
            path = folder / f"convnet{int(dnnl)}.so"
            convnet.model(dnnl).export_library(path)
            model = mblob.graph_executor.GraphModule(mblob.load_module(path)["default"](mblob.cpu(0)))
            model.set_input("image", image)
            model.run()
            models.append(model)
    except mblob.MblobError:
        return [], ["The network in oneDNN was not measured: nothing here runs modules of the key dnnl_json."]
    np.testing.assert_allclose(models[0].get_output(0).numpy(), models[1].get_output(0).numpy(), rtol=1e-3)
    seconds = ((wall_seconds(models[0].run), wall_seconds(models[1].run)) for _ in range(pairs))
    return [measure("a convolutional network, layers in oneDNN, wall", "plain C kernels", seconds)], []


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure packing, loading and calling.")
    parser.add_argument("--quick", action="store_true", help="small sizes, few pairs")
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "RESULTS.md")
    args = parser.parse_args()
    sizes, pairs = ((16, 64), 5) if args.quick else ((16, 64, 256, 1024), 7)
    with tempfile.TemporaryDirectory(prefix="mblob-bench-") as name:
        folder = Path(name)
        rows = [packing(folder, mib, pairs) for mib in sizes]
        rows += [loading(folder, mib, 20 * pairs) for mib in sizes]
        rows += calling(folder, 3 * pairs, 20_000)
        rows += running(folder, pairs)
        if onednn.available(folder):
            found = onednn.dense(folder, 3 * pairs, 500)
            rows.append(measure("dense layer on oneDNN, wall", "oneDNN in a C loop", found))
        rows.append(first_output(folder, 20 * pairs))
        notes = [runtime_size(folder)]
        if opencl.available():
            rows.append(launching(folder, 3 * pairs))
        else:
            notes.append("No OpenCL device: launches of its kernels were not measured.")
        network, missing = accelerated(folder, 10 * pairs)
        rows += network
        notes += missing
    text = report(rows, notes, shlex.join(["python", "benchmarks/bench.py", *sys.argv[1:]]))
    args.output.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
