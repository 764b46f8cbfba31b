"""The profile of a model, as one page for a browser: `mblob-pack run --profile --html`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mblob.inspect.html import assemble
from mblob.inspect.html.data import MESSAGE, ROWS, cut, graph_drawing
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mblob.inspect.entry_view import EntryView

SCRIPTS = ("base.js", "table.js", "graph.js", "timeline.js", "profile.js")


class ProfileRow(NamedTuple):
    """An operator, instruction or function, and the seconds that one run spent in it. Nodes of graphs
    have a start and an end, in seconds of the last run, a thread and a device. Calls of regions have
    primitives: node, operator, kind, implementation, threads and seconds of each."""

    node: int
    name: str
    function: str
    count: int  # type: ignore[assignment]  # as tuple.count
    seconds: float
    start: float | None = None
    end: float | None = None
    thread: int | None = None
    device: str | None = None
    primitives: tuple[tuple[Any, ...], ...] = ()


def profile_page(
    file: str,
    facts: Sequence[tuple[str, str]],
    rows: Sequence[ProfileRow],
    total: float,
    note: str = "",
    entry: EntryView | None = None,
    said: str = "",
) -> str:
    """The page.

    Args:
        file: the library.
        facts: label and text of what stands first.
        rows: where the time went, in any order.
        total: seconds that shares are of.
        note: a sentence below the bars.
        entry: the graph that the rows are nodes of, if they are of one.
        said: a sentence above the times of nodes.
    """
    graph = None if entry is None else graph_drawing(entry)
    nodes = None if entry is None else entry.graph()
    values = [] if nodes is None else [n.values for n in nodes[0]]
    drawn = sorted(rows, key=lambda row: -row.seconds)[:ROWS]
    primitives = [
        [cut(r.function), node, cut(operator), kind, cut(implementation), threads, seconds]
        for r in drawn
        for node, operator, kind, implementation, threads, seconds in r.primitives
    ]
    data: dict[str, Any] = {
        "file": cut(file, MESSAGE),
        "facts": [[label, cut(text, MESSAGE)] for label, text in facts],
        "rows": [
            [r.node, cut(r.name), cut(r.function), r.count, r.seconds,
             cut(", ".join(values[r.node])) if 0 <= r.node < len(values) else "",
             r.start, r.end, r.thread, r.device]
            for r in drawn
        ],
        "left_out": len(rows) - len(drawn),
        "primitives": primitives[:ROWS],
        "primitives_left_out": max(len(primitives) - ROWS, 0),
        "total": total,
        "note": note,
        "said": said,
        "graph": graph,
    }  # fmt: skip
    return assemble(SCRIPTS, data, "mblob: where the time went")
