"""The JSON of graph executors, held against what TVM's executor checks (TVM 0.7 - 0.19), and what it
relies on without a check.

`mblob.packager.byoc.graph` makes nodes and values of a graph that passed. What a damaged graph
still tells is shown by `mblob.inspect.graph_summary`, to which anything may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mblob import json_text
from mblob.dtype import DataType

JSON_LIMIT = 256 << 20  # bytes of text; a longer one is for nobody to parse
NOP = "__nop"  # a reshape: its result is the memory of its input
COPY = "__copy"  # from one device to another
OWN_OPERATORS = (NOP, COPY)  # of the executor, which no library has
KEYS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs")
CALL = ("func_name", "num_inputs", "num_outputs", "flatten_data")  # attributes that a call has
_NODE_KEYS = ("op", "name", "inputs", "attrs", "attr", "control_deps")
# attributes of values
_COLUMNS = {"dltype": "list_str", "storage_id": "list_int", "shape": "list_shape"}
_OPTIONAL = {"device_index": "list_int", "storage_scope": "list_str"}
_NUMBER = 1 << 32  # numbers of nodes and of values are below it
_STORAGE = 1 << 31
BYTES_LIMIT = 1 << 62  # limit of a value
_ESCAPES = 'rnt\\"'  # that TVM's reader of JSON knows


class GraphError(ValueError):
    """A text that is no graph."""


# -- the text --------------------------------------------------------------------------------------


def parse(text: str) -> Any:
    """The value of a JSON text in which no object has a key twice.

    Raises:
        GraphError: another text.
    """
    try:
        return json_text.parse(text, _object)
    except json_text.JsonError as error:
        raise GraphError(f"the graph is no JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise GraphError(f"the key {twice!r} stands twice in one object")
    return made


def unknown_escape(text: str) -> str | None:
    """The first escape in a JSON text that TVM's reader does not know, such as `\\u`."""
    return next((f"\\{c}" for c in re.findall(r"\\(.)", text) if c not in _ESCAPES), None)


# -- the graph -------------------------------------------------------------------------------------


def skipped_id(graph: dict[str, Any]) -> int | None:
    """The first number that storage ids of a graph skip. TVM's executor makes memory for each
    number up to the largest, and fails (0.10 and later) on one that no value has."""
    used = sorted(set(graph["attrs"]["storage_id"][1])) if graph["nodes"] else []
    return next((i for i, number in enumerate(used) if i != number), None)


def dense_ids(ids: Sequence[int]) -> list[int]:
    """Storage ids in the same order that skip no number."""
    places = {number: place for place, number in enumerate(sorted(set(ids)))}
    return [places[number] for number in ids]


def check_names(graph: dict[str, Any]) -> None:
    """Refuse a checked graph in which two nodes have one name: executors find nodes by it.

    Raises:
        GraphError: naming both.
    """
    named: dict[str, int] = {}
    for i, node in enumerate(graph["nodes"]):
        if (first := named.setdefault(node["name"], i)) != i:
            raise GraphError(f"{_place(i, node)}: node {first} has the same name")


def check_graph(graph: Any) -> None:
    """Hold a parsed graph against what TVM's graph executor checks, and what it relies on without a
    check.

    Names that two nodes have (`check_names`) and storage ids that skip numbers (`skipped_id`) are
    not looked for. A graph of no nodes passes: nobody runs it, it carries parameters.

    Raises:
        GraphError: naming the node or the key.
    """
    _expect(isinstance(graph, dict), "expected an object, found", graph)
    if graph.get("nodes") == []:
        return
    for key in KEYS:
        _expect(key in graph, f"no {key!r}; a graph has {', '.join(KEYS)}")
    unknown = next((key for key in graph if key not in (*KEYS, "metadata")), None)
    _expect(unknown is None, f"unknown key {unknown!r}; a graph has {', '.join(KEYS)}, metadata")
    if "metadata" in graph:
        _expect(
            next(reversed(graph)) == "metadata",
            "the key 'metadata' is not the last: nothing behind it is read",
        )
    nodes = graph["nodes"]
    _expect(isinstance(nodes, list), "nodes: expected a list, found", nodes)
    counts: list[int] = []
    for i, node in enumerate(nodes):
        counts.append(_check_node(i, node, counts))
    rows = [0]
    for count in counts:
        rows.append(rows[-1] + count)
    found = graph["node_row_ptr"]
    right = found == rows and all(type(row) is int for row in found)  # 0.0 and false equal 0
    _expect(right, f"node_row_ptr: expected {shown(rows)}, found", found)
    _check_ends(graph, counts)
    _check_values(graph, rows)


def _expect(fact: bool, message: str, *found: Any) -> None:
    if not fact:
        raise GraphError(" ".join((message, *map(shown, found))))


def shown(value: Any) -> str:
    """The beginning of a value: a name may be long, and is shown for each output."""
    text = repr(value[:60] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value < limit


def _place(i: int, node: dict[str, Any]) -> str:
    return f"node {i} {shown(node.get('name'))}"


def _check_node(i: int, node: Any, counts: Sequence[int]) -> int:
    """One node, given the numbers of outputs of those before it; the number of its own."""
    _expect(isinstance(node, dict), f"node {i}: expected an object, found", node)
    what = _place(i, node)
    _expect(
        isinstance(node.get("name"), str),
        f"node {i}: name: expected a text, found",
        node.get("name"),
    )
    unknown = next((key for key in node if key not in _NODE_KEYS), None)
    _expect(
        unknown is None,
        f"{what}: unknown key {unknown!r}; nodes have op, name, inputs, attrs, control_deps",
    )
    _expect(not ("attrs" in node and "attr" in node), f"{what}: has attrs and attr")
    op, inputs = node.get("op"), node.get("inputs")
    _expect(op in ("null", "tvm_op"), f"{what}: op: expected 'null' or 'tvm_op', found", op)
    _expect(isinstance(inputs, list), f"{what}: inputs: expected a list, found", inputs)
    for item in inputs:
        _check_entry(item, counts, f"{what}: inputs: expected [node, output] of a node before it")
    for other in _list(node.get("control_deps", []), f"{what}: control_deps"):
        _expect(
            _is_number(other, i), f"{what}: control_deps: expected a node before it, found", other
        )
    attrs = node.get("attrs", node.get("attr"))
    if attrs is None and op == "null":
        return 1
    return _check_call(what, op, attrs, len(inputs))


def _check_call(what: str, op: str, attrs: Any, inputs: int) -> int:
    """The attributes of a node; the number of its outputs."""
    _expect(isinstance(attrs, dict), f"{what}: attrs: expected an object, found", attrs)
    for key in CALL:
        _expect(key in attrs, f"{what}: attrs: no {key!r}; they need {', '.join(CALL)}")
    for key, value in attrs.items():
        _expect(isinstance(value, str), f"{what}: attrs: {key}: expected a text, found", value)
    for key in CALL[1:]:
        digits = re.fullmatch("[0-9]{1,9}", attrs[key], re.ASCII)
        _expect(
            digits is not None,
            f"{what}: attrs: {key}: expected a number in quotes, found",
            attrs[key],
        )
    if op == "null":
        _expect(inputs == 0, f"{what}: an input of the graph that has inputs itself")
        return 1
    _expect(attrs["func_name"] != "", f"{what}: func_name is empty")
    said = int(attrs["num_inputs"])
    _expect(said == inputs, f"{what}: num_inputs is {said}, inputs has {inputs}")
    return int(attrs["num_outputs"])


def _list(value: Any, what: str) -> list[Any]:
    _expect(isinstance(value, list), f"{what}: expected a list, found", value)
    return value  # type: ignore[no-any-return]


def _check_entry(item: Any, counts: Sequence[int], what: str) -> None:
    right = (
        isinstance(item, list)
        and len(item) in (2, 3)
        and all(_is_number(n, _NUMBER) for n in item)
        and item[0] < len(counts)
        and item[1] < counts[item[0]]
    )
    _expect(right, f"{what}, found", item)


def _check_ends(graph: dict[str, Any], counts: Sequence[int]) -> None:
    """Inputs and outputs of the graph."""
    nodes, listed = graph["nodes"], _list(graph["arg_nodes"], "arg_nodes")
    for i in listed:
        is_input = _is_number(i, len(nodes)) and nodes[i]["op"] == "null"
        _expect(is_input, "arg_nodes: expected an input node, found", i)
    _expect(len(set(listed)) == len(listed), "arg_nodes: a node is listed twice")
    missing = next(
        (i for i in sorted({i for i, n in enumerate(nodes) if n["op"] == "null"} - set(listed))),
        None,
    )
    if missing is not None:
        raise GraphError(
            f"arg_nodes lacks {_place(missing, nodes[missing])}, an input that could not be set"
        )
    for item in _list(graph["heads"], "heads"):  # there may be none
        _check_entry(item, counts, "heads: expected [node, output]")


def _check_values(graph: dict[str, Any], rows: Sequence[int]) -> None:
    """Check the type, the shape and the storage that `attrs` gives each value."""
    attrs, nodes = graph["attrs"], graph["nodes"]
    _expect(isinstance(attrs, dict), "attrs: expected an object, found", attrs)
    for key in _COLUMNS:
        _expect(key in attrs, f"attrs: no {key!r}; a graph needs {', '.join(_COLUMNS)}")
    for key, pair in attrs.items():
        _check_column(key, pair, rows[-1])
    sizes: list[int] = []
    devices = attrs["device_index"][1] if "device_index" in attrs else []
    found: dict[int, int] = {}  # devices of storages
    owners = (i for i in range(len(nodes)) for _ in range(rows[i], rows[i + 1]))
    for entry, owner in enumerate(owners):
        what = f"{_place(owner, nodes[owner])}, output {entry - rows[owner]}"
        storage = attrs["storage_id"][1][entry]
        _expect(
            _is_number(storage, _STORAGE),
            f"{what}: storage_id: expected a number from 0 on, found",
            storage,
        )
        sizes.append(_size(attrs["dltype"][1][entry], attrs["shape"][1][entry], what))
        if devices:
            device = devices[entry]
            named = _is_number(device, _STORAGE) and device > 0
            _expect(named, f"{what}: device_index: expected a device type, found", device)
            other = found.setdefault(storage, device)
            _expect(
                other == device,
                f"{what}: storage {storage} is on device type {other}, and here on",
                device,
            )
    for i, node in enumerate(nodes):
        _check_own(i, node, rows, attrs["storage_id"][1], sizes)


def _check_column(key: str, pair: Any, count: int) -> None:
    """An attribute, [type, items]."""
    _expect(
        isinstance(pair, list) and len(pair) == 2,
        f"attrs: {key}: expected [type, items], found",
        pair,
    )
    kind, items = pair
    wanted = {**_COLUMNS, **_OPTIONAL}.get(key)
    if wanted is None:  # TVM passes over what it does not know if it knows the type
        right = (kind == "size_t" and type(items) is int) or (
            kind == "list_int"
            and isinstance(items, list)
            and all(type(item) is int for item in items)
        )
        _expect(
            right,
            f"attrs: {key}: unknown, and neither ['list_int', [...]] nor ['size_t', n]:",
            pair,
        )
        return
    _expect(kind == wanted, f"attrs: {key}: expected type {wanted!r}, found", kind)
    here = len(_list(items, f"attrs: {key}"))
    _expect(here == count, f"attrs: {key}: {here} items, the nodes have {count} values")
    if wanted == "list_str":
        wrong = next((item for item in items if not isinstance(item, str)), "")
        _expect(wrong == "", f"attrs: {key}: expected texts, found", wrong)


def _size(dtype: str, shape: Any, what: str) -> int:
    """The bytes of a value."""
    try:
        parsed = DataType.parse(dtype)
    except ValueError:
        raise GraphError(f"{what}: dltype {shown(dtype)} is no element type") from None
    bits = parsed.bits * parsed.lanes
    whole = bits > 0 and (bits % 8 == 0 or bits in (1, 4))
    _expect(whole, f"{what}: dltype {dtype}: {bits} bits; expected whole bytes, 1 or 4 bits")
    size = (bits + 7) // 8
    for extent in _list(shape, f"{what}: shape"):
        _expect(
            _is_number(extent, 1 << 63), f"{what}: shape: expected numbers from 0 on, found", extent
        )
        size *= extent
        _expect(size < BYTES_LIMIT, f"{what}: more than 2^62 bytes in shape", shape)
    return size


def _check_own(
    i: int, node: dict[str, Any], rows: Sequence[int], ids: Sequence[int], sizes: Sequence[int]
) -> None:
    """The executor's own operators: a reshape is nothing but memory that two values share, a copy
    has one size."""
    name = (
        node["attrs" if "attrs" in node else "attr"]["func_name"] if node["op"] == "tvm_op" else ""
    )
    if name not in OWN_OPERATORS:
        return
    what, inputs, outputs = _place(i, node), len(node["inputs"]), rows[i + 1] - rows[i]
    right = outputs == 1 and (inputs == 1 or (name == NOP and inputs > 1))
    _expect(right, f"{what}: {name} has {inputs} inputs and {outputs} outputs")
    source, to = rows[node["inputs"][0][0]] + node["inputs"][0][1], rows[i]
    _expect(sizes[source] == sizes[to], f"{what}: {name} from {sizes[source]} bytes to {sizes[to]}")
    if name == NOP:
        _expect(
            ids[source] == ids[to],
            f"{what}: __nop from storage {ids[source]} to {ids[to]}, which nothing fills",
        )
