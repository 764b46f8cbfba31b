"""Modules of the keys const_loader and metadata: constants reach `__init_<symbol>` once, before the
symbol runs."""

from __future__ import annotations

import gc
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import payloads

# A module as BYOC writes it: it keeps the arrays that its __init_ got in an Array, and frees its
# references to them, so they live because const_loader keeps them.
EXTERNAL = r"""
extern void *__tvm_module_ctx;
int TVMArrayFree(DLTensor *);

static DLTensor *kept[8];
static int kept_count, times;

/* What a function of the runtime gives for the Array and, if `i` is not negative, an index. */
static int ask(const char *name, TVMValue array, int64_t i, TVMValue *out) {
  void *function;
  TVMValue given[2] = {array, {.v_int64 = i}};
  int types[2] = {kTVMObjectHandle, kTVMArgInt}, type;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, &function)) return -1;
  return TVMFuncCall(function, given, types, i < 0 ? 1 : 2, out, &type);
}

KERNEL(__init_scale) {
  UNUSED;
  times++;
  TVMValue count, item;
  if (n != 1 || codes[0] != kTVMObjectHandle) return fail("Expect constants to be one Array");
  if (ask("runtime.ArraySize", args[0], -1, &count)) return -1;
  if (count.v_int64 == 0) return fail("no constants for scale");
  for (int i = 0; i < count.v_int64; ++i) {
    if (ask("runtime.ArrayGetItem", args[0], i, &item)) return -1;
    kept[i] = tensor(item);
    TVMArrayFree(kept[i]);
  }
  kept_count = (int)count.v_int64;
  return 0;
}
KERNEL(scale) {
  UNUSED;
  if (kept_count != 2) return fail("scale: not initialised");
  float *x = tensor(args[0])->data, *y = tensor(args[1])->data;
  float factor = *(float *)kept[0]->data, *bias = kept[1]->data;
  for (int64_t i = 0; i < tensor(args[0])->shape[0]; ++i) y[i] = factor * x[i] + bias[i];
  return 0;
}
KERNEL(init_count) { UNUSED; ret->v_int64 = times; *ret_code = kTVMArgInt; return 0; }
KERNEL(are_aligned) {
  UNUSED;
  ret->v_int64 = 1;
  for (int i = 0; i < kept_count; ++i) ret->v_int64 &= (uintptr_t)kept[i]->data % 64 == 0;
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
def make(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> Any:
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


def test_constants_reach_a_module_that_python_loads(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    """External graphs (dnnl_json and its kind) are loaders' modules beside the library."""
    entries = [
        ("const_loader", payloads.const_loader(CONSTANTS, {"graph0": ["bias", "factor"]})),
        ("my_json", b"graph0"),
        ("library", None),
    ]
    path = tree_library(tmp_path / "j.so", entries, [[1, 2], [], []])
    kept: list[Any] = []

    def init(constants: list[mblob.Tensor]) -> int:
        kept.append([c.numpy() for c in constants])
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


CCOMPILER = r"""
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
#ifdef __cplusplus
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
using namespace tvm::runtime;
#endif
tvm::runtime::Array<tvm::runtime::NDArray> scale_const;

extern "C" TVM_DLL int32_t scale(TVMValue* args, int* type_code, int num_args, TVMValue* out, int* out_type) {
  ICHECK(!scale_const.empty()) << "C source module hasn't been initialized.";
  const float* x = static_cast<const float*>(static_cast<DLTensor*>(args[0].v_handle)->data);
  float* y = static_cast<float*>(static_cast<DLTensor*>(args[1].v_handle)->data);
  for (int i = 0; i < 4; ++i)
    y[i] = ((float*)(scale_const[0]->data))[0] * x[i] + ((float*)(scale_const[1]->data))[i];
  return 0;
}
int scale_init_wrapper_(tvm::runtime::Array<tvm::runtime::NDArray> arr) {
  scale_const = arr;
  return 0;
}
extern "C" {
TVM_DLL_EXPORT_TYPED_FUNC(__init_scale, scale_init_wrapper_);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++")
def test_an_array_that_c_plus_plus_keeps(tmp_path: Path, mapped: Callable[[Path], bool]) -> None:
    """What TVM's C code generator writes for constants; it does not keep the library open."""
    (tmp_path / "scale.cc").write_text(CCOMPILER)
    loader = mblob.const_loader_module(CONSTANTS, {"scale": ["factor", "bias"]})
    loader.import_module(mblob.csource_module(tmp_path / "scale.cc", options=["-fno-gnu-unique"]))
    # Unique symbols of C++ keep a library in memory for good.
    mblob.export_library(loader, tmp_path / "s.so", cc="g++")
    for _ in range(2):
        mod = mblob.load_module(tmp_path / "s.so")
        x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
        mod["scale"](x, y)
        np.testing.assert_array_equal(y, 3 * x + BIAS)
        del mod
        gc.collect()
        assert not mapped(tmp_path / "s.so")


def test_arrays_outlive_the_library(tree_library: Callable[..., Path], tmp_path: Path) -> None:
    entries = [
        ("const_loader", payloads.const_loader(CONSTANTS, {"g": ["bias"]})),
        ("my_json", b""),
        ("library", None),
    ]
    path = tree_library(tmp_path / "j.so", entries, [[1, 2], [], []])
    kept: list[Any] = []

    def load(_: memoryview, ctx: Any) -> mblob.Module:
        return mblob.Module(ctx.type_key, functions={"g": lambda: 0, "__init_g": kept.extend})

    mblob.load_module(path, loaders={"my_json": load})["g"]()
    gc.collect()
    assert len(kept) == 1
    np.testing.assert_array_equal(kept[0].numpy(), BIAS)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (payloads.const_loader(CONSTANTS, {"scale": ["none"]}), "needs constant 'none'"),
        (
            payloads.texts(["a", "a"])
            + payloads.u64(2)
            + 2 * payloads.array(1.0)
            + 2 * payloads.u64(0),
            "two are called",
        ),
    ],
)
def test_constants_that_lie_are_refused(make: Any, payload: bytes, message: str) -> None:
    mod = mblob.load_module(make(payload))
    with pytest.raises(mblob.FormatError, match=message):
        mod["scale"]


def test_the_library_closes_when_nothing_holds_it(
    make: Any, mapped: Callable[[Path], bool]
) -> None:
    path = make(payloads.const_loader(CONSTANTS, SYMBOLS))
    mod = mblob.load_module(path)
    mod["scale"](np.ones(4, "float32"), np.zeros(4, "float32"))
    assert mapped(path)
    del mod
    gc.collect()
    assert not mapped(path)


def test_constants_can_be_asked_for(make: Any) -> None:
    mod = mblob.load_module(make(payloads.const_loader(CONSTANTS, SYMBOLS)))
    found = mod["get_const_var_ndarray"]()
    assert set(found) == set(CONSTANTS)
    for name, value in CONSTANTS.items():
        np.testing.assert_array_equal(found[name].numpy(), value)
    one = mod["get_const_var_ndarray"]("bias").numpy()
    one[:] = -1  # a copy
    np.testing.assert_array_equal(mod["get_const_var_ndarray"]("bias").numpy(), BIAS)
    with pytest.raises(ValueError, match="no constant 'none'; there are 3: bias, unused, factor"):
        mod["get_const_var_ndarray"]("none")
    assert mod["init_count"]() == 0
