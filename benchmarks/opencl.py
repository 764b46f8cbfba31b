"""What mblob adds to the launch of an OpenCL kernel: C programs on both sides, in one process, by
turns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import mblob
from mblob import loader
from mblob.compilers import include_flags

SOURCE = """\
__kernel void add(__global float *a, __global float *b, __global float *c) {
  int i = get_global_id(0);
  c[i] = a[i] + b[i];
}
"""
ROOT = Path(__file__).resolve().parent.parent


def available() -> bool:
    """Whether there is an OpenCL device."""
    try:
        mblob.empty((1,), "float32", mblob.opencl(0))
    except mblob.MblobError:
        return False
    return True


def launches(folder: Path, rounds: int, count: int) -> Iterator[tuple[float, float]]:
    """Pairs of seconds per launch: through mblob, and with the vendor's interface alone."""
    library, program = folder / "opencl.so", folder / "opencl_launch"
    host = mblob.csource_module("int unused;")
    kernel = ("add", ["handle"] * 3, ["blockIdx.x", "threadIdx.x"])
    host.import_module(mblob.device_module("opencl", SOURCE, [kernel]))
    mblob.export_library(host, library)
    runtime = next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.0"))
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", *include_flags(), "-DMBLOB_HOST",
         str(ROOT / "benchmarks/opencl_launch.c"), "-o",
         str(program), str(runtime), f"-Wl,-rpath,{runtime.parent}", "-ldl"],
        check=True,
    )  # fmt: skip
    command = [str(program), str(library), str(rounds), str(count)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in run.stdout.splitlines():
        ours, plain = map(float, line.split())
        yield ours, plain
