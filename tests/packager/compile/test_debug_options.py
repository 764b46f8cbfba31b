"""Whatever options say about debug information: the types of kernels are known, and nothing unasked
is packed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

KERNEL = """
void twice(const float *x, float *y) { for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; }
int one(void) { return 1; }
__attribute__((visibility("hidden"))) int inside(void) { return 2; }
"""
TYPES = {"twice": "const float *, float *", "one": "void"}
KEPT = [
    "-g",
    "-g3",
    "-ggdb",
    "-gz -g",
    "-g0 -g",
    "-g -gno-column-info",
    "-gdwarf-4",
    "-g1",
    "-g -gsplit-dwarf",
]
DROPPED = [
    "-g0",
    "-g -g0",
    "-ggdb0",
    "-gz",
    "-gno-column-info",
    "-gsplit-dwarf",
    "-fno-lto",
    "-flto -fno-lto",
    "",
]
KEPT_BY_GCC = [
    "-flto -g",
    "-gctf",
    "-g1 -gno-record-gcc-switches",
    "-gtoggle",
    "-flto=2 -ffat-lto-objects -g",
]
DROPPED_BY_GCC = ["-flto", "-flto -g0", "-flto -ffat-lto-objects"]


def check(folder: Path, options: str, cc: str, has_debug: bool) -> None:
    """Pack a kernel: its types are known, and debug information is there if it was asked for."""
    module = mblob.csource_module(KERNEL)
    module.import_module(mblob.blob_module("raw", b"x"))
    module.export_library(folder / "k.so", options=options, cc=cc)
    with mblob.open(folder / "k.so") as library:
        assert {f.name: f.types for f in library.host_functions if f.abi == "plain"} == TYPES
        assert any(s.name in (".debug_info", ".ctf") for s in library.elf.sections) == has_debug


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", [*KEPT, *KEPT_BY_GCC, *DROPPED, *DROPPED_BY_GCC])
def test_types_are_known_with_any_option_of_gcc(
    tmp_path: Path, options: str, require: Callable[[str], str]
) -> None:
    gcc = require("gcc")
    known = subprocess.run([gcc, *options.split(), "-E", "-xc", os.devnull], capture_output=True)
    if known.returncode:
        pytest.skip(f"this gcc has no {options}")
    kept = options in (*KEPT, *KEPT_BY_GCC)
    if options == "-gsplit-dwarf":  # which asks for debug information up to gcc 10
        version = subprocess.run([gcc, "-dumpversion"], capture_output=True, text=True).stdout
        kept = int(version.split(".")[0]) < 11
    check(tmp_path, options, gcc, kept)


@pytest.mark.slow
@pytest.mark.parametrize("options", [*KEPT, *DROPPED, "-gline-tables-only", "-gmlt"])
def test_types_are_known_with_any_option_of_clang(
    tmp_path: Path, options: str, require: Callable[[str], str]
) -> None:
    check(tmp_path, options, require("clang"), options not in DROPPED)


@pytest.mark.parametrize(
    ("cc", "has_debug"), [("gcc -g0", False), ("gcc -flto", False), ("gcc -g1", True)]
)
def test_options_in_the_command_of_the_compiler_count_too(
    tmp_path: Path, cc: str, has_debug: bool, require: Callable[[str], str]
) -> None:
    require("gcc")
    check(tmp_path, "", cc, has_debug)


def test_options_of_other_programs_stay(tmp_path: Path, require: Callable[[str], str]) -> None:
    check(tmp_path, "-Xassembler -gdwarf-4", require("gcc"), True)


def test_a_prototype_that_contradicts_the_source_is_refused_with_link_time_optimization(
    tmp_path: Path,
) -> None:
    module = mblob.csource_module(KERNEL, functions=["void twice(const double *x, float *y)"])
    with pytest.raises(mblob.MblobError, match="twice: the prototype parameter 0"):
        module.export_library(tmp_path / "k.so", options="-flto")


def test_an_object_whose_debug_information_leaves_types_out_is_not_taken_at_its_word(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    subprocess.run([require("gcc"), "-g1", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    module = mblob.static_library(
        tmp_path / "k.o", functions=["void twice(const float *x, float *y)"]
    )
    module.export_library(tmp_path / "k.so")  # without a word of a contradiction
    with mblob.open(tmp_path / "k.so") as library:
        rows = [row for row in library.function_table if row.abi == "plain"]
        assert {row.name: row.types for row in rows} == {"twice": "const float *, float *"}
