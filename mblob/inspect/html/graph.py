"""A model's graph as a drawing: nodes in layers, what each takes above it, and the lines between.

A graph comes from a file, which may say anything: how much is drawn is bounded, and every step
takes time in proportion to what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.inspect.graph_summary import GraphNode

NODES = 2000  # of one graph that are drawn, the first ones
EDGES = 8000
SPAN = 8  # layers that a line may cross; of a longer one the end has a note instead
LINES_THROUGH = 20_000  # places in layers that long lines pass
STRAIGHT = 12  # layers above and below, whose middle a layer follows
SWEEPS = 6  # over all layers, to put nodes below what they take
NAMED_PARAMETERS = 2  # of a node that are written on it
LETTERS = 34  # of a line on a node
DETAILS, NAME = 12, 120  # inputs of a chosen node, and letters of a name there
_LETTER, _LINE, _PADDING = 7.3, 16, 9  # what a letter and a line take, and around them
_GAP, _LAYER_GAP, _THROUGH = 18, 34, 14  # between nodes, between layers, for a line that passes
_PREFIXES = (
    "tvmgen_default_",
    "vm_mod_",
    "vm.builtin.",
)  # that TVM puts before the names of operators


class Box(NamedTuple):
    """A node that is drawn.

    Attributes:
        node: its number in the graph.
        kind: "input", "constant", "operator", or "output" for one whose value is an output.
        lines: what is written on it, its name first.
        after: nodes that it takes values of and no line leads to: they are far above.
    """

    node: int
    kind: str
    lines: list[str]
    after: list[int]


def drawing(
    nodes: Sequence[GraphNode],
    heads: Iterable[tuple[int, int]],
    held: dict[str, str],
    limit: int = NODES,
) -> dict[str, Any]:
    """The drawing of a graph: its boxes and edges, and their places.

    Args:
        nodes, heads: as of `graph_summary.nodes_of`.
        held: type and shape of each tensor that the library holds, by name: they are written on the
            nodes that take them.
        limit: of nodes; the first ones are drawn.

    Returns:
        {"boxes": [[node, kind, lines, x, y, width, height, after, name, operator, inputs, values],
        ...], "edges": [[from, to, [[x, y], ...]], ...], "width", "height", "nodes": of the graph,
        "left_out": not drawn}.
    """
    outputs = {node for node, _ in heads}
    parameters = {
        i
        for i, n in enumerate(nodes)
        if n.kind != "operator" and n.name in held and i not in outputs
    }
    wanted = [i for i in range(len(nodes)) if i not in parameters]
    drawn = wanted[:limit]
    edges = _edges(nodes, drawn)
    layer = _layers(drawn, edges)
    plan = _Plan(layer, edges)
    boxes = {}
    for i in drawn:
        kind = "output" if i in outputs and nodes[i].kind == "operator" else nodes[i].kind
        boxes[i] = Box(i, kind, _written(nodes, i, parameters, held), plan.after.get(i, []))
    found = plan.draw(boxes)
    for row in found["boxes"]:
        row += _details(nodes, row[0])
    return {**found, "nodes": len(nodes), "left_out": len(wanted) - len(boxes)}


def _details(nodes: Sequence[GraphNode], number: int) -> list[Any]:
    """The details that a page shows of a chosen node: name, operator, inputs and values."""
    node = nodes[number]
    inputs = []
    for source, at in node.inputs[:DETAILS]:
        if 0 <= source < number:
            values = nodes[source].values
            value = values[at] if 0 <= at < len(values) else ""
            inputs.append(f"{nodes[source].name[:NAME]} {value}".strip())
    more = len(node.inputs) - DETAILS
    inputs += [f"{more} more"] if more > 0 else []
    return [node.name[:NAME], node.operator[:NAME], inputs, [v[:NAME] for v in node.values]]


def _edges(nodes: Sequence[GraphNode], drawn: Sequence[int]) -> list[tuple[int, int]]:
    """From node to node, each once. A node can take values of earlier ones only."""
    found: dict[tuple[int, int], None] = {}
    there = set(drawn)
    for i in drawn:
        for source, _ in nodes[i].inputs:
            if 0 <= source < i and source in there and len(found) < EDGES:
                found[source, i] = None
    return list(found)


def _layers(drawn: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The layer of each node: below all that it takes; what takes nothing directly above the first
    that takes it."""
    layer = dict.fromkeys(drawn, 0)
    for source, i in edges:  # in the order of `i`, so that `source` is done
        layer[i] = max(layer[i], layer[source] + 1)
    first: dict[int, int] = {}
    takes = {i for _, i in edges}
    for source, i in edges:
        if source not in takes:
            first[source] = min(first.get(source, layer[i]), layer[i])
    layer.update((source, below - 1) for source, below in first.items())
    return layer


def _written(
    nodes: Sequence[GraphNode], number: int, parameters: set[int], held: dict[str, str]
) -> list[str]:
    node = nodes[number]
    name = node.operator or node.name
    for prefix in _PREFIXES:
        name = name[len(prefix) :] or name if name.startswith(prefix) else name
    lines = [name or f"node {number}"]
    taken = [nodes[i] for i, _ in node.inputs[:EDGES] if i in parameters]
    lines += [f"+ {p.name} {held[p.name]}" for p in taken[:NAMED_PARAMETERS]]
    if len(taken) > NAMED_PARAMETERS:
        lines.append(f"+ {len(taken) - NAMED_PARAMETERS} more parameters")
    values = [v for v in node.values if v]
    if values:
        more = f" and {len(values) - 1} more" if len(values) > 1 else ""
        lines.append(f"→ {values[0]}{more}")
    return [_short(line) for line in lines]


def _short(text: str) -> str:
    """The beginning and the end of a long text: names often differ in their ends."""
    if len(text) <= LETTERS:
        return text
    return f"{text[: LETTERS - 11]}…{text[-10:]}"


class _Plan:
    """Nodes and lines in layers, and their order in each."""

    def __init__(self, layer: dict[int, int], edges: Sequence[tuple[int, int]]) -> None:
        self.after: dict[int, list[int]] = {}
        self._layer = layer
        self._rows: list[list[int]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
        for i in layer:
            self._rows[layer[i]].append(i)
        self._up: dict[int, list[int]] = {}
        self._down: dict[int, list[int]] = {}
        self._paths: list[tuple[int, int, list[int]]] = []
        self._through = -1  # places that lines pass have negative numbers
        for source, i in edges:
            self._add(source, i)

    def _add(self, source: int, i: int) -> None:
        """A line, with a place of its own in each layer that it passes."""
        first, last = self._layer[source] + 1, self._layer[i]
        if last - first > SPAN or -self._through + last - first > LINES_THROUGH:
            self.after.setdefault(i, []).append(source)
            return
        path = [source]
        for row in range(first, last):
            self._rows[row].append(self._through)
            path.append(self._through)
            self._through -= 1
        path.append(i)
        for above, below in zip(path, path[1:]):
            self._down.setdefault(above, []).append(below)
            self._up.setdefault(below, []).append(above)
        self._paths.append((source, i, path))

    def draw(self, boxes: dict[int, Box]) -> dict[str, Any]:
        sizes = {i: _size(box) for i, box in boxes.items()}
        place = self._arrange(sizes)
        left = min((place[i] - sizes[i][0] / 2 for i in boxes), default=0.0) - _GAP
        top = float(_GAP)
        tops: list[float] = []
        heights: list[float] = []
        for row in self._rows:
            height = max((sizes[i][1] for i in row if i >= 0), default=0.0)
            tops.append(top)
            heights.append(height)
            top += height + _LAYER_GAP
        drawn = [
            [i, box.kind, box.lines, _round(place[i] - left - sizes[i][0] / 2), _round(tops[self._layer[i]]),
             *map(_round, sizes[i]), box.after]
            for i, box in boxes.items()
        ]  # fmt: skip
        edges = []
        for source, i, path in self._paths:
            layer = self._layer[source]
            points = [(place[source] - left, tops[layer] + sizes[source][1])]
            for step in path[1:-1]:
                layer += 1
                points += [
                    (place[step] - left, tops[layer]),
                    (place[step] - left, tops[layer] + heights[layer]),
                ]
            points.append((place[i] - left, tops[self._layer[i]]))
            edges.append([source, i, [[_round(x), _round(y)] for x, y in points]])
        right = max((place[i] + sizes[i][0] / 2 for i in boxes), default=0.0) - left + _GAP
        return {"boxes": drawn, "edges": edges, "width": _round(right), "height": _round(top)}

    def _arrange(self, sizes: dict[int, tuple[float, float]]) -> dict[int, float]:
        """The middle of everything, from left to right."""
        place: dict[int, float] = {}
        width = {i: sizes[i][0] + _GAP if i >= 0 else _THROUGH for row in self._rows for i in row}
        for row in self._rows:
            self._settle(row, width, place, self._up)
        for sweep in range(SWEEPS):
            down = bool(sweep % 2)
            for row in self._rows if down else reversed(self._rows):
                self._settle(row, width, place, self._up if down else self._down)
        self._straighten(place)
        return place

    def _straighten(self, place: dict[int, float]) -> None:
        """Move whole layers so that a long graph goes straight down: branches that always lie on
        one side would lead it further that way with each block."""
        middles = [sum(place[i] for i in row) / len(row) for row in self._rows]
        sums = [0.0, *accumulate(middles)]
        for k, row in enumerate(self._rows):
            first, end = max(k - STRAIGHT, 0), min(k + STRAIGHT + 1, len(middles))
            trend = (sums[end] - sums[first]) / (end - first)
            for i in row:
                place[i] -= trend

    @staticmethod
    def _settle(
        row: list[int],
        width: dict[int, float],
        place: dict[int, float],
        beside: dict[int, list[int]],
    ) -> None:
        """Order one layer by the middles of what its members are connected to, and put each as near
        to that as its neighbours allow: the sum of the squares of the distances is least."""
        wish = {}
        for i in row:
            there = [place[k] for k in beside.get(i, ()) if k in place]
            wish[i] = sum(there) / len(there) if there else place.get(i, 0.0)
        row.sort(key=wish.__getitem__)
        runs: list[list[float]] = []  # members that touch: sum of their wishes, number, mean
        offset, offsets = 0.0, []
        for k, i in enumerate(row):
            offset += (width[row[k - 1]] + width[i]) / 2 if k else 0.0
            offsets.append(offset)
            runs.append([wish[i] - offset, 1])
            while len(runs) > 1 and runs[-2][0] / runs[-2][1] >= runs[-1][0] / runs[-1][1]:
                total, count = runs.pop()
                runs[-1][0] += total
                runs[-1][1] += count
        k = 0
        for total, count in runs:
            for _ in range(int(count)):
                place[row[k]] = total / count + offsets[k]
                k += 1


def _size(box: Box) -> tuple[float, float]:
    longest = max(len(line) for line in box.lines)
    note = 1 if box.after else 0
    return longest * _LETTER + 2 * _PADDING, (len(box.lines) + note) * _LINE + _PADDING


def _round(number: float) -> int:
    return int(number + 0.5)
