"""Vector types through every way to build."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.cli.main import main
from mblob.packager.compile.commands import language
from mblob.packager.modules.nodes import SourceNode
from tests.vector_c.building import ADD4, adds

Require = Callable[[str], str]


def test_the_command_line_builds_it(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(ADD4)
    assert main(["build", "-o", str(tmp_path / "x.so"), "--kernel", str(tmp_path / "k.c")]) == 0
    assert adds(tmp_path / "x.so")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_an_fcompile_gets_c_that_its_compiler_takes(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    asked = subprocess.run(
        [compiler, "-dM", "-E", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True
    )
    if not ("__FLT16_MAX__" in asked.stdout or "__clang__" in asked.stdout):
        pytest.skip("a compiler with a 16-bit float, gcc 12 or later, is not installed")

    def fcompile(output: str, files: list[str], options: list[str]) -> None:
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", output, *files, *options], check=True
        )

    half = "void g(void *p) { *(half2*)p = *(half2*)p + ((half2)(1, 1)); }\n"
    mblob.csource_module(ADD4 + half).export_library(tmp_path / "x.so", fcompile)
    assert adds(tmp_path / "x.so")
    values = np.array([1, -0.5], np.float16)
    ctypes.CDLL(str(tmp_path / "x.so")).g(ctypes.c_void_p(values.ctypes.data))
    assert values.tolist() == [2, 0.5]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_an_fcompile_may_be_a_cxx_compiler_and_our_header_has_the_same_names(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)

    def fcompile(output: str, files: list[str], options: list[str]) -> None:
        subprocess.run(
            [compiler, "-std=c++17", "-shared", "-fPIC", "-o", output, *files, *options], check=True
        )

    text = '#include <tvm/runtime/c_backend_api.h>\nextern "C" {\n' + ADD4 + "}\n"
    mblob.csource_module(text, fmt="cc").export_library(tmp_path / "x.so", fcompile)
    assert adds(tmp_path / "x.so")


def test_strict_warnings_and_preprocessor_options_of_the_user_hold(
    tmp_path: Path, require: Require
) -> None:
    (tmp_path / "config.h").write_text("typedef int from_config;\n")
    text = ADD4 + "from_config twice(void) { return 2 * N; }\n"
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
    options = [*strict, "-D", "N=21", "-include", str(tmp_path / "config.h"), "-DM"]
    for compiler in ("gcc", "clang"):
        require(compiler)
        mblob.csource_module(text).export_library(tmp_path / "x.so", cc=compiler, options=options)
        assert adds(tmp_path / "x.so")
        assert ctypes.CDLL(str(tmp_path / "x.so")).twice() == 42


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.c").write_text(ADD4)
        mblob.csource_module(tmp_path / name / "k.c").export_library(
            tmp_path / name / "x.so", options="-g"
        )
    assert (tmp_path / "a" / "x.so").read_bytes() == (tmp_path / "b" / "x.so").read_bytes()


def test_a_source_for_cuda_keeps_cudas_vectors() -> None:
    assert language(SourceNode("float4 v;", "cu")) == "cuda"
