"""The CUDA program of docs/devices.md: packed by nvcc, run on the double of the driver, where a
kernel is in C."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

# What the page's kernel does, as the double calls it; loaded in front of the page's program.
KERNEL = r"""
#include "fake_cuda.h"
static void vadd(void **arguments, const struct fake_launch *launch) {
  float *a = *(float **)arguments[0], *b = *(float **)arguments[1], *c = *(float **)arguments[2];
  unsigned n = *(unsigned *)arguments[3], threads = launch->grid[0] * launch->block[0];
  for (unsigned i = 0; i < n && i < threads; i++) c[i] = a[i] + b[i];
}
__attribute__((constructor(65535))) static void define_vadd(void) { fake_cuda_define("vadd", vadd); }
"""


@pytest.mark.slow
def test_the_program_packs_and_runs(
    blocks: Callable, cc: Callable[..., Path], root: Path, tmp_path: Path
) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("no GPU toolkit: nvcc is not installed")
    (program,) = (b for b in blocks(root / "docs/devices.md") if b.file == "cuda_vadd.py")
    (tmp_path / "cuda_vadd.py").write_text(program.text)
    include = f"-I{root / 'tests/c/plugins'}"
    source = '#include "fake_cuda.c"\n#include "fake_cuda_memory.c"\n'
    driver = cc(f"{source}\n{KERNEL}", tmp_path / "fake.so", include, "-pthread").rename(
        tmp_path / "libcuda.so.1"
    )
    environment = {**os.environ, "MBLOB_CUDA_LIBRARY": str(driver)}
    done = subprocess.run(
        [sys.executable, "cuda_vadd.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "[0. 2. 4.]\n"), done.stderr
    with mblob.open(tmp_path / "vadd.so") as lib:
        (kernel,) = lib.entries[1].kernels
    assert [str(t) for t in kernel.arg_types] == ["handle", "handle", "handle", "int32"]
