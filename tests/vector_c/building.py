"""Tools of the tests of vector types: sources built and opened with each compiler."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import mblob

# One for each language is enough to see a mistake; all of them are the slow tier's.
COMPILERS = ("gcc", "g++", "clang", "clang++")
ADD4 = """#include <stdint.h>
void add4(float *a, const float *b) {
  float4 v = *(float4*)a + *(float4*)(b);
  *(float4*)a = v;
}
"""


def floats(*values: float) -> Any:
    return (ctypes.c_float * len(values))(*values)


def built(tmp_path: Path, text: str, **kwargs: Any) -> ctypes.CDLL:
    fmt = kwargs.pop("fmt", "c")
    mblob.csource_module(text, fmt=fmt).export_library(tmp_path / "x.so", **kwargs)
    return ctypes.CDLL(str(tmp_path / "x.so"))


def adds(path: Path) -> bool:
    a = floats(1, 2, 3, 4)
    ctypes.CDLL(str(path)).add4(a, floats(10, 20, 30, 40))
    return list(a) == [11, 22, 33, 44]
