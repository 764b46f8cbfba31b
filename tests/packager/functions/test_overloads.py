"""Overloads and instances of templates: each has a name with its types, and a call by the bare name chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import shown

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <memory>
#include <string>
#include <vector>
namespace ns {
int f(int x) { return 1; }
int f(double x) { return 2; }
int f(const std::string &s) { return 3; }
int f(const std::vector<float> &s) { return 4; }
int f(const double *s, int n) { return 5; }
int f(const float *s, int n) { return 6; }
std::string name(int x) { return "int"; }
std::string name(double x) { return "double"; }
std::vector<int> other(int x) { return {x}; }
int other(double x) { return (int)x; }
long g(int x) { return 1; }
// The wider one.
long g(long x) { return 2; }
float h(float x) { return x; }
double h(double x) { return x; }
int only(int x) { return x; }
int only(std::unique_ptr<int> x) { return *x; }
template <class T> T sum(const T *x, int n) { T s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
template double sum<double>(const double *, int);
template float sum<float>(const float *, int);
template <class T> void one(T *x, int n) { for (int i = 0; i < n; i++) x[i] *= 2; }
template void one<float>(float *, int);
template <int N> int value() { return N; }
template int value<3>();
template int value<4>();
template <class A, class B> B plus(A a, B b) { return a + b; }
template long plus<unsigned long, long>(unsigned long, long);
template <class... T> int count(T... t) { return sizeof...(t); }
template int count<int, double>(int, double);
}
"""


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: Any, tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("overloads")
    (folder / "k.cpp").write_text(SOURCE)
    module = mblob.csource_module(folder / "k.cpp")
    cc = "clang" if request.param == "ffi" else "cc"
    module.export_library(folder / "k.so", dialect=request.param, cc=cc)
    return mblob.load_module(folder / "k.so")


def test_the_arguments_choose_an_overload(lib: Any) -> None:
    f = lib["ns::f"]
    single, double = np.ones(2, "float32"), np.ones(2)
    assert [f(1), f(1.5), f("a"), f(single), f(double, 2), f(single, 2)] == [1, 2, 3, 4, 5, 6]
    assert [lib["ns::name"](x) for x in (1, 1.5)] == ["int", "double"]
    for wrong in ((), (1, 2), (np.ones(2, "int32"),), (double,), (None,)):
        with pytest.raises(
            mblob.MblobError, match=r"no overload fits the arguments; .*ns::f\(int\)"
        ):
            f(*wrong)


def test_what_fits_several_overloads_is_refused_with_their_names(lib: Any) -> None:
    for name, value in (("g", 1), ("h", 1.5), ("h", 1)):
        with pytest.raises(
            mblob.MblobError, match=r"several overloads fit .* call one by its name: "
        ):
            lib[f"ns::{name}"](value)
    assert [lib["ns::g(int)"](1), lib["ns::g(long)"](1)] == [1, 2]
    assert lib["ns::h(float)"](0.1) != lib["ns::h(double)"](0.1)
    assert [lib.ctypes["ns::g(int)"](1), lib.symbol("ns::g(long)")(1)] == [1, 2]
    for ask in (lib.symbol, lambda name: lib.ctypes[name]):
        with pytest.raises(
            KeyError, match=r"it is overloaded: pass the name of one of them: ns::g\(int\)"
        ):
            ask("ns::g")


def test_overloads_with_results_that_nothing_tells_apart_have_their_own_names(lib: Any) -> None:
    assert lib["ns::other(int)"](7).numpy().tolist() == [7]
    assert lib["ns::other(double)"](7.5) == 7
    with pytest.raises(KeyError, match=r"ns::other\(int\)"):
        lib["ns::other"]


def test_one_overload_that_can_be_called_has_the_name(lib: Any) -> None:
    assert lib["ns::only"](3) == lib["ns::only(int)"](3) == 3


def test_instances_of_templates_have_their_arguments(lib: Any) -> None:
    single, double = np.ones(2, "float32"), np.ones(2)
    assert lib["ns::sum<double>"](double, 2) == lib["ns::sum"](double, 2) == 2
    assert lib["ns::sum<float>"](single, 2) == lib["ns::sum"](single, 2) == 2
    with pytest.raises(mblob.MblobError, match="expected an array of float64, found float32"):
        lib["ns::sum<double>"](single, 2)
    lib["ns::one"](single, 2)
    lib["ns::one<float>"](single, 2)
    assert single.tolist() == [4, 4]
    assert [lib["ns::value<3>"](), lib["ns::value<4>"]()] == [3, 4]
    with pytest.raises(mblob.MblobError, match="several overloads fit"):
        lib["ns::value"]()
    assert lib["ns::plus<unsigned long, long>"](3, 4) == 7
    assert lib["ns::count<int, double>"](3, 1.5) == lib["ns::count"](3, 1.5) == 2


def test_prototypes_and_help_have_the_bare_name(lib: Any) -> None:
    texts = shown(lib)
    assert texts["ns::f"] == "int ns::f(...)"
    assert texts["ns::g(long)"] == "long ns::g(long x)"
    assert texts["ns::sum<double>"] == "double ns::sum(const double *x, int n)"
    assert "ns::f(const std::string &)" in lib["ns::f"].__doc__
    assert "The wider one." in lib["ns::g(long)"].__doc__


def test_names_select_what_is_packed(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    for names, found in (
        (["ns::g"], {"ns::g", "ns::g(int)", "ns::g(long)"}),
        (["ns::sum<double>"], {"ns::sum", "ns::sum<double>"}),
        (["long ns::g(long x)"], {"ns::g"}),
    ):
        module = mblob.csource_module(tmp_path / "k.cpp", functions=names)
        module.export_library(tmp_path / "k.so")
        assert set(mblob.load_module(tmp_path / "k.so").functions) == found


def test_names_of_overloads_survive_a_conversion(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    module = mblob.csource_module(tmp_path / "k.cpp", functions=["ns::g", "ns::sum"])
    module.export_library(tmp_path / "k.so")
    mblob.convert(tmp_path / "k.so", tmp_path / "ffi.so", dialect="ffi")
    lib = mblob.load_module(tmp_path / "ffi.so")
    assert (lib["ns::g(int)"](1), lib["ns::sum"](np.ones(3), 3)) == (1, 3)


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_static_library_may_have_overloads_as_plain_functions(
    tmp_path: Path, dialect: Any
) -> None:
    module = mblob.csource_module(
        "int f(int x) { return x; } double f(double x) { return x; }", "cpp"
    )
    module.export_library(tmp_path / "x.a", system_lib=True, prefix="p_", dialect=dialect)
    made = (tmp_path / "x.a").read_bytes()
    assert all(b"p_" + name in made for name in (b"_Z1fi__plain", b"_Z1fd__plain"))
