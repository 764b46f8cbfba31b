"""Wheels of `make wheels` for machines that are not this one: aarch64, emulated, and musl."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, run

pytestmark = pytest.mark.slow

WHEELS = ROOT / "build" / "wheels" / "dist"
ARM64 = ROOT / "build" / "arm64"  # a Debian root with Python and cffi's backend
PROTOTYPE = "void twice(float *x, long n)"
SOURCE = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
HOST = r"""
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  float x[2] = {1, 2};
  mblob_module *m;
  if (argc != 2 || mblob_open(argv[1], NULL, &m) ||
      mblob_call(m, "twice", "float32[*],int64", (int64_t)2, x, (int64_t)2))
    return puts(mblob_last_error()), 1;
  mblob_module_release(m);
  return printf("%g %g\n", (double)x[0], (double)x[1]) < 0;
}
"""


def unpacked(pattern: str, folder: Path) -> Path:
    """The folder `mblob` of a wheel."""
    found = sorted(WHEELS.glob(pattern))
    if not found:
        pytest.skip(
            f"no wheel {pattern} in build/wheels/dist: make wheels WHEELS=build/wheels/dist"
        )
    with zipfile.ZipFile(found[-1]) as wheel:
        wheel.extractall(folder)
    return folder / "mblob"


def options(package: Path) -> list[str]:
    lib = package / "loader" / "_lib"
    return [f"-I{package}/csrc/include", f"-L{lib}", f"-Wl,-rpath,{lib}", "-lmblob"]


def library(folder: Path, **how: str) -> Path:
    """A library with `twice`."""
    path = folder / "deploy.so"
    mblob.csource_module(SOURCE, functions=[PROTOTYPE]).export_library(path, **how)  # type: ignore[arg-type]
    return path


@pytest.fixture
def arm64(require: Callable[[str], str]) -> list[str]:
    """The command of the emulator, before a program for aarch64."""
    emulator = require("qemu-aarch64")
    if not (ARM64 / "usr" / "bin").is_dir():
        pytest.skip("build/arm64 is not there: .ci/run makes it")
    return [emulator, "-L", str(ARM64)]


def python_of(root: Path) -> Path:
    return sorted((root / "usr" / "bin").glob("python3.*[0-9]"))[-1]


def test_a_python_program_on_aarch64(
    arm64: list[str], require: Callable[[str], str], tmp_path: Path
) -> None:
    python = python_of(ARM64)
    version = python.name.removeprefix("python").replace(".", "")
    package = unpacked(f"mblob-*-cp{version}-*manylinux*aarch64.whl", tmp_path / "site")
    path = library(tmp_path, cc=require("aarch64-linux-gnu-gcc"))
    code = f"""
import array, platform, mblob
x = array.array("f", [1, 2])
lib = mblob.load_module({str(path)!r})
lib["twice"](x, 2)
with mblob.open({str(path)!r}) as file:
    print(list(x), platform.machine(), file.target["machine"])
print(mblob.get_library_dir())
"""
    command = [*arm64, "-E", f"PYTHONPATH={tmp_path / 'site'}", python, "-c", code]
    folder = package / "loader" / "_lib"
    assert run(*command, cwd=tmp_path).stdout == f"[2.0, 4.0] aarch64 aarch64\n{folder}\n"


def test_the_package_for_aarch64_says_so_to_the_python_of_this_machine(tmp_path: Path) -> None:
    unpacked("mblob-*aarch64.whl", tmp_path)
    code = "import mblob\ntry: mblob.load_module\nexcept mblob.IncompatibleError as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "was built for CPython 3." in done.stdout and "on aarch64-linux-gnu" in done.stdout, done


def test_a_c_program_on_aarch64(
    arm64: list[str], require: Callable[[str], str], tmp_path: Path
) -> None:
    package = unpacked("mblob-*manylinux*aarch64.whl", tmp_path / "site")
    compiler = require("aarch64-linux-gnu-gcc")
    (tmp_path / "host.c").write_text(HOST)
    run(compiler, tmp_path / "host.c", "-o", tmp_path / "host", *options(package))
    path = library(tmp_path, cc=compiler)
    assert run(*arm64, tmp_path / "host", path).stdout == "2 4\n"


def test_a_c_program_of_musl(require: Callable[[str], str], tmp_path: Path) -> None:
    package = unpacked("mblob-*musllinux*x86_64.whl", tmp_path / "site")
    compiler = require("musl-gcc")
    (tmp_path / "host.c").write_text(HOST)
    run(compiler, tmp_path / "host.c", "-o", tmp_path / "host", *options(package))
    path = library(tmp_path, cc=compiler)
    needed = run("readelf", "-d", package / "loader" / "_lib" / "libmblob.so.0").stdout
    assert "[libc.musl-x86_64.so.1]" in needed and "libc.so.6" not in needed
    names = tmp_path / "alpine"  # where musl has another name than in Debian
    names.mkdir()
    (names / "libc.musl-x86_64.so.1").symlink_to("/lib/ld-musl-x86_64.so.1")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(names)}
    assert run(tmp_path / "host", path, env=environment).stdout == "2 4\n"
