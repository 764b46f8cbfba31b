"""Results as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from benchmarks.results import MIB, Row, Sample, Section, Target, medians


def seconds(value: float) -> str:
    """A duration with a unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def memory(value: float) -> str:
    return f"{value / MIB:.3g} MiB" if value < 10 * MIB else f"{value / MIB:.0f} MiB"


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def count(value: float) -> str:
    return f"{value:.0f}"


@dataclass(frozen=True)
class _Column:
    title: str
    value: Callable[[Row], float | None]
    text: Callable[[float], str]


def _of(samples: Callable[[Row], Sequence[Sample]], quantity: str) -> Callable[[Row], float | None]:
    return lambda row: getattr(medians(samples(row)), quantity)  # type: ignore[no-any-return]


def _ours(row: Row) -> Sequence[Sample]:
    return row.ours


def _theirs(row: Row) -> Sequence[Sample]:
    return row.theirs


COLUMNS = [
    _Column("wall", _of(_ours, "wall"), seconds),
    _Column("CPU", _of(_ours, "cpu"), seconds),
    _Column("peak memory", _of(_ours, "peak"), memory),
    _Column("page faults", _of(_ours, "faults"), count),
    _Column("its wall", _of(_theirs, "wall"), seconds),
    _Column("its CPU", _of(_theirs, "cpu"), seconds),
    _Column("its memory", _of(_theirs, "peak"), memory),
    _Column("its faults", _of(_theirs, "faults"), count),
    _Column("wall ratio", lambda row: row.ratio("wall"), ratio),
    _Column("CPU ratio", lambda row: row.ratio("cpu"), ratio),
]


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines)]


def rows_table(rows: Sequence[Row]) -> list[str]:
    """All rows, with the columns that at least one of them has."""
    sized = any(row.size is not None for row in rows)
    cells = {c.title: [c.value(row) for row in rows] for c in COLUMNS}
    columns = [c for c in COLUMNS if any(value is not None for value in cells[c.title])]
    split = next((i for i, c in enumerate(columns) if c.title.startswith("its ")), len(columns))
    lines = []
    for i, row in enumerate(rows):
        values = [cells[c.title][i] for c in columns]
        texts = ["" if v is None else c.text(v) for c, v in zip(columns, values)]
        size = [] if not sized else ["" if row.size is None else str(row.size)]
        lines.append(
            [*size, row.series, *texts[:split], row.yardstick, *texts[split:], str(row.pairs)]
        )
    titles = [c.title for c in columns]
    return table(
        [
            *(["MiB"] if sized else []),
            "what",
            *titles[:split],
            "yardstick",
            *titles[split:],
            "pairs",
        ],
        lines,
    )


def figure(value: float, unit: str) -> str:
    """A figure of a target."""
    return f"{value:.3g}{'' if unit == 'x' else ' '}{unit}"


def _found(target: Target) -> str:
    return "" if target.found is None else figure(target.found, target.unit)


def targets_table(sections: Sequence[Section]) -> list[str]:
    """Each target, its figure and its verdict; then what there is to say about those that are not
    met."""
    targets = [t for section in sections for t in section.targets]
    lines = [[t.text, figure(t.limit, t.unit), _found(t), t.verdict] for t in targets]
    met = sum(t.verdict == "met" for t in targets)
    text = [
        f"{met} of {len(targets)} targets are met.",
        "",
        *table(["target", "at most", "measured", ""], lines),
    ]
    missed = [
        f"* {t.text}: {_found(t)}, {t.why} {section.business}"
        for section in sections
        for t in section.targets
        if t.verdict == "not met"
    ]
    return [*text, "", "Not met:", "", *missed] if missed else text


def machine() -> str:
    """The machine, and what of the software matters."""
    model = ""
    with open("/proc/cpuinfo") as file:  # noqa: PTH123
        model = next(
            (line.partition(":")[2].strip() for line in file if line.startswith("model name")), ""
        )
    packages = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "lief"))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{platform.machine()}{f' ({model})' if model else ''}, {os.cpu_count()} processors, {gib:.0f} GiB, Linux "
        f"{platform.release()}, Python {platform.python_version()}, {packages}."
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def report(
    sections: Sequence[Section], command: str, where: str, pictures: Sequence[tuple[str, str]]
) -> str:
    """All of RESULTS.md.

    Args:
        command: what makes it.
        where: the file system it wrote to.
        pictures: (file, title).
    """
    lines = ["# Results", "", f"`{command}`", "", f"{machine()} Files lay on {where}.", ""]
    lines += [
        "Each figure is the median of samples that were taken by turns with those of a yardstick, in this run; a ratio",
        "is the median of the pairs' ratios, and is what to compare between machines. CPU is user and system time, of",
        "commands with all processes that they start; peak memory of a command is that of its largest process. What is",
        '"its" is the yardstick\'s. Load and waiting tell how busy the machine was with other things.',
        "",
        "## Targets",
        "",
    ]
    lines += targets_table(sections)
    for file, title in pictures:
        lines += ["", f"![{title}]({file})"]
    for section in sections:
        lines += ["", f"## {section.title}", "", section.intro, "", section.business, ""]
        if section.rows:
            lines += [*rows_table(section.rows), ""]
        for own in section.tables:
            lines += [*table(own.head, own.lines), ""]
        lines += [f"* {note}" for note in section.notes]
    return "\n".join(lines).rstrip() + "\n"
