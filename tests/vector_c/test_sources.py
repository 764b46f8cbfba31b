"""Vector types in whole sources: what TVM writes, what users mean by such names, lines, errors, every way to build."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.cli.main import main
from packager.commands import language
from packager.nodes import SourceNode
from packager.vector_c.rewrite import rewrite

Require = Callable[[str], str]
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


# -- what TVM writes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
def test_tvms_vectorized_convolution_is_numpys(
    tmp_path: Path, golden: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    mblob.csource_module(golden / "conv2d_vectorized.c").export_library(tmp_path / "conv.so", cc=compiler)
    random = np.random.default_rng(0)
    data, weight, bias = (random.standard_normal(s, dtype=np.float32) for s in ((1, 32, 56, 56), (32, 32, 3, 3), 32))
    out = np.zeros_like(data)
    run = mblob.load_module(tmp_path / "conv.so")["tvmgen_default_fused_nn_conv2d_nn_bias_add_nn_relu"]
    run(data, weight, bias, out)
    padded = np.pad(data[0], ((0, 0), (1, 1), (1, 1)))
    expected = sum(
        np.einsum("oi,ihw->ohw", weight[:, :, y, x], padded[:, y : y + 56, x : x + 56])
        for y in range(3)
        for x in range(3)
    )
    np.testing.assert_allclose(out[0], np.maximum(expected + bias[:, None, None], 0), atol=1e-4)


def test_bytes_that_tvm_gathers_as_if_packed_in_an_integer(tmp_path: Path, require: Require) -> None:
    terms = "|".join(
        f"((0x000000ff << {8 * i}) & (((int8_t*)p)[v_.s{i}] << {8 * i}))" for i in range(6)
    )
    local = "|".join(f"((0x000000ff << {8 * i}) & (buf[(v_.s{i} + 1)] << {8 * i}))" for i in range(4))
    lib = built(tmp_path, f"""#include <stdint.h>
void f(void *p, int32_t *out) {{
  int32_t6 v_ = int32_t6((0)+(2*0), (0)+(2*1), (0)+(2*2), (0)+(2*3), (0)+(2*4), (0)+(2*5));
  *(int32_t6*)out = (((int32_t6){terms}) * ((int32_t6)(3, 3, 3, 3, 3, 3)));
}}
void g(const uint8_t *p, int16_t *out) {{
  uint8_t buf[8];
  for (int i = 0; i < 8; ++i) buf[i] = p[i];
  int32_t4 v_ = int32_t4(3, 2, 1, 0);
  *(int16_t4*)out = ((int16_t4){local});
}}
""")  # fmt: skip
    out = (ctypes.c_int32 * 6)()
    lib.f((ctypes.c_int8 * 12)(*range(-5, 7)), out)
    assert list(out) == [-15, -9, -3, 3, 9, 15]
    short = (ctypes.c_int16 * 4)()
    lib.g((ctypes.c_uint8 * 8)(0, 255, 128, 3, 200), short)
    assert list(short) == [200, 3, 128, 255]


def test_mathematics_is_done_lane_by_lane(tmp_path: Path) -> None:
    lib = built(tmp_path, """#include <math.h>
void f(float *p, float *out) {
  *(float3*)out = powf(expf((*(float3*)p) * 0.5f), ((float3)(2.0f, 2.0f, 2.0f)));
}
""")
    out = floats(0, 0, 0, 7)
    lib.f(floats(0, 1, -2), out)
    np.testing.assert_allclose(np.array(out), [1, np.e, np.exp(-2), 7], rtol=1e-6)


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_sizeof_needs_no_brackets(tmp_path: Path, require: Require, compiler: str) -> None:
    code = """#include <string.h>
void f(const float *x, float *y, long long *size) {
  float5 v, w[2];
  memcpy(&v, x, sizeof v);
  memset(w, 0, sizeof w);
  w[1] = v * 2.0f;
  memcpy(y, w, sizeof w);
  *size = (long long)(sizeof v + sizeof w[0] * 2 + sizeof *x);
}
"""
    require(compiler)
    lib = built(tmp_path, code, cc=compiler)
    out, size = floats(*range(10)), (ctypes.c_longlong * 1)()
    lib.f(floats(1, 2, 3, 4, 5), out, size)
    assert list(out) == [0] * 5 + [2, 4, 6, 8, 10]
    assert size[0] == 20 + 40 + 4


def test_a_scalar_condition_evaluates_one_side(tmp_path: Path) -> None:
    code = "*(float4*)out = c ? *(float4*)p : float4(1, 2, 3, 4);"
    lib = built(tmp_path, f"void f(int c, float *p, float *out) {{ {code} }}")
    out = floats(0, 0, 0, 0)
    lib.f(0, None, out)
    assert list(out) == [1, 2, 3, 4]


def test_a_true_comparison_is_minus_one_where_opencl_says_so_and_one_where_tvm_means_bool(tmp_path: Path) -> None:
    lib = built(tmp_path, """#include <stdint.h>
void f(int32_t2 *out, float *p) {
  float2 a = *(float2*)p, b = a.yx;
  int32_t2 opencl = a < b;
  uint32_t2 tvm = a < b;
  out[0] = opencl; out[1] = (int32_t2)tvm; out[2] = (int32_t2)(a < b); out[3] = opencl & (int32_t2)(6, 6);
  int8_t2 narrow = (int8_t2)(a < b);
  out[4].s0 = narrow.s0; out[4].s1 = narrow[1];
}
""")
    out = (ctypes.c_int32 * 10)()
    lib.f(out, floats(1, 2))
    assert list(out) == [-1, 0, 1, 0, 1, 0, 6, 0, 1, 0]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_half_numbers_beside_half_vectors(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)
    fmt = "cc" if "++" in compiler else "c"
    extern = 'extern "C" ' if fmt == "cc" else ""
    lib = built(tmp_path, f"""
{extern}void f(void *p, void *out, float *wide, double x) {{
  half scale = (half)2.500000e-01f;
  half5 v = *(half5*)p * ((half5)(scale, scale, scale, scale, scale));
  *(half5*)out = v;
  ((half*)out)[5] = v.s4 + (half)x;
  wide[0] = (float)((half*)p)[1];
  *(float5*)(wide + 1) = (float5)v;
}}
""", fmt=fmt, cc=compiler)  # fmt: skip
    values = np.array([1, 65504, 6e-8, -0.0, 1e-4], np.float16)
    out, wide = np.zeros(7, np.float16), np.zeros(6, np.float32)
    x = 1 + 2.0**-11 + 2.0**-30  # above the tie, by less than a float can tell
    lib.f(*(ctypes.c_void_p(a.ctypes.data) for a in (values, out, wide)), ctypes.c_double(x))
    scaled = values * np.float16(0.25)
    assert out[:5].tobytes() == scaled.tobytes()
    assert out[5] == scaled[4] + np.float16(x)
    assert out[6] == 0
    assert wide.tolist() == [65504, *scaled.astype(np.float32).tolist()]


CONTEXTS = {
    "0.5": "extern void* __tvm_module_ctx = NULL;",
    "0.7": "void* __tvm_module_ctx = NULL;",
    "0.8": "",
    "0.9 with AOT": '#ifdef __cplusplus\nextern "C"\n#endif\nvoid* __tvm_module_ctx = NULL;',
    "another source's": '#ifdef __cplusplus\nextern "C" {\n#endif\nextern void* __tvm_module_ctx;\n'
                        "#ifdef __cplusplus\n}\n#endif",
}  # fmt: skip


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("era", CONTEXTS)
def test_tvms_host_code_has_the_context_whether_it_defines_one_or_forgets_it(
    tmp_path: Path, require: Require, era: str, compiler: str
) -> None:
    require(compiler)
    text = """// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
CONTEXT
static void* vectors_double_packed = NULL;
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t NAME(void* args, int* type_codes, int num_args, void* ret, int* ret_code, void* resource) {
  if (vectors_double_packed == NULL) {
    if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "vectors.double", &vectors_double_packed) != 0) return -1;
  }
  float2 v = *(float2*)(((DLTensor*)((TVMValue*)args)[0].v_handle)[0].data);
  TVMValue stack[1]; int code[1] = {kTVMArgFloat};
  stack[0].v_float64 = (v + v).s1;
  return TVMFuncCall(vectors_double_packed, stack, code, 1, (TVMValue*)ret, ret_code);
}
""".replace("CONTEXT", CONTEXTS[era])
    mblob.register_func("vectors.double", lambda x: 2 * x, override=True)
    fmt = "cc" if "++" in compiler else "c"
    root, other = (mblob.csource_module(text.replace("NAME", name), fmt=fmt) for name in ("f", "g"))
    root.import_module(other)
    root.export_library(tmp_path / "x.so", cc=compiler)
    loaded = mblob.load_module(tmp_path / "x.so")
    assert [loaded[name](np.array([1, 5], np.float32)) for name in ("f", "g")] == [20, 20]


# -- names of users -------------------------------------------------------------------------------------


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


# -- lines and errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_compiler_complains_about_the_line_of_the_source(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)
    (tmp_path / "k.c").write_text(
        "#include <stdint.h>\n/* a\n comment */\nfloat4 f(float4 a,\n  float4 b) {\n  return a\n    + b;\n}\n"
        "int g(void) { return nobody; }\n"
    )
    with pytest.raises(mblob.ToolchainError, match=r"k\.c:9:.*nobody"):
        mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", cc=compiler)


def test_a_missing_header_is_the_compilers_error(tmp_path: Path) -> None:
    with pytest.raises(mblob.ToolchainError, match=r"lib0\.c:1:.*no_such\.h"):
        mblob.csource_module('#include "no_such.h"\nfloat4 x;\n').export_library(tmp_path / "x.so")


def test_a_debugger_sees_the_lines_of_the_source(tmp_path: Path, require: Require) -> None:
    require("readelf")
    (tmp_path / "k.c").write_text(ADD4)
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", options="-g -O0")
    done = subprocess.run(
        ["readelf", "--debug-dump=decodedline", tmp_path / "x.so"], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("k.c ")]
    assert {int(row[1]) for row in rows if row[1].isdigit()} == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("float4 a; float8 b;\nvoid f() { a + b; }", r"x\.c:2: float4 \+ float8: vectors of 4 and of 8 lanes"),
        ("void f() {\n\n float4 v = float4(1, 2, 3); }", r"x\.c:3: float4 is made of 3 lanes"),
        ("void f() { float4 v = (float4)(1, 2); }", r"x\.c:1: float4 is made of 2 lanes"),
        ("void f(float3 v) { v.s3 = 1; }", r"float3 has no 's3'; its lanes are s0 to s2"),
        ("void f(float3 v) { v.length; }", r"float3 has no 'length'"),
        ("void f(float3 v) { v % v; }", r"float3: % is for vectors of integers"),
        ("void f(float3 v) { v <<= 1; }", r"float3: <<= is for vectors of integers"),
        ("void f(float3 v) { ~v; }", r"float3: ~ is for vectors of integers"),
        ("float4 f(float3 v) { return v; }", r"a vector of 3 lanes \(float3\) where float4 is expected"),
        ("void f(float4 c, float2 v) { v = c ? v : v; }", r"condition of 4 lanes chooses among vectors of 2"),
        ("float4 v;\nvoid f(float2 x) { v.xy = x; }", r"x\.c:2: several lanes can be read at once, not written"),
        ("void f(float4 v) { (v.hi) *= v.lo; }", r"several lanes can be read"),
        ("void f(float4 v) { v.s01++; }", r"several lanes can be read"),
        ("void f(float4 v) { --v.even; }", r"several lanes can be read"),
        ("void f(float4 v) { g(&v.lo); }", r"several lanes can be read"),
        ('# 7 "a/b.h"\nfloat2 a; float3 b;\nint c = a * b;', r"a/b\.h:8: float2 \* float3"),
    ],
)  # fmt: skip
def test_vectors_that_do_not_fit_are_refused_with_their_line(code: str, message: str) -> None:
    with pytest.raises(mblob.MblobError, match=message):
        rewrite(code, "x.c")


def test_no_nesting_is_too_deep() -> None:
    depth = 20000
    made = rewrite(f"float2 f(float2 v) {{ return {'(' * depth}v{' + v)' * depth}; }}", "x.c")
    assert made is not None
    assert made.source.count("mblob_float2_add") == depth


@pytest.mark.parametrize(
    "code",
    [
        "float4 f(", "float4 v = (((", "float4 f() { return v +; }", "struct { float4", "float4 a[", ") float4 x; }",
        "float4(", "? float2 x", "for (float4", "float4 f() { a ? b; }", "typedef float4", "float4 v = {1, {2}", "'",
        '"', "float4 f() { x..s0 }",
    ],
)  # fmt: skip
def test_what_is_no_c_is_left_to_the_compiler(code: str) -> None:
    made = rewrite(code, "x.c")
    assert made is None or made.source.count("\n") == code.count("\n")


# -- every way to build ---------------------------------------------------------------------------------


def test_the_command_line_builds_it(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(ADD4)
    assert main(["build", "-o", str(tmp_path / "x.so"), "--kernel", str(tmp_path / "k.c")]) == 0
    assert adds(tmp_path / "x.so")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_an_fcompile_gets_c_that_its_compiler_takes(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)

    def fcompile(output: str, files: list[str], options: list[str]) -> None:
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", output, *files, *options], check=True)

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
        subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", "-o", output, *files, *options], check=True)

    text = '#include <tvm/runtime/c_backend_api.h>\nextern "C" {\n' + ADD4 + "}\n"
    mblob.csource_module(text, fmt="cc").export_library(tmp_path / "x.so", fcompile)
    assert adds(tmp_path / "x.so")


def test_strict_warnings_and_preprocessor_options_of_the_user_hold(tmp_path: Path, require: Require) -> None:
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
        mblob.csource_module(tmp_path / name / "k.c").export_library(tmp_path / name / "x.so", options="-g")
    assert (tmp_path / "a" / "x.so").read_bytes() == (tmp_path / "b" / "x.so").read_bytes()


def test_a_source_for_cuda_keeps_cudas_vectors() -> None:
    assert language(SourceNode("float4 v;", "cu")) == "cuda"
