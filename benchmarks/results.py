"""Results of a measurement: samples, rows that compare them with a yardstick, targets and whether
they are met."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """One measurement, or medians of several; None: not measured.

    Attributes:
        wall, cpu: seconds. CPU is user and system time, of a command with all its children.
        peak: bytes of memory: of a command those of its largest process, inside a process what was
            added at most.
        faults: page faults, minor and major.
    """

    wall: float | None = None
    cpu: float | None = None
    peak: float | None = None
    faults: float | None = None


QUANTITIES = ("wall", "cpu", "peak", "faults")


def medians(samples: Sequence[Sample]) -> Sample:
    """The median of each quantity."""
    found = {}
    for name in QUANTITIES:
        values = [getattr(s, name) for s in samples]
        if values and None not in values:
            found[name] = statistics.median(values)
    return Sample(**found)


def _paired(
    what: str, ours: Sequence[Sample], theirs: Sequence[Sample], difference: bool
) -> float | None:
    pairs = [(getattr(a, what), getattr(b, what)) for a, b in zip(ours, theirs)]
    if not pairs or any(a is None or b is None or (not difference and b <= 0) for a, b in pairs):
        return None
    return statistics.median(a - b if difference else a / b for a, b in pairs)


@dataclass(frozen=True)
class Row:
    """Something measured beside a yardstick.

    Attributes:
        series: what it is, the same at each size.
        size: MiB of payload, None where that says nothing.
        yardstick: what it is paired with.
        ours, theirs: samples of both, pair by pair.
    """

    series: str
    size: int | None
    yardstick: str
    ours: Sequence[Sample]
    theirs: Sequence[Sample]

    @property
    def pairs(self) -> int:
        return min(len(self.ours), len(self.theirs))

    def ratio(self, what: str) -> float | None:
        """Median of the pairs' ratios of a quantity ("wall", "cpu"); None if it was not
        measured."""
        return _paired(what, self.ours, self.theirs, difference=False)

    def over(self, what: str) -> float | None:
        """Median of the pairs' differences of a quantity."""
        return _paired(what, self.ours, self.theirs, difference=True)


@dataclass(frozen=True)
class Target:
    """The most that a figure should be.

    Attributes:
        text: which figure.
        limit, found: in `unit`; `found` None: it could not be measured here.
        unit: "x" (a ratio), "ms", "ns", "MiB", "faults", "mappings", "descriptors", "kB".
        why: what is to be said if the limit is exceeded.
    """

    text: str
    limit: float
    found: float | None
    unit: str
    why: str

    @property
    def verdict(self) -> str:
        """One of "met", "not met", "not measured"."""
        if self.found is None:
            return "not measured"
        return "met" if self.found <= self.limit else "not met"


@dataclass(frozen=True)
class Table:
    """Figures that have no yardstick.

    Attributes:
        head: a title for each column.
        lines: rows of as many texts.
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass
class Section:
    """A subject: its rows, its tables, its targets, and what else is to be said.

    Attributes:
        intro: how it was measured, a paragraph.
        business: how busy the machine was when it began, a sentence.
    """

    title: str
    intro: str
    rows: list[Row] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    business: str = ""


def row_of_pairs(
    series: str, yardstick: str, clock: str, pairs: Iterable[tuple[float, float]]
) -> Row:
    """A row of (seconds measured, seconds of the yardstick), both of one clock, "wall" or "cpu"."""
    found = list(pairs)
    ours, theirs = ([Sample(**{clock: pair[i]}) for pair in found] for i in (0, 1))
    return Row(series, None, yardstick, ours, theirs)


def thousand(value: float | None) -> float | None:
    """Seconds as milliseconds."""
    return None if value is None else value * 1e3


def in_mib(value: float | None) -> float | None:
    """Bytes as MiB."""
    return None if value is None else value / MIB
