"""A module keeps the functions that it was asked for, and nothing keeps the library for that."""

from __future__ import annotations

import copy
import gc
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import mblob

SOURCE = "void twice(float *x) { x[0] *= 2; }\nvoid payload(float *x) { x[0] = 7; }\n"
PROTOTYPES = ["void twice(float x[1])", "void payload(float x[1])"]
THRICE = "void thrice(float *x) { x[0] *= 3; }\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("kept")
    for name, source, prototypes in (
        ("lib.so", SOURCE, PROTOTYPES),
        ("thrice.so", THRICE, ["void thrice(float x[1])"]),
        ("thirty.so", THRICE.replace("*= 3", "= 30"), ["void thrice(float x[1])"]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mblob.HiddenNameWarning)  # `payload`
            mblob.csource_module(source, functions=prototypes).export_library(made / name)
    return made


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """Copies for each test: unpickling keeps the libraries that it opened."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def one() -> np.ndarray:
    return np.ones(1, "float32")


def test_an_attribute_is_the_same_function_each_time(folder: Path) -> None:
    lib = mblob.load_module(folder / "lib.so")
    assert lib.twice is lib.twice and lib["twice"] is lib.twice
    x = one()
    lib.twice(x)
    assert x == 2


def test_kept_functions_do_not_keep_the_library(
    folder: Path, mapped: Callable[[Path], bool]
) -> None:
    lib, other = (mblob.load_module(folder / name) for name in ("lib.so", "thrice.so"))
    lib.import_module(other)
    for function in (lib.twice, lib.thrice, lib["payload"], other.thrice):
        function(one())
    del function, other
    assert mapped(folder / "lib.so") and mapped(folder / "thrice.so")
    del lib
    assert not mapped(folder / "lib.so") and not mapped(folder / "thrice.so")


def test_a_function_that_is_left_knows_its_module(
    folder: Path, mapped: Callable[[Path], bool]
) -> None:
    """Its prototype in errors and `repr`, the imports that its kernel may call, and its pickle."""
    lib = mblob.load_module(folder / "lib.so")
    lib.import_module(mblob.load_module(folder / "thrice.so"))
    twice, thrice = lib.twice, lib.thrice
    del lib
    assert mapped(folder / "thrice.so")
    x = one()
    twice(x), thrice(x)
    assert x == 6 and "twice(float x[1])" in repr(twice)
    with pytest.raises(ValueError, match=r"\(x\)"):
        twice(np.ones(2, "float32"))
    del twice, thrice
    assert not mapped(folder / "lib.so") and not mapped(folder / "thrice.so")
    again = pickle.loads(pickle.dumps(mblob.load_module(folder / "thrice.so").thrice))
    again(x)
    assert x == 18


def test_a_function_of_a_name_that_modules_have_stays_behind_brackets(folder: Path) -> None:
    lib = mblob.load_module(folder / "lib.so")
    x = one()
    lib["payload"](x)
    assert x == 7 and isinstance(lib.payload, memoryview)


def test_what_is_imported_later_is_found_first_where_it_stands_first() -> None:
    """Functions of imports are kept, too: another import empties what every module keeps."""

    def made(key: str, **functions: Callable[[], str]) -> mblob.Module:
        return mblob.Module(key, functions=functions)

    top, first = made("top"), made("first")
    top.import_module(first)
    top.import_module(made("second", f=lambda: "second"))
    assert top.f() == "second"
    first.import_module(made("third", f=lambda: "third"))
    assert top.f() == "third" and top["f"]() == "third"


def test_libraries_imported_later_are_found_first_where_they_stand_first(folder: Path) -> None:
    plain, thrice = (mblob.load_module(folder / name) for name in ("lib.so", "thrice.so"))
    top = mblob.Module("top", functions={})
    top.import_module(plain)
    top.import_module(thrice)
    x = one()
    top.thrice(x)
    assert x == 3 and top.thrice is top["thrice"]
    plain.import_module(mblob.load_module(folder / "thirty.so"))
    top.thrice(x)
    assert x == 30


def test_kept_functions_change_nothing_that_a_program_sees(folder: Path) -> None:
    lib, fresh = (mblob.load_module(folder / "lib.so") for _ in range(2))
    lib.twice, lib["payload"], lib["twice"]
    assert dir(lib) == dir(fresh)
    assert pickle.dumps(lib) == pickle.dumps(fresh)
    top = mblob.csource_module("int nothing;")
    top.import_module(lib)
    before = pickle.dumps(top)
    top.twice(one())
    assert pickle.dumps(top) == before
    assert copy.copy(lib).twice is not None
    for name in ("twice", "other"):
        with pytest.raises(TypeError):
            setattr(lib, name, print)
        with pytest.raises(TypeError):
            delattr(lib, name)
    assert lib.twice is lib.twice
