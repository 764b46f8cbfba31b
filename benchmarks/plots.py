"""Pictures of what grows with the size of payloads: SVG, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.results import MIB, Row, Section, medians

WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 300, 40, 50
COLORS = ("#1f5fbf", "#d1495b", "#2e8b57", "#b8860b", "#7b4fa3", "#00838f", "#8d6e63", "#ad1457", "#558b2f", "#37474f")
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
        Picture("pack-memory.svg", "Packing: peak memory against size", "MiB", lines(packing, "peak", MIB)),
        Picture("open-time.svg", "Opening: wall time against size", "ms", lines(opening, "wall", 1e-3)),
        Picture("open-memory.svg", "Opening: memory added against size", "MiB", lines(opening, "peak", MIB)),
    ]
    return [p for p in wanted if p.lines]


def lines(rows: Sequence[Row], quantity: str, unit: float) -> dict[str, list[Point]]:
    """What can be drawn of a quantity: the rows' own, and their yardsticks' (once, not "cp, once more"). The first
    sample of a size counts."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.series.startswith(f"{row.yardstick},"):
            continue
        for name, samples in ((row.series, row.ours), (row.yardstick, row.theirs)):
            value = getattr(medians(samples), quantity)
            if row.size and value:
                found.setdefault(name, {}).setdefault(row.size, value / unit)
    return {name: sorted(points.items()) for name, points in found.items()}


class _Axis:
    """Logarithms of values as places between `low` and `high`."""

    def __init__(self, values: Sequence[float], base: int, low: float, high: float) -> None:
        self.first = math.floor(math.log(min(values), base))
        self.last = max(self.first + 1, math.ceil(math.log(max(values), base)))
        self.base, self.low, self.high = base, low, high

    def place(self, value: float) -> float:
        share = (math.log(value, self.base) - self.first) / (self.last - self.first)
        return self.low + share * (self.high - self.low)

    def ticks(self) -> list[float]:
        return [float(self.base) ** i for i in range(self.first, self.last + 1)]


def svg(picture: Picture) -> str:
    """The text of an SVG file."""
    points = [p for line in picture.lines.values() for p in line]
    x = _Axis([p[0] for p in points], 4, LEFT, WIDTH - RIGHT)
    y = _Axis([p[1] for p in points], 10, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 22, picture.title, size=15),
        _text((x.low + x.high) / 2, HEIGHT - 12, "MiB of payload", "middle"),
    ]
    for value in x.ticks():
        parts.append(_line(x.place(value), y.low, x.place(value), y.high))
        parts.append(_text(x.place(value), y.low + 18, f"{value:g}", "middle"))
    for value in y.ticks():
        parts.append(_line(x.low, y.place(value), x.high, y.place(value)))
        parts.append(_text(x.low - 8, y.place(value) + 4, f"{value:g} {picture.unit}", "end"))
    for i, (name, line) in enumerate(picture.lines.items()):
        parts += _series(i, name, [(x.place(a), y.place(b)) for a, b in line])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _series(number: int, name: str, places: Sequence[Point]) -> list[str]:
    color = COLORS[number % len(COLORS)]
    dashes = ' stroke-dasharray="6 4"' if number >= len(COLORS) else ""
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    row, column = TOP + 8 + 20 * number, WIDTH - RIGHT + 16
    parts = [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>']
    parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in places]
    parts.append(
        f'<path d="M{column - 8},{row} h24" stroke="{color}" stroke-width="2"{dashes}/>'
        f'<circle cx="{column + 4}" cy="{row}" r="3" fill="{color}"/>'
    )
    return [*parts, _text(column + 22, row + 4, name)]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
