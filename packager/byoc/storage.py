"""Which values of a graph share memory: ids that the executor turns into buffers.

As TVM plans: in the order of the nodes, a value takes a block that nobody needs any more and that
is neither 16 times too small nor too large; inputs and results keep their memory for themselves.
What shared memory on purpose (`Node.shares`) goes on sharing it.

Operators whose memory overlaps cannot run at the same time. So an operator of the host takes only
blocks of operators that it depends on anyway, as long as all blocks of the host have at most `ROOM`
times the bytes of TVM's plan, or `SMALL` bytes. Beyond that, it takes any block. Operators of devices run one after
the other, and take any block.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from mblob.packager.byoc.graph import Graph, Value, dependencies

ROOM = 2
SMALL = 1 << 20
_CPU = 1
_RANGE = 16  # a block serves values of a 16th of its size up to 16 times it
_TRIED = 64  # blocks of a size near to a value's that are looked at


@dataclass(eq=False)
class _Memory:
    """Values that must share memory.

    Attributes:
        size: bytes of the largest.
        users: numbers of the nodes that use one, ascending.
        kept: no other takes it, and it takes no other's.
        block: its id, -1 as long as it has none.
        released: others may take it.
    """

    size: int = 0
    users: list[int] = field(default_factory=list)
    kept: bool = False
    block: int = -1
    released: bool = False


def plan_storage(graph: Graph) -> list[int]:
    """Storage ids, one per value in the order of `Graph.values`."""
    dense = _Plan(graph, None, 0)
    order, limit = _Order(graph), max(ROOM * dense.bytes, SMALL)
    for part in (1, 0.75, 0.5):  # the last values may need more than is left
        apart = _Plan(graph, order, int(part * limit))
        if apart.bytes <= limit:
            return apart.ids
    return dense.ids


class _Plan:
    """One way to share memory.

    Args:
        order: which operators wait for which anyway; None: blocks are shared without regard to it.
        limit: bytes of blocks up to which it is regarded.

    Attributes:
        ids: of the values.
        bytes: of the blocks of the host, without those of inputs and results.
    """

    def __init__(self, graph: Graph, order: _Order | None, limit: int) -> None:
        self.bytes = 0
        self._order = order
        self._limit = limit
        self._sizes: list[int] = []  # of the blocks
        self._users: dict[int, list[int]] = {}  # of what is in a block that is free
        self._free: dict[
            tuple[int | None, str], list[tuple[int, int]]
        ] = {}  # (bytes, block), ascending
        memory = _memories(graph)
        for i, node in enumerate(graph.nodes):
            for value in node.outputs:
                mine = memory[id(value)]
                if mine.block < 0:
                    self._place(mine, value, i)
            for value in (*node.inputs, *node.outputs):
                mine = memory[id(value)]
                if mine.users[-1] == i and not mine.kept and not mine.released:
                    mine.released = True
                    self._users[mine.block] = mine.users
                    insort(
                        self._free.setdefault(_kind(value), []),
                        (self._sizes[mine.block], mine.block),
                    )
        self.ids = [memory[id(value)].block for value in graph.values()]

    def _place(self, mine: _Memory, value: Value, node: int) -> None:
        """Give memory a block."""
        kind = _kind(value)
        on_host = value.device in (None, _CPU)
        free = self._free.get(kind, []) if not mine.kept and kind[1] == "global" else []
        fitting = self._fitting(free, mine.size)
        if self._order is not None and on_host:
            users = {k: self._users[free[k][1]] for k in fitting}
            behind = (k for k in fitting if self._order.waits(node, users[k]))
            if (first := next(behind, None)) is not None:
                fitting = [first]
            elif self.bytes + mine.size <= self._limit:
                fitting = []
            else:  # behind the operators that come first, so that all chains get their turn
                fitting.sort(key=lambda k: users[k][-1])
        block = free.pop(fitting[0])[1] if fitting else None
        if block is None:
            block = len(self._sizes)
            self._sizes.append(0)
        grown = max(mine.size - self._sizes[block], 0)
        self._sizes[block] += grown
        self.bytes += grown if on_host and not mine.kept else 0
        mine.block = block

    @staticmethod
    def _fitting(free: Sequence[tuple[int, int]], size: int) -> list[int]:
        """Places of free blocks that a value can have, the best first: the smallest that is large
        enough, then the largest, which grows."""
        at = bisect(free, (size, -1))
        near = (
            *range(at, min(at + _TRIED, len(free))),
            *range(at - 1, max(at - _TRIED, 0) - 1, -1),
        )
        return [k for k in near if size // _RANGE <= free[k][0] <= size * _RANGE]


def _kind(value: Value) -> tuple[int | None, str]:
    return value.device, value.scope or "global"


def _memories(graph: Graph) -> dict[int, _Memory]:
    """The memory of each value by the value's id: sizes, uses."""
    memory: dict[int, _Memory] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.outputs:
            source = node.shares.get(value.output)
            mine = memory[id(source)] if source is not None else _Memory()
            memory[id(value)] = mine
            mine.size = max(mine.size, value.size)
            mine.kept |= node.is_input
            mine.users.append(i)
        for value in node.inputs:
            memory[id(value)].users.append(i)
    for value in graph.heads:
        memory[id(value)].kept = True
    return memory


class _Order:
    """Which operators run behind which in any order that the data permits.

    Operators are divided into chains, each operator behind one that it depends on, and as few chains
    as are begun at the same time. For each operator, `_seen` has the place in each other chain up to
    which it depends on the operators of that chain.
    """

    def __init__(self, graph: Graph) -> None:
        self._chain: list[int] = []
        self._place: list[int] = []
        self._seen: list[dict[int, int]] = []  # those of a chain share one
        ends: list[int] = []  # the last place of each chain
        for node, before in zip(graph.nodes, dependencies(graph)):
            chain, place = -1, -1
            seen: dict[int, int] = {}
            if not node.is_input:
                before = {j for j in before if not graph.nodes[j].is_input}
                chain, seen = self._behind(before, ends)
                if chain == len(ends):
                    ends.append(-1)
                place = ends[chain] = ends[chain] + 1
            self._chain.append(chain)
            self._place.append(place)
            self._seen.append(seen)

    def _behind(self, before: set[int], ends: Sequence[int]) -> tuple[int, dict[int, int]]:
        """The chain that an operator continues or begins, and what it depends on."""
        if len(before) == 1:
            (j,) = before
            if ends[self._chain[j]] == self._place[j]:
                return self._chain[j], self._seen[j]
        seen: dict[int, int] = {}
        for j in sorted(before, key=lambda j: -len(self._seen[j])):
            if not seen:
                seen = dict(self._seen[j])
            else:
                for chain, place in self._seen[j].items():
                    seen[chain] = max(seen.get(chain, -1), place)
            seen[self._chain[j]] = max(seen.get(self._chain[j], -1), self._place[j])
        return next((c for c, place in seen.items() if ends[c] == place), len(ends)), seen

    def waits(self, node: int, others: Sequence[int]) -> bool:
        """True if a node depends on all others, which stand before it."""
        chain, seen = self._chain[node], self._seen[node]
        return all(
            self._chain[j] == chain or self._place[j] <= seen.get(self._chain[j], -1)
            for j in reversed(others)
        )
