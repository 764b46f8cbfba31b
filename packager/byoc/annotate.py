"""Which operators of a graph a code generator takes, one by one and as composites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from mblob.arguments import items, mapping, names, wrong_type
from mblob.errors import ArgumentTypeError
from mblob.format.graph_json import NOP
from mblob.format.ndarray import ArrayRecord, as_record, read_param_dict
from mblob.packager.byoc.composites import Match, agrees, composites
from mblob.packager.byoc.graph import Graph, Node, Value, dependencies
from mblob.packager.byoc.operators import OP, Operator, Tensor, own_attrs
from mblob.packager.byoc.patterns import (
    Predicate,
    Row,
    Table,
    is_function,
    rows,
    table_of,
    target_of,
)
from mblob.packager.errors import BuildError, BuildTypeError, refused
from mblob.packager.path_arguments import check_key

Targets = Union[Mapping[str, Union[Predicate, Table]], str, Sequence[str]]


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

    def operators(self) -> list[Operator]:
        """All calls, in the order of their nodes."""
        return [*self._operators.values()]

    def operator(self, node: Node) -> Operator:
        """A call as predicates and generators see it."""
        return self._operators[id(node)]

    def _add(self, node: Node) -> None:
        made = Operator(
            name=node.name,
            op=node.attrs.get(OP, node.function),
            function=node.function,
            attrs=own_attrs(node.attrs),
            inputs=tuple(map(self.of, node.inputs)),
            outputs=tuple(map(self.of, node.outputs)),
        )
        for tensor in made.outputs:
            tensor.producer = made
        self._operators[id(node)] = made


class Annotation(dict[int, str]):
    """The key of each operator that a code generator takes, by node number.

    Attributes:
        composites: in the order of their last nodes.
        unmatched: (key, name) of the patterns that are no composite here.
        tensors: the operators as predicates see them.
        names: of the graph's nodes.
    """

    def __init__(self, tensors: Tensors, names: Sequence[str]) -> None:
        self.tensors = tensors
        self.names = names
        self.composites: list[Match] = []
        self.unmatched: list[tuple[str, str]] = []


def check_keys(where: str, graph: Graph, keys: Any) -> None:
    """Refuse what `annotate` did not make of this graph; `where` begins the error.

    Raises:
        BuildError: the graph, or its keys.
    """
    Graph.check(where, graph)
    mapping(where, "keys", keys, "what annotate returns", BuildTypeError)
    if isinstance(keys, Annotation) and keys.names != [node.name for node in graph.nodes]:
        raise BuildError(f"{where}: keys: annotate made them of another graph")
    for i, key in keys.items():
        if not isinstance(i, int) or not 0 <= i < len(graph.nodes) or graph.nodes[i].is_input:
            raise BuildError(f"{where}: keys: {i!r} is no number of an operator of the graph")
        check_key(key, f"{where}: keys[{i}]")


def check_regions(where: str, regions: object, keys: Mapping[int, str]) -> None:
    """Refuse what `merge` did not make of these keys.

    Raises:
        BuildError: naming the region.
    """
    for region in items(where, "regions", regions, "what merge returns", BuildTypeError):
        nodes = items(where, "regions", region, "lists of node numbers", BuildTypeError)
        if not nodes or any(i not in keys or keys[i] != keys[nodes[0]] for i in nodes):
            raise BuildError(
                f"{where}: regions: {nodes!r:.200} are no operators of one key; expected what merge returns"
            )


def as_records(params: Mapping[str, Any] | Any) -> dict[str, ArrayRecord]:
    """Parameters without copies.

    Args:
        params: name -> array, or the bytes of `save_param_dict`; None: there are none.

    Raises:
        BuildError: a value that is no array. FormatError: bytes that are no parameter dictionary.
    """
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        try:
            return read_param_dict(params)
        except ArgumentTypeError:
            expected = "a dict of arrays by name, or the bytes of save_param_dict"
            raise wrong_type(
                "partition_graph", "params", expected, params, BuildTypeError
            ) from None
    made = {}
    for key in names("partition_graph", "params", params, error=BuildTypeError):
        try:
            made[key] = as_record(params[key])
        except TypeError as exc:
            raise refused(exc, f"params[{key!r}]") from None
    return made


def annotate(graph: Graph, targets: Targets, params: Mapping[str, Any] | None = None) -> Annotation:
    """The key of each operator that a code generator takes, and the composites.

    The first target that takes an operator decides. A predicate takes single operators. The
    registered pattern table of its key, if there is one, then makes composites of them. A pattern
    table takes the operators of its composites.

    A composite is what a pattern matches, if nothing outside of it needs a value from inside, and the
    check of the pattern agrees. An operator is in one composite at most. The patterns that stand
    first in the table win, then the composites that end last in the graph, as in TVM.

    Two kinds of operators stay in the graph: one that writes in place of its input, unless it is a
    reshape, because a region has new memory for each result; and one whose result is not used.

    Args:
        targets: key -> predicate, called with an `Operator`, returns true or false; or key -> pattern
            table, a list of `(name, pattern)` or `(name, pattern, check)`. A key, or a list of keys:
            what `register_pattern_table` registered for them.
        params: the graph's parameters, as of `as_records`: such inputs are constants.

    Raises:
        BuildError: an invalid key, target or table; a key without a registered table; a predicate or
            check that fails: the text names key, node and operator, and the exception is the cause.
        MblobError: an error of mblob in a predicate or check, with key, node and operator before its
            text.
    """
    Graph.check("annotate", graph)
    finder = _Finder(graph, as_records(params))
    for key, target in _checked(targets).items():
        finder.take(key, target)
    finder.found.composites.sort(key=lambda match: match.nodes[-1])
    return finder.found


def _checked(targets: Targets) -> dict[str, Predicate | list[Row]]:
    """The targets with their tables."""
    if isinstance(targets, str):
        targets = [targets]
    if not isinstance(targets, Mapping):
        if not isinstance(targets, (list, tuple)):
            raise BuildTypeError(
                f"partition_graph: targets: expected a dict, or a list of keys, found {type(targets).__name__}"
            )
        for key in targets:
            check_key(key, "partition_graph")
        return {key: target_of(key) for key in targets}
    made: dict[str, Predicate | list[Row]] = {}
    for key, target in targets.items():
        check_key(key, "partition_graph")
        if not is_function(target) and not isinstance(target, (list, tuple)):
            raise BuildTypeError(
                f"partition_graph: {key}: expected a predicate or a list of patterns, found {type(target).__name__}"
            )
        made[key] = target if callable(target) else rows(key, target)
    return made


class _Finder:
    """The search for the operators that targets take of a graph, one target after the other."""

    def __init__(self, graph: Graph, params: Mapping[str, ArrayRecord]) -> None:
        tensors = Tensors(graph, params)
        used = {id(v) for node in graph.nodes for v in node.inputs} | {id(v) for v in graph.heads}
        # by node number, what no target took yet
        self._free = {
            i: tensors.operator(node)
            for i, node in enumerate(graph.nodes)
            if not node.is_input
            and not (node.shares and node.function != NOP)
            and any(id(v) in used for v in node.outputs)
        }
        heads = {id(value.node) for value in graph.heads}
        # -1: the graph returns it
        self._needed_by = [{-1} if id(node) in heads else set() for node in graph.nodes]
        for i, before in enumerate(dependencies(graph)):
            for j in before:
                self._needed_by[j].add(i)
        self.found = Annotation(tensors, [node.name for node in graph.nodes])

    def take(self, key: str, target: Predicate | list[Row]) -> None:
        if isinstance(target, list):
            for match in self._composites(key, target, dict(self._free)):
                self._give(key, match.nodes)
        else:
            where = f"the predicate of {key!r}"
            taken = {i: o for i, o in self._free.items() if agrees(where, target, o)}
            self._composites(key, table_of(key), dict(taken))
            self._give(key, taken)

    def _give(self, key: str, nodes: Iterable[int]) -> None:
        for i in nodes:
            self.found[i] = key
            del self._free[i]

    def _composites(self, key: str, table: list[Row], free: dict[int, Operator]) -> list[Match]:
        """The composites of operators that are free; afterwards, these are not."""
        made, unmatched = composites(key, table, free, self._needed_by)
        self.found.unmatched += ((key, name) for name in unmatched)
        self.found.composites += made
        return made
