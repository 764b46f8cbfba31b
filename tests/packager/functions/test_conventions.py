"""A packed function calls as C does. Debug information of clang tells which functions are called
otherwise."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob

OWN = {"x86_64": "ms_abi", "aarch64": "aarch64_vector_pcs"}
ATTRIBUTE = OWN.get(platform.machine(), "preserve_most")


def test_a_function_with_a_convention_of_its_own_is_refused(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "k.c").write_text(
        f"__attribute__(({ATTRIBUTE})) void own(float *x) {{ *x = 1; }}\n"
        "void plain(float *x) { *x = 2; }\n"
    )
    command = [require("clang"), "-g", "-O1", "-fPIC", "-c", "k.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    plain = mblob.static_library(tmp_path / "k.o", functions=["void plain(float *x)"])
    plain.export_library(tmp_path / "k.so")
    own = mblob.static_library(tmp_path / "k.o", functions=["void own(float *x)"])
    with pytest.raises(mblob.BuildError, match=r"own has a calling convention.*remove it there"):
        own.export_library(tmp_path / "k.so")
