"""TVM's tests of today (0.27): codegen, runtime. Its kernels are compiled and called by apache-tvm,
then loaded and called by mblob; results, bytes of arrays, and errors are the same.

`tests/peers/tvm_today.py` has the kernels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from tests.built_once import built_once
from mblob.compat import tvm_ffi
from tests.peers import kernel, tvm_today, tvm_today_more, tvm_today_te
from tests.peers.cases import Case, holding, names
from tests.peers.tvm_today_more import HOST

KERNELS: dict[str, list[tuple[str, tvm_today.Kernel]]] = defaultdict(list)
for _library, _kernels in tvm_today.libraries().items():
    for _name, _kernel in _kernels.items():
        KERNELS[_kernel.case].append((f"{_library}.{_name}", _kernel))

# -- runtime/test_runtime_nd_array -----------------------------------------------------------------

ND = "test_runtime_nd_array"
NUMBERS = np.arange(1024, dtype="int32")


def viewed(
    shape: list[int], start: int, *steps: tuple[int, int], two: bool = False
) -> Callable[[], None]:
    """A view of 1024 numbers, of views `steps` (elements, first element), has those from `start` on."""

    def check() -> None:
        given = NUMBERS.reshape(32, 32) if two else NUMBERS
        view = tvm.runtime.tensor(given)
        for count, first in steps:
            view = view._create_view([count], relative_byte_offset=4 * first)
        found = view._create_view(shape) if list(view.shape) != shape else view
        expected = NUMBERS[start : start + int(np.prod(shape))].reshape(shape)
        np.testing.assert_array_equal(found.numpy(), expected)

    return check


def refused(shape: list[int], offset: int, text: str, *steps: int) -> Callable[[], None]:
    def check() -> None:
        view = tvm.runtime.tensor(NUMBERS)
        for count in steps:
            view = view._create_view([count])
        with pytest.raises(ValueError, match=text):
            view._create_view(shape, relative_byte_offset=4 * offset)

    return check


def second_half_of_two() -> None:
    view = tvm.runtime.tensor(NUMBERS.reshape(32, 32))
    half = view._create_view([16, 32], relative_byte_offset=32 * 16 * 4)
    np.testing.assert_array_equal(half.numpy(), NUMBERS[512:].reshape(16, 32))


ARRAYS = [
    Case(f"{ND}.test_1d_full_view_of_1d_arr", viewed([1024], 0)),
    Case(f"{ND}.test_1d_view_of_first_half_of_1d_arr", viewed([512], 512, (512, 512))),
    Case(
        f"{ND}.test_view_larger_than_original_is_invalid",
        refused([2048], 0, "only contains 4096 bytes"),
    ),
    Case(
        f"{ND}.test_view_entirely_outside_bounds_of_original_is_invalid",
        refused([1024], 2048, "would occupy bytes 8192 <= i_byte < 12288"),
    ),
    Case(
        f"{ND}.test_view_partially_outside_bounds_of_original_is_invalid",
        refused([1024], 512, "would occupy bytes 2048 <= i_byte < 6144"),
    ),
    Case(f"{ND}.test_subview_first_half_of_first_half", viewed([256], 0, (512, 0), (256, 0))),
    Case(f"{ND}.test_subview_first_half_of_second_half", viewed([256], 512, (512, 512), (256, 0))),
    Case(f"{ND}.test_subview_second_half_of_first_half", viewed([256], 256, (512, 0), (256, 256))),
    Case(
        f"{ND}.test_subview_second_half_of_second_half", viewed([256], 768, (512, 512), (256, 256))
    ),
    Case(
        f"{ND}.test_subview_must_be_in_range_of_immediate_parent",
        refused([512], 512, "would occupy bytes 2048 <= i_byte < 4096", 512),
    ),
    Case(f"{ND}.test_2d_view_into_1d_arr", viewed([32, 32], 0)),
    Case(f"{ND}.test_2d_full_view_into_2d_arr", viewed([16, 64], 0, two=True)),
    Case(f"{ND}.test_2d_view_of_first_half_of_2d_arr", viewed([16, 32], 0, two=True)),
    Case(f"{ND}.test_2d_view_of_second_half_of_2d_arr", second_half_of_two),
]

# -- runtime/test_executable, test_runtime_measure, test_runtime_trace ------------------------------

SOURCE = """void add(const float *a, const float *b, float *c) { for (int i = 0; i < 10; i++) c[i] = a[i] + b[i]; }"""


def executable() -> Any:
    prototype = "void add(const float a[10], const float b[10], float c[10])"
    return tvm.runtime.Executable(mblob.csource_module(SOURCE, functions=[prototype]))


def check_add(function: Any) -> None:
    a, b, c = (tvm.runtime.tensor(np.full(10, v, "float32")) for v in (1, 2, 0))
    function(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.full(10, 3, "float32"))


def executable_init() -> None:
    made = executable()
    assert tvm.runtime.Executable(made.mod).mod is made.mod and made._jitted_mod is None


def executable_jit() -> None:
    made = executable()
    first, again, forced = made.jit(), made.jit(), made.jit(force_recompile=True)
    assert first is again and forced is not first
    check_add(first["add"])
    check_add(forced["add"])


def executable_export(workspace: bool) -> Callable[[], None]:
    def check() -> None:
        with tvm.contrib.utils.tempdir() as temp:
            Path(temp.relpath("w")).mkdir()
            more = {"workspace_dir": temp.relpath("w")} if workspace else {}
            executable().export_library(temp.relpath("lib.so"), **more)
            check_add(tvm.runtime.load_module(temp.relpath("lib.so"))["add"])

    return check


def min_repeat() -> None:
    calls: list[int] = []
    function = mblob.packed_function(lambda: calls.append(1))
    module = mblob.Module("timed", functions={"f": function})
    module.time_evaluator("f", tvm.cpu(), number=1, repeat=1)()
    assert len(calls) == 2
    module.time_evaluator("f", tvm.cpu(), number=1, repeat=1, min_repeat_ms=20)()
    assert len(calls) > 12


def benchmark_result() -> None:
    r = tvm.runtime.module.BenchmarkResult([1, 2, 2, 5])
    assert (r.mean, r.median, r.min, r.max, r.std) == (2.5, 2.0, 1, 5, 1.5)


RUNTIME = [
    Case("test_executable.test_executable_init", executable_init),
    Case("test_executable.test_executable_getitem", lambda: check_add(executable()["add"])),
    Case("test_executable.test_executable_jit_already_jitted", executable_jit),
    Case("test_executable.test_executable_jit_force_recompile", executable_jit),
    Case("test_executable.test_executable_export_library", executable_export(False)),
    Case("test_executable.test_executable_export_library_with_workspace", executable_export(True)),
    Case(
        "test_executable.test_executable_integration", lambda: check_add(executable().jit()["add"])
    ),
    Case("test_runtime_measure.test_min_repeat_ms", min_repeat),
    Case("test_runtime_measure.test_benchmark_result", benchmark_result),
]
COMPILED = [Case(name) for name in KERNELS]
CASES = [*COMPILED, *ARRAYS, *RUNTIME]


pytestmark = pytest.mark.own_process


@pytest.mark.parametrize(
    "case", holding([*ARRAYS, *RUNTIME]), ids=names(holding([*ARRAYS, *RUNTIME]))
)
def test_a_case_of_the_runtime_holds(case: Case) -> None:
    assert case.check is not None
    case.check()


@pytest.fixture(scope="module")
def compiled(package_of: Callable[[str], Path]) -> Path:
    """The folder with what TVM made."""
    release = package_of("tvm").parent.glob("apache_tvm-*.dist-info")

    def make(folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.peers.tvm_today", str(folder)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert done.returncode == 0, done.stderr

    texts = [Path(m.__file__ or "").read_text() for m in (tvm_today, tvm_today_more, tvm_today_te, kernel)]
    return built_once("peers-tvm", make, *texts, *sorted(p.name for p in release))


@pytest.fixture(scope="module")
def outcomes(compiled: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((compiled / "outcomes.json").read_text())
    return found


@pytest.fixture(scope="module")
def libraries(compiled: Path) -> dict[str, mblob.Module]:
    for name, function in HOST.items():
        mblob.register_func(name, function, override=True)
    return {name: mblob.load_module(compiled / f"{name}.so") for name in tvm_today.libraries()}


@pytest.mark.parametrize("suite", sorted({name.partition("[")[0] for name in KERNELS}))
def test_kernels_of_tvm_have_the_outcomes_of_tvm(
    suite: str, outcomes: dict[str, list[Any]], libraries: dict[str, mblob.Module]
) -> None:
    rows = [row for name, of in KERNELS.items() if name.partition("[")[0] == suite for row in of]
    for place, given in rows:
        library, _, function = place.partition(".")
        call = libraries[library][function]
        for arguments, expected in zip(given.calls, outcomes[place]):
            found = tvm_today.outcome(call, arguments, mblob.array, tvm_ffi.from_dlpack)
            assert set(expected.pop("classes", ())) <= set(found.pop("classes", ())), given
            assert found == expected, given
