"""Vectors in C++: templates, classes, containers, lambdas, overloads, casts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vector_c.building import built, floats

Require = Callable[[str], str]

HEAD = """#include <cmath>
#include <functional>
#include <utility>
#include <vector>
template <class T> T twice(T v) { return v + v; }
template <typename T, int N> struct box {
  T v[N];
  T sum() const { T r = v[0]; for (int i = 1; i < N; ++i) r += v[i]; return r; }
};
template <class T> T every(T a, T b) { T c = -a * 2 + 3 * b; c -= b; ++c; c++; return (c / 1 - a) * (a == a ? 1 : 0); }
template <class V> V masked(V a, V b) { return (a | b) & ~(a << 1) ^ (b % 3); }
struct holder {
  float4 v;
  explicit holder(float4 a) : v(a + 1.0f) {}
  float4 get() const { return v * 2.0f; }
  float4 outside(float4 a) const;
  holder operator+(const holder &o) const { return holder(v + o.v); }
};
float4 holder::outside(float4 a) const { return v - a; }
namespace inner { static float4 half_of(const float4 &a) { return a / 2; } }
static float4 picked(float4 a) { return a + 1; }
static int32_t4 picked(int32_t4 a) { return a * 2; }
static float4 with_default(float4 a, float4 b = {1, 2, 3, 4}) { return a + b; }
"""
CODE = {
    "a template of a function": ("x = twice(x) + 1;", [3, 5, 7, 9]),
    "its arguments in angles": (
        "float4 (*f)(float4) = twice<float4>; x = f(x) + twice<float4>(1 + x);", [6, 10, 14, 18]),
    "a template of a class": ("box<float4, 2> b; b.v[0] = x; b.v[1] = x + 1; x = b.sum() * 2;", [6, 10, 14, 18]),
    "lanes in a template": ("box<float4, 1> b; b.v[0] = x; x = b.sum().s1 + x + b.v[0].x;", [4, 5, 6, 7]),
    "integers in a template": (
        "int32_t4 i = masked(int32_t4(1, 2, 3, 4), int32_t4(5, 6, 7, 8)); x = float4(i);", [7, 2, 0, 6]),
    "a container": (
        "std::vector<float4> w(2, x); w[1] = w[0] + x; w.push_back(w[1] - 1); x = w[2] + w[1];", [3, 7, 11, 15]),
    "a pair": ("std::pair<float4, int> p(x, 1); p.first += x; x = p.first * 2 + 1;", [5, 9, 13, 17]),
    "a lambda": ("float4 y = x; auto f = [&](float4 a) { return a * y; }; x = f(x) + 1;", [2, 5, 10, 17]),
    "a lambda with a result": ("auto f = [](float4 q) -> float4 { return q.s3; }; x = f(x) + 1;", [5, 5, 5, 5]),
    "a std::function": ("std::function<float4(float4)> f = twice<float4>; x = f(x) + x;", [3, 6, 9, 12]),
    "auto": ("auto y = x + 1; const auto &z = y; x = y * z;", [4, 9, 16, 25]),
    "a loop over an array": ("float4 v[2] = {x, x + 1}, s = 0; for (const float4 &e : v) s += e; x = s;", [3, 5, 7, 9]),
    "a class": ("holder h(x); x = h.get() + h.outside(x);", [5, 7, 9, 11]),
    "operators of a class": ("holder h = holder(x) + holder(x * 2); x = h.v;", [6, 9, 12, 15]),
    "a namespace": ("x = inner::half_of(x + x) + 1;", [2, 3, 4, 5]),
    "overloads": ("x = picked(x) + float4(picked(int32_t4(x)));", [4, 7, 10, 13]),
    "an argument by default": ("x = with_default(x) + with_default(x, x);", [4, 8, 12, 16]),
    "casts": ("x = static_cast<float4>(static_cast<int32_t4>(x)) + *reinterpret_cast<float4 *>(a);", [2, 4, 6, 8]),
    "references": ("float4 &y = x; float4 *const &p = &x; y += 1; *p *= 2;", [4, 6, 8, 10]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", pytest.param("clang++", marks=pytest.mark.slow)])
def test_what_cxx_has_beside_c(tmp_path: Path, require: Require, compiler: str) -> None:
    require(compiler)
    functions = [
        f'extern "C" void f{i}(float *a) {{ float4 x = *(float4 *)a; {code} *(float4 *)a = x; }}\n'
        for i, (code, _) in enumerate(CODE.values())
    ]
    text = "#include <cstdint>\n" + HEAD + "".join(functions)
    strict = ["-Wall", "-Wextra", "-Werror", "-Wno-parentheses", "-Wno-missing-braces"]
    lib = built(tmp_path, text, cc=compiler, fmt="cc", options=strict)
    for i, (what, (_, expected)) in enumerate(CODE.items()):
        a = floats(1, 2, 3, 4)
        getattr(lib, f"f{i}")(a)
        assert list(a) == expected, what
