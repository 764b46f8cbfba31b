"""Names that a source or a header gives a meaning of its own."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

import mblob
from packager.vector_c.rewrite import rewrite
from tests.vector_c.building import built, floats

OWN = {
    "a struct": "typedef struct { float x, y, z, w; } float4; float4 v = {1, 2, 3, 4};\n"
                "float get(void) { float4 *p = &v; return p->w; }",
    "a variable": "float get(void) { float float16 = 4; return float16; }",
    "a parameter": "static float twice(float float16) { return 2 * float16; } float get(void) { return twice(2); }",
    "a macro": "#define float4 float\nfloat get(void) { float4 x = 4; return x; }",
    "a compiler's vector": "typedef float float4 __attribute__((vector_size(16)));\n"
                           "float get(void) { float4 a = {1, 2, 3, 4}; return (a + a)[1]; }",
    "a function": "static float half(float x) { return x / 2; } float get(void) { return half(8); }",
    "an enumerator": "enum { float2 = 4, float3 }; float get(void) { return float2; }",
    "a tag": "struct float4 { float w; }; float get(void) { struct float4 v = {4}; return v.w; }",
    "a member": "struct s { float half; }; float get(void) { struct s v = {4}; return v.half; }",
}  # fmt: skip


@pytest.mark.parametrize("what", OWN)
def test_a_name_that_the_source_declares_is_its_own(tmp_path: Path, what: str) -> None:
    assert rewrite(OWN[what], "x.c") is None
    lib = built(tmp_path, OWN[what], options="-Wall -Wextra -Werror")
    lib.get.restype = ctypes.c_float
    assert lib.get() == 4


def test_a_name_that_a_header_declares_is_its_own_and_other_vectors_are_rewritten(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("typedef struct { float x, w; } float4;\n#define SUM(a, b) ((a) + (b))\n")
    (tmp_path / "k.c").write_text(
        '#include "own.h"\nvoid f(float4 *p, float *q) { p->w = SUM(*(float2*)q, *(float2*)(q + 1)).s1; }\n'
    )
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so")
    p = floats(0, 0)
    ctypes.CDLL(str(tmp_path / "x.so")).f(p, floats(1, 2, 4))
    assert list(p) == [0, 6]


@pytest.mark.parametrize(
    "text", ["int f(void) { return 1; }", "/* half of float4 */ int f(void) { return 1; } // half\n", OWN["a struct"]]
)
def test_sources_without_vectors_are_compiled_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "cc").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/log\nexec gcc "$@"\n')
    (tmp_path / "cc").chmod(0o755)
    mblob.csource_module(text).export_library(tmp_path / "x.so", cc=str(tmp_path / "cc"))
    assert " -E " not in (tmp_path / "log").read_text()
