"""Complex numbers by value and by reference, which the ctypes of Python 3.14 is the first to have types for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.loader import c_arguments, c_types, c_words
from tests.packager.functions.test_prototypes_from_sources import packed

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """#include <complex.h>
double complex add(double complex a, int n, float complex b) { return a + n + b; }
float complex turned(float complex a) { return conjf(a); }
double complex many(double a, double b, double c, double d, double e, double f, double g, double complex z,
                    double complex y, float complex w) {
  return a + b + c + d + e + f + g + z * 10 + y * 100 + w * 1000;
}
double part(const double complex x[1], double complex *out) { out[0] = 2 * x[0]; return cimag(x[0]); }
long double complex wide(long double complex x) { return x; }
"""
WAYS: dict[str, Callable[[mblob.Module, str], Any]] = {
    "ctypes": lambda lib, name: lib.ctypes[name],
    "symbol": lambda lib, name: lib.symbol(name),
}
MACHINES = pytest.mark.skipif(
    c_words.number_of(["double", "_Complex"]).passed is None,  # type: ignore[union-attr]
    reason="this machine's ABI is not known to pass them as structs",
)


@pytest.fixture(scope="module", params=["table", "debug"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("complex") / "x.so"
    functions = [] if request.param == "debug" else None
    mblob.csource_module(SOURCE, functions=functions, options=["-g"]).export_library(path)
    return path


@pytest.fixture
def lib(path: Path) -> mblob.Module:
    return mblob.load_module(path)


@MACHINES
@pytest.mark.parametrize("way", WAYS)
def test_complex_numbers_are_passed_and_returned(lib: mblob.Module, way: str) -> None:
    add, turned, many = (WAYS[way](lib, name) for name in ("add", "turned", "many"))
    for a in 1 + 2j, np.complex128(1 + 2j), np.complex64(1 + 2j), np.array(1 + 2j):
        assert add(a, 3, 1j) == turned(turned(a)) + 3 + 1j == 4 + 3j
    for real in 2, 2.0, True + 1, np.float32(2), np.int8(2), Fraction(2):
        assert type(turned(real)) is complex
        assert turned(real) == 2
    assert many(1, 2, 3, 4, 5, 6, 7, 1j, 2j, 3j) == 28 + 3210j  # more than registers take
    assert str(turned(complex("nan-infj"))) == "(nan+infj)"
    assert add(1e308 + 1.5e308j, 0, 0) == 1e308 + 1.5e308j
    native = getattr(ctypes, "c_float_complex", None)
    assert native is None or turned(native(1j)) == -1j


@MACHINES
@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_complex_number_is_told(lib: mblob.Module, way: str) -> None:
    turned = WAYS[way](lib, "turned")
    for wrong in "1j", b"1", None, np.zeros(1, "complex64"), [1], ctypes.c_void_p(1), object():
        with pytest.raises(
            TypeError, match=r"turned: argument 0( \(a\))?: expected complex, found"
        ):
            turned(wrong)
    for large in 1e300j, -1e300, 10**400:
        with pytest.raises(ValueError, match="the number is too large for complex64"):
            turned(large)
    turned.restype = ctypes.c_double  # a program's own
    assert type(turned(1)) is float


def test_types_that_ctypes_lacks_are_refused_with_a_remedy(
    lib: mblob.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(c_arguments, "_COMPLEX_IS_STRUCT", False)
    monkeypatch.setattr(c_types, "number_type", c_types.number_type.__wrapped__)  # type: ignore[attr-defined]
    monkeypatch.setitem(c_arguments._CTYPES, ("complex", 8), None)
    monkeypatch.setitem(c_arguments._CTYPES, ("complex", 2 * c_arguments.LONG_DOUBLE), None)
    for name in "turned", "wide":
        refused = rf"{name}: ctypes has no type for .*, before Python 3\.14; pack a C function that takes a pointer"
        with pytest.raises(TypeError, match=refused):
            lib.symbol(name)(1)


@MACHINES
def test_packed_functions_take_them_as_those_of_ctypes_do(lib: mblob.Module) -> None:
    if "add" in lib.functions:
        args = (1, 2, 3, 4, 5, 6, 7, 1 + 1j, 2 + 2j, 3j)
        assert lib["add"](1, 2, 3j) == lib.symbol("add")(1, 2, 3j) == 3 + 3j
        assert lib["many"](*args) == lib.symbol("many")(*args) == 238 + 3210j


@pytest.mark.parametrize("way", WAYS)
def test_pointers_to_them_are_arrays(lib: mblob.Module, way: str) -> None:
    out = np.zeros(1, "complex128")
    assert WAYS[way](lib, "part")(np.array([1 + 2j]), out) == 2
    assert out[0] == 2 + 4j
    with pytest.raises(TypeError, match="complex128"):
        WAYS[way](lib, "part")(np.zeros(1), out)


@MACHINES
def test_classes_of_cxx_are_complex_numbers(tmp_path: Path) -> None:
    source = """#include <complex>
    std::complex<double> sum(std::complex<double> a, std::complex<float> b) { return a + std::complex<double>(b); }
    double wide(const std::complex<double> &a) { return a.real() + 10 * a.imag(); }
    float narrow(const std::complex<float> &a) { return a.real() + 10 * a.imag(); }
    """
    lib = packed(tmp_path, source, "cc")
    assert lib.ctypes["sum"](1j, 2) == 2 + 1j
    numbers = (1 + 2j, np.complex64(1 + 2j), np.complex128(1 + 2j), np.array([1 + 2j]))
    for way in lib, lib.ctypes:
        assert [way.wide(a) for a in numbers] == [21] * 4
        assert [way.narrow(a) for a in numbers[:3]] == [21] * 3
        assert (way.wide(3), way.wide(np.float32(3)), way.narrow(True)) == (3, 3, 1)
        for wrong in "1j", None, np.zeros(2, "c8"), np.zeros(0, "c16"), object():
            with pytest.raises((mblob.MblobError, TypeError)):
                way.wide(wrong)
        with pytest.raises(ValueError, match="the number is too large for complex64"):
            way.narrow(1e300j)
