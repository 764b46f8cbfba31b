"""The largest difference between two tensors. They are compared in pieces, so that no tensor is
copied whole."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Union

from mblob.bytes.sink import advance
from mblob.dtype import DataType
from mblob.named_tuple import NamedTuple

STEP = 1 << 20  # bytes compared at a time
NUMPY_FROM = 16 << 20  # bytes of a tensor from which numpy, if it is installed, pays for its import

Number = Union[int, float]

# Type codes of `array` by DLPack's code and bits; float16 and bfloat16 have none.
_CODES = {
    (0, 8): "b", (0, 16): "h", (0, 32): "i", (0, 64): "q",
    (1, 1): "B", (1, 8): "B", (1, 16): "H", (1, 32): "I", (1, 64): "Q",
    (2, 32): "f", (2, 64): "d",
}  # fmt: skip
_HALF, _BFLOAT16 = (2, 16), (4, 16)


class LargestDifference(NamedTuple):
    """The largest difference between two tensors of one type and shape.

    Attributes:
        difference: absolute, of the elements; None if all that differ are NaN in one tensor alone.
        place: the index of the element in each dimension; the first of several.
        a, b: the elements.
        nan_in_one: elements that are NaN in one tensor and a number in the other. They count for
            nothing else; two NaN are the same.
    """

    difference: Number | None
    place: tuple[int, ...]
    a: Number | None
    b: Number | None
    nan_in_one: int

    def to_json(self) -> dict[str, Any]:
        return {
            "difference": _plain(self.difference),
            "index": list(self.place),
            "a": _plain(self.a),
            "b": _plain(self.b),
            "nan_in_one": self.nan_in_one,
        }

    def __str__(self) -> str:
        parts = []
        if self.difference is not None:
            parts.append(
                f"largest difference {_short(self.difference)} at {list(self.place)}: "
                f"{_short(self.a)} -> {_short(self.b)}"
            )
        if self.nan_in_one:
            parts.append(f"{self.nan_in_one} NaN in one of them alone")
        return "; ".join(parts)


def _plain(value: Number | None) -> Number | str | None:
    """A number as JSON has it, which knows neither infinity nor NaN: a text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(value: Number | None) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def largest_difference(
    dtype: DataType, shape: Sequence[int], a: memoryview, b: memoryview
) -> LargestDifference | None:
    """The largest difference between two tensors of one type and shape; None if nothing differs, or
    the elements are neither integers, nor float16, float32, float64 or bfloat16.

    Args:
        a, b: the elements, of the same number of bytes.
    """
    kind = (dtype.code, dtype.bits)
    if kind not in _CODES and kind not in (_HALF, _BFLOAT16):
        return None
    width = max(dtype.bits // 8, 1)
    compare = _compare
    if len(a) >= NUMPY_FROM and sys.byteorder == "little":
        compare = _numpy_compare() or _compare
    best: Number | None = None
    at, values, nans = 0, (None, None), 0
    for start in range(0, len(a), STEP):
        one, other = a[start : start + STEP], b[start : start + STEP]
        advance(len(one))
        if one == other:
            continue
        found, place, pair, lost = compare(kind, one, other)
        nans += lost
        if found is not None and (best is None or found > best):
            best, at, values = found, start // width + place, pair
    if best is None and not nans:
        return None
    extents = (*shape, dtype.lanes) if dtype.lanes > 1 else tuple(shape)
    index = () if best is None else _index(at, extents)
    return LargestDifference(best, index, *values, nans)


def _index(at: int, shape: Sequence[int]) -> tuple[int, ...]:
    found = []
    for extent in reversed(shape):
        at, place = divmod(at, extent)
        found.append(place)
    return tuple(reversed(found))


Compared = tuple[Any, int, tuple[Any, Any], int]


def _compare(kind: tuple[int, int], a: memoryview, b: memoryview) -> Compared:
    """The largest difference in two pieces, its place, the elements, and how many are NaN in one
    alone."""
    best, at, pair, nans = None, 0, (None, None), 0
    for i, (x, y) in enumerate(zip(_numbers(kind, a), _numbers(kind, b))):
        if x == y:
            continue
        if x != x or y != y:
            nans += (x != x) != (y != y)
            continue
        difference = abs(x - y)
        if best is None or difference > best:
            best, at, pair = difference, i, (x, y)
    return best, at, pair, nans


def _numbers(kind: tuple[int, int], data: memoryview) -> Sequence[Any]:
    if kind == _HALF:
        return struct.unpack(f"<{len(data) // 2}e", data)
    if kind == _BFLOAT16:  # the upper half of a float32
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return _array("f", wide)
    return _array(_CODES[kind], data)


def _array(code: str, data: memoryview | bytearray) -> array[Any]:
    found: array[Any] = array(code)
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _numpy_compare() -> Any:
    """`_compare` by numpy, some twenty times as fast; None where it is not installed."""
    try:
        np = import_module("numpy")
    except ImportError:
        return None

    def numbers(kind: tuple[int, int], data: memoryview) -> Any:
        if kind == _BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype("f8")
        if kind == _HALF:
            return np.frombuffer(data, "<f2").astype("f8")
        found = np.frombuffer(data, f"<{_CODES[kind]}" if kind[1] > 8 else _CODES[kind])
        return found.astype("f8") if kind[0] == 2 else found

    def compare(kind: tuple[int, int], a: memoryview, b: memoryview) -> Compared:
        x, y = numbers(kind, a), numbers(kind, b)
        if kind[0] in (0, 1):
            unsigned = f"u{x.itemsize}"
            difference = np.maximum(x, y).view(unsigned) - np.minimum(x, y).view(unsigned)
            nans = 0
        else:
            with np.errstate(all="ignore"):
                difference = np.where(x == y, 0.0, np.abs(x - y))
            nans = int(np.count_nonzero(np.isnan(x) != np.isnan(y)))
            difference = np.where(np.isnan(difference), -1.0, difference)
        at = int(difference.argmax())
        if difference[at] <= 0:
            return None, 0, (None, None), nans
        return difference[at].item(), at, (x[at].item(), y[at].item()), nans

    return compare
