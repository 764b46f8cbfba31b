"""Relative paths of a caller count from the caller's folder, not from the one we compile in."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.cli.main import main
from mblob.packager.options import as_options

SOURCE = '#include "amount.h"\nvoid add(float *x) { x[0] += AMOUNT; }\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a compiler, a source and a header."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "amount.h").write_text("#define AMOUNT 2\n")
    (tmp_path / "k.c").write_text(SOURCE)
    compiler = tmp_path / "mycc"
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n')
    compiler.chmod(0o755)
    return tmp_path


def added() -> float:
    x = np.ones(1, "f")
    mblob.load_module("o.so")["add"](x)
    return float(x[0])


@pytest.mark.parametrize("cc", ["./mycc", ["./mycc"], "env A=b ./mycc"])
def test_a_compiler(folder: Path, cc: object) -> None:
    host = mblob.csource_module("k.c", functions=["void add(float *x)"])
    host.export_library("o.so", cc=cc, options=["-Iinc"])
    assert added() == 3


def test_a_compiler_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "./mycc")
    host = mblob.csource_module("k.c", functions=["void add(float *x)"])
    host.export_library("o.so", options="-I inc")
    assert added() == 3


def test_a_compiler_that_is_not_there(folder: Path) -> None:
    host = mblob.csource_module("k.c", functions=["void add(float *x)"])
    with pytest.raises(mblob.ToolchainError, match="no C compiler"):
        host.export_library("o.so", cc="./nocc", options=["-Iinc"])


def test_paths_in_options(folder: Path) -> None:
    words = [
        "-Iinc",
        "-I",
        "inc",
        "-isysteminc",
        "-include",
        "inc/amount.h",
        "-Wl,--version-script=k.c,-z,now",
        "k.c",
    ]
    inc, source = str(folder / "inc"), str(folder / "k.c")
    expected = [f"-I{inc}", "-I", inc, f"-isystem{inc}", "-include", f"{inc}/amount.h"]
    assert list(as_options(words)) == [*expected, f"-Wl,--version-script={source},-z,now", source]


def test_words_of_a_file_and_for_the_linker(folder: Path) -> None:
    (folder / "words").write_text("-Iinc '-DA=b c'")
    assert as_options(["@words", "@none"]) == (f"-I{folder}/inc", "-DA=b c", "@none")
    given = ("-Wl,-Linc", "-Wl,-L,inc", "-Wp,-Iinc", "-Wl,-Map=out.map")
    inc = str(folder / "inc")
    assert as_options(given) == (
        f"-Wl,-L{inc}",
        f"-Wl,-L,{inc}",
        f"-Wp,-I{inc}",
        f"-Wl,-Map={folder}/out.map",
    )


def test_words_that_are_no_paths_stay(folder: Path) -> None:
    (folder / "inc" / "now").touch()
    words = [
        "-Inone",
        "-include",
        "stdio.h",
        "-Ttext=0",
        "-Bsymbolic",
        "-DA=inc",
        "-D",
        "inc",
        "-lm",
        "-Wl,-z,now",
        "-O2",
    ]
    assert list(as_options(words)) == words
    assert as_options(["-I/usr/include", "-I=inc"]) == ("-I/usr/include", "-I=inc")


def test_a_manifest_is_seen_from_its_own_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("model.toml").write_text(
        'kernels = ["k.c"]\noutput = "o.so"\nfunctions = ["void add(float *x)"]\noptions = ["-Iinc"]\n'
        'cc = "./mycc"\n'
    )
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert main(["build", "../model.toml"]) == 0
    monkeypatch.chdir(folder)
    assert added() == 3


def test_a_relative_folder_in_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tools").mkdir()
    (folder / "mycc").rename(folder / "tools" / "relcc")
    monkeypatch.setenv("PATH", f"tools:{os.environ['PATH']}")
    host = mblob.csource_module("k.c", functions=["void add(float *x)"])
    host.export_library("o.so", cc="relcc", options=["-Iinc"])
    assert added() == 3
