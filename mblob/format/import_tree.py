"""Import trees as rows of indices: `rows[i]` are the modules that module i imports. Nothing here
recurses."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def topological_order(rows: Sequence[Sequence[int]]) -> list[int]:
    """Indices, importers first; among those that are ready the lowest comes first (Kahn's order).

    With a cycle, the modules on it and below it are left out.
    """
    waiting = [0] * len(rows)
    for row in rows:
        for c in row:
            waiting[c] += 1
    ready = [i for i, n in enumerate(waiting) if n == 0]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for c in rows[i]:
            waiting[c] -= 1
            if waiting[c] == 0:
                heapq.heappush(ready, c)
    return order


def find_cycle(rows: Sequence[Sequence[int]]) -> list[int]:
    """Indices along one cycle, the first repeated at the end; [] if there is none.

    Iterative depth-first search, O(modules + imports).
    """
    if all(min(row) > i for i, row in enumerate(rows) if row):  # stored from the root on
        return []
    state = bytearray(len(rows))  # 0 new, 1 on the current path, 2 done
    for start in range(len(rows)):
        if state[start]:
            continue
        path = [start]
        nexts = [iter(rows[start])]
        state[start] = 1
        while path:
            for c in nexts[-1]:
                if state[c] == 1:
                    return [*path[path.index(c) :], c]
                if state[c] == 0:
                    state[c] = 1
                    path.append(c)
                    nexts.append(iter(rows[c]))
                    break
            else:
                state[path.pop()] = 2
                nexts.pop()
    return []
