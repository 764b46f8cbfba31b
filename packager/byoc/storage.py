"""Which values of a graph share memory: ids that the executor turns into buffers (classic.md 8.1).

As TVM plans: in the order of the nodes, a value takes a block that nobody needs any more and that is neither 16 times
too small nor too large; inputs and results keep their memory for themselves. What shared memory on purpose
(`Node.shares`) goes on sharing it.
"""

from __future__ import annotations

from dataclasses import dataclass

from packager.byoc.graph import Graph

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


@dataclass(eq=False)
class _Block:
    number: int
    size: int


def plan_storage(graph: Graph) -> list[int]:
    """Storage ids, one per value in the order of `Graph.values`."""
    memory = _memories(graph)
    blocks: dict[int, _Block] = {}
    free: dict[tuple[int | None, str], list[_Block]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            mine = memory[id(value)]
            if mine.block < 0:
                kind = (value.device, value.scope or "global")
                reusable = not mine.kept and kind[1] == "global"
                block = _take(free.get(kind, []), mine.size) if reusable else None
                if block is None:
                    block = _Block(len(blocks), mine.size)
                    blocks[block.number] = block
                mine.block = block.number
        for value in (*node.inputs, *node.outputs):
            mine = memory[id(value)]
            if mine.last == i and not mine.kept and not mine.released:
                mine.released = True
                free.setdefault((value.device, value.scope or "global"), []).append(blocks[mine.block])
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


def _take(free: list[_Block], size: int) -> _Block | None:
    """The smallest block that is large enough, else the largest, if none is out of proportion; it grows."""
    fitting = [b for b in free if size <= b.size <= size * _RANGE]
    smaller = [b for b in free if size // _RANGE <= b.size < size]
    if not fitting and not smaller:
        return None
    block = min(fitting, key=lambda b: (b.size, b.number)) if fitting else max(smaller, key=lambda b: b.size)
    free.remove(block)
    block.size = max(block.size, size)
    return block
