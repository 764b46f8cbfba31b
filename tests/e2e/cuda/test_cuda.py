"""CUDA modules packed, loaded and run: on the double of NVIDIA's driver
(tests/c/plugins/fake_cuda.c) everywhere, on a GPU where there is one. Each program runs in a
process of its own."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.cuda.cuda_programs import HOST, PREAMBLE, PROGRAMS, PTX

ROOT = Path(__file__).resolve().parents[3]
TWICE = "long twice(long x) { return 2 * x; }"


def gpu_is_missing() -> str:
    """Why no GPU can be used, "" if one can."""
    try:
        driver = ctypes.CDLL(os.environ.get("MBLOB_CUDA_LIBRARY") or "libcuda.so.1")
    except OSError as error:
        return f"no NVIDIA driver: {error}"
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver finds no GPU"
    return ""


@pytest.fixture(scope="module")
def double(cc: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fake")
    source = '#include "fake_cuda.c"\n#include "fake_cuda_memory.c"\n'
    made = cc(source, folder / "fake.so", f"-I{ROOT / 'tests/c/plugins'}", "-pthread")
    return made.rename(folder / "libcuda.so.1")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TVM's shape: host code above a CUDA module."""
    path = tmp_path_factory.mktemp("cuda") / "deploy.so"
    host = mblob.csource_module(HOST + TWICE, functions=["long twice(long x)"])
    tags = ["blockIdx.x", "threadIdx.x"]
    shared = [*tags, "tir.use_dyn_shared_memory"]
    functions = [("vadd_kernel", None, tags), ("last_word", None, shared), "crash"]
    host.import_module(mblob.device_module("cuda", PTX, functions=functions))
    host.export_library(path)
    return path


def run(program: str, library: Path, driver: Path | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "MBLOB_CUDA_LIBRARY"}
    if driver is not None:
        environment["MBLOB_CUDA_LIBRARY"] = str(driver)
    words = [sys.executable, "-c", PREAMBLE + program, str(library)]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_on_the_double(program: str, library: Path, double: Path) -> None:
    run(PROGRAMS[program], library, double)


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_a_gpu(program: str, library: Path) -> None:
    if reason := gpu_is_missing():
        pytest.skip(f"no GPU: {reason}")
    run(PROGRAMS[program], library, None)


def test_all_is_given_back(library: Path, double: Path) -> None:
    program = PROGRAMS["host code launches the kernel"]
    run(
        program
        + "x = y = z = kernel = lib = None\ngc.collect()\nassert double.fake_cuda_live() == 0",
        library,
        double,
    )


def test_without_a_driver_the_library_opens_and_host_functions_run(
    library: Path, tmp_path: Path
) -> None:
    program = """
assert lib["twice"](21) == 42
for use in (lambda: mblob.array(a, cuda), lambda: lib.imported_modules[0]["vadd_kernel"](None, None, None, 0, 1, 1)):
    try:
        use()
    except mblob.IncompatibleError as error:
        assert "no driver" in str(error) and "MBLOB_CUDA_LIBRARY" in str(error), error
    else:
        raise AssertionError
"""
    preamble = 'import os; nowhere = os.environ.pop("MBLOB_CUDA_LIBRARY")\n' + PREAMBLE
    environment = {**os.environ, "MBLOB_CUDA_LIBRARY": str(tmp_path / "none.so")}
    words = [
        sys.executable,
        "-c",
        f'{preamble}os.environ["MBLOB_CUDA_LIBRARY"] = nowhere\n{program}',
        str(library),
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_ptxas_takes_the_kernels(tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no GPU toolkit: ptxas is not installed")
    (tmp_path / "k.ptx").write_text(PTX)
    words = [ptxas, "-arch=sm_80", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("fmt", ["ptx", "cubin", "fatbin"])
def test_code_of_nvcc_passes_the_checks_of_the_plug_in(
    fmt: str, double: Path, tmp_path: Path
) -> None:
    if not shutil.which("nvcc"):
        pytest.skip("no GPU toolkit: nvcc is not installed")
    head = 'extern "C" __global__ void vadd_kernel(const float *a, const float *b, float *c, int n)'
    source, tags = head + "{ c[n] = a[n] + b[n]; }", ["blockIdx.x", "threadIdx.x"]
    arch = None if fmt == "ptx" else "sm_90"
    module = mblob.device_module("cuda", source, fmt=fmt, compile=True, arch=arch, launch=tags)
    module.export_library(tmp_path / "k.so")
    program = """
x, z = mblob.array(a, cuda), mblob.empty((1000,), "float32", cuda)
lib["vadd_kernel"](x, x, z, 1000, 8, 128)
np.testing.assert_array_equal(z.numpy(), a + a)
"""
    run(program, tmp_path / "k.so", double)
