"""TVM's tests of today (0.27): codegen, runtime. Its kernels are compiled and called by apache-tvm,
then loaded and called by mblob; results, bytes of arrays, and errors are the same.

`tests/peers/tvm_today.py` has the kernels.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from tests.e2e.programs import run
from tests.peers import kernel, tvm_today, tvm_today_more, tvm_today_te
from tests.peers.cases import Case, holding, names
from tests.peers.outcomes import outcomes_of
from tests.peers.tvm_today_more import HOST

KERNELS: dict[str, list[tuple[str, tvm_today.Kernel]]] = defaultdict(list)
for _library, _kernels in tvm_today.libraries().items():
    for _name, _kernel in _kernels.items():
        KERNELS[_kernel.case].append((f"{_library}.{_name}", _kernel))

GPU = "the test needs a GPU; tests/e2e/cuda and tests/loader/opencl run kernels on one"
REFUSED = "TVM's compiler refuses the program, so there is no library"
COMPILER = "the test reads what TVM's compiler writes, and runs nothing"
TEXT = "the test loads LLVM IR (`.ll`), which needs TVM's compiler"
SKIPPED = "TVM skips the test"
WHEEL = "the test looks for a file in TVM's wheel"
RPC = "mblob has no RPC"
MEASURE = "mblob has no `tvm.contrib.random.random_fill_for_measure`, which TVM's tuners call"
GLOBAL = (
    "`ctypes.CDLL` cannot open a library that was linked from objects of TVM's compiler, unless the program"
    " opened libmblob-ffi.so first, with `ctypes.RTLD_GLOBAL`"
)
PROPERTY = "a module of C sources is not binary serializable, as in TVM 0.19 and before"
INVALID = ("int8", "uint8", "int32", "uint32", "uint64")

# -- runtime/test_runtime_nd_array -----------------------------------------------------------------

ND = "test_runtime_nd_array"
NUMBERS = np.arange(1024, dtype="int32")


def viewed(
    shape: list[int], start: int, *steps: tuple[int, int], two: bool = False
) -> Callable[[], None]:
    """A view of 1024 numbers, of views `steps` (elements, first element), has those from `start` on."""

    def check() -> None:
        given = NUMBERS.reshape(32, 32) if two else NUMBERS
        view = tvm.runtime.tensor(given)
        for count, first in steps:
            view = view._create_view([count], relative_byte_offset=4 * first)
        found = view._create_view(shape) if list(view.shape) != shape else view
        expected = NUMBERS[start : start + int(np.prod(shape))].reshape(shape)
        np.testing.assert_array_equal(found.numpy(), expected)

    return check


def refused(shape: list[int], offset: int, text: str, *steps: int) -> Callable[[], None]:
    def check() -> None:
        view = tvm.runtime.tensor(NUMBERS)
        for count in steps:
            view = view._create_view([count])
        with pytest.raises(ValueError, match=text):
            view._create_view(shape, relative_byte_offset=4 * offset)

    return check


def second_half_of_two() -> None:
    view = tvm.runtime.tensor(NUMBERS.reshape(32, 32))
    half = view._create_view([16, 32], relative_byte_offset=32 * 16 * 4)
    np.testing.assert_array_equal(half.numpy(), NUMBERS[512:].reshape(16, 32))


ARRAYS = [
    Case(f"{ND}.test_1d_full_view_of_1d_arr", viewed([1024], 0)),
    Case(f"{ND}.test_1d_view_of_first_half_of_1d_arr", viewed([512], 512, (512, 512))),
    Case(
        f"{ND}.test_view_larger_than_original_is_invalid",
        refused([2048], 0, "only contains 4096 bytes"),
    ),
    Case(
        f"{ND}.test_view_entirely_outside_bounds_of_original_is_invalid",
        refused([1024], 2048, "would occupy bytes 8192 <= i_byte < 12288"),
    ),
    Case(
        f"{ND}.test_view_partially_outside_bounds_of_original_is_invalid",
        refused([1024], 512, "would occupy bytes 2048 <= i_byte < 6144"),
    ),
    Case(f"{ND}.test_subview_first_half_of_first_half", viewed([256], 0, (512, 0), (256, 0))),
    Case(f"{ND}.test_subview_first_half_of_second_half", viewed([256], 512, (512, 512), (256, 0))),
    Case(f"{ND}.test_subview_second_half_of_first_half", viewed([256], 256, (512, 0), (256, 256))),
    Case(
        f"{ND}.test_subview_second_half_of_second_half", viewed([256], 768, (512, 512), (256, 256))
    ),
    Case(
        f"{ND}.test_subview_must_be_in_range_of_immediate_parent",
        refused([512], 512, "would occupy bytes 2048 <= i_byte < 4096", 512),
    ),
    Case(f"{ND}.test_2d_view_into_1d_arr", viewed([32, 32], 0)),
    Case(f"{ND}.test_2d_full_view_into_2d_arr", viewed([16, 64], 0, two=True)),
    Case(f"{ND}.test_2d_view_of_first_half_of_2d_arr", viewed([16, 32], 0, two=True)),
    Case(f"{ND}.test_2d_view_of_second_half_of_2d_arr", second_half_of_two),
]

# -- runtime/test_executable, test_runtime_measure, test_runtime_trace ------------------------------

SOURCE = """void add(const float *a, const float *b, float *c) { for (int i = 0; i < 10; i++) c[i] = a[i] + b[i]; }"""


def executable() -> Any:
    prototype = "void add(const float a[10], const float b[10], float c[10])"
    return tvm.runtime.Executable(mblob.csource_module(SOURCE, functions=[prototype]))


def check_add(function: Any) -> None:
    a, b, c = (tvm.runtime.tensor(np.full(10, v, "float32")) for v in (1, 2, 0))
    function(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.full(10, 3, "float32"))


def executable_init() -> None:
    made = executable()
    assert tvm.runtime.Executable(made.mod).mod is made.mod and made._jitted_mod is None


def executable_jit() -> None:
    made = executable()
    first, again, forced = made.jit(), made.jit(), made.jit(force_recompile=True)
    assert first is again and forced is not first
    check_add(first["add"])
    check_add(forced["add"])


def executable_export(workspace: bool) -> Callable[[], None]:
    def check() -> None:
        with tvm.contrib.utils.tempdir() as temp:
            Path(temp.relpath("w")).mkdir()
            more = {"workspace_dir": temp.relpath("w")} if workspace else {}
            executable().export_library(temp.relpath("lib.so"), **more)
            check_add(tvm.runtime.load_module(temp.relpath("lib.so"))["add"])

    return check


def min_repeat() -> None:
    calls: list[int] = []
    function = mblob.packed_function(lambda: calls.append(1))
    module = mblob.Module("timed", functions={"f": function})
    module.time_evaluator("f", tvm.cpu(), number=1, repeat=1)()
    assert len(calls) == 2
    module.time_evaluator("f", tvm.cpu(), number=1, repeat=1, min_repeat_ms=20)()
    assert len(calls) > 12


def benchmark_result() -> None:
    r = tvm.runtime.module.BenchmarkResult([1, 2, 2, 5])
    assert (r.mean, r.median, r.min, r.max, r.std) == (2.5, 2.0, 1, 5, 1.5)


# -- other files of runtime/, contrib/ -------------------------------------------------------------


def device_exists() -> None:
    script = "import mblob.compat.tvm as tvm; print(tvm.device('cuda').exist)"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    assert run(sys.executable, "-c", script, env=hidden).stdout == "False\n"


OF_KIND = """
#include <tvm/ffi/c_api.h>
int __tvm_ffi_f(void *h, const TVMFFIAny *a, int32_t n, TVMFFIAny *r) {
  TVMFFIErrorSetRaisedFromCStr("OpNotImplemented", "myop");
  return -1;
}
"""


def loaded(module: Any) -> Any:
    with TemporaryDirectory() as folder:
        module.export_library(f"{folder}/lib.so", dialect="ffi")
        return tvm.runtime.load_module(f"{folder}/lib.so")


def not_implemented() -> None:
    with pytest.raises(tvm.error.OpNotImplemented, match="myop") as caught:
        loaded(mblob.csource_module(OF_KIND))["f"]()
    assert isinstance(caught.value, NotImplementedError)


ADDERS = "void {name}(const float *x, float *y) {{ for (int i = 0; i < 12; i++) y[i] = x[i] + 1; }}"
ADDER = "void {name}(const float x[12], float y[12])"


def adder(name: str, **options: Any) -> Any:
    source, prototype = ADDERS.format(name=name), ADDER.format(name=name)
    return mblob.csource_module(source, functions=[prototype], **options)


def check_adders(library: Any, *functions: str) -> None:
    x, y = tvm.runtime.tensor(np.arange(12, dtype="float32")), tvm.runtime.empty((12,), "float32")
    for name in functions:
        library[name](x, y)
        np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)


ADDER_OF_TVM = """
#include <tvm/ffi/c_api.h>
int __tvm_ffi_myadd1(void *h, const TVMFFIAny *a, int32_t n, TVMFFIAny *r) {
  DLTensor *x = a[0].v_ptr, *y = a[1].v_ptr;
  for (int i = 0; i < 12; i++) ((float *)y->data)[i] = ((float *)x->data)[i] + 1;
  return 0;
}
"""


def static_library() -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "mod1.c").write_text(ADDER_OF_TVM)
        run("cc", "-c", "-fPIC", f"-I{mblob.get_include()}/mblob/compat", "mod1.c", cwd=folder)
        library = tvm.runtime.load_static_library(f"{folder}/mod1.o", ["myadd1"])
        assert library.implements_function("myadd1") and library.is_compilation_exportable()
        root = adder("myadd0")
        root.import_module(library)
        found = loaded(root)
    assert found.kind == "library" and not found.imports and not found.is_compilation_exportable()
    assert found.implements_function("myadd0") and found.implements_function("myadd1")
    check_adders(found, "myadd0", "myadd1")


def drawn(name: str, *arguments: Any, shape: tuple[int, ...] = (512, 512)) -> Any:
    x = tvm.runtime.empty(shape, "int32" if name == "randint" else "float32")
    tvm.get_global_func(f"tvm.contrib.random.{name}")(*arguments, x)
    return x.numpy()


def drawn_integers() -> None:
    found = drawn("randint", -127, 128)
    assert abs(found.mean()) < 1 and (found.min(), found.max()) == (-127, 127)


def drawn_evenly() -> None:
    found = drawn("uniform", 0.0, 1.0)
    assert abs(found.mean() - 0.5) < 0.01 and found.min() < 1e-3 and found.max() > 1 - 1e-3


def drawn_normally() -> None:
    found = drawn("normal", 3.0, 4.0)
    assert abs(found.mean() - 3) < 0.1 and abs(found.std() - 4) < 0.1


def filled() -> None:
    found = drawn("random_fill")
    assert np.isfinite(found * found + found).all() and np.count_nonzero(found) == found.size


def lent_shape_one() -> None:
    row = np.arange(16, dtype="float32")
    x = tvm.runtime.from_dlpack(np.lib.stride_tricks.as_strided(row, (1, 16), (4, 4)))
    y = tvm.runtime.empty((12,), "float32")
    loaded(adder("f"))["f"](x._create_view((12,)), y)
    np.testing.assert_array_equal(y.numpy(), row[:12] + 1)


def lent_view() -> None:
    row = np.arange(16, dtype="float32").reshape(1, 16)
    view = tvm.runtime.from_dlpack(row)._create_view((2, 8))
    np.testing.assert_array_equal(view.numpy(), row.reshape(2, 8))


RUNTIME = [
    Case("test_executable.test_executable_init", executable_init),
    Case("test_executable.test_executable_getitem", lambda: check_add(executable()["add"])),
    Case("test_executable.test_executable_jit_already_jitted", executable_jit),
    Case("test_executable.test_executable_jit_force_recompile", executable_jit),
    Case("test_executable.test_executable_export_library", executable_export(False)),
    Case("test_executable.test_executable_export_library_with_workspace", executable_export(True)),
    Case(
        "test_executable.test_executable_integration", lambda: check_add(executable().jit()["add"])
    ),
    Case("test_runtime_measure.test_min_repeat_ms", min_repeat),
    Case("test_runtime_measure.test_benchmark_result", benchmark_result),
    Case("test_runtime_device_api.test_check_if_device_exists", device_exists),
    Case("test_runtime_error.test_op_translation_to_not_implemented", not_implemented),
    Case("test_runtime_module_export.test_import_static_library", static_library),
    Case("test_runtime_module_load.test_combine_module_llvm", differs=GLOBAL),
    Case("test_runtime_dlpack.test_from_dlpack_shape_one", lent_shape_one),
    Case("test_runtime_dlpack.test_from_dlpack_strided", lent_view),
    Case("test_random.test_randint", drawn_integers),
    Case("test_random.test_uniform", drawn_evenly),
    Case("test_random.test_normal", drawn_normally),
    Case("test_random.test_random_fill", filled),
    Case("test_random.test_random_fill_mt", differs=MEASURE),
    Case(
        "test_validate_runtime_library.test_llvm_enabled",
        lambda: tvm.runtime.enabled("llvm") or pytest.fail(),
    ),
    Case("test_runtime_module_load.test_device_module_dump", unsaid=GPU),
    *(
        Case(f"test_runtime_module_load.test_dso_module_load[{x}]", unsaid=TEXT)
        for x in ("llvm", "mcjit")
    ),
    Case("test_runtime_module_property.test_property", differs=PROPERTY),
    Case("test_roundtrip_runtime_module.test_csource_module", unsaid=COMPILER),
    Case("test_validate_runtime_library.test_cuda_runtime_present", unsaid=WHEEL),
    *(Case(f"test_rpc_base.test_rpc_base_random_key[{n}]", unsaid=RPC) for n in (0, 1)),
]
PARTS = ("test_buffer_load_predicate_not_supported", "test_buffer_store_predicate_not_supported")
DEVICES = ("cuda", "opencl", "metal", "rocm", "vulkan")
NOT_COMPILED = [
    *(
        Case(f"test_target_codegen_llvm.{test}", unsaid=REFUSED)
        for test in (
            "test_call_packed_without_string_arg", "test_duplicate_primfunc_global_symbol_diagnostic",
            "test_invalid_volatile_masked_buffer_load", "test_invalid_volatile_masked_buffer_store",
            "test_invalid_volatile_masked_decl_buffer_load", "test_raise_exception_during_codegen",
        )
    ),
    *(Case(f"test_target_codegen.{test}", unsaid=REFUSED) for test in PARTS),
    *(Case(f"test_tir_imm_values.test_tir_invalid_intimm[{d}]", unsaid=REFUSED) for d in INVALID),
    *(
        Case(f"test_tir_imm_values.test_tir_invalid_floatimm[{d}]", unsaid=REFUSED)
        for d in ("float16", "float32")
    ),
    *(
        Case(f"test_te_create_primfunc.test_topi_float_unary_rejects_integer_input[{f}]", unsaid=REFUSED)
        for f in tvm_today_te.UNARY
    ),
    Case("test_te_create_primfunc.test_error_reporting", unsaid=REFUSED),
    *(Case(f"test_te_tensor.{test}", unsaid=REFUSED) for test in ("test_tensor_scan", "test_scan_multi_out")),
    Case("test_te_verify_compute.test_verify_compute", unsaid=COMPILER),
    Case("test_target_codegen_c_host.test_vector_access_ptr_address_uses_ramp_base", unsaid=COMPILER),
    *(
        Case(f"test_target_codegen.test_decl_buffer_offset_preserves_storage_scope[{d}]", unsaid=COMPILER)
        for d in ("opencl", "metal")
    ),
    *(
        Case(f"test_codegen_error_handling.test_data_alignment_error[{t}]", unsaid=SKIPPED)
        for t in tvm_today.TARGETS
    ),
    Case("test_codegen_error_handling.test_device_mismatch_error", unsaid=GPU),
    *(Case(f"test_target_codegen.{test}_gpu[{d}]", unsaid=GPU) for test in PARTS for d in DEVICES),
    *(Case(f"test_target_codegen_bool.test_cmp_load_store[{d}]", unsaid=GPU) for d in DEVICES),
    *(Case(f"test_tir_intrin.test_clz[{d}-vulkan]", unsaid=GPU) for d in ("int32", "int64")),
]  # fmt: skip
COMPILED = [*(Case(name) for name in KERNELS), *NOT_COMPILED]
CASES = [*COMPILED, *ARRAYS, *RUNTIME]


pytestmark = pytest.mark.own_process


@pytest.mark.parametrize(
    "case", holding([*ARRAYS, *RUNTIME]), ids=names(holding([*ARRAYS, *RUNTIME]))
)
def test_a_case_of_the_runtime_holds(case: Case) -> None:
    assert case.check is not None
    case.check()


@pytest.fixture(scope="module")
def compiled(package_of: Callable[[str], Path]) -> Path:
    """The folder with what TVM made."""
    return outcomes_of(package_of("tvm"), tvm_today, tvm_today_more, tvm_today_te, kernel)


@pytest.fixture(scope="module")
def outcomes(compiled: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((compiled / "outcomes.json").read_text())
    return found


@pytest.fixture(scope="module")
def libraries(compiled: Path) -> dict[str, mblob.Module]:
    for name, function in HOST.items():
        mblob.register_func(name, function, override=True)
    return {name: mblob.load_module(compiled / f"{name}.so") for name in tvm_today.libraries()}


@pytest.mark.parametrize("suite", sorted({name.partition("[")[0] for name in KERNELS}))
def test_kernels_of_tvm_have_the_outcomes_of_tvm(
    suite: str, outcomes: dict[str, list[Any]], libraries: dict[str, mblob.Module]
) -> None:
    rows = [row for name, of in KERNELS.items() if name.partition("[")[0] == suite for row in of]
    for place, given in rows:
        library, _, function = place.partition(".")
        call = libraries[library][function]
        for arguments, expected in zip(given.calls, outcomes[place]):
            found = tvm_today.outcome(call, arguments, mblob.array, lambda x: x)
            assert set(expected.pop("classes", ())) <= set(found.pop("classes", ())), given
            assert found == expected, given
