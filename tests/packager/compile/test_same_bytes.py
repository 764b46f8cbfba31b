"""Same inputs give same bytes with every flag; flags whose files would be lost are refused; what
tools said is told."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.packager.errors import BuildError

KERNEL = "int f(int x) { return x + sizeof __FILE__; }\n"


def packed(path: Path, source: Path, *options: str, cc: str = "gcc") -> bytes:
    module = mblob.csource_module(source, functions=["int f(int x)"])
    module.export_library(path, cc=cc, options=list(options))
    return path.read_bytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options",
    [
        ["-flto", "-g"],
        ["-flto", "-ffat-lto-objects"],
        ["-g3"],
        ["-g", "-gsplit-dwarf"],
        ["-flto", "-g", "-fuse-ld=mold"],
        ["-flto", "-g", "-fuse-ld=gold"],
    ],
    ids=" ".join,
)
def test_two_builds_have_the_same_bytes(
    tmp_path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True).stdout
    if options in (["-flto", "-g"], ["-g", "-gsplit-dwarf"]) and int(version.split(".")[0]) < 11:
        pytest.skip("gcc 10 writes other numbers each time")
    monkeypatch.setenv("CCACHE_DISABLE", "1")  # which keeps what it compiled in another folder
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "k.c").write_text(KERNEL)
    first = packed(tmp_path / "a.so", tmp_path / "k.c", *options)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert packed(tmp_path / "elsewhere" / "b.so", tmp_path / "k.c", *options) == first


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("name", "system_lib", "embed"),
    [("k.so", None, "c"), ("k.so", None, "append"), ("k.a", True, "c"), ("k.a", True, None), ("k.tar", None, None)],
)  # fmt: skip
def test_two_builds_of_each_output_have_the_same_bytes(
    tmp_path: Path,
    require: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    compiler: str,
    name: str,
    system_lib: bool | None,
    embed: Any,
) -> None:
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    (tmp_path / "v.c").write_text("void g(float *x) { float4 v = {1, 2, 3, 4}; *x = v.x; }\n")
    made = []
    for folder in (tmp_path / "here", tmp_path / "elsewhere"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        module = mblob.csource_module(KERNEL, functions=["int f(int x)"])
        module.import_module(mblob.csource_module(tmp_path / "v.c", functions=["void g(float *x)"]))
        module.import_module(mblob.blob_module("config", b"{}"))
        options = {} if system_lib is None else {"system_lib": system_lib}
        module.export_library(
            name, cc=require(compiler), options=["-g"], embed=embed or "auto", **options
        )
        made.append((folder / name).read_bytes())
        if len(made) == 1 and name != "k.so":
            time.sleep(1.1)  # archives have times in seconds
    assert made[0] == made[1]


CLOCK = """
#include <string.h>
int f(int x) { return strcmp(__DATE__, "Jan  1 1970") == 0 && strcmp(__TIME__, "00:00:00") == 0 ? x : 0; }
"""


@pytest.mark.slow
def test_a_source_that_asks_for_the_time_gets_that_of_source_date_epoch(
    tmp_path: Path, require: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.c").write_text(CLOCK)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    first = packed(tmp_path / "a.so", tmp_path / "k.c", cc=require("gcc"))
    time.sleep(1.1)
    assert packed(tmp_path / "b.so", tmp_path / "k.c", cc=require("gcc")) == first
    assert mblob.load_module(tmp_path / "a.so").f(5) == 5
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert packed(tmp_path / "c.so", tmp_path / "k.c", cc=require("gcc")) != first


def test_bitcode_of_clang_is_refused_with_what_to_do(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    with pytest.raises(BuildError, match="LLVM bitcode: compile without -flto"):
        packed(tmp_path / "a.so", tmp_path / "k.c", "-flto", cc=require("clang"))


@pytest.mark.parametrize(
    "option",
    ["--coverage", "-fprofile-arcs", "-fprofile-generate", "-save-temps=obj", "-ftime-trace"],
)
def test_a_flag_whose_files_would_be_lost_is_refused(tmp_path: Path, option: str) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    with pytest.raises(BuildError, match=f"options: {option}.*pack the objects"):
        packed(tmp_path / "a.so", tmp_path / "k.c", option)


def test_objects_that_the_linker_cannot_read_are_named(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("ld.lld")
    (tmp_path / "k.c").write_text(KERNEL)
    with pytest.raises(BuildError, match=r"k\.c: the linker left out .* -flto \(f\)"):
        packed(tmp_path / "a.so", tmp_path / "k.c", "-flto", "-fuse-ld=lld")


@pytest.mark.parametrize("linker", ["bfd", "mold"])
def test_a_version_script_that_hides_the_packed_modules_is_named(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}" if linker == "bfd" else linker)
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "v.map").write_text("{ global: f; local: *; };\n")
    options = [f"-fuse-ld={linker}", f"-Wl,--version-script={tmp_path / 'v.map'}"]
    with pytest.raises(
        mblob.ToolchainError, match=r"did not export __tvm_dev_mblob.* version script"
    ):
        packed(tmp_path / "a.so", tmp_path / "k.c", *options)


def test_a_process_that_ignores_sigchld_is_told_what_compilers_and_linkers_say(
    tmp_path: Path,
) -> None:
    program = """
import signal, subprocess, sys, mblob
object = sys.argv[1]
source = b"int g(void); int f(void) { return g(); }"
subprocess.run(["cc", "-c", "-x", "c", "-", "-o", object], input=source, check=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def said(run):
    try:
        run()
    except mblob.ToolchainError as error:
        print(error)
module = mblob.csource_module("int f(int x) { oops }", functions=["int f(int x)"])
said(lambda: module.export_library(object + ".so"))
module = mblob.csource_module("int f(int x) { return x; }")
said(lambda: module.export_library(object + ".so", options=["-lnope"]))
try:
    mblob.load_module(object)
except mblob.IncompatibleError as error:
    assert "undefined symbol: g" in str(error)
module.export_library(object + ".so")
print("packed")
"""
    command = [sys.executable, "-c", program, tmp_path / "x.o"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "'oops' undeclared" in done.stdout, done
    assert "-lnope" in done.stdout
    assert done.stdout.endswith("packed\n")
