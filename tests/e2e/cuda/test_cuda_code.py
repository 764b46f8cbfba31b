"""Kernels that mblob finds in code of a real nvcc: PTX, cubins and fatbins for every architecture
that it compiles for, with true and with lying declarations. No GPU is needed: functions are looked
up, not run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import mblob
from tests.loader.payloads import device_code

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning"),  # many payloads of the key cuda
]

SOURCE = """
struct pair { int a; double b; };
struct large { char bytes[5000]; };
__device__ __noinline__ float helper(float x) { return x * x + 1; }
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) { c[n] = helper(a[n]) + helper(b[n]); }
extern "C" __global__ void all(char a, unsigned short b, int c, long long d, float e, double f, bool g, int *out) {
  *out = a + b + c + d + e + f + g;
}
extern "C" __global__ void none() {}
extern "C" __global__ void unused(int *x, float y) {}
extern "C" __global__ void by_value(struct pair p, int *out) { *out = p.a + p.b; }
extern "C" __global__ void huge(struct large x, int *out) { *out = x.bytes[threadIdx.x]; }
"""
TRUE = {
    "add": ["handle", "handle", "handle", "int32"],
    "all": ["int8", "uint16", "int32", "int64", "float32", "float64", "bool", "handle"],
    "none": [],
    "unused": ["handle", "float32"],
}
LIES = {  # what is declared, and what is told of it
    "add": (
        ["handle", "handle", "int32"],
        "'add' is declared with 3 arguments and takes 4 in the code of module",
    ),
    "all": (
        ["int8"] * 8,
        "'all': argument 1 is declared int8 and in the code of module .* of 2 bytes",
    ),
    "none": (["handle"], "'none' is declared with 1 arguments and takes 0"),
    "unused": (
        ["handle", "float64"],
        "'unused': argument 1 is declared float64 and in the code of module .* of 4 bytes",
    ),
    "by_value": (
        ["int64", "handle"],
        "'by_value': argument 0 is declared int64 and in .* a value of 16 bytes",
    ),
    "huge": (
        ["handle", "handle"],
        "'huge': argument 0 is declared handle and in .* a value of 5000 bytes",
    ),
    "gone": ([], "'gone' is declared and not in the code of module .*, which has: .*unused"),
    "_Z6helperf": (["float32"], "'_Z6helperf' is declared and not in the code"),
}


def nvcc(folder: Path, fmt: str, *options: str) -> bytes:
    found = shutil.which("nvcc")
    if not found:
        pytest.skip("no GPU toolkit: nvcc is not installed")
    (folder / "k.cu").write_text(SOURCE)
    words = [found, f"-{fmt}", *options, "-o", str(folder / "k.out"), str(folder / "k.cu")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and "Unsupported gpu architecture" in done.stderr:
        pytest.skip(f"this nvcc is not for {options}")
    assert done.returncode == 0, done.stderr
    return (folder / "k.out").read_bytes()


def modules(code: bytes, folder: Path) -> tuple[mblob.Module, mblob.Module]:
    """The code as two modules of a library: declared as it is, and lying."""
    host = mblob.csource_module("int unused;")
    for kernels in ({k: v for k, (v, _) in LIES.items()}, TRUE):
        payload = device_code(
            "cubin", code, *((name, types, []) for name, types in kernels.items())
        )
        host.import_module(mblob.blob_module("cuda", payload))  # as another packager may write it
    host.export_library(folder / "k.so")
    true, lying = mblob.load_module(folder / "k.so").imported_modules
    return true, lying


CASES = {
    "ptx": ("ptx", "-arch=compute_90"),
    **{f"cubin for sm_{n}": ("cubin", f"-arch=sm_{n}") for n in (75, 80, 90, 100, 120)},
    "fatbin": (
        "fatbin",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_80,code=sm_80",
    ),
    "fatbin with ptx": (
        "fatbin",
        "-gencode=arch=compute_90,code=[sm_90,compute_90]",
        "--compress-mode=none",
    ),
    "fatbin of ptx alone": (
        "fatbin",
        "-gencode=arch=compute_90,code=compute_90",
        "--compress-mode=none",
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
def test_lies_are_told_without_a_gpu(case: str, tmp_path: Path) -> None:
    true, lying = modules(nvcc(tmp_path, *CASES[case]), tmp_path)
    for name in TRUE:
        assert true[name] is not None
    for name, (_, told) in LIES.items():
        with pytest.raises(mblob.FormatError, match=told):
            lying[name]


def test_what_is_compressed_is_left_to_the_driver(tmp_path: Path) -> None:
    true, lying = modules(nvcc(tmp_path, "fatbin", "-arch=sm_90", "--compress-mode=size"), tmp_path)
    assert true["add"] is not None
    assert lying["gone"] is not None
