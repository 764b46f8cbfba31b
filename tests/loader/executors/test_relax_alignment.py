"""Tensors that are less aligned than compiled code assumes, on every way into a Relax program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.programs import run
from tests.loader.executors.relax_programs import (
    COMPILED,
    MAGIC,
    Function,
    Program,
    c,
    call,
    f,
    i,
    r,
    ret,
)
from tests.loader.payloads import u64

pytestmark = pytest.mark.own_process
ALIGNMENT = 64
NAMES = (f"test.alignment.{n}" for n in itertools.count())


def unaligned(values: Any, dtype: str = "float32") -> np.ndarray:
    """An array whose address is 4 modulo 64."""
    values = np.asarray(values, dtype)
    room = np.empty(values.nbytes + 2 * ALIGNMENT, "uint8")
    start = -room.ctypes.data % ALIGNMENT + 4
    out = room[start : start + values.nbytes].view(dtype).reshape(values.shape)
    out[...] = values
    return out


class Probe:
    """A function that programs call on tensors: it notes their addresses and changes them."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.name = next(NAMES)
        mblob.register_func(self.name, self)

    def __call__(self, *tensors: Any) -> None:
        for tensor in tensors:
            array = tensor.numpy()
            self.seen.append(array.ctypes.data)
            array += 1

    def all_aligned(self) -> bool:
        assert self.seen
        return not any(address % ALIGNMENT for address in self.seen)


@pytest.fixture
def probe() -> Probe:
    return Probe()


def machine(*functions: Function) -> mblob.relax.VirtualMachine:
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
    return mblob.relax.VirtualMachine(code, mblob.cpu(0))


def over_tuple(probe: Probe, depth: int = 1) -> mblob.relax.VirtualMachine:
    """main(x) and kept(x): the probe sees items 0 and 1 of the innermost tuple."""
    item = Function("vm.builtin.tuple_getitem")
    down = [call(0, [r(0), i(0)], 0)] * (depth - 1)
    items = [call(0, [r(0), i(0)], 1), call(0, [r(0), i(1)], 2)]
    code = [*down, *items, call(1, [r(1), r(2)]), ret(1)]
    return machine(item, Function(probe.name), Function("main", code, ["x"]))


@pytest.mark.parametrize("wrap", [np.asarray, mblob.from_dlpack], ids=["numpy", "dlpack"])
@pytest.mark.parametrize("depth", [1, 2, 40])
def test_tensors_in_tuples_are_aligned_and_written_back(
    probe: Probe, wrap: Callable[[Any], Any], depth: int
) -> None:
    a, b = unaligned([1, 2, 3]), unaligned([4.0])
    value: Any = (wrap(a), wrap(b))
    for k in range(depth - 1):
        value = [value, 7] if k % 2 else (value,)
    result = over_tuple(probe, depth)["main"](value)
    assert probe.all_aligned()
    assert result.numpy().tolist() == [2, 3, 4]
    assert (a.tolist(), b.tolist()) == ([2, 3, 4], [5])


def test_one_array_twice_is_one_copy(probe: Probe) -> None:
    a = mblob.from_dlpack(unaligned([1, 2]))
    over_tuple(probe)["main"]((a, a))
    assert probe.all_aligned()
    assert len(set(probe.seen)) == 1
    assert a.numpy().tolist() == [3, 4]


def test_aligned_tensors_are_passed_as_they_are(probe: Probe) -> None:
    a, b = mblob.array(np.ones(3, "float32")), mblob.array(np.ones(3, "float32"))
    over_tuple(probe)["main"]((a, b))
    assert probe.seen == [a.numpy().ctypes.data, b.numpy().ctypes.data]


@pytest.mark.parametrize("wrap", [np.asarray, mblob.from_dlpack, memoryview])
def test_tensors_alone_are_aligned_and_written_back(
    probe: Probe, wrap: Callable[[Any], Any]
) -> None:
    a = unaligned([1, 2, 3])
    vm = machine(Function(probe.name), Function("main", [call(0, [r(0)]), ret(0)], ["x"]))
    vm["main"](wrap(a))
    assert probe.all_aligned()
    assert a.tolist() == [2, 3, 4]


def test_saved_inputs_are_aligned(probe: Probe) -> None:
    pair = (mblob.from_dlpack(unaligned([1.0])), mblob.from_dlpack(unaligned([2.0])))
    vm = over_tuple(probe)
    vm.set_input("main", pair)
    vm.invoke_stateful("main")
    vm.module["set_input"]("main", pair)
    vm.invoke_stateful("main")
    vm.module["set_one_input"]("main", "x", pair)
    vm.invoke_stateful("main")
    vm.save_function("main", "saved", pair)
    vm["saved"]()
    assert len(probe.seen) == 8
    assert probe.all_aligned()


def test_tensors_bound_to_closures_are_aligned(probe: Probe) -> None:
    code = [call(0, [f(3), r(0)], 1), call(1, [1 << 54 | 1, r(1)], 2), ret(2)]
    vm = machine(
        Function("vm.builtin.make_closure"),
        Function("vm.builtin.invoke_closure"),
        Function(probe.name),
        Function("inner", [call(2, [r(0)]), ret(0)], ["x"]),
        Function("main", code, ["x"]),
    )
    vm["main"](mblob.from_dlpack(unaligned([1.0])))
    assert probe.all_aligned()


@pytest.mark.parametrize("form", ["alone", "tuple", "tuple in list"])
@pytest.mark.parametrize("way", ["registered", "argument", "py_func"])
def test_results_of_python_functions_are_aligned(probe: Probe, form: str, way: str) -> None:
    tensor = mblob.from_dlpack(unaligned([1.0]))
    made = {"alone": tensor, "tuple": (tensor,), "tuple in list": [(tensor,)]}[form]
    name = next(NAMES)
    mblob.register_func(name, lambda: made)
    mblob.get_global_func("vm.builtin.register_py_func")(name, lambda: made)
    ways = {
        "registered": [call(0, [], 1)],
        "argument": [call(1, [1 << 54 | 1, r(0)], 1)],
        "py_func": [call(4, [], 1), call(5, [c(0), r(1)], 1)],
    }
    unpack = [call(2, [r(1), i(0)], 1)] * (len(form.split()) - 1 if form != "tuple" else 1)
    unpack = {"alone": [], "tuple": unpack[:1], "tuple in list": unpack[:2]}[form]
    functions = [
        Function(name),
        Function("vm.builtin.invoke_closure"),
        Function("vm.builtin.tuple_getitem"),
        Function(probe.name),
        Function("vm.builtin.make_tuple"),
        Function("vm.builtin.call_py_func"),
        Function("main", [*ways[way], *unpack, call(3, [r(1)]), ret(1)], ["g"]),
    ]
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions, [name]).payload())
    mblob.relax.VirtualMachine(code, mblob.cpu(0))["main"](lambda: made)
    assert probe.all_aligned()


# Compiled functions of the ffi dialect as TVM generates them, and a function of C that gives tensors whose
# address is 4 modulo 64.
COMPILED_CODE = r"""
#include <tvm/ffi/c_api.h>
void *__tvm_ffi__library_ctx;
int TVMFFITensorFromDLPack(DLManagedTensor *from, int32_t alignment, int32_t contiguous, void **out);
int TVMBackendAnyListSetPackedArg(void *list, int index, TVMFFIAny *args, int at);
int TVMBackendAnyListMoveFromPackedReturn(void *list, int index, TVMFFIAny *args, int at);

static int call(const char *name, TVMFFIAny *args, int count, TVMFFIAny *result) {
  void *f;
  *result = (TVMFFIAny){.type_index = kTVMFFINone};
  if (TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, name, &f)) return -1;
  return TVMFFIFunctionCall(f, args, count, result);
}

static _Alignas(64) char memory[128];
static int64_t shape[] = {2}, strides[] = {1};
static DLManagedTensor unaligned = {
    .dl_tensor = {memory + 4, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0}};

/* Arrays as C++ makes them, which stay. */
static void keep(void *self, int flags) { (void)self, (void)flags; }
static struct array {
  struct { uint64_t references; int32_t type; uint32_t padding; void (*deleter)(void *, int); } head;
  TVMFFIAny *items;
  int64_t size, capacity;
  void (*delete_items)(void *);
  TVMFFIAny item;
} arrays[3];

/* (how deep in Arrays) */
int __tvm_ffi_give(void *self, const TVMFFIAny *args, int32_t count, TVMFFIAny *result) {
  TVMFFIAny value = {.type_index = kTVMFFITensor};
  (void)self, (void)count;
  if (TVMFFITensorFromDLPack(&unaligned, 0, 1, (void **)&value.v_obj)) return -1;
  for (int64_t i = 0; i < args[0].v_int64; i++) {
    arrays[i] = (struct array){{1000, kTVMFFIArray, 0, keep}, &arrays[i].item, 1, 1, 0, value};
    value = (TVMFFIAny){.type_index = kTVMFFIArray, .v_obj = (void *)&arrays[i]};
  }
  *result = value;
  return 0;
}

/* main(depth): what the function gives, and the tensor in it */
int __tvm_ffi___vmtir__main(void *self, const TVMFFIAny *given, int32_t count, TVMFFIAny *result) {
  void *r = given[1].v_ptr;
  TVMFFIAny a[4], depth;
  (void)self, (void)count, (void)result;
  TVMBackendAnyListSetPackedArg(r, 0, &depth, 0);
  a[0] = depth;
  a[1] = (TVMFFIAny){.type_index = kTVMFFINone};
  if (GIVER) return -1;
  TVMBackendAnyListMoveFromPackedReturn(r, 2, a, 1);
  for (int64_t i = 0; i < depth.v_int64; i++) {
    TVMBackendAnyListSetPackedArg(r, 2, a, 0);
    a[1] = (TVMFFIAny){.type_index = kTVMFFIInt};
    if (call("vm.builtin.tuple_getitem", a, 2, &a[2])) return -1;
    TVMBackendAnyListMoveFromPackedReturn(r, 2, a, 2);
  }
  TVMBackendAnyListSetPackedArg(r, 2, a, 0);
  if (call("PROBE", a, 1, &a[1])) return -1;
  TVMBackendAnyListSetPackedArg(r, 2, a, 0);
  return call("vm.builtin.copy", a, 1, &a[1]) || TVMBackendAnyListMoveFromPackedReturn(r, 1, a, 1);
}
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "giver",
    ["__tvm_ffi_give(0, a, 1, &a[1])", 'call("test.alignment.giver", a, 1, &a[1])'],
    ids=["C", "Python"],
)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_results_of_functions_are_aligned_in_compiled_code(
    probe: Probe, tmp_path: Path, giver: str, depth: int
) -> None:
    made: Any = mblob.from_dlpack(unaligned([0, 0]))
    for _ in range(depth):
        made = (made,)
    mblob.register_func("test.alignment.giver", lambda _: made, override=True)
    row = Function("main", params=["depth"], registers=3, kind=COMPILED)
    root = mblob.blob_module("relax.VMExecutable", Program([row]).payload())
    code = COMPILED_CODE.replace("GIVER", giver).replace("PROBE", probe.name)
    root.import_module(mblob.csource_module(code))
    root.export_library(tmp_path / "x.so", dialect="ffi")
    vm = mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "x.so"), mblob.cpu(0))
    for _ in range(2):
        assert vm["main"](depth).numpy().tolist() == [1, 1]
    assert len(probe.seen) == 2
    assert probe.all_aligned()


def over_map(probe: Probe, way: list[list[int]], *more: Function) -> mblob.relax.VirtualMachine:
    """main(x): the probe sees item "a" of the map in register 1, where `way` puts it."""
    code = [*way, call(0, [r(1), c(0)], 2), call(1, [r(2)]), ret(2)]
    rows = [Function("runtime.MapGetItem"), Function(probe.name), *more]
    program = Program([*rows, Function("main", code, ["x"])], ["a"])
    module = mblob.get_global_func("mblob.RelaxExecutable")(program.payload())
    return mblob.relax.VirtualMachine(module, mblob.cpu(0))


@pytest.mark.parametrize("in_tuple", [False, True], ids=["alone", "in a tuple"])
def test_tensors_in_dicts_are_aligned_and_written_back(probe: Probe, in_tuple: bool) -> None:
    a = unaligned([1, 2])
    given: Any = {"b": mblob.Shape([1]), "a": mblob.from_dlpack(a)}
    item = [call(2, [r(0), i(0)], 1)] if in_tuple else [call(3, [r(0)], 1)]
    more = [Function("vm.builtin.tuple_getitem"), Function("vm.builtin.copy")]
    result = over_map(probe, item, *more)["main"]((given,) if in_tuple else given)
    assert probe.all_aligned()
    assert result.numpy().tolist() == a.tolist() == [2, 3]


def test_dicts_that_python_functions_give_are_aligned(probe: Probe) -> None:
    made = {"a": mblob.from_dlpack(unaligned([1.0]))}
    name = next(NAMES)
    mblob.register_func(name, lambda: made)
    over_map(probe, [call(2, [], 1)], Function(name))["main"](None)
    assert probe.all_aligned()


KERNEL = r"""
#include <tvm/runtime/c_runtime_api.h>
/* Adds 1; refuses what compiled code of TVM would not survive. */
int add_one(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  DLTensor *t = args[0].v_handle;
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource;
  if ((unsigned long)t->data % 64) return TVMAPISetLastError("unaligned"), -1;
  for (int64_t i = 0; i < t->shape[0]; i++) ((float *)t->data)[i]++;
  return 0;
}
"""
C_HOST = r"""
#include <mblob.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>

#define CHECK(x) do { if (!(x)) return printf("%d: %s\n", __LINE__, mblob_last_error()), 1; } while (0)
static _Alignas(64) float memory[32];
static void keep(DLManagedTensor *self) { (void)self; }

static int call(TVMFunctionHandle f, TVMValue *args, int *codes, int count, TVMValue *ret) {
  int code = kTVMNullptr;
  return TVMFuncCall(f, args, codes, count, ret, &code);
}

int main(int argc, char **argv) {
  int64_t shape = 2;
  DLManagedTensor from = {{memory + 1, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shape, NULL, 0}, NULL, keep};
  mblob_module *library = NULL;
  TVMFunctionHandle make, array, map, init, function;
  TVMValue vm, value, two[2], place[3] = {{.v_int64 = kDLCPU}, {.v_int64 = 0}, {.v_int64 = 2}};
  int codes[3] = {kTVMArgInt, kTVMArgInt, kTVMArgInt}, code = kTVMNDArrayHandle;
  int pair[2] = {kTVMStr, kTVMNDArrayHandle};
  CHECK(argc == 3 && !mblob_open(argv[1], NULL, &library));
  CHECK(!TVMModGetFunction(library, "vm_load_executable", 0, &make) && !call(make, NULL, NULL, 0, &vm));
  CHECK(!TVMModGetFunction(vm.v_handle, "vm_initialization", 0, &init) && !call(init, place, codes, 3, &value));
  CHECK(!TVMModGetFunction(vm.v_handle, argv[2], 0, &function));
  CHECK(!TVMFuncGetGlobal("runtime.Array", &array) && !TVMFuncGetGlobal("runtime.Map", &map));
  CHECK(!TVMArrayFromDLPack(&from, (TVMArrayHandle *)&value.v_handle));
  TVMValue tensor = value;
  if (argv[2][0] == 'm') {
    two[0].v_str = "a", two[1] = tensor;
    CHECK(!call(map, two, pair, 2, &value));
  } else {
    CHECK(!call(array, &tensor, &code, 1, &value));
  }
  code = kTVMObjectHandle;
  CHECK(!call(function, &value, &code, 1, &two[0]));
  return !printf("%g %g\n", (double)memory[1], (double)memory[2]);
}
"""


@pytest.mark.parametrize("container", ["array", "map"])
def test_containers_of_c_hosts_are_aligned_and_written_back(
    container: str, tmp_path: Path, installed: Path, require: Callable[[str], str]
) -> None:
    items = [
        Function("vm.builtin.tuple_getitem"),
        Function("runtime.MapGetItem"),
        Function("add_one"),
    ]
    of_array = [call(0, [r(0), i(0)], 1), call(2, [r(1)]), ret(1)]
    of_map = [call(1, [r(0), c(0)], 1), call(2, [r(1)]), ret(1)]
    functions = [*items, Function("array", of_array, ["x"]), Function("map", of_map, ["x"])]
    payload = Program(functions, ["a"], "classic", MAGIC).payload()
    root = mblob.blob_module("relax.VMExecutable", u64(len(payload)) + payload)
    root.import_module(mblob.csource_module(KERNEL))
    root.export_library(tmp_path / "x.so", dialect="classic", index=False)
    (tmp_path / "host.c").write_text(C_HOST)
    include, lib = installed / "include", installed / "lib"
    folders = ("-I", include, "-I", include / "mblob" / "compat")
    rest = (lib / "libmblob.a", "-pthread", "-ldl")
    run(require("cc"), *folders, tmp_path / "host.c", "-o", tmp_path / "host", *rest)
    assert run(tmp_path / "host", tmp_path / "x.so", container).stdout == "1 1\n"


def test_an_array_of_no_elements_is_no_error(probe: Probe) -> None:
    empty = mblob.from_dlpack(unaligned([1.0])[:0])
    over_tuple(probe)["main"]((empty, empty))
    assert probe.all_aligned()
