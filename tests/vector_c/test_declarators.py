"""Everything that C lets one declare with vector types: pointers to functions and arrays, typedefs,
members, casts."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vector_c.building import COMPILERS, built, floats

Require = Callable[[str], str]

HEAD = """#include <stdint.h>
#include <string.h>
typedef float4 (*binary)(float4, float4);
typedef float4 row[2];
typedef float4 function(float4);
struct pair { float4 first; float2 second; float4 (*f)(float4); float4 rows[2][2]; struct pair *next; };
typedef struct { int8_t3 v; union { float4 wide; int32_t4 bits; }; } tagged;
static float4 twice(float4 v) { return v * 2.0f; }
static float4 sum(float4 a, float4 b) { return a + b; }
static float4 *second(float4 *p) { return p + 1; }
static binary choose(int c) { return c ? &sum : sum; }
static float4 (*returns_pointer(int c))(float4) { return c ? twice : 0; }
static float4 (*returns_rows(float4 (*rows)[2]))[2] { return rows + 1; }
static float4 (in_brackets)(float4 (x)) { return (x) + 1; }
static float4 applied(float4 f(float4), float4 (*g)(float4), float4 x[2]) { return f(g(x[1])); }
"""

# Statements that leave floats a[0] to a[3], which are 1, 2, 3, 4, as the values beside them.
CODE = {
    "a pointer to a function": ("float4 (*f)(float4) = twice; *(float4*)a = f(*(float4*)a) + 1;", [3, 5, 7, 9]),
    "called through a star": ("float4 (*f)(float4); f = &twice; *(float4*)a = (*f)(*(float4*)a) + 1;", [3, 5, 7, 9]),
    "called with a number": ("float4 (*f)(float4) = twice; *(float4*)a = f(3) + 1;", [7, 7, 7, 7]),
    "a pointer to an array": (
        "float4 v[2]; float4 (*p)[2] = &v; (*p)[0] = *(float4*)a; p[0][1] = (*p)[0] * 3;"
        "*(float4*)a = v[1] - *p[0];", [2, 4, 6, 8]),
    "an array of pointers": (
        "float4 v = *(float4*)a, *p[2] = {&v, &v}; *p[1] = *p[0] + 1; p[0]->s0 = 9; *(float4*)a = **p;", [9, 3, 4, 5]),
    "an array of pointers to functions": (
        "float4 (*table[2])(float4) = {twice, in_brackets}; *(float4*)a = table[0](*(float4*)a) + table[1](1);",
        [4, 6, 8, 10]),
    "a pointer to an array of pointers to functions": (
        "float4 (*table[2])(float4) = {twice, twice}; float4 (*(*p)[2])(float4) = &table;"
        "*(float4*)a = (*p)[1](*(float4*)a) + 1;", [3, 5, 7, 9]),
    "a function that returns a pointer": (
        "float4 v[2]; v[1] = *(float4*)a; *(float4*)a = *second(v) + second(v)->s3;", [5, 6, 7, 8]),
    "a function that returns a pointer to a function": (
        "*(float4*)a = returns_pointer(1)(*(float4*)a) + 1;", [3, 5, 7, 9]),
    "a function that returns a pointer to an array": (
        "float4 v[2][2]; v[1][1] = *(float4*)a; *(float4*)a = (*returns_rows(v))[1] + 1;", [2, 3, 4, 5]),
    "a function that takes functions": (
        "float4 v[2]; v[1] = *(float4*)a; *(float4*)a = applied(twice, twice, v) + 1;", [5, 9, 13, 17]),
    "names in brackets": ("float4 (v) = *(float4*)a, (*(p)) = &v; *(float4*)a = in_brackets(*p) + (v);", [3, 5, 7, 9]),
    "a function declared in a function": ("float4 twice(float4); *(float4*)a = twice(1) + 1;", [3, 3, 3, 3]),
    "a typedef of a pointer to a function": (
        "binary f = choose(1); *(float4*)a = f(*(float4*)a, 1) + choose(0)(1, 1);", [4, 5, 6, 7]),
    "a typedef of an array": (
        "row v, *p = &v; v[0] = *(float4*)a; (*p)[1] = v[0] + 1; *(float4*)a = p[0][1];", [2, 3, 4, 5]),
    "a typedef of a function": ("function *f = twice; *(float4*)a = f(*(float4*)a) + 1;", [3, 5, 7, 9]),
    "a typedef in a block": (
        "{ typedef float4 (*unary)(float4); unary f = twice; *(float4*)a = f(*(float4*)a) + 1; }", [3, 5, 7, 9]),
    "a typedef that a variable hides": (
        "int row = 3; { typedef float2 row; row v = *(row*)a; *(row*)a = v + 1; } a[2] = row * a[2];", [2, 3, 9, 4]),
    "a cast to a pointer to a function": (
        "void (*g)(void) = (void (*)(void))twice; *(float4*)a = ((float4 (*)(float4))g)(*(float4*)a) + 1;",
        [3, 5, 7, 9]),
    "a cast to a pointer to an array": (
        "float4 v[2]; v[1] = *(float4*)a; *(float4*)a = (*(float4 (*)[2])(void*)v)[1] + 1;", [2, 3, 4, 5]),
    "a cast to a pointer to a pointer": (
        "float *p = a; *(float4*)a = **(float4 *const *)(&p) + 1;", [2, 3, 4, 5]),
    "sizes": (
        "a[0] = sizeof(float4 (*)[2]) == sizeof(void*); a[1] = sizeof(float4[3]); a[2] = sizeof(float3) + sizeof(row);"
        "a[3] = sizeof(*(float4*)a + 1) + sizeof *(float5*)a;", [1, 48, 44, 36]),
    "members": (
        "struct pair p, *q = &p; memset(q, 0, sizeof p); p.first = *(float4*)a; q->second = p.first.lo; q->f = twice;"
        "p.rows[1][0] = q->f(p.first); p.next = q; *(float4*)a = p.next->rows[1][0] + q->next->second.s1;",
        [4, 6, 8, 10]),
    "members of a struct without name": (
        "tagged t, u[2]; t.wide = *(float4*)a; t.bits += 1 << 23; t.v = (int8_t3)(1, 2, 3); u[1] = t;"
        "*(float4*)a = u[1].wide + u[1].v.s2;", [5, 7, 9, 11]),
    "a struct in a function": (
        "struct { struct { float4 v; } in; float4 (*f)(float4); } s; s.f = twice; s.in.v = s.f(*(float4*)a);"
        "*(float4*)a = s.in.v + 1;", [3, 5, 7, 9]),
    "two structs with members of one name": (
        "struct one { float4 v; } x; struct two { float v; } y = {3}; x.v = *(float4*)a; *(float4*)a = x.v * y.v;",
        [3, 6, 9, 12]),
    "arrays of arrays": (
        "float4 v[2][3]; for (int i = 0; i < 6; ++i) v[i / 3][i % 3] = *(float4*)a + (float)i;"
        "float4 (*p)[3] = v; *(float4*)a = p[1][2] - *v[1] + **(v + 1);", [6, 7, 8, 9]),
    "initializers": (
        "float4 x = *(float4*)a, v[2] = {x + 1, x * 2}; struct pair p = {v[0], x.hi, twice, {{v[1]}}, 0};"
        "*(float4*)a = p.rows[0][0] + p.first + p.second.s0;", [7, 10, 13, 16]),
    "qualifiers everywhere": (
        "const float4 *const volatile p = (const float4 *)a; float4 const x = p[0] + 1; static float4 const *q;"
        "q = &x; *(float4*)a = *q;", [2, 3, 4, 5]),
    "parameters without names": (
        "extern float4 unused(float4 (*)(void), float4[2], const struct pair *, ...); *(float4*)a += 1;",
        [2, 3, 4, 5]),
}  # fmt: skip
# What C++ has not, or g++ 12 not in this order.
IN_C = {
    "designated members": (
        "float4 x = *(float4*)a; struct pair p = {.second = x.lo, .first = 2, .rows = {[1] = {[0] = x + 1}}};"
        "*(float4*)a = p.first + p.rows[1][0] + p.second.s1;", [6, 7, 8, 9]),
    "a compound literal": (
        "float4 x = *(float4*)a, *p = (float4[2]){x, x + 1}; *(float4*)a = p[1] + ((struct pair){.first = x}).first;",
        [3, 5, 7, 9]),
    "types declared behind the parameters": ("*(float4*)a = old(*(float4*)a, a) + 1;", [3, 5, 7, 9]),
    "the type of an expression": (
        "__typeof__(*(float4*)a + 1) v = *(float4*)a; __auto_type w = v * 2; *(float4*)a = w + 1;", [3, 5, 7, 9]),
    "statements in an expression": (
        "*(float4*)a = ({ float4 t = *(float4*)a; if (t.s0 > 5) t = t - t; t + 1; }) * 2;", [4, 6, 8, 10]),
    "a choice by type": (
        "float4 v = *(float4*)a; *(float4*)a = _Generic(v, float2: v.lo, float4: v + 1, default: 0) * 2;",
        [4, 6, 8, 10]),
    "arguments without parameters": ("*(float4*)a = last(2, *(float4*)a, *(float4*)a + 1) + 1;", [3, 4, 5, 6]),
    "an array of unknown size": (
        "int n = (int)a[1]; float4 v[n], (*p)[n] = &v; v[n - 1] = *(float4*)a; *(float4*)a = (*p)[1] + sizeof v;",
        [33, 34, 35, 36]),
}  # fmt: skip
HEAD_IN_C = """#include <stdarg.h>
static float4 old(v, p) float4 v; float *p; { return v + *(float4 *)p; }
static float4 last(int n, ...) {
  float4 v = 0;
  va_list list;
  va_start(list, n);
  while (n--) v = va_arg(list, float4) + 0;
  va_end(list);
  return v;
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_whatever_is_declared_is_computed_with(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    public = '#ifdef __cplusplus\nextern "C"\n#endif\n'
    wanted = CODE if "++" in compiler else {**CODE, **IN_C}
    release = subprocess.run(
        [compiler, "-dumpversion"], capture_output=True, text=True, check=True
    ).stdout
    # gcc 10.2 forgets what a function that became const wrote, in plain C too
    if int(release.split(".")[0]) < 11:
        wanted = {what: code for what, code in wanted.items() if what != "members"}
    functions = [
        f"{public}void f{i}(float *a) {{ {code} }}\n" for i, (code, _) in enumerate(wanted.values())
    ]
    head = HEAD if "++" in compiler else HEAD + HEAD_IN_C
    lib = built(
        tmp_path, head + "".join(functions), cc=compiler, fmt="cc" if "++" in compiler else "c"
    )
    for i, (what, (_, expected)) in enumerate(wanted.items()):
        a = floats(1, 2, 3, 4)
        getattr(lib, f"f{i}")(a)
        assert list(a) == expected, what


UNNAMED = """typedef float4 *row;
static float4 whole;
static struct { int n; float4 in; } held;
static float4 made(void) { return whole + 1; }
static void alias(row p) { *p = *p * 2; }
static int skipped(int n) { int whole_of = n; { int k = whole_of; n += k; } return n; }
static void variable(void) { whole = whole - 1; }
static void member(void) { held.in += held.n; }
static float call(int i) { return made()[1] + (made() * 2).s0 + i; }
PUBLIC float f(float *a) {
  whole = *(float4 *)a; alias(&whole); variable(); held.in = whole; held.n = skipped(1); member();
  *(float4 *)a = held.in;
  return call(1);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_body_without_the_name_of_a_vector_type_may_compute_with_vectors(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    is_cxx = "++" in compiler
    text = UNNAMED.replace("PUBLIC", 'extern "C"' if is_cxx else "")
    lib = built(tmp_path, text, cc=compiler, fmt="cc" if is_cxx else "c")
    lib.f.restype = ctypes.c_float
    a = floats(1, 2, 3, 4)
    assert lib.f(a) == 4 + 4 + 1
    assert list(a) == [3, 5, 7, 9]
