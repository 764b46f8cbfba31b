"""Graph executors from Python: models of TVM, and models packed here."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob import graph_executor

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

GraphModule = graph_executor.GraphModule
GraphModuleDebug = graph_executor.GraphModuleDebug

KERNELS = """\
void scale(const float *x, const float *w, float *y) { for (int i = 0; i < 6; ++i) y[i] = x[i] * w[i]; }
void plus(const float *x, const float *b, float *y) { for (int i = 0; i < 6; ++i) y[i] = x[i] + b[i]; }
"""
FUNCTIONS = [
    "void scale(const float *x, const float *w, float *y)",
    "void plus(const float *x, const float *b, float *y)",
]
W = np.arange(6, dtype="f").reshape(2, 3)
B = np.full((2, 3), 0.5, "f")


def operator(name: str, function: str, *inputs: int) -> dict[str, Any]:
    attributes = {
        "func_name": function,
        "num_inputs": str(len(inputs)),
        "num_outputs": "1",
        "flatten_data": "0",
    }
    return {
        "op": "tvm_op",
        "name": name,
        "attrs": attributes,
        "inputs": [[i, 0, 0] for i in inputs],
    }


def graph() -> dict[str, Any]:
    """(x * w + b), and that reshaped to 6."""
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("x", "w", "b")]
    nodes += [
        operator("scaled", "scale", 0, 1),
        operator("sum", "plus", 3, 2),
        operator("flat", "__nop", 4),
    ]
    return {
        "nodes": nodes,
        "arg_nodes": [0, 1, 2],
        "heads": [[4, 0, 0], [5, 0, 0]],
        "node_row_ptr": list(range(7)),
        "attrs": {
            "dltype": ["list_str", ["float32"] * 6],
            "storage_id": ["list_int", [0, 1, 2, 3, 4, 4]],
            "shape": ["list_shape", [[2, 3]] * 5 + [[6]]],
        },
        "metadata": {"any": ["thing"]},
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    factory = mblob.graph_executor_factory(graph(), {"w": W, "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    path = tmp_path_factory.mktemp("graph") / "model.so"
    mblob.export_library(factory, path)
    return path


@pytest.fixture
def model(library: Path) -> Any:
    return GraphModule(mblob.load_module(library)["default"](mblob.cpu(0)))


@pytest.mark.parametrize("threads", [True, False, 2.5, "2", W], ids=lambda v: type(v).__name__)
def test_a_number_of_threads_is_an_integer(model: Any, threads: Any) -> None:
    hint = re.escape("(an input of this name is set with set_input('parallel', array))")
    expected = f"run: parallel: expected a number of threads {hint}, found "
    expected += type(threads).__name__
    with pytest.raises(TypeError, match=expected):
        model.run(parallel=threads)
    with pytest.raises(TypeError, match=expected):
        model.benchmark(mblob.cpu(0), "run", parallel=threads)
    model.run(parallel=np.array(2))


@pytest.mark.parametrize("name", ["parallel", "self", "key", "value", "repeat"])
def test_an_input_may_have_the_name_of_a_parameter(name: str) -> None:
    def negate(x: mblob.Tensor, y: mblob.Tensor) -> None:
        y.numpy()[:] = -x.numpy()

    builder = mblob.GraphBuilder()
    builder.output(builder.call("negate", [builder.input(name, (3,))], (3,)))
    kernels = mblob.Module("tests.kernels", functions={"negate": negate})
    model = graph_executor.create(builder.graph_json(), kernels)
    model.set_input(name, np.float32([1, 2, 3]))
    model.run(parallel=2)
    assert model.get_output(0).numpy().tolist() == [-1, -2, -3]
    if name != "parallel":
        model.run(**{name: np.float32([4, 5, 6])})
        assert model.get_output(0).numpy().tolist() == [-4, -5, -6]
    if name == "key":
        for method in ("set_input", "set_input_zero_copy"):
            with pytest.raises(
                TypeError, match=rf"{method}: key: expected a name or a position .*{method}\('key'"
            ):
                getattr(model, method)(key=B)
    elif name != "value":
        model.set_input(**{name: np.float32([7, 8, 9])})
        assert model.get_input(0).numpy().tolist() == [7, 8, 9]


@pytest.mark.parametrize("name", ["mlp_llvm", "mlp_c"])
@pytest.mark.parametrize("parallel", [None, 0, 3])
def test_models_that_tvm_exported_give_its_numbers(
    golden: Path, name: str, parallel: int | None
) -> None:
    known = np.load(golden / f"{name}.npz")
    gm = GraphModule(mblob.load_module(golden / f"{name}.so")["default"](mblob.cpu(0)))
    gm.run(data=known["data"], parallel=parallel)
    np.testing.assert_allclose(gm.get_output(0).numpy(), known["out"], rtol=1e-5)
    assert gm.get_input_info() == ({"data": (1, 1, 8, 8)}, {"data": "float32"})


def test_a_factory_of_tvm_gives_what_it_holds(golden: Path) -> None:
    known = np.load(golden / "mlp_c.npz")
    factory = mblob.load_module(golden / "mlp_c.so")
    params = factory["get_graph_params"]()
    assert sorted(params) == [f"p{i}" for i in range(6)]
    assert factory["get_graph_params"]("p1").shape == (1, 128)
    lib = factory.imported_modules[0]
    made = graph_executor.create(factory["get_graph_json"](), lib, mblob.cpu(0))
    bare = GraphModule(factory["remove_params"]()["default"](mblob.cpu(0)))
    for gm in (made, bare):
        assert set(gm.get_input_info()[0]) == {"data", *(f"p{i}" for i in range(6))}
        gm.load_params(params)
        gm.run(data=known["data"])
        np.testing.assert_allclose(gm.get_output(0).numpy(), known["out"], rtol=1e-5)
    shared = graph_executor.create(factory["get_graph_json"](), lib)
    shared.share_params(made, params)
    del made
    shared.run(data=known["data"])
    np.testing.assert_allclose(shared.get_output(0).numpy(), known["out"], rtol=1e-5)
    with pytest.raises(mblob.IncompatibleError, match="CUDA"):
        factory["cuda_graph_create"](mblob.cuda(0))


@pytest.mark.parametrize("function", ["tvm.graph_runtime.create", "tvm.graph_executor.create"])
def test_the_old_call_makes_an_executor(library: Path, function: str) -> None:
    lib = mblob.load_module(library).imported_modules[0]
    module = mblob.get_global_func(function)(json.dumps(graph()), lib, 1, 0)
    gm = GraphModule(module)
    gm.set_input(x=W, w=W, b=B)
    gm.run()
    np.testing.assert_array_equal(gm.get_output(0).numpy(), W * W + B)


def test_a_factory_of_tvm_0_7_works_under_its_old_key(library: Path, tmp_path: Path) -> None:
    old = mblob.blob_module("GraphRuntimeFactory", bytes(mblob.load_module(library).payload))
    old.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    mblob.export_library(old, tmp_path / "old.so")
    gm = GraphModule(mblob.load_module(tmp_path / "old.so")["default"](mblob.cpu(0)))
    gm.run(x=W)
    np.testing.assert_array_equal(gm.get_output(0).numpy(), W * W + B)


def test_a_model_packed_here_runs(model: Any) -> None:
    assert model.module.type_key == "GraphExecutor"
    model.set_input("x", W)
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), W * W + B)
    np.testing.assert_array_equal(model.get_output("flat").numpy(), (W * W + B).ravel())
    np.testing.assert_array_equal(model.get_output("flat:1").numpy(), (W * W + B).ravel())
    assert (model.get_num_inputs(), model.get_num_outputs()) == (3, 2)
    assert [model.get_input_index(name) for name in ("b", "nope")] == [2, -1]
    assert model.get_output_info() == (
        {"sum:0": (2, 3), "flat:1": (6,)},
        {"sum:0": "float32", "flat:1": "float32"},
    )
    copied = np.zeros((2, 3), "f")
    model.get_output(0, copied)
    np.testing.assert_array_equal(copied, W * W + B)
    out = model.run_from_inputs(x=np.ones((2, 3), "f"))
    np.testing.assert_array_equal(out[0].numpy(), W + B)
    assert len(out) == 2


def test_executors_of_one_factory_are_independent(library: Path) -> None:
    factory = mblob.load_module(library)
    first, second = (GraphModule(factory["default"](mblob.cpu(0))) for _ in range(2))
    first.get_input("w").numpy()[:] = 0  # the file is not written, nor what the other uses
    first.set_input("b", np.ones((2, 3), "f"))
    for gm in (first, second):
        gm.run(x=W)
    np.testing.assert_array_equal(first.get_output(0).numpy(), np.ones((2, 3)))
    np.testing.assert_array_equal(second.get_output(0).numpy(), W * W + B)


def test_an_output_outlives_library_and_model(library: Path) -> None:
    gm = GraphModule(mblob.load_module(library)["default"](mblob.cpu(0)))
    gm.run(x=W)
    out = gm.get_output(0)
    del gm
    np.testing.assert_array_equal(out.numpy(), W * W + B)


def test_memory_of_the_caller_is_used(model: Any) -> None:
    x, y = mblob.empty((2, 3)), mblob.empty((6,))
    model.set_input_zero_copy("x", x)
    model.set_output_zero_copy("flat", y)
    for factor in (1, 2):
        x.numpy()[:] = W * factor
        model.run()
        np.testing.assert_array_equal(y.numpy(), (W * W * factor + B).ravel())
    del x, y  # the model keeps both
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), W * W * 2 + B)
    with pytest.raises(ValueError, match="not contiguous"):
        model.set_input_zero_copy("x", np.zeros((3, 2), "f").T)
    readonly = np.zeros((2, 3), "f")
    readonly.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        model.set_output_zero_copy(0, readonly)


def test_outputs_of_the_same_bytes_move_together() -> None:
    """As a program with two buffers binds them for each run."""

    def double(x: mblob.Tensor, y: mblob.Tensor) -> None:
        y.numpy()[:] = 2 * x.numpy()

    graph = mblob.GraphBuilder()
    y = graph.call("double", [graph.input("x", (4,))], (4,))
    graph.output(y, graph.reshape(y, (2, 2)), y)
    kernels = mblob.Module("tests.kernels", functions={"double": double})
    model = mblob.graph_executor.create(graph.graph_json(), kernels, mblob.cpu(0))
    buffers = [mblob.empty((4,)) for _ in range(2)]
    for i in range(4):
        new, old = buffers[i % 2], buffers[(i + 1) % 2]
        old.numpy()[:] = -1
        model.set_output_zero_copy(0, new)
        if i:
            with pytest.raises(ValueError, match="'reshape' has the same bytes as an output that"):
                model.run(x=np.full(4, i, "f"))
        model.set_output_zero_copy(1, new.numpy().reshape(2, 2))
        if i:
            with pytest.raises(ValueError, match="'double' has the same bytes as an output that"):
                model.run()
        model.set_output_zero_copy(2, new)
        model.run(x=np.full(4, i, "f"))
        assert new.numpy().tolist() == [2 * i] * 4
        assert old.numpy().tolist() == [-1] * 4
        assert [model.get_output(k).numpy().ravel()[0] for k in range(3)] == [2 * i] * 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((3, 2), "f"), r"input 'x': expected shape \[2,3\], found \[3,2\]"),
        (np.zeros((2, 3)), "input 'x': expected float32, found float64"),
        (np.zeros((2, 3), "f2"), "input 'x': expected float32, found float16"),
    ],
)
def test_a_wrong_array_is_named_and_the_model_works_on(model: Any, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        model.set_input("x", value)
    model.run(x=W)
    np.testing.assert_array_equal(model.get_output(0).numpy(), W * W + B)


def test_wrong_names_are_named(library: Path, model: Any) -> None:
    with pytest.raises(ValueError, match="no input 'y'; there are 3: x, w, b"):
        model.set_input("y", W)
    with pytest.raises(ValueError, match="no input 'y'"):
        model.run(y=W)
    with pytest.raises(ValueError, match="no output 7; there are 2: sum, flat"):
        model.get_output(7)
    with pytest.raises(
        mblob.IncompatibleError, match=r"create: graph: no runtime for device type 7 \(vulkan\)"
    ):
        mblob.load_module(library)["default"](mblob.device("vulkan"))
    lib = mblob.load_module(library).imported_modules[0]
    lying = graph()
    lying["nodes"][4]["inputs"][0][0] = 5
    with pytest.raises(mblob.FormatError, match="node 4 'sum': entry"):
        graph_executor.create(lying, lib)
    lying = graph()
    lying["nodes"][4]["attrs"]["func_name"] = "minus"
    with pytest.raises(
        mblob.KernelError, match=r"node 4 'sum': .* has no function 'minus'; it has: scale, plus"
    ):
        graph_executor.create(lying, lib)


def test_parameters_that_do_not_fit_are_named(tmp_path: Path) -> None:
    factory = mblob.graph_executor_factory(graph(), {"w": W.ravel(), "b": B})
    factory.import_module(mblob.csource_module(KERNELS, functions=FUNCTIONS))
    mblob.export_library(factory, tmp_path / "model.so")
    with pytest.raises(ValueError, match=r"parameter 'w': expected shape \[2,3\], found \[6\]"):
        mblob.load_module(tmp_path / "model.so")["default"](mblob.cpu(0))


def test_a_kernel_written_in_python_can_fail(tmp_path: Path) -> None:
    calls: list[int] = []

    def plus(x: mblob.Tensor, b: mblob.Tensor, y: mblob.Tensor) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("not the first time")
        y.numpy()[:] = x.numpy() + b.numpy()

    def scale(x: mblob.Tensor, w: mblob.Tensor, y: mblob.Tensor) -> None:
        y.numpy()[:] = x.numpy() * w.numpy()

    gm = graph_executor.create(
        graph(), mblob.Module("python", functions={"plus": plus, "scale": scale})
    )
    gm.set_input(x=W, w=W, b=B)
    with pytest.raises(RuntimeError, match="not the first time"):
        gm.run()
    gm.run(parallel=2)
    np.testing.assert_array_equal(gm.get_output(0).numpy(), W * W + B)


def test_a_debug_model_shows_what_is_inside(library: Path) -> None:
    gm = GraphModuleDebug(mblob.load_module(library)["debug_create"]("default", mblob.cpu(0)))
    gm.set_input("x", W)
    gm.execute_node("scaled")
    np.testing.assert_array_equal(gm.get_node_output(3).numpy(), W * W)
    out = np.zeros((2, 3), "f")
    gm.debug_get_output("sum", out)
    np.testing.assert_array_equal(out, W * W + B)
    times = gm.run_individual(3, repeat=2)
    assert [len(row) for row in times] == [2] * 6
    assert times[0] == [0, 0]
    assert all(t > 0 for t in times[3] + times[4])
    one = gm.run_individual_node("scaled", number=2, repeat=3)
    assert len(one.results) == 3
    assert one.min > 0
    assert gm.run_individual_node(0, repeat=2).results == (0, 0)  # an input runs nothing
    with pytest.raises(ValueError, match="no node 6, the graph has 6"):
        gm.run_individual_node(6)
    for wrong in ({"number": 0}, {"repeat": 0}, {"min_repeat_ms": -1}, {"repeats_to_cooldown": 0}):
        with pytest.raises(ValueError, match="expected at least 1"):
            gm.run_individual_node(3, **wrong)
    rows = gm.profile(5, x=W)
    assert [(r.node, r.name, r.function) for r in rows] == [
        (3, "scaled", "scale__packed"),
        (4, "sum", "plus__packed"),
    ]
    assert all(0 < r.seconds < 1 for r in rows)
    with pytest.raises(ValueError, match="no node 'nope'"):
        gm.execute_node("nope")
    with pytest.raises(ValueError, match="the factory makes 'default'"):
        mblob.load_module(library)["debug_create"]("other", mblob.cpu(0))


LINKED = r"""
#include <tvm/runtime/c_backend_api.h>

static _Alignas(64) const float near[6] = {1, 2, 3, 4, 5, 6};
static _Alignas(64) const struct { float before, far[6]; } off = {0, {.5f, .5f, .5f, .5f, .5f, .5f}};
#define ARGUMENTS TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *self
#define PACKED(name) TVM_DLL int name(ARGUMENTS); int name(ARGUMENTS)
#define FLOATS(i) ((float *)((DLTensor *)args[i].v_handle)->data)

PACKED(_lookup_linked_param) {
  const void *found = args[0].v_int64 == 1 ? (const void *)near : args[0].v_int64 == 2 ? (const void *)off.far : NULL;
  ret->v_handle = (void *)found;
  *ret_code = found ? kTVMOpaqueHandle : kTVMNullptr;
  return 0;
}
PACKED(scale) { for (int i = 0; i < 6; ++i) FLOATS(2)[i] = FLOATS(0)[i] * FLOATS(1)[i]; return 0; }
PACKED(plus) { for (int i = 0; i < 6; ++i) FLOATS(2)[i] = FLOATS(0)[i] + FLOATS(1)[i]; return 0; }
"""


def test_linked_parameters_are_parameters_aligned_or_not(tmp_path: Path) -> None:
    mblob.csource_module(LINKED).export_library(tmp_path / "linked.so")
    lib = mblob.load_module(tmp_path / "linked.so")
    model = graph_executor.create(graph(), lib)
    assert model.get_input_info() == ({"x": (2, 3)}, {"x": "float32"})
    model.run(x=W)
    np.testing.assert_array_equal(
        model.get_output(0).numpy(), W * np.arange(1, 7).reshape(2, 3) + 0.5
    )
    model.get_input("w").numpy()[:] = 0  # the executor's own copy
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), np.full((2, 3), 0.5))
    np.testing.assert_array_equal(
        graph_executor.create(graph(), lib).get_input("w").numpy().ravel(), range(1, 7)
    )


def test_a_function_of_the_caller_looks_parameters_up(library: Path) -> None:
    asked: list[Any] = []

    def lookup(module: Any, storage: int, like: Any, device: Any) -> Any:
        asked.append((module.type_key, storage, like.shape, device))
        return {1: W, 2: mblob.array(B)}.get(storage)

    mblob.register_func("test.graph.lookup", override=True)(lookup)
    kernels = mblob.load_module(library).imported_modules[0]
    create = mblob.get_global_func("tvm.graph_executor.create")
    model = GraphModule(
        create(
            json.dumps(graph()), kernels, mblob.get_global_func("test.graph.lookup"), mblob.cpu(0)
        )
    )
    assert asked == [("library", i, (2, 3), mblob.cpu(0)) for i in range(3)]
    model.run(x=W)
    np.testing.assert_array_equal(model.get_output(0).numpy(), W * W + B)
    assert list(model.get_input_info()[0]) == ["x"]


def test_inputs_may_be_capsules_of_dlpack(model: Any) -> None:
    model.set_input("x", W.__dlpack__())
    assert model.get_input("x").numpy().tolist() == W.tolist()
    model.set_input_zero_copy(x=mblob.array(W + 1).__dlpack__())
    assert model.get_input("x").numpy().tolist() == (W + 1).tolist()
    with pytest.raises(TypeError, match="set_input: input 'x': expected a DLPack capsule nobody"):
        model.set_input("x", datetime.datetime_CAPI)


class Lent:
    """An array of another package, without the buffer protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_inputs_of_others_with_gaps_are_copied_as_those_of_numpy(model: Any) -> None:
    wide = np.stack([W, W], -1)
    for gaps in (wide[..., 0], W[::-1]):
        model.set_input("x", Lent(gaps))
        assert model.get_input("x").numpy().tolist() == gaps.tolist()
        assert mblob.array(Lent(gaps)).numpy().tolist() == gaps.tolist()
        for value, text in (
            (gaps, "the array"),
            (memoryview(gaps), "the array"),
            (Lent(gaps), "tensor"),
        ):
            with pytest.raises(ValueError, match=f"{text} is not contiguous"):
                model.set_input_zero_copy("x", value)


def test_an_array_without_its_key_is_refused(model: Any) -> None:
    for name in ("set_input", "set_input_zero_copy"):
        for give in (lambda x, put: put(None, x, b=B), lambda x, put: put(value=x)):
            with pytest.raises(
                TypeError, match=rf"{name}: the array has no key: expected {name}\("
            ):
                give(mblob.array(W), getattr(model, name))
    model.set_input(None, None, x=W)
    assert model.get_input("x").numpy().tolist() == W.tolist()


def test_an_input_may_be_called_like_a_parameter_of_set_input() -> None:
    text = json.dumps(graph()).replace('"x"', '"value"').replace('"b"', '"key"')
    kernels = mblob.Module("kernels", functions={"scale": lambda *_: None, "plus": lambda *_: None})
    model = graph_executor.create(text, kernels)
    model.run(value=W, key=B)
    assert model.get_input("value").numpy().tolist() == W.tolist()
    assert model.get_input("key").numpy().tolist() == B.tolist()


def test_what_is_no_array_is_named_with_its_input(model: Any) -> None:
    for wrong in (None, "text", object()):
        with pytest.raises(
            TypeError,
            match=f"set_input: input 'x': expected an array, found {type(wrong).__name__}",
        ):
            model.set_input("x", wrong)
    with pytest.raises(
        ValueError, match="set_output_zero_copy: output 0: the array is not contiguous"
    ):
        model.set_output_zero_copy(0, np.zeros((3, 2), "f").T)


def test_a_benchmark_has_the_shape_of_tvms(model: Any) -> None:
    result = model.benchmark(repeat=3, number=4, end_to_end=True, x=W)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max
    assert result.min <= result.mean <= result.max
    assert result.std >= 0
    assert "mean (ms)" in str(result)
    rested = model.benchmark(
        mblob.cpu(0), "run", repeat=2, number=1, parallel=2, cooldown_interval_ms=1
    )
    assert len(rested.results) == 2
    with pytest.raises(ValueError, match="expected func_name 'run', found 'main'"):
        model.benchmark(func_name="main")
    with pytest.raises(ValueError, match="no input 'z'"):
        model.benchmark(z=W)
    with pytest.raises(ValueError, match="benchmark: repeats_to_cooldown: expected 1 to"):
        model.benchmark(repeats_to_cooldown=0)


def test_functions_of_modules_are_timed(model: Any, library: Path) -> None:
    times = model.module.time_evaluator("run", mblob.cpu(0), number=3, repeat=2)()
    assert len(times.results) == 2
    assert times.min > 0
    kernels = mblob.load_module(library).imported_modules[0]
    out = np.zeros((2, 3), "f")
    assert kernels.time_evaluator("plus", number=1)(W, B, out).mean > 0
    np.testing.assert_array_equal(out, W + B)
    with pytest.raises(AttributeError, match="nothing"):
        kernels.time_evaluator("nothing")
    with pytest.raises(ValueError, match="time_evaluator: number: expected 1 to"):
        kernels.time_evaluator("plus", number=0)(W, B, out)


def test_a_value_too_large_for_any_machine_is_named(library: Path) -> None:
    lying = graph()
    lying["attrs"]["shape"][1][3] = [2**46]
    lying["attrs"]["shape"][1][4] = [2**46]
    lying["attrs"]["shape"][1][5] = [2**46]
    with pytest.raises(
        MemoryError, match=r"memory of .*'scaled'.*: out of memory: 281474976710656 bytes"
    ):
        graph_executor.create(lying, mblob.load_module(library).imported_modules[0])


def test_numbers_of_threads_that_are_none(model: Any) -> None:
    for threads in (-1, 2**31, 2**40):
        with pytest.raises(ValueError, match=f"run: {threads} threads, expected 0 to 2147483647"):
            model.run(parallel=threads)


# -- types that numpy does not have ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "other", "given"),
    [
        ("e4m3_float8", "float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("e5m2_float8", "float8_e5m2", ml_dtypes.float8_e5m2),
        ("float8_e4m3fn", "e4m3_float8", ml_dtypes.float8_e4m3fn),
        ("float8_e8m0fnu", "float8_e8m0fnu", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_small_floats_go_in_and_out(tmp_path: Path, dtype: str, other: str, given: Any) -> None:
    text = graph()
    text["nodes"] = [{"op": "null", "name": "x", "inputs": []}, operator("same", "copy6", 0)]
    text |= {"arg_nodes": [0], "heads": [[1, 0, 0]], "node_row_ptr": [0, 1, 2]}
    text["attrs"] = {
        "dltype": ["list_str", [dtype] * 2],
        "storage_id": ["list_int", [0, 1]],
        "shape": ["list_shape", [[2, 3]] * 2],
    }
    source = (
        "#include <tvm/runtime/c_runtime_api.h>\n#include <string.h>\n"
        "int copy6(TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *x) {\n"
        "  const DLTensor *from = a[0].v_handle, *to = a[1].v_handle;\n"
        "  (void)c; (void)n; (void)r; (void)rc; (void)x;\n"
        "  memcpy(to->data, from->data, 6);\n  return memcmp(&from->dtype, &to->dtype, 4);\n}\n"
    )
    mblob.csource_module(source).export_library(tmp_path / "k.so")
    model = graph_executor.create(
        json.dumps(text), mblob.load_module(tmp_path / "k.so"), mblob.cpu(0)
    )
    x = np.array([[0.5, 1, 2], [4, 8, 0.25]]).astype(given)
    own = mblob.array(x).view(other)  # aligned, and of the other name
    for value in (x, x.view("uint8"), mblob.array(x), own):
        model.set_input("x", np.zeros((2, 3), "uint8"))
        model.run(x=value)
        found = model.get_output(0)
        assert (found.dtype, found.numpy().dtype) == (dtype, x.dtype)
        assert found.numpy().tobytes() == found.view("uint8").numpy().tobytes() == x.tobytes()
    model.set_input_zero_copy("x", own)
    out = np.zeros((2, 3), "uint8")
    model.run()
    model.get_output(0, out)
    assert out.tobytes() == x.tobytes()
    assert mblob.empty((2, 3), dtype).copyfrom(out).numpy().tobytes() == x.tobytes()
    assert mblob.from_dlpack(model.get_output(0)).dtype in (other, dtype)
    for wrong in (np.ones((2, 3), bool), np.ones((2, 3), "int8")):
        with pytest.raises(ValueError, match=f"input 'x': expected {dtype}, found {wrong.dtype}"):
            model.set_input("x", wrong)
