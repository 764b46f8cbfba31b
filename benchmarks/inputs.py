"""Inputs of measurements: payloads, kernels, libraries."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import mblob
from benchmarks.results import MIB
from benchmarks.sampling import ROOT, Bench
from mblob.compilers import include_flags

PROTOTYPE = "void add4(const float a[4], const float b[4], float c[4])"
KERNEL = f"{PROTOTYPE} {{\n  for (int i = 0; i < 4; ++i) c[i] = a[i] + b[i];\n}}\n"
_runs = itertools.count()


def interpreter(bench: Bench) -> tuple[Path, dict[str, str]]:
    """A Python, and the environment in which it has mblob as if it were installed: a development
    install pays for a search at each start, an interpreter full of other packages for those."""
    folder = bench.path("python")
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python", {"PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}"}


def payload_file(bench: Bench, mib: int) -> Path:
    """A file of random bytes, written once."""
    path = bench.path(f"payload{mib}")
    if not path.exists():
        block = os.urandom(min(mib, 64) * MIB)
        with path.open("wb") as file:
            for i in range(0, mib, 64):
                file.write(i.to_bytes(8, "little"))
                file.write(memoryview(block)[8 : min(64, mib - i) * MIB])
    return path


def hole_file(bench: Bench, size: int) -> Path:
    """A file of so many bytes that takes no room."""
    path = bench.path(f"hole{size}")
    with path.open("wb") as file:
        file.truncate(size)
    return path


def new_kernel(bench: Bench) -> Path:
    """The kernel's source, different each time: no cache has its object."""
    path = bench.path("kernel.c")
    path.write_text(f"{KERNEL}const int run_{os.getpid()}_{next(_runs)} = 1;\n")
    return path


def kernel_object(bench: Bench) -> Path:
    path = bench.path("kernel.o")
    if not path.exists():
        source = bench.path("kernel_object.c")
        source.write_text(KERNEL)
        command = [
            *os.environ.get("CC", "cc").split(),
            "-O2",
            "-fPIC",
            "-c",
            str(source),
            "-o",
            str(path),
        ]
        subprocess.run(command, check=True)
    return path


def library(bench: Bench, name: str, payload: Path | None, count: int = 1) -> Path:
    """A library with the kernel, and a payload (several times, if asked for)."""
    path = bench.path(f"{name}.so")
    if not path.exists():
        module = mblob.csource_module(KERNEL, functions=[PROTOTYPE])
        for _ in range(count if payload else 0):
            module.import_module(mblob.blob_module("raw", payload))
        mblob.export_library(module, path)
    return path


def large_library(bench: Bench, functions: int = 50_000, mib: int = 100) -> Path:
    """A library of so many bytes with the code, symbols and relocations of a large program, as
    LLVM's."""
    path, source, code = bench.path("large.so"), bench.path("large.s"), bench.path("large.o")
    size = mib * MIB // functions
    with source.open("w") as file:
        for i in range(functions):
            name = f"_ZN5large13function{i:05}Ev"  # of C++
            file.write(f".text\n.globl {name}\n.type {name},@function\n.size {name},{size}\n")
            file.write(f"{name}: .fill {size},1,0x90\n")
            file.write(f'.section .data.rel.ro,"aw"\n.rept 8\n.dc.a {name}\n.endr\n')
    subprocess.run([*os.environ.get("CC", "cc").split(), "-c", source, "-o", code], check=True)
    mblob.export_library(mblob.static_library(code), path)
    return path


OF_TENSORS = r"""
#include <stdint.h>
typedef struct { int32_t type; uint32_t zero; union { int64_t i; void *p; } v; } any;
void RAISES(void *error);
void *raises(void) { return (void *)RAISES; }
int __tvm_ffi_rank(void *self, const any *args, int32_t count, any *result) {
  const char *tensor = args[0].type == 7 ? args[0].v.p : (char *)args[0].v.p + 24;
  result->type = 1;
  result->v.i = *(const int32_t *)(tensor + 16); /* DLTensor::ndim */
  return 0;
}
"""


def of_tensors(bench: Bench) -> dict[str, Path]:
    """Libraries of the ffi dialect whose function takes a tensor: what mblob takes for C, which gets a
    `DLTensor *`, and what it takes for C++, which gets an object."""
    found = {}
    for name, raises in (
        ("view", "TVMFFIErrorSetRaisedFromCStr"),
        ("object", "TVMFFIErrorSetRaised"),
    ):
        source, path = bench.path(f"of_{name}.c"), bench.path(f"of_{name}.so")
        source.write_text(OF_TENSORS)
        compiler = os.environ.get("CC", "cc").split()
        options = ("-O2", "-fPIC", "-shared", f"-DRAISES={raises}")
        subprocess.run([*compiler, *options, str(source), "-o", str(path)], check=True)
        found[name] = path
    return found


def runtime_library() -> Path:
    """The libmblob that Python uses."""
    from mblob import loader

    return next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.0"))


def runtime_options() -> list[str]:
    """Options of the compiler for a program that uses libmblob."""
    runtime = runtime_library()
    return [*include_flags(), str(runtime), f"-Wl,-rpath,{runtime.parent}"]
