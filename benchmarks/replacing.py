"""A library that is replaced again and again while a process runs: what stays in memory. No time counts."""

from __future__ import annotations

from benchmarks import inputs
from benchmarks.results import Row, Sample, Section, Target, in_mib
from benchmarks.sampling import Bench, Worker

FIRST = 100  # replacements until all is in memory that stays
INTRO = f"""\
A new file of a kernel library takes the place of the old one; the process loads it, calls its kernel, and drops it.
Memory is what the process has after all of them, beside what it had after the first {FIRST}."""
YARDSTICK = f"the first {FIRST}"


def run(bench: Bench) -> Section:
    section = Section("Replacing", INTRO)
    count = bench.scale.loops // 2
    bench.say(f"{count} replacements of a library")
    with Worker("mblob") as worker:
        path = inputs.library(bench, "calls", None)
        before, after = (
            worker.ask("replace", path=path, count=n, place=bench.path("replaced.so"))
            for n in (FIRST, count)
        )
    row = Row(
        f"load, call and drop of a new file, {count:,} times",
        None,
        YARDSTICK,
        [Sample(peak=after["memory"])],
        [Sample(peak=before["memory"])],
    )
    section.rows.append(row)
    why = "code stays mapped, or something is kept for each library."
    section.targets.append(
        Target(f"{row.series}: memory over {YARDSTICK}", 1, in_mib(row.over("peak")), "MiB", why)
    )
    section.targets += [
        Target(f"{row.series}: {what} over {YARDSTICK}", 0, after[what] - before[what], what, why)
        for what in ("mappings", "descriptors")
    ]
    return section
