"""Prototypes of the caller's in words of their source: its types, enumerators and macros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import packed, shown
from tests.packager.functions.test_tvm_executor import pack_verb

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

WORDS = """
#define EXPORT __attribute__((visibility("default")))
#define API(type) EXPORT type
#define N 4
#define HALF (N / 2)
#define NUMBER float
typedef struct { float gain; } unit_t;
typedef enum { FIRST = 1, SECOND, COUNT } which_t;
enum { COLUMNS = 2 * COUNT };
typedef void (*apply_t)(int);
API(float) sum(const unit_t *u, const float x[N], which_t which) { return u->gain * x[which]; }
EXPORT void rows(float x[COUNT][COLUMNS], NUMBER y[HALF], int n) { y[0] = x[0][0] + (float)n; }
void each(apply_t f, float **x, double _Complex *z) { f((int)**x); z[0] = 1; }
"""
IN_WORDS = [
    "EXPORT float sum(const unit_t *u, const NUMBER x[N], which_t which)",
    "void rows(NUMBER x[COUNT][COLUMNS], float y[HALF + n], int n)",
    "void each(apply_t f, NUMBER **x, double complex *z)",
]
TOLD = {
    "sum": "float sum(const unit_t *u, const float x[4], uint32_t which)",
    "rows": "void rows(float x[3][6], float y[2 + n], int n)",
    "each": "void each(void (*f)(int), float **x, double _Complex *z)",
}


@pytest.mark.parametrize("fmt", ["c", "cc"])
def test_prototypes_know_enumerators_and_macros_of_the_source(tmp_path: Path, fmt: str) -> None:
    source = WORDS if fmt == "c" else f'extern "C" {{ {WORDS} }}'
    lib = packed(tmp_path, source, fmt, functions=IN_WORDS)
    assert shown(lib) == TOLD
    x = np.arange(4, dtype="float32")
    assert lib.sum(np.array([(2.0,)], [("gain", "f4")]), x, 2) == 4.0
    rows, y = np.full((3, 6), 5, "float32"), np.zeros(3, "float32")
    lib.rows(rows, y, 1)
    assert y[0] == 6
    with pytest.raises(mblob.MblobError, match=r"expected shape \(3, 6\)"):
        lib.rows(rows.T.copy(), y, 1)


@pytest.mark.parametrize("folder", ["kernels", 'of "three" words'])
def test_the_source_in_a_file_explains_prototypes_of_its_functions(
    tmp_path: Path, folder: str
) -> None:
    tmp_path /= folder
    tmp_path.mkdir()
    (tmp_path / "k.h").write_text("#define N 4\n#define API\ntypedef float real;\n")
    (tmp_path / "k.c").write_text('#include "k.h"\nAPI void f(real *x) { x[0] = 1; }\n')
    lib = packed(tmp_path, tmp_path / "k.c", None, functions=["API void f(real x[N]);"])
    assert shown(lib) == {"f": "void f(float x[4])"}


def test_prototypes_and_names_are_of_any_source_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int a(int x) { return x; }\n")
    (tmp_path / "b.c").write_text(
        "typedef float real;\nreal b(real x) { return x; }\nint c(int x) { return x; }\n"
    )
    files = ("--kernel", tmp_path / "a.c", "--kernel", tmp_path / "b.c", "-o", tmp_path / "x.so")
    done = pack_verb("build", *files, "--function", "real b(real x)", "--function", "c")
    assert done.returncode == 0, done.stderr
    lib = mblob.load_module(tmp_path / "x.so")
    assert shown(lib) == {"b": "float b(float x)", "c": "int c(int x)"}
    assert (lib.b(1.5), lib.c(3)) == (1.5, 3)


def test_names_of_functions_in_prototypes_may_be_macros(tmp_path: Path) -> None:
    source = "#define NAME(x) x##_f32\n#define ARGS(x) float *x, int x##n\n"
    source += "void NAME(twice)(ARGS(a)) { for (int i = 0; i < an; ++i) a[i] *= 2; }\n"
    lib = packed(tmp_path, source, functions=["void NAME(twice)(ARGS(a))"])
    assert shown(lib) == {"twice_f32": "void twice_f32(float *a, int an)"}
    a = np.ones(2, "float32")
    lib.twice_f32(a, 2)
    assert a.tolist() == [2, 2]
    with pytest.raises(mblob.BuildError, match="no kernel or object defines 'thrice_f32'"):
        packed(tmp_path, source, functions=["void NAME(thrice)(ARGS(a))"])


ARRAYS = """
typedef float vec[3];
typedef float *floats;
void add(vec out, vec const a, const floats b, vec *rows) { out[0] = a[0] + b[0] + rows[0][0]; }
"""


def test_typedefs_of_arrays_and_pointers_are_arrays(tmp_path: Path) -> None:
    prototype = "void add(vec out, vec const a, const floats b, vec *rows)"
    told = {"add": "void add(float out[3], const float a[3], float *b, float rows[][3])"}
    assert shown(packed(tmp_path, ARRAYS)) == told
    lib = packed(tmp_path, ARRAYS, functions=[prototype])
    assert shown(lib) == told
    with pytest.raises(mblob.MblobError, match="expected an array of float32, found float64"):
        lib.add(*[np.zeros(3)] * 4)


GLOBAL = """
struct Data { int a; };
float sum(const float *x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; return s; }
void show(Data &d, const float *x, int n) { d.a = (int)sum(x, n); }
namespace one { namespace two {
typedef float real;
struct State { int b; };
float last(const real *x, int n) { return x[n - 1]; }
void set(State &s, const real *x) { s.b = (int)x[0]; }
} }
int twice(int x) { return 2 * x; }
float twice(float x) { return 2 * x; }
extern "C" int plain(const int *x, int n) { return x[n - 1]; }
"""


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_prototypes_of_functions_of_cxx_add_sizes(tmp_path: Path, dialect: Any) -> None:
    functions = {
        "sum": "float sum(const float x[n], int n)",
        "show": "void show(struct Data *d, const float x[n], int n)",
        "plain": "int plain(const int x[n], int n)",
        "one::two::last": "float one::two::last(const float x[n], int n)",
    }
    lib = packed(
        tmp_path, GLOBAL, "cc", functions=list(functions.values()), export={"dialect": dialect}
    )
    assert shown(lib) == functions
    x = np.ones(3, "float32")
    d = np.zeros(1, [("a", "i4")])
    lib.show(d, x, 3)
    assert (lib.sum(x, 3), d["a"], lib.plain(np.array([4, 5], "int32"), 2)) == (3, 3, 5)
    with pytest.raises(mblob.MblobError, match=r"expected shape \(4,\)"):
        lib.sum(x, 4)


@pytest.mark.parametrize(
    "prototype",
    [
        "void one::two::set(State &s, const float *x)",
        "void one::two::set(one::two::State& s, const one::two::real *x)",
        "void one::two::set(struct State *s, const real x[])",
    ],
)
def test_prototypes_may_have_namespaces_and_references(tmp_path: Path, prototype: str) -> None:
    lib = packed(tmp_path, GLOBAL, "cc", functions=[prototype])
    assert list(lib.functions) == ["one::two::set"]
    s = np.zeros(1, [("b", "i4")])
    lib["one::two::set"](s, np.array([7], "float32"))
    assert s["b"] == 7


@pytest.mark.parametrize(
    ("prototype", "says"),
    [
        (
            "float sum(const double *x, int n)",
            "is 'const double \\*', the source has 'const float \\*'",
        ),
        ("float one::two::last(const int *x, int n)", "'const int .*the source has 'const real"),
        (
            "float two::last(const float *x, int n)",
            "no function has the name two::last; there is one::two::last: write its name so",
        ),
        ("int twice(short x)", "it is overloaded: twice"),
        ("void show(Dta *d, const float *x, int n)", "unknown type 'Dta'"),
    ],
)
def test_prototypes_of_functions_of_cxx_are_compared(
    tmp_path: Path, prototype: str, says: str
) -> None:
    with pytest.raises(mblob.BuildError, match=says):
        packed(tmp_path, GLOBAL, "cc", functions=[prototype])


def test_elements_of_an_array_may_be_a_typedef_of_arrays(tmp_path: Path) -> None:
    lib = packed(
        tmp_path,
        """typedef float row[4];
        float last(const row x[2]) { return x[1][3]; }
        void fill(int n, row y[n]) { y[n - 1][3] = 7; }
        """,
    )
    assert shown(lib) == {
        "last": "float last(const float x[2][4])",
        "fill": "void fill(int n, float y[n][4])",
    }
    x = np.arange(8, dtype="float32").reshape(2, 4)
    x.flags.writeable = False
    assert lib.last(x) == lib.ctypes.last(x) == 7
    for call in (lib.last, lib.ctypes.last):
        with pytest.raises(mblob.MblobError, match=r"expected shape \(2, 4\), found \(2,\)"):
            call(np.zeros(2, "float32"))
    y = np.zeros((3, 4), "float32")
    lib.fill(3, y)
    assert y[2, 3] == 7


def test_arrays_of_typedefs_and_sizes_of_types_are_bounds(tmp_path: Path) -> None:
    """In the source and in its own headers; a type of other sizes elsewhere has a remark."""
    (tmp_path / "own.h").write_text("typedef double mat[N][N]; typedef mat alias;")
    source = tmp_path / "typed.c"
    source.write_text(
        """enum { N = 3 };
        #include "own.h"
        void last(alias a) { a[2][2] = 1; }
        void raw(const unsigned char *x, float y[2 * sizeof(double)]) { y[15] = *x; }
        """
    )
    path = tmp_path / "typed.so"
    mblob.csource_module(source).export_library(path)
    lib = mblob.load_module(path)
    assert shown(lib) == {
        "last": "void last(double a[3][3])",
        "raw": "void raw(const unsigned char *x, float y[2 * 8])",
    }
    with pytest.raises(mblob.MblobError, match=r"expected shape \(3, 3\), found \(2, 3\)"):
        lib.last(np.zeros((2, 3)))
    source.write_text("void of_word(float x[sizeof(long)]) { *x = 1; }")
    with pytest.warns(UserWarning, match="does not check the size .* of_word"):
        mblob.csource_module(source).export_library(path)


def test_bounds_of_the_source_may_be_enumerators(tmp_path: Path) -> None:
    lib = packed(tmp_path, WORDS)
    assert shown(lib)["rows"] == "void rows(float x[3][6], float y[2], int n)"


@pytest.mark.parametrize(
    ("prototype", "says"),
    [
        (
            "float sum(const unit_t *u, const double x[N], which_t which)",
            r"'const double \*', the source has",
        ),
        (
            "float sum(const unit_t *u, const float x[M], which_t which)",
            "dimension 'M' is no integer parameter",
        ),
        (
            "void each(int (*f)(int), float **x, struct z *z)",
            r"'struct z \*', the source has 'complex double",
        ),
        (
            "void each(apply_t f, float ***x, const unit_t *z, int n)",
            "has 4 parameters, the source has 3",
        ),
        ("void none(unit_t *u)", "no kernel or object defines 'none'"),
    ],
)
def test_prototypes_in_words_of_the_source_are_compared(
    tmp_path: Path, prototype: str, says: str
) -> None:
    with pytest.raises(mblob.BuildError, match=says):
        packed(tmp_path, WORDS, functions=[prototype])


ODD = """enum { TAG = 'RIFF', N = 4, LARGE = 1 << 30, HUGE = LARGE * LARGE * LARGE, MAX = 0xFFFFFFFFFFFFFFFF,
  CUT = (char)300 };
void f(float x[N], float y[CUT]) { x[0] = y[0]; }
static int inner(void) { enum { M = 3 }; return M; }
void g(float x[2]) { enum { M = 8 }; x[0] = (float)(M + inner()); }
#define BOTH(T) void f_##T(T *x); void g_##T(T *x)
void f_int(int *x) { *x = 1; }
"""


def test_enumerators_that_are_no_numbers_of_their_own_give_no_bounds(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(ODD)
    module = mblob.csource_module(tmp_path / "k.c")
    with pytest.warns(UserWarning, match="CUT"):
        module.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert str(lib.functions["f"]).startswith("void f(float x[4], float *y")
    for name, text in {
        "void g(float x[M])": "'M'",
        "int f(T *x); int f(U *x)": "f is declared twice, and differently: .*; leave one out",
        "int f(T *x); int f(int *x)": "f is declared twice, and differently: .*; leave one out",
        "BOTH(int)": "declares 2 functions|no prototype|is declared",
    }.items():
        with pytest.raises(mblob.BuildError, match=text):
            mblob.csource_module(tmp_path / "k.c", functions=[name]).export_library(
                tmp_path / "l.so"
            )


IN_BRACKETS = """
#define PAD(n) ((n) + 1)
typedef int count;
int pad(int n, const float x[PAD(n)]) { return (int)x[n]; }
int minus(int n, const float x[(n) - 1]) { return n; }
int area(int r, int c, const float x[(r) * (c)]) { return r; }
int more(int r, int c, const float x[(r * c) + 1]) { return r; }
int alone(int n, float (x)[3], float y[(n)]) { return n; }
int cast(float x[(count)4], float y[sizeof(count)]) { return 4; }
void other(int n, int m, float x[n]);
void other(int m, int n, float *x) { x[m - 1] = n; }
enum { N = 4 };
void hides(int a, int b, float x[N], float y[b]);
void hides(int N, int c, float *x, float *y) { x[0] = y[c - 1] = N; }
"""


def test_names_in_brackets_are_no_types(tmp_path: Path) -> None:
    with pytest.warns(UserWarning) as told:
        lib = packed(tmp_path, IN_BRACKETS)
    assert {name: text.partition("(")[2] for name, text in shown(lib).items()} == {
        "pad": "int n, const float x[n + 1])",
        "minus": "int n, const float x[n - 1])",
        "area": "int r, int c, const float x[r * c])",
        "more": "int r, int c, const float x[r * c + 1])",
        "alone": "int n, float x[3], float y[n])",
        "cast": "float x[4], float *y)",
        "other": "int m, int n, float x[m])",  # by position
        "hides": "int N, int c, float *x, float y[c])",
    }
    texts = [str(w.message) for w in told]
    assert len(texts) == 2 and all("does not check the size" in text for text in texts)
