"""Trees with constants in the ffi dialect: TVM 0.27 makes them and mblob runs them, and the other
way round."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import ROOT, ffi_host, run

pytestmark = pytest.mark.own_process

# __init_NAME takes an Array of tensors and adds up what it finds; NAME tells the sum, how many they
# were, how often.
TYPES = r"""
#include <stdint.h>
#include <tvm/ffi/c_api.h>
#ifdef __cplusplus
#define EXPORT extern "C" __attribute__((visibility("default")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif
typedef struct { TVMFFIObject header; TVMFFIAny *items; int64_t size; } array;
static int64_t weigh(const DLTensor *t) {
  int64_t n = 1, sum = 0;
  for (int d = 0; d < t->ndim; d++) n *= t->shape[d];
  if (t->dtype.code != 2 || t->dtype.bits != 32) return 10000 * n + 1000 * t->dtype.code + t->dtype.bits;
  for (int64_t i = 0; i < n; i++) sum += (int64_t)((const float *)t->data)[i];
  return sum;
}
static int take(const TVMFFIAny *args, int32_t count, int64_t *total) {
  if (count != 1 || args[0].type_index != 71) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "expected one Array");
    return -1;
  }
  const array *row = (const array *)args[0].v_obj;
  *total += 10000000 + 1000000 * row->size;
  for (int64_t i = 0; i < row->size; i++) {
    if (row->items[i].type_index != 70) {
      TVMFFIErrorSetRaisedFromCStr("TypeError", "expected tensors");
      return -1;
    }
    *total += weigh((const DLTensor *)((const char *)row->items[i].v_obj + sizeof(TVMFFIObject)));
  }
  return 0;
}
"""
FUNCTIONS = r"""
static int64_t total_NAME;
EXPORT int __tvm_ffi___init_NAME(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self;
  result->type_index = 1;
  result->v_int64 = 0;
  return take(args, count, &total_NAME);
}
EXPORT int __tvm_ffi_NAME(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  (void)self, (void)args, (void)count;
  result->type_index = 1;
  result->v_int64 = total_NAME;
  return 0;
}
"""
SUMS = {"ext": 12010023, "ext2": 13068039, "none": 10000000}


@pytest.fixture(scope="module")
def ffi(package_of: Callable[[str], Path]) -> Path:
    """The folder of tvm_ffi; TVM is installed too."""
    package_of("tvm")
    return package_of("tvm_ffi")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("constants") / "ext.c"
    path.write_text(TYPES + "".join(FUNCTIONS.replace("NAME", name) for name in SUMS))
    return path


@pytest.fixture(scope="module")
def of_tvm(source: Path, ffi: Path) -> Path:
    ffi_host("tvm", "make_constants", source.parent, source)
    return source.parent


def sums(module: Any) -> dict[str, int]:
    return {name: module.get_function(name, True)() for name in SUMS}


def test_constants_that_tvm_exported_are_given_before_the_first_call(of_tvm: Path) -> None:
    module = mblob.load_module(of_tvm / "const.so")
    assert [m.type_key for m in module.walk()] == ["const_loader", "library"]
    assert [sums(module), sums(module)] == [SUMS, SUMS]


def test_constants_that_tvm_exported_are_given_in_the_classic_dialect_too(
    of_tvm: Path, tmp_path: Path
) -> None:
    """The initialiser gets an array of its own dialect, in a library that was linked and from
    objects alike."""
    for source in ("const.so", "const.tar"):
        path = tmp_path / f"{source}.so"
        mblob.convert(of_tvm / source, path, dialect="classic")
        module = mblob.load_module(path)
        assert [m.type_key for m in module.walk()] == ["const_loader", "library"]
        assert [sums(module), sums(module)] == [SUMS, SUMS]
        with pytest.raises(mblob.KernelError, match="expected one Array"):
            module.get_function("__init_ext", True)(1)


def test_what_is_below_an_executable_of_relax_runs(of_tvm: Path) -> None:
    module = mblob.load_module(of_tvm / "vm.so")
    assert [m.type_key for m in module.walk()] == ["relax.VMExecutable", "const_loader", "library"]
    assert sums(module) == SUMS
    given, out = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    module.get_function("twice", True)(given, out)
    assert out.tolist() == [0, 2, 4, 6]
    with mblob.open(of_tvm / "vm.so", verify="full") as lib:
        assert [e.type_key for e in lib.entries] == [
            "relax.VMExecutable",
            "const_loader",
            "library",
        ]
        assert sorted(t.name for t in lib.entries[1].tensors) == ["b", "f", "h", "w"]


def test_tvm_runs_what_is_written_here_beside_modules_of_other_kinds(
    source: Path, ffi: Path, tmp_path: Path
) -> None:
    made = tmp_path / "ext.o"
    run(
        "cc",
        "-c",
        "-O1",
        "-fPIC",
        source,
        "-o",
        made,
        f"-I{ffi}/include",
        f"-I{ffi}/3rdparty/dlpack/include",
    )
    arrays = {"w": np.arange(6, dtype="float32").reshape(2, 3), "b": np.array(7, "int8")}
    arrays |= {"h": np.ones(3, "float16"), "f": np.ones(3, "bool")}
    root = mblob.const_loader_module(
        arrays, {"ext": ["w", "b"], "ext2": ["h", "w", "f"], "none": []}
    )
    kinds = ["dnnl_json", "cublas_json", "tensorrt", "cuda", "opencl"]
    root.import_module(mblob.static_library(made))
    for kind in kinds[:3]:
        root.import_module(mblob.json_module(kind, f"{kind}_0", {"nodes": []}, []))
    for kind in kinds[3:]:
        kernel = ("k", ["handle"], ["blockIdx.x"])
        root.import_module(mblob.device_module(kind, "__kernel void k() {}", functions=[kernel]))
    path = tmp_path / "tree.so"
    root.export_library(path, dialect="ffi")
    ffi_host("tvm", "initialised", path, *kinds)
    module = mblob.load_module(path, missing="stub")
    assert next(m.type_key for m in module.walk()) == "const_loader"
    assert sorted(m.type_key for m in module.walk()) == sorted([*kinds, "const_loader", "library"])
    assert sums(module) == SUMS


def test_an_initialiser_that_fails_says_so_in_both(source: Path, ffi: Path, tmp_path: Path) -> None:
    """What it refused once it is asked again."""
    text = source.read_text().replace("type_index != 70", "type_index != 69")
    (tmp_path / "bad.c").write_text(text)
    made = tmp_path / "bad.o"
    run(
        "cc",
        "-c",
        "-fPIC",
        tmp_path / "bad.c",
        "-o",
        made,
        f"-I{ffi}/include",
        f"-I{ffi}/3rdparty/dlpack/include",
    )
    root = mblob.const_loader_module({"w": np.ones(2, "float32")}, {"ext": ["w"], "none": []})
    root.import_module(mblob.static_library(made))
    root.export_library(tmp_path / "bad.so", dialect="ffi")
    program = (
        f"import tvm\nm = tvm.runtime.load_module({str(tmp_path / 'bad.so')!r})\n"
        "try: m.get_function('ext', True)()\nexcept TypeError as e: print(e)\nprint(m.get_function('none', True)())"
    )
    assert run(sys.executable, "-c", program, cwd=ROOT).stdout == "expected tensors\n10000000\n"
    module = mblob.load_module(tmp_path / "bad.so")
    for _ in range(2):
        with pytest.raises(mblob.KernelError, match="TypeError: expected tensors"):
            module.get_function("ext", True)()
    assert module.get_function("none", True)() == 10000000
