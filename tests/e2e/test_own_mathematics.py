"""The mathematics that libmblob has itself, since it links no libm: beside libm, numpy and ml_dtypes,
at the edges too."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob.dtype import DataType
from mblob.inspect import largest_difference
from tests.built_once import ROOT, built_once

PROGRAM = r"""
#include "base/float16.c"
#include "exec/contrib/random.c"
#define LOOP(name, from, to, what) \
  __attribute__((visibility("default"))) void name(const from *x, to *y, long n) { \
    for (long i = 0; i < n; i++) y[i] = what; \
  }
LOOP(logs, float, float, (float)logarithm((double)x[i]))
LOOP(roots, float, float, (float)square_root((double)x[i]))
LOOP(halves_of_floats, float, uint16_t, from_float(x[i]))
LOOP(halves_of_doubles, double, uint16_t, from_double(x[i]))
LOOP(floats_of_halves, uint16_t, float, to_float(x[i]))
"""


@pytest.fixture(scope="module")
def own() -> ctypes.CDLL:
    def make(folder: Path) -> None:
        (folder / "own.c").write_text(PROGRAM)
        command = ["cc", "-O2", "-w", "-shared", "-fPIC", "-fvisibility=hidden"]
        include = [
            f"-I{ROOT / 'csrc/src'}",
            f"-I{ROOT / 'csrc/include'}",
            f"-I{ROOT / 'csrc/include/mblob/compat'}",
        ]
        archive = Path(mblob.get_library_dir()) / "libmblob.a"  # what else random.c calls
        output = ["-o", folder / "own.so"]
        subprocess.run([*command, *include, folder / "own.c", archive, *output], check=True)

    folder = built_once("own-mathematics", make, PROGRAM)
    return ctypes.CDLL(str(folder / "own.so"))


def through(function: ctypes._CFuncPtr, x: np.ndarray, result: str) -> np.ndarray:  # type: ignore[type-arg, name-defined]
    x = np.ascontiguousarray(x)
    y = np.empty(x.shape, result)
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(x.size))
    return y


def floats(first: int, last: int, step: int) -> np.ndarray:  # type: ignore[type-arg]
    """Floats by their bits."""
    return np.arange(first, last + 1, step, dtype="uint32").view("float32")


NORMAL = (0x00800000, 0x7F7FFFFF)  # bits of the smallest and the largest normal float
ONE = 0x3F800000


def test_the_logarithm_is_that_of_libm_to_the_last_place_of_a_float(own: ctypes.CDLL) -> None:
    # The draw of `normal` takes it of sums of two squares: from 2^-62 to 1.
    x = np.concatenate(
        [
            floats(*NORMAL, 1009),
            floats(ONE - 100_000, ONE + 100_000, 1),
            floats(*NORMAL, 0x7F7FFFFF - 0x00800000),
            np.float32([0.5, np.sqrt(0.5), np.sqrt(2), 2, 2.0**-62]),
        ]
    )
    np.testing.assert_array_equal(
        through(own.logs, x, "float32"), np.log(x.astype("float64")).astype("float32")
    )


def test_the_square_root_is_that_of_libm_to_the_last_place_of_a_float(own: ctypes.CDLL) -> None:
    x = np.concatenate(
        [
            floats(*NORMAL, 1009),
            floats(ONE - 100_000, ONE + 100_000, 1),
            np.float32([0.0, -0.0, 2.0**-126, 3.4e38]),
        ]
    )
    found, wanted = through(own.roots, x, "float32"), np.sqrt(x)
    np.testing.assert_array_equal(found.view("uint32"), wanted.view("uint32"))


def test_every_half_becomes_the_float_of_numpy(own: ctypes.CDLL) -> None:
    halves = np.arange(1 << 16, dtype="uint16")
    found = through(own.floats_of_halves, halves, "float32")
    with np.errstate(invalid="ignore"):
        wanted = halves.view("float16").astype("float32")
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found.view("uint32")[numbers], wanted.view("uint32")[numbers])
    assert np.isnan(found[~numbers]).all()


def around_halves(kind: str) -> np.ndarray:  # type: ignore[type-arg]
    """All finite halves, what lies between two of them, and the neighbours of both."""
    halves = np.arange(0x7C00, dtype="uint16").view("float16").astype(kind)
    between = (halves[1:] + halves[:-1]) / 2
    x = np.concatenate([halves, between, np.array([65504, 65519.99, 65520, 1e5, np.inf, 0], kind)])
    x = np.concatenate(
        [x, np.nextafter(x, np.array(np.inf, kind)), np.nextafter(x, np.array(0, kind))]
    )
    return np.concatenate([x, -x])


@pytest.mark.parametrize(
    ("kind", "function"), [("float32", "halves_of_floats"), ("float64", "halves_of_doubles")]
)
def test_numbers_are_rounded_to_halves_as_numpy_rounds_them(
    own: ctypes.CDLL, kind: str, function: str
) -> None:
    x = around_halves(kind)
    tiny = np.array([2.0**-24, 2.0**-25, 2.0**-26, np.finfo(kind).smallest_subnormal], kind)
    x = np.concatenate([x, tiny, -tiny])
    with np.errstate(over="ignore", under="ignore"):
        wanted = x.astype("float16").view("uint16")
    np.testing.assert_array_equal(through(getattr(own, function), x, "uint16"), wanted)
    assert np.isnan(
        through(getattr(own, function), np.array([np.nan], kind), "uint16").view("float16")
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_differences_of_small_floats_are_those_of_numpy_and_ml_dtypes(kind: str) -> None:
    bits = np.arange(1 << 16, dtype="uint16")
    with np.errstate(invalid="ignore"):
        values = bits.view(getattr(ml_dtypes, kind, kind)).astype("float64")
    finite = np.isfinite(values)
    bits, values = bits[finite], values[finite]
    other = np.roll(bits, 1)
    found = largest_difference.largest_difference(
        DataType.parse(kind), bits.shape, memoryview(bits).cast("B"), memoryview(other).cast("B")
    )
    wanted = np.abs(values - np.roll(values, 1))
    assert found.difference == wanted.max()
    assert found.place == (int(wanted.argmax()),)
    assert (found.a, found.b) == (values[wanted.argmax()], np.roll(values, 1)[wanted.argmax()])
    # and each alone, beside zero
    for i in range(0, len(bits), 97):
        one = largest_difference.largest_difference(
            DataType.parse(kind), (1,), memoryview(bits[i : i + 1]).cast("B"), memoryview(b"\0\0")
        )
        assert (one.difference if one else 0) == abs(values[i])
