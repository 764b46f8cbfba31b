"""Tensors as arguments of functions of C++, which get an object and may keep it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

pytestmark = pytest.mark.own_process

# What C++ compiled with the headers of tvm_ffi does, in C: objects are counted, errors are objects.
SOURCE = r"""
#include <mblob/dlpack.h>
#include <stdint.h>
typedef struct { int32_t type; uint32_t zero; union { int64_t i; double f; void *p; } v; } any;
typedef struct { uint64_t references; int32_t type; uint32_t padding; void *deleter; } header;
int TVMFFIObjectIncRef(void *object);
int TVMFFIObjectDecRef(void *object);
ERRORS
#define FUNCTION(name)                                                                      \
  int __tvm_ffi_##name(void *self, const any *args, int32_t count, any *result);            \
  int __tvm_ffi_##name(void *self, const any *args, int32_t count, any *result)
static void *kept[4];
static DLTensor *tensor(const any *a) {
  return a->type == 7 ? a->v.p : (DLTensor *)((header *)a->v.p + 1);
}
static double sum(const DLTensor *t, int d, int64_t at) {
  double all = 0;
  if (d == t->ndim) return ((const float *)((const char *)t->data + t->byte_offset))[at];
  for (int64_t i = 0; i < t->shape[d]; ++i) all += sum(t, d + 1, at + i * t->strides[d]);
  return all;
}
FUNCTION(type_of) { result->type = 1; result->v.i = args[0].type; return 0; }
FUNCTION(sum) { result->type = 3; result->v.f = sum(tensor(args), 0, 0); return 0; }
FUNCTION(stride) { result->type = 1; result->v.i = tensor(args)->strides[0]; return 0; }
FUNCTION(fill) {
  DLTensor *t = tensor(args);
  for (int64_t i = 0; i < t->shape[0]; ++i) ((float *)t->data)[i] = 7;
  return 0;
}
FUNCTION(keep) {
  for (int i = 0; i < count; ++i) TVMFFIObjectIncRef(kept[i] = args[i].v.p);
  return 0;
}
FUNCTION(kept_sum) {
  any held = {70, 0, {.p = kept[args[0].v.i]}};
  result->type = 3, result->v.f = sum(tensor(&held), 0, 0);
  return 0;
}
FUNCTION(drop) {
  for (int i = 0; i < 4; ++i) if (kept[i]) TVMFFIObjectDecRef(kept[i]), kept[i] = 0;
  return 0;
}
FUNCTION(echo) { *result = args[0]; if (args[0].type >= 64) TVMFFIObjectIncRef(args[0].v.p); return 0; }
"""
OF_CXX = (
    "void TVMFFIErrorSetRaised(void *e); void *uses(void) { return (void *)TVMFFIErrorSetRaised; }"
)
OF_TVM = (
    "void TVMFFIErrorSetRaisedFromCStr(const char *, const char *);"
    "void *texts(void) { return (void *)TVMFFIErrorSetRaisedFromCStr; }"
)


@pytest.fixture(scope="module")
def of(
    build: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], mblob.Module]:
    folder = tmp_path_factory.mktemp("lent")

    def load(errors: str = OF_CXX) -> mblob.Module:
        path = folder / f"{len(errors)}.so"
        if not path.exists():
            build(path, SOURCE.replace("ERRORS", errors))
        return mblob.load_module(path)

    return load


@pytest.fixture
def lib(of: Callable[[str], mblob.Module]) -> Any:
    library = of(OF_CXX)
    yield library
    library["drop"]()


class Array(np.ndarray):  # type: ignore[type-arg]
    """Not numpy's own class."""


def floats(n: int = 4, kind: type = np.ndarray) -> Any:
    return np.arange(n, dtype="float32").view(kind)


def test_cxx_gets_an_object_and_other_code_the_tensor_alone(
    of: Callable[[str], mblob.Module],
) -> None:
    x = np.zeros(16, "float32")
    assert of(OF_CXX)["type_of"](x) == 70
    assert of(OF_CXX + OF_TVM)["type_of"](x) == 70
    assert of(OF_TVM)["type_of"](x) == 7


def test_code_that_is_cxx_alone_gets_arrays_where_they_are(
    of: Callable[[str], mblob.Module],
) -> None:
    """As tvm_ffi passes them. Code of TVM needs 64 bytes."""
    assert of(OF_CXX)["sum"].alignment == 0
    assert of(OF_CXX + OF_TVM)["sum"].alignment == 64


@pytest.mark.parametrize("kind", [np.ndarray, Array])
def test_an_array_lives_as_long_as_who_kept_it(lib: mblob.Module, kind: type) -> None:
    x = floats(4, kind)
    gone = weakref.ref(x)
    lib["keep"](x)
    x[0] = 10
    assert lib["kept_sum"](0) == 16
    del x
    gc.collect()
    assert gone() is not None
    assert lib["kept_sum"](0) == 16
    lib["drop"]()
    assert gone() is None


def test_a_call_that_keeps_nothing_leaves_nothing(lib: mblob.Module) -> None:
    x = floats()
    gone = weakref.ref(x)
    for _ in range(20):
        assert lib["sum"](x) == 6
    del x
    assert gone() is None


@pytest.mark.parametrize("bound", [False, True])
def test_an_object_of_one_call_is_not_that_of_the_next(lib: mblob.Module, bound: bool) -> None:
    arrays = [np.full((2,) * rank, rank, "float32") for rank in range(1, 9)]
    for a in arrays:
        function = lib["keep"].bind(a) if bound else lambda a=a: lib["keep"](a)
        lib["drop"]()
        function()
        assert lib["sum"](np.ones((2, 2), "float32")) == 4
        assert lib["kept_sum"](0) == a.sum()


def test_what_is_given_back_is_the_array(lib: mblob.Module) -> None:
    x = floats()
    gone = weakref.ref(x)
    y = lib["echo"](x)
    assert y.address == x.ctypes.data
    del x
    np.testing.assert_array_equal(y.numpy(), floats())
    del y
    gc.collect()
    assert gone() is None


def test_strides_stay(lib: mblob.Module) -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    assert lib["stride"](x[:, ::2]) == 4
    assert lib["sum"](x[:, ::2]) == x[:, ::2].sum()
    lib["keep"](x.T)
    assert lib["kept_sum"](0) == x.sum()


def test_a_buffer_is_held(lib: mblob.Module) -> None:
    memory = bytearray(16)
    with memoryview(memory).cast("f") as view:
        lib["keep"](view)
        with pytest.raises(BufferError):
            memory.append(1)
        lib["drop"]()
    memory.append(1)


class Exporter:
    """Its memory is that of what __dlpack__ gives alone."""

    def __init__(self) -> None:
        self.given: list[weakref.ref[Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        array = floats()
        self.given.append(weakref.ref(array))
        return array.__dlpack__()


@pytest.mark.parametrize("calls", [1, 2])
def test_what_dlpack_gave_ends_with_who_kept_it(lib: mblob.Module, calls: int) -> None:
    exporter = Exporter()
    function = lib["keep"].bind(exporter) if calls > 1 else None
    for _ in range(calls):
        lib["drop"]()
        function() if function else lib["keep"](exporter)
        assert lib["kept_sum"](0) == 6
    del function
    gc.collect()
    assert lib["kept_sum"](0) == 6
    assert [ref() is None for ref in exporter.given] == [False]
    lib["drop"]()
    assert [ref() is None for ref in exporter.given] == [True]


def test_tensors_of_mblob_too(lib: mblob.Module) -> None:
    tensor = mblob.array(np.arange(4, dtype="float32"))
    gone = weakref.ref(tensor)
    lib["keep"](tensor)
    del tensor
    gc.collect()
    assert lib["kept_sum"](0) == 6
    lib["drop"]()
    assert gone() is None


def unaligned(n: int = 4) -> Any:
    return np.frombuffer(bytearray(4 * n + 64), np.uint8)[4 : 4 + 4 * n].view("float32")


@pytest.mark.parametrize("bound", [False, True])
def test_of_an_unaligned_array_the_copy_is_kept(
    of: Callable[[str], mblob.Module], bound: bool
) -> None:
    lib = of(OF_CXX + OF_TVM)
    x = unaligned()
    x[:] = [1, 2, 3, 4]
    function = lib["keep"].bind(x, x[:], x) if bound else lambda: lib["keep"](x, x[:], x)
    for _ in range(3):
        function()
        trash = [np.full(4, 9, "float32") for _ in range(50)]
        assert [lib["kept_sum"](i) for i in range(3)] == [10, 10, 10]
        del trash
        lib["drop"]()
    lib["fill"](x)
    assert list(x) == [7] * 4


def test_the_last_reference_may_be_dropped_by_any_thread(lib: mblob.Module) -> None:
    x = floats()
    gone = weakref.ref(x)
    lib["keep"](x)
    del x
    thread = threading.Thread(target=lib["drop"])
    thread.start()
    thread.join()
    assert gone() is None


def test_many_threads_lend_one_array(lib: mblob.Module) -> None:
    x = floats(1000)
    wrong: list[float] = []

    def run() -> None:
        wrong.extend(s for s in (lib["sum"](x) for _ in range(300)) if s != x.sum())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
