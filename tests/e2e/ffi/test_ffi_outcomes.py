"""Kernels that TVM 0.27 compiles for C and for LLVM, called here and there: the same results,
memory, and errors."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import ROOT, run, run_warm

pytestmark = pytest.mark.own_process

CALLED = {"c": 180, "llvm": 180, "more": 24}


@pytest.fixture(scope="module")
def folder(package_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What tests/e2e/ffi/ffi_kernels.py writes."""
    for package in ("tvm", "tvm_ffi"):
        package_of(package)
    folder = tmp_path_factory.mktemp("kernels")
    assert (
        run(sys.executable, "-m", "tests.e2e.ffi.ffi_kernels", folder, cwd=ROOT, timeout=300).stdout
        == "fine\n"
    )
    return folder


def outcomes(host: str, library: Path) -> list[tuple[str, list[str]]]:
    imported = "tvm" if host == "tvm" else "numpy"
    done = run_warm(imported, "tests.e2e.ffi.ffi_outcomes", host, library, timeout=120)
    return [(name, found) for name, found in json.loads(done.stdout)]


@pytest.mark.parametrize("library", CALLED)
def test_calls_come_to_the_same_here_and_in_tvm(folder: Path, library: str) -> None:
    here, there = (outcomes(host, folder / f"{library}.so") for host in ("mblob", "tvm"))
    assert len(here) == len(there)
    called = 0
    for (name, found), (other, expected) in zip(here, there):
        assert name == other
        called += expected != ["absent"]
        if expected[0] == "NoneType None" and "in_tasks" in name and library == "llvm":
            continue  # tvm_ffi forgets the errors of tasks; see below
        assert found == expected, name
    assert called > CALLED[library]


@pytest.mark.slow
def test_errors_of_tasks_are_those_of_the_same_loop_without_threads(folder: Path) -> None:
    """The C target has no threads. LLVM's tasks fail each with an error of its own: that of the
    first task counts."""
    found = {}
    for library in ("c", "llvm"):
        errors = [
            words[0]
            for name, words in outcomes("mblob", folder / f"{library}.so")
            if "in_tasks" in name
        ]
        found[library] = errors
    assert found["c"] == ["ValueError | task 5", "NoneType None", "IndexError | a task refuses"]
    assert found["llvm"] == found["c"]


def aligned(*shape: int, skip: int = 0) -> np.ndarray[Any, Any]:
    """Zeros behind `skip` bytes of memory that is aligned to 64."""
    room = np.zeros(4 * math.prod(shape) + 128, "uint8")
    start = -room.ctypes.data % 64 + skip
    return room[start : start + 4 * math.prod(shape)].view("float32").reshape(shape)


def test_arrays_with_gaps_reach_the_kernel_that_decides(folder: Path) -> None:
    library = mblob.load_module(folder / "llvm.so")
    wide, out = aligned(3, 8), aligned(3, 4)
    wide[:] = np.arange(24).reshape(3, 8)
    library["gaps"](wide[:, :4], out)
    np.testing.assert_array_equal(out, wide[:, :4])
    with pytest.raises(
        mblob.KernelError, match=r"ValueError: Invalid A.strides\[1\] on argument #0"
    ):
        library["gaps"](wide[:, ::2], out)
    with pytest.raises(
        mblob.KernelError, match=r"ValueError: Mismatched B\.strides on argument #1"
    ):
        library["gaps"](wide[:, :4], aligned(3, 8)[:, :4])
    elsewhere = aligned(3, 8, skip=4)  # the kernel gets an aligned copy with the same strides
    elsewhere[:] = wide + 1
    library["gaps"](elsewhere[:, :4], out)
    np.testing.assert_array_equal(out, elsewhere[:, :4])
