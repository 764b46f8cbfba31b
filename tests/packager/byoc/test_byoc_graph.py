"""Graphs that are read and written: nothing lost, memory planned anew, every lie named."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob import byoc
from mblob.dtype import DataType
from mblob.packager.byoc.graph import write_graph
from mblob.packager.byoc.storage import plan_storage
from mblob.packager.errors import BuildError
from tests.packager.byoc.partitions import GENERATORS, check_storage
from tests.packager.graphs import Builder, takes

# -- reading and writing ---------------------------------------------------------------------------


def test_what_is_read_is_written(root: Path) -> None:
    graph = json.loads((root / "examples/digits/graph.json").read_text())
    read = byoc.read_graph(graph)
    made = json.loads(write_graph(read, plan_storage(read)))
    for key in ("nodes", "arg_nodes", "node_row_ptr"):
        assert made[key] == graph[key]
    assert made["attrs"]["shape"] == graph["attrs"]["shape"]
    assert made["attrs"]["dltype"] == graph["attrs"]["dltype"]
    check_storage(made)


def test_devices_scopes_and_metadata_stay() -> None:
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("turn", b.call("turn", b.call("turn", x))), metadata={"a": [1]})
    graph["attrs"]["device_index"] = ["list_int", [1, 2, 1, 2]]
    graph["attrs"]["storage_scope"] = [
        "list_str",
        ["global", "global.texture", "global", "global.texture"],
    ]
    read = byoc.read_graph(graph)
    made = json.loads(write_graph(read, plan_storage(read)))
    assert list(made)[-1] == "metadata"
    assert made["attrs"]["device_index"] == graph["attrs"]["device_index"]
    assert made["attrs"]["storage_scope"] == graph["attrs"]["storage_scope"]
    assert len(set(made["attrs"]["storage_id"][1])) == 4, "devices do not share, nor do textures"


def test_more_is_read_than_executors_read() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    for node in graph["nodes"]:
        if not node["inputs"]:
            del node["inputs"]
    attrs = graph["nodes"][1].pop("attrs")
    graph["nodes"][1]["attr"] = {**attrs, "num_inputs": 1, "strides": [2, 2]}
    graph["attrs"]["nodes"] = ["size_t", 7]  # which executors pass over
    read = byoc.read_graph({"metadata": {"a": 1}, **graph})
    assert (read.nodes[1].attrs["strides"], read.nodes[1].attrs["num_inputs"]) == ("[2, 2]", "1")
    assert read.nodes[1].inputs == read.nodes[0].outputs and read.metadata == {"a": 1}


def test_what_the_factory_refuses_is_refused_before_anything_is_cut() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    graph["nodes"][1]["color"] = "red"
    for take in (byoc.read_graph, mblob.graph_executor_factory):
        with pytest.raises(BuildError, match="node 1 'turn1': unknown key 'color'"):
            take(graph)


def test_memory_is_reused() -> None:
    b = Builder()
    value = b.input("x")
    for _ in range(20):
        value = b.call("turn", value)
    read = byoc.read_graph(b.json(value))
    assert len(set(plan_storage(read))) == 4  # the input, the result, and two in turn


def test_sizes_out_of_proportion_are_not_shared() -> None:
    b = Builder()
    x = b.input("x")
    values = [b.call("turn", x)]
    for _ in range(3):
        values.append(b.call("turn", values[-1]))
    graph = b.json(b.call("turn", values[-1]))
    sizes = [4, 4, 1000, 4, 17, 4]
    graph["attrs"]["shape"][1] = [[n] for n in sizes]
    read = byoc.read_graph(graph)
    ids = plan_storage(read)
    assert ids[1] == ids[3]
    assert ids[2] != ids[4]
    check_storage(json.loads(write_graph(read, ids)))
    graph["attrs"]["shape"][1] = [[n] for n in (4, 4, 4, 1000, 4, 4)]
    ids = plan_storage(byoc.read_graph(graph))
    assert ids[3] not in ids[:3], "a block of 16 bytes does not become one of 4000"


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    b = Builder()
    x = b.input("x")
    graph: dict[str, Any] = json.loads(json.dumps(b.json(b.call("turn", b.call("mix", x, x)))))
    change(graph)
    return graph


CASES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda g: g.pop("heads"), "graph: no 'heads'"),
    (lambda g: g.update(extra=1), "graph: unknown key 'extra'"),
    (lambda g: g.update(nodes={}), "graph: nodes: expected a list, found {}"),
    (lambda g: g["nodes"].__setitem__(1, 3), "graph: node 1: expected an object, found 3"),
    (lambda g: g["nodes"][1].pop("name"), "graph: node 1: name: expected a text, found None"),
    (
        lambda g: g["nodes"][1].update(op="call"),
        "graph: node 1 'mix1': op: expected 'null' or 'tvm_op', found 'call'",
    ),
    (lambda g: g["nodes"][1]["attrs"].pop("num_inputs"), "node 1 'mix1': attrs: no 'num_inputs'"),
    (
        lambda g: g["nodes"][1]["attrs"].update(num_inputs="3"),
        "node 1 'mix1': num_inputs is 3, inputs has 2",
    ),
    (
        lambda g: g["nodes"][1]["attrs"].update(num_outputs="x"),
        "attrs: num_outputs: expected a number in quotes, found 'x'",
    ),
    (
        lambda g: g["nodes"][1]["attrs"].update(num_outputs="9" * 19),
        "num_outputs: expected a number in quotes, found '9999999999999999999'",
    ),
    (lambda g: g["nodes"][1]["attrs"].update(func_name=""), "node 1 'mix1': func_name is empty"),
    (lambda g: g["nodes"][1].update(attrs=[]), "node 1 'mix1': attrs: expected an object"),
    (
        lambda g: g["nodes"][1]["inputs"].__setitem__(0, [2, 0, 0]),
        r"inputs: expected \[node, output\] of a node before it, found \[2, 0, 0\]",
    ),
    (
        lambda g: g["nodes"][1]["inputs"].__setitem__(0, [0, 1, 0]),
        r"of a node before it, found \[0, 1, 0\]",
    ),
    (
        lambda g: g["nodes"][1]["inputs"].__setitem__(0, [-1, 0]),
        r"of a node before it, found \[-1, 0\]",
    ),
    (
        lambda g: g["nodes"][1]["inputs"].__setitem__(0, [0]),
        r"of a node before it, found \[0\]",
    ),
    (
        lambda g: g["nodes"][2].update(control_deps=[2]),
        "node 2 'turn2': control_deps: expected a node before it, found 2",
    ),
    (lambda g: g.update(arg_nodes=[1]), "arg_nodes: expected an input node, found 1"),
    (lambda g: g.update(arg_nodes=[]), "arg_nodes lacks node 0 'x'"),
    (lambda g: g.update(arg_nodes=[0, 0]), "arg_nodes: a node is listed twice"),
    (lambda g: g.update(heads=[]), "a graph without results"),
    (lambda g: g.update(heads=[[9, 0, 0]]), r"heads: expected \[node, output\], found \[9, 0, 0\]"),
    (lambda g: g.update(node_row_ptr=[0, 1, 2, 4]), "node_row_ptr: "),
    (lambda g: g.update(attrs=1), "graph: attrs: expected an object, found 1"),
    (lambda g: g["attrs"].pop("shape"), "attrs: no 'shape'"),
    (lambda g: g["attrs"]["shape"][1].pop(), "attrs: shape: 2 items, the nodes have 3 values"),
    (
        lambda g: g["attrs"].update(shape=[]),
        r"attrs: shape: expected \[type, items\], found \[\]",
    ),
    (
        lambda g: g["attrs"]["shape"][1].__setitem__(1, [-1]),
        "node 1 'mix1', output 0: shape: expected numbers from 0 on, found -1",
    ),
    (
        lambda g: g["attrs"]["shape"][1].__setitem__(1, [1 << 60, 4]),
        r"more than 2\^62 bytes in shape",
    ),
    (
        lambda g: g["attrs"]["dltype"][1].__setitem__(1, "real"),
        "node 1 'mix1', output 0: dltype 'real' is no element",
    ),
    (lambda g: g["attrs"]["dltype"][1].__setitem__(1, 3), "attrs: dltype: expected texts, found 3"),
    (
        lambda g: g["attrs"]["storage_id"][1].__setitem__(1, True),
        "storage_id: expected a number from 0 on, found True",
    ),
]


@pytest.mark.parametrize(("change", "message"), CASES, ids=[message[:40] for _, message in CASES])
def test_a_graph_that_lies_is_named(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(BuildError, match=message):
        byoc.read_graph(broken(change))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100000, "1"])
def test_what_is_no_graph(text: str) -> None:
    with pytest.raises(BuildError, match="graph: "):
        byoc.read_graph(text)


def test_inputs_of_one_name_are_refused() -> None:
    b = Builder()
    graph = b.json(b.call("add", b.input("x"), b.input("x")))
    with pytest.raises(BuildError, match="two inputs are called 'x'"):
        mblob.partition_graph(graph, None, None, {"one": takes("add")}, codegens=GENERATORS)


def test_regions_that_cannot_be() -> None:
    def cut(regions: Sequence[Sequence[int]]) -> None:
        b = Builder()
        x = b.input("x")
        a = b.call("turn", x)
        graph = byoc.read_graph(b.json(b.call("add", a, b.call("bump", a))))
        byoc.partition(graph, regions, {1: "one", 3: "one"})

    with pytest.raises(BuildError, match="a region needs what is made of its own results"):
        cut([[1, 3]])
    with pytest.raises(BuildError, match="node 1 is in two regions"):
        cut([[1], [1]])


def test_what_a_pass_did_not_make_is_refused() -> None:
    """Each pass tells what it expects: of another graph, of one that was cut, or of no pass."""

    def chain(*functions: str) -> Any:
        b = Builder()
        value = b.input("x")
        for function in functions:
            value = b.call(function, value)
        return b.json(value)

    text = chain("turn", "bump")
    graph, keys = annotated(text)
    regions = byoc.merge(graph, keys)
    other, _ = annotated(chain("turn"))
    same = byoc.read_graph(text)  # read again: the same graph
    assert byoc.merge(same, keys) == byoc.merge(same, keys, min_cost=1) == regions
    parts = byoc.partition(graph, regions, keys)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: byoc.annotate(5, {}), "^annotate: graph: expected a Graph, .*, found int"),
        (lambda: byoc.annotate(text, {}), "^annotate: graph: expected a Graph, .*, found "),
        (lambda: byoc.annotate(graph, {}), "^annotate: graph: partition.. has cut it; read it"),
        (
            lambda: byoc.annotate(same, {}, [1]),
            "^partition_graph: params: expected a dict of arrays by name, .*, found list",
        ),
        (lambda: byoc.annotate(same, {}, {"x": [1]}), r"^params\['x'\]: expected an array"),
        (lambda: byoc.merge(graph, keys), "^merge: graph: partition.. has cut it; read it"),
        (lambda: byoc.merge(other, keys), "^merge: keys: annotate made them of another graph"),
        (lambda: byoc.merge(same, {9: "one"}), "^merge: keys: 9 is no number of an operator"),
        (lambda: byoc.merge(same, {0: "one"}), "^merge: keys: 0 is no number of an operator"),
        (lambda: byoc.merge(same, {1: 1}), r"^merge: keys\[1\]: expected a type key as text"),
        (lambda: byoc.merge(same, 5), "^merge: keys: expected what annotate returns, found int"),
        (lambda: byoc.merge(same, keys, "2"), "^merge: min_size: expected int, found str"),
        (lambda: byoc.merge(same, keys, 1.5), "^merge: min_size: expected int, found float"),
        (lambda: byoc.partition(graph, regions, keys), "^partition: graph: partition.. has cut"),
        (lambda: byoc.partition(other, regions, keys), "^partition: keys: annotate made them of"),
        (lambda: byoc.partition(same, 5, keys), "^partition: regions: expected what merge ret"),
        (lambda: byoc.partition(same, [[]], keys), r"^partition: regions: \[\] are no operators"),
        (lambda: byoc.partition(same, [[9]], keys), r"^partition: regions: \[9\] are no operat"),
        (lambda: byoc.partition(same, ["a"], keys), "^partition: regions: expected lists of node"),
        (lambda: byoc.text(other, keys), "^text: keys: annotate made them of another graph"),
        (lambda: byoc.text(same, keys, [[9]]), r"^text: regions: \[9\] are no operators of one"),
        (lambda: byoc.build(regions, None), "^build: parts: expected what partition returns, found"),
        (lambda: byoc.build(parts, None, codegens=5), "codegens: expected a dict of functions by"),
        (lambda: byoc.build(parts, None, codegens={"one": 5}), "codegens: 'one': expected a function, found int"),
        (lambda: byoc.build(parts, "x"), "^partition_graph: host: expected a Module or None, found str"),
        (lambda: byoc.JsonGraph(parts), "^JsonGraph: region: expected a Region, found Partition"),
        (
            lambda: mblob.partition_graph(text, None, None, {}, trace=5),
            "^partition_graph: trace: expected a function such as print, found int",
        ),
    ]  # fmt: skip
    for call, message in wrong:
        with pytest.raises(BuildError, match=message):
            call()


def annotated(text: Any) -> tuple[Any, Any]:
    """A graph, and the keys of all its operators."""
    graph = byoc.read_graph(text)
    return graph, byoc.annotate(graph, {"one": lambda _: True})


def test_small_element_types_have_sizes() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    for dtype, size in (("bool", 4), ("int8", 4), ("float16", 8), ("float32x4", 64), ("int4", 4)):
        graph["attrs"]["dltype"][1] = [dtype] * 2
        read = byoc.read_graph(graph)
        assert read.nodes[0].outputs[0].size == size, DataType.parse(dtype)


def test_the_constant_loader_names_what_is_missing() -> None:
    with pytest.raises(BuildError, match="'f' needs 'w', which is none of the constants"):
        mblob.const_loader_module({}, {"f": ["w"]})
    with pytest.raises(
        BuildError, match=r"const_loader_module: constants\['w'\]: expected an array"
    ):
        mblob.const_loader_module({"w": 3}, {"f": ["w"]})
