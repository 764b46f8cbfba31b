"""Which operators that were annotated alike go into one region: those that are connected, as far as
no circle arises.

A region runs as one call, so nothing outside it may need one of its results and give it an input:
no path may leave a region and come back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real

from mblob.arguments import whole
from mblob.format.graph_json import NOP
from mblob.packager.byoc.annotate import Annotation, Tensors, check_keys
from mblob.packager.byoc.composites import asked
from mblob.packager.byoc.graph import Graph, dependencies
from mblob.packager.byoc.operators import Operator
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import checked


class _Parts:
    """The graph with regions contracted to one vertex each, in an order in which they can run.

    A vertex is called by one of its nodes. Paths only lead to later places, so a search for one
    looks at what lies between its ends, and not at the whole graph.
    """

    def __init__(self, before: Sequence[set[int]]) -> None:
        self.owner = list(range(len(before)))
        self.members: list[list[int]] = [[i] for i in range(len(before))]
        self.place = list(range(len(before)))
        self.after: list[set[int]] = [set() for _ in before]
        self.before = [set(b) for b in before]
        for i, b in enumerate(before):
            for j in b:
                self.after[j].add(i)

    def _needed(self, first: int, second: int) -> list[int] | None:
        """The vertices that lie behind `first` and must run before `second`; None if a path leads
        from one to the other through a third."""
        start = self.place[first]
        found = [v for v in self.before[second] if self.place[v] > start]
        seen = set(found)
        for v in found:  # grows
            if first in self.before[v]:
                return None
            more = [u for u in self.before[v] if self.place[u] > start and u not in seen]
            seen.update(more)
            found += more
        return found

    def _following(self, first: int, second: int) -> list[int]:
        """The vertices that lie in front of `second` and must run after `first`."""
        end = self.place[second]
        found = [v for v in self.after[first] if self.place[v] < end]
        seen = set(found)
        for v in found:  # grows
            more = [u for u in self.after[v] if self.place[u] < end and u not in seen]
            seen.update(more)
            found += more
        return found

    def try_join(self, first: int, second: int) -> bool:
        """Make a vertex and one that needs it one, unless that makes a circle."""
        needed = self._needed(first, second)
        if needed is None:
            return False
        start = self.place[first]
        # these move in front of both, and what needs `first` behind them, into the same places
        if needed:
            following = self._following(first, second)
            places = sorted(self.place[v] for v in (first, *needed, *following))
            rows = (sorted(v, key=self.place.__getitem__) for v in (needed, following))
            for group, free in zip(rows, (places[: len(needed)], places[len(needed) + 1 :])):
                for v, place in zip(group, free):
                    self.place[v] = place
            start = places[len(needed)]
        self.place[self._join(first, second)] = start
        return True

    def contract(self, nodes: Sequence[int]) -> None:
        """Make nodes one vertex, in the place of the last. No other node needs the others."""
        for node in nodes[:-1]:
            self._join(nodes[-1], node)

    def _join(self, first: int, second: int) -> int:
        """Make two vertices one, and return which."""
        if len(self.members[first]) < len(self.members[second]):
            first, second = second, first
        for node in self.members[second]:
            self.owner[node] = first
        self.members[first] += self.members[second]
        for here, there in ((self.after, self.before), (self.before, self.after)):
            for v in here[second]:
                there[v].discard(second)
                there[v].add(first)
            here[first] |= here[second]
            here[second] = set()
        self.after[first].discard(first)
        self.before[first].discard(first)
        return first


def operations(operator: Operator) -> int:
    """An estimate of the arithmetic operations of an operator.

    For convolutions, dense layers and products of matrices, twice the number of multiplications. For
    other operators, the elements of the results.
    """
    made = sum(math.prod(tensor.shape) for tensor in operator.outputs)
    what, shapes = operator.op.rpartition(".")[2], [t.shape for t in operator.inputs]
    if _CONVOLUTION.fullmatch(what) and len(shapes) > 1:
        # each weight is used for each place of the result, or, where it is transposed, of the data
        weights, transposed = math.prod(shapes[1]), "transpose" in what
        layout = operator.text("kernel_layout", "IO" if transposed else "OI")
        side = layout.find("I" if transposed else "O")
        channels = shapes[1][side] if 0 <= side < len(shapes[1]) else 1
        return 2 * weights * (math.prod(shapes[0]) if transposed else made) // max(channels, 1)
    if what in ("dense", "matmul", "batch_matmul") and shapes and shapes[0]:
        return 2 * made * shapes[0][-1]
    return made


_CONVOLUTION = re.compile("conv[123]d(_transpose)?")


def merge(
    graph: Graph,
    keys: Mapping[int, str],
    min_size: int = 1,
    *,
    min_cost: float = 0,
    cost: Callable[[Operator], float] = operations,
) -> list[list[int]]:
    """Regions: numbers of their nodes, ascending; regions by their first node.

    The same graph and keys give the same regions. An operator joins the regions of its key that
    produce its inputs, in the order of the inputs, if that makes no cycle. A composite is in one
    region as a whole.

    Args:
        keys: of `annotate`.
        min_size: regions of fewer operators, not counting reshapes, stay in the graph.
        min_cost: regions whose operators cost less in sum, without reshapes, stay in the graph.
        cost: of an operator, 0 or more.

    Raises:
        BuildError: a wrong argument, keys of another graph, or `cost` fails: the text names node and operator, and the
            exception is the cause.
    """
    check_keys("merge", graph, keys)
    if not callable(cost):
        raise BuildTypeError(f"merge: cost: expected a function, found {type(cost).__name__}")
    if not _is_cost(min_cost):
        raise BuildError(
            f"merge: min_cost: expected a number that is 0 or more, found {min_cost!r}"
        )
    min_size = checked(whole, "merge", "min_size", min_size)
    number = {id(node): i for i, node in enumerate(graph.nodes)}
    parts = _Parts(dependencies(graph))
    together: set[int] = set()  # nodes of composites
    for composite in keys.composites if isinstance(keys, Annotation) else ():
        parts.contract(composite.nodes)
        together.update(composite.nodes)
    changed = True
    while changed:
        changed = False
        for i in sorted(keys):
            for source in dict.fromkeys(number[id(v.node)] for v in graph.nodes[i].inputs):
                if keys.get(source) != keys[i]:
                    continue
                first, second = parts.owner[source], parts.owner[i]
                changed |= first != second and parts.try_join(first, second)
    owners = dict.fromkeys(parts.owner[i] for i in sorted(keys))
    regions = [
        _without_edge_reshapes(graph, sorted(parts.members[owner]), together) for owner in owners
    ]
    large = [region for region in regions if _size(graph, region) >= max(min_size, 1)]
    if not min_cost:
        return large
    tensors = keys.tensors if isinstance(keys, Annotation) else Tensors(graph, {})
    calls = (i for i, node in enumerate(graph.nodes) if not node.is_input)
    operators = dict(zip(calls, tensors.operators()))
    return [
        region
        for region in large
        if _cost([operators[i] for i in region if graph.nodes[i].function != NOP], cost) >= min_cost
    ]


def _without_edge_reshapes(graph: Graph, region: list[int], whole: set[int]) -> list[int]:
    """Leave out reshapes of what comes from outside or only goes outside: there they cost nothing,
    inside a copy. Those in composites stay."""
    made: set[int] = set()
    behind_entry: list[int] = []
    for i in region:
        node = graph.nodes[i]
        if node.function != NOP or i in whole or any(id(v) in made for v in node.inputs):
            behind_entry.append(i)
            made.update(id(v) for v in node.outputs)
    used: set[int] = set()
    kept: list[int] = []
    for i in reversed(behind_entry):
        node = graph.nodes[i]
        if node.function != NOP or i in whole or any(id(v) in used for v in node.outputs):
            kept.append(i)
            used.update(id(v) for v in node.inputs)
    return kept[::-1]


def _size(graph: Graph, region: Iterable[int]) -> int:
    return sum(graph.nodes[i].function != NOP for i in region)


def _cost(operators: Iterable[Operator], cost: Callable[[Operator], float]) -> float:
    total = 0.0
    for operator in operators:
        found = asked("the cost", cost, operator)
        if not _is_cost(found):
            raise BuildError(
                f"the cost, for node {operator.name!r} ({operator.op}): expected a number that is 0 or more, found"
                f" {found!r}"
            )
        total += found
    return total


def _is_cost(value: object) -> bool:
    return isinstance(value, Real) and value >= 0  # type: ignore[operator]
