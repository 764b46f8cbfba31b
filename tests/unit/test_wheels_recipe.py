"""wheels.py, without compiling: what it takes of a Python, and what it gives ziglang."""

from __future__ import annotations

import runpy
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "wheels.py"), run_name="wheels")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A Python as Debian's: its pyconfig.h includes that of the machine from another folder."""
    include = tmp_path / "usr" / "include"
    for name, text in {
        "python3.14/Python.h": '#include "pyconfig.h"\n',
        "python3.14/pyconfig.h": "#include <x86_64-linux-gnu/python3.14/pyconfig.h>\n",
        "python3.14/cpython/object.h": "",
        "x86_64-linux-gnu/python3.14/pyconfig.h": "#define SIZEOF_VOID_P 8\n",
    }.items():
        (include / name).parent.mkdir(parents=True, exist_ok=True)
        (include / name).write_text(text)
    return script(tmp_path / "python", f"echo {include}/python3.14; echo x86_64-linux-gnu")


@pytest.mark.parametrize("machine", ["x86_64-linux-gnu", ""])
def test_headers_are_those_of_the_machine_in_one_folder(
    recipe: dict[str, Any], python: Path, tmp_path: Path, machine: str
) -> None:
    if not machine:  # a Python that was built by hand
        include = tmp_path / "usr" / "include" / "python3.14"
        (include / "pyconfig.h").write_text("#define SIZEOF_VOID_P 8\n")
        script(python, f"echo {include}; echo")
    made = recipe["headers"](python, tmp_path / "work")
    assert (made / "pyconfig.h").read_text() == "#define SIZEOF_VOID_P 8\n"
    assert (made / "cpython" / "object.h").is_file()
    assert made.is_relative_to(tmp_path / "work")


def test_a_python_that_is_absent_or_has_no_headers_is_named_in_one_line(
    recipe: dict[str, Any], python: Path, tmp_path: Path
) -> None:
    (header,) = tmp_path.glob("usr/include/python3.14/Python.h")
    header.unlink()
    with pytest.raises(
        SystemExit, match=r"^wheels.py: .*/python: its C headers are not installed"
    ) as caught:
        recipe["headers"](python, tmp_path / "work")
    assert "\n" not in str(caught.value)
    with pytest.raises(
        SystemExit, match=r"^wheels.py: /nowhere/python: No such file or directory$"
    ):
        recipe["run"]("/nowhere/python", "-c", "")


def test_a_second_python_without_headers_is_an_error_before_anything_is_built(
    recipe: dict[str, Any], python: Path, tmp_path: Path
) -> None:
    bare = script(tmp_path / "bare", f"echo {tmp_path}/nowhere; echo")
    program = recipe["main"]
    for second in (bare, tmp_path / "absent"):
        program.__globals__["environment"] = lambda *_: pytest.fail("something is built")
        with pytest.raises(SystemExit, match=r"its C headers are not installed|No such file"):
            program(["--python", str(python), "--python", str(second)])


@pytest.mark.parametrize("name", ["manylinux_2_28_x86_64", "musllinux_1_2_aarch64"])
def test_the_compiler_drops_what_ziglang_does_not_know(
    recipe: dict[str, Any], tmp_path: Path, name: str
) -> None:
    """`-nostdlib`, of the link of libmblob-ffi.a, does not go with Debian's -fstack-protector-strong."""
    zig = script(tmp_path / "bin" / "python", 'printf "%s\\n" "$@"')
    script(tmp_path / "bin" / "patchelf", 'printf "patchelf %s\\n" "$@"')
    recipe["compiler"].__globals__["WORK"] = tmp_path / "work"
    compiler: Callable[..., Path] = recipe["compiler"]

    def given(*words: str) -> list[str]:
        program = compiler(zig, name, recipe["TARGETS"][name])
        done = subprocess.run([program, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    start = ["-m", "ziglang", "cc", "-target", recipe["TARGETS"][name].zig]
    assert given("-O2", "-c", "a b.c", "-o", "a.o") == [*start, "-O2", "-c", "a b.c", "-o", "a.o"]
    words = given("-fstack-protector-strong", "-r", "-nostdlib", "a.o")
    assert words.index("-fno-stack-protector") > words.index("-fstack-protector-strong")
    words = given("-shared", "-Wl,-z,noseparate-code", "a.o", "-o", "a.so")
    assert "-Wl,-z,noseparate-code" not in words and "-Wl,--strip-debug" in words
    assert ("patchelf libc.musl-aarch64.so.1" in words) == name.startswith("musl")


def test_each_target_has_the_suffix_that_its_python_looks_for(recipe: dict[str, Any]) -> None:
    targets = recipe["TARGETS"]
    here = targets["manylinux_2_28_x86_64"].suffix((3, 9))
    assert here == ".cpython-39-x86_64-linux-gnu.so"
    assert targets["musllinux_1_2_aarch64"].suffix((3, 11)) == ".cpython-311-aarch64-linux-musl.so"
    assert targets["musllinux_1_2_aarch64"].suffix((3, 10)) == ".cpython-310-aarch64-linux-gnu.so"
    command = [sys.executable, ROOT / "wheels.py", "--target", "x"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and all(name in done.stderr for name in targets)
