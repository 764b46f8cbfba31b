"""Code that needs an executable stack would crash: libraries are linked without one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

# gcc writes a trampoline onto the stack.
NESTED = """
static int apply(int (*f)(int), int n) { int s = 0; for (int i = 0; i < n; ++i) s += f(i); return s; }
int total(int n, int k) { int g(int i) { return i * k; } return apply(g, n); }
"""
TOTAL = ["int total(int n, int k)"]
WORDS = "needs an executable stack.*write each nested function"


def test_a_nested_function_of_gnu_c_is_refused_in_a_source_an_object_and_an_archive(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    gcc = require("gcc")
    (tmp_path / "k.c").write_text(NESTED)
    subprocess.run([gcc, "-O1", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "k.a", "k.o"], cwd=tmp_path, check=True)
    for module in (
        mblob.csource_module(tmp_path / "k.c", functions=TOTAL),
        mblob.static_library(tmp_path / "k.o", functions=TOTAL),
        mblob.static_library(tmp_path / "k.a", functions=TOTAL),
    ):
        with pytest.raises(mblob.BuildError, match=WORDS):
            module.export_library(tmp_path / "k.so", cc=gcc)
        assert not (tmp_path / "k.so").exists()


def test_assembler_without_the_note_gets_an_ordinary_stack(tmp_path: Path) -> None:
    (tmp_path / "k.S").write_text(".globl total\n.type total, %function\ntotal: ret\n")
    subprocess.run(["cc", "-c", "k.S"], cwd=tmp_path, check=True)
    module = mblob.static_library(tmp_path / "k.o")
    module.export_library(tmp_path / "k.so")
    with mblob.open(tmp_path / "k.so") as library:
        assert "executable_stack" not in {d["code"] for d in library.to_json()["diagnostics"]}
