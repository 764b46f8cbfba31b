"""The summary of a graph: the JSON of graph executors and of JSON runtimes, docs/runtime.md.

It shows what a damaged graph still tells: nothing in it is sure to be there.
`mblob.format.graph_json` says what is wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mblob import json_text
from mblob.dtype import DataType
from mblob.format.graph_json import GraphError
from mblob.named_tuple import NamedTuple

OPERATOR_LIMIT = 4096  # operators that are told apart
VALUES_SHOWN = 8  # outputs of one node


class GraphNode(NamedTuple):
    """A node of a graph, as it is drawn.

    Attributes:
        kind: "input", "constant" or "operator".
        name: of the node.
        operator: the function that it calls, "" for inputs and constants.
        inputs: of each input the number of its node and which of the outputs of that.
        values: of its outputs, type and shape as text: `float32[1, 10]`; "" what nothing tells.
    """

    kind: str
    name: str
    operator: str
    inputs: tuple[tuple[int, int], ...]
    values: tuple[str, ...]


def summarize(raw: memoryview) -> dict[str, Any]:
    """Nodes, inputs and outputs, operators by their number, storage.

    Returns:
        {"nodes", "parameters": inputs of the graph, "inputs": [{"name", "shape", "dtype"}],
        "outputs": the same with "node" in place of a name of their own, "operators": {name: count},
        "storage": {"buffers", "bytes"} or None, "devices": [type, ...]}.

    Raises:
        GraphError: it is none, said in one line.
    """
    return _parse(raw).summary()


def nodes_of(raw: memoryview) -> tuple[list[GraphNode], list[tuple[int, int]]]:
    """The nodes of a graph in stored order, and of each output its node and which of its values.

    Numbers of nodes and values are what the text says: they may be of none.

    Raises:
        GraphError: as of `summarize`.
    """
    graph = _parse(raw)
    return [graph.node(i) for i in range(len(graph.nodes))], graph.heads()


def value_text(value: dict[str, Any]) -> str:
    """Type and shape of a value: `float32[1, 10]`, `?` for what nothing tells."""
    shape = value["shape"]
    return f"{value['dtype'] or '?'}[{', '.join(map(str, shape)) if shape is not None else '?'}]"


def _parse(raw: memoryview) -> _Graph:
    try:
        graph = json_text.parse(bytes(raw))
    except json_text.JsonError as error:
        raise GraphError(f"its graph is no JSON: {error}") from None
    if not isinstance(graph, dict) or not isinstance(nodes := graph.get("nodes"), list):
        raise GraphError("its graph has no list of nodes")
    if not all(isinstance(n, dict) for n in nodes):
        raise GraphError("a node of its graph is no object")
    return _Graph(graph, nodes)


class _Graph:
    """A parsed graph. Nothing in it is sure to be there, or to be of its kind."""

    def __init__(self, graph: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
        self.graph = graph
        self.nodes = nodes
        self.rows = _ints(graph.get("node_row_ptr"))
        attributes = graph.get("attrs")
        self.attributes = attributes if isinstance(attributes, dict) else {}

    def summary(self) -> dict[str, Any]:
        nodes = self.nodes
        operators = Counter(
            self._operator(n) for n in nodes if n.get("op") not in ("null", "input", "const")
        )
        inputs = [i for i in _ints(self.graph.get("arg_nodes")) if 0 <= i < len(nodes)]
        return {
            "nodes": len(nodes),
            "inputs": [self._value(i, 0) for i in inputs],
            "outputs": [
                self._value(node, at) for node, at in self.heads() if 0 <= node < len(nodes)
            ],
            "operators": dict(
                sorted(operators.most_common(OPERATOR_LIMIT), key=lambda item: (-item[1], item[0]))
            ),
            "storage": self._storage(),
            "devices": sorted(set(_ints(self._column("device_index")))),
        }

    def heads(self) -> list[tuple[int, int]]:
        """Of each output its node and which of its values."""
        heads = self.graph.get("heads")
        found = map(_ints, heads) if isinstance(heads, list) else ()
        return [(h[0], h[1]) for h in found if len(h) >= 2]

    def node(self, number: int) -> GraphNode:
        """A node as it is drawn."""
        node = self.nodes[number]
        kind = {"null": "input", "input": "input", "const": "constant"}.get(
            str(node.get("op")), "operator"
        )
        stored = node.get("inputs")
        inputs = [_ints(i) for i in stored] if isinstance(stored, list) else []
        values = [self._value(number, at) for at in range(self._output_count(number))]
        return GraphNode(
            kind=kind,
            name=str(node.get("name") or ""),
            operator=self._operator(node) if kind == "operator" else "",
            inputs=tuple((i[0], i[1] if len(i) > 1 else 0) for i in inputs if i),
            values=tuple("" if v["shape"] is v["dtype"] is None else value_text(v) for v in values),
        )

    def _output_count(self, number: int) -> int:
        """The number of outputs of a node that are shown."""
        if number + 1 < len(self.rows):
            count = self.rows[number + 1] - self.rows[number]
        else:
            own = self.nodes[number].get("attrs")
            given = own.get("num_outputs") if isinstance(own, dict) else None
            known = isinstance(given, str) and re.fullmatch("[0-9]{1,4}", given, re.ASCII)
            count = int(str(given)) if known else 1
        return min(max(count, 1), VALUES_SHOWN)

    @staticmethod
    def _operator(node: dict[str, Any]) -> str:
        """The function that a node calls; of JSON runtimes the name of the operator."""
        for attributes in (node.get("attrs"), node.get("attr")):
            if isinstance(attributes, dict) and isinstance(
                name := attributes.get("func_name"), str
            ):
                return name
        return str(node.get("name") or node.get("op") or "?")

    def _column(self, name: str) -> Sequence[Any]:
        """An attribute of all values, which graphs store as [kind, [...]]."""
        stored = self.attributes.get(name)
        return (
            stored[1]
            if isinstance(stored, list) and len(stored) == 2 and isinstance(stored[1], list)
            else []
        )

    def _value(self, node: int, output: int) -> dict[str, Any]:
        """Name, shape and dtype of a value, None what the graph does not tell."""
        found = self.nodes[node]
        own = found.get("attrs")
        shape = dtype = None
        # JSON runtimes keep them at the node: [[shape, ...]], [[dtype, ...]]
        if isinstance(own, dict):
            shape, dtype = _at(own.get("shape"), output), _at(own.get("dtype"), output)
        if shape is None:
            entry = self.rows[node] + output if node < len(self.rows) else -1
            shapes, dtypes = self._column("shape"), self._column("dltype")
            shape = shapes[entry] if 0 <= entry < len(shapes) else None
            dtype = dtypes[entry] if 0 <= entry < len(dtypes) else None
        name = found.get("name")
        return {
            "name": name if isinstance(name, str) else None,
            "shape": shape if isinstance(shape, list) and len(_ints(shape)) == len(shape) else None,
            "dtype": dtype if isinstance(dtype, str) else None,
        }

    def _storage(self) -> dict[str, int] | None:
        """Buffers that values share, and the bytes they take: each as large as the largest value in
        it."""
        ids, shapes, dtypes = (self._column(n) for n in ("storage_id", "shape", "dltype"))
        if not ids or not len(ids) == len(shapes) == len(dtypes):
            return None
        sizes: dict[int, int] = {}
        for place, shape, dtype in zip(ids, shapes, dtypes):
            if (
                not isinstance(place, int)
                or not isinstance(shape, list)
                or len(_ints(shape)) != len(shape)
            ):
                return None
            sizes[place] = max(sizes.get(place, 0), _bytes(shape, dtype))
        return {"buffers": len(sizes), "bytes": sum(sizes.values())}


def _bytes(shape: list[int], dtype: Any) -> int:
    try:
        kind = DataType.parse(dtype if isinstance(dtype, str) else "")
    except ValueError:
        return 0
    total = kind.itemsize
    for extent in shape[:64]:
        total *= max(extent, 0)
        if total >= 1 << 63:
            return (1 << 63) - 1
    return total


def _ints(value: Any) -> list[int]:
    """The numbers of a list; [] for what is none."""
    return (
        [n for n in value if type(n) is int and -(1 << 63) <= n < 1 << 63]
        if isinstance(value, list)
        else []
    )


def _at(value: Any, index: int) -> Any:
    """value[0][index] of JSON runtimes, None if there is none."""
    if (
        not isinstance(value, list)
        or not value
        or not isinstance(value[0], list)
        or not 0 <= index < len(value[0])
    ):
        return None
    return value[0][index]
