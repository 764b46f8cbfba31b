"""References of C++ as parameters."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import packed, shown

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
struct pair { int a, b; };
struct opaque;
typedef float (&row)[4];
float last(const float (&x)[4]) { return x[3]; }
float corner(float (&x)[2][3]) { return x[1][2]; }
float typed(row x) { return x[0]; }
int add(const int &a, int &b) { return b += a; }
double same(const double &x) { return x; }
char letter(const char &c) { return c; }
int second(const pair &p) { return p.b; }
float *moved(float *&p) { return p += 1; }
int hidden(const opaque &o) { return &o != nullptr; }
int call(int (&f)(int), int x) { return f(x); }
typedef int (*function)(int);
int called(function &f) { return f(2); }
"""
TOLD = {
    "last": "float last(const float x[4])",
    "corner": "float corner(float x[2][3])",
    "typed": "float typed(float x[4])",
    "add": "int add(int a, int b[static 1])",
    "same": "double same(double x)",
    "letter": "char letter(char c)",
    "second": "int second(const struct pair p[static 1])",
    "moved": "float *moved(float *p[static 1])",
    "hidden": "int hidden(const struct opaque o[static 1])",
    "call": "int call(int (*f)(int), int x)",
    "called": "int called(int (*f[static 1])(int))",
}
X = np.arange(6, dtype="float32")
ONE = np.ones(1, "int32")
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    folder = tmp_path_factory.mktemp("references")
    return packed(folder, SOURCE, "cc", export={"dialect": request.param})


def test_references_are_arrays_of_their_size_and_constant_ones_numbers(lib: mblob.Module) -> None:
    assert shown(lib) == TOLD
    assert (lib.last(X[:4]), lib.corner(X.reshape(2, 3)), lib.typed(X[:4])) == (3, 5, 0)
    b = np.ones(1, "int32")
    assert (lib.add(2, b), lib.add.bind(2, b)(), b[0]) == (3, 5, 5)
    assert (lib.same(2.5), lib.letter(65), lib.second(bytes(8))) == (2.5, 65, 0)
    assert lib.ctypes.corner(X.reshape(2, 3)) == 5
    assert lib.called([FUNCTION]) == lib.ctypes.called(ctypes.byref(FUNCTION)) == 3
    assert lib.ctypes.add(ONE, ctypes.byref(ctypes.c_int(4))) == 5


@pytest.mark.parametrize("way", ["call", "ctypes"])
def test_references_are_neither_null_nor_of_other_sizes(lib: mblob.Module, way: str) -> None:
    wrong: list[tuple[str, tuple[Any, ...]]] = [
        ("last", (None,)),
        ("last", (X,)),
        ("corner", (X,)),
        ("add", (None, ONE)),
        ("add", (ONE[:0], ONE)),
        ("add", (2, None)),
        ("add", (2, 3)),
        ("same", (None,)),
        ("letter", (None,)),
        ("second", (None,)),
        ("second", (bytes(4),)),
        ("moved", (None,)),
        ("hidden", (None,)),
        ("called", (FUNCTION,)),
        ("called", (None,)),
    ]
    for name, args in wrong:
        with pytest.raises((TypeError, ValueError, mblob.KernelError), match="argument"):
            getattr(lib if way == "call" else lib.ctypes, name)(*args)


def test_a_prototype_has_references_or_pointers(tmp_path: Path) -> None:
    functions = [
        "int add(const int &a, int &b)",
        "float last(const float (&v)[4])",
        "double same(const double *x)",
    ]
    lib = packed(tmp_path, SOURCE, "cc", functions=functions)
    assert shown(lib) == {
        "add": TOLD["add"],
        "last": "float last(const float v[4])",
        "same": "double same(const double *x)",
    }
    with pytest.raises(mblob.KernelError, match="found None"):
        lib.add(1, None)
    assert lib.same(np.ones(1)) == 1
