"""Opening libraries and listing what is in them: from C and from Python, warm and cold, beside
Apache TVM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks import inputs
from benchmarks.results import MIB, Row, Sample, Section, Target, in_mib, medians, thousand
from benchmarks.sampling import HERE, Bench, Worker, alternate, command, compiled, tvm_worker

PAYLOADS = 4
EMPTY = "an empty library"
INTRO = f"""\
Opening a library and asking each of its entries for its key and size; {PAYLOADS} payloads, which are holes in the
file (opening does not know), so that they need no room. Beside it the same of a library without payloads, by turns
in one process; what is said to be over it is the median of the differences. Page faults are those of the opening,
memory is what the first one in a process adds. Cold: the file was taken out of memory, nothing else was; each time
in a new process."""
BESIDE = "Real payloads: each its own library, with a payload of that size, opened again and again in one process."


def run(bench: Bench) -> list[Section]:
    """Holes of any size; then real payloads beside others."""
    section = Section("Opening", INTRO)
    bench.say("opening, from C and from Python")
    empty = inputs.library(bench, "empty", None)
    for mib in bench.scale.opened:
        large = _holes(bench, f"holes{mib}", PAYLOADS, mib * MIB // PAYLOADS)
        size = mib * MIB // PAYLOADS
        found = [_from_c(bench, empty, large, PAYLOADS, mib)]
        found += [_from_python(bench, how, empty, large, size, mib) for how in ("load", "look")]
        section.rows += found
        if mib == bench.scale.opened[-1]:
            section.targets += [
                t for row, limit in zip(found, (0.1, 0.25, 0.25)) for t in _targets(row, mib, limit)
            ]
    _many(bench, section, empty)
    _verify(bench, section)
    return [section, _beside(bench)]


def _holes(bench: Bench, name: str, count: int, size: int) -> Path:
    hole = inputs.hole_file(bench, size)
    path = inputs.library(bench, name, hole, count)
    hole.unlink()
    return path


def _targets(row: Row, mib: int, limit: float) -> list[Target]:
    what = f"{row.series}, {mib / 1024:g} GiB"
    return [
        Target(
            f"{what}: wall over {EMPTY}",
            limit,
            thousand(row.over("wall")),
            "ms",
            "more is read, or done.",
        ),
        Target(
            f"{what}: page faults over {EMPTY}",
            30,
            row.over("faults"),
            "faults",
            "more pages are read.",
        ),
        Target(
            f"{what}: memory over {EMPTY}",
            1,
            in_mib(row.over("peak")),
            "MiB",
            "more is read or kept.",
        ),
    ]


def _lines(bench: Bench, entries: int, files: list[Path]) -> list[tuple[Sample, float]]:
    """Samples of the C program, and how often the disk was read."""
    program = compiled(bench, HERE / "opening.c", *inputs.runtime_options())
    words = [str(program), str(entries), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        wall, faults, reads, memory = map(float, line.split())
        found.append((Sample(wall=wall, faults=faults, peak=max(0.0, memory)), reads))
    return found


def _from_c(
    bench: Bench,
    empty: Path,
    large: Path,
    entries: int,
    mib: int,
    series: str = "C: mblob_open, list",
) -> Row:
    """Time and faults of later openings, memory of the first ones."""
    lines = [s for s, _ in _lines(bench, entries, [empty, large] * (10 * bench.scale.rounds + 1))][
        2:
    ]
    files = ((0, empty), (entries, large))
    first = [_lines(bench, count, [empty, path])[1][0].peak for count, path in files]
    theirs, ours = (
        [Sample(s.wall, None, peak, s.faults) for s in lines[k::2]] for k, peak in enumerate(first)
    )
    return Row(series, mib, EMPTY, ours, theirs)


def _from_python(bench: Bench, how: str, empty: Path, large: Path, size: int, mib: int) -> Row:
    def arguments(path: Path) -> dict[str, object]:
        return {"path": path, "count": PAYLOADS if path == large else 0, "size": size}

    first = []
    for path in (empty, large):
        with Worker("mblob") as worker:  # the first opening of all imports what it needs
            worker.ask(how, **arguments(empty))
            first.append(worker.sample(how, **arguments(path)).peak)
    with Worker("mblob") as worker:
        cases = {p.name: (lambda p=p: worker.sample(how, **arguments(p))) for p in (empty, large)}
        found = alternate(cases, 20 * bench.scale.rounds)
    theirs, ours = (
        [Sample(s.wall, s.cpu, peak, s.faults) for s in samples]
        for samples, peak in zip(found.values(), first)
    )
    return Row(
        {"load": "Python: load_module, list", "look": "Python: mblob.open, list"}[how],
        mib,
        EMPTY,
        ours,
        theirs,
    )


def _many(bench: Bench, section: Section, empty: Path) -> None:
    """A library with many entries, warm and cold."""
    entries, mib = bench.scale.entries, bench.scale.opened[-1]
    path = _holes(bench, "many", entries, mib * MIB // entries // 4096 * 4096)
    warm = _from_c(bench, empty, path, entries, mib, f"C: mblob_open, list {entries} entries")
    section.rows.append(warm)
    why = "more is done for each entry."
    what = f"{warm.series}, warm: wall over {EMPTY}"
    section.targets.append(Target(what, 0.2, thousand(warm.over("wall")), "ms", why))
    cold: tuple[list[Sample], list[Sample]] = ([], [])
    for _ in range(bench.scale.rounds):
        for samples, count, file in zip(cold, (entries, 0), (path, empty)):
            _drop(file)
            sample, from_disk = _lines(bench, count, [file])[0]
            if from_disk:
                samples.append(sample)
    row = None
    if all(cold):
        row = Row(f"C: mblob_open, list {entries} entries, cold", mib, f"{EMPTY}, cold", *cold)
        section.rows.append(row)
    else:
        section.notes.append("Cold files were not measured: this file system keeps them in memory.")
    found = thousand(medians(row.ours).wall) if row else None
    what = f"C: mblob_open, list {entries} entries, cold: wall"
    section.targets.append(Target(what, 10, found, "ms", "the disk was busy, or more is read."))


def _verify(bench: Bench, section: Section) -> None:
    """A large library by the command, beside a C program that checks it with the same reader."""
    bench.say("verifying a large library")
    path = inputs.large_library(bench)
    program = compiled(bench, HERE / "looking.c", *inputs.runtime_options())
    python, environment = inputs.interpreter(bench)
    words = [python, "-m", "mblob.cli.main", "verify", path]
    cases = {
        "mblob-pack verify": lambda: command(bench, words, **environment),
        "C: mblob_open_readonly, MBLOB_VERIFY_FULL": lambda: command(bench, [program, path]),
    }
    (ours, theirs), found = cases, alternate(cases, bench.scale.rounds)
    row = Row(ours, path.stat().st_size // MIB, theirs, found[ours], found[theirs])
    section.rows.append(row)
    doubled = [Sample(cpu=2 * (s.cpu or 0)) for s in row.theirs]
    section.targets.append(
        Target(
            f"{ours}, a library of 100 MiB: CPU over twice that of {theirs}",
            300,
            thousand(Row(ours, None, theirs, row.ours, doubled).over("cpu")),
            "ms",
            "Python looks at more of each symbol.",
        )
    )


def _drop(path: Path) -> None:
    """Take a file out of memory."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _beside(bench: Bench) -> Section:
    """mblob, Apache TVM and the dynamic linker on libraries of their own."""
    section = Section("Opening, beside others", BESIDE)
    with tvm_worker(bench, section.notes) as tvm, Worker("mblob") as ours:
        for mib in bench.scale.loads:
            if not bench.room_for(4 * mib * MIB):
                section.notes.append(
                    f"{mib} MiB was not opened: there is no room for four of that in the folder."
                )
                continue
            bench.say(f"opening {mib} MiB beside others")
            section.rows += _rows_beside(bench, ours, tvm, mib)
    return section


def _rows_beside(bench: Bench, ours: Worker, tvm: Worker | None, mib: int) -> list[Row]:
    payload, theirs = inputs.payload_file(bench, mib), bench.path(f"theirs{mib}.so")
    library = inputs.library(bench, f"real{mib}", payload)
    cases = {
        "dlopen": lambda: ours.sample("dlopen", path=library),
        "mblob.load_module": lambda: ours.sample("load", path=library, count=1, size=mib * MIB),
    }
    if tvm:
        tvm.ask("export", payload=payload, output=theirs)
        cases["Apache TVM, load_module"] = lambda: tvm.sample("load", path=theirs, count=1)
    found = alternate(cases, bench.scale.rounds)
    for path in (payload, library, theirs):
        path.unlink(missing_ok=True)
    return [
        Row(name, mib, "dlopen", found[name], found["dlopen"]) for name in cases if name != "dlopen"
    ]
