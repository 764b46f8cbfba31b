"""The files that the compiled modules are built from."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mblob.native import _native


@pytest.fixture(scope="module")
def native_build(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "native_build", root / "mblob" / "native" / "_native_build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_function_of_the_header_is_in_the_module(root: Path) -> None:
    header = re.sub(r"/\*.*?\*/", "", (root / "csrc/include/mblob.h").read_text(), flags=re.DOTALL)
    names = re.findall(r"^MBLOB_API[^;(]*?(\w+)\(", header, re.MULTILINE)
    assert len(names) > 20
    assert [name for name in names if not hasattr(_native.lib, name)] == []


def test_comments_macros_and_cxx_are_left_out_of_the_declarations(native_build: ModuleType) -> None:
    header = """
    /* a comment; with a declaration: int no(void); */
#ifndef X
#define MBLOB_API __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif
MBLOB_API int yes(void); /* more
   lines */
#ifdef __cplusplus
}
#endif
#endif
"""
    assert native_build.declarations(header).split() == ["int", "yes(void);"]


def test_both_modules_use_one_copy_of_the_runtime() -> None:
    """In a process of its own: other tests load other builds of the library."""
    program = (
        "import mblob.native._native, mblob.loader._call; print(open('/proc/self/maps').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    paths = {line.split(None, 5)[5] for line in done.stdout.splitlines() if "libmblob.so" in line}
    assert len(paths) == 1
