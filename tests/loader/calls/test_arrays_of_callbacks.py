"""Arrays, structs and pointers of ctypes that hold callbacks are data: C gets the address of the memory, and a
parameter that is one function takes none of them."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = r"""
typedef int (*F)(int);
typedef struct { F f, g; } pair;
#define BOTH { return f[0](3) * 100 + f[1](3); }
int constant(const F *f) BOTH
int array(F f[2]) { BOTH }
int counted(F *f) BOTH
int spelled(int (**f)(int)) BOTH
int rows(int (*f[2])(int)) { BOTH }
int any(void *v) { F *f = v; BOTH }
int addresses(void **v) { F *f = (F *)v; BOTH }
int two(const pair *p) { return p->f(3) * 100 + p->g(3); }
int hidden(struct unknown *p) { F *f = (F *)p; BOTH }
int one(F f) { return f(3); }
"""
DATA = ("constant", "array", "counted", "spelled", "rows", "any", "addresses", "two", "hidden")
POINTERS = ("constant", "array", "counted", "spelled", "rows", "addresses")  # to pointers
FUNCTIONS = POINTERS[:-1]
WAYS: dict[str, Callable[..., Any]] = {
    "call": lambda lib, name, *args: lib[name](*args),
    "bind": lambda lib, name, *args: lib[name].bind(*args)(),
    "ctypes": lambda lib, name, *args: getattr(lib.ctypes, name)(*args),
}
F = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class Pair(ctypes.Structure):
    _fields_ = (("f", F), ("g", F))


def held() -> dict[str, Any]:
    """Two callbacks in memory of every kind."""
    f, g = F(lambda x: x + 1), F(lambda x: 2 * x)
    array, pair = (F * 2)(f, g), Pair(f, g)
    return {
        "array": array,
        "reference": ctypes.byref(array),
        "pointer": ctypes.pointer(array),
        "struct": pair,
        "reference to a struct": ctypes.byref(pair),
        "addresses": (ctypes.c_void_p * 2)(*(ctypes.cast(x, ctypes.c_void_p) for x in (f, g))),
        "pointer to one": ctypes.pointer(array[0]),
        "reference to one": ctypes.byref(f),
    }


def call_all(path: str) -> None:
    """In a process of its own: what goes wrong is a jump to anywhere."""
    lib = mblob.load_module(path)
    for kind, value in list(held().items())[:6]:
        for name in DATA:
            if name in POINTERS and "struct" in kind:
                continue  # a struct is no address
            for way, call in WAYS.items():
                print(kind, name, way, flush=True)
                assert call(lib, name, value) == 406


@pytest.fixture(scope="module", params=["classic", "ffi"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("callbacks") / "x.so"
    mblob.csource_module(SOURCE, "c").export_library(made, dialect=request.param)
    return made


def test_memory_with_callbacks_is_passed_as_its_address(path: Path) -> None:
    done = subprocess.run([sys.executable, __file__, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_one_function_is_no_data(path: Path, way: str) -> None:
    lib, call = mblob.load_module(path), WAYS[way]
    assert call(lib, "one", F(lambda x: x + 1)) == 4
    for value in (*held().values(), b"code", mblob.array([1.0])):
        with pytest.raises(
            mblob.ArgumentError,
            match=r"one: argument 0 \(f\): expected int \(\*f\)\(int\), found data",
        ) as caught:
            call(lib, "one", value)
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("way", WAYS)
def test_a_pointer_to_pointers_to_functions_takes_a_list_of_them(path: Path, way: str) -> None:
    lib, call = mblob.load_module(path), WAYS[way]
    f, g = F(lambda x: x + 1), F(lambda x: 2 * x)
    other = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_float)(lambda x: 1)
    for name in FUNCTIONS:
        assert call(lib, name, [f, g]) == 406
        for wrong, found in (
            (f, r"expected a list of functions for int \(.*found CFunctionType"),
            (
                [f, other],
                r"item 1: expected int \(\*\)\(int\), found CFUNCTYPE\(c_int, c_float\); declare",
            ),
            (
                [abs, f],
                r"item 0: expected a function of ctypes.CFUNCTYPE.*CFUNCTYPE\(c_int, c_int\)\(f\)",
            ),
            ([f, "x"], "item 1: expected a function of ctypes.CFUNCTYPE, or an address, found str"),
        ):
            with pytest.raises(TypeError, match=rf"{name}: argument 0( \(f\))?: {found}"):
                call(lib, name, wrong)


def test_pointers_to_pointers_to_functions_show_what_they_take(path: Path) -> None:
    lib = mblob.load_module(path)
    assert [str(lib.functions[name]) for name in FUNCTIONS] == [
        "int constant(int (*const *f)(int))", "int array(int (*f[2])(int))", "int counted(int (**f)(int))",
        "int spelled(int (**f)(int))", "int rows(int (*f[2])(int))",
    ]  # fmt: skip
    with pytest.raises(
        ValueError, match=r"at least 2 functions for int \(\*f\[2\]\)\(int\), found 1"
    ):
        lib.ctypes.rows([F(abs)])


@pytest.mark.parametrize("way", WAYS)
def test_a_list_of_callbacks_is_told_what_to_become(path: Path, way: str) -> None:
    lib, call = mblob.load_module(path), WAYS[way]
    f = F(abs)
    with pytest.raises(TypeError, match=r"found list; make it an array with \(F \* 2\)\(\*[vx]\)"):
        call(lib, "any", [f, f])
    with pytest.raises(
        TypeError, match=r"a function of ctypes.CFUNCTYPE, or an address, found list$"
    ):
        call(lib, "one", [f, f])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
def test_addresses_have_64_bits(path: Path, way: str, number: int) -> None:
    with pytest.raises(
        mblob.ArgumentError,
        match=r"one: argument 0 \(f\): expected an address, an int from -2\*\*63",
    ):
        WAYS[way](mblob.load_module(path), "one", number)


if __name__ == "__main__":
    call_all(sys.argv[1])
