"""examples/relax_backend: a backend of a user's own for Relax modules; its plug-in believes no payload."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import ROOT, run

pytestmark = pytest.mark.own_process  # plug-ins
FOLDER = ROOT / "examples" / "relax_backend"
MOST = 32
X = np.float32([1, -2, 3, -4])
REGION: dict[str, Any] = {  # relu(x + y), x * y
    "symbol": b"f", "elements": 4, "inputs": 2, "outputs": [3, 4],
    "steps": [(ord("+"), 0, 1), (ord("r"), 2, 2), (ord("*"), 0, 1)],
}  # fmt: skip


def payload(symbol: bytes, elements: int, inputs: int, outputs: list[int], steps: Any) -> bytes:
    """As `struct region` of backend.c."""
    counts = (elements, inputs, len(steps), len(outputs))
    rows = [*steps, *[(0, 0, 0)] * (MOST - len(steps))]
    numbers = [*counts, *outputs, *[0] * (MOST - len(outputs)), *(n for row in rows for n in row)]
    return struct.pack(f"64s{len(numbers)}I", symbol, *numbers)


def test_the_library_gives_what_the_model_says(
    package_of: Callable[[str], Path], tmp_path: Path
) -> None:
    package_of("tvm")
    done = run(sys.executable, "-W", "ignore", FOLDER / "backend.py", "model.so", cwd=tmp_path)
    assert "tvmgen_fifty_main_0: 1 add, 1 nn.relu, 1 multiply\n" in done.stdout
    lib = mblob.load_module(tmp_path / "model.so")
    x, y = np.random.default_rng(1).standard_normal((2, 4, 8)).astype("float32")
    scaled = np.exp(np.maximum(x + y, 0) * x)
    found = mblob.relax.VirtualMachine(lib, mblob.cpu())["main"](x, y).numpy()
    np.testing.assert_allclose(found, scaled / scaled.sum(-1, keepdims=True), rtol=1e-5)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that carries the plug-in."""
    path = tmp_path_factory.mktemp("fifty") / "fifty.so"
    module = mblob.blob_module("fifty", payload(**REGION), data=False)
    module.export_library(path, carry=[FOLDER / "backend.c"])
    return path


def opened(plugin: Path, data: bytes) -> mblob.Module:
    """The library with another payload."""
    path = plugin.with_name("changed.so")
    mblob.swap(plugin, {"fifty": data}, path)
    return mblob.load_module(path)


def test_a_region_computes_its_steps_in_order(plugin: Path) -> None:
    a, b = np.empty(4, "float32"), np.empty(4, "float32")
    mblob.load_module(plugin)["f"](X, X[::-1].copy(), a, b)
    np.testing.assert_array_equal(a, np.maximum(X + X[::-1], 0))
    np.testing.assert_array_equal(b, X * X[::-1])


@pytest.mark.parametrize(
    "given",
    [
        (X, X, X.copy()), (X, X, X.copy(), np.empty(5, "float32")), (X, X, X.copy(), X.astype("f8")),
        (X, X, X.copy(), np.empty(8, "float32")[::2]), (X, X, X.copy(), 4),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(plugin: Path, given: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"fifty: |is not contiguous"):
        mblob.load_module(plugin)["f"](*given)


@pytest.mark.parametrize(
    "changes",
    [
        {"symbol": b"f" * 64}, {"elements": 0}, {"inputs": 33}, {"inputs": 30},
        {"outputs": [5]}, {"steps": [(ord("+"), 0, 2)], "outputs": [2]},
        {"steps": [(ord("+"), 2**31, 0)], "outputs": [2]},
    ],
)  # fmt: skip
def test_a_payload_that_contradicts_itself_is_an_error(plugin: Path, changes: Any) -> None:
    lib = opened(plugin, payload(**{**REGION, **changes}))
    with pytest.raises(mblob.FormatError, match="the payload was not written by backend"):
        lib["f"](X, X, X.copy(), X.copy())
