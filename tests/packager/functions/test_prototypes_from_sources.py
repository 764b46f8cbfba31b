"""Functions without a prototype of the caller's: debug information tells their types."""

from __future__ import annotations

import ctypes
import inspect
import pydoc
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.native import runtime as native
from tests.packager.functions.test_tvm_executor import pack_verb

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef float real; typedef unsigned char u8;
typedef struct image { int w, h; float gain; } image_t;
enum mode { NEAREST = 1, LINEAR }; typedef enum mode kind_t;
typedef const image_t *view_t;
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}
real dot(const real *a, const real *b, size_t n) {
  real s = 0;
  for (size_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}
void invert(u8 *x, unsigned long n) { for (unsigned long i = 0; i < n; i++) x[i] = ~x[i]; }
void last(const double x[][4], double *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i][3]; }
int area(const image_t *im) { return im->w * im->h; }
int width(view_t im) { return im->w; }
void grow(struct image *im) { im->w++; }
int pick(enum mode m, kind_t k) { return (int)m * 10 + (int)k; }
bool both(bool a, bool b) { return a && b; }
size_t length(const char *s) { size_t n = 0; while (s[n]) n++; return n; }
void *same(void *p) { return p; }
static int hidden(int x) { return x; }
int shown(int x) { return hidden(x); }
"""
PROTOTYPES = {
    "vadd": "void vadd(const float *a, const float *b, float *c, int64_t n)",
    "dot": "float dot(const float *a, const float *b, size_t n)",
    "invert": "void invert(uint8_t *x, unsigned long n)",
    "last": "void last(const double x[][4], double *y, int n)",
    "area": "int area(const image_t *im)",
    "width": "int width(const image_t *im)",
    "grow": "void grow(struct image *im)",
    "pick": "int pick(uint32_t m, uint32_t k)",
    "both": "bool both(bool a, bool b)",
    "length": "size_t length(const char *s)",
    "same": "void *same(void *p)",
    "shown": "int shown(int x)",
}


class Image(ctypes.Structure):
    _fields_ = [("w", ctypes.c_int), ("h", ctypes.c_int), ("gain", ctypes.c_float)]


def packed(tmp_path: Path, source: str, fmt: Any = "c", *, export: Any = None, **how: Any) -> Any:
    mblob.csource_module(source, fmt, **how).export_library(tmp_path / "x.so", **(export or {}))
    return mblob.load_module(tmp_path / "x.so")


def shown(lib: mblob.Module) -> dict[str, str]:
    return {name: str(signature) for name, signature in lib.functions.items()}


@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_types_come_from_the_source(
    tmp_path: Path, require: Callable[[str], str], cc: str, dialect: str
) -> None:
    lib = packed(tmp_path, SOURCE, export={"cc": require(cc), "dialect": dialect})
    assert shown(lib) == PROTOTYPES
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    lib.vadd(x, x, y, 4)
    assert (y == 2 * x).all() and lib.dot(x, x, 4) == 14.0
    small = np.arange(3, dtype="uint8")
    lib.invert(small, 3)
    assert small.tolist() == [255, 254, 253]
    rows = np.zeros(2)
    lib.last(np.arange(8.0).reshape(2, 4), rows, 2)
    assert rows.tolist() == [3.0, 7.0]
    assert (lib.pick(1, 2), lib.length("abc")) == (12, 3)
    for both in (lib.both, lib.both.bind, lib.symbol("both"), lib.ctypes.both):
        found = [both(True, x) for x in (False, True)]
        assert [x() if callable(x) else x for x in found] == [False, True]
        assert {type(x() if callable(x) else x) for x in found} == {bool}
    with pytest.raises(mblob.MblobError, match="expected an array of float32, found float64"):
        lib.vadd(x.astype("float64"), x, y, 4)
    with pytest.raises(mblob.MblobError, match="expected shape"):
        lib.last(np.zeros((2, 3)), rows, 2)


def test_an_object_with_debug_information_tells_as_much(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-O2", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "k.o").export_library(tmp_path / "x.so")
    assert shown(mblob.load_module(tmp_path / "x.so")) == PROTOTYPES


def test_structs_are_passed_by_their_address(tmp_path: Path) -> None:
    lib = packed(tmp_path, SOURCE)
    image = Image(3, 4, 1.0)
    record = np.array([(3, 4, 1.0)], dtype=[("w", "i4"), ("h", "i4"), ("gain", "f4")])
    for value in (image, ctypes.pointer(image), record, memoryview(bytes(image))):
        assert lib.area(value) == 12
        assert lib.width(value) == 3
    lib.grow(image)
    lib.grow(record)
    assert image.w == record["w"][0] == 4
    with pytest.raises(mblob.MblobError, match="read-only"):
        lib.grow(memoryview(bytes(image)))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "int f(int n, ...) { return n; }",
            "it is variadic: give a function with a fixed list of parameters, or get",
        ),
        (
            "struct s { int x : 3; }; int f(struct s v) { return v.x; }",
            r"struct s by value: give a function that takes a pointer to it: int call_f\(const struct s \*v",
        ),
        (
            "long double f(long double x) { return x; }",
            "long double, which no argument is: give a function of double: double call_f",
        ),
        (
            "long double _Complex f(long double _Complex z) { return z; }",
            "complex numbers are passed in arrays, so give a function that takes a pointer to it$",
        ),
    ],
)
def test_what_cannot_be_called_stays_plain_and_says_why(
    tmp_path: Path, source: str, says: str
) -> None:
    lib = packed(tmp_path, source + "\nint g(int x) { return x; }\n")
    assert list(lib.functions) == ["g"] and lib.g(3) == 3
    with pytest.raises(mblob.NotFoundError, match=says):
        lib["f"]
    found = native.ffi.new("mblob_function **")
    assert native.lib.mblob_module_function(lib._node.handle, b"f", 1, found)
    in_c = native.text(native.lib.mblob_last_error())
    assert re.search(says.partition(", or get")[0], in_c) and "mblob_module_symbol has" in in_c
    with pytest.raises(mblob.BuildError, match="functions: f cannot be called: "):
        packed(tmp_path, source, functions=["f"])


def test_functions_are_chosen_by_name(tmp_path: Path) -> None:
    lib = packed(tmp_path, SOURCE, functions=["vadd", "area", "int pick(int m, int k)"])
    chosen = {name: PROTOTYPES[name] for name in ("area", "vadd")}
    assert shown(lib) == {**chosen, "pick": "int pick(int m, int k)"}
    assert shown(packed(tmp_path, SOURCE, functions="dot")) == {"dot": PROTOTYPES["dot"]}
    assert shown(packed(tmp_path, SOURCE, functions=[])) == {}
    with pytest.raises(mblob.BuildError, match=r"defines 'sown'.* did you mean 'shown'"):
        packed(tmp_path, SOURCE, functions=["sown"])
    with pytest.raises(
        mblob.BuildError, match=r"hidden cannot be called: it is static: .*-Dstatic="
    ):
        packed(tmp_path, SOURCE, functions=["hidden"])


def test_packed_functions_take_names_of_functions_of_the_source(tmp_path: Path) -> None:
    lib = packed(tmp_path, SOURCE, packed=["vadd"])
    assert shown(lib) == PROTOTYPES
    with mblob.open(tmp_path / "x.so") as library:
        assert {f.symbol for f in library.host_functions if f.name == "vadd"} == {"vadd"}
    with pytest.raises(mblob.BuildError, match="packed= names 'vad'"):
        packed(tmp_path, SOURCE, packed=["vad"])


TVM = (
    "int f(void *args, int *codes, int n, void *result, int *code, void *resource) { return 0; }\n"
)


def test_packed_functions_stay_packed(tmp_path: Path) -> None:
    libraries = []
    for functions in (None, []):
        packed(tmp_path, TVM, functions=functions)
        libraries.append((tmp_path / "x.so").read_bytes())
    assert libraries[0] == libraries[1]
    lib = packed(tmp_path, TVM + "int twice(int x) { return 2 * x; }\n")
    assert lib.f() is None and lib.twice(4) == 8


@pytest.mark.parametrize("suffix", [".so", ".tar", ".a"])
def test_every_output_has_them(tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"x{suffix}"
    module = mblob.csource_module("int twice(int x) { return 2 * x; }\n")
    module.export_library(output, system_lib=suffix == ".a", prefix="p_" if suffix == ".a" else "")
    if suffix == ".a":
        listed = subprocess.run(["nm", str(output)], capture_output=True, text=True, check=True)
        assert "p_twice" in listed.stdout
    else:
        assert mblob.load_module(output).twice(4) == 8


def test_another_calling_convention_is_left_alone(tmp_path: Path) -> None:
    source = "int __attribute__((ms_abi)) f(int x) { return x; }\nint g(int x) { return x; }\n"
    assert list(packed(tmp_path, source).functions) == ["g"]
    with pytest.raises(mblob.BuildError, match="f cannot be called: it has a calling convention"):
        packed(tmp_path, source, functions=["f"])


def test_a_version_script_decides_what_is_exported(tmp_path: Path) -> None:
    (tmp_path / "v.map").write_text("{ global: f; __mblob*; __tvm*; local: *; };")
    lib = packed(
        tmp_path, "int f(int x) { return x; }\n",
        export={"options": f"-Wl,--version-script={tmp_path}/v.map"},
    )  # fmt: skip
    assert not lib.functions


def test_a_graph_calls_functions_without_prototypes(tmp_path: Path) -> None:
    from tests.packager.functions.test_tvm_executor import KERNEL, graph

    factory = mblob.graph_executor_factory(graph(function="twice"))
    factory.import_module(mblob.csource_module(KERNEL))
    factory.export_library(tmp_path / "m.so")
    with mblob.open(tmp_path / "m.so") as library:
        assert not [d for d in library.diagnostics if d["code"] == "plain_operators"]


def test_the_command_line_selects(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(SOURCE)

    def build(*options: str) -> tuple[list[str], Any]:
        files = ("--kernel", tmp_path / "k.c", "-o", tmp_path / "x.so")
        done = pack_verb("build", *files, *options)
        if done.returncode:
            return [], done
        return list(mblob.load_module(tmp_path / "x.so").functions), done

    assert build()[0] == sorted(PROTOTYPES)
    assert build("--function", "dot")[0] == ["dot"]
    assert build("--no-functions")[0] == []
    assert "exclude each other" in build("--no-functions", "--function", "dot")[1].stderr


BOUNDS = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#define N 4
typedef float real;
typedef float vec3[3];
#define KERNEL(name) void name(const real x[N], real y[restrict 2 * N], int n)
KERNEL(macro) { y[0] = x[0] + n; }
void rows(int n, int m, const float x[n][m], float y[static n]) { y[0] = x[0][0]; }
static inline float first(const float x[N]) { return x[0]; }
void open(const real *x, float y[], size_t n) { y[0] = first(x) + n; }
void text(const char s[16], float (*z)[N]) { z[0][0] = s[0]; }
void computed(uint32_t n, float x[(n + 1) * N]) { if (x[0] > 1) { x[0] = 1; } }
void named(vec3 v) { v[0] = 1; }
"""
BOUND = {
    "macro": "void macro(const float x[4], float y[2 * 4], int n)",
    "rows": "void rows(int n, int m, const float x[n][m], float y[static n])",
    "open": "void open(const float *x, float y[], size_t n)",
    "text": "void text(const char s[16], float z[][4])",
    "computed": "void computed(uint32_t n, float x[(n + 1) * 4])",
    "named": "void named(float v[3])",
}


def test_bounds_come_from_the_source(tmp_path: Path) -> None:
    lib = packed(tmp_path, BOUNDS)
    assert shown(lib) == BOUND
    x, y = np.ones(4, "float32"), np.zeros(8, "float32")
    lib.macro(x, y, 3)
    assert y[0] == 4
    for wrong in (x[:3], np.ones(5, "float32")):
        with pytest.raises(mblob.MblobError, match=r"expected shape \(4,\)"):
            lib.macro(wrong, y, 3)
    lib.computed(1, np.zeros(8, "float32"))
    with pytest.raises(mblob.MblobError, match=r"expected shape \(8,\)"):
        lib.computed(1, np.zeros(6, "float32"))
    with pytest.raises(mblob.MblobError, match=r"expected shape \(2, 3\)"):
        lib.rows(2, 3, np.zeros((3, 2), "float32"), np.zeros(2, "float32"))


def test_functions_of_headers_have_bounds_too(tmp_path: Path) -> None:
    (tmp_path / "k.h").write_text("void f(int n, float x[n]) { x[0] = n; }\n")
    (tmp_path / "k.c").write_text('#include "k.h"\n')
    lib = packed(tmp_path, tmp_path / "k.c", None)
    assert shown(lib) == {"f": "void f(int n, float x[n])"}


def test_bounds_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match=r"does not check the size of an array: f: parameter 1 \(x\)"
    ):
        lib = packed(tmp_path, "void f(int n, float x[n / 2], float y[n]) { x[0] = y[0]; }\n")
    assert shown(lib) == {"f": "void f(int n, float *x, float y[n])"}


def test_bounds_of_cxx(tmp_path: Path) -> None:
    source = """
    #include <cstdint>
    #include <vector>
    template <typename T> T twice(T x) { return x + x; }
    extern "C" void f(int32_t n, float x[4]) { std::vector<float> v(4); x[0] = twice(v[0]) + n; }
    """
    assert shown(packed(tmp_path, source, "cc")) == {"f": "void f(int32_t n, float x[4])"}


CALLED = """
#include <complex.h>
#include <stdlib.h>
#include <sys/types.h>
typedef int (*compare_t)(const void *, const void *);
struct point { int x, y; };
ssize_t half(ssize_t n) { return n / 2; }
int apply(int (*f)(int), int x) { return f(x); }
void order(int *x, size_t n, compare_t compare) { qsort(x, n, sizeof *x, compare); }
void fill(float **rows, int n, int m) {
  for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) rows[i][j] = (float)i;
}
int add(const int *a, int *b) { return *b += *a; }
void conjugate(double complex *x, int n) { for (int i = 0; i < n; i++) x[i] = conj(x[i]); }
int sum(const struct point *p) { return p->x + p->y; }
"""


def test_function_pointers_take_callbacks_and_addresses(tmp_path: Path) -> None:
    lib = packed(tmp_path, CALLED)
    assert shown(lib)["apply"] == "int apply(int (*f)(int), int x)"
    twice = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: 2 * x)
    address = ctypes.cast(twice, ctypes.c_void_p)
    assert [lib.apply(f, 4) for f in (twice, address, address.value)] == [8, 8, 8]
    assert lib.ctypes.apply(twice, 4) == 8
    types = (ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    x = np.array([3, 1, 2], dtype="int32")
    lib.order(x, 3, ctypes.CFUNCTYPE(*types)(lambda a, b: a[0] - b[0]))
    assert x.tolist() == [1, 2, 3]
    assert lib.half(9) == 4


def test_pointers_to_pointers_take_a_list_of_arrays(tmp_path: Path) -> None:
    lib = packed(tmp_path, CALLED)
    rows = [np.zeros(2, "float32") for _ in range(3)]
    tensor = mblob.array(np.zeros(2, "float32"))
    lib.fill([*rows, tensor], 4, 2)
    assert [row.tolist() for row in rows] == [[0, 0], [1, 1], [2, 2]]
    assert tensor.numpy().tolist() == [3, 3]
    for row in rows:
        row[:] = 0
    lib.fill(np.array([row.ctypes.data for row in rows], dtype="uintp"), 3, 2)
    assert rows[2].tolist() == [2, 2]
    lib.fill((ctypes.c_void_p * 1)(rows[2].ctypes.data), 1, 2)
    assert rows[2].tolist() == [0, 0]
    with pytest.raises(mblob.MblobError, match=r"argument 0: item 1: expected an array of float32"):
        lib.fill([rows[0], rows[1].astype("float64")], 2, 2)
    with pytest.raises(mblob.MblobError, match=r"item 0: expected compact row-major data"):
        lib.fill([np.zeros((2, 2), "float32")[:, 0]], 1, 2)


def test_bytes_and_references_of_ctypes_are_passed(tmp_path: Path) -> None:
    lib = packed(tmp_path, CALLED)
    a, b = ctypes.c_int(3), ctypes.c_int(4)
    assert (lib.add(ctypes.byref(a), ctypes.byref(b)), b.value) == (7, 7)
    point = b"\1\0\0\0\2\0\0\0"
    assert lib.sum(point) == lib.sum(bytearray(point)) == 3
    with pytest.raises(mblob.MblobError, match="byref"):
        lib.sum(ctypes.byref(ctypes.create_string_buffer(16), 8))
    values = np.array([1 + 2j, 3 - 4j])
    lib.conjugate(values, 2)
    assert values.tolist() == [1 - 2j, 3 + 4j]
    lib.symbol("conjugate")(values, 2)
    assert values.tolist() == [1 + 2j, 3 - 4j]
    for function in (lib.conjugate, lib.symbol("conjugate")):
        with pytest.raises(
            mblob.MblobError, match="expected an array of complex128, found complex64"
        ):
            function(values.astype("complex64"), 2)
        with pytest.raises(
            mblob.MblobError, match="expected an array of complex128, found float64"
        ):
            function(np.zeros(4), 2)


class Small(ctypes.Structure):
    _fields_ = (("w", ctypes.c_int), ("h", ctypes.c_int))


class Whole(ctypes.Structure):
    _fields_ = (("w", ctypes.c_int), ("h", ctypes.c_int), ("c", ctypes.c_char))


STRUCT = """typedef struct { int w, h; char c; } image_t;
int area(const image_t *im, int n) { int s = 0; for (int i = 0; i < n; i++) s += im[i].w * im[i].h; return s; }
struct unknown;
int any(const struct unknown *x, const void *y) { return x != y; }
"""
WHOLE = [
    Whole(2, 3), ctypes.byref(Whole(2, 3)), (Whole * 2)(Whole(2, 3)), np.array([2, 3, 0], "int32"),
    b"\2\0\0\0\3\0\0\0\0\0\0\0",
    np.array([(2, 3, b"")], [("w", "i4"), ("h", "i4"), ("c", "S4")]), ctypes.pointer(Whole(2, 3)),
]  # fmt: skip
PARTS = [
    Small(2, 3), ctypes.byref(Small(2, 3)), ctypes.pointer(Small(2, 3)), b"12345678901", bytearray(4),
    np.zeros(2, "int32"), np.zeros(1, [("w", "i4")]), memoryview(bytes(11)),
]  # fmt: skip


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("functions", [None, ["int area(const image_t *im, int n)", "any"]])
def test_a_part_of_a_struct_is_refused(tmp_path: Path, dialect: Any, functions: Any) -> None:
    lib = packed(tmp_path, STRUCT, functions=functions, export={"dialect": dialect})
    assert [lib.area(whole, 1) for whole in WHOLE] == [6] * len(WHOLE)
    for part in PARTS:
        with pytest.raises(
            ValueError, match=r"at least 12 bytes for const image_t \*im, found \d+"
        ):
            lib.area(part, 1)
    assert lib.area(np.empty(0, "uint8"), 0) == 0
    assert lib.any(b"1", b"2") == 1  # nothing tells their sizes


def test_bytes_are_not_written(tmp_path: Path) -> None:
    lib = packed(tmp_path, "struct s { int x; }; void f(struct s *p) { p->x = 1; }\n")
    data = bytearray(4)
    lib.f(data)
    assert data == b"\1\0\0\0"
    with pytest.raises(mblob.MblobError, match="read-only"):
        lib.f(bytes(4))


def test_a_function_shows_itself(tmp_path: Path) -> None:
    lib = packed(tmp_path, SOURCE)
    assert lib.vadd.__doc__ == PROTOTYPES["vadd"]
    found = inspect.signature(lib.vadd)
    assert str(found) == (
        "(a: 'const float *', b: 'const float *', c: 'float *', n: 'int64_t', /) -> 'void'"
    )
    assert PROTOTYPES["dot"] in pydoc.render_doc(lib.dot)
    assert "A function of a library" in str(mblob.PackedFunction.__doc__)
    assert mblob.packed_function(len).__doc__ == len.__doc__


def test_macros_of_the_system_stand_in_declarations(tmp_path: Path) -> None:
    text = """#include <stdbool.h>
    bool any(bool inverted, const int x[3]) { return inverted != (x[0] || x[1] || x[2]); }
    """
    assert shown(packed(tmp_path, text)) == {"any": "bool any(bool inverted, const int x[3])"}


def test_prototypes_know_types_of_the_source(tmp_path: Path) -> None:
    given = [
        "real dot(const real a[n], const real b[n], size_t n)",
        "int area(const image_t *im)",
        "int width(view_t im)",
        "int pick(int m, kind_t k)",
    ]
    lib = packed(tmp_path, SOURCE, functions=given)
    assert shown(lib) == {
        "dot": "float dot(const float a[n], const float b[n], size_t n)",
        "area": PROTOTYPES["area"],
        "width": PROTOTYPES["width"],
        "pick": "int pick(int m, uint32_t k)",
    }
    assert lib.area(Image(3, 4, 1.0)) == 12
    with pytest.raises(mblob.MblobError, match=r"expected shape \(3,\)"):
        lib.dot(np.zeros(4, "float32"), np.zeros(3, "float32"), 3)


@pytest.mark.parametrize(
    ("prototype", "says"),
    [
        (
            "void invert(real *x, unsigned long n)",
            r"parameter 0 \(x\) is 'float \*', the source has 'u8 \*'",
        ),
        ("double dot(const real *a, const real *b, size_t n)", "the source's returns 'real'"),
        ("real dot(const real *a, size_t n)", "has 2 parameters, the source has 3"),
        ("int area(const imagee_t *im)", "unknown type 'imagee_t'"),
    ],
)
def test_prototypes_with_types_of_the_source_are_compared(
    tmp_path: Path, prototype: str, says: str
) -> None:
    with pytest.raises(mblob.BuildError, match=says):
        packed(tmp_path, SOURCE, functions=[prototype])
