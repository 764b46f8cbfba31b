"""Functions that compiled code looks up in the registry: sorting, random numbers, relax.run.*."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob


def call(name: str, *args: Any) -> Any:
    return mblob.get_global_func(name)(*args)


def draws(seed: int, count: int) -> Any:
    """Numbers of std::mt19937, whose seeding numpy shares."""
    return np.random.RandomState(seed).randint(0, 2**32, count, dtype="uint32")


def test_random_numbers_are_those_of_tvm_for_a_seed() -> None:
    call("tvm.contrib.random.seed", 7)
    found = np.empty(6, "float32")
    call("tvm.contrib.random.uniform", -1.0, 3.0, found)
    first = draws(7, 6).astype("float32") / np.float32(2**32)
    np.testing.assert_array_equal(found, first * np.float32(4) + np.float32(-1))
    call("tvm.contrib.random.seed", 7)
    whole = np.empty(6, "int16")
    call("tvm.contrib.random.randint", -5, 40, whole)
    np.testing.assert_array_equal(whole, (draws(7, 6) % 45).astype("int64") - 5)


def test_normal_numbers_have_their_mean_and_deviation() -> None:
    call("tvm.contrib.random.seed", 1)
    found = np.empty(20000, "float32")
    call("tvm.contrib.random.normal", 2.0, 0.5, found)
    assert abs(found.mean() - 2) < 0.02
    assert abs(found.std() - 0.5) < 0.02
    with pytest.raises(mblob.KernelError, match="high must be bigger than low"):
        call("tvm.contrib.random.uniform", 1.0, 1.0, found)


# The first four numbers of `std::normal_distribution<float>(3, 4)` on `std::mt19937(seed)`,
# of libstdc++ 12.
NORMAL_OF_LIBSTDCXX = {
    0: (11.848825454711914, 7.65231466293335, 6.096014976501465, 4.935218334197998),
    1: (4.2255988121032715, 3.624262809753418, 1.3024550676345825, 0.7278409004211426),
    7: (0.2338864803314209, 7.2771735191345215, 4.511836051940918, 2.8052892684936523),
    4294967295: (3.5118775367736816, 6.3670148849487305, 3.5350868701934814, 8.875814437866211),
}
NORMAL_PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <random>
int main(int, char **argv) {
  std::mt19937 engine((unsigned)std::strtoul(argv[1], nullptr, 10));
  std::normal_distribution<float> numbers;
  for (long left = std::atol(argv[2]); left > 0; left--) {
    const float found = numbers(engine);
    std::fwrite(&found, sizeof(found), 1, stdout);
  }
}
"""


def normal_numbers(seed: int, count: int, mean: float = 0.0, deviation: float = 1.0) -> Any:
    found = np.empty(count, "float32")
    call("tvm.contrib.random.seed", seed)
    call("tvm.contrib.random.normal", mean, deviation, found)
    return found


@pytest.mark.parametrize("seed", NORMAL_OF_LIBSTDCXX)
def test_normal_numbers_are_those_of_libstdcxx_for_a_seed(seed: int) -> None:
    wanted = np.array(NORMAL_OF_LIBSTDCXX[seed], "float32")
    np.testing.assert_array_equal(normal_numbers(seed, 4, 3.0, 4.0), wanted)


def test_normal_numbers_are_finite_where_the_squares_sum_to_one() -> None:
    """The logarithm is then zero, and the square root is taken of -0.0."""
    for seed in (7, 22, 34):
        found = normal_numbers(seed, 1 << 20)
        assert np.isfinite(found).all(), seed
        assert (found == 0).sum() >= 2, seed


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1_000_000, marks=pytest.mark.slow),
        pytest.param(25_000_000, marks=pytest.mark.nightly),
    ],
)
def test_long_runs_of_normal_numbers_differ_from_libstdcxx_by_three_places_at_most(
    tmp_path: Path, count: int
) -> None:
    """Four seeds. These are the numbers of a logarithm that is rounded correctly. `logf` of libm rounds
    some the other way, which quotient, root and product enlarge; the test prints how many differ."""
    source, program = tmp_path / "normal.cpp", tmp_path / "normal"
    source.write_text(NORMAL_PROGRAM)
    subprocess.run(["g++", "-O2", "-ffp-contract=off", source, "-o", program], check=True)
    for seed in (7, 22, 34, 4294967295):
        out = subprocess.run([program, str(seed), str(count)], check=True, capture_output=True)
        wanted = np.frombuffer(out.stdout, "float32")
        found = normal_numbers(seed, count)
        np.testing.assert_array_max_ulp(found, wanted, 3)
        differ = int((found != wanted).sum())
        print(f"seed {seed}: {differ} of {count} numbers differ")
        assert differ < count / 200


DRAWS = [
    ("uniform", "float32", 6, -1.0, 3.0), ("randint", "int16", 6, -5, 40), ("randint", "uint8", 5, 0, 300),
    ("randint", "int32", 3, -7, 9),
    ("randint", "int8", 5, -200, 128), ("randint", "uint32", 5, 0, 1 << 40), ("randint", "int32", 5, 1, 1 << 40),
    ("normal", "float32", 7, 2.0, 0.5), ("random_fill", "float32", 5),
    ("random_fill", "float64", 3), ("random_fill", "int8", 4), ("random_fill", "float16", 4),
    ("uniform", "float32", 2000, 0.0, 1.0), ("normal", "float32", 2000, 0.0, 1.0),
]  # fmt: skip
OF_TVM = """
import sys, time
import numpy as np
import tvm

arrays = {"times": [int(time.time())]}
for i, (name, dtype, size, *bounds) in enumerate(eval(sys.argv[1])):
    out = tvm.runtime.tensor(np.zeros(size, dtype))
    tvm.get_global_func("tvm.contrib.random." + name)(*bounds, out)
    arrays[str(i)] = out.numpy()
arrays["times"].append(int(time.time()))
np.savez(sys.argv[2], **arrays)
"""


@pytest.mark.slow
def test_random_numbers_are_those_that_tvm_draws(
    package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """TVM 0.27 has no `seed`: its engine starts with the time in seconds."""
    package_of("tvm")
    out = tmp_path / "draws.npz"
    subprocess.run([sys.executable, "-c", OF_TVM, repr(DRAWS), out], check=True)
    with np.load(out) as arrays:
        theirs = dict(arrays)
    begin, end = theirs.pop("times")
    for start in range(begin - 1, end + 2):
        call("tvm.contrib.random.seed", start)
        ours = []
        for name, dtype, size, *bounds in DRAWS:
            ours.append(np.empty(size, dtype))
            call(f"tvm.contrib.random.{name}", *bounds, ours[-1])
        if np.array_equal(ours[0], theirs["0"]):
            break
    else:
        pytest.fail("no time in seconds gives TVM's first numbers")
    for i, found in enumerate(ours):
        if (
            DRAWS[i][0] == "normal"
        ):  # TVM's has the logarithm of libm, which rounds at times otherwise
            np.testing.assert_array_max_ulp(found, theirs[str(i)], 2)
        else:
            np.testing.assert_array_equal(found, theirs[str(i)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorting_is_stable_along_any_axis(dtype: str, axis: int) -> None:
    data = np.random.default_rng(3).integers(0, 4, (7, 5, 3)).astype(dtype)
    values, order = np.empty_like(data), np.empty(data.shape, "int64")
    call("tvm.contrib.sort.sort", data, values, axis, True)
    call("tvm.contrib.sort.argsort", data, order, axis, True)
    np.testing.assert_array_equal(values, np.sort(data, axis))
    np.testing.assert_array_equal(order, np.argsort(data, axis, kind="stable"))
    call("tvm.contrib.sort.argsort", data, order, axis, False)
    np.testing.assert_array_equal(order, np.argsort(-data, axis, kind="stable"))


def test_topk_and_nms_take_a_part_of_each_line() -> None:
    data = np.random.default_rng(4).random((4, 9), dtype="float32")
    values, indices = np.empty((4, 3), "float32"), np.empty((4, 3), "int32")
    call("tvm.contrib.sort.topk", data, values, indices, 3, 1, "both", False)
    np.testing.assert_array_equal(indices, np.argsort(-data, 1)[:, :3])
    np.testing.assert_array_equal(values, -np.sort(-data, 1)[:, :3])
    counts, order = np.array([9, 0, 4, 2], "int32"), np.empty((4, 9), "int32")
    call("tvm.contrib.sort.argsort_nms", data, counts, order, 1, False)
    for row, found, count in zip(data, order, counts):
        assert found[:count].tolist() == np.argsort(-row[:count]).tolist()
        assert found[count:].tolist() == list(range(count, 9))
    with pytest.raises(mblob.KernelError, match="the output is too small"):
        call("tvm.contrib.sort.topk", data, values, indices, 5, 1, "both", False)
    with pytest.raises(mblob.KernelError, match="Axis out of boundary"):
        call("tvm.contrib.sort.sort", data, data.copy(), 2, True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_nan_is_larger_than_all_numbers(dtype: str) -> None:
    """TVM's order of such data is not defined."""
    data = np.array([3, np.nan, np.inf, 1, np.nan, -np.inf, 1], dtype)
    values, order = np.empty_like(data), np.empty(data.shape, "int64")
    call("tvm.contrib.sort.sort", data, values, 0, True)
    np.testing.assert_array_equal(values, np.sort(data))
    call("tvm.contrib.sort.argsort", data, order, 0, True)
    np.testing.assert_array_equal(order, np.argsort(data, kind="stable"))
    call("tvm.contrib.sort.argsort", data, order, 0, False)
    assert order.tolist() == [1, 4, 2, 0, 3, 6, 5]
    found = call("relax.run.unique", data, 1, 1, 1, 1)
    for ours, theirs in zip(found, np.unique(data, True, True, True)):
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_lines_without_elements_and_counts_that_lie_are_bounded() -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        empty = np.zeros(shape, "float32")
        for axis in range(len(shape)):
            call("tvm.contrib.sort.sort", empty, empty.copy(), axis, True)
            call("tvm.contrib.sort.argsort", empty, np.zeros(shape, "int32"), axis, False)
            call("tvm.contrib.sort.topk", empty, empty.copy(), 0, axis, "values", True)
    data, order = np.array([[3, 1, 2], [6, 5, 4]], "float32"), np.empty((2, 3), "int32")
    call("tvm.contrib.sort.argsort_nms", data, np.array([-1, 99], "int32"), order, 1, True)
    assert order.tolist() == [[0, 1, 2], [2, 1, 0]]
    values = np.empty((2, 3), "float32")
    call("tvm.contrib.sort.topk", data, values, 99, 1, "values", True)
    assert values.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_is_numpys(axis: int | None) -> None:
    data = np.random.default_rng(6).integers(0, 3, (6, 2)).astype("int32")
    extra = () if axis is None else (axis,)
    found = call("relax.run.unique", data, 1, 1, 1, 1, *extra)
    expected = np.unique(data, True, True, True, axis=axis)
    for ours, theirs in zip(found, expected):
        np.testing.assert_array_equal(ours.numpy(), np.reshape(theirs, ours.shape))
    first = call("relax.run.unique", np.array([3, 1, 3, 2], "int32"), 0, 0, 0, 0)
    assert first.numpy().tolist() == [3, 1, 2]


def test_nonzero_and_assert_speak_as_numpy_does() -> None:
    data = np.array([[0, 2], [1, 0]], "float32")
    assert call("relax.run.nonzero", data).numpy().tolist() == np.array(np.nonzero(data)).tolist()
    assert call("relax.run.nonzero", np.array(True)).numpy().tolist() == [[0]]
    with pytest.raises(mblob.KernelError, match=r"^AssertionError: .*: Assertion Failed$"):
        call("relax.run.assert_op", False, "")
    for value in (np.array([1.5, -20.25, 3], "float32"), np.array([[1, -10], [300, 4]], "int32")):
        with pytest.raises(mblob.KernelError) as error:
            call("relax.run.assert_op", 0, "found {}", value)
        assert error.value.kind == "AssertionError"
        text = f"found {value}".replace("\n", "\\n")
        assert str(error.value).endswith(text)
