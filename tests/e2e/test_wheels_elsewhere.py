"""Wheels of `make wheels`: for aarch64, emulated, for musl, and for other Pythons of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, run
from tests.wheel import built_parts

pytestmark = pytest.mark.slow

WHEELS = ROOT / "build" / "wheels" / "dist"
ARM64 = ROOT / "build" / "arm64"  # a Debian root with Python and cffi's backend
MUSL = ROOT / "build" / "musl"  # of tests/musl_python: Python 3.13
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


def wheel_of(pattern: str) -> Path:
    found = sorted(WHEELS.glob(pattern))
    if not found:
        pytest.skip(
            f"no wheel {pattern} in build/wheels/dist: make wheels WHEELS=build/wheels/dist"
        )
    return found[-1]


def unpacked(pattern: str, folder: Path, packager: str = "") -> Path:
    """The folder `mblob` of a wheel, and of one of mblob-packager if there is a pattern of it."""
    for name in filter(None, (pattern, packager)):
        with zipfile.ZipFile(wheel_of(name)) as wheel:
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
    unpacked("mblob-*manylinux*aarch64.whl", tmp_path)
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


# What it prints but for its last line is the same everywhere.
PROGRAM = f"""
import array, sys, sysconfig, mblob
kernel = mblob.csource_module({SOURCE!r}, functions=[{PROTOTYPE!r}])
kernel.import_module(mblob.blob_module("labels", b"cat"))
kernel.export_library("deploy.so", cc=sys.argv[1])
lib, x = mblob.load_module("deploy.so"), array.array("f", [1, 2])
lib["twice"](x, 2)
print(list(x), bytes(lib.payloads["labels"]))
mblob.convert("deploy.so", "ffi.so", dialect="ffi", cc=sys.argv[1])
mblob.load_module("ffi.so")["twice"](x, 2)
print(list(x), sysconfig.get_python_version(), "musl" in sysconfig.get_config_var("EXT_SUFFIX"))
print(mblob.get_library_dir())
"""


def test_a_python_program_on_musl(require: Callable[[str], str], tmp_path: Path) -> None:
    compiler = require("musl-gcc")
    if not MUSL.is_dir():
        pytest.skip("build/musl is not there: tests/musl_python makes it")
    if not pythons("3.13"):
        pytest.skip("no Python 3.13 with headers on this machine, by which its wheel is built")
    patterns = ("mblob-*-cp313-*musllinux*x86_64.whl", "mblob_packager-*musllinux*x86_64.whl")
    package = unpacked(patterns[0], tmp_path / "site", patterns[1])
    own = {**os.environ, "PYTHONPATH": str(package.parent)}
    lines = run(MUSL / "run", "-c", PROGRAM, compiler, cwd=tmp_path, env=own).stdout.splitlines()
    assert lines == [
        "[2.0, 4.0] b'cat'",
        "[4.0, 8.0] 3.13 True",
        str(package / "loader" / "_lib"),
    ]


def pythons(version: str) -> list[Path]:
    """The Pythons of a version that this machine has: on PATH, or by pyenv."""
    named = shutil.which(f"python{version}")
    found = [Path(named)] if named else []
    pyenv = shutil.which("pyenv")
    if pyenv:
        versions = Path(pyenv).resolve().parents[1] / "versions"
        found += sorted(versions.glob(f"{version}.*/bin/python3"))
    code = (
        "import os, sysconfig; print(os.path.exists(sysconfig.get_path('include') + '/Python.h'))"
    )
    return [
        python
        for python in found
        if subprocess.run([python, "-c", code], capture_output=True).stdout == b"True\n"
    ]


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
def test_a_wheel_for_each_python_is_installed_into_an_empty_environment(
    tmp_path: Path, version: str
) -> None:
    found = pythons(version)
    if not found:
        pytest.skip(f"no Python {version} with headers on this machine")
    wheel = wheel_of(f"mblob-*-cp{version.replace('.', '')}-*manylinux*x86_64.whl")
    folder = tmp_path / "venv"
    # The pip that Python 3.9 brings leaves its certificates in the temporary folder.
    run(found[0], "-m", "venv", folder, env={**os.environ, "TMPDIR": str(tmp_path)})
    run(
        folder / "bin" / "python",
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        "install",
        "--find-links",
        WHEELS,
        f"{wheel}[pack]",
    )
    skipped = ("LD_LIBRARY_PATH", "PYTHONPATH")
    own = {name: value for name, value in os.environ.items() if name not in skipped}
    python = folder / "bin" / "python"
    lines = run(python, "-c", PROGRAM, "cc", cwd=tmp_path, env=own).stdout.splitlines()
    lib = folder / "lib" / f"python{version}" / "site-packages" / "mblob" / "loader" / "_lib"
    assert lines == ["[2.0, 4.0] b'cat'", f"[4.0, 8.0] {version} False", str(lib)]
    (tmp_path / "host.c").write_text(HOST)
    words = [run(python, "-m", "mblob", o, env=own).stdout.split() for o in ("--cflags", "--libs")]
    run("cc", "host.c", "-o", "host", *words[0], *words[1], cwd=tmp_path)
    assert run("./host", "deploy.so", cwd=tmp_path, env=own).stdout == "2 4\n"


def files(wheel: Path) -> set[str]:
    """What is in a wheel, without what names Python and machine in the names of modules."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    others = ("RECORD", "sboms/auditwheel.cdx.json")
    return {
        re.sub(r"\.(cpython-[^/]*|abi3)\.so$", ".so", name)
        for name in names
        if not name.endswith(others)
    }


def test_every_wheel_holds_what_the_wheel_of_this_machine_holds() -> None:
    wheel_of("*.whl")
    expected = {wheel.name.partition("-")[0]: files(wheel) for wheel in built_parts()}
    assert "mblob/loader/_lib/libmblob.so.0" in expected["mblob"]
    assert "mblob/loader/_lib/libmblob-ffi.a" in expected["mblob_packager"]
    for wheel in WHEELS.glob("*.whl"):
        differ = files(wheel) ^ expected[wheel.name.partition("-")[0]]
        assert differ == set(), f"{wheel.name}; if it is of older sources: make wheels"
