"""The code that TVM's generator prints around vectors, form by form: reinterpreted bits, booleans,
shuffles."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.vector_c.building import COMPILERS, built

Require = Callable[[str], str]
HEAD = """// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <math.h>
#include <stdbool.h>
#ifdef __cplusplus
extern "C"
#endif
"""
INPUT = np.array([1, 2.5, -3, 700], np.float32)
DOUBLED = np.array([2, 5, -6, 1400], np.float32)
# What TVM prints, over v_ = INPUT and w_ = DOUBLED in registers and p0 in memory, and what it
# means.
FORMS: dict[str, object] = {
    "*(int32_t4*)(((int32_t*)out) + 0) = (*(int32_t4 *)(&(v_)));": INPUT.view(np.int32),
    "*(int32_t4*)(((int32_t*)out) + 0) = (*(int32_t4 *)(&((v_ + v_))));": DOUBLED.view(np.int32),
    "*(int8_t16*)(((int8_t*)out) + 0) = (*(int8_t16 *)(&(w_)));": DOUBLED.view(np.int8),
    "*(float5*)(((float*)out) + 0) = (*(float5 *)(&((((int32_t5)(127, 128, 129, 1, 2)) << ((int32_t5)(23, 23, 23, 23,"
    " 23))))));": np.float32([1, 2, 4, 2.0**-126, 2.0**-125]),
    "uint32_t4 b_ = (v_ < w_); *(int8_t4*)(((int8_t*)out) + 0) = ((int8_t4)(!(b_)));": np.int8([0, 0, 1, 0]),
    "*(int8_t4*)(((int8_t*)out) + 0) = ((int8_t4)((v_ < w_) && (v_ != ((float4)(1.0f, 1.0f, 1.0f, 1.0f)))));":
        np.int8([0, 1, 0, 1]),
    "*(int8_t4*)(((int8_t*)out) + 0) = ((int8_t4)((v_ < w_) && ((uint32_t4)((bool)1, (bool)1, (bool)0, (bool)1))));":
        np.int8([1, 1, 0, 1]),
    "int8_t b[4]; for (int32_t i = 0; i < 4; ++i) { b[i] = (int8_t)(1 < i); }"
    "*(float4*)(((float*)out) + 0) = (((uint32_t4)(*(int8_t4*)(b + 0))) ? v_ : w_);": np.float32([2, 5, -3, 700]),
    "float4 condval; if ((0 < one)) { condval = (v_ * w_); } else { condval = ((float4)(0.0f, 0.0f, 0.0f, 0.0f)); }"
    "*(float4*)(((float*)out) + 0) = condval;": INPUT * DOUBLED,
    "*(float4*)(((float*)out) + 0) = float4((v_).s3, (v_).s2, w_[1], w_[0]);": np.float32([700, -3, 5, 2]),
    "*(float2*)(((float*)out) + 0) = float2(*(float4*)(((float*)p0) + 0)[2], v_[1]);": np.float32([-3, 2.5]),
    "*(int32_t2*)(((int32_t*)out) + 0) = int32_t2(*(int32_t4*)(((int32_t*)p0) + 0)[2],"
    " (((int32_t4)v_) + ((int32_t4)(1, 1, 1, 1)))[3]);": [*INPUT[2:3].view(np.int32), 701],
    "((float*)out)[0] = float4(1.0f, 2.0f, 3.0f, 4.0f)[2];": np.float32([3]),
    "*(float4*)(((float*)out) + 0) = fmodf(v_, ((float4)(2.0f, 2.0f, 2.0f, 2.0f)));": np.fmod(INPUT, 2),
    "*(float4*)(((float*)out) + 0) = ldexpf(v_, ((int32_t4)(1, 2, 3, 4)));": INPUT * np.float32([2, 4, 8, 16]),
    "*(int32_t4*)(((int32_t*)out) + 0) = (((int32_t4)(16777217, 2, 3, 4)) - abs(((int32_t4)(-16777217, 2, -3, 4))));":
        np.int32([0, 0, 0, 0]),
    "*(int32_t4*)(((int32_t*)out) + 0) = ilogbf(v_);": np.int32([0, 1, 1, 9]),
    "*(double4*)(&(((double*)out)[0])) = ((double4)v_);": INPUT.astype(np.float64),
    "*(&(*(float4*)(((float*)out) + 0))) = v_;": INPUT,
    "*(int64_t4*)(((int64_t*)out) + 0) = (int64_t4(((int64_t)3)+(((int64_t)1)*0), ((int64_t)3)+(((int64_t)1)*1),"
    " ((int64_t)3)+(((int64_t)1)*2), ((int64_t)3)+(((int64_t)1)*3)) % ((int64_t4)((int64_t)2, (int64_t)2, (int64_t)2,"
    " (int64_t)2)));": np.int64([1, 0, 1, 0]),
    "float buf[8]; *(float4*)(buf + 4) = w_; *(float4*)(buf + 0) = v_; float8 both = *(float8*)(buf + 0);"
    "*(float8*)(((float*)out) + 0) = ((both) > (((float8)(3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f)))"
    " ? (both) : (((float8)(3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f, 3.0f))));":
        np.maximum(np.concatenate([INPUT, DOUBLED]), 3),
    "float4 buf[2]; buf[0] = v_; buf[1] = (buf[0] + w_); *(float4*)(((float*)out) + 0) = buf[1];": INPUT + DOUBLED,
    'if (!(v_.s0 < 1000.0f)) { TVMAPISetLastError("float4(1, 2).s0 \\" ? : // /*"); } ((float*)out)[0] = 1.0f;':
        np.float32([1]),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("level", [pytest.param("-O0", marks=pytest.mark.slow), "-O3"])
def test_every_form_means_what_tvm_means(
    tmp_path: Path, require: Require, compiler: str, level: str
) -> None:
    require(compiler)
    bodies = "".join(f"  if (form == {i}) {{ {form} }}\n" for i, form in enumerate(FORMS))
    text = f"""{HEAD}void f(int32_t form, int32_t one, void* p0, void* out) {{
  float4 v_ = *(float4*)(((float*)p0) + 0);
  float4 w_ = (v_ * ((float4)(2.0f, 2.0f, 2.0f, 2.0f)));
{bodies}}}
"""
    options = [level, "-Wall", "-Wextra", "-Werror"]
    lib = built(tmp_path, text, cc=compiler, fmt="cc" if "++" in compiler else "c", options=options)
    for i, (form, meant) in enumerate(FORMS.items()):
        expected = np.asarray(meant, getattr(meant, "dtype", np.int32))
        p0, out = INPUT.copy(), np.zeros(64, np.uint8)
        lib.f(i, 1, *(ctypes.c_void_p(a.ctypes.data) for a in (p0, out)))
        assert out[: expected.nbytes].tobytes() == expected.tobytes(), form
        assert not out[expected.nbytes :].any(), form


@pytest.mark.slow
@pytest.mark.parametrize("compiler", COMPILERS)
def test_tvm_of_0_7_calls_the_device_ctx(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)
    text = f"""{HEAD}TVM_DLL int32_t f(void* args, void* arg_type_ids, int32_t n, void* ret, void* ret_code, void* r) {{
  void* arg0 = (((TVMValue*)args)[0].v_handle);
  int32_t arg0_code = ((int32_t*)arg_type_ids)[(0)];
  void* A = (((TVMArray*)arg0)[0].data);
  int32_t dev_id = (((TVMArray*)arg0)[0].ctx.device_id);
  if (!(arg0_code == kTVMDLTensorHandle || arg0_code == kTVMNDArrayHandle || 1)) {{
    return -1;
  }}
  for (int32_t i = 0; i < 2; ++i) {{
    int4 _1 = ((int4)((i * 4)+(1*0), (i * 4)+(1*1), (i * 4)+(1*2), (i * 4)+(1*3)));
    ((float4*)((float*)A + ((i * 4))))[0] = (((float4*)((float*)A + ((i * 4))))[0] + ((float4)(((float*)A)[_1.s3],\
((float*)A)[_1.s2],((float*)A)[_1.s1],((float*)A)[(_1.s0 + dev_id)])));
  }}
  return 0;
}}
"""
    fmt = "cc" if "++" in compiler else "c"
    mblob.csource_module(text, fmt=fmt).export_library(tmp_path / "x.so", cc=compiler)
    values = np.arange(8, dtype=np.float32)
    mblob.load_module(tmp_path / "x.so")["f"](values)
    assert values.tolist() == [3, 3, 3, 3, 11, 11, 11, 11]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_brackets_have_other_spellings(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)
    text = """#include <stdint.h>
#ifdef __cplusplus
extern "C"
#endif
void f(float *p) <%
  float4 v<:2:> = <% (float4)(1), *(float4 *)p %>;
  v<:1:>.s0 += v<:0:><:3:>;
  *(float4 *)p = v<:1:>;
%>
"""
    lib = built(tmp_path, text, cc=compiler, fmt="cc" if "++" in compiler else "c")
    values = np.array([1, 2, 3, 4], np.float32)
    lib.f(ctypes.c_void_p(values.ctypes.data))
    assert values.tolist() == [2, 2, 3, 4]


@pytest.mark.sample(2)
@pytest.mark.parametrize("vector", ["", "float2 unused(float2 v) { return v; }\n"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_one_buffer_may_hold_several_types(
    tmp_path: Path, require: Require, compiler: str, vector: str
) -> None:
    require(compiler)
    text = f"""{HEAD}float f(void* p, void* q) {{
  ((float*)p)[0] = 1.000000e+00f;
  ((int32_t*)q)[0] = 1077936128;
  return ((float*)p)[0];
}}
{vector}"""
    lib = built(
        tmp_path,
        text,
        cc=compiler,
        fmt="cc" if "++" in compiler else "c",
        options="-O3 -Wall -Werror",
    )
    lib.f.restype = ctypes.c_float
    memory = ctypes.create_string_buffer(4)
    assert lib.f(memory, memory) == 3
