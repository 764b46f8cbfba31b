"""Packing beside `cp` of the payload: the whole command, and inside a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import inputs
from benchmarks.results import MIB, Row, Sample, Section, Target, in_mib, medians
from benchmarks.sampling import Bench, Worker, alternate, cleared, command

DEFAULT = "mblob-pack build"
PLAIN = "mblob-pack build --digest none"
INSIDE = "export_library in a process, digest none"
INTRO = """\
`mblob-pack build` of a C kernel and a payload: interpreter start, compile, link and copy. The kernel differs each
time, so that it really is compiled. In a process: an object instead of a source; CPU is then that of the process,
without the linker's, and the peak is what is added to the interpreter. Payloads are random bytes in files that are
in memory; outputs are new files on the same file system; none waits for the disk, `cp` neither, but
what the one before left to be written is written before the next starts."""


def run(bench: Bench) -> Section:
    """All sizes that there is room for."""
    section = Section("Packing", INTRO)
    with Worker("mblob") as worker:
        for mib in bench.scale.pack:
            if not bench.room_for(2 * mib * MIB + mib * MIB // 8):
                section.notes.append(f"{mib} MiB was not packed: there is no room for two of that in the folder.")
                continue
            bench.say(f"packing {mib} MiB, {bench.rounds(mib)} rounds")
            section.rows += _rows(bench, worker, mib)
            bench.path(f"payload{mib}").unlink()
    section.targets = _targets(section.rows)
    return section


def build(bench: Bench, payload: Path, output: Path, *options: str) -> Sample:
    """The whole command."""
    source = inputs.new_kernel(bench)
    python, environment = inputs.interpreter(bench)
    words = [python, "-m", "mblob.cli.main", "build", "--kernel", source, "--function", inputs.PROTOTYPE,
             "--blob", f"raw={payload}", "-o", output, *options]  # fmt: skip
    return command(bench, words, **environment)


def copy(bench: Bench, payload: Path, output: Path) -> Sample:
    """The yardstick."""
    return command(bench, ["cp", payload, output])


def export(bench: Bench, worker: Worker, payload: Path, output: Path) -> Sample:
    """Inside a process that has packed before."""
    given = {"object_file": inputs.kernel_object(bench), "payload": payload, "output": output, "digest": "none"}
    return worker.sample("export", **given)


def _rows(bench: Bench, worker: Worker, mib: int) -> list[Row]:
    payload, output = inputs.payload_file(bench, mib), bench.path("out")
    cases: dict[str, Callable[[], Sample]] = {
        "cp": lambda: copy(bench, payload, output),
        DEFAULT: lambda: build(bench, payload, output),
        PLAIN: lambda: build(bench, payload, output, "--digest", "none"),
        INSIDE: lambda: export(bench, worker, payload, output),
    }
    found = alternate(cases, bench.rounds(mib), lambda: cleared(output))
    output.unlink()
    return [Row(name, mib, "cp", found[name], found["cp"]) for name in cases if name != "cp"]


def _targets(rows: list[Row]) -> list[Target]:
    by_name = {(r.series, r.size): r for r in rows}
    floor = medians(by_name[PLAIN, 0].ours).wall if (PLAIN, 0) in by_name else None
    busy = "compiler, linker, the thread that hashes and the copy need two processors to themselves."
    if floor:
        busy += f" Without any payload the command takes {1e3 * floor:.0f} ms, which is less the larger the payload."
    slow = "both sides wait for the file system, and for its pages; only a quiet machine treats them alike."
    targets = []
    for name, limit in ((DEFAULT, 1.5), (PLAIN, 1.25)):
        row = by_name.get((name, 1024))
        targets.append(Target(f"pack 1 GiB, `{name}`, wall over `cp`", limit, row and row.ratio("wall"), "x", busy))
    for size in sorted({r.size for r in rows if r.size and r.size >= 64}):
        row = by_name[INSIDE, size]
        what = f"pack {size} MiB in a process, no digest"
        targets.append(Target(f"{what}, CPU over `cp`", 1.1, row.ratio("cpu"), "x", slow))
        added = max(s.peak or 0 for s in row.ours)
        targets.append(Target(f"{what}, memory added", 20, in_mib(added), "MiB", "buffers are held too long."))
    for size in (3072, 5120):
        row = by_name.get((PLAIN, size))
        targets.append(Target(f"pack {size // 1024} GiB, `{PLAIN}`, wall over `cp`", 1.1, row and row.ratio("wall"),
                              "x", slow))  # fmt: skip
    return targets
