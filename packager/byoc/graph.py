"""The JSON of the graph executor as nodes and values, and written anew.

A node is an input (`null`) or a call of a function (`tvm_op`); its results are values. Nothing is
lost between reading and writing but the storage ids, which `mblob.packager.byoc.storage` plans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mblob.dtype import DataType
from mblob.format import graph_json
from mblob.format.graph_json import CALL, NOP
from mblob.packager.errors import BuildError, BuildTypeError


@dataclass(eq=False, repr=False)
class Value:
    """A result of a node. Two values are the same if they are one object.

    Attributes:
        node: the node that makes it.
        output: which of its results.
        shape: elements per dimension.
        dtype: text as in the JSON.
        storage: id of the memory that it had in the graph that was read.
        device: DLDeviceType, None where the graph does not say.
        scope: of the memory, None where the graph does not say.
    """

    node: Node
    output: int
    shape: tuple[int, ...]
    dtype: str
    storage: int = -1
    device: int | None = None
    scope: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return DataType.parse(self.dtype).itemsize * prod(self.shape)

    def __repr__(self) -> str:
        name = self.node.name + (f":{self.output}" if len(self.node.outputs) > 1 else "")
        return f"<value {name!r} {self.dtype}{list(self.shape)}>"


@dataclass(eq=False, repr=False)
class Node:
    """An input, or a call of a function.

    Attributes:
        name: name of the node.
        is_input: whether it is an input of the graph (`null` in the JSON).
        inputs: values, in the order of the arguments.
        outputs: values, which follow the inputs among the arguments.
        attrs: attributes as texts. A call has func_name, num_inputs, num_outputs and flatten_data.
        after: nodes that must run before this one, although it does not use their outputs
            (`control_deps`).
        shares: for the number of an output, the earlier value whose memory it shares. This is a
            value that the call reads (a reshape, or work in place), or an input of the graph (which
            keeps a state between runs).
    """

    name: str
    is_input: bool
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    attrs: dict[str, str] = field(default_factory=dict)
    after: list[Node] = field(default_factory=list)
    shares: dict[int, Value] = field(default_factory=dict)

    @property
    def function(self) -> str:
        """The function that it calls, "" for an input."""
        return "" if self.is_input else self.attrs["func_name"]

    def __repr__(self) -> str:
        return f"<node {self.name!r} {self.function or 'input'}>"


@dataclass(eq=False)
class Graph:
    """A graph, its nodes in the order in which they run.

    Attributes:
        inputs: the nodes that are inputs, in the order of their index as inputs.
        heads: the results.
        metadata: value of the key `metadata`, or None.
        is_cut: `partition` took it apart.
    """

    nodes: list[Node]
    inputs: list[Node]
    heads: list[Value]
    metadata: Any = None
    is_cut: bool = False

    @staticmethod
    def check(where: str, graph: object) -> None:
        """Refuse what is no graph that a pass can have; `where` begins the error.

        Raises:
            BuildError: it is none, or `partition` has cut it.
        """
        if not isinstance(graph, Graph):
            raise BuildTypeError(
                f"{where}: graph: expected a Graph, as read_graph returns it, found {type(graph).__name__}"
            )
        if graph.is_cut:
            raise BuildError(f"{where}: graph: partition() has cut it; read it again (read_graph)")

    def values(self) -> list[Value]:
        """All values, in the order of their entries."""
        return [value for node in self.nodes for value in node.outputs]

    def homes(self) -> dict[int, Value]:
        """For each value, by its id, the first one in the memory that it lies in
        (`Node.shares`)."""
        found: dict[int, Value] = {}
        for node in self.nodes:
            for value in node.outputs:
                source = node.shares.get(value.output)
                found[id(value)] = value if source is None else found[id(source)]
        return found

    def written(self) -> set[int]:
        """Ids of the values whose memory a call writes again: work in place, and states."""
        homes = self.homes()
        return {
            id(homes[id(v)])
            for n in self.nodes
            if n.function != NOP
            for v in n.outputs
            if v.output in n.shares
        }


def dependencies(graph: Graph) -> list[set[int]]:
    """For each node the nodes that must run before it: by what they give, by `control_deps`, and by
    memory.

    Memory that is written again (`Node.shares`) orders all who use it as they stand in the graph.
    """
    number = {id(node): i for i, node in enumerate(graph.nodes)}
    before: list[set[int]] = []
    for node in graph.nodes:
        before.append(
            {number[id(v.node)] for v in node.inputs} | {number[id(n)] for n in node.after}
        )
    homes = graph.homes()
    written = graph.written()
    last: dict[int, int] = {}  # by memory: who wrote it last, and who used it since
    since: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        mine = {id(homes[id(value)]) for value in (*node.inputs, *node.outputs)} & written
        writes = {
            id(homes[id(v)])
            for v in node.outputs
            if v.output in node.shares and node.function != NOP
        }
        for memory in mine:
            if memory in last:
                before[i].add(last[memory])
            if memory in writes:
                before[i].update(since.pop(memory, ()))
                last[memory] = i
            else:
                since.setdefault(memory, []).append(i)
    return before


# -- reading ---------------------------------------------------------------------------------------


def read_graph(text: str | Mapping[str, Any]) -> Graph:
    """Read a graph from its JSON, as text or parsed.

    More is read than executors read: attributes of nodes that are no texts, which become JSON; a
    node without `inputs`; operators of one name; the key `metadata` in any place.

    Raises:
        BuildError: the text is not JSON, or is not a graph that executors run. The error names the
            node or the key.
    """
    metadata = None
    try:
        found = graph_json.parse(text) if isinstance(text, str) else text
        if isinstance(found, Mapping):
            found = dict(found)
            metadata = found.pop("metadata", None)
            if isinstance(found.get("nodes"), list):
                found["nodes"] = [_completed(item) for item in found["nodes"]]
        graph_json.check_graph(found)
    except graph_json.GraphError as error:
        raise BuildError(f"graph: {error}") from None
    if not found["nodes"] or not found["heads"]:
        raise BuildError("graph: a graph without results")
    nodes: list[Node] = []
    for item in found["nodes"]:
        nodes.append(_node(item, nodes))
    _set_values(nodes, {key: items for key, (_, items) in found["attrs"].items()})
    heads = [nodes[i].outputs[output] for i, output, *_ in found["heads"]]
    return Graph(nodes, [nodes[i] for i in found["arg_nodes"]], heads, metadata)


def _attrs_key(item: Mapping[str, Any]) -> str:
    return "attrs" if "attrs" in item else "attr"


def _completed(item: Any) -> Any:
    """A node as the executor's reader takes it: its attributes are texts, and it has `inputs`."""
    if not isinstance(item, dict):
        return item
    item = {"inputs": [], **item}
    if isinstance(attrs := item.get(_attrs_key(item)), dict):
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in attrs.items()}
        item[_attrs_key(item)] = texts
    return item


def _node(item: Mapping[str, Any], before: Sequence[Node]) -> Node:
    """A node of a checked graph, given those before it. Its values have no type yet."""
    node = Node(item["name"], item["op"] == "null")
    node.attrs = item.get(_attrs_key(item), {})
    node.inputs = [before[i].outputs[output] for i, output, *_ in item["inputs"]]
    node.after = [before[i] for i in item.get("control_deps", [])]
    count = 1 if node.is_input else int(node.attrs["num_outputs"])
    node.outputs = [Value(node, k, (), "") for k in range(count)]
    return node


def _set_values(nodes: Sequence[Node], columns: Mapping[str, Any]) -> None:
    """Give each value its type, shape and memory, and each node the values that it shares."""
    values = [value for node in nodes for value in node.outputs]
    for i, value in enumerate(values):
        value.dtype = columns["dltype"][i]
        value.shape = tuple(columns["shape"][i])
        value.storage = columns["storage_id"][i]
        value.device = columns["device_index"][i] if "device_index" in columns else None
        value.scope = columns["storage_scope"][i] if "storage_scope" in columns else None
    states = {v.storage: v for node in nodes if node.is_input for v in node.outputs}
    for node in nodes:
        own = {value.storage: value for value in reversed(node.inputs)}
        for value in node.outputs if not node.is_input else ():
            source = own.get(value.storage, states.get(value.storage))
            if source is not None:
                node.shares[value.output] = source


# -- writing ---------------------------------------------------------------------------------------


def call_attrs(function: str, inputs: int, outputs: int) -> dict[str, str]:
    """The attributes that every call has."""
    values = (function, str(inputs), str(outputs), "0")
    return dict(zip(CALL, values))


def write_graph(graph: Graph, storage: Sequence[int]) -> str:
    """The JSON of a graph.

    Args:
        storage: id of each value's memory, in the order of `Graph.values`.
    """
    index = {id(node): i for i, node in enumerate(graph.nodes)}
    rows = [0]
    for node in graph.nodes:
        rows.append(rows[-1] + len(node.outputs))
    values = graph.values()
    attrs: dict[str, Any] = {
        "dltype": ["list_str", [v.dtype for v in values]],
        "shape": ["list_shape", [list(v.shape) for v in values]],
        "storage_id": ["list_int", list(storage)],
    }
    if any(v.device is not None for v in values):
        attrs["device_index"] = ["list_int", [v.device for v in values]]
    if any(v.scope not in (None, "global") for v in values):
        attrs["storage_scope"] = ["list_str", [v.scope or "global" for v in values]]
    made: dict[str, Any] = {
        "nodes": [_node_json(node, index) for node in graph.nodes],
        "arg_nodes": [index[id(node)] for node in graph.inputs],
        "heads": [[index[id(v.node)], v.output, 0] for v in graph.heads],
        "attrs": attrs,
        "node_row_ptr": rows,
    }
    if graph.metadata is not None:
        made["metadata"] = graph.metadata  # the last key: TVM from 0.8 on reads nothing behind it
    return json.dumps(made, indent=1)


def _node_json(node: Node, index: Mapping[int, int]) -> dict[str, Any]:
    made: dict[str, Any] = {"op": "null" if node.is_input else "tvm_op", "name": node.name}
    if node.attrs:
        made["attrs"] = node.attrs
    made["inputs"] = [[index[id(v.node)], v.output, 0] for v in node.inputs]
    if node.after:
        made["control_deps"] = [index[id(n)] for n in node.after]
    return made
