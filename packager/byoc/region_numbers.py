"""The numbers that TVM gives regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mblob.packager.byoc.graph import Graph


def region_numbers(graph: Graph, regions: Sequence[Sequence[int]]) -> list[int]:
    """The number that TVM (0.7 - 0.19) gives each region of a graph: 0, 2, ... for regions whose
    operators have two inputs.

    TVM counts the inputs of operators that come from outside of the operator's region. It walks from
    the outputs of the graph to its inputs; an input is counted after all that leads to it, and before
    the next input of the same operator. An operator has the number of its first input: the count if
    that input is from outside, otherwise the number of the operator that makes it. Where operators
    of one region meet that have different numbers, the number of the first input is that of both.

    Args:
        regions: nodes of each region by their number, each node in at most one region.
    """
    where = {i: r for r, region in enumerate(regions) for i in region}
    place = {id(node): i for i, node in enumerate(graph.nodes)}
    same: list[int] = []  # by count, what it was joined to
    number: dict[int, int] = {}  # of operators in regions

    def joined(i: int) -> int:
        while same[i] != i:
            same[i] = same[same[i]]
            i = same[i]
        return i

    for node, argument in _walk(graph, place):
        if node not in where:
            continue
        source = place[id(graph.nodes[node].inputs[argument].node)]
        if where.get(source) == where[node] and source in number:
            count = number[source]
        else:
            count = len(same)
            same.append(count)
        if node in number:
            same[joined(count)] = joined(number[node])
        else:
            number[node] = count
    found: list[int] = []
    for region in regions:
        known = [joined(number[i]) for i in region if i in number]
        if not known:  # of operators without inputs, which TVM puts into no region
            known = [len(same)]
            same.append(len(same))
        found.append(min(known))
    return found


def _walk(graph: Graph, place: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Each input of each node once, (node, place of the input), in the order of TVM's walk."""
    seen: set[int] = set()
    heads = [place[id(value.node)] for value in graph.heads]
    for head in (*heads, *range(len(graph.nodes))):  # what leads to no output comes last
        if head in seen:
            continue
        seen.add(head)
        stack = [(head, 0)]
        while stack:
            node, argument = stack.pop()
            inputs = graph.nodes[node].inputs
            if argument == len(inputs):
                continue
            source = place[id(inputs[argument].node)]
            if source not in seen:
                seen.add(source)
                stack += [(node, argument), (source, 0)]
                continue
            yield node, argument
            stack.append((node, argument + 1))
