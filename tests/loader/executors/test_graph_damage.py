"""Graphs that lie in any place, and parameters that do not fit: a named error or right results, and
an executor that can be used after."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import graph_executor

LIES = (
    *(
        0,
        1,
        3,
        7,
        -1,
        2**31,
        2**32,
        2**63 - 1,
        2**64,
        1.5,
        1e300,
        True,
        None,
        "",
        "0",
        "null",
        "tvm_op",
        "__nop",
    ),
    *(
        "__copy",
        "float32",
        "float32x4",
        "int8",
        "handle",
        "nodes",
        "p0",
        "list_int",
        [],
        [[]],
        {},
        "\n\x1b[2J",
    ),
)
# Values that say which bytes are used: another one can be a right graph of another meaning.
MEANING = {"inputs", "heads", "storage_id", "func_name", "arg_nodes", "op", "name"}


@pytest.fixture(scope="module")
def mlp(golden: Path) -> Any:
    """Factory, graph, parameters, input and output of a model of TVM."""
    factory = mblob.load_module(golden / "mlp_llvm.so")
    with np.load(golden / "mlp_llvm.npz") as known:
        data, out = known["data"], known["out"]
    return (
        factory,
        json.loads(factory["get_graph_json"]()),
        mblob.save_param_dict(factory["get_graph_params"]()),
        data,
        out,
    )


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values are in a tree of JSON: the lists and objects themselves, too."""
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield from places(item, (*path, key))


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the tree with another value at a place."""
    found = copy.deepcopy(tree)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


@pytest.mark.slow
def test_every_value_of_a_graph_replaced_is_a_named_error_or_gives_right_results(mlp: Any) -> None:
    factory, graph, params, data, out = mlp
    kernels = factory.imported_modules[0]
    refused = failed = ran = 0
    for path in places(graph):
        for lie in LIES:
            try:
                model = graph_executor.create(changed(graph, path, lie), kernels)
            except (mblob.MblobError, MemoryError) as error:
                assert "graph" in str(error)
                refused += 1
                continue
            try:
                model.load_params(params)
                model.run(data=data)
            except (mblob.MblobError, ValueError) as error:
                assert any(word in str(error) for word in ("node ", "input ")), error
                failed += 1
                continue
            ran += 1
            found = model.get_output(0).numpy()
            if not MEANING & set(path):
                np.testing.assert_allclose(found, out, rtol=1e-5, err_msg=f"{path} {lie!r}")
    assert refused > 1000
    assert failed > 10
    assert ran > 50


@pytest.mark.parametrize(
    "key", ["nodes", "arg_nodes", "heads", "node_row_ptr", "attrs", "dltype", "storage_id", "shape"]
)
def test_a_key_that_is_missing_or_misspelt_is_named(mlp: Any, key: str) -> None:
    factory, graph, *_ = mlp
    for spelt in (None, key + "s"):
        lying = copy.deepcopy(graph)
        owner = lying if key in lying else lying["attrs"]
        value = owner.pop(key)
        if spelt:
            owner[spelt] = value
        with pytest.raises(mblob.FormatError, match=f"lacks? '{key}'|unknown key '{spelt}'"):
            graph_executor.create(lying, factory.imported_modules[0])


def model_of(mlp: Any) -> Any:
    """The model without parameters."""
    return graph_executor.create(mlp[1], mlp[0].imported_modules[0])


def works(model: Any, mlp: Any) -> None:
    _, _, params, data, out = mlp
    model.load_params(params)
    model.run(data=data)
    np.testing.assert_allclose(model.get_output(0).numpy(), out, rtol=1e-5)


def test_parameters_that_do_not_fit_are_named_and_the_model_works_after(mlp: Any) -> None:
    model = model_of(mlp)
    shape = model.get_input("p1").shape
    for value, text in (
        (
            np.zeros((*shape, 2), "float32"),
            rf"input 'p1': expected shape \[{','.join(map(str, shape))}\], found",
        ),
        (np.zeros(shape, "float64"), "input 'p1': expected float32, found float64"),
        (np.zeros(shape, "int32"), "input 'p1': expected float32, found int32"),
    ):
        with pytest.raises(ValueError, match=text):
            model.load_params(mblob.save_param_dict({"p1": value}))
        works(model, mlp)
    kept = model.get_input("p0").numpy().copy()
    with pytest.raises(ValueError, match="input 'p1'"):  # all of a dictionary, or nothing
        model.load_params(mblob.save_param_dict({"p0": kept + 1, "p1": np.zeros(3, "float32")}))
    np.testing.assert_array_equal(model.get_input("p0").numpy(), kept)
    # as TVM: passed over
    model.load_params(mblob.save_param_dict({"of another model": np.zeros(3, "float32")}))
    works(model, mlp)


def test_damaged_parameters_are_refused_and_the_model_works_after(mlp: Any) -> None:
    model, params = model_of(mlp), bytes(mlp[2])
    for damaged in (
        b"",
        b"nothing",
        params[:8],
        params[:-1],
        b"\0" + params[1:],
        params + b"\0",
        params[:100],
    ):
        for call in (model.load_params, lambda data: model.share_params(model_of(mlp), data)):
            with pytest.raises(mblob.MblobError):
                call(damaged)
    rng = np.random.default_rng(5)
    refused = 0
    for at in [*range(0, 400, 3), *rng.integers(400, len(params), 50).tolist()]:
        data = bytearray(params)
        data[at] ^= 0xFF
        try:
            model.load_params(data)
        except (mblob.MblobError, ValueError, MemoryError):
            refused += 1
    assert refused > 30
    works(model, mlp)


def test_parameters_of_a_wrong_model_are_not_shared(mlp: Any) -> None:
    factory, graph, params, *_ = mlp
    model, other = model_of(mlp), model_of(mlp)
    renamed = copy.deepcopy(graph)
    for node in renamed["nodes"]:
        node["name"] = node["name"].replace("p1", "q1")
    with pytest.raises(ValueError, match="the other executor has no input 'p1'"):
        model.share_params(graph_executor.create(renamed, factory.imported_modules[0]), params)
    with pytest.raises(
        TypeError, match="argument 0: expected a graph executor, found a module 'library'"
    ):
        model.module["share_params"](factory.imported_modules[0], bytes(params))
    with pytest.raises((ValueError, TypeError), match="argument 0: expected a module"):
        model.module["share_params"](3, bytes(params))
    other.load_params(params)
    model.share_params(model, params)  # its own: nothing to do
    model.share_params(other, params)
    works(model, mlp)
    works(other, mlp)


def test_parameters_of_other_shapes_are_not_shared(tmp_path: Path) -> None:
    def one(shape: list[int]) -> Any:
        nodes = [{"op": "null", "name": "w", "inputs": []}]
        attrs = {
            "dltype": ["list_str", ["float32"]],
            "storage_id": ["list_int", [0]],
            "shape": ["list_shape", [shape]],
        }
        text = {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[0, 0, 0]],
            "node_row_ptr": [0, 1],
            "attrs": attrs,
        }
        return graph_executor.create(text, mblob.Module("none", functions={}))

    params = mblob.save_param_dict({"w": np.zeros(2, "float32")})
    model = one([3])
    with pytest.raises(ValueError, match=r"parameter 'w': expected shape \[3\], found \[2\]"):
        model.share_params(one([2]), params)
    model.set_input("w", np.ones(3, "float32"))
    model.run()
    np.testing.assert_array_equal(model.get_output("w").numpy(), np.ones(3))


def test_positions_of_outputs_by_name(mlp: Any) -> None:
    model = model_of(mlp)
    (name,) = model.get_output_info()[0]
    index = model["get_output_index"]
    assert (index(name), index(name.rpartition(":")[0]), index("none")) == (0, 0, -1)
    out = mblob.empty((1, 10))
    with pytest.raises(ValueError, match="no output 'none'; there are 1: "):
        model.set_output_zero_copy("none", out)
    model.set_output_zero_copy(name, out)
    works(model, mlp)
    np.testing.assert_array_equal(out.numpy(), model.get_output(0).numpy())


def test_a_node_without_inputs_and_outputs_runs_and_is_profiled() -> None:
    calls = []
    builder = mblob.GraphBuilder()
    builder.output(builder.call("add", [builder.input("x", (1,))], (1,)))
    graph = json.loads(builder.graph_json())
    attrs = {"func_name": "nothing", "flatten_data": "0", "num_inputs": "0", "num_outputs": "0"}
    for i in range(2):
        graph["nodes"].append({"op": "tvm_op", "name": f"empty{i}", "inputs": [], "attrs": attrs})
        graph["node_row_ptr"].append(graph["node_row_ptr"][-1])

    def add(x: mblob.Tensor, y: mblob.Tensor) -> None:
        y.numpy()[:] = x.numpy() + 1

    functions = {"add": add, "nothing": lambda: calls.append(1)}
    kernels = mblob.Module("tests.kernels", functions=functions)
    model = graph_executor.create_debug(json.dumps(graph), kernels)
    model.set_input("x", np.ones(1, "f"))
    for parallel in (None, 1, 2):
        model.run(parallel=parallel)
        rows = model.profile(parallel=parallel)
        assert [row.device for row in rows] == ["cpu:0"] * 3
    assert len(calls) == 2 * 2 * 3
    model.execute_node("empty1")
    with pytest.raises(mblob.MblobError, match="has no output"):
        model.debug_get_output("empty0", mblob.empty((1,)))
    assert model.get_output(0).numpy()[0] == 2
