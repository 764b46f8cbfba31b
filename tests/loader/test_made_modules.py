"""Modules made in Python, where C code meets them: below a library, as arguments, as results."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.loader import node_registry


def functions(**functions: Callable[..., object]) -> mblob.Module:
    return mblob.Module("made_here", functions=functions)


@pytest.fixture
def path(tree_library: Callable[..., Path], tmp_path: Path) -> Path:
    return tree_library(tmp_path / "lib.so", [("library", None)], [[]])


@pytest.fixture
def lib(path: Path) -> mblob.Module:
    return mblob.load_module(path)


def test_a_kernel_finds_functions_of_an_imported_module(lib: mblob.Module) -> None:
    lib.import_module(functions(add=lambda a, b: a + b, text=lambda: "from Python"))
    assert lib["call_by_name"]("add", 3, 4) == 7
    assert lib["call_by_name"]("text") == "from Python"
    a = np.arange(3, dtype="float32")
    with pytest.raises(mblob.MblobError, match="absent"):
        lib["call_by_name"]("absent", a)


def test_a_kernel_finds_what_that_module_imports(lib: mblob.Module, kernels: Path) -> None:
    above, below = functions(), functions(deep=lambda: 5)
    lib.import_module(above)
    above.import_module(below)  # after the library learned of it
    below.import_module(mblob.load_module(kernels))
    assert lib["call_by_name"]("deep") == 5
    assert lib["call_by_name"]("give_float") == 1.5


def test_the_first_import_that_has_it_counts(lib: mblob.Module) -> None:
    lib.import_module(functions(which=lambda: 1))
    lib.import_module(functions(which=lambda: 2))
    assert lib["call_by_name"]("which") == 1


def test_a_module_without_a_loader_hides_nothing(lib: mblob.Module) -> None:
    closed = functions()
    closed._node.find = _refuse  # type: ignore[method-assign]
    lib.import_module(closed)
    lib.import_module(functions(behind=lambda: 3))
    assert lib["call_by_name"]("behind") == 3


def _refuse(name: str) -> None:
    raise mblob.LoaderMissingError(
        f"{name}: no loader", type_key="made_here", available=(), hint=""
    )


def test_an_exception_passes_through_the_kernel(lib: mblob.Module) -> None:
    error = KeyError("mine")

    def raises() -> None:
        raise error

    lib.import_module(functions(raises=raises))
    with pytest.raises(KeyError) as caught:
        lib["call_by_name"]("raises")
    assert caught.value is error


def test_a_module_that_refers_to_the_library_does_not_keep_it(
    path: Path, mapped: Callable[[Path], bool]
) -> None:
    lib = mblob.load_module(path)
    made = functions(back=lambda m=lib: m["give_float"]())
    lib.import_module(made)
    assert lib["call_by_name"]("back") == 1.5
    gone = weakref.ref(made)
    del lib, made
    gc.collect()
    assert gone() is None
    assert not mapped(path)


def test_it_is_an_argument_and_comes_back_as_the_same_object(lib: mblob.Module) -> None:
    gc.collect()  # those of tests before this one
    before = len(node_registry.made)
    made = functions(f=lambda: 1)
    assert lib["call_it"](lambda m: m is made, made) == 1
    assert lib["call_it"](lambda m: m, made) is made
    assert lib["call_it"](lambda: made) is made
    assert len(node_registry.made) == before  # nothing in C holds one any more


def test_what_a_function_returned_lives_as_long_as_it_is_held(lib: mblob.Module) -> None:
    made = functions(value=lambda: 11)
    gone = weakref.ref(made)
    returned = lib["call_it"](lambda m: m, made)
    del made
    assert returned["value"]() == 11
    del returned
    gc.collect()
    assert gone() is None


# -- containers of TVM -----------------------------------------------------------------------------


def test_containers_are_python_objects() -> None:
    array, shape = (
        mblob.get_global_func("runtime.Array"),
        mblob.get_global_func("runtime.ShapeTuple"),
    )
    assert array(1, "two", None, 2.5, b"3") == [1, "two", None, 2.5, b"3"]
    assert array() == []
    assert shape(2, 3) == (2, 3)
    assert mblob.get_global_func("runtime.Map")("a", 1, "b", 2, "a", 3) == {"a": 3, "b": 2}
    with pytest.raises(
        ValueError, match=r"runtime\.Map: expected keys and values in turn, found 1"
    ):
        mblob.get_global_func("runtime.Map")("a")
