"""Code that needs an executable stack would crash: libraries are linked without one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

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
    module = mblob.static_library(tmp_path / "k.o", functions=["int total(void)"])
    module.export_library(tmp_path / "k.so")
    with mblob.open(tmp_path / "k.so") as library:
        assert "executable_stack" not in {d["code"] for d in library.to_json()["diagnostics"]}


# Inlined, it would need no trampoline.
LATE = NESTED.replace(
    "static int apply", "__attribute__((noinline, noclone)) static int apply"
).replace("int (*f)", "int (*volatile f)")


@pytest.mark.parametrize("linker", ["", "-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=mold"])
def test_a_nested_function_behind_link_time_optimization_is_refused(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    gcc = require("gcc")
    more = [linker] if linker and require(f"ld.{linker[9:]}") else []
    (tmp_path / "k.c").write_text(LATE)
    subprocess.run([gcc, "-O1", "-flto", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    for module in (
        mblob.csource_module(tmp_path / "k.c", functions=TOTAL, options=["-flto"]),
        mblob.static_library(tmp_path / "k.o", functions=TOTAL),
    ):
        with pytest.raises(mblob.BuildError, match=WORDS):
            module.export_library(tmp_path / "k.so", cc=gcc, options=["-flto", *more])
        assert not (tmp_path / "k.so").exists()


@pytest.mark.parametrize("linker", ["-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=mold"])
def test_ordinary_code_behind_link_time_optimization_gets_an_ordinary_stack(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker[9:]}")
    module = mblob.csource_module(
        "int twice(int x) { return 2 * x; }", functions="int twice(int x)"
    )
    module.export_library(tmp_path / "k.so", cc=require("gcc"), options=["-flto", linker])
    assert stacks(tmp_path / "k.so") == set()
    assert mblob.load_module(tmp_path / "k.so").twice(4) == 8


def stacks(path: Path) -> set[str]:
    with mblob.open(path) as library:
        found = {d["code"] for d in library.to_json()["diagnostics"]}
    told = {code for code, _ in mblob.verify(path).warnings}
    assert ("executable_stack" in told) == ("executable_stack" in found)
    return told & {"executable_stack"}


ASKED = (["-Wl,-z,execstack"], ["-z", "execstack"], ["-Xlinker", "-z", "-Xlinker", "execstack"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", ASKED, ids=" ".join)
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
@pytest.mark.own_process
def test_who_asks_for_an_executable_stack_gets_it_and_is_warned(
    tmp_path: Path,
    require: Callable[[str], str],
    embed: Literal["grow", "append", "object"],
    options: list[str],
) -> None:
    gcc = require("gcc")
    for source, more in ((NESTED, []), (LATE, ["-flto"])):
        module = mblob.csource_module(source, functions=TOTAL)
        module.import_module(mblob.blob_module("config", b"{}"))
        with pytest.warns(mblob.PortabilityWarning, match="asks for an executable stack") as told:
            module.export_library(tmp_path / "k.so", cc=gcc, embed=embed, options=[*more, *options])
        assert len(told) == 1
        assert stacks(tmp_path / "k.so") == {"executable_stack"}


def test_the_last_option_about_the_stack_counts(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    module = mblob.csource_module(NESTED, functions=TOTAL)
    options = ["-Wl,-z,execstack", "-Wl,-z,noexecstack"]
    with pytest.raises(mblob.BuildError, match=WORDS):
        module.export_library(tmp_path / "k.so", cc=require("gcc"), options=options)
