"""Names that a source or a header gives a meaning of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.packager.compile.vector_c.rewrite import rewrite
from tests.vector_c.building import COMPILERS, built, floats

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


@pytest.mark.sample(3)
@pytest.mark.parametrize("what", OWN)
def test_a_name_that_the_source_declares_is_its_own(tmp_path: Path, what: str) -> None:
    assert rewrite(OWN[what], "x.c") is None
    lib = built(tmp_path, OWN[what], options="-Wall -Wextra -Werror")
    lib.get.restype = ctypes.c_float
    assert lib.get() == 4


LETTERS = """
static float4 twice_{0}(float4 x) {{ return x + x; }}
#ifdef __cplusplus
extern "C"
#endif
void f(float *p) {{
  {{ float4 v = *(float4*)p, {0} = v + v; *(float4*)p = {0}; }}
  {{ float {0} = (*(float4*)p).s1; *(float4*)p = *(float4*)p + (float4)({0}, {0}, {0}, {0}); }}
  {{ struct {{ float4 {0}; }} s; s.{0} = *(float4*)p; *(float4*)p = s.{0} + s.{0}; }}
  {{ typedef float4 {0}; {0} v = twice_{0}(*(float4*)p); *({0}*)p = v; }}
}}
"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["\u00e4", r"\u00e4", r"\U000000e4", "größe", "变量2", "a\u0301"])
def test_names_have_letters_of_any_script(
    tmp_path: Path, require: Callable[[str], str], compiler: str, name: str
) -> None:
    require(compiler)
    lib = built(tmp_path, LETTERS.format(name), cc=compiler)
    p = floats(1, 2, 3, 4)
    lib.f(p)
    assert list(p) == [24, 32, 40, 48]


@pytest.mark.sample(1)
@pytest.mark.parametrize("encoding", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_letters_are_utf_8_in_any_locale(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "k.c").write_text(
        'const char *text(void) { float4 ä; (void)ä; return "ä"; }\n', encoding="utf-8"
    )
    script = (
        "import mblob, ctypes; mblob.csource_module('k.c').export_library('k.so');"
        "f = ctypes.CDLL('./k.so').text; f.restype = ctypes.c_char_p; assert f() == b'\\xc3\\xa4', f()"
    )
    environment = {**os.environ, "LC_ALL": encoding, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    root = Path(mblob.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={**environment, "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_one_name_in_two_spellings_is_one_name(tmp_path: Path) -> None:
    lib = built(tmp_path, "void f(float *p) { float4 ä = *(float4*)p; *(float4*)p = \\u00e4 + ä; }")
    p = floats(1, 2, 3, 4)
    lib.f(p)
    assert list(p) == [2, 4, 6, 8]


def test_a_name_that_a_header_declares_is_its_own_and_other_vectors_are_rewritten(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.h").write_text(
        "typedef struct { float x, w; } float4;\n#define SUM(a, b) ((a) + (b))\n"
    )
    (tmp_path / "k.c").write_text(
        '#include "own.h"\nvoid f(float4 *p, float *q) { p->w = SUM(*(float2*)q, *(float2*)(q + 1)).s1; }\n'
    )
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so")
    p = floats(0, 0)
    ctypes.CDLL(str(tmp_path / "x.so")).f(p, floats(1, 2, 4))
    assert list(p) == [0, 6]


@pytest.mark.parametrize(
    "text",
    [
        "int f(void) { return 1; }",
        "/* half of float4 */ int f(void) { return 1; } // half\n",
        OWN["a struct"],
    ],
)
def test_sources_without_vectors_are_compiled_once(tmp_path: Path, text: str) -> None:
    (tmp_path / "cc").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/log\nexec gcc "$@"\n')
    (tmp_path / "cc").chmod(0o755)
    mblob.csource_module(text).export_library(tmp_path / "x.so", cc=str(tmp_path / "cc"))
    assert " -E " not in (tmp_path / "log").read_text()
