"""Functions of C++ without a prototype of the caller's: names, overloads, bounds."""

from __future__ import annotations

import ctypes
import inspect
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.function_names import shown_name
from tests.packager.functions.test_prototypes_from_sources import packed, shown

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

CXX = """
#include <vector>
namespace ns {
struct P { int x; int get() const; };
int P::get() const { return x; }
template <typename T> inline __attribute__((always_inline)) T same(T v) { return v; }
void scale(const float *x, float *y, int n);
namespace { int hidden(int x) { return x; } }
int shown(int x) { return hidden(same(x)); }
int of_struct(const P &p) { return p.get(); }
inline namespace v1 { int newest(int x) { return x; } }
}
void ns::scale(const float *x, float *y, int n) {
  std::vector<float> v(1, 2.0f);
  for (int i = 0; i < n; i++) y[i] = v[0] * x[i];
}
float half(float x) { return x / 2; }
int over(int x) { return x; }
double over(double x) { return x; }
static int local(int x) { return x; }
extern "C" int plain(int x) { return local(x) + over(x); }
extern "C" int third(const ns::P p[3]) { return p[2].x; }
"""
OF_CXX = {
    "half": "float half(float x)",
    "ns::of_struct": "int ns::of_struct(const struct P p[static 1])",
    "ns::scale": "void ns::scale(const float *x, float *y, int n)",
    "ns::shown": "int ns::shown(int x)",
    "ns::newest": "int ns::newest(int x)",
    "ns::v1::newest": "int ns::v1::newest(int x)",
    "plain": "int plain(int x)",
    "third": "int third(const struct P p[3])",
}
OVER = {
    "over": "auto over(...)",
    "over(int)": "int over(int x)",
    "over(double)": "double over(double x)",
}


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_functions_of_cxx_have_their_qualified_names(
    tmp_path: Path, require: Callable[[str], str], dialect: str, cc: str
) -> None:
    require("c++")
    lib = packed(tmp_path, CXX, "cc", export={"dialect": dialect, "cc": require(cc)})
    assert shown(lib) == OF_CXX | OVER
    x, y = np.ones(3, "float32"), np.zeros(3, "float32")
    lib["ns::scale"](x, y, 3)
    assert y.tolist() == [2, 2, 2]
    assert (lib.half(3), lib["ns::shown"](4), lib["ns::of_struct"](bytes([5, 0, 0, 0]))) == (
        1.5,
        4,
        5,
    )
    assert lib.symbol("ns::shown")(4) == 4
    assert lib.third(np.arange(3, dtype="int32")) == 2
    for refused in (lambda: lib.third(bytes(8)), lambda: lib["ns::of_struct"](None)):
        with pytest.raises(mblob.MblobError, match="expected at least"):
            refused()  # a reference is never NULL
    with pytest.raises(mblob.MblobError, match=r"ns::scale: argument 0 \(x\): expected an array"):
        lib["ns::scale"](x.astype("float64"), y, 3)


def test_overloads_are_chosen_by_their_types(tmp_path: Path, require: Any) -> None:
    require("c++")
    text = CXX.replace(
        "double over(double x) { return x; }", "double over(double x) { return x / 2; }"
    )
    for prototype, result in {"double over(double x)": 1.5, "int over(int x)": 3}.items():
        assert packed(tmp_path, text, "cc", functions=[prototype])["over"](3) == result
    with pytest.raises(mblob.BuildError, match=r"it is overloaded: over\(double\), over\(int\)"):
        packed(tmp_path, text, "cc", functions=["float over(float x)"])


BY_NAME = """
#include <string>
namespace ns {
struct A { int x; }; struct B { double x; };
enum E { e }; enum F { f };
int at(A *a) { return 1; } int at(const A *a) { return 2; } int at(B *b) { return 3; }
int rows(A **a, long n) { return 1; } int rows(B **b, long long n) { return 2; }
int ref(A &a) { return 1; } int ref(A *a) { return 2; }
int of(E x) { return 1; } int of(F x) { return 2; }
int text(std::string s) { return 1; } int text(int n) { return 2; }
}
"""


def test_overloads_whose_types_differ_in_their_names_are_chosen_by_these(tmp_path: Path) -> None:
    first = [
        "int ns::at(A *a)",
        "int ns::rows(A **a, long n)",
        "int ns::ref(ns::A &a)",
        "int ns::of(E x)",
    ]
    second = [
        "int ns::at(const struct A *a)",
        "int ns::rows(B **, long long)",
        "int ns::ref(A *a)",
        "int ns::of(F x)",
    ]
    a = np.zeros(1, [("x", "i4")])
    values = {"at": [a], "rows": [[np.zeros(1, [("x", "f8")])], 1], "ref": [a], "of": [0]}
    for result, prototypes in enumerate([first, second], 1):
        lib = packed(tmp_path, BY_NAME, "cc", functions=[*prototypes, "int ns::text(int n)"])
        values["rows"][0] = [a] if result == 1 else [np.zeros(1, [("x", "f8")])]
        found = {name: lib[f"ns::{name}"](*v) for name, v in values.items()}
        assert found == dict.fromkeys(values, result)
        assert lib["ns::text"](5) == 2
    says = r"it is overloaded: ns::at\(struct B \*\), ns::at\(const struct A \*\), ns::at\(struct A \*\)"
    with pytest.raises(mblob.BuildError, match=says):
        packed(tmp_path, BY_NAME, "cc", functions=["int ns::at(void *a)"])


def test_the_prototype_of_an_overload_hides_no_other_function_with_a_star(tmp_path: Path) -> None:
    lib = packed(tmp_path, CXX, "cc", functions=["*", "double over(double x)"])
    assert shown(lib) == {**OF_CXX, "over": "double over(double x)"}
    objects = tmp_path / "o.cc"
    objects.write_text("int one(int x) { return x; }")
    (tmp_path / "k.cc").write_text(CXX)
    subprocess.run(["c++", "-gdwarf-4", "-fPIC", "-c", "o.cc", "k.cc"], check=True, cwd=tmp_path)
    parts = [tmp_path / "o.o", tmp_path / "k.o"]
    made = mblob.static_library(parts, functions=["int over(int x)", "*"])
    made.export_library(tmp_path / "o.so")
    assert {*mblob.load_module(tmp_path / "o.so").functions} == {*OF_CXX, "over", "one"}


def test_two_overloads_in_a_namespace_are_answered_by_a_function_to_write(tmp_path: Path) -> None:
    code = "namespace img { int area(int w, int h) { return w * h; } double area(double w) { return w; }\n%s }"
    both = ["double img::area(double w)", "int img::area(int w, int h)"]
    line = "int area_2(int w, int h) { return area(w, h); }"
    with pytest.raises(mblob.BuildError) as said:
        packed(tmp_path, code % "", "cc", functions=both)
    assert f"by the name: add namespace img {{ {line} }} to the source" in str(said.value)
    lib = packed(tmp_path, code % line, "cc", functions=["img::area_2", both[0]])
    assert (lib["img::area_2"](2, 3), lib["img::area"](2.5)) == (6, 2.5)


def test_functions_of_cxx_have_the_bounds_of_their_source(tmp_path: Path) -> None:
    text = """struct Q { float m(float x[7], int n); };
    float Q::m(float x[7], int) { return x[6]; }
    float m(const float x[3], int k) { return x[k]; }
    namespace ns { int last(const int x[2][3], const Q &) { return x[1][2]; } }
    struct Pair { int a : 3, b; };
    int of_value(Pair p) { return p.a; }
    Pair operator+(Pair a, Pair) { return a; } Pair operator+(Pair a, int) { return a; }
    """
    lib = packed(tmp_path, text, "cc")
    assert shown(lib) == {
        "m": "float m(const float x[3], int k)",
        "ns::last": "int ns::last(const int x[2][3], const struct Q [static 1])",
    }
    with pytest.raises(mblob.MblobError, match=r"struct Pair by value: .*int call_of_value\(const"):
        lib["of_value"](bytes(8))


def test_types_may_have_arguments_of_templates(tmp_path: Path) -> None:
    text = """template <class A, class B> struct Two { A a; B b; };
    extern "C" int first(const Two<int, float> *t, int k) { return t->a + k; }
    """
    lib = packed(tmp_path, text, "cc")
    assert shown(lib) == {"first": "int first(const struct Two<int, float> *t, int k)"}
    assert lib.first(bytes([5, 0, 0, 0, 0, 0, 0, 0]), 2) == 7


def test_functions_of_cxx_are_chosen_by_name(tmp_path: Path) -> None:
    lib = packed(tmp_path, CXX, "cc", functions=["ns::scale", "half"])
    assert shown(lib) == {name: OF_CXX[name] for name in ("half", "ns::scale")}
    assert shown(packed(tmp_path, CXX, "cc", functions=["over"])) == OVER


def test_errors_have_the_names_of_the_source(tmp_path: Path) -> None:
    """And not the symbols, which compilers make of them."""
    source = "namespace vis { int topk(const float *x, int n) { return n; } }"
    (tmp_path / "k.cpp").write_text(source)
    (tmp_path / "other.cpp").write_text(source)
    mblob.csource_module("int one(void) { return 1; }").export_library(tmp_path / "l.so")
    mblob.add(tmp_path / "l.so", kernels=tmp_path / "k.cpp")
    with pytest.raises(mblob.BuildError, match="has a function 'vis::topk' already"):
        mblob.add(tmp_path / "l.so", kernels=tmp_path / "k.cpp")
    both = mblob.csource_module(tmp_path / "k.cpp", functions=[])
    both.import_module(mblob.csource_module(tmp_path / "other.cpp", functions=[]))
    with pytest.raises(mblob.ToolchainError, match=r"^vis::topk is defined twice"):
        both.export_library(tmp_path / "m.so")


@pytest.mark.parametrize(
    ("symbol", "shown"),
    [
        ("_ZN3vis4topkEPKfii", "vis::topk"),
        ("_Z5scalePfl", "scale"),
        ("_ZNK3Acc3addEi", "Acc::add"),
        ("_ZN2ns5twiceIiEET_S1_", "ns::twice"),
        ("_ZN2ns3AccC1Ei", "_ZN2ns3AccC1Ei"),
        ("_ZN9999x", "_ZN9999x"),
        ("_ZN3vi", "_ZN3vi"),
        ("_ZNSt6vectorE", "_ZNSt6vectorE"),
        ("scale", "scale"),
    ],
)
def test_the_name_of_a_symbol(symbol: str, shown: str) -> None:
    assert shown_name(symbol) == shown


def test_an_inline_namespace_may_be_left_out_where_c_does(tmp_path: Path) -> None:
    source = """namespace img {
inline namespace v1 { int bright(int x) { return x; } int pick(int x) { return 1; } int pick(double x) { return 2; } }
}"""
    asked = ["img::bright", "int img::pick(int x)"]
    mblob.csource_module(source, fmt="cc", functions=asked).export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert sorted(lib.functions) == ["img::bright", "img::pick"]
    assert (lib["img::bright"](3), lib["img::pick"](3)) == (3, 1)
    module = mblob.csource_module(source, fmt="cc", functions=["bright"])
    with pytest.raises(mblob.BuildError, match=r"there is img::v1::bright: write its name so"):
        module.export_library(tmp_path / "k.so")


def test_arguments_of_templates_are_shown_and_words_for_programs_are_not(tmp_path: Path) -> None:
    source = """#include <memory>
#include <string>
#include <vector>
struct P { int a, b; };
typedef int (*(*turned)(P *p))(int);
int (*chosen(P *p))(int) { return p ? nullptr : nullptr; }
double sum(const std::vector<std::shared_ptr<double>> &v) { return *v[0]; }
double all(std::vector<std::string> *v) { return v->size(); }
"""
    mblob.csource_module(source, fmt="cc").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert str(lib.functions["all"]) == "double all(struct vector<string> *v)"
    assert ":" not in str(inspect.signature(lib.all)).replace("v: ", "")
    assert "P *" in str(lib.functions["chosen"]) and ":" not in str(lib.functions["chosen"])
    with pytest.raises(
        AttributeError, match=r"parameter 0 \(v\) is const struct vector<shared_ptr<double>> &"
    ):
        lib["sum"]


def test_commas_between_arguments_of_a_template_part_no_parameters(tmp_path: Path) -> None:
    """Neither in Python nor in C, where mblob_prepare counts them."""
    source = """template <typename K, typename V> struct both { K k; V v[2]; };
double sum(const both<int, float> *b, both<both<int, float>, int> *c, int n) { return b->v[n] + c->k.k; }
"""
    mblob.csource_module(source, fmt="cc").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    text = "(const struct both<int, float> *b, struct both<both<int, float>, int> *c, int n)"
    assert str(lib.functions["sum"]) == f"double sum{text}"
    b = np.array((1, (2, 3)), [("k", "i4"), ("v", "f4", 2)])
    c = np.array((b, (5, 6)), [("k", b.dtype), ("v", "i4", 2)])
    assert lib.sum(b, c, 1) == lib.ctypes.sum(b, c, 1) == lib.symbol("sum")(b, c, 1) == 4
    assert list(inspect.signature(lib.sum).parameters) == ["b", "c", "n"]
    c_library = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
    module, call = ctypes.c_void_p(), ctypes.c_void_p()
    assert c_library.mblob_open(bytes(tmp_path / "k.so"), None, ctypes.byref(module)) == 0
    for types, status in ((b"handle,handle,int -> double", 0), (b"handle,handle,int,int", 3)):
        found = c_library.mblob_prepare(module, b"sum", types, ctypes.byref(call))
        assert bool(found) == bool(status)
        c_library.mblob_prepared_release(call)
    c_library.mblob_module_release(module)
