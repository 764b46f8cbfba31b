"""Arrays of ml_dtypes (bfloat16, float8) as arguments: passed as they are, like numpy's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob

FLOATS = [
    "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
SOURCE = r"""
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
int negate(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *unused) {
  DLTensor *t = args[0].v_handle;
  (void)n; (void)unused;
  if (codes[0] != kTVMDLTensorHandle) return -1;
  const int size = t->dtype.bits / 8;
  for (int64_t i = 0; i < t->shape[0]; ++i) ((uint8_t *)t->data)[size * i + size - 1] ^= 0x80;
  ret->v_int64 = t->dtype.code * 100 + t->dtype.bits;
  *ret_code = kTVMArgInt;
  return 0;
}
void first(const uint8_t *x, uint8_t *y) { *y = *x; }
double same(double x) { return x; }
"""


def array(dtype: str, values: Any = (0.5, 1, 2, 4)) -> Any:
    return np.array(values).astype(getattr(ml_dtypes, dtype))


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    path = tmp_path_factory.mktemp("small") / "small.so"
    functions = ["void first(const uint8_t *x, uint8_t *y)", "double same(double x)"]
    mblob.csource_module(SOURCE, functions=functions).export_library(path)
    return mblob.load_module(path)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_kernel_gets_the_array_itself(lib: mblob.Module, dtype: str) -> None:
    x = array(dtype)
    expected = lib["negate"](mblob.array(x))  # what a tensor of that type is for the kernel
    size = x.dtype.itemsize
    flipped = np.frombuffer(x.tobytes(), "uint8").copy()
    flipped[size - 1 :: size] ^= 0x80
    assert lib["negate"](x) == expected  # through the buffer protocol
    assert x.tobytes() == flipped.tobytes()
    assert lib["negate"](x) == expected  # read directly
    assert lib["negate"].bind(x)() == expected
    assert x.tobytes() == flipped.tobytes()
    for _ in range(3):
        assert lib["negate"](array(dtype)) == expected  # of arrays that are gone


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_layout_and_rights_count_as_for_other_arrays(lib: mblob.Module, dtype: str) -> None:
    with pytest.raises(ValueError, match="argument 0: the array is not contiguous"):
        lib["negate"](array(dtype)[::2])
    masked = np.ma.masked_array(array(dtype), mask=[1, 0, 0, 0])
    with pytest.raises(TypeError, match="masked array"):
        lib["negate"](masked)
    assert lib["negate"](array(dtype).view(type("Sub", (np.ndarray,), {})))
    fixed = array(dtype)
    fixed.flags.writeable = False
    lib["negate"].bind(fixed)  # the kernel has no prototype, so nobody knows that it writes
    with pytest.raises(ValueError, match="read-only"):
        lib["first"](np.zeros(1, "uint8"), fixed.view("uint8"))


def test_a_kernel_that_takes_bits_says_how_to_pass_them(lib: mblob.Module) -> None:
    x, y = array("float8_e5m2"), np.zeros(1, "uint8")
    expected = (
        r'argument 0.*an array of uint8, found float8_e5m2; for its bits pass x\.view\("uint8"\)'
    )
    with pytest.raises(TypeError, match=expected):
        lib["first"](x, y)
    lib["first"](x.view("uint8"), y)
    assert y.tobytes() == x[:1].tobytes()
    with pytest.raises(TypeError, match=r'found bfloat16; convert it with astype\("uint8"\)'):
        lib["first"](array("bfloat16"), y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_scalar_is_a_number(lib: mblob.Module, dtype: str) -> None:
    assert lib["same"](array(dtype)[2]) == 2.0
    assert lib["same"](array(dtype, 2)) == 2.0


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn", "float6_e2m3fn"])
def test_elements_that_numpy_has_in_a_byte_each_are_no_argument(
    lib: mblob.Module, dtype: str
) -> None:
    if not hasattr(ml_dtypes, dtype):
        pytest.skip(f"ml_dtypes has no {dtype}")
    with pytest.raises(TypeError, match=f"bfloat16, float8 .* found {dtype}; convert it with"):
        lib["negate"](np.zeros(4, getattr(ml_dtypes, dtype)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_executors_take_and_give_them(dtype: str, tmp_path: Path) -> None:
    g = mblob.GraphBuilder()
    w = array(dtype, (1, 2, 3, 4))
    x = g.input("x", 4, w.dtype)
    g.output(g.call("second", [x, g.param("w", w)], 4, dtype))
    model = mblob.graph_executor_factory(g)
    source = (
        "#include <string.h>\n#include <tvm/runtime/c_runtime_api.h>\n"
        "int second(TVMValue *a, int *c, int n, TVMValue *r, int *k, void *u) {\n"
        "  DLTensor *x = a[0].v_handle, *w = a[1].v_handle, *y = a[2].v_handle;\n"
        "  (void)c; (void)n; (void)r; (void)k; (void)u; int size = w->dtype.bits / 8;\n"
        "  memcpy(y->data, w->data, 2 * size); memcpy((char *)y->data + 2 * size, x->data, 2 * size);\n"
        "  return 0; }\n"
    )
    model.import_module(mblob.csource_module(source))
    model.export_library(tmp_path / "m.so")
    gm = mblob.graph_executor.GraphModule(
        mblob.load_module(tmp_path / "m.so")["default"](mblob.cpu())
    )
    gm.run(x=array(dtype, (8, 16, 32, 64)))
    found = gm.get_output(0).numpy()
    assert (found.dtype, found.tolist()) == (w.dtype, [1, 2, 8, 16])
    out = np.zeros(4, w.dtype)
    gm.get_output(0, out)
    assert out.tolist() == [1, 2, 8, 16]
    assert gm.get_input("x").numpy().tolist() == [8, 16, 32, 64]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_they_are_weights(dtype: str, tmp_path: Path) -> None:
    w = array(dtype)
    root = mblob.csource_module("")
    root.import_module(mblob.safetensors_module({"w": w}))
    root.export_library(tmp_path / "w.so")
    found = mblob.load_module(tmp_path / "w.so").tensors["w"].numpy()
    assert (found.dtype, found.tolist()) == (w.dtype, w.tolist())


def lib_path(lib: mblob.Module) -> str:
    return lib._node.path


def test_a_process_without_them_does_not_import_ml_dtypes(lib: mblob.Module) -> None:
    code = (
        "import sys, numpy as np, mblob\n"
        f"lib = mblob.load_module({lib_path(lib)!r})\n"
        "lib['negate'](np.zeros(3, 'float32'))\n"
        "lib['negate'](mblob.array([1.0]).numpy())\n"
        "print('ml_dtypes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
