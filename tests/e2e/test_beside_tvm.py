"""mblob and a real TVM in one process: neither serves, sees or breaks the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.programs import ROOT, exported, run
from tests.e2e.undefined.test_undefined_runtime import compile_library

pytestmark = pytest.mark.slow  # starting TVM takes seconds

ORDERS = ["mblob,tvm", "tvm,mblob", "tvm_ffi,mblob,tvm"]
GLOBAL = ["mblob,tvm,global", "global,tvm,mblob", "tvm,global,mblob"]


@pytest.fixture(scope="module")
def names(package_of: Callable[[str], Path]) -> str:
    """What libmblob exports under names that are not its own; TVM must be installed."""
    for package in ("tvm", "tvm_ffi"):
        package_of(package)
    runtime = next((ROOT / "loader" / "_lib").glob("libmblob.so.0"))
    others = sorted(name for name in exported(runtime) if not name.startswith("mblob_"))
    assert {"TVMFuncCall", "TVMBackendAllocWorkspace", "__gnu_f2h_ieee"} <= set(others)
    return " ".join(others)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("beside") / "kernels.so")


def together(names: str, order: str, *arguments: object, **environment: str) -> None:
    done = run(
        sys.executable,
        "-m",
        "tests.e2e.beside_tvm",
        order,
        *arguments,
        env={**os.environ, "NAMES_OF_LIBMBLOB": names, **environment},
        cwd=ROOT,
        timeout=300,
    )
    assert done.stdout == "fine\n"
    assert done.stderr == ""


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_enters_the_global_scope(names: str, order: str) -> None:
    together(names, order, "nothing")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="lazy"),
        pytest.param({"LD_BIND_NOW": "1"}, id="LD_BIND_NOW", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("order", [*ORDERS, *GLOBAL])
def test_kernels_of_each_run_on_their_own_runtime(
    names: str, order: str, environment: dict[str, str], kernels: Path
) -> None:
    together(names, order, "kernels", kernels, **environment)


@pytest.mark.parametrize("order", ORDERS)
def test_tensors_go_both_ways(names: str, order: str, kernels: Path) -> None:
    together(names, order, "tensors", kernels)


@pytest.mark.parametrize("order", ORDERS)
def test_libraries_of_an_older_tvm_run_beside_a_newer_one(
    names: str, order: str, golden: Path
) -> None:
    together(names, order, "golden", golden)


@pytest.mark.parametrize("order", ORDERS)
def test_both_may_hold_one_library(names: str, order: str, tmp_path: Path) -> None:
    together(names, order, "packed_here", tmp_path / "packed.so")
