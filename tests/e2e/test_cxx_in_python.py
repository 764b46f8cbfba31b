"""C++ code over TVM's C++ face that Python loads: plug-ins with global functions, kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import KernelError
from tests.e2e.programs import run

Require = Callable[[str], str]

PLUGIN = r"""
#define MBLOB_HOST
#include <tvm/runtime/registry.h>
#include <stdexcept>
using namespace tvm::runtime;
TVM_REGISTER_GLOBAL("plugin.scale").set_body_typed([](NDArray x, double factor) {
  for (int64_t i = 0; i < x.Shape().Product(); ++i)
    static_cast<float *>(x->data)[i] = float(static_cast<float *>(x->data)[i] * factor);
});
TVM_REGISTER_GLOBAL("plugin.scale_tensor").set_body_typed([](DLTensor *x, double factor) {
  for (int64_t i = 0; i < x->shape[0]; ++i) static_cast<float *>(x->data)[i] *= float(factor);
});
TVM_REGISTER_GLOBAL("plugin.join").set_body([](TVMArgs args, TVMRetValue *rv) {
  *rv = args[0].operator std::string() + "+" + args[1].operator std::string();
});
TVM_REGISTER_GLOBAL("plugin.fails").set_body_typed([](int line) -> int {
  throw std::out_of_range("line " + std::to_string(line) + "\nof the plugin");
});
TVM_REGISTER_GLOBAL("plugin.calls").set_body_typed([](std::string name, int x) -> int {
  return (*Registry::Get(name))(x);
});
TVM_REGISTER_GLOBAL("plugin.adder").set_body_typed([](int a) {
  return TypedPackedFunc<int(int)>([a](int b) { return a + b; });
});
"""


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "linked"), [("g++", True), ("clang++", True), ("g++", False)])
def test_python_and_a_cxx_plugin_call_each_other(
    require: Require, installed: Path, tmp_path: Path, compiler: str, linked: bool
) -> None:
    """The libmblob that the plug-in needs is the one that is here, whether or not it was linked
    with one."""
    np = pytest.importorskip("numpy")
    source, plugin = tmp_path / "plugin.cpp", tmp_path / "plugin.so"
    prefix = f"plugin_{compiler}_{linked}"
    source.write_text(PLUGIN.replace('"plugin.', f'"{prefix}.'))
    libraries = [f"-L{installed}/lib", "-lmblob"] if linked else []
    run(
        require(compiler), "-std=c++17", "-O2", "-fPIC", "-shared", source, "-o", plugin,
        f"-I{installed}/include/mblob/compat",
        *libraries, "-Wl,-z,nodelete",
    )  # fmt: skip
    mblob.load_module(plugin)

    def get(name: str) -> Any:
        return mblob.get_global_func(f"{prefix}.{name}")

    x = np.arange(4, dtype="float32")
    get("scale_tensor")(x, 2.5)
    assert x.tolist() == [0, 2.5, 5, 7.5]
    array = mblob.array(x, mblob.cpu(0))
    get("scale_tensor")(array, 2)
    assert array.numpy().tolist() == [0, 5, 10, 15]
    assert get("join")("a", "b") == "a+b"
    assert get("adder")(40)(2) == 42
    with pytest.raises(KernelError, match=r"line 7\nof the plugin"):
        get("fails")(7)
    with pytest.raises(KernelError, match="fails: argument 0: expected int, found str"):
        get("fails")("seven")

    def python(x: int) -> int:
        if x < 0:
            raise LookupError(f"not {x}")
        return 3 * x

    mblob.register_func(f"{prefix}.python")(python)
    assert get("calls")(f"{prefix}.python", 14) == 42
    with pytest.raises(LookupError, match="not -1"):
        get("calls")(f"{prefix}.python", -1)


KERNEL = r"""
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/packed_func.h>
static int axpy(double a, DLTensor *x, DLTensor *y) {
  if (x->shape[0] != y->shape[0]) throw tvm::runtime::InternalError("axpy: the tensors differ in size");
  for (int64_t i = 0; i < x->shape[0]; ++i)
    static_cast<float *>(y->data)[i] += float(a) * static_cast<float *>(x->data)[i];
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(saxpy, axpy);
TVM_DLL_EXPORT_TYPED_FUNC(greet, [](std::string name) { return "hello " + name; });
TVM_DLL_EXPORT_PACKED_FUNC(count, [](tvm::runtime::TVMArgs args, tvm::runtime::TVMRetValue *rv) { *rv = args.size(); })
"""


@pytest.mark.slow
def test_kernels_are_exported_from_cxx_functions(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    """As C sources of external code generators do it."""
    require("c++")
    np = pytest.importorskip("numpy")
    mblob.csource_module(KERNEL, fmt="cc").export_library(tmp_path / "k.so")
    library = mblob.load_module(tmp_path / "k.so")
    x, y = np.arange(3, dtype="float32"), np.ones(3, "float32")
    assert library["saxpy"](2.0, x, y) == 0
    assert y.tolist() == [1, 3, 5]
    assert library["greet"]("kernel") == "hello kernel"
    assert library["count"](1, 2, "three") == 3
    with pytest.raises(KernelError, match="axpy: the tensors differ in size"):
        library["saxpy"](2.0, x, y[:2].copy())
    with pytest.raises(KernelError, match="saxpy: expected 3 arguments, found 1"):
        library["saxpy"](1.0)
