"""Composites: operators that a pattern of a table makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mblob.errors import MblobError
from mblob.packager.byoc.operators import Composite, Operator
from mblob.packager.byoc.patterns import Matcher, Row
from mblob.packager.errors import BuildError

Asked = TypeVar("Asked", bound=Operator)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Match:
    """A composite in a graph: the name of its pattern, and the numbers of its nodes, ascending."""

    name: str
    nodes: tuple[int, ...]


def composites(
    key: str, table: Sequence[Row], free: dict[int, Operator], needed_by: Sequence[set[int]]
) -> tuple[list[Match], list[str]]:
    """The composites that the patterns of a table make.

    Args:
        key: of the table, for errors.
        table: its rows; the first that matches wins.
        free: operators by number, in an order in which they can run; those of a composite are taken
            out.
        needed_by: for each number, who uses the operator's results: numbers, -1 for others.

    Returns:
        The composites, and the names of the rows that matched nothing.

    Raises:
        As of `annotate`.
    """
    made: list[Match] = []
    unmatched = []
    number = {id(operator): i for i, operator in free.items()}
    for row in table:
        where = f"the pattern table of {key!r}: {row.name}"
        matcher, before = Matcher(row.pattern, where), len(made)
        for last in [*free.values()][::-1]:
            for nodes in _ways(matcher, last, free, number, needed_by):
                composite = Composite.of(row.name, [free[i] for i in nodes])
                check = f"the check of {row.name!r} in the pattern table of {key!r}"
                if row.check is None or agrees(check, row.check, composite):
                    made.append(Match(row.name, nodes))
                    for i in nodes:
                        del free[i]
                    break
        if len(made) == before:
            unmatched.append(row.name)
    return made, unmatched


def _ways(
    matcher: Matcher,
    last: Operator,
    free: Mapping[int, Operator],
    number: Mapping[int, int],
    needed_by: Sequence[set[int]],
) -> Iterator[tuple[int, ...]]:
    """The nodes of each way in which a pattern can end with an operator, of free ones that nobody
    else needs."""
    for operators in matcher.ways(last):
        nodes = sorted(number.get(id(o), -1) for o in operators)
        inside = set(nodes)
        end = number[id(last)]
        if inside <= free.keys() and all(needed_by[i] <= inside for i in inside - {end}):
            yield tuple(nodes)


def agrees(where: str, question: Callable[[Asked], Any], operator: Asked) -> bool:
    """The answer of a predicate or check, as `asked`."""
    return asked(where, lambda o: bool(question(o)), operator)


def asked(where: str, question: Callable[[Asked], Answer], operator: Asked) -> Answer:
    """The answer of a function of the caller about an operator.

    Raises:
        BuildError: the function fails. MblobError: it raised one. `where`, node and operator come
            first in the text.
    """
    where = f"{where}, for node {operator.name!r} ({operator.op})"
    try:
        return question(operator)
    except MblobError as error:
        error.prefix(where)
        raise
    except Exception as error:
        raise BuildError(f"{where}, failed: {type(error).__name__}: {error}") from error
