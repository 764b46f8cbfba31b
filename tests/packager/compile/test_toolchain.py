"""Finding and running compilers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import ToolchainError
from mblob.packager.compile import toolchain
from mblob.packager.compile.commands import language
from mblob.packager.compile.toolchain import find, same_target
from mblob.packager.modules.nodes import SourceNode
from mblob.packager.options import (
    as_options,
    compile_options,
    linker_named,
    options_behind_preprocessor,
)


def test_the_compiler_of_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -m64")
    assert toolchain.find().cc == ("gcc", "-m64")
    assert toolchain.find("gcc -O1").cc == ("gcc", "-O1")


def test_what_a_compiler_says_of_a_call_without_a_declaration_is_shown(tmp_path: Path) -> None:
    """The pointer that it returns would be cut to an int."""
    module = mblob.csource_module("float *made(int n) { return malloc(n * sizeof(float)); }")
    with pytest.warns(
        UserWarning, match=r"lib0\.c:1:29: implicit declaration of function 'malloc'"
    ):
        module.export_library(tmp_path / "k.so", cc="gcc")


def test_a_caller_who_asks_for_warnings_gets_them(tmp_path: Path) -> None:
    module = mblob.csource_module("int f(int n) { int unused; return n; }")
    module.export_library(tmp_path / "k.so", cc="gcc")
    with pytest.warns(UserWarning, match=r"unused variable 'unused' \[-Wunused-variable\]"):
        module.export_library(tmp_path / "k.so", cc="gcc", options=["-Wall"])


@pytest.mark.parametrize("cc", ["env", "env A=b", ["nice"]])
def test_a_launcher_is_no_compiler(cc: Any) -> None:
    with pytest.raises(ToolchainError, match=r"cc=: .*: no compiler behind (env|nice); add one"):
        find(cc)


@pytest.mark.parametrize("cc", [3, [3], 2.5, {"gcc"}])
def test_what_is_no_command_is_refused_by_the_name_of_its_argument(cc: Any) -> None:
    with pytest.raises(TypeError, match="cc: expected str, or a list of str, found"):
        find(cc)


def test_a_target_chooses_its_compiler(require: Callable[[str], str]) -> None:
    require("aarch64-linux-gnu-gcc")
    assert toolchain.find(target="aarch64-linux-gnu").cc == ("aarch64-linux-gnu-gcc",)


def test_a_target_with_musl_takes_its_wrapper_and_no_compiler_that_reads_glibc(
    require: Callable[[str], str],
) -> None:
    require("musl-gcc"), require("clang")
    triple = f"{os.uname().machine}-linux-musl"
    found = toolchain.find(target=triple)
    assert (found.cc, found.triple) == ((f"{triple}-gcc",), triple)
    assert toolchain.find("musl-gcc").triple == triple
    for cc in ("clang", f"clang --target={triple}"):
        text = f"clang --target={triple} finds no C library for it; install musl-tools, or pass"
        with pytest.raises(mblob.ToolchainError, match=text):
            toolchain.find(cc, triple)
    with pytest.raises(mblob.IncompatibleError, match=f"musl-gcc compiles for {triple}, target="):
        toolchain.find("musl-gcc", triple.replace("musl", "gnu"))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("x86_64-linux-gnu", "x86_64-pc-linux-gnu", True),
        ("x86_64-linux-gnu", "x86_64-unknown-linux-gnu", True),
        ("i686-linux-gnu", "i386-pc-linux-gnu", True),
        ("amd64-linux-gnu", "x86_64-linux-gnu", True),
        ("arm64-linux-gnu", "aarch64-linux-gnu", True),
        ("x86_64-linux-gnu", "x86_64-linux-musl", False),
        ("arm-linux-gnueabi", "arm-linux-gnueabihf", False),
    ],
)
def test_triples_are_compared_by_what_they_mean(a: str, b: str, same: bool) -> None:
    assert same_target(a, b) == same


@pytest.mark.parametrize(
    ("cc", "cxx"),
    [
        (("gcc",), "g++"),
        (("clang-19", "--target=x"), "clang++-19 --target=x"),
        (("/opt/bin/aarch64-linux-gnu-gcc-12",), "/opt/bin/aarch64-linux-gnu-g++-12"),
        (("cc",), "c++"),
        (("ccache", "gcc"), "ccache g++"),
        (("distcc", "/opt/bin/gcc-12", "-m32"), "distcc /opt/bin/g++-12 -m32"),
        (("g++",), "g++"),
        (("clang++-14", "-m32"), "clang++-14 -m32"),
    ],
)
def test_the_cxx_compiler_is_the_c_compilers_sibling(cc: tuple[str, ...], cxx: str) -> None:
    assert " ".join(toolchain.cxx_siblings(cc)[0]) == cxx


def test_the_cxx_compiler_of_the_environment_goes_with_the_default_c_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CXX", "my-c++ -x")
    assert toolchain.cxx_siblings(("cc",))[0] == ("my-c++", "-x")


def test_compilations_get_no_options_of_the_link() -> None:
    given = [
        "-O3",
        "-lm",
        "-Wl,-z,now",
        "-L/lib",
        "-DX",
        "-Xlinker",
        "-x",
        "foo.o",
        "-I",
        "inc",
        "-fuse-ld=gold",
    ]
    assert compile_options(given) == ["-O3", "-DX", "-I", "inc"]


@pytest.mark.parametrize(
    ("options", "linker"),
    [
        ([], ""),
        (["-fuse-ld=mold"], "mold"),
        (["-fuse-ld=/opt/gold/ld.mold"], "mold"),
        (["-fuse-ld=mold", "--ld-path=/usr/bin/ld.lld"], "lld"),
        (["-fuse-ld=wild"], ""),
    ],
)
def test_a_linker_is_named_by_its_name_or_by_a_path(options: list[str], linker: str) -> None:
    assert linker_named(options) == linker


def test_behind_the_preprocessor_its_options_are_gone() -> None:
    given = [
        "-O3",
        "-Dx",
        "-D",
        "X=a.o",
        "-I",
        "inc",
        "-Iinc",
        "-include",
        "a.h",
        "-march=native",
        "-MF",
        "d",
        "-MD",
    ]
    assert options_behind_preprocessor([*given, "-DX=a.o", "-g"]) == ["-O3", "-march=native", "-g"]


def test_options_may_be_one_text() -> None:
    assert as_options("-O3 '-DX=a b'") == ("-O3", "-DX=a b")
    assert as_options(None) == ()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (SourceNode("int f;", "c"), "c"),
        (SourceNode("int f;", "cc"), "c++"),
        (SourceNode("int f;", "cu"), "cuda"),
        (SourceNode("// tvm target: c -keys=cpu\nfloat4 x = float4(1, 2, 3, 4);", "c"), "c"),
    ],
)
def test_the_format_of_a_source_says_its_language(node: SourceNode, expected: str) -> None:
    assert language(node) == expected


@pytest.mark.parametrize("cc", ["gcc -std=c89 -pedantic-errors", "clang -ansi"])
@pytest.mark.parametrize("output", ["k.so", "k.a"])
def test_the_standard_of_the_compiler_command_is_that_of_the_callers_sources(
    tmp_path: Path, require: Callable[[str], str], cc: str, output: str
) -> None:
    """What mblob writes itself is compiled as the C that it is."""
    require(cc.split()[0])
    text = "int f(int x) { %sint y = x; return y; }"
    good, bad = (mblob.csource_module(text % s) for s in ("", "++x; // C99\n"))
    good.import_module(mblob.blob_module("config", b"{}"))
    more: Any = {"system_lib": True} if output.endswith(".a") else {}
    good.export_library(tmp_path / output, cc=cc, **more)
    if "pedantic" in cc:
        with pytest.raises(mblob.ToolchainError) as info:
            bad.export_library(tmp_path / "bad.so", cc=cc)
        assert "mblob_functions" not in str(info.value.output)


def test_sources_compile_in_parallel(tmp_path: Path) -> None:
    """Two compilers that each wait for the other to have started, and fail when it does not."""
    jobs = min(2, os.cpu_count() or 1)
    (tmp_path / "cc").write_text(
        '#!/bin/sh\ncase "$*" in *-c*lib[01].c*)\n'
        f'  for a in "$@"; do case $a in lib*.o) touch {tmp_path}/$a.started;; esac; done\n'
        f"  i=0; while [ $(ls {tmp_path}/*.started | wc -l) -lt {jobs} ] && [ $i -lt 300 ]\n"
        f"  do sleep 0.1; i=$((i+1)); done; [ $(ls {tmp_path}/*.started | wc -l) -ge {jobs} ] || exit 9;;\n"
        'esac\nexec gcc "$@"\n'
    )
    (tmp_path / "cc").chmod(0o755)
    root = mblob.csource_module("int f;\n")
    root.import_module(mblob.csource_module("int g;\n"))
    root.export_library(tmp_path / "x.so", cc=str(tmp_path / "cc"))
    assert len(list(tmp_path.glob("*.started"))) >= 2


def test_path_and_text_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.c").write_text("int from_file;\n")
    (tmp_path / "odd name").write_text("int odd;\n")
    assert mblob.csource_module("k.c").get_source() == "int from_file;\n"
    assert mblob.csource_module(tmp_path / "k.c").get_source("c") == "int from_file;\n"
    assert mblob.csource_module("odd name").get_source() == "int odd;\n"
    assert mblob.csource_module(";").get_source() == ";"
    assert mblob.csource_module("").get_source() == ""
    assert mblob.csource_module('#include "k.c"').get_source() == '#include "k.c"'
    assert mblob.csource_module("int a; // see b.c").get_source() == "int a; // see b.c"


def test_the_language_of_a_file_is_its_suffix(tmp_path: Path) -> None:
    for suffix, kind in (
        (".c", "c"),
        (".cc", "c++"),
        (".cpp", "c++"),
        (".cxx", "c++"),
        (".cu", "cuda"),
    ):
        path = tmp_path / f"k{suffix}"
        path.write_text("int f;\n")
        node = mblob.csource_module(path)._node
        assert isinstance(node, SourceNode)
        assert language(node) == kind
    with pytest.raises(
        mblob.MblobError, match="fmt: expected one of c, cc, cpp, cu, f, F, f90, F90, found 'rs'"
    ):
        mblob.csource_module(";", fmt="rs")


KERNEL = "#include <stdint.h>\nint f(int x) { return x + 1; }\n"


@pytest.mark.parametrize("how", ["cc=", "$CC"])
def test_a_launcher_before_the_compiler_runs_every_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    launcher = tmp_path / "ccache"
    launcher.write_text(
        f'#!/bin/sh\necho "$CCACHE_BASEDIR $PWD $CCACHE_NOHASHDIR $*" >> {tmp_path}/log\nexec "$@"\n'
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("CC", f"{launcher} cc" if how == "$CC" else "no-such-compiler")
    module = mblob.csource_module(KERNEL, functions=["int f(int x)"])
    module.export_library(tmp_path / "o.so", cc=f"{launcher} cc" if how == "cc=" else None)
    compiled = [
        line.split() for line in (tmp_path / "log").read_text().splitlines() if " -c " in line
    ]
    sources = {Path(word).name for words in compiled for word in words if word.endswith(".c")}
    assert {"lib0.c", "mblob_functions.c"} <= sources
    # For ccache our temporary folder, which has another name each time, is no part of what is
    # compiled.
    assert all(base == folder and flag == "1" for base, folder, flag, *_ in compiled)


@pytest.mark.parametrize(("compiler", "fmt"), [("gcc", "c"), ("g++", "cc"), ("clang", "c")])
def test_ccache_finds_every_object_the_second_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Callable[[str], str],
    compiler: str,
    fmt: str,
) -> None:
    require(compiler)
    ccache = require("ccache")
    for name, value in {
        "DIR": tmp_path / "kept",
        "LOGFILE": tmp_path / "log",
        "CONFIGPATH": os.devnull,
    }.items():
        monkeypatch.setenv(f"CCACHE_{name}", str(value))
    text = 'extern "C" ' + KERNEL.splitlines()[1] if fmt == "cc" else KERNEL
    results = []
    for output in (tmp_path / "first.so", tmp_path / "again.so"):
        (tmp_path / "log").write_text("")
        mblob.csource_module(text, fmt, functions=["int f(int x)"]).export_library(
            output, cc=f"{ccache} {compiler}"
        )
        found = re.findall(r"Result: (.*)", (tmp_path / "log").read_text())
        results.append(
            {word for word in found if word.endswith("hit") or word.endswith("miss")} & MAIN_RESULTS
        )
    assert results[0] == {"cache_miss"}
    assert results[1] == {"direct_cache_hit"}
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "again.so").read_bytes()


MAIN_RESULTS = {"cache_miss", "direct_cache_hit", "preprocessed_cache_hit"}
