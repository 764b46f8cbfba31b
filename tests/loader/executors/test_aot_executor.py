"""Models compiled ahead of time: the key AotExecutorFactory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import payloads

# What TVM's compiler writes for y = x * w + k with memory planned at compile time: one pool of
# constants (k), one workspace pool. METADATA and the sizes can be replaced by flags.
MODEL = r"""
struct tensor_info { const char *name; const int64_t *shape; int64_t ndim; DLDataType dtype; };
struct constant_info { const char *name; int64_t offset, size; const void *record; };
struct metadata {
  int64_t version;
  const struct tensor_info *inputs; int64_t input_count;
  const struct tensor_info *outputs; int64_t output_count;
  const struct tensor_info *pools; int64_t pool_count;
  const struct constant_info *constants; int64_t constant_count;
  const char *name;
};
#ifndef VERSION
#define VERSION 1
#endif
#ifndef NDIM
#define NDIM 1
#endif
#ifndef OFFSET
#define OFFSET 64
#endif
#ifndef NAME
#define NAME "tvmgen_m"
#endif
#ifndef INPUTS
#define INPUTS inputs
#endif
static const int64_t shape[] = {4}, pool_shape[] = {256};
static const struct tensor_info inputs[] = {{"x", shape, NDIM, {2, 32, 1}}, {"w_0", shape, 1, {2, 32, 1}}};
static const struct tensor_info outputs[] = {{"output0", shape, 1, {2, 32, 1}}};
static const struct tensor_info pools[] = {{"global_workspace_0", pool_shape, 1, {0, 8, 1}}};
static const struct {
  uint64_t magic, reserved;
  int32_t device[2], ndim;
  DLDataType dtype;
  int64_t shape[1], size;
  float data[4];
} __attribute__((packed)) record = {0xDD5E40F096B4A13Full, 0, {1, 0}, 1, {2, 32, 1}, {4}, 16, {1, 2, 3, 4}};
static const struct constant_info constants[] = {{"k", OFFSET, sizeof record, &record}};
static const struct metadata meta = {VERSION, INPUTS, 2, outputs, 1, pools, 1, constants, 1, NAME};

KERNEL(get_c_metadata) { UNUSED; ret->v_handle = (void *)&meta; *ret_code = kTVMOpaqueHandle; return 0; }
KERNEL(tvmgen_m___tvm_main__) {
  UNUSED;
  if (n != 5) return fail("tvmgen_m___tvm_main__: num_args should be 5");
  for (int i = 0; i < 5; ++i)
    if (codes[i] != kTVMDLTensorHandle || (uintptr_t)tensor(args[i])->data % 64) return fail("tensors, please");
  if (tensor(args[3])->shape[0] != 80 || tensor(args[4])->shape[0] != 256) return fail("pools of a wrong size");
  float *x = tensor(args[0])->data, *w = tensor(args[1])->data, *y = tensor(args[2])->data;
  float *k = (float *)((char *)tensor(args[3])->data + 64), *t = tensor(args[4])->data;
  if (x[0] < 0) return fail("x is negative");
  for (int i = 0; i < 4; ++i) t[i] = x[i] * w[i];
  for (int i = 0; i < 4; ++i) y[i] = t[i] + k[i];
  return 0;
}
"""
W, K = np.array([2, 3, 4, 5], "float32"), np.array([1, 2, 3, 4], "float32")


@pytest.fixture
def model(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> Any:
    def make(*flags: str, params: Any = None) -> mblob.Module:
        factory = payloads.aot_factory({"w_0": W, "other": W} if params is None else params, "m")
        blob = packed_blob(
            [("AotExecutorFactory", factory), ("metadata_module", b""), ("library", None)],
            [[1], [2], []],
        )
        return mblob.load_module(
            build(tmp_path / "aot.so", kernel_source + MODEL, *flags, blob=blob)
        )

    return make


def test_a_model_of_tvm_gives_tvms_numbers(golden: Path) -> None:
    known = np.load(golden / "mlp_llvm.npz")
    executor = mblob.load_module(golden / "aot_mlp.so")["default"](mblob.cpu(0))
    executor["set_input"]("data", known["data"])
    executor["run"]()
    np.testing.assert_allclose(executor["get_output"](0).numpy(), known["out"], rtol=1e-5)


def test_parameters_constants_and_pools_reach_the_entry_function(model: Any) -> None:
    executor = model()["m"](mblob.cpu(0))
    assert executor.type_key == "AotExecutor"
    assert (executor["get_num_inputs"](), executor["get_num_outputs"]()) == (2, 1)
    # TVM sanitizes names
    assert [executor["get_input_index"](n) for n in ("x", "w_0", "w.0")] == [0, 1, 1]
    assert executor["get_input_name"](1) == "w_0"
    np.testing.assert_array_equal(executor["get_input"]("w_0").numpy(), W)
    for x in (np.arange(4, dtype="float32"), np.ones(4, "float32")):
        executor["set_input"](0, x)
        executor["run"]()
        np.testing.assert_array_equal(executor["get_output"]("output0").numpy(), x * W + K)
    out = mblob.empty((4,), "float32")
    executor["get_output"](0, out)
    np.testing.assert_array_equal(out.numpy(), W + K)


def test_executors_of_one_factory_are_independent_and_outlive_it(model: Any) -> None:
    factory = model()
    a, b = factory["m"](mblob.cpu(0)), factory["m"](mblob.cpu(0))
    del factory
    a["set_input"]("x", np.full(4, 2, "float32"))
    b["set_input"]("x", np.full(4, 5, "float32"))
    a["run"]()
    b["run"]()
    kept = a["get_output"](0)
    del a
    np.testing.assert_array_equal(kept.numpy(), 2 * W + K)
    np.testing.assert_array_equal(b["get_output"](0).numpy(), 5 * W + K)


def test_without_a_copy_the_callers_memory_is_used(model: Any) -> None:
    executor = model()["m"](mblob.cpu(0))
    x, y = mblob.array(np.ones(4, "float32")), mblob.empty((4,), "float32")
    executor["set_input_zero_copy"]("x", x)
    executor["set_output_zero_copy"](0, y)
    executor["run"]()
    np.testing.assert_array_equal(y.numpy(), W + K)
    x.numpy()[:] = 3
    executor["run"]()
    np.testing.assert_array_equal(y.numpy(), 3 * W + K)
    memory = np.zeros(64, "float32")
    start = next(i for i in range(1, 17) if memory[i:].ctypes.data % 64)
    with pytest.raises(ValueError, match=r"input 'x': its data is not aligned to 64 bytes"):
        executor["set_input_zero_copy"]("x", memory[start : start + 4])


def test_a_factory_without_parameters_has_none(model: Any) -> None:
    factory = model()
    assert factory["list_module_names"]() == ["m"]
    bare = factory["remove_params"]()
    del factory
    executor = bare["m"](mblob.cpu(0))
    executor["set_input"]("w_0", W + 1)
    executor["set_input"]("x", np.ones(4, "float32"))
    executor["run"]()
    np.testing.assert_array_equal(executor["get_output"](0).numpy(), W + 1 + K)


def test_kernels_are_found_beside_other_modules(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> None:
    entries = [
        ("AotExecutorFactory", payloads.aot_factory({"w_0": W}, "m")),
        ("note", b"hi"),
        ("library", None),
    ]
    blob = packed_blob(entries, [[1, 2], [], []])
    factory = mblob.load_module(
        build(tmp_path / "aot.so", kernel_source + MODEL, blob=blob), missing="stub"
    )
    for executor in (factory["m"](mblob.cpu(0)), factory["remove_params"]()["m"](mblob.cpu(0))):
        executor["set_input"]("w_0", W)
        executor["set_input"]("x", np.ones(4, "float32"))
        executor["run"]()
        np.testing.assert_array_equal(executor["get_output"](0).numpy(), W + K)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none", np.ones(4, "float32")), "no input 'none'; there are 2: x, w_0"),
        ((2, np.ones(4, "float32")), "no input 2; there are 2"),
        ((-1, np.ones(4, "float32")), "no input -1"),
        (("x", np.ones(5, "float32")), r"set_input: input 'x': expected shape \[4\], found \[5\]"),
        (("x", np.ones((2, 2), "float32")), r"input 'x': expected shape \[4\], found \[2,2\]"),
        (("x", np.ones(4)), "input 'x': expected float32, found float64"),
        (("x", 3), "expected a tensor, found an integer"),
        (("x",), "expected 2 arguments, found 1"),
    ],
)
def test_a_wrong_input_is_named_and_the_executor_goes_on(
    model: Any, arguments: Any, message: str
) -> None:
    executor = model()["m"](mblob.cpu(0))
    with pytest.raises((ValueError, TypeError, mblob.MblobError), match=message):
        executor["set_input"](*arguments)
    executor["set_input"]("x", np.ones(4, "float32"))
    executor["run"]()
    np.testing.assert_array_equal(executor["get_output"](0).numpy(), W + K)


def test_an_array_without_its_key_is_refused(model: Any) -> None:
    executor = mblob.aot_executor.AotModule(model()["m"](mblob.cpu(0)))
    for name in ("set_input", "set_input_zero_copy"):
        with pytest.raises(TypeError, match=f"{name}: the array has no key"):
            getattr(executor, name)(None, mblob.array(W))


def test_an_error_of_the_model_is_told_and_the_executor_goes_on(model: Any) -> None:
    executor = model()["m"](mblob.cpu(0))
    executor["set_input"]("x", np.full(4, -1, "float32"))
    with pytest.raises(mblob.KernelError, match="x is negative"):
        executor["run"]()
    executor["set_input"]("x", np.ones(4, "float32"))
    executor["run"]()
    np.testing.assert_array_equal(executor["get_output"](0).numpy(), W + K)


def test_another_device_is_refused(model: Any) -> None:
    factory = model()
    for device in (mblob.cuda(0), mblob.cpu(1)):
        with pytest.raises(mblob.IncompatibleError, match=r"run on cpu:0"):
            factory["m"](device)


def test_a_parameter_that_does_not_fit_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match=r"w_0: expected shape \[4\], found \[3\]"):
        model(params={"w_0": np.ones(3, "float32")})["m"](mblob.cpu(0))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("-DVERSION=2", "version 2 of the structure, expected 1"),
        ("-DNDIM=-1", "too many dimensions"),
        ("-DNDIM=65", "too many dimensions"),
        ("-DNDIM=4096", "too many dimensions"),
        ("-DOFFSET=-8", "a constant is outside"),
        ("-DOFFSET=0x7fffffff", "too much for a pool"),
        ('-DNAME="other"', "no entry function 'other___tvm_main__'"),
        ("-DNAME=(char*)16", "the model has no name"),
        ("-DINPUTS=(void*)16", "outside of the library"),
    ],
)
def test_metadata_that_lies_is_refused(model: Any, flag: str, message: str) -> None:
    with pytest.raises(mblob.MblobError, match=message):
        model(flag)["m"](mblob.cpu(0))


def test_the_python_face(model: Any) -> None:
    executor = mblob.aot_executor.AotModule(model()["m"](mblob.cpu(0)))
    executor.run(x=np.ones(4, "float32"))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), W + K)
    executor.set_input("x", np.full(4, 2, "float32"), w_0=W + 1)
    executor.run()
    out = mblob.empty((4,), "float32")
    assert executor.get_output("output0", out) is out
    np.testing.assert_array_equal(out.numpy(), 2 * (W + 1) + K)
    np.testing.assert_array_equal(executor.get_input("x").numpy(), np.full(4, 2, "float32"))
    assert (executor.get_num_inputs(), executor.get_num_outputs()) == (2, 1)
    assert (executor.get_input_index("w_0"), executor.get_input_name(0)) == (1, "x")
    assert executor.get_input_info() == ({"x": [4], "w_0": [4]}, {"x": "float32", "w_0": "float32"})
    assert executor.get_output_info() == ({"output0": [4]}, {"output0": "float32"})
    executor.set_input_zero_copy("x", mblob.array(np.full(4, 3, "float32")))
    executor.set_output_zero_copy(0, out)
    executor["run"]()
    np.testing.assert_array_equal(out.numpy(), 3 * (W + 1) + K)


CALLS_THE_RUNTIME = r"""
extern void *__tvm_module_ctx;
int32_t outer(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self) {
  (void)self;
  TVMFunctionHandle f;
  for (int i = 0; i < 2; ++i) {
    if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, i ? "aot_test_second" : "aot_test_first", &f)) return -1;
    for (int k = 0; k <= i; ++k)
      if (TVMFuncCall(f, args, codes, n, ret, ret_code)) return -1;
  }
  return 0;
}
"""


def test_time_is_told_as_far_as_it_is_seen(model: Any) -> None:
    executor = mblob.aot_executor.AotModule(model()["m"](mblob.cpu(0)))
    (row,) = executor.profile(3, x=np.ones(4, "float32"))
    assert (row.function, row.count) == ("tvmgen_m___tvm_main__", 3)
    assert row.seconds > 0
    np.testing.assert_array_equal(executor.get_output(0).numpy(), W + K)
    with pytest.raises(mblob.KernelError, match="x is negative"):
        executor.profile(x=np.full(4, -1, "float32"))
    with pytest.raises(ValueError, match="repeat 0, expected at least 1"):
        executor.profile(0)
    executor.run(x=np.ones(4, "float32"))


def test_calls_through_the_runtime_have_times_of_their_own(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> None:
    """The entry function calls one function of the process once and another twice, the first one
    again inside."""
    first_calls, second_calls = [], []
    first = mblob.register_func("aot_test_first", override=True)(
        lambda *args: first_calls.append(len(args))
    )

    @mblob.register_func("aot_test_second", override=True)
    def second(*args: Any) -> None:
        second_calls.append(len(args))
        first(*args)

    entry = "KERNEL(tvmgen_m___tvm_main__) {"
    call = "if (outer(args, codes, n, ret, ret_code, self)) return -1;"
    source = MODEL.replace(entry, CALLS_THE_RUNTIME + entry + call)
    blob = packed_blob(
        [("AotExecutorFactory", payloads.aot_factory({}, "m")), ("library", None)], [[1], []]
    )
    factory = mblob.load_module(build(tmp_path / "aot.so", kernel_source + source, blob=blob))
    executor = mblob.aot_executor.AotModule(factory["m"](mblob.cpu(0)))
    rows = executor.profile(2, x=np.ones(4, "float32"))
    assert [(row.function, row.count) for row in rows] == [
        ("tvmgen_m___tvm_main__", 2),
        ("aot_test_first", 2),
        ("aot_test_second", 4),
    ]
    assert rows[0].seconds >= rows[1].seconds + rows[2].seconds > 0
    assert (len(first_calls), len(second_calls)) == (6, 4)
    executor.run()  # nobody watches any more
    assert (len(first_calls), len(second_calls)) == (9, 6)


def test_a_benchmark_has_the_shape_of_tvms(model: Any) -> None:
    executor = mblob.aot_executor.AotModule(model()["m"](mblob.cpu(0)))
    result = executor.benchmark(repeat=3, number=4, end_to_end=True, x=np.ones(4, "float32"))
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max
    with pytest.raises(ValueError, match="expected func_name 'run', found 'main'"):
        executor.benchmark(func_name="main")
    with pytest.raises(ValueError, match="no input 'z'; there are 2: x, w_0"):
        executor.benchmark(z=1)


def test_the_library_closes_with_the_last_executor(model: Any, tmp_path: Path, mapped: Any) -> None:
    executor = model()["m"](mblob.cpu(0))
    executor["set_input"]("x", np.ones(4, "float32"))
    executor["run"]()
    output = executor["get_output"](0)
    gc.collect()
    assert mapped(tmp_path / "aot.so")
    del executor
    gc.collect()
    assert not mapped(tmp_path / "aot.so")
    np.testing.assert_array_equal(output.numpy(), W + K)
