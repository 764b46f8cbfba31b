"""Functions of float16 that compiled kernels leave undefined: every number and every rounding, from
Python."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.undefined.test_undefined_runtime import compile_library

HALVES = np.arange(65536, dtype=np.uint16)
SIGNS = (np.float32(1), np.float32(-1))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    return mblob.load_module(compile_library(tmp_path_factory.mktemp("float16") / "kernels.so"))


def is_nan(halves: Any) -> Any:
    return (halves & 0x7FFF) > 0x7C00


def floats_to_try() -> Any:
    """Every half, all midpoints of neighbours and what lies next to those, and random bit
    patterns."""
    finite = HALVES[:0x7C00].view("e").astype("f8")
    middle = np.append((finite[1:] + finite[:-1]) / 2, [65520.0]).astype("f")
    near = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
    special = np.array(
        [0, 1, 0x7F7FFFFF, 0x7F800000, 0x33000000, 0x33000001, 0x32FFFFFF], np.uint32
    ).view("f")
    each = np.concatenate([finite.astype("f"), middle, *near, special])
    wild = np.random.default_rng(5).integers(0, 2**32, 2_000_000, dtype=np.uint32).view("f")
    return np.concatenate([sign * each for sign in SIGNS] + [wild])


def rounded(values: Any) -> Any:
    with np.errstate(all="ignore"):
        return values.astype("e").view("u2")


@pytest.mark.parametrize("name", ["half_to_float", "half_to_float_in_registers"])
def test_all_halves_become_the_float_that_they_are(module: mblob.Module, name: str) -> None:
    out = np.empty(65536, "f")
    module[name](HALVES, out)
    numbers = ~is_nan(HALVES)
    assert (out.view("u4")[numbers] == HALVES.view("e").astype("f").view("u4")[numbers]).all()
    # A NaN keeps sign and payload, and is quiet.
    bits, nans = out.view("u4")[~numbers], HALVES[~numbers].astype(np.uint32)
    assert (bits == ((nans & 0x8000) << 16 | 0x7FC00000 | (nans & 0x3FF) << 13)).all()


HAS_EXTENDED = platform.machine() == "x86_64"  # and helpers for that type
WIDER = ["half_to_double_in_registers", *["half_to_extended_in_registers"] * HAS_EXTENDED]


@pytest.mark.parametrize("name", WIDER)
def test_all_halves_become_the_wider_number_that_they_are(module: mblob.Module, name: str) -> None:
    out = np.empty(65536, "d")
    module[name](HALVES, out)
    numbers = ~is_nan(HALVES)
    assert (out.view("u8")[numbers] == HALVES.view("e").astype("d").view("u8")[numbers]).all()
    assert np.isnan(out[~numbers]).all()
    assert (np.signbit(out) == (HALVES >= 0x8000)).all()


def test_extended_numbers_round_once(module: mblob.Module) -> None:
    if not HAS_EXTENDED:
        assert not module.implements_function("sum_to_half_in_registers")
        return
    finite = HALVES[:0x7C00].view("e").astype("d")
    middle = np.append((finite[1:] + finite[:-1]) / 2, [65520.0])
    below, above = HALVES[:0x7C00], HALVES[1:0x7C01]
    for sign in (1.0, -1.0):
        bit = 0x8000 if sign < 0 else 0
        for nudge, expected in (
            (-1, below),
            (1, above),
            (0, np.where(below % 2 == 0, below, above)),
        ):
            out = np.empty(len(middle), np.uint16)
            # 2**-62 of it is less than a double can add to it, and what an extended number can.
            module["sum_to_half_in_registers"](sign * middle, sign * nudge * middle * 2.0**-62, out)
            assert (out == (expected | bit)).all()
    wide = np.array([0, -0.0, 1e308, -1e308, 5e-324, np.inf, -np.inf, 2.0**63, 40000, -3, np.nan])
    out = np.empty(len(wide), np.uint16)
    module["sum_to_half_in_registers"](wide, wide, out)
    with np.errstate(over="ignore"):
        assert (out[:-1] == rounded(wide + wide)[:-1]).all()
    assert is_nan(out[-1:]).all()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", ["float_to_half", "float_to_half_in_registers", "float_to_half_as_integer"]
)
def test_floats_round_to_the_nearest_half_ties_to_even(module: mblob.Module, name: str) -> None:
    values = floats_to_try()
    out = np.empty(len(values), np.uint16)
    module[name](values, out)
    numbers = ~np.isnan(values)
    assert (out[numbers] == rounded(values)[numbers]).all()
    bits, nans = values.view("u4")[~numbers], out[~numbers]
    assert len(nans) > 1000
    assert (nans == ((bits >> 16) & 0x8000 | 0x7E00 | (bits >> 13) & 0x1FF)).all()


@pytest.mark.slow
def test_doubles_round_once(module: mblob.Module) -> None:
    single = floats_to_try()
    with np.errstate(invalid="ignore"):
        double = single.astype("d")
    edges = [5e-324, -1e308, 2.0**-25, np.nextafter(2.0**-25, 1), np.inf, -np.inf]
    values = np.concatenate([double, np.nextafter(double, 0), edges])
    out = np.empty(len(values), np.uint16)
    module["double_to_half_in_registers"](values, out)
    numbers = ~np.isnan(values)
    assert (out[numbers] == rounded(values)[numbers]).all()
    assert is_nan(out[~numbers]).all()
