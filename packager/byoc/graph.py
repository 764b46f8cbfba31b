"""The JSON of the graph executor as nodes and values, read with checks and written
anew.

A node is an input (`null`) or a call of a function (`tvm_op`); its results are values. Nothing is
lost between reading and writing but the storage ids, which `mblob.packager.byoc.storage` plans.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mblob import json_text
from mblob.dtype import DataType
from mblob.packager.errors import BuildError

_KEYS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs", "metadata")
_CALL = ("func_name", "num_inputs", "num_outputs", "flatten_data")  # attributes that every call has
NOP = "__nop"  # a reshape: its result is the memory of its input
COPY = "__copy"  # from one device to another
LIMIT = 1 << 62  # bytes of a value


@dataclass(eq=False, repr=False)
class Value:
    """What a node gives. Two values are the same if they are one object.

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
        element = DataType.parse(self.dtype)
        size = (element.bits * element.lanes + 7) // 8
        for extent in self.shape:
            size *= extent
        return size

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
    """

    nodes: list[Node]
    inputs: list[Node]
    heads: list[Value]
    metadata: Any = None

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
            id(homes[id(v)]) for n in self.nodes if n.function != NOP for v in n.outputs if v.output in n.shares
        }  # fmt: skip


# -- reading ---------------------------------------------------------------------------------------


def read_graph(text: str | Mapping[str, Any]) -> Graph:
    """Read a graph from its JSON, as text or parsed.

    Raises:
        BuildError: the text is not JSON, or is not a graph. The error names the node or the key.
    """
    if isinstance(text, str):
        try:
            text = json_text.parse(text)
        except json_text.JsonError as exc:
            raise BuildError(f"graph: no JSON: {exc}") from None
    if not isinstance(text, Mapping):
        raise BuildError(f"graph: expected an object, found {_shown(text)}")
    for key in _KEYS[:5]:
        if key not in text:
            raise BuildError(f"graph: no {key!r}; a graph has {', '.join(_KEYS[:5])}")
    if unknown := next((key for key in text if key not in _KEYS), None):
        raise BuildError(f"graph: unknown key {unknown!r}; a graph has {', '.join(_KEYS)}")
    return _Reader(text).read()


def _shown(value: Any) -> str:
    found = repr(value)
    return found if len(found) <= 60 else found[:57] + "..."


def _number(value: Any, what: str, limit: int | None = None) -> int:
    """A number from 0 on, below `limit`; attributes have them in quotes."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BuildError(f"graph: {what}: expected a number, found {_shown(value)}")
    if limit is not None and value >= limit:
        raise BuildError(f"graph: {what}: {value}, expected less than {limit}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BuildError(f"graph: {what}: expected a list, found {_shown(value)}")
    return value


class _Reader:
    def __init__(self, json_object: Mapping[str, Any]) -> None:
        self.json = json_object
        self.nodes: list[Node] = []

    def read(self) -> Graph:
        for i, item in enumerate(_list(self.json["nodes"], "nodes")):
            self._node(i, item)
        self._values()
        inputs = [self._input(item) for item in _list(self.json["arg_nodes"], "arg_nodes")]
        listed = set(map(id, inputs))
        if len(listed) != len(inputs):
            raise BuildError("graph: arg_nodes: a node is listed twice")
        if missing := next((n for n in self.nodes if n.is_input and id(n) not in listed), None):
            raise BuildError(f"graph: arg_nodes: the input {missing.name!r} is not listed")
        heads = [
            self._entry(item, "heads", len(self.nodes))
            for item in _list(self.json["heads"], "heads")
        ]
        if not heads:
            raise BuildError("graph: heads: a graph without results")
        return Graph(self.nodes, inputs, heads, self.json.get("metadata"))

    def _node(self, i: int, item: Any) -> None:
        what = f"node {i}"
        if not isinstance(item, Mapping):
            raise BuildError(f"graph: {what}: expected an object, found {_shown(item)}")
        name = item.get("name")
        if not isinstance(name, str):
            raise BuildError(f"graph: {what}: no name")
        what = f"node {i} {name!r}"
        op = item.get("op")
        if op not in ("null", "tvm_op"):
            raise BuildError(f"graph: {what}: op {_shown(op)}, expected 'null' or 'tvm_op'")
        node = Node(name, op == "null")
        node.attrs = self._attrs(item.get("attrs", item.get("attr", {})), what)
        node.inputs = [
            self._entry(e, what, i) for e in _list(item.get("inputs", []), f"{what}: inputs")
        ]
        deps = _list(item.get("control_deps", []), f"{what}: control_deps")
        node.after = [self.nodes[_number(d, f"{what}: control_deps", i)] for d in deps]
        count = 1
        if not node.is_input:
            count = self._check_call(node, what)
        node.outputs = [Value(node, k, (), "") for k in range(count)]
        self.nodes.append(node)

    @staticmethod
    def _attrs(found: Any, what: str) -> dict[str, str]:
        if not isinstance(found, Mapping):
            raise BuildError(f"graph: {what}: attrs: expected an object, found {_shown(found)}")
        return {
            key: text if isinstance(text, str) else json.dumps(text) for key, text in found.items()
        }

    @staticmethod
    def _check_call(node: Node, what: str) -> int:
        if missing := next((key for key in _CALL if key not in node.attrs), None):
            raise BuildError(f"graph: {what}: attrs: no {missing}; a call has {', '.join(_CALL)}")
        if not node.function:
            raise BuildError(f"graph: {what}: func_name is empty")
        said = _number(node.attrs["num_inputs"], f"{what}: num_inputs")
        if said != len(node.inputs):
            raise BuildError(
                f"graph: {what}: num_inputs is {said}, and it has {len(node.inputs)} inputs"
            )
        return _number(node.attrs["num_outputs"], f"{what}: num_outputs", 1 << 20)

    def _entry(self, item: Any, what: str, limit: int) -> Value:
        """A value by [node, output] or [node, output, version]; nodes below `limit` are known."""
        parts = _list(item, what)
        if len(parts) not in (2, 3):
            raise BuildError(
                f"graph: {what}: expected [node, output, version], found {_shown(item)}"
            )
        node = self.nodes[_number(parts[0], f"{what}: a node", limit)]
        return node.outputs[
            _number(parts[1], f"{what}: an output of {node.name!r}", len(node.outputs))
        ]

    def _input(self, item: Any) -> Node:
        node = self.nodes[_number(item, "arg_nodes", len(self.nodes))]
        if not node.is_input:
            raise BuildError(f"graph: arg_nodes: {node.name!r} is no input")
        return node

    def _values(self) -> None:
        """Shapes and types, which stand in lists with one item per value."""
        rows = [0]
        for node in self.nodes:
            rows.append(rows[-1] + len(node.outputs))
        found = _list(self.json["node_row_ptr"], "node_row_ptr")
        if found != rows:
            raise BuildError(
                f"graph: node_row_ptr: {_shown(found)}, the nodes make it {_shown(rows)}"
            )
        attrs = self.json["attrs"]
        if not isinstance(attrs, Mapping):
            raise BuildError(f"graph: attrs: expected an object, found {_shown(attrs)}")
        values = [value for node in self.nodes for value in node.outputs]
        shapes = self._column(attrs, "shape", len(values), True)
        dtypes = self._column(attrs, "dltype", len(values), True)
        storages = self._column(attrs, "storage_id", len(values), True)
        devices = self._column(attrs, "device_index", len(values), False)
        scopes = self._column(attrs, "storage_scope", len(values), False)
        for i, value in enumerate(values):
            what = f"node {value.node.name!r}, output {value.output}"
            extents = _list(shapes[i], f"{what}: shape")
            value.shape = tuple(_number(extent, f"{what}: shape", LIMIT) for extent in extents)
            value.dtype = self._dtype(dtypes[i], what)
            value.storage = _number(storages[i], f"{what}: storage_id")
            value.device = _number(devices[i], f"{what}: device_index") if devices else None
            value.scope = str(scopes[i]) if scopes else None
            if value.size >= LIMIT:
                raise BuildError(
                    f"graph: {what}: shape {list(value.shape)} has more than 2^62 bytes"
                )
        self._shared()

    def _shared(self) -> None:
        states = {
            value.storage: value for node in self.nodes if node.is_input for value in node.outputs
        }
        for node in self.nodes:
            own = {value.storage: value for value in reversed(node.inputs)}
            for value in node.outputs if not node.is_input else ():
                source = own.get(value.storage, states.get(value.storage))
                if source is not None:
                    node.shares[value.output] = source

    @staticmethod
    def _column(attrs: Mapping[str, Any], key: str, count: int, required: bool) -> list[Any]:
        if key not in attrs:
            if required:
                raise BuildError(
                    f"graph: attrs: no {key!r}; a graph needs shape, dltype and storage_id"
                )
            return []
        pair = _list(attrs[key], f"attrs: {key}")
        items = _list(pair[1] if len(pair) == 2 else None, f"attrs: {key}: [type, items]: items")
        if len(items) != count:
            raise BuildError(
                f"graph: attrs: {key}: {len(items)} items, the nodes have {count} values"
            )
        return items

    @staticmethod
    def _dtype(text: Any, what: str) -> str:
        try:
            DataType.parse(text)
        except (TypeError, ValueError, AttributeError):
            raise BuildError(f"graph: {what}: dltype {_shown(text)} is no element type") from None
        return str(text)


# -- writing ---------------------------------------------------------------------------------------


def call_attrs(function: str, inputs: int, outputs: int) -> dict[str, str]:
    """The attributes that every call has."""
    values = (function, str(inputs), str(outputs), "0")
    return dict(zip(_CALL, values))


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
