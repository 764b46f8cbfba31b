"""`GraphBuilder`: graphs without JSON and storage ids by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.format import graph_json
from mblob.packager.byoc.graph import Value
from mblob.packager.modules.weights import read_tensors
from tests.packager.byoc.partitions import check_storage
from tests.packager.graphs import ARITY, KERNELS_C, PROTOTYPES, PYTHON, host


def ids(graph: mblob.GraphBuilder) -> list[int]:
    found: list[int] = json.loads(graph.graph_json())["attrs"]["storage_id"][1]
    return found


def run(graph: mblob.GraphBuilder, folder: Path, **inputs: Any) -> list[Any]:
    module = mblob.graph_executor_factory(graph)
    kernels = mblob.csource_module(KERNELS_C, functions=PROTOTYPES, packed="name")
    module.import_module(kernels)
    module.export_library(folder / "model.so")
    lib = mblob.load_module(folder / "model.so")
    model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
    model.run(**inputs)
    return [model.get_output(i).numpy().tolist() for i in range(model.get_num_outputs())]


def test_a_graph_of_the_builder_runs_with_its_parameters(tmp_path: Path) -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 4, np.int32)
    w = g.param("w", np.array([1, 2, 3, 4], "int32"))
    low, high = g.call_many("split", [g.call("add", [x, w], (4,), "int32")], [(4, "int32")] * 2)
    g.output(low, high)
    g.output(g.reshape(g.call("turn", [low], (4,), "int32"), (2, 2)))
    given = np.array([65536, 5, 6, 7], "int32")
    assert run(g, tmp_path, x=given) == [[1, 7, 9, 11], [1, 0, 0, 0], [[7, 9], [11, 1]]]


def test_the_graph_of_digits_is_said_in_a_few_lines(root: Path) -> None:
    here = root / "examples" / "digits"
    w = read_tensors(here / "weights.safetensors")
    names = ["conv.weight", "conv.bias", "hidden.weight", "hidden.bias", "output.weight"]
    g = mblob.GraphBuilder()
    image = g.input("image", (1, 8, 8), "uint8")
    conv_w, conv_b, hidden_w, hidden_b, out_w, out_b = (
        g.param(n, w[n]) for n in [*names, "output.bias"]
    )
    x = g.call("normalize", [image], (1, 8, 8))
    x = g.call("conv_relu", [x, conv_w, conv_b], (1, 16, 8, 8), name="conv")
    x = g.call("max_pool", [x], (1, 16, 4, 4), name="pool")
    x = g.reshape(x, (1, 256), name="flatten")
    x = g.call("dense_relu", [x, hidden_w, hidden_b], (1, 64), name="hidden")
    logits = g.call("dense", [x, out_w, out_b], (1, 10), name="logits")
    g.output(g.call("argmax", [logits], 1, "int32", name="digit"), logits)
    made, committed = json.loads(g.graph_json()), json.loads((here / "graph.json").read_text())
    del made["attrs"]["storage_id"], committed["attrs"]["storage_id"]
    assert made == committed
    assert list(g.params) == list(w)


def test_values_that_are_done_with_give_their_memory_to_others() -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 1000)
    first = x
    for _ in range(20):
        x = g.call("f", [x], 1000)
    g.output(x, first)
    assert sorted(set(ids(g))) == [0, 1, 2, 3]  # input, output, and two in turn


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_computes_what_its_operators_do(seed: int, tmp_path: Path) -> None:
    """Storage ids skip none, and no value is written while another still needs its memory."""
    rng = random.Random(seed)
    g = mblob.GraphBuilder()
    arrays = {f"x{i}": np.arange(4, dtype="int32") * (i + 1) - 3 for i in range(3)}
    known: list[tuple[Value, Any]] = [(g.input(n, 4, "int32"), a) for n, a in arrays.items()]
    for _ in range(30):
        function = rng.choice([*ARITY, "reshape"])
        if function == "reshape":
            value, array = rng.choice(known)
            known.append((g.reshape(value, (4,)), array))
            continue
        count, outputs = ARITY[function]
        picked = [rng.choice(known) for _ in range(count)]
        found = PYTHON[function](*(a for _, a in picked))
        made = g.call_many(function, [v for v, _ in picked], [((4,), "int32")] * outputs)
        known += zip(made, found if outputs > 1 else [found])
    heads = rng.sample(known[3:], 3)
    g.output(*(v for v, _ in heads))
    graph = json.loads(g.graph_json())
    graph_json.check_graph(graph)
    assert graph_json.skipped_id(graph) is None
    check_storage(graph)
    if seed < 3:
        assert run(g, tmp_path, **arrays) == [a.tolist() for _, a in heads]


def test_an_operator_is_where_its_inputs_are() -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 4)
    y = g.call("f", [g.copy(x, mblob.opencl(1))], 4)
    z = g.copy(y, mblob.cpu(0))
    g.output(g.call("add", [x, z], 4))
    graph = json.loads(g.graph_json())
    assert graph["attrs"]["device_index"] == ["list_int", [1, 4, 4, 1, 1]]
    assert [n["attrs"]["func_name"] for n in graph["nodes"][1:]] == ["__copy", "f", "__copy", "add"]
    with pytest.raises(mblob.BuildError, match=r"inputs on cpu and opencl; copy them to one"):
        g.call("add", [x, y], 4)
    g.call("add", [x, y], 4, device=mblob.cpu())


def test_a_graph_without_devices_says_none() -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 4)
    g.output(x)
    assert "device_index" not in g.graph_json()
    g.output(g.copy(x, mblob.opencl()))  # and may be added to
    assert json.loads(g.graph_json())["attrs"]["device_index"][1] == [1, 4]


def test_attributes_are_for_code_generators() -> None:
    seen = []
    g = mblob.GraphBuilder()
    x, w = g.input("x", 4, "int32"), g.param("w", np.ones(4, "int32"))
    g.output(g.call("add", [x, w], 4, "int32", attrs={"op": "nn.add", "axis": -1, "pads": [1, 2]}))

    def take(operator: mblob.byoc.Operator) -> bool:
        seen.append((operator.op, operator.integer("axis"), operator.ints("pads")))
        return False

    mblob.partition_graph(g, None, host(), {"key": take})
    assert seen == [("nn.add", -1, (1, 2))]


def test_names_are_made_where_none_is_given() -> None:
    g = mblob.GraphBuilder()
    x = g.input("f", 4)
    for _ in range(3):
        x = g.call("f", [x], 4)
    assert repr(x) == "<value 'f_3' float32[4]>"
    g.output(x)
    assert repr(g) == "<mblob.GraphBuilder: 1 inputs, 0 params, 3 operators, 1 outputs>"


def test_params_are_the_arrays_that_were_given() -> None:
    g, array = mblob.GraphBuilder(), np.ones(4, "f4")
    g.param("w", array)
    assert list(g.params) == ["w"]
    assert g.params["w"] is array


def test_small_floats_are_parameters_too() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    g = mblob.GraphBuilder()
    w = g.param("w", np.ones((2, 3), ml_dtypes.bfloat16))
    assert (w.dtype, w.shape) == ("bfloat16", (2, 3))


WRONG: dict[str, tuple[Callable[[mblob.GraphBuilder, Value], Any], str]] = {
    "name taken": (lambda g, x: g.input("x", 3), r"the name 'x' is taken"),
    "name of a parameter taken": (lambda g, x: g.param("x", np.ones(3)), r"^param: the name 'x' is taken"),
    "no name": (lambda g, x: g.input("", 3), r"input: name: expected a name"),
    "NUL": (lambda g, x: g.call("f\0", [x], 3), r"call: function: .* has a NUL"),
    "dtype": (lambda g, x: g.input("y", 3, "flot32"), r"input 'y': dtype: 'flot32' is no element"),
    "dtype of another type": (lambda g, x: g.input("y", 3, 4), r"dtype: 4 is no element"),  # type: ignore[arg-type]
    "handle": (lambda g, x: g.input("y", 3, "handle"), r"dtype: 'handle' is no element"),
    "shape": (lambda g, x: g.input("y", (3, -1)), r"input 'y': shape\[1\]: expected 0 to"),
    "float": (lambda g, x: g.input("y", (3.5,)), r"input 'y': shape\[0\]: expected int, found float"),  # type: ignore[arg-type]
    "bytes": (lambda g, x: g.input("y", (1 << 40, 1 << 40)), r"more than 2\^62 bytes"),
    "not a list": (lambda g, x: g.call("f", x, 3), r"write \[value\]"),  # type: ignore[arg-type]
    "no value": (lambda g, x: g.call("f", ["x"], 3), r"expected a value of this graph, found str"),  # type: ignore[list-item]
    "foreign": (
        lambda g, x: g.call("f", [mblob.GraphBuilder().input("z", 3)], 3),
        r"<value 'z' float32\[3\]>\) is of another graph",
    ),
    "foreign output": (lambda g, x: g.output(mblob.GraphBuilder().input("z", 3)), "another graph"),
    "attribute": (lambda g, x: g.call("f", [x], 3, attrs={"func_name": "g"}), r"'func_name' is wr"),
    "array": (lambda g, x: g.param("w", "text"), r"param 'w': expected an array"),
    "reshape": (lambda g, x: g.reshape(x, 4), r"expected a shape of 12 bytes, as \[3\] has, found \[4\]"),
    "device": (lambda g, x: g.copy(x, "cpu"), r"device: expected a Device"),  # type: ignore[arg-type]
    "no output": (lambda g, x: g.graph_json(), r"no output yet; call g\.output"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_sense_is_refused_where_it_is_said(case: str) -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 3)
    do, text = WRONG[case]
    with pytest.raises((mblob.BuildError, TypeError, ValueError), match=text):
        do(g, x)
    g.output(x)  # and the graph is as it was before
    assert len(json.loads(g.graph_json())["nodes"]) == 1


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(mblob.BuildError, match="a dictionary, or a GraphBuilder, found int"):
        mblob.graph_executor_factory(3)  # type: ignore[arg-type]
