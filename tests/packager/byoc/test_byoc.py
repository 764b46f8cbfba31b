"""Partitioned graphs: random ones give the same numbers; the edges of what can be cut."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import byoc
from mblob.packager.byoc.build import as_records
from mblob.packager.byoc.region_numbers import region_numbers
from mblob.packager.errors import BuildError
from tests.packager import graphs
from tests.packager.byoc.partitions import (
    GENERATORS,
    array,
    check,
    check_storage,
    names,
    regions_of,
)
from tests.packager.graphs import Builder, run_model, takes

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

# -- any graph -------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_give_the_same_numbers(
    seed: int, host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    graph, inputs = graphs.random_graph(seed, 4 + 3 * seed)

    def hashed(operator: byoc.Operator) -> int:
        return zlib.crc32(f"{seed} {operator.name}".encode()) % 5

    targets = {"one": lambda o: hashed(o) < 2, "two": lambda o: hashed(o) < (3 + seed % 3)}
    data = {name: array(i) for i, name in enumerate(inputs)}
    params = {name: data[name] for name in inputs[1:]} if seed % 2 else {}
    module = mblob.partition_graph(
        graph, params, host(), targets, codegens=GENERATORS, min_size=1 + seed % 2
    )
    check(graph, module, tmp_path / "x.so", data, runs=2)


@pytest.mark.parametrize("seed", range(40))
def test_every_random_partition_is_sound(seed: int) -> None:
    """Regions are connected, convex and of one key; memory is shared by what never lives at the
    same time."""
    graph, _ = graphs.random_graph(1000 + seed, 40)
    read = byoc.read_graph(graph)
    keys = byoc.annotate(read, {"one": lambda o: zlib.crc32(f"{seed}{o.name}".encode()) % 4})
    regions = byoc.merge(read, keys)
    number = {id(n): i for i, n in enumerate(read.nodes)}
    before = [{number[id(v.node)] for v in n.inputs} for n in read.nodes]
    above: list[set[int]] = []
    for b in before:
        above.append(b.union(*(above[i] for i in b)))
    for region in regions:
        inside = set(region)
        for i in range(len(before)):
            if i not in inside:
                assert not (above[i] & inside and any(i in above[j] for j in inside)), (
                    "a path leaves and comes back"
                )
    again = byoc.merge(read, keys)
    assert again == regions
    check_storage(json.loads(byoc.partition(read, regions, keys).graph_json))


# -- shapes of graphs ------------------------------------------------------------------------------


def test_a_chain_is_one_region_and_the_whole_graph(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("turn", b.call("mix", x, x)))
    module = mblob.partition_graph(
        graph, None, None, {"one": takes("mix", "turn")}, codegens=GENERATORS
    )
    assert check(graph, module, tmp_path / "x.so", {"x": array(1)}) == ["tvmgen_default_one_main_0"]
    assert [m.type_key for m in module.imported_modules[0].imported_modules] == ["c", "one"]


def test_a_diamond_around_an_unsupported_operator_is_cut(
    host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    """a -> (b, c) -> d with b elsewhere: a and d in one region would wait for b, which waits for
    them."""
    b = Builder()
    x = b.input("x")
    a = b.call("turn", x)
    graph = b.json(b.call("add", b.call("bump", a), b.call("mix", a, a)))
    targets = {"one": takes("turn", "mix", "add")}
    assert names(regions_of(graph, targets)) == [["turn", "mix"], ["add"]]
    module = mblob.partition_graph(graph, None, host(), targets, codegens=GENERATORS)
    check(graph, module, tmp_path / "x.so", {"x": array(2)})


def numbers(parts: byoc.Partition) -> dict[str, int]:
    """The number of the region in which each function is."""
    return {
        operator.function: int(region.symbol.rsplit("_", 1)[1])
        for region in parts.regions
        for operator in region.operators
    }


def test_regions_are_numbered_by_their_inputs_as_tvm_does() -> None:
    b = Builder()
    x = b.input("x")
    first = b.call("mix", x, b.input("w"))
    graph = b.json(b.call("add", b.call("bump", first), b.input("v")))
    assert numbers(regions_of(graph, {"one": takes("mix", "add")})) == {"mix": 0, "add": 2}


def test_a_region_has_the_number_of_its_first_input_in_a_walk_from_the_outputs() -> None:
    """The walk sees both inputs of `mix` (0, 1), that of `add` from `bump` (2), and `turn`'s (3),
    which joins 2. In the order of the nodes, `turn` would be 0."""
    b = Builder()
    x = b.input("x")
    turned = b.call("turn", x)
    graph = b.json(b.call("add", b.call("bump", b.call("mix", x, x)), turned))
    parts = regions_of(graph, {"one": takes("turn", "mix", "add")})
    assert sorted(names(parts)) == [["mix"], ["turn", "add"]]
    assert numbers(parts) == {"mix": 0, "turn": 2, "add": 2}


def test_numbers_of_a_long_chain_need_no_deep_stack() -> None:
    b = Builder()
    value = b.input("x")
    for _ in range(2000):
        value = b.call("bump", b.call("turn", value))
    read = byoc.read_graph(b.json(value))
    regions = [[i] for i, node in enumerate(read.nodes) if node.function == "turn"]
    assert region_numbers(read, regions) == list(range(2000))


def test_a_long_way_round_is_seen() -> None:
    """Through two other operators and another region."""
    b = Builder()
    x = b.input("x")
    a = b.call("turn", x)
    away = b.call("split", b.call("bump", a))[1]
    graph = b.json(b.call("add", a, b.call("bump", away)))
    parts = regions_of(graph, {"one": takes("turn", "add"), "two": takes("split")})
    assert sorted(names(parts)) == [["add"], ["split"], ["turn"]]


def test_control_dependencies_count(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x")
    a = b.call("turn", x)
    other = b.call("bump", x)
    last = b.call("mix", a, a)
    b.nodes[other[0]]["control_deps"] = [a[0]]
    b.nodes[last[0]]["control_deps"] = [other[0]]
    graph = b.json(last, other)
    targets = {"one": takes("turn", "mix")}
    parts = regions_of(graph, targets)
    assert names(parts) == [["turn"], ["mix"]]
    made = json.loads(parts.graph_json)
    by_name = {n["name"]: n for n in made["nodes"]}
    called = [made["nodes"][i]["name"] for i in by_name["bump2"]["control_deps"]]
    assert called == ["tvmgen_default_one_main_0"]
    module = mblob.partition_graph(graph, None, host(), targets, codegens=GENERATORS)
    check(graph, module, tmp_path / "x.so", {"x": array(2)})


def test_who_waits_for_a_constant_that_goes_with_its_region(
    host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    b = Builder()
    x, w = b.input("x"), b.input("w")
    made = b.call("bump", b.call("add", x, w))
    b.nodes[made[0]]["control_deps"] = [w[0]]
    graph, data = b.json(made), {"x": array(1), "w": array(2)}
    module = mblob.partition_graph(
        graph, {"w": data["w"]}, host(), {"one": takes("add")}, codegens=GENERATORS
    )
    assert [n.get("control_deps") for n in json.loads(module.get_source())["nodes"]] == [None] * 3
    check(graph, module, tmp_path / "x.so", data)


def test_several_outputs_some_of_them_unused(
    host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    b = Builder()
    x = b.input("x")
    low, high = b.call("split", b.call("turn", x))
    low2, _ = b.call("split", high)
    graph = b.json(b.call("bump", low), low2, low)
    targets = {"one": takes("turn", "split")}
    (region,) = regions_of(graph, targets).regions
    assert [t.name for t in region.outputs] == ["split2", "split3"]
    module = mblob.partition_graph(graph, None, host(), targets, codegens=GENERATORS)
    check(graph, module, tmp_path / "x.so", {"x": array(3)})


def test_a_result_twice_and_an_input_as_result(tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x")
    y = b.call("turn", x)
    graph = b.json(y, x, y)
    module = mblob.partition_graph(graph, None, None, {"one": takes("turn")}, codegens=GENERATORS)
    check(graph, module, tmp_path / "x.so", {"x": array(4)})


def test_what_stays_with_the_graph_needs_a_host() -> None:
    """Also what a predicate takes, if nothing uses its result."""
    b = Builder()
    x = b.input("x")
    b.call("mix", x, x)
    graph = b.json(b.call("turn", x))
    with pytest.raises(
        BuildError, match=r"host is None, and node '\w+' stays .* the module that has mix"
    ):
        mblob.partition_graph(graph, None, None, {"one": takes("mix", "turn")}, codegens=GENERATORS)
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("add", x, x))
    with pytest.raises(
        BuildError, match=r"host is None, and node '\w+' .* the module that has add"
    ):
        mblob.partition_graph(graph, None, None, {"one": takes("turn")}, codegens=GENERATORS)


def test_nobody_takes_anything(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("turn", x))
    module = mblob.partition_graph(
        graph, None, host(), {"one": lambda _: False}, codegens=GENERATORS
    )
    assert [m.type_key for m in module.walk()] == ["GraphExecutorFactory", "static_library"]
    assert check(graph, module, tmp_path / "x.so", {"x": array(5)}) == []


def test_names_that_are_taken(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    """Nodes may share a name, and have the one that a region would get."""
    b = Builder()
    x = b.input("tvmgen_default_one_main_0")
    one = b.call("turn", x, name="same")
    graph = b.json(
        b.call("turn", b.call("bump", one, name="same"), name="tvmgen_default_one_main_1")
    )
    module = mblob.partition_graph(graph, None, host(), {"one": takes("turn")}, codegens=GENERATORS)
    log = check(graph, module, tmp_path / "x.so", {"tvmgen_default_one_main_0": array(6)})
    assert log == ["tvmgen_default_one_main_0_", "tvmgen_default_one_main_1_"]


def test_a_key_that_is_no_c_name() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    (region,) = regions_of(graph, {"my-key 1": takes("turn")}).regions
    assert region.symbol == "tvmgen_default_my_key_1_main_0"


def test_small_regions_stay(host: Callable[[], mblob.Module]) -> None:
    b = Builder()
    x = b.input("x")
    pair = b.call("turn", b.call("turn", x))
    graph = b.json(b.call("turn", b.call("bump", pair)))
    assert names(regions_of(graph, {"one": takes("turn")}, min_size=2)) == [["turn", "turn"]]
    assert names(regions_of(graph, {"one": takes("turn")}, min_size=3)) == []


def test_cheap_regions_stay(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    """The pair of `turn` costs 8, the other one 4; a reshape nothing."""
    b = Builder()
    x = b.input("x")
    first = b.call("turn", x)
    pair = b.call("turn", b.call("__nop", first, share=first))
    graph = b.json(b.call("turn", b.call("bump", pair)))

    def kept(**costs: Any) -> list[int]:
        targets = {"one": takes("turn", "__nop")}
        return [len(region) for region in names(regions_of(graph, targets, **costs))]

    assert kept(min_cost=4) == [3, 1]
    assert kept(min_cost=4.5) == kept(min_cost=8) == [3]
    assert kept(min_cost=9) == []
    assert kept(min_cost=2, cost=lambda o: int(o.name == "turn5")) == []
    assert kept(min_cost=1, cost=lambda o: np.float32(o.name == "turn5")) == [1]
    read = byoc.read_graph(graph)
    plain = dict(byoc.annotate(read, {"one": takes("turn", "__nop")}))
    assert byoc.merge(read, plain, min_cost=8) == [[1, 2, 3]]
    module = mblob.partition_graph(
        graph, None, host(), {"one": takes("turn")}, min_cost=1e9, codegens=GENERATORS
    )
    assert check(graph, module, tmp_path / "x.so", {"x": array(1)}) == []


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"min_cost": -1}, "merge: min_cost: expected a number that is 0 or more, found -1"),
        ({"min_cost": float("nan")}, "merge: min_cost: expected a number .*, found nan"),
        ({"min_cost": "1"}, "merge: min_cost: expected a number .*, found '1'"),
        ({"cost": 1}, "merge: cost: expected a function, found int"),
        (
            {"cost": lambda _: None},
            r"the cost, for node 'turn1' \(turn\): expected a .*, found None",
        ),
        ({"cost": lambda _: -1}, r"the cost, for node 'turn1' \(turn\): expected a .*, found -1"),
        ({"cost": lambda _: 1 // 0}, r"the cost, for node 'turn1' \(turn\), failed: ZeroDivision"),
        (
            {"cost": lambda o: o.integer("a")},
            r"the cost, for node 'turn1' \(turn\): .*no attribute",
        ),
    ],
)
def test_costs_that_are_none(costs: dict[str, Any], message: str) -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    with pytest.raises(BuildError, match=message):
        regions_of(graph, {"one": takes("turn")}, **{"min_cost": 1, **costs})


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "expected"),
    [
        ("nn.relu", [(2, 3), (2, 3)], {}, 6),
        ("add", [(), (), ()], {}, 1),
        ("nn.conv2d", [(1, 32, 56, 56), (32, 32, 3, 3), (1, 32, 56, 56)], {}, 2 * 32 * 9 * 32 * 56 * 56),
        ("conv2d", [(1, 9, 9, 4), (3, 3, 2, 6), (1, 4, 3, 6)],
         {"kernel_layout": "HWIO", "groups": "2"}, 2 * 9 * 2 * 6 * 4 * 3),
        ("nn.conv1d", [(1, 3, 8), (4, 3, 3), (1, 4, 8)], {}, 2 * 9 * 4 * 8),
        ("nn.conv2d_transpose", [(1, 3, 4, 4), (3, 5, 2, 2), (1, 5, 8, 8)], {}, 2 * 20 * 3 * 16),
        ("nn.dense", [(2, 6), (4, 6), (2, 4)], {}, 2 * 2 * 4 * 6),
        ("nn.batch_matmul", [(3, 2, 6), (3, 4, 6), (3, 2, 4)], {}, 2 * 3 * 2 * 4 * 6),
    ],
)  # fmt: skip
def test_the_operations_of_an_operator(
    op: str, shapes: list[tuple[int, ...]], attrs: dict[str, str], expected: int
) -> None:
    *inputs, output = (byoc.Tensor("t", shape, "float32") for shape in shapes)
    assert byoc.operations(byoc.Operator("n", op, "f", attrs, inputs, [output])) == expected


def test_reshapes_stay_outside_unless_they_connect() -> None:
    b = Builder()
    x = b.input("x")
    before = b.call("__nop", x, share=x)
    a = b.call("turn", before)
    between = b.call("__nop", a, share=a)
    c = b.call("turn", between)
    graph = b.json(b.call("__nop", c, share=c))
    parts = regions_of(graph, {"one": lambda _: True})
    assert names(parts) == [["turn", "__nop", "turn"]]
    check_storage(json.loads(parts.graph_json))
    only = Builder()
    x = only.input("x")
    assert (
        names(regions_of(only.json(only.call("__nop", x, share=x)), {"one": lambda _: True})) == []
    )


def test_what_writes_in_place_stays_and_keeps_its_order(
    host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    """A counter that lives in an input: read before and behind the write, run three times."""
    b = Builder()
    count = b.input("count")
    old = b.call("turn", count)
    new = b.call("bump", count, share=count)
    after = b.call("turn", count)
    graph = b.json(b.call("add", old, after), new)
    targets = {"one": lambda _: True}
    parts = regions_of(graph, targets)
    assert [n for region in names(parts) for n in region].count("bump") == 0
    module = mblob.partition_graph(graph, None, host(), targets, codegens=GENERATORS)
    start = np.array([1, 2, 3, 4], "int32")
    sums, counted = run_model(module, tmp_path / "x.so", {"count": start}, runs=3)
    assert counted.tolist() == [4, 5, 6, 7]
    assert sums.tolist() == (np.roll(start + 2, -1) + np.roll(start + 3, -1)).tolist()


def test_a_parameter_that_the_graph_writes_is_no_constant() -> None:
    b = Builder()
    state, x = b.input("state"), b.input("x")
    b.call("bump", state, share=state)
    graph = b.json(b.call("add", x, state))
    records = as_records({"state": array(1)})
    (region,) = regions_of(graph, {"one": takes("add")}, params=records).regions
    assert [t.name for t in region.inputs] == ["x", "state"]


def test_two_keys_and_the_first_that_agrees() -> None:
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("turn", b.call("mix", b.call("turn", x), x)))
    parts = regions_of(graph, {"one": takes("mix"), "two": lambda _: True})
    assert [(r.key, len(r.operators)) for r in parts.regions] == [
        ("two", 1),
        ("one", 1),
        ("two", 1),
    ]


def test_a_dead_operator_is_nobodys() -> None:
    b = Builder()
    x = b.input("x")
    b.call("turn", x)
    assert names(regions_of(b.json(b.call("bump", x)), {"one": lambda _: True})) == [["bump"]]


def test_a_chain_takes_linear_time(count_calls: Callable[[Callable[[], object]], int]) -> None:
    def partition(size: int) -> Callable[[], object]:
        b = Builder()
        value = b.input("x")
        for _ in range(size):
            value = b.call("turn", value)
        graph = b.json(value)
        return lambda: regions_of(graph, {"one": lambda _: True})

    small, large = count_calls(partition(300)), count_calls(partition(600))
    assert large < 2.2 * small
