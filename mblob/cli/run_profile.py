"""Profiles: their rows as text, as JSON and as a page, with the primitives of engines that run parts of a
model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mblob.cli.pages import write_page
from mblob.cli.report import one_line
from mblob.inspect.html.profile import ProfileRow, profile_page
from mblob.inspect.library import open_library

if TYPE_CHECKING:
    import argparse

    from mblob.cli.run_model import Model
    from mblob.module import Module


@dataclass(frozen=True)
class Primitive:
    """A part of a region, which an engine runs.

    Attributes:
        node: number in the graph of the region; None of one for an output.
        operator: of that node.
        primitive: the kind: "convolution", "reorder".
        implementation: the name of the engine for what computes it: "jit:avx2".
        threads: that it runs on, at most.
        seconds: of one run of the model, mean.
    """

    node: int | None
    operator: str
    primitive: str
    implementation: str
    threads: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """A row of a profile.

    Attributes:
        node: position: of the node in a graph, of the instruction in a function, of the row.
        name: of the node, instruction or function.
        function: that it calls, None if it calls none.
        count: how often, in all runs together.
        seconds: of one run, mean.
        start, end: of nodes of a graph: seconds from the beginning of the last run.
        thread, device: of nodes of a graph: where they ran; 0 is the first thread.
        primitives: of a call of a region whose engine tells them.
    """

    node: int
    name: str
    function: str | None
    count: int
    seconds: float
    start: float | None = None
    end: float | None = None
    thread: int | None = None
    device: str | None = None
    primitives: tuple[Primitive, ...] = ()

    @classmethod
    def of(cls, row: dict[str, Any]) -> Row:
        """The row that `to_json` wrote."""
        primitives = tuple(Primitive(**p) for p in row.get("primitives", ()))
        return cls(**{**row, "primitives": primitives})

    def to_json(self) -> dict[str, Any]:
        """The fields that are known, and `function`."""
        found = asdict(self).items()
        return {
            name: value
            for name, value in found
            if name == "function" or (value is not None and value != ())
        }

    def place(self) -> str:
        """When and where a node ran."""
        if self.start is None or self.end is None:
            return ""
        times = f"{milliseconds(self.start)} to {milliseconds(self.end)}"
        return f"  {times}, thread {self.thread}, {self.device}"


def times_text(report: dict[str, Any]) -> str:
    """The time of a run, as text; of several mean, median, least and most."""
    seconds = report["seconds"]
    if report["runs"] == 1:
        return milliseconds(seconds["mean"])
    return ", ".join(f"{name} {milliseconds(value)}" for name, value in seconds.items())


def print_profile(report: dict[str, Any], model: Model) -> None:
    """Print a profile; instructions of a machine that call no kernel in one line together."""
    around = report["around"]
    print(
        f"around it: load {milliseconds(around['load'])}, inputs in {milliseconds(around['inputs'])}, "
        f"outputs out {milliseconds(around['outputs'])}"
    )
    rows = [Row.of(row) for row in report["nodes"]]
    calls = [row for row in rows if row.function is not None]
    rest = [row for row in rows if row.function is None]
    total = model.whole_time(rows)
    names = [one_line(row.name) for row in calls]
    # Who ran the nodes is of interest if it was not one thread of the host.
    placed = any(row.thread or (row.device or "cpu:0") != "cpu:0" for row in calls)
    width = max(map(len, names), default=0)
    for row, name in zip(calls, names):
        function = "" if row.function == row.name else f"  {one_line(row.function or '')}"
        share = 100 * row.seconds / total
        place = row.place() if placed else ""
        print(
            f"  {row.node:>4}  {name:<{width}}  {milliseconds(row.seconds):>12}  {share:5.1f} %{function}{place}"
        )
        for line in primitive_lines(row, total):
            print(f"        {line}")
    if placed:
        print(f"  {at_once(rows)}")
    if rest:
        seconds = sum(row.seconds for row in rest)
        print(
            f"  {len(rest)} instructions that call no kernel: {milliseconds(seconds)}, {100 * seconds / total:.1f} %"
        )
    for sentence in model.parts:
        print(f"  {sentence.format('line')}")


def primitive_lines(row: Row, total: float) -> list[str]:
    """The primitives of a region, a line each."""
    names = [one_line(f"{p.primitive} {p.implementation}") for p in row.primitives]
    width = max(map(len, names), default=0)
    return [
        f"{name:<{width}}  {milliseconds(p.seconds):>12}  {100 * p.seconds / total:5.1f} %"
        f"  {one_line(p.operator)}{'' if p.node is None else f' (node {p.node})'}"
        for name, p in zip(names, row.primitives)
    ]


@contextmanager
def primitives_timed(module: Module) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Time the primitives of regions while a model is profiled; what `get_primitives` of each region
    then tells is in the dictionary, by the name of its function."""
    regions = [m for m in module.walk() if m.implements_function("profile_primitives")]
    found: dict[str, list[dict[str, Any]]] = {}
    try:
        for region in regions:
            region.get_function("profile_primitives")(True)
        yield found
        for region in regions:
            symbol = str(region.get_function("get_symbol")())
            found[symbol] = json.loads(region.get_function("get_primitives")())
    finally:
        for region in regions:
            region.get_function("profile_primitives")(False)


def with_primitives(
    rows: list[Row], primitives: dict[str, list[dict[str, Any]]], runs: int
) -> list[Row]:
    """The rows, those of regions with their primitives."""

    def made(row: Row) -> tuple[Primitive, ...]:
        return tuple(
            Primitive(
                p["node"], p["operator"] or "an output", p["primitive"], p["implementation"], p["threads"],
                p["seconds"] / max(p["calls"], 1) * row.count / runs,
            )
            for p in primitives.get(row.function or "", ())
        )  # fmt: skip

    return [replace(row, primitives=made(row)) for row in rows]


def at_once(rows: list[Row]) -> str:
    """The overlap of nodes in the last run of a graph; "" where that is not known."""
    spans = [(r.start, r.end) for r in rows if r.start is not None and r.end is not None]
    if not spans:
        return ""
    taken = sum(end - start for start, end in spans)
    span = max(end for _, end in spans) - min(start for start, _ in spans)
    share = f": {taken / span:.1f} at once on average" if span > 0 else ""
    return f"the last run: the times of all nodes are {milliseconds(taken)}, in {milliseconds(span)}{share}"


def write_profile(args: argparse.Namespace, report: dict[str, Any], model: Model) -> None:
    """Write the page of `--html`."""
    rows = [Row.of(row) for row in report["nodes"]]
    around = report["around"]
    facts = [
        ("model", report["model"]),
        ("runs", str(report["runs"])),
        ("one run", times_text(report)),
        ("around it", ", ".join(f"{name} {milliseconds(value)}" for name, value in around.items())),
    ]
    note = " ".join(f"{sentence.format('bar').capitalize()}." for sentence in model.parts)
    timed = [
        ProfileRow(
            **{
                **asdict(row),
                "function": row.function or "",
                "primitives": tuple(tuple(asdict(p).values()) for p in row.primitives),
            }
        )
        for row in rows
    ]
    with open_library(args.file) as library:
        entry = library.entries[0] if model.is_graph else None
        page = profile_page(
            args.file, facts, timed, model.whole_time(rows), note, entry, at_once(rows)
        )
        write_page(library, args.html, page)


def milliseconds(seconds: float) -> str:
    """A duration for people: `1.234 ms`."""
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-6 else f"{seconds * 1e9:.0f} ns"
