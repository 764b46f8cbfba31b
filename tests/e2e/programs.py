"""Running programs in tests, and where the repository is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.warm import warm

ROOT = Path(__file__).resolve().parents[2]

# A C program: it opens the library in its argument, calls `vadd` of it, and prints 21.
ADDS = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  float a[3] = {1, 2, 3}, b[3] = {4, 5, 6}, c[3];
  mblob_module *m;
  if (argc != 2 || mblob_open(argv[1], NULL, &m)) return puts(mblob_last_error()), 1;
  if (mblob_call(m, "vadd", "float32[3],float32[3],float32[3]", a, b, c)) return puts(mblob_last_error()), 2;
  mblob_module_release(m);
  return printf("%g\n", (double)(c[0] + c[1] + c[2])) < 0;
}
"""


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed; its output is captured. `options` are those of
    subprocess.run."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def exported(library: Path) -> dict[str, str]:
    """The names that a library defines for others, each with its version ("" without one)."""
    rows = [line.split() for line in run("nm", "-D", "--defined-only", library).stdout.splitlines()]
    names = [name.partition("@") for _, kind, name in rows if kind != "A"]  # A: the versions
    return {name: version.lstrip("@") for name, _, version in names}


def size_bound(library: Path, bound: int, readelf: str) -> int:
    """The most bytes of code and data that compiled source may have, where gcc 12 may make `bound`
    of it. gcc 10 and 14 make one in a hundred more; a compiler may make a tenth more.

    Args:
        library: what the compiler made; it has named itself in `.comment`.
    """
    compiler = run(readelf, "-p", ".comment", library).stdout
    return bound if re.search(r"GCC: \([^)]*\) 12\.", compiler) else bound + bound // 10


def run_warm(
    imported: str, module: str, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module`, which must succeed, in a process that has `imported` from the
    start."""
    done = warm(imported)(module, *arguments, **options)
    assert done.returncode == 0, f"{module} {arguments}\n{done.stdout}\n{done.stderr}"
    return done


def ffi_host(which: str, *arguments: object) -> None:
    """Run a case of `ffi_hosts` in a process with a real TVM ("tvm") or tvm_ffi alone
    ("tvm_ffi")."""
    done = run_warm(which, "tests.e2e.ffi.ffi_hosts", which, *arguments)
    assert done.stdout.endswith("fine\n")


def make_c_tests(*words: object) -> None:
    """Run make in tests/c; without a C++ compiler what is written in C++ is left out."""
    cxx = os.environ.get("CXX") or ("c++" if shutil.which("c++") else "")
    run("make", "-s", "-j2", "-C", ROOT / "tests" / "c", f"CXX={cxx}", *words)


def make_amalgamation(folder: Path, *words: object, compiler: str = "cc") -> None:
    """Write mblob.c and mblob.h, and compile mblob.o, without a warning."""
    run("make", "-s", "-C", ROOT, "amalgamation", f"AMALGAMATION={folder}")
    strict = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")
    run(compiler, *strict, "-fPIC", *words, "-c", folder / "mblob.c", "-o", folder / "mblob.o")
