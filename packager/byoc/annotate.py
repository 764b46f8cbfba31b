"""Which operators of a graph a code generator takes: one question per operator, in the order of the
graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mblob.errors import MblobError
from mblob.format.graph_json import NOP
from mblob.format.ndarray import ArrayRecord
from mblob.packager.byoc.graph import Graph, Node, Value
from mblob.packager.byoc.operators import OP, Operator, Tensor, own_attrs
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import check_key

Predicate = Callable[[Operator], Any]


class Tensors:
    """The tensors of a graph's values, one for each, and its operators over them."""

    def __init__(self, graph: Graph, params: Mapping[str, ArrayRecord]) -> None:
        written = graph.written()  # a parameter that the graph changes is no constant
        free = {n.name for n in graph.inputs if id(n.outputs[0]) not in written}
        self._params = {name: record for name, record in params.items() if name in free}
        self._made: dict[int, Tensor] = {}
        self._operators: dict[int, Operator] = {}
        for node in graph.nodes:
            if not node.is_input:
                self._add(node)

    def of(self, value: Value) -> Tensor:
        made = self._made.get(id(value))
        if made is None:
            node = value.node
            name = node.name + (f":{value.output}" if value.output else "")
            constant = self._params.get(node.name) if node.is_input else None
            made = self._made[id(value)] = Tensor(name, value.shape, value.dtype, constant)
        return made

    def operator(self, node: Node) -> Operator:
        """A call as predicates and generators see it."""
        return self._operators[id(node)]

    def _add(self, node: Node) -> None:
        made = Operator(
            node.name, node.attrs.get(OP, node.function), node.function, own_attrs(node.attrs),
            tuple(map(self.of, node.inputs)), tuple(map(self.of, node.outputs)),
        )  # fmt: skip
        for tensor in made.outputs:
            tensor.producer = made
        self._operators[id(node)] = made


def annotate(
    graph: Graph, targets: Mapping[str, Predicate], params: Mapping[str, ArrayRecord] | None = None
) -> dict[int, str]:
    """The key of each operator that a predicate accepts, by node number. The first predicate that
    accepts decides.

    Two kinds of operators stay in the graph: one that writes in place of its input, unless it is a
    reshape, because a region has new memory for each result; and one whose result is not used.

    Args:
        targets: key -> predicate, called with an `Operator`; returns true or false.
        params: the graph's parameters: such inputs are constants.

    Raises:
        BuildError: an invalid key, a predicate that is not callable, or one that fails: the text
            names key, node and operator, and the exception is the cause.
        MblobError: an error of mblob in a predicate, with key, node and operator before its text.
    """
    for key, predicate in targets.items():
        check_key(key, "partition_graph")
        if not callable(predicate):
            raise BuildTypeError(
                f"partition_graph: {key}: expected a predicate, found {type(predicate).__name__}"
            )
    tensors = Tensors(graph, params or {})
    used = {id(v) for node in graph.nodes for v in node.inputs} | {id(v) for v in graph.heads}
    found: dict[int, str] = {}
    for i, node in enumerate(graph.nodes):
        if node.is_input or (node.shares and node.function != NOP):
            continue
        if not any(id(v) in used for v in node.outputs):
            continue
        operator = tensors.operator(node)
        taker = next(
            (key for key, predicate in targets.items() if _agrees(key, predicate, operator)), None
        )
        if taker is not None:
            found[i] = taker
    return found


def _agrees(key: str, predicate: Predicate, operator: Operator) -> bool:
    where = f"the predicate of {key!r}, for node {operator.name!r} ({operator.op})"
    try:
        return bool(predicate(operator))
    except MblobError as error:
        error.prefix(where)
        raise
    except Exception as error:
        raise BuildError(f"{where}, failed: {type(error).__name__}: {error}") from error
