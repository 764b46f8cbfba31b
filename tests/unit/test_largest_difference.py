"""The largest difference of two tensors: of every type that is compared, with and without numpy."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from mblob.dtype import DataType
from mblob.inspect import largest_difference as module
from mblob.inspect.largest_difference import LargestDifference, largest_difference

TYPES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bool",
    "bfloat16",
]  # fmt: skip


@pytest.fixture(params=["numpy", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways that elements are compared."""
    monkeypatch.setattr(module, "NUMPY_FROM", 0)
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "numpy", None)
    return str(request.param)


def raw(values: Any, dtype: str) -> memoryview:
    if dtype == "bfloat16":
        return memoryview((np.asarray(values, "f4").view("u4") >> 16).astype("u2").tobytes())
    return memoryview(np.asarray(values, "u1" if dtype == "bool" else dtype).tobytes())


def compare(dtype: str, a: Any, b: Any, shape: tuple[int, ...]) -> LargestDifference | None:
    return largest_difference(DataType.parse(dtype), shape, raw(a, dtype), raw(b, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.usefixtures("way")
def test_it_is_found_with_its_index_and_both_elements(dtype: str) -> None:
    a, b = [0, 1, 0, 1, 0, 0], [0, 1, 1, 1, 0, 1]
    found = compare(dtype, a, b, (2, 3))
    assert found == LargestDifference(1, (0, 2), 0, 1, 0)
    assert str(found) == "largest difference 1 at [0, 2]: 0 -> 1"
    assert compare(dtype, a, a, (2, 3)) is None


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("int64", -(1 << 63), (1 << 63) - 1), ("uint64", 0, (1 << 64) - 1)],
)
@pytest.mark.usefixtures("way")
def test_integers_do_not_wrap(dtype: str, low: int, high: int) -> None:
    one, other = np.array([low, 3], dtype), np.array([high, 4], dtype)
    assert compare(dtype, one, other, (2,)) == LargestDifference(high - low, (0,), low, high, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.usefixtures("way")
def test_nan_in_one_is_counted_and_hides_nothing(dtype: str) -> None:
    nan = math.nan
    found = compare(dtype, [nan, nan, 1, 2, 3], [nan, 5, nan, 2.5, 1], (5,))
    assert found == LargestDifference(2, (4,), 3, 1, 2)
    assert str(found).endswith("; 2 NaN in one of them alone")
    only = compare(dtype, [nan, 1], [1, 1], (2,))
    assert only == LargestDifference(None, (), None, None, 1)


@pytest.mark.usefixtures("way")
def test_infinity_is_a_difference_unless_both_have_it() -> None:
    found = compare("float32", [math.inf, 1, math.inf], [math.inf, math.inf, -math.inf], (3,))
    assert found is not None
    assert (found.difference, found.index) == (math.inf, (1,))
    assert found.to_json()["difference"] == "inf"


@pytest.mark.usefixtures("way")
def test_large_tensors_are_compared_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 64)
    a = np.zeros((10, 10), "f4")
    b = a.copy()
    b[3, 1], b[7, 9], b[9, 9] = 1, -8, 8
    assert compare("float32", a, b, (10, 10)) == LargestDifference(8, (7, 9), 0, -8, 0)


def test_types_that_are_no_plain_numbers_have_none() -> None:
    kind = DataType.parse("float8_e4m3fn")
    assert largest_difference(kind, (2,), memoryview(b"ab"), memoryview(b"ac")) is None


def test_lanes_are_a_last_dimension() -> None:
    a, b = memoryview(bytes(8)), memoryview(bytes(7) + b"\x09")
    found = largest_difference(DataType.parse("int8x4"), (2,), a, b)
    assert found == LargestDifference(9, (1, 3), 0, 9, 0)
