"""Lists of lists of arrays, texts and functions for pointers to pointers to pointers, and deeper."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """#include <string.h>
double cube(const double ***x, int n, int m) {
  double s = 0;
  for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s += x[i][j][0] * (i + 1);
  return s;
}
int letters(const char ***t, int n, int m) {
  int s = 0;
  for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s += strlen(t[i][j]);
  return s;
}
void fill(float ****x) { x[0][0][0][0] = 7; }
int rows(int (***f)(int), int x) { return f[0][0](x) * 100 + f[1][0](x); }
int absent(double ***x) { return x[1] == 0 && x[0][0] == 0; }
double pairs(double **x[2]) { return x[0][0][0] + x[1][0][0]; }
"""
Way = Callable[[str], Callable[..., Any]]
REFUSED = (mblob.MblobError, TypeError)


@pytest.fixture(
    scope="module",
    params=["classic", "ffi", "ctypes", "debug"],  # the last has no prototypes
)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    path = tmp_path_factory.mktemp("lists") / "x.so"
    functions = [] if request.param == "debug" else None
    dialect: Any = "ffi" if request.param == "ffi" else "classic"
    module = mblob.csource_module(SOURCE, functions=functions, options=["-g"])
    module.export_library(path, dialect=dialect)
    lib = mblob.load_module(path)
    packed = request.param in ("classic", "ffi")
    yield lib.__getitem__ if packed else lambda name: getattr(lib.ctypes, name)


def test_lists_of_lists_are_pointers(way: Way) -> None:
    a, b = np.ones(1), np.full(1, 2.0)
    inner = np.array([a.ctypes.data, b.ctypes.data], "uint64")
    pointers = (ctypes.c_void_p * 2)(a.ctypes.data, b.ctypes.data)
    for given in (
        [[a, b], [b, a]],
        ((a, b), [b, a]),
        [inner, [b, a]],
        [pointers, ctypes.cast(pointers, ctypes.c_void_p)],
    ):
        assert way("cube")(given, 2, 2) in (9, 3 + 2 * 3)
    assert way("letters")([["ab", b"c"], ("", "def")], 2, 2) == 6
    out = np.zeros(1, "float32")
    way("fill")([[[out]]])
    assert out[0] == 7
    assert way("absent")([[None], None]) == 1
    assert way("pairs")([[a], [b]]) == 3


def test_lists_of_lists_of_functions_have_the_types_of_the_parameter(way: Way) -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    f, g = function(lambda x: x + 1), function(lambda x: 2 * x)
    assert way("rows")([[f], [g]], 3) == 406
    other = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double)(lambda x: 0)
    for wrong, text in (
        ([[f], [other]], r"item 1: item 0: expected int \(\*\)\(int\), found CFUNCTYPE\(c_int, c_do"),
        ([[f], [len]], r"item 1: item 0: expected a function of ctypes\.CFUNCTYPE"),
        ([f, g], r"item 0: expected a list of functions, or an array of their addresses.*CFunctionT"),
        (f, r"expected a list of lists of functions for int \(\*\*\*f?\)\(int\), or an array"),
    ):  # fmt: skip
        with pytest.raises(REFUSED, match=text):
            way("rows")(wrong, 3)


def test_lists_of_another_depth_are_refused(way: Way) -> None:
    a = np.ones(1)
    circle: list[Any] = []
    circle.append(circle)
    for wrong, text in (
        ([a, a], r"item 0: expected a list of arrays, or an array of their addresses.*found float64"),
        ([[a], [a.astype("f4")]], r"item 1: item 0: expected an array of float64, found .*float32"),
        ([[a], 3], r"item 1: expected a list of arrays, or an array of their addresses.*found int"),
        ([[[a]]], r"item 0: item 0: expected an array of float64, found list"),
        (a, r"expected a list of lists of arrays for const double"),
        (3.5, r"expected a list of lists of arrays for const double|an array"),
        (circle, r"item 0: item 0: expected an array of float64, found list"),
    ):  # fmt: skip
        with pytest.raises(REFUSED, match=text):
            way("cube")(wrong, 1, 1)
    with pytest.raises(REFUSED, match=r"a list of texts, or .*found str"):
        way("letters")(["ab", "c"], 1, 1)
    read_only = np.zeros(1, "float32")
    read_only.flags.writeable = False
    with pytest.raises(REFUSED, match=r"item 0: item 0: item 0: .*read-only"):
        way("fill")([[[read_only]]])


def test_more_pointers_than_lists_stand_for_are_addresses(tmp_path: Path) -> None:
    code = "int deep(int **********x) { return x == 0; }"
    prototype = code.partition(" {")[0]
    mblob.csource_module(code, functions=[prototype]).export_library(tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    circle: list[Any] = []
    circle.append(circle)
    for deep in (lib.deep, lib.ctypes.deep):
        assert (deep(None), deep(np.zeros(1, "uint64"))) == (1, 0)
        with pytest.raises(REFUSED, match=r"lists stand for up to 8 pointers, found 10; pass an"):
            deep(circle)
