"""Whole sources that TVM writes with vectors: convolutions, packed bytes, half numbers, its context
of a module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.packager.compile.vector_c.rewrite import rewrite
from tests.vector_c.building import COMPILERS, built, floats

Require = Callable[[str], str]


@pytest.mark.sample(1)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_tvms_vectorized_convolution_is_numpys(
    tmp_path: Path, golden: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    mblob.csource_module(golden / "conv2d_vectorized.c").export_library(
        tmp_path / "conv.so", cc=compiler
    )
    random = np.random.default_rng(0)
    data, weight, bias = (
        random.standard_normal(s, dtype=np.float32) for s in ((1, 32, 56, 56), (32, 32, 3, 3), 32)
    )
    out = np.zeros_like(data)
    run = mblob.load_module(tmp_path / "conv.so")[
        "tvmgen_default_fused_nn_conv2d_nn_bias_add_nn_relu"
    ]
    run(data, weight, bias, out)
    padded = np.pad(data[0], ((0, 0), (1, 1), (1, 1)))
    expected = sum(
        np.einsum("oi,ihw->ohw", weight[:, :, y, x], padded[:, y : y + 56, x : x + 56])
        for y in range(3)
        for x in range(3)
    )
    np.testing.assert_allclose(out[0], np.maximum(expected + bias[:, None, None], 0), atol=1e-4)


def test_bytes_that_tvm_gathers_as_if_packed_in_an_integer(
    tmp_path: Path, require: Require
) -> None:
    terms = "|".join(
        f"((0x000000ff << {8 * i}) & (((int8_t*)p)[v_.s{i}] << {8 * i}))" for i in range(6)
    )
    local = "|".join(
        f"((0x000000ff << {8 * i}) & (buf[(v_.s{i} + 1)] << {8 * i}))" for i in range(4)
    )
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


def test_bytes_that_a_formatter_has_spread_are_gathered_in_their_lines(tmp_path: Path) -> None:
    text = """#include <stdint.h>
void f(const uint8_t *p, int16_t *out) {
  *(int16_t2*)out = (int16_t2)((0x000000ff << 0) & (((uint8_t *)p)[1] << 0)) |
                    ((0x000000ff << 8) &
                     (((uint8_t *)p)[0] << 8));
}
"""
    made = rewrite(text, "x.c")
    assert made is not None
    assert made.source.count("\n") == text.count("\n")
    lib = built(tmp_path, text)
    out = (ctypes.c_int16 * 2)()
    lib.f((ctypes.c_uint8 * 2)(200, 255), out)
    assert list(out) == [255, 200]


def test_mathematics_is_done_lane_by_lane(tmp_path: Path) -> None:
    lib = built(
        tmp_path,
        """#include <math.h>
void f(float *p, float *out) {
  *(float3*)out = powf(expf((*(float3*)p) * 0.5f), ((float3)(2.0f, 2.0f, 2.0f)));
}
""",
    )
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


def test_a_true_comparison_is_minus_one_where_opencl_says_so_and_one_where_tvm_means_bool(
    tmp_path: Path,
) -> None:
    lib = built(
        tmp_path,
        """#include <stdint.h>
void f(int32_t2 *out, float *p) {
  float2 a = *(float2*)p, b = a.yx;
  int32_t2 opencl = a < b;
  uint32_t2 tvm = a < b;
  out[0] = opencl; out[1] = (int32_t2)tvm; out[2] = (int32_t2)(a < b); out[3] = opencl & (int32_t2)(6, 6);
  int8_t2 narrow = (int8_t2)(a < b);
  out[4].s0 = narrow.s0; out[4].s1 = narrow[1];
}
""",
    )
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


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("release", CONTEXTS)
def test_tvms_host_code_has_the_context_whether_it_defines_one_or_forgets_it(
    tmp_path: Path, require: Require, release: str, compiler: str
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
""".replace("CONTEXT", CONTEXTS[release])
    mblob.register_func("vectors.double", lambda x: 2 * x, override=True)
    fmt = "cc" if "++" in compiler else "c"
    root, other = (mblob.csource_module(text.replace("NAME", name), fmt=fmt) for name in ("f", "g"))
    root.import_module(other)
    root.export_library(tmp_path / "x.so", cc=compiler)
    loaded = mblob.load_module(tmp_path / "x.so")
    assert [loaded[name](np.array([1, 5], np.float32)) for name in ("f", "g")] == [20, 20]
