"""Trees of imports: in which order their modules are written, and who imports whom (docs/format.md,
section 5). Nothing here recurses.

TVM's order where TVM can write the tree (from 0.8 on: two depth-first phases, host modules
merged into one group, child lists sorted); Kahn's order, ties in TVM's order, where TVM's is not
topological.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import accumulate, chain

from mblob.errors import ArgumentValueError, FormatError
from mblob.module import Module


def order_of(
    root: Module, is_dso: Callable[[Module], bool]
) -> tuple[list[list[Module]], list[tuple[int, ...]]]:
    """Order the tree under `root`.

    Args:
        is_dso: whether a module is host code, which is linked and not serialized.

    Returns:
        groups: groups[i] are the modules that become entry i: one each, but for the host modules,
            which share one. groups[0] holds the root.
        imports: imports[i] are the indices of what entry i imports, ascending.

    Raises:
        ValueError: modules import each other in a circle, or would once host modules are merged
            into one library; the text names the modules on it.
    """
    groups = _groups(root, is_dso)
    index = {id(m): i for i, group in enumerate(groups) for m in group}
    rows = [
        sorted({index[id(c)] for m in group for c in m.imported_modules} - {i})
        for i, group in enumerate(groups)
    ]
    if any(row and row[0] <= i for i, row in enumerate(rows)):
        order = _ordered(rows, groups)
        place = {old: new for new, old in enumerate(order)}
        rows = [sorted(place[c] for c in rows[old]) for old in order]
        groups = [groups[old] for old in order]
    return groups, [tuple(row) for row in rows]


def _groups(root: Module, is_dso: Callable[[Module], bool]) -> list[list[Module]]:
    """TVM's two phases: what is above the host modules, then the host modules and all below
    them."""
    groups: list[list[Module]] = []
    seen = {id(root)}

    def visit(stack: list[Module], host: list[Module], below_host: bool) -> None:
        while stack:
            module = stack.pop()
            if is_dso(module):
                host.append(module)
                if not below_host:
                    continue
            else:
                groups.append([module])
            for child in module.imported_modules:
                if id(child) not in seen:
                    seen.add(id(child))
                    stack.append(child)

    found: list[Module] = []
    visit([root], found, below_host=False)
    if found:
        library: list[Module] = []
        groups.append(library)
        visit(found, library, below_host=True)
    return groups


def _ordered(rows: Sequence[Sequence[int]], groups: Sequence[Sequence[Module]]) -> list[int]:
    order = topological_order(rows)
    if len(order) < len(rows):
        names = [_name(groups[i]) for i in find_cycle(rows)]
        raise ArgumentValueError(
            f"cannot write the import tree: modules import each other in a circle: {' -> '.join(names)}"
            " (host modules count as one, they become one library); code that is linked with the"
            " objects of a .tar is imported by the module of the .tar: tar.import_module(code)"
        )
    return order


def _name(group: Sequence[Module]) -> str:
    key = group[0].type_key
    return key if len(group) == 1 else f"library of {len(group)} host modules"


# -- trees as rows of indices: `rows[i]` are the modules that module i imports ---------------------


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


# -- trees as they are stored ----------------------------------------------------------------------


def flat_tree(rows: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Imports per module as they are stored: `row_ptr` and `child` of `check_tree`."""
    return tuple(accumulate(map(len, rows), initial=0)), tuple(chain.from_iterable(rows))


def check_tree(
    row_ptr: Sequence[int], child: Sequence[int], modules: int, offset: int | None = None
) -> list[tuple[int, ...]]:
    """Imports per module of a stored tree.

    Args:
        row_ptr, child: CSR arrays as stored.
        modules: how many modules there are.
        offset: of the tree in the blob, for errors.

    Raises:
        FormatError: "tree_empty", "tree_rows", "tree_child", "tree_cycle" (docs/format.md, section
            2).
    """

    def fail(code: str, message: str, entry: int | None = None) -> FormatError:
        return FormatError(f"import tree: {message}", code=code, offset=offset, entry=entry)

    if modules == 0:
        raise fail("tree_empty", "no modules, expected a root")
    if len(row_ptr) != modules + 1:
        raise fail(
            "tree_rows",
            f"{len(row_ptr)} row pointers for {modules} modules, expected {modules + 1}",
        )
    if row_ptr[0] != 0 or row_ptr[-1] != len(child):
        raise fail("tree_rows", f"rows span {row_ptr[0]}..{row_ptr[-1]}, expected 0..{len(child)}")
    rows = []
    for i in range(modules):
        start, stop = row_ptr[i], row_ptr[i + 1]
        if start > stop:
            raise fail("tree_rows", f"row pointer {i + 1} is {stop}, expected at least {start}", i)
        rows.append(tuple(child[start:stop]))
        for c in rows[i]:
            if c >= modules:
                raise fail("tree_child", f"module {i} imports {c}, expected below {modules}", i)
    if cycle := find_cycle(rows):
        raise fail(
            "tree_cycle",
            f"modules import each other: {' -> '.join(map(str, cycle[:20]))}",
            cycle[0],
        )
    return rows
