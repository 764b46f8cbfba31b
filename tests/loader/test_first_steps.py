"""First tries of people with a library that do not work: each error says what to do."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

DENSE = "void dense(const float x[4], const float w[3][4], const float b[3], float y[3])"
SOURCE = """
void dense(const float *x, const float w[3][4], const float *b, float *y) {
  for (int r = 0; r < 3; ++r) {
    y[r] = b[r];
    for (int c = 0; c < 4; ++c) y[r] += w[r][c] * x[c];
  }
}
"""
W = np.arange(12, dtype="float32").reshape(3, 4)
B = np.ones(3, "float32")
X = np.ones(4, "float32")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    (folder / "dense.c").write_text(SOURCE)
    host = mblob.csource_module(folder / "dense.c", functions=[DENSE])
    host.import_module(mblob.safetensors_module({"dense.w": W, "dense.b": B}))
    host.import_module(mblob.blob_module("config", b"{}"))
    host.export_library(folder / "dense.so")
    return folder / "dense.so"


@pytest.fixture
def lib(path: Path) -> Iterator[Any]:
    yield mblob.load_module(path)


# -- a library is not changed in place -------------------------------------------------------------

CHANGES: dict[str, Callable[[Any], Any]] = {
    "d[k] = v": lambda d: operator.setitem(d, next(iter(d)), None),
    "del d[k]": lambda d: operator.delitem(d, next(iter(d))),
    "d |= {}": lambda d: operator.ior(d, {}),
    "update": lambda d: d.update({next(iter(d)): None}),
    "update(k=v)": lambda d: d.update(k=None),
    "setdefault": lambda d: d.setdefault("new", None),
    "pop": lambda d: d.pop(next(iter(d))),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mapping", ["tensors", "payloads", "functions"])
def test_what_a_library_has_by_name_cannot_be_assigned(lib: Any, mapping: str, change: str) -> None:
    found = getattr(lib, mapping)
    before = dict(found)
    with pytest.raises(mblob.MblobError, match=f"its {mapping} cannot be changed") as caught:
        CHANGES[change](found)
    assert isinstance(caught.value, TypeError)
    assert dict(found) == before


def test_the_error_of_an_assignment_says_how_a_new_library_is_written(
    lib: Any, path: Path, tmp_path: Path
) -> None:
    with pytest.raises(mblob.MblobError) as caught:
        lib.tensors["dense.b"] = B
    assert f"mblob.swap({str(path)!r}, weights={{'dense.b': NEW}}, output='new.so')" in str(
        caught.value
    )
    with pytest.raises(mblob.MblobError) as caught:
        lib.payloads["config"] = b"1"
    assert f"mblob.swap({str(path)!r}, {{'config': NEW}}, output='new.so')" in str(caught.value)
    with pytest.raises(mblob.MblobError, match=r"pack it again.*did you mean 'dense.b'\?"):
        lib.tensors["dense.bb"] = B
    with pytest.raises(mblob.MblobError, match="pack it again"):
        lib.functions["dense"] = print
    # as the texts say
    new = tmp_path / "new.so"
    mblob.swap(path, {"config": b"[]"}, weights={"dense.b": B * 5}, output=new)
    swapped = mblob.load_module(new)
    assert bytes(swapped.payloads["config"]) == b"[]"
    np.testing.assert_array_equal(swapped.tensors["dense.b"], B * 5)


def test_a_copy_of_the_names_is_a_dictionary_of_the_caller(lib: Any) -> None:
    for made in (dict(lib.functions), lib.functions.copy(), copy.copy(lib.functions),
                 pickle.loads(pickle.dumps({n: 1 for n in lib.functions})), lib.functions | {}):  # fmt: skip
        made["more"] = None
        assert list(made) == ["dense", "more"]
    assert list(lib.functions) == ["dense"]


@pytest.mark.parametrize("key", [0, slice(None), slice(1)])
def test_assigning_to_a_tensor_of_a_library_leads_to_swap(lib: Any, key: Any) -> None:
    with pytest.raises(mblob.MblobError, match=r"is read-only;.*mblob\.swap\(path, weights=") as e:
        lib.tensors["dense.b"][key] = B
    assert isinstance(e.value, ValueError)
    with pytest.raises(ValueError, match=r"mblob\.swap\(path, weights="):
        lib.tensors["dense.b"].copyfrom(B)
    mine = mblob.array(B)
    mine[:] = B * 2
    np.testing.assert_array_equal(mine, B * 2)


# -- a Tensor is no array of numpy -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["T", "sum", "flags", "astype", "whatever"])
def test_what_only_arrays_of_numpy_have_is_answered_with_numpy(lib: Any, name: str) -> None:
    tensor = lib.tensors["dense.w"]
    with pytest.raises(mblob.MblobError, match=f"no attribute '{name}'; use t.numpy()") as caught:
        getattr(tensor, name)
    assert isinstance(caught.value, AttributeError)
    assert not hasattr(tensor, name)
    assert not hasattr(tensor, "__array_interface__")


def test_a_misspelt_attribute_of_a_tensor_gets_a_suggestion(lib: Any) -> None:
    with pytest.raises(AttributeError, match=r"did you mean 'readonly'\?"):
        _ = lib.tensors["dense.w"].read_only


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "+": lambda t: t + 1,
    "1 -": lambda t: 1 - t,
    "*": lambda t: t * t,
    "@": lambda t: t @ [1],
    "unary -": lambda t: -t,
    "abs()": abs,
    "<": lambda t: t < 1,
    "[...]": lambda t: t[0],
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_arithmetic_of_a_tensor_is_answered_with_numpy(lib: Any, operation: str) -> None:
    with pytest.raises(mblob.MblobError, match=r"a Tensor takes no .*; use t\.numpy\(\)") as caught:
        OPERATIONS[operation](lib.tensors["dense.w"])
    assert isinstance(caught.value, TypeError)


def test_arithmetic_with_an_array_of_numpy_is_the_array_s(lib: Any) -> None:
    w = lib.tensors["dense.w"]
    np.testing.assert_array_equal(w @ X, W @ X)
    np.testing.assert_array_equal(X + lib.tensors["dense.w"], X + W)
    np.testing.assert_array_equal(w * np.float32(2), W * 2)
    np.testing.assert_array_equal(np.float32(2) * w, W * 2)
    np.testing.assert_array_equal(np.float64(2) - w, 2 - W)
    np.testing.assert_array_equal(w < X, W < X)
    np.testing.assert_array_equal(np.array([w, w]), np.array([W, W]))


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (
            np.arange(6, dtype="float32").reshape(2, 3) / 10,
            "float32[2, 3] on cpu:0: [[0, 0.1, 0.2], [0.3, 0.4, 0.5]]",
        ),
        (np.float64(7), "float64[] on cpu:0: 7"),
        (
            np.arange(1000, dtype="int64").reshape(10, 100),
            "int64[10, 100] on cpu:0: [[0, 1, 2, 3, 4, 5, ...], ...]",
        ),
        (np.arange(40, dtype="uint8").reshape(20, 2), "uint8[20, 2] on cpu:0: [[0, 1], ...]"),
        (np.array([True, False]), "bool[2] on cpu:0: [True, False]"),
        (np.array([0.5], "float16"), "float16[1] on cpu:0: [0.5]"),
        (np.array([np.nan, np.inf], "float32"), "float32[2] on cpu:0: [nan, inf]"),
        (np.zeros((2, 0), "float32"), "float32[2, 0] on cpu:0"),
        (np.ones(2, "complex64"), "complex64[2] on cpu:0"),
        (np.ones((1,) * 9, "int8"), "int8[1, 1, 1, 1, 1, 1, 1, 1, 1] on cpu:0"),
    ],
)
def test_a_tensor_shows_its_first_values(array: Any, shown: str) -> None:
    assert repr(mblob.array(array)) == f"<mblob.Tensor {shown}>"


# -- arguments of a call ---------------------------------------------------------------------------


def test_a_weight_in_the_place_of_an_output_is_said_to_be_one(lib: Any) -> None:
    with pytest.raises(ValueError) as caught:
        lib.dense(X, lib.tensors["dense.w"], np.zeros(3, "float32"), lib.tensors["dense.b"])
    assert str(caught.value) == (
        "dense: argument 3 (y): the array is read-only, as tensors of a library are, and the function writes to"
        " float y[3]; pass a writable one, or check the order of the arguments"
    )


def test_a_missing_argument_is_told_by_names_and_shapes(lib: Any) -> None:
    with pytest.raises(TypeError) as caught:
        lib.dense(X, W, B)
    assert str(caught.value) == (
        "dense: expected 4 arguments (const float x[4], const float w[3][4], const float b[3], float y[3]), found 3"
    )


@pytest.mark.parametrize("how", ["call", "bind"])
def test_a_wrong_size_is_told_by_shapes(lib: Any, how: str) -> None:
    call = lib["dense"] if how == "call" else lib["dense"].bind
    with pytest.raises(ValueError) as caught:
        call(np.ones((5, 1), "float32"), W, B, np.zeros(3, "float32"))
    assert str(caught.value) == ("dense: argument 0 (x): expected shape (4,), found (5, 1)")


def test_what_to_pass_is_told_by_the_name_of_the_parameter(lib: Any) -> None:
    y = np.zeros(3, "float32")
    with pytest.raises(ValueError, match=r"pass numpy\.ascontiguousarray\(w\), and"):
        lib.dense(X, np.ones((4, 3), "float32").T, B, y)
    with pytest.raises(TypeError, match=r'make it an array with numpy\.asarray\(x, "float32"\)'):
        lib.dense([1, 2, 3, 4], W, B, y)
