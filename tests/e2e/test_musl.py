"""musl: the C runtime and its tests are built by musl-gcc, and run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ADDS, ROOT, exported, make_c_tests, run

pytestmark = pytest.mark.slow

# Programs about what musl's dynamic linker does not do.
LEFT_OUT = {
    # it cannot bind absolute symbols: libraries that leave functions of the runtime undefined
    "test_ffi": "ffi.so",
    "test_host_abi": "c_target.so",
    # it keeps every library until the process ends
    "test_linking": "",
    "test_open_readonly": "",
    # it refuses dlopen() in a child that a constructor forked
    "test_forks": "",
}


@pytest.fixture(scope="module")
def folder(require: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test programs (plain/), their libraries (lib/)."""
    compiler = require("musl-gcc")
    made = tmp_path_factory.mktemp("musl")
    names = [p.stem for p in (ROOT / "tests" / "c").glob("*/test_*.c")]
    goals = [str(made / "plain" / name) for name in names]
    make_c_tests("libraries", *goals, f"BUILD={made}", f"CC={compiler}", "CXX=")
    return made


def test_every_test_program_passes(folder: Path) -> None:
    programs = {p.name for p in (folder / "plain").glob("test_*") if p.is_file()}
    assert len(programs) > 30 and programs >= LEFT_OUT.keys()
    for program in sorted(programs - LEFT_OUT.keys()):
        run(folder / "plain" / program, folder / "lib", cwd=ROOT / "tests" / "c", timeout=120)


@pytest.mark.parametrize("program", [name for name, library in LEFT_OUT.items() if library])
def test_a_library_that_musl_cannot_bind_is_refused_with_advice(folder: Path, program: str) -> None:
    done = subprocess.run(
        [folder / "plain" / program, folder / "lib"],
        cwd=ROOT / "tests" / "c",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        f"{LEFT_OUT[program]}: functions of the runtime are undefined in it, and only the dynamic linker of glibc "
        "2.28 or later can bind them; here is another libc: build the library against mblob's headers"
    ) in done.stdout + done.stderr


def test_an_installation_for_musl_exports_its_api_and_runs_a_program(
    folder: Path, installed: Path, require: Callable[[str], str], tmp_path: Path
) -> None:
    compiler, prefix = require("musl-gcc"), tmp_path / "prefix"
    run("make", "-s", "-j2", "-C", ROOT / "csrc", "install", f"CC={compiler}", f"PREFIX={prefix}",
        f"BUILD={tmp_path / 'build'}")  # fmt: skip
    names = exported(installed / "lib" / "libmblob.so").keys()
    assert exported(prefix / "lib" / "libmblob.so").keys() == names
    (tmp_path / "host.c").write_text(ADDS)
    lib = prefix / "lib"
    run(compiler, tmp_path / "host.c", "-o", tmp_path / "host", f"-I{prefix}/include", f"-L{lib}", "-lmblob",
        f"-Wl,-rpath,{lib}")  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    assert run(tmp_path / "host", folder / "lib" / "plain.so", env=environment).stdout == "21\n"


def test_a_library_of_another_libc_is_refused_with_advice(
    folder: Path, require: Callable[[str], str], tmp_path: Path
) -> None:
    """Each way round; and a static program of musl's, which opens none."""
    compiler, prefix = require("musl-gcc"), tmp_path / "prefix"
    run("make", "-s", "-j2", "-C", ROOT / "csrc", "install", f"CC={compiler}", f"PREFIX={prefix}",
        f"BUILD={tmp_path / 'build'}")  # fmt: skip
    (tmp_path / "host.c").write_text(ADDS)
    lib = prefix / "lib"
    run(compiler, tmp_path / "host.c", "-o", tmp_path / "host", f"-I{prefix}/include", f"-L{lib}", "-lmblob",
        f"-Wl,-rpath,{lib}")  # fmt: skip
    run(compiler, "-static", tmp_path / "host.c", "-o", tmp_path / "static", f"-I{prefix}/include",
        lib / "libmblob.a")  # fmt: skip
    vadd = "void vadd(const float a[3], const float b[3], float c[3])"
    source = (
        f"#include <math.h>\n{vadd} {{ for (int i = 0; i < 3; i++) c[i] = fmaf(a[i], 1, b[i]); }}"
    )
    only_there = "const char *gnu_get_libc_version(void); const char *version(void) { return gnu_get_libc_version(); }"
    found = {}
    for name, cc, text in (
        ("both", "cc", source),
        ("glibc", "cc", source + only_there),
        ("musl", compiler, source),
    ):
        module = mblob.csource_module(text, functions=[vadd])
        module.export_library(tmp_path / f"{name}.so", cc=cc, options=["-fno-builtin", "-lm"])
    assert run(tmp_path / "host", tmp_path / "both.so").stdout == "21\n"
    for program, name in (("host", "glibc"), ("static", "musl")):
        done = subprocess.run(
            [tmp_path / program, tmp_path / f"{name}.so"], capture_output=True, text=True
        )
        assert done.returncode == 1 and "/proc/self" not in done.stdout, done
        found[program] = done.stdout.strip()
    assert found["host"].endswith(
        "gnu_get_libc_version: symbol not found; it was built for glibc, and this process runs musl"
    )
    assert found["static"].endswith(
        "not supported; a static program opens no libraries: pack it with --system-lib, and link it in"
    )
    with pytest.raises(
        mblob.IncompatibleError, match="built for musl, and this process runs glibc"
    ):
        mblob.load_module(tmp_path / "musl.so")
    assert run(tmp_path / "host", tmp_path / "musl.so").stdout == "21\n"
