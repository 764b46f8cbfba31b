"""Modules of the keys const_loader and metadata: constants reach `__init_<symbol>` once, before the symbol runs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import payloads

# A module as BYOC writes it: it keeps what its __init_ got.
EXTERNAL = r"""
static DLTensor kept[8];
static int kept_count, times;

KERNEL(__init_scale) {
  UNUSED;
  times++;
  if (n == 0) return fail("no constants for scale");
  for (int i = 0; i < n; ++i) {
    if (codes[i] != kTVMNDArrayHandle) return fail("Expect constants to be arrays");
    kept[i] = *tensor(args[i]);
  }
  kept_count = n;
  return 0;
}
KERNEL(scale) {
  UNUSED;
  if (kept_count != 2) return fail("scale: not initialised");
  float *x = tensor(args[0])->data, *y = tensor(args[1])->data;
  float factor = *(float *)kept[0].data, *bias = kept[1].data;
  for (int64_t i = 0; i < tensor(args[0])->shape[0]; ++i) y[i] = factor * x[i] + bias[i];
  return 0;
}
KERNEL(init_count) { UNUSED; ret->v_int64 = times; *ret_code = kTVMArgInt; return 0; }
KERNEL(are_aligned) {
  UNUSED;
  ret->v_int64 = 1;
  for (int i = 0; i < kept_count; ++i) ret->v_int64 &= (uintptr_t)kept[i].data % 64 == 0;
  *ret_code = kTVMArgInt;
  return 0;
}
KERNEL(__init_seven) { UNUSED; ret->v_int64 = 7; *ret_code = kTVMArgInt; return 0; }
KERNEL(seven) { UNUSED; return 0; }
"""

FACTOR, BIAS = np.float32(3), np.arange(4, dtype="float32")
CONSTANTS = {"bias": BIAS, "unused": np.zeros(3, "int8"), "factor": FACTOR}
SYMBOLS = {"scale": ["factor", "bias"], "plain": [], "seven": ["unused"]}


@pytest.fixture
def make(build: Callable[..., Path], packed_blob: Callable[..., bytes], kernel_source: str, tmp_path: Path) -> Any:
    def library(payload: bytes, key: str = "const_loader", name: str = "c.so") -> Path:
        blob = packed_blob([(key, payload), ("library", None)], [[1], []])
        return build(tmp_path / name, kernel_source + EXTERNAL, blob=blob)

    return library


@pytest.mark.parametrize("key", ["const_loader", "metadata"])
def test_constants_reach_init_once_in_the_order_of_the_symbol(make: Any, key: str) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS), key))
    assert mod.type_key == key
    assert mod["init_count"]() == 0
    for _ in range(3):
        x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
        mod["scale"](x, y)
        np.testing.assert_array_equal(y, 3 * x + BIAS)
    assert mod["init_count"]() == 1
    assert mod["are_aligned"]() == 1


def test_functions_of_direct_imports_are_its_own(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS)))
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    mod.get_function("scale", query_imports=False)(x, y)
    np.testing.assert_array_equal(y, 3 + BIAS)
    with pytest.raises(AttributeError, match="nothing"):
        mod["nothing"]


def test_a_failing_init_is_told_and_tried_again(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, {"scale": []})))
    for times in (1, 2):
        with pytest.raises(mblob.KernelError, match="__init_scale: no constants for scale"):
            mod["scale"]
        assert mod["init_count"]() == times


def test_an_init_that_returns_a_number_failed(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS)))
    with pytest.raises(mblob.KernelError, match=r"__init_seven.*returned 7, expected 0"):
        mod["seven"]


def test_two_threads_initialise_once(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS)))
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        mod["scale"](np.ones(4, "float32"), np.zeros(4, "float32"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert mod["init_count"]() == 1


def test_constants_reach_a_module_that_python_loads(tree_library: Callable[..., Path], tmp_path: Path) -> None:
    """External graphs (dnnl_json and its kind) are loaders' modules beside the library."""
    entries = [
        ("const_loader", payloads.const_loader(CONSTANTS, {"graph0": ["bias", "factor"]})),
        ("my_json", b"graph0"),
        ("library", None),
    ]
    path = tree_library(tmp_path / "j.so", entries, [[1, 2], [], []])
    kept: list[Any] = []

    def init(*constants: Any) -> int:
        kept.append([c.numpy().copy() for c in constants])
        return 0

    def graph(x: Any, y: Any) -> None:
        bias, factor = kept[0]
        y.numpy()[:] = factor * x.numpy() + bias

    def load(payload: memoryview, ctx: Any) -> mblob.Module:
        name = bytes(payload).decode()
        return mblob.Module(ctx.type_key, functions={name: graph, f"__init_{name}": init})

    mod = mblob.load_module(path, loaders={"my_json": load})
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    for _ in range(2):
        mod["graph0"](x, y)
    np.testing.assert_array_equal(y, 3 * x + BIAS)
    assert len(kept) == 1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (payloads.const_loader(CONSTANTS, {"scale": ["none"]}), "needs constant 'none'"),
        (
            payloads.texts(["a", "a"]) + payloads.u64(2) + 2 * payloads.array(1.0) + 2 * payloads.u64(0),
            "two are called",
        ),
    ],
)
def test_constants_that_lie_are_refused(make: Any, payload: bytes, message: str) -> None:
    mod = mblob.load_module(make(payload))
    with pytest.raises(mblob.FormatError, match=message):
        mod["scale"]


def test_the_library_closes_when_nothing_holds_it(make: Any, mapped: Callable[[Path], bool]) -> None:
    path = make(payloads.const_loader(CONSTANTS, SYMBOLS))
    mod = mblob.load_module(path)
    mod["scale"](np.ones(4, "float32"), np.zeros(4, "float32"))
    assert mapped(path)
    del mod
    gc.collect()
    assert not mapped(path)


def test_constants_can_be_asked_for(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS)))
    found = mblob.load_param_dict(mod["get_const_var_ndarray"]())
    assert set(found) == set(CONSTANTS)
    for name, value in CONSTANTS.items():
        np.testing.assert_array_equal(found[name].numpy(), value)
    one = mod["get_const_var_ndarray"]("bias").numpy()
    one[:] = -1  # a copy
    np.testing.assert_array_equal(mod["get_const_var_ndarray"]("bias").numpy(), BIAS)
    with pytest.raises(ValueError, match="no constant 'none'; there are 3: bias, unused, factor"):
        mod["get_const_var_ndarray"]("none")
    assert mod["init_count"]() == 0
