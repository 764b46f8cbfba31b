"""Which operators that were annotated alike go into one region: those that are connected, as far as no circle arises.

A region runs as one call, so nothing outside it may need one of its results and give it an input: no path may leave a
region and come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from packager.byoc.graph import NOP, Graph


def dependencies(graph: Graph) -> list[set[int]]:
    """For each node the nodes that must run before it: by what they give, by `control_deps`, and by memory.

    Memory that is written again (`Node.shares`) orders all who use it as they stand in the graph.
    """
    number = {id(node): i for i, node in enumerate(graph.nodes)}
    before: list[set[int]] = []
    for node in graph.nodes:
        before.append({number[id(v.node)] for v in node.inputs} | {number[id(n)] for n in node.after})
    homes = graph.homes()
    users: dict[int, set[int]] = {}
    writers: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            if value.output in node.shares and node.function != NOP:
                writers.setdefault(id(homes[id(value)]), []).append(i)
        for value in (*node.inputs, *node.outputs):
            users.setdefault(id(homes[id(value)]), set()).add(i)
    for memory, nodes in writers.items():
        for writer in nodes:
            for user in users[memory]:
                if user < writer:
                    before[writer].add(user)
                elif user > writer:
                    before[user].add(writer)
    return before


class _Parts:
    """The graph with regions contracted to one vertex each. A vertex is called by one of its nodes."""

    def __init__(self, before: Sequence[set[int]]) -> None:
        self.owner = list(range(len(before)))
        self.members: list[list[int]] = [[i] for i in range(len(before))]
        self.after: list[set[int]] = [set() for _ in before]
        self.before = [set(b) for b in before]
        for i, b in enumerate(before):
            for j in b:
                self.after[j].add(i)

    def has_detour(self, first: int, second: int) -> bool:
        """Whether a path leads from one vertex to the other through a third."""
        waiting = [v for v in self.after[first] if v != second]
        seen = set(waiting)
        while waiting:
            for v in self.after[waiting.pop()]:
                if v == second:
                    return True
                if v not in seen:
                    seen.add(v)
                    waiting.append(v)
        return False

    def join(self, first: int, second: int) -> int:
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


def merge(graph: Graph, keys: Mapping[int, str], min_size: int = 1) -> list[list[int]]:
    """Regions: numbers of their nodes, ascending; regions by their first node.

    The same graph and keys give the same regions. An operator joins regions of its key that give it an input, in the
    order of its inputs, wherever that makes no circle.

    Args:
        keys: of `annotate`.
        min_size: regions of fewer operators (reshapes count for none) stay with the graph.
    """
    number = {id(node): i for i, node in enumerate(graph.nodes)}
    parts = _Parts(dependencies(graph))
    changed = True
    while changed:
        changed = False
        for i in sorted(keys):
            for source in dict.fromkeys(number[id(v.node)] for v in graph.nodes[i].inputs):
                changed |= keys.get(source) == keys[i] and _try(parts, source, i)
    owners = dict.fromkeys(parts.owner[i] for i in sorted(keys))
    regions = [_without_edge_reshapes(graph, sorted(parts.members[owner])) for owner in owners]
    return [region for region in regions if _size(graph, region) >= max(min_size, 1)]


def _try(parts: _Parts, source: int, node: int) -> bool:
    first, second = parts.owner[source], parts.owner[node]
    if first == second or parts.has_detour(first, second):
        return False
    parts.join(first, second)
    return True


def _without_edge_reshapes(graph: Graph, region: list[int]) -> list[int]:
    """Leave out reshapes of what comes from outside or only goes outside: there they cost nothing, inside a copy."""
    kept = set(region)
    readers: dict[int, set[int]] = {}
    for i in region:
        for value in graph.nodes[i].inputs:
            readers.setdefault(id(value), set()).add(i)
    changed = True
    while changed:
        changed = False
        made = {id(v) for i in kept for v in graph.nodes[i].outputs}
        for i in sorted(kept):
            node = graph.nodes[i]
            if node.function != NOP:
                continue
            enters = not any(id(v) in made for v in node.inputs)
            stays = any(readers.get(id(v), set()) & kept for v in node.outputs)
            if enters or not stays:
                kept.discard(i)
                changed = True
    return sorted(kept)


def _size(graph: Graph, region: Iterable[int]) -> int:
    return sum(graph.nodes[i].function != NOP for i in region)
