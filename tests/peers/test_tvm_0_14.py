"""TVM 0.14's tests of its runtime, with the names of `mblob.compat.tvm`.

What TVM compiled there from Relay, mblob packs from C here: `kernels` below, and the two modules
`tvm_0_14_*`. `tests/loader` runs the libraries that TVM 0.14 itself exported.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from mblob.compat.tvm.contrib import graph_executor
from mblob.compat.tvm.contrib.debugger import debug_executor
from tests.e2e.programs import run
from tests.loader.conftest import KERNELS as MACROS
from tests.loader.executors import vm_programs
from tests.peers import tvm_0_14_networks, tvm_0_14_regions
from tests.peers.cases import Case, holding, names

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
void dense(const float *x, const float *w, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i] * w[i]; }
void add(const float *x, float *y) { for (int i = 0; i < 4; i++) y[i] = x[i] + 1; }
"""
DENSE = "void dense(const float x[4], const float w[4], float y[4])"
PROTOTYPES = [DENSE, "void add(const float x[4], float y[4])"]
DATA, WEIGHT = np.array([1, 2, 3, 4], "float32"), np.array([4, 3, 2, 1], "float32")
OUT = (DATA * WEIGHT + 1).tolist()
CPU = tvm.cpu(0)


def _operator(name: str, *inputs: int) -> dict[str, Any]:
    attrs = {"func_name": name, "num_inputs": str(len(inputs)), "num_outputs": "1"}
    attrs["flatten_data"] = "0"
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]}


def _input(name: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "inputs": []}


GRAPH = {
    "nodes": [_input("data"), _input("p0"), _operator("dense", 0, 1), _operator("add", 2)],
    "arg_nodes": [0, 1],
    "heads": [[3, 0, 0]],
    "node_row_ptr": [0, 1, 2, 3, 4],
    "attrs": {
        "dltype": ["list_str", ["float32"] * 4],
        "storage_id": ["list_int", [0, 1, 2, 3]],
        "shape": ["list_shape", [[4]] * 4],
    },
}


def kernels() -> mblob.Module:
    return mblob.csource_module(KERNELS, functions=PROTOTYPES, packed="name")


def factory() -> mblob.Module:
    made = mblob.graph_executor_factory(GRAPH, {"p0": WEIGHT})
    made.import_module(kernels())
    return made


@pytest.fixture(scope="module", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library that most cases load."""
    path = tmp_path_factory.mktemp("peers") / "deploy_lib.so"
    factory().export_library(path)
    LOADED["path"] = path
    folder = Path(os.environ.get("MBLOB_GOLDEN") or ROOT.parent / "shared" / "golden")
    if folder.is_dir():
        LOADED["golden"] = folder
    yield
    LOADED.clear()


LOADED: dict[str, Path] = {}


def loaded() -> mblob.Module:
    return tvm.runtime.load_module(LOADED["path"])


def exported(module: mblob.Module, name: str = "lib.so") -> mblob.Module:
    with TemporaryDirectory() as folder:
        module.export_library(f"{folder}/{name}")
        return tvm.runtime.load_module(f"{folder}/{name}")


def check_model(module: Any, **inputs: Any) -> None:
    gm = graph_executor.GraphModule(module)
    gm.set_input("data", DATA, **inputs)
    gm.run()
    assert gm.get_output(0).numpy().tolist() == OUT


# -- test_runtime_module_based_interface, test_runtime_graph, test_runtime_graph_debug --------------


def legacy() -> None:
    gm = graph_executor.create(loaded()["get_graph_json"](), loaded().imports[0], CPU)
    gm.set_input("data", DATA)
    gm.set_input(**loaded().get_params())
    gm.run()
    assert gm.get_output(0).numpy().tolist() == OUT


def raw_functions() -> None:
    gm = factory()["default"](CPU)
    gm["set_input"]("data", tvm.nd.array(DATA))
    gm["run"]()
    assert gm["get_output"](0).numpy().tolist() == OUT
    check_model(factory()["default"](CPU))


def graph_text() -> None:
    text = loaded()["get_graph_json"]()
    assert isinstance(text, str) and '"dense"' in text


def params_compare() -> None:
    np.testing.assert_array_equal(loaded()["get_graph_params"]()["p0"].numpy(), WEIGHT)


def export(*suffixes: str) -> Callable[[], None]:
    def check() -> None:
        for suffix in suffixes:
            check_model(exported(factory(), f"lib{suffix}")["default"](CPU))

    return check


def remove_params() -> None:
    for bare in (factory()["remove_params"](), loaded()["remove_params"]()):
        module = exported(bare)
        gm = graph_executor.GraphModule(module["default"](CPU))
        gm.set_input("data", DATA)
        gm.load_params(tvm.runtime.save_param_dict(factory().get_params()))
        gm.run()
        assert gm.get_output(0).numpy().tolist() == OUT


def debug_module() -> None:
    with TemporaryDirectory() as folder:
        made = debug_executor.create(
            loaded()["get_graph_json"](), loaded().imports[0], CPU, dump_root=folder
        )
        made.set_input(data=DATA, p0=WEIGHT)
        made.run()
        assert made.get_output(0).numpy().tolist() == OUT
        assert len(list(Path(folder).rglob("*"))) == 4  # a folder, graph, tensors, trace
    check_model(loaded()["debug_create"]("default", CPU))
    result = debug_executor.GraphModuleDebug(
        loaded()["debug_create"]("default", CPU), [CPU], loaded()["get_graph_json"](), None
    )
    result.run(data=DATA)
    out = tvm.nd.empty((4,))
    result.debug_get_output("dense", out)
    assert out.numpy().tolist() == (DATA * WEIGHT).tolist()


def single_node() -> None:
    made = debug_executor.GraphModuleDebug(
        loaded()["debug_create"]("default", CPU), [CPU], loaded()["get_graph_json"](), None
    )
    made.set_input(data=DATA)
    nodes = made.debug_datum.get_graph_nodes() if made.debug_datum else []
    assert [n["op"] for n in nodes] == ["param", "param", "dense", "add"] and nodes[2]["shape"] == [
        4
    ]
    assert made.run_individual_node(0, number=1).mean == 0
    assert made.run_individual_node(2, repeat=1).mean > 0
    assert len(made.run_individual_node(2, repeat=10).results) == 10
    with pytest.raises(tvm.TVMError):
        made.run_individual_node(4)


def several_outputs() -> None:
    source = "void split(const float *x, float *a, float *b) { a[0] = x[0], a[1] = x[1], b[0] = x[2], b[1] = x[3]; }"
    prototype = "void split(const float x[4], float a[2], float b[2])"
    halves = _operator("split", 0)
    halves["attrs"]["num_outputs"] = "2"
    graph = {
        "nodes": [_input("data"), halves],
        "arg_nodes": [0],
        "heads": [[1, 1, 0], [1, 0, 0]],
        "node_row_ptr": [0, 1, 3],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 3],
            "storage_id": ["list_int", [0, 1, 2]],
            "shape": ["list_shape", [[4], [2], [2]]],
        },
    }
    lib = exported(mblob.csource_module(source, functions=[prototype], packed="name"))
    with TemporaryDirectory() as folder:
        made = debug_executor.create(json.dumps(graph), lib, CPU, dump_root=folder)
        made.run(data=DATA)
        assert made.debug_datum and [
            made.debug_datum.get_graph_node_output_num(n)
            for n in made.debug_datum.get_graph_nodes()
        ] == [1, 2]
        (tensors,) = Path(folder).rglob("*.params")
        found = tvm.runtime.load_param_dict(tensors.read_bytes())
    assert {name: x.numpy().tolist() for name, x in found.items()} == {
        "data____topo-index:0____output-num:0": [1, 2, 3, 4],
        "split____topo-index:1____output-num:0": [1, 2],
        "split____topo-index:1____output-num:1": [3, 4],
    }
    assert [made.get_output(i).numpy().tolist() for i in range(2)] == [[3, 4], [1, 2]]


def static_object() -> None:
    with TemporaryDirectory() as folder:
        Path(folder, "first.c").write_text(_RETURNS.format(name="first", value=1))
        run(
            "cc",
            "-c",
            "-fPIC",
            f"-I{mblob.get_include()}/mblob/compat",
            "first.c",
            "-o",
            "first.o",
            cwd=folder,
        )
        module = mblob.csource_module(_RETURNS.format(name="second", value=2))
        module.import_module(tvm.runtime.load_static_library(f"{folder}/first.o", ["first"]))
        found = exported(module)
    assert found["first"]() == 1 and found["second"]() == 2


_RETURNS = (
    "#include <tvm/runtime/c_backend_api.h>\nTVM_DLL int {name}(TVMValue *a, int *c, int n, TVMValue *r,"
    " int *t, void *p) {{ r->v_int64 = {value}; *t = kTVMArgInt; return 0; }}"
)


def several_modules() -> None:
    lib = mblob.csource_module(_RETURNS.format(name="f", value=1))
    lib.import_module(mblob.blob_module("a", b"1"))
    lib.import_module(mblob.blob_module("b", b"2"))
    found = exported(lib)
    assert {m.type_key for m in found.imported_modules} == {"a", "b"} and found["f"]() == 1
    assert found.get_function("f")() == 1


def zero_copy() -> None:
    gm = graph_executor.GraphModule(loaded()["default"](CPU))
    data, out = tvm.nd.array(DATA), tvm.nd.empty((4,))
    gm.set_input_zero_copy(data=data)
    gm.set_output_zero_copy(0, out)
    gm.run()
    assert out.numpy().tolist() == OUT


def unexpected_params() -> None:
    gm = graph_executor.GraphModule(loaded()["default"](CPU))
    gm.load_params(tvm.runtime.save_param_dict({"p0": WEIGHT, "y_unknown": np.ones(1, "float32")}))
    check_model(gm.module)


def parameter_file() -> None:
    with TemporaryDirectory() as folder:
        path = f"{folder}/p.params"
        given = {"w": np.array([1, 2], "float32"), "zero": np.zeros((0,), "float32")}
        tvm.runtime.save_param_dict_to_file(given, path)
        found = tvm.runtime.load_param_dict_from_file(path)
        assert {k: v.numpy().tolist() for k, v in found.items()} == {"w": [1, 2], "zero": []}


# -- test_runtime_module_export, _load, _property, _error, _container, _measure --------------------


def export_several() -> None:
    model = factory()
    outer = mblob.graph_executor_factory(GRAPH, {"p0": WEIGHT}, "second")
    outer.import_module(model)
    found = exported(outer)
    check_model(found["second"](CPU))
    check_model(found.imports[0]["default"](CPU))


def load_tree() -> None:
    root = kernels()
    root.import_module(mblob.blob_module("metadata.own", b"{}"))
    found = exported(root)
    assert found.type_key == "library" and found.imported_modules[0].payload == b"{}"
    y = tvm.nd.empty((4,))
    found["add"](tvm.nd.array(DATA), y)
    assert y.numpy().tolist() == (DATA + 1).tolist()
    assert found.implements_function("add") and not found.implements_function("none")
    with pytest.raises(AttributeError, match="none"):
        found["none"]


def properties() -> None:
    for module, serializable, runnable, exportable in (
        (kernels(), False, False, True),
        (loaded().imports[0], False, True, False),
        (loaded()["default"](CPU), False, True, False),
    ):
        assert module.is_binary_serializable == serializable
        assert module.is_runnable == runnable and module.is_dso_exportable == exportable


def raised(kind: str, expected: type[Exception]) -> Callable[[], None]:
    def check() -> None:
        source = (
            "#include <tvm/runtime/c_backend_api.h>\nTVM_DLL int f(TVMValue *a, int *c, int n, TVMValue *r, int *t,"
            f' void *p) {{ TVMAPISetLastError("{kind}: myop"); return -1; }}'
        )
        with pytest.raises(expected, match="myop") as caught:
            exported(mblob.csource_module(source))["f"]()
        assert isinstance(caught.value, tvm.TVMError)

    return check


def deep_callback() -> None:
    def failing() -> None:
        raise ValueError("callback error")

    first = tvm.runtime.convert(failing)
    second = tvm.runtime.convert(lambda: first())
    with pytest.raises(ValueError, match="callback error") as caught:
        tvm.runtime.convert(lambda: second())()
    names_of_frames = [entry.name for entry in caught.traceback]
    assert names_of_frames[-1] == "failing"


def adt() -> None:
    arr = tvm.nd.array([1, 2, 3])
    made = tvm.runtime.container.ADT(0, [arr, arr])
    assert len(made) == 2 and made.tag == 0 and isinstance(made, mblob.vm.ADT)
    assert made[0:1][-1].numpy().tolist() == [1, 2, 3]


def pair() -> None:
    value = tvm.runtime.container.tuple_object(
        [tvm.nd.array(np.array(11)), tvm.nd.array(np.array(12))]
    )
    assert [int(v.numpy()) for v in value] == [11, 12]


def strings() -> None:
    s = tvm.runtime.String("xyz")
    assert isinstance(s, str) and s + "1" == "xyz1" and pickle.loads(pickle.dumps(s)) == s
    assert tvm.runtime.convert(lambda x: x)(s) == s


def shape_tuples() -> None:
    made = tvm.runtime.container.ShapeTuple([-3, 0, 7])
    assert (
        list(made) == [-3, 0, 7]
        and made == (-3, 0, 7)
        and made == tvm.runtime.ShapeTuple((-3, 0, 7))
    )
    assert pickle.loads(pickle.dumps(made)) == made


def shape_one() -> None:
    row = np.arange(16, dtype="float32")
    data = np.lib.stride_tricks.as_strided(row, (1, 16), (4, 4))  # compact has strides (64, 4)
    found = tvm.nd.from_dlpack(data)
    assert found.address == data.ctypes.data and found.numpy().tolist() == data.tolist()


def view() -> None:
    data = np.arange(16, dtype="float32").reshape(1, 16)
    found = tvm.nd.from_dlpack(data)._create_view((2, 8))
    assert found.numpy().tolist() == data.reshape(2, 8).tolist()


def measured() -> None:
    calls: list[int] = []
    module = mblob.Module("timed", functions={"f": mblob.packed_function(lambda: calls.append(1))})
    module.time_evaluator("f", CPU, number=1, repeat=1)()
    assert len(calls) == 2
    module.time_evaluator("f", CPU, number=1, repeat=1, min_repeat_ms=20)()
    assert len(calls) > 12


def benchmark() -> None:
    r = tvm.runtime.module.BenchmarkResult([1, 2, 2, 5])
    assert (r.mean, r.median, r.min, r.max, r.std) == (2.5, 2.0, 1, 5, 1.5)


# -- test_vm_serialization, test_cpp_aot: libraries that TVM 0.14 exported ---------------------------


def of_tvm(name: str) -> mblob.Module:
    if "golden" not in LOADED:
        pytest.skip("no golden libraries: MBLOB_GOLDEN names their folder")
    return tvm.runtime.load_module(LOADED["golden"] / f"{name}.so")


def known(name: str) -> Any:
    with np.load(LOADED["golden"] / "mlp_c.npz") as found:
        return found[name]


def vm_program() -> None:
    executable = tvm.runtime.vm.Executable(of_tvm("vm_mlp"))
    assert executable.globals == ["main"] and executable.get_function_params("main") == ["data"]
    assert len(executable.primitive_ops) == 4 and "Relay VM executable" in executable.stats
    again = tvm.runtime.vm.Executable.load_exec(*executable.save())
    out = tvm.runtime.vm.VirtualMachine(again, CPU).run(known("data"))
    np.testing.assert_allclose(out.numpy(), known("out"), rtol=1e-5)


# Programs of the same operations as Relay's, which the tests' own assembler writes.


@cache
def primitives() -> mblob.Module:
    return exported(mblob.csource_module(MACROS + vm_programs.PRIMITIVES))


def invoked(program: vm_programs.Program, *arguments: Any, function: str = "main") -> Any:
    """The result as arrays and (tag, fields), of the program that was saved and loaded again."""
    made = tvm.runtime.vm.Executable.load_exec(program.code(), primitives())
    again = tvm.runtime.vm.Executable.load_exec(*made.save())
    assert again.globals == list(program.functions)
    machine = tvm.runtime.vm.VirtualMachine(again, CPU)
    return vm_programs.plain(machine.module["invoke"](function, *arguments))


def vm_constant() -> None:
    assert invoked(vm_programs.endless(), function="constant").tolist() == list(range(32))


def vm_branch() -> None:
    assert invoked(vm_programs.choice(), np.array(7), DATA).tolist() == DATA.tolist()


def vm_tuple() -> None:
    tag, (n, (inner, (x, five))) = invoked(vm_programs.choice(), np.array(6), DATA)
    assert (tag, int(n), inner, x.tolist(), five.tolist()) == (3, 6, 0, DATA.tolist(), [5])


def vm_adt() -> None:
    tag, (of_nine, x) = invoked(vm_programs.choice(), DATA, function="tag")
    assert (tag, of_nine.tolist(), x.tolist()) == (0, [9], DATA.tolist())


def vm_loop() -> None:
    """Counts down by calling itself through a closure that has a list of all before."""
    counted, found = [], invoked(vm_programs.calls(), np.array(4))
    while found[1]:
        (first, found) = found[1]
        counted.append(int(first))
    assert counted == [1, 2, 3, 4]


def vm_arithmetic() -> None:
    w = np.arange(4, dtype="float32")
    found = invoked(vm_programs.arithmetic(), DATA, WEIGHT)
    assert found.tolist() == ((DATA + w) * WEIGHT).tolist()


def vm_shapes() -> None:
    for shape, wanted in (((2, 3), [3, 2]), ((4, 1, 2), [8])):
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        _, (reshaped, known, flipped) = invoked(vm_programs.shapes(), x, np.array(wanted))
        assert known.tolist() == list(shape)
        assert reshaped.tolist() == x.reshape(wanted).tolist()
        assert flipped.tolist() == (-x).reshape(wanted).tolist()


def aot_model() -> None:
    model = tvm.runtime.executor.aot_executor.AotModule(of_tvm("aot_mlp")["default"](CPU))
    model.set_input("data", known("data"))
    model.run()
    np.testing.assert_allclose(model.get_output(0).numpy(), known("out"), rtol=1e-5)


def aot_device() -> None:
    with pytest.raises(tvm.TVMError, match="device"):
        of_tvm("aot_mlp")["default"](tvm.cuda(0))


def aot_arguments() -> None:
    with pytest.raises(tvm.TVMError, match="num_args should be 2"):
        of_tvm("aot_mlp")["tvmgen_default___tvm_main__"]()


def aot_input_name() -> None:
    model = tvm.runtime.executor.aot_executor.AotModule(of_tvm("aot_mlp")["default"](CPU))
    with pytest.raises(tvm.TVMError, match="no input 'foo'"):
        model.set_input("foo", known("data"))


INTERFACE, GRAPHS, DEBUG = (
    "test_runtime_module_based_interface",
    "test_runtime_graph",
    "test_runtime_graph_debug",
)
GPU = "the test needs a CUDA device; tests/e2e/cuda runs its kernels"
FRAMES = "TVM skips the test everywhere; it looks for C++ frames in the traceback"
CASES = [
    Case(f"{INTERFACE}.test_legacy_compatibility", legacy),
    Case(f"{INTERFACE}.test_cpu", raw_functions),
    Case(f"{INTERFACE}.test_cpu_get_graph_json", graph_text),
    Case(
        f"{INTERFACE}.test_cpu_get_graph_params_run",
        lambda: check_model(loaded()["default"](CPU), **loaded()["get_graph_params"]()),
    ),
    Case(f"{INTERFACE}.test_cpu_get_graph_params_compare", params_compare),
    Case(f"{INTERFACE}.test_gpu", unsaid=GPU),
    Case(f"{INTERFACE}.test_mod_export", export(".so", ".tar")),
    Case(f"{INTERFACE}.test_remove_package_params", remove_params),
    Case(f"{INTERFACE}.test_debug_graph_executor", debug_module),
    Case(f"{INTERFACE}.test_cuda_graph_executor", unsaid=GPU),
    Case(f"{INTERFACE}.test_multiple_imported_modules", several_modules),
    Case(f"{INTERFACE}.test_num_threads", lambda: tvm.runtime.num_threads() > 0 or pytest.fail()),
    Case(f"{INTERFACE}.test_graph_module_zero_copy", zero_copy),
    Case(f"{GRAPHS}.test_graph_simple", legacy),
    Case(f"{GRAPHS}.test_load_unexpected_params", unexpected_params),
    Case(f"{GRAPHS}.test_save_load_file", parameter_file),
    Case(f"{DEBUG}.test_run_single_node", single_node),
    Case(f"{DEBUG}.test_multiple_output", several_outputs),
    Case("test_runtime_module_export.test_mod_export", export_several),
    Case("test_runtime_module_export.test_import_static_library", static_object),
    Case("test_runtime_module_load.test_dso_module_load", load_tree),
    Case(
        "test_runtime_module_load.test_device_module_dump",
        unsaid="the test needs TVM's StackVM and a device; tests/loader/opencl tests devices",
    ),
    Case("test_runtime_module_load.test_combine_module_llvm", load_tree),
    Case("test_runtime_module_property.test_property", properties),
    Case(
        "test_runtime_error.test_op_translation_to_not_implemented",
        raised("OpNotImplemented", NotImplementedError),
    ),
    Case(
        "test_runtime_error.test_op_translation_to_internal_error",
        raised("InternalError", tvm.error.InternalError),
    ),
    Case("test_runtime_error.test_op_translation_to_value_error", raised("ValueError", ValueError)),
    Case("test_runtime_error.test_deep_callback", deep_callback),
    Case("test_runtime_error.test_cpp_frames_in_stack_trace_from_python_error", unsaid=FRAMES),
    Case("test_runtime_error.test_stack_trace_from_cpp_error", unsaid=FRAMES),
    Case("test_runtime_container.test_adt_constructor", adt),
    Case("test_runtime_container.test_tuple_object", pair),
    Case("test_runtime_container.test_string", strings),
    Case("test_runtime_container.test_shape_tuple", shape_tuples),
    Case("test_runtime_dlpack.test_from_dlpack_shape_one", shape_one),
    Case("test_runtime_dlpack.test_from_dlpack_strided", view),
    Case("test_runtime_measure.test_min_repeat_ms", measured),
    Case("test_runtime_measure.test_benchmark_result", benchmark),
    *(
        Case(f"test_vm_serialization.{x}", vm_program)
        for x in ("test_serializer", "test_save_load", "test_synthetic")
    ),
    Case("test_vm_serialization.test_const", vm_constant),
    Case("test_vm_serialization.test_if", vm_branch),
    Case("test_vm_serialization.test_loop", vm_loop),
    Case("test_vm_serialization.test_tuple", vm_tuple),
    Case("test_vm_serialization.test_adt_list", vm_loop),
    Case("test_vm_serialization.test_adt_compose", vm_adt),
    Case("test_vm_serialization.test_closure", lambda: (vm_arithmetic(), vm_loop())),
    Case("test_vm_serialization.test_vm_shape_of", vm_shapes),
    Case("test_vm_serialization.test_dynamic_bcast", vm_shapes),
    Case("test_cpp_aot.test_error_c_interface", aot_arguments),
    Case("test_cpp_aot.test_create_executor", aot_model),
    Case(
        "test_cpp_aot.test_module_list",
        lambda: of_tvm("aot_mlp")["list_module_names"]() == ["default"] or pytest.fail(),
    ),
    Case("test_cpp_aot.test_pass_wrong_device_arg", aot_device),
    Case("test_cpp_aot.test_aot_incorrect_input_name", aot_input_name),
    *tvm_0_14_networks.CASES,
    *tvm_0_14_regions.CASES,
]


pytestmark = pytest.mark.own_process


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", holding(CASES), ids=names(holding(CASES)))
def test_a_case_of_tvm_0_14_holds(case: Case) -> None:
    assert case.check is not None
    case.check()
