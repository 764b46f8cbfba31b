"""Which values share memory: branches stay apart, and how much memory that takes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import mblob
from mblob import byoc
from mblob.packager.byoc.graph import Graph, Value, dependencies
from mblob.packager.byoc.storage import ROOM, SMALL, _Order, _Plan, plan_storage
from tests.packager.byoc.partitions import check_storage

LARGE = (1 << 20,)  # 4 MiB: more than SMALL


def branches(count: int, depth: int, end: Any = LARGE) -> mblob.GraphBuilder:
    """Branches of `depth` operators, each with an end of another shape, and one that joins them."""
    g = mblob.GraphBuilder()
    x, ends = g.input("x", LARGE), []
    for _ in range(count):
        value = x
        for _ in range(depth):
            value = g.call("f", [value], LARGE)
        ends.append(g.call("end", [value], end))
    g.output(g.call("join", ends, 1))
    return g


def planned(g: mblob.GraphBuilder) -> tuple[Graph, list[int]]:
    text = g.graph_json()
    check_storage(json.loads(text))
    graph = byoc.read_graph(text)
    return graph, plan_storage(graph)


def longest(graph: Graph, ids: list[int] | None) -> int:
    """Operators that run one after the other at least; with storage ids, as the executor orders
    those whose memory overlaps."""
    storage = {id(v): i for v, i in zip(graph.values(), ids or ())}
    users: dict[int, set[int]] = {}
    depth: list[int] = []
    for i, (node, before) in enumerate(zip(graph.nodes, dependencies(graph))):
        made = [storage[id(v)] for v in node.outputs] if ids else []
        waits = before.union(*(users.get(block, ()) for block in made))
        depth.append(max((depth[j] for j in waits), default=0) + (not node.is_input))
        for value in (*node.inputs, *node.outputs) if ids else ():
            users.setdefault(storage[id(value)], set()).add(i)
    return max(depth)


def bytes_of(graph: Graph, ids: list[int]) -> int:
    """Of the memory without that of inputs and results."""
    kept = {id(v) for node in graph.inputs for v in node.outputs} | {id(v) for v in graph.heads}
    sizes: dict[int, int] = {}
    for value, block in zip(graph.values(), ids):
        if id(value) not in kept:
            sizes[block] = max(sizes.get(block, 0), value.size)
    return sum(sizes.values())


def dense(graph: Graph) -> list[int]:
    """As TVM plans."""
    return _Plan(graph, None, 0).ids


def test_branches_whose_ends_live_at_the_same_time_stay_apart() -> None:
    graph, ids = planned(branches(4, 5))
    assert longest(graph, ids) == longest(graph, None) == 7
    assert longest(graph, dense(graph)) == 25
    assert bytes_of(graph, ids) <= ROOM * bytes_of(graph, dense(graph))


def test_branches_that_would_need_more_memory_take_turns() -> None:
    """Ends are small, so TVM's plan has two large blocks for all branches: here, two branches run at
    the same time."""
    graph, ids = planned(branches(8, 3, (4,)))
    assert bytes_of(graph, ids) <= ROOM * bytes_of(graph, dense(graph))
    assert longest(graph, dense(graph)) == 33
    assert longest(graph, ids) <= 20


def test_small_branches_stay_apart_whatever_the_plan_of_tvm_needs() -> None:
    g = mblob.GraphBuilder()
    x = g.input("x", 4)
    ends = []
    for _ in range(30):
        value = x
        for _ in range(4):
            value = g.call("f", [value], 4)
        ends.append(g.call("end", [value], 1, "int8"))
    g.output(g.call("join", ends, 1))
    graph, ids = planned(g)
    assert longest(graph, ids) == 6
    assert bytes_of(graph, ids) < SMALL


def test_a_chain_needs_what_it_needed() -> None:
    g = mblob.GraphBuilder()
    value = g.input("x", LARGE)
    for i in range(20):
        value = g.call("f", [value], (LARGE[0] - i,))
    g.output(value)
    graph, ids = planned(g)
    assert ids == dense(graph)
    assert len(set(ids)) == 4


def test_values_of_devices_share_memory_as_tvm_plans() -> None:
    """Their operators run one after the other in any case."""
    g = mblob.GraphBuilder()
    x = g.input("x", LARGE, device=mblob.opencl(0))
    a, b = (g.call("f", [g.call("f", [x], LARGE)], LARGE) for _ in range(2))
    g.output(g.call("join", [a, b], 1))
    graph, ids = planned(g)
    assert ids == dense(graph)


@pytest.mark.parametrize("seed", range(30))
def test_any_graph_is_planned_soundly_and_within_its_bounds(seed: int) -> None:
    rng = random.Random(seed)
    g = mblob.GraphBuilder()
    known: list[Value] = [g.input(f"x{i}", LARGE) for i in range(3)]
    for _ in range(80):
        picked = rng.sample(known[-rng.choice((3, 10, 40)) :], rng.randint(1, 3))
        shape = LARGE if rng.random() < 0.7 else (rng.choice((1, 1000, 1 << 18, 3 << 20)),)
        if rng.random() < 0.1:
            known.append(g.reshape(picked[0], (*picked[0].shape, 1)))
        else:
            known.append(g.call("f", picked, shape))
    g.output(*rng.sample(known[3:], 3))
    graph, ids = planned(g)
    assert bytes_of(graph, ids) <= ROOM * bytes_of(graph, dense(graph))
    assert longest(graph, ids) <= longest(graph, dense(graph))


@pytest.mark.parametrize("seed", range(10))
def test_what_waits_for_what(seed: int) -> None:
    """As a search finds it."""
    rng = random.Random(seed)
    g = mblob.GraphBuilder()
    known = [g.input("x", 4)]
    for _ in range(60):
        known.append(g.call("f", [rng.choice(known[-8:]) for _ in range(rng.randint(1, 3))], 4))
    g.output(known[-1])
    graph = byoc.read_graph(g.graph_json())
    order = _Order(graph)
    before: list[set[int]] = []
    for i, direct in enumerate(dependencies(graph)):
        direct -= {0}
        before.append(direct.union(*(before[j] for j in direct)))
        assert {j for j in range(1, i) if order.waits(i, [j])} == before[i]


@pytest.mark.slow
def test_plans_take_steps_in_proportion(count_calls: Callable[[Callable[[], object]], int]) -> None:
    def plan(count: int) -> Callable[[], object]:
        graph = byoc.read_graph(branches(count, 3, (4,)).graph_json())
        return lambda: plan_storage(graph)

    assert count_calls(plan(800)) < 2.3 * count_calls(plan(400))
