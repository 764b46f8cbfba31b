"""A library that has the runtime in it is closed while threads that used it go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import ROOT, run

KERNELS = ROOT / "tests" / "c" / "kernels"
FLAGS = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread")


def host(folder: Path, *flags: str) -> Path:
    run(
        "cc",
        *FLAGS,
        *flags,
        ROOT / "tests" / "c" / "hosts" / "unload_host.c",
        "-o",
        folder / "host",
        "-ldl",
    )
    return folder / "host"


def plugin(folder: Path, include: Path, *runtime: object) -> Path:
    """A shared library with `use`, over that form of the runtime."""
    run("cc", *FLAGS, "-DMBLOB_HOST", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{include}",
        f"-I{include}/mblob/compat", KERNELS / "unloaded.c",
        "-o", folder / "plugin.so", *runtime, "-ldl", "-lm")  # fmt: skip
    return folder / "plugin.so"


@pytest.mark.sample(1)
@pytest.mark.parametrize("checker", ["none", "valgrind"])
def test_threads_outlive_a_library_that_contains_the_runtime(
    installed: Path, built: Path, tmp_path: Path, require: Callable[[str], str], checker: str
) -> None:
    shared = plugin(tmp_path, installed / "include", installed / "lib" / "libmblob.a")
    words = (
        []
        if checker == "none"
        else [require("valgrind"), "--quiet", "--error-exitcode=9", "--fair-sched=yes"]
    )
    done = run(*words, host(tmp_path), shared, built / "lib" / "plain.so", "1", timeout=120)
    assert done.stdout == "fine\n"


@pytest.mark.slow
def test_threads_outlive_it_under_asan(sanitized: Path, tmp_path: Path) -> None:
    """What threads had when it was closed is lost, so leaks are not looked for."""
    archive = sanitized / "address" / "libmblob.a"
    shared = plugin(tmp_path, ROOT / "csrc" / "include", archive, "-fsanitize=address,undefined")
    options = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    program = host(tmp_path, "-fsanitize=address,undefined")
    assert (
        run(program, shared, sanitized / "lib" / "plain.so", "1", timeout=60, env=options).stdout
        == "fine\n"
    )


def test_threads_outlive_a_library_that_needs_the_runtime(
    installed: Path, built: Path, tmp_path: Path
) -> None:
    """libmblob.so itself stays."""
    lib = installed / "lib"
    shared = plugin(tmp_path, installed / "include", f"-L{lib}", "-lmblob", f"-Wl,-rpath,{lib}")
    assert (
        run(host(tmp_path), shared, built / "lib" / "plain.so", "1", timeout=60).stdout == "fine\n"
    )


@pytest.mark.parametrize(
    "name", ["libmblob", "libmblob-ffi", "libmblob-dnnl", "libmblob-opencl", "libmblob-cuda"]
)
def test_the_shared_libraries_stay_when_they_are_closed(
    installed: Path, name: str, require: Callable[[str], str]
) -> None:
    assert "NODELETE" in run(require("readelf"), "-d", installed / "lib" / f"{name}.so").stdout
