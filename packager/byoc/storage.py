"""Which values of a graph share memory: ids that the executor turns into buffers.

As TVM plans: in the order of the nodes, a value takes a block that nobody needs any more and that
is neither 16 times too small nor too large; inputs and results keep their memory for themselves.
What shared memory on purpose (`Node.shares`) goes on sharing it.
"""

from __future__ import annotations

from bisect import bisect, insort
from dataclasses import dataclass

from mblob.packager.byoc.graph import Graph

_RANGE = 16  # a block serves values of a 16th of its size up to 16 times it


@dataclass(eq=False)
class _Memory:
    """Values that must share memory.

    Attributes:
        size: bytes of the largest.
        last: number of the last node that uses one.
        kept: no other takes it, and it takes no other's.
        block: its id, -1 as long as it has none.
        released: others may take it.
    """

    size: int = 0
    last: int = -1
    kept: bool = False
    block: int = -1
    released: bool = False


Free = list[tuple[int, int]]  # (bytes, number) of blocks, ascending


def plan_storage(graph: Graph) -> list[int]:
    """Storage ids, one per value in the order of `Graph.values`."""
    memory = _memories(graph)
    sizes: list[int] = []  # of the blocks
    free: dict[tuple[int | None, str], Free] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            mine = memory[id(value)]
            if mine.block < 0:
                kind = (value.device, value.scope or "global")
                reusable = not mine.kept and kind[1] == "global"
                block = _take(free.get(kind, []), mine.size) if reusable else None
                if block is None:
                    block = len(sizes)
                    sizes.append(0)
                sizes[block] = max(sizes[block], mine.size)
                mine.block = block
        for value in (*node.inputs, *node.outputs):
            mine = memory[id(value)]
            if mine.last == i and not mine.kept and not mine.released:
                mine.released = True
                insort(
                    free.setdefault((value.device, value.scope or "global"), []),
                    (sizes[mine.block], mine.block),
                )
    return [memory[id(value)].block for value in graph.values()]


def _memories(graph: Graph) -> dict[int, _Memory]:
    """The memory of each value by the value's id: sizes, last uses."""
    memory: dict[int, _Memory] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            source = node.shares.get(value.output)
            mine = memory[id(source)] if source is not None else _Memory()
            memory[id(value)] = mine
            mine.size = max(mine.size, value.size)
            mine.kept |= node.is_input
            mine.last = max(mine.last, i)
        for value in node.inputs:
            mine = memory[id(value)]
            mine.last = max(mine.last, i)
    for value in graph.heads:
        memory[id(value)].kept = True
    return memory


def _take(free: Free, size: int) -> int | None:
    """The smallest block that is large enough, else the largest, if none is out of proportion; it
    grows."""
    at = bisect(free, (size, -1))
    if at < len(free) and free[at][0] <= size * _RANGE:
        return free.pop(at)[1]
    if at and free[at - 1][0] >= size // _RANGE:
        return free.pop(at - 1)[1]
    return None
