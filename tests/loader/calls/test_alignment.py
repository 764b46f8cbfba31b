"""Arrays less aligned than the kernel assumes go through an aligned copy and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.format.functions_table import Row


@pytest.fixture(scope="module")
def lib(kernels: Path) -> mblob.Module:
    return mblob.load_module(kernels)


def aligned(n: int, dtype: str = "f", offset: int = 0) -> np.ndarray:
    """n elements whose first one lies `offset` bytes behind a multiple of 128."""
    size = n * np.dtype(dtype).itemsize
    raw = np.zeros(size + 256, "u1")
    start = -raw.ctypes.data % 128 + offset
    return raw[start : start + size].view(dtype)


def test_a_function_tells_the_alignment_it_needs(lib: mblob.Module) -> None:
    assert lib["add_one"].alignment == 64


def test_an_aligned_array_is_passed_as_it_is(lib: mblob.Module) -> None:
    a = aligned(8)
    assert lib["address_of"](a) == a.ctypes.data


@pytest.mark.parametrize("offset", [4, 8, 16, 32, 60])
def test_a_misaligned_array_is_copied_and_written_back(lib: mblob.Module, offset: int) -> None:
    a = aligned(8, offset=offset)
    a[:] = np.arange(8)
    lib["add_one"](a)
    np.testing.assert_array_equal(a, np.arange(8) + 1)


def test_a_tail_of_an_array_is_written_back_and_nothing_else(lib: mblob.Module) -> None:
    a = aligned(9)
    lib["add_one"](a[1:])
    assert a.tolist() == [0, *[1] * 8]


def test_the_same_array_twice_stays_one_array(lib: mblob.Module) -> None:
    a = aligned(8, offset=4)
    assert lib["same_memory"](a, a) == 1
    lib["vadd"](a + 0, a, a)


def test_an_overlapping_copy_does_not_undo_what_the_other_argument_wrote(lib: mblob.Module) -> None:
    a = aligned(9)
    a[:] = 5
    lib["shift_add"](a[1:], a[:8])  # reads the copy of a[1:], writes a[:8] in place
    assert a.tolist() == [6] * 8 + [5]
    a[:] = 5
    lib["shift_add"](a[:8], a[1:])  # the other way round
    assert a.tolist() == [5] + [6] * 8


def test_two_overlapping_copies_both_come_back(lib: mblob.Module) -> None:
    a = aligned(10, offset=4)
    a[:] = 1
    lib["shift_add"](a[1:9], a[2:10])
    assert a.tolist() == [1, 1] + [2] * 8


def test_an_empty_misaligned_array_is_fine(lib: mblob.Module) -> None:
    lib["add_one"](aligned(4)[4:])


def test_the_copy_comes_back_from_a_kernel_that_failed(lib: mblob.Module) -> None:
    a = aligned(8, offset=4)
    b = a[::-1].copy()
    with pytest.raises(mblob.KernelError):
        lib["vadd"](a, b, 1)
    assert not a.any()


def test_a_library_that_recorded_element_alignment_gets_the_array_itself(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    rows = [
        Row("address_of", "address_of", "packed", 0, "?"),
        Row("add_one", "add_one", "packed", 64, "const float *"),
    ]
    lib = mblob.load_module(build(tmp_path / "a.so", table=rows))
    assert lib["address_of"].alignment == 0
    a = aligned(8, offset=4)
    assert lib["address_of"](a) == a.ctypes.data
    odd = aligned(8, offset=1)  # less than even a float has
    assert lib["address_of"](odd) != odd.ctypes.data
    lib["add_one"](a)  # recorded as an input: what the kernel wrote to the copy stays there
    assert not a.any()


# -- read-only arrays of functions whose types nobody recorded -------------------------------------


def read_only(n: int, offset: int) -> np.ndarray:
    array = aligned(n, offset=offset)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("offset", [0, 4])
def test_a_read_only_output_is_not_written(lib: mblob.Module, offset: int) -> None:
    a = read_only(8, offset)
    with pytest.raises(
        ValueError, match="add_one: argument 0: the array is read-only and the function wrote to it"
    ):
        lib["add_one"](a)
    assert not a.any()


def test_a_constant_of_python_is_not_written(lib: mblob.Module) -> None:
    constant = bytes(64)
    with pytest.raises(ValueError, match="read-only"):
        lib["add_one"](np.frombuffer(constant, "f"))
    assert constant == bytes(64)


def test_a_read_only_input_is_fine(lib: mblob.Module) -> None:
    assert lib["describe"](read_only(8, 0)) == lib["describe"](aligned(8))
    a = read_only(8, 0)
    assert lib["describe"](a, aligned(8)) == lib["describe"](aligned(8), aligned(8))
