"""Pictures of what grows with the size of payloads: SVG, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import MIB, Row, Section, medians

Point = tuple[float, float]


@dataclass(frozen=True)
class Picture:
    """A plot: a file's name, its title, the y axis, and a line of (MiB, value) for each name."""

    file: str
    title: str
    unit: str
    lines: dict[str, list[Point]]


def pictures(sections: Sequence[Section]) -> list[Picture]:
    """Those for which there are sizes."""
    by_title = {s.title: s.rows for s in sections}
    packing = [*by_title.get("Packing", []), *by_title.get("Packing, beside others", [])]
    opening = by_title.get("Opening, beside others", [])
    wanted = [
        Picture("pack-time.svg", "Packing: CPU time against size", "s", lines(packing, "cpu", 1)),
        Picture(
            "pack-memory.svg",
            "Packing: peak memory against size",
            "MiB",
            lines(packing, "peak", MIB),
        ),
        Picture(
            "open-time.svg", "Opening: wall time against size", "ms", lines(opening, "wall", 1e-3)
        ),
        Picture(
            "open-memory.svg",
            "Opening: memory added against size",
            "MiB",
            lines(opening, "peak", MIB),
        ),
    ]
    return [p for p in wanted if p.lines]


def lines(rows: Sequence[Row], quantity: str, unit: float) -> dict[str, list[Point]]:
    """The lines that can be drawn of a quantity: the rows' own, and their yardsticks' (once, not "cp, once
    more"). The first sample of a size counts."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.series.startswith(f"{row.yardstick},"):
            continue
        for name, samples in ((row.series, row.ours), (row.yardstick, row.theirs)):
            value = getattr(medians(samples), quantity)
            if row.size and value:
                found.setdefault(name, {}).setdefault(row.size, value / unit)
    return {name: sorted(points.items()) for name, points in found.items()}


def draw(picture: Picture, path: Path) -> None:
    """Write an SVG file with matplotlib (the extra `bench`), the same for the same numbers.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "mblob"}):
        figure = Figure(figsize=(9, 4.8), layout="constrained")
        axes = figure.add_subplot(
            title=picture.title,
            xlabel="MiB of payload",
            ylabel=picture.unit,
            xscale="log",
            yscale="log",
        )
        axes.set_xscale("log", base=4)
        for name, line in picture.lines.items():
            axes.plot(*zip(*line), marker="o", label=name)
        axes.grid(color="#dddddd")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(path, metadata={"Date": None})
