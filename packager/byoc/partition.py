"""Cuts regions out of a graph: each becomes one call of a function of its own, and a `Region` to
generate that of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mblob.dtype import DataType
from mblob.format.import_tree import topological_order
from mblob.format.ndarray import ArrayRecord
from mblob.packager.byoc.annotate import (
    Annotation,
    Tensors,
    as_records,
    check_keys,
    check_regions,
)
from mblob.packager.byoc.composites import Match
from mblob.packager.byoc.graph import Graph, Node, Value, call_attrs, dependencies, write_graph
from mblob.packager.byoc.operators import Composite, Operator, Region
from mblob.packager.byoc.region_numbers import region_numbers
from mblob.packager.byoc.storage import plan_storage
from mblob.packager.errors import BuildError


@dataclass(frozen=True)
class Partition:
    """A graph without its regions.

    Attributes:
        graph_json: the graph that calls them, for any executor of TVM's format.
        params: the parameters of that graph.
        regions: the regions, in the order of their first operators.
    """

    graph_json: str
    params: dict[str, ArrayRecord]
    regions: list[Region]


def partition(
    graph: Graph,
    regions: Sequence[Sequence[int]],
    keys: Mapping[int, str],
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> Partition:
    """Cut regions out of a graph. The graph object cannot be used afterwards.

    Args:
        regions: of `merge`.
        keys: of `annotate`.
        params: parameters by the name of their input, as of `as_records`. Parameters that only regions use become
            theirs.
        mod_name: part of the names of the functions, `tvmgen_<mod_name>_<key>_main_<i>`, where `i` is
            TVM's number of the region (`region_numbers`).

    Raises:
        BuildError: the graph was cut before; keys or regions are of another one; regions overlap or make a
            cycle; or the parameters do not fit the graph.
    """
    check_keys("partition", graph, keys)
    check_regions("partition", regions, keys)
    params = as_records(params)
    _check_params(graph, params)
    where = _where(regions)
    order = _order(graph, regions, where)  # before anything changes
    names = _names(graph, regions, keys, mod_name)
    graph.is_cut = True
    composites = keys.composites if isinstance(keys, Annotation) else ()
    cutter = _Cutter(graph, where, Tensors(graph, params), composites)
    made = [cutter.cut(region, keys[region[0]], name) for region, name in zip(regions, names)]
    calls = [cutter.call(region, cut) for region, cut in zip(regions, made)]
    for node in (*graph.nodes, *calls):
        after = (cutter.number[id(n)] for n in node.after)
        now = dict.fromkeys(calls[where[i]] if i in where else graph.nodes[i] for i in after)
        node.after = [n for n in now if n is not node]
    kept = cutter.used_outside()
    gone = {
        id(v.node)
        for call, cut in zip(calls, made)
        for v in cutter.constants[id(call)]
        if id(v) not in kept
    }
    count = len(graph.nodes)
    nodes = [graph.nodes[v] if v < count else calls[v - count] for v in order]
    nodes = [node for node in nodes if id(node) not in gone]
    for node in nodes:  # a constant that went with its regions is not waited for
        node.after = [n for n in node.after if id(n) not in gone]
    moved = {node.name for node in graph.inputs if id(node) in gone}
    rest = Graph(nodes, [n for n in graph.inputs if id(n) not in gone], graph.heads, graph.metadata)
    left = {name: record for name, record in params.items() if name not in moved}
    return Partition(write_graph(rest, plan_storage(rest)), left, made)


def _check_params(graph: Graph, params: Mapping[str, ArrayRecord]) -> None:
    inputs: dict[str, Node] = {}
    for node in graph.inputs:
        if inputs.setdefault(node.name, node) is not node:
            raise BuildError(f"graph: two inputs are called {node.name!r}")
    if unknown := [name for name in params if name not in inputs]:
        raise BuildError(
            f"params: the graph has no input {', '.join(map(repr, unknown))}; it has {', '.join(inputs) or 'none'}"
        )
    for name, record in params.items():
        value = inputs[name].outputs[0]
        if (record.dtype, record.shape) != (DataType.parse(value.dtype), value.shape):
            raise BuildError(
                f"params: {name!r} is {record.dtype}{list(record.shape)}, the graph has {value.dtype}"
                f"{list(value.shape)}"
            )


def _where(regions: Sequence[Sequence[int]]) -> dict[int, int]:
    """The region of each node that is in one."""
    found: dict[int, int] = {}
    for r, region in enumerate(regions):
        for i in region:
            if found.setdefault(i, r) != r:
                raise BuildError(f"partition: node {i} is in two regions")
    return found


def _order(graph: Graph, regions: Sequence[Sequence[int]], where: Mapping[int, int]) -> list[int]:
    """Vertices in the order in which they run: numbers of nodes, and behind them those of regions.

    Nodes stay in their order as far as they can; a region comes where its last node was.
    """
    count = len(graph.nodes)
    vertices = [i for i in range(count) if i not in where] + [
        count + r for r in range(len(regions))
    ]
    vertices.sort(key=lambda v: v if v < count else regions[v - count][-1])
    place = {vertex: i for i, vertex in enumerate(vertices)}

    def vertex_of(node: int) -> int:
        return place[count + where[node] if node in where else node]

    rows: list[set[int]] = [set() for _ in vertices]
    for i, before in enumerate(dependencies(graph)):
        for j in before:
            if vertex_of(i) != vertex_of(j):
                rows[vertex_of(j)].add(vertex_of(i))
    order = topological_order([sorted(row) for row in rows])
    if len(order) != len(vertices):
        raise BuildError(
            "partition: a region needs what is made of its own results; regions of merge() never do"
        )
    return [vertices[i] for i in order]


def _names(
    graph: Graph, regions: Sequence[Sequence[int]], keys: Mapping[int, str], mod_name: str
) -> list[str]:
    """A function for each region, of a name that nothing in the graph has."""
    taken = {n.name for n in graph.nodes} | {n.function for n in graph.nodes}
    names: list[str] = []
    for region, i in zip(regions, region_numbers(graph, regions)):
        name = re.sub(r"\W", "_", f"tvmgen_{mod_name}_{keys[region[0]]}_main_{i}", flags=re.ASCII)
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


class _Cutter:
    """Takes regions out of a graph one after the other."""

    def __init__(
        self,
        graph: Graph,
        where: Mapping[int, int],
        tensors: Tensors,
        composites: Sequence[Match],
    ) -> None:
        self.graph = graph
        self._composites = {match.nodes[-1]: match for match in composites}
        self._inside = {i for match in composites for i in match.nodes[:-1]}
        self.where = where
        self.tensors = tensors
        self.number = {id(node): i for i, node in enumerate(graph.nodes)}
        self.constants: dict[int, list[Value]] = {}
        self._stored: dict[int, str] = {}  # names under which constants are stored, by tensor
        # regions that use a value, -1 for the rest of the graph
        self._readers: dict[int, set[int]] = {}
        for i, node in enumerate(graph.nodes):
            for value in node.inputs:
                self._readers.setdefault(id(value), set()).add(where.get(i, -1))
        for value in graph.heads:
            self._readers.setdefault(id(value), set()).add(-1)

    def used_outside(self) -> set[int]:
        """Ids of the values that the rest of the graph uses, or returns."""
        return {value for value, readers in self._readers.items() if -1 in readers}

    def _edge(self, region: Sequence[int]) -> tuple[list[Value], list[Value]]:
        """The values that a region gets, in the order of their use, and those that it gives."""
        nodes = [self.graph.nodes[i] for i in region]
        inside = {id(v) for node in nodes for v in node.outputs}
        outer = {id(v): v for node in nodes for v in node.inputs if id(v) not in inside}
        own = {self.where[region[0]]}
        given = [v for node in nodes for v in node.outputs if self._readers.get(id(v), own) - own]
        return list(outer.values()), given

    def cut(self, region: Sequence[int], key: str, symbol: str) -> Region:
        """The region that the code generator gets."""
        outer, given = self._edge(region)
        tensors = [self.tensors.of(v) for v in outer]
        constants = [t for t in tensors if t.is_constant]
        names = [
            self._stored.setdefault(id(t), f"{symbol}_const_{i}") for i, t in enumerate(constants)
        ]
        return Region(
            key=key,
            symbol=symbol,
            operators=[self._operator(i) for i in region],
            inputs=[t for t in tensors if not t.is_constant],
            constants=constants,
            outputs=[self.tensors.of(v) for v in given],
            constant_names=names,
            calls=[self._call(i) for i in region if i not in self._inside],
        )

    def _operator(self, node: int) -> Operator:
        return self.tensors.operator(self.graph.nodes[node])

    def _call(self, node: int) -> Operator:
        match = self._composites.get(node)
        if match is None:
            return self._operator(node)
        return Composite.of(match.name, [self._operator(i) for i in match.nodes])

    def call(self, nodes: Sequence[int], region: Region) -> Node:
        """The node that calls a region's function. The values that it gives become that node's."""
        outer, given = self._edge(nodes)
        call = Node(
            region.symbol, False, [v for v in outer if not self.tensors.of(v).is_constant], given
        )
        call.attrs = call_attrs(region.symbol, len(call.inputs), len(given))
        call.after = [n for i in nodes for n in self.graph.nodes[i].after]
        self.constants[id(call)] = [v for v in outer if self.tensors.of(v).is_constant]
        for i, value in enumerate(given):
            value.node, value.output = call, i
        return call
