"""Packing beside `cp` of the payload: the whole command, and inside a process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks import inputs
from benchmarks.results import MIB, Row, Sample, Section, Target, in_mib, medians
from benchmarks.sampling import Bench, Worker, alternate, cleared, command

DEFAULT = "mblob-pack build"
PLAIN = "mblob-pack build --digest none"
INSIDE = "export_library in a process, digest none"
ADD = "mblob-pack add, a small file to a library of that size"
LARGEST_TO_ADD_TO = 1024  # MiB; one more file of the size has to fit
AGAIN = "cp, once more"
BESIDE = "cp, while cc compiles and links"
INTRO = """\
`mblob-pack build` of a C kernel and a payload: interpreter start, compile, link and copy. The kernel differs each
time, so that it really is compiled. In a process: an object instead of a source; CPU is then that of the process,
without the linker's, and the peak is what is added to the interpreter. Payloads are random bytes in files that are
in memory; outputs are new files on the same file system; none waits for the disk, `cp` neither, but
what the one before left to be written is written before the next starts. Each is run twice in a row and the second
run counts: the host of a virtual machine takes memory that is free and gives it back page by page, which lasts longer
than the copy, so each gets the memory that it used a moment ago. `mblob-pack add` writes a library that has the payload
already once more, with a few bytes added. Two more lines tell what the machine does to any copy:
`cp` paired with itself, and `cp` while the C compiler makes a library of the same kernel."""


def run(bench: Bench) -> Section:
    """All sizes that there is room for."""
    section = Section("Packing", INTRO)
    with Worker("mblob") as worker:
        for mib in bench.scale.pack:
            if not bench.room_for(
                (3 if mib <= LARGEST_TO_ADD_TO else 2) * mib * MIB + mib * MIB // 8
            ):
                section.notes.append(
                    f"{mib} MiB was not packed: there is no room for two of that in the folder."
                )
                continue
            bench.say(f"packing {mib} MiB, {bench.rounds(mib)} rounds")
            section.rows += _rows(bench, worker, mib)
            bench.path(f"payload{mib}").unlink()
    section.targets = _targets(section.rows)
    return section


def build(bench: Bench, payload: Path, output: Path, *options: str) -> Sample:
    """The whole command."""
    source = inputs.new_kernel(bench)
    kernel = ["--kernel", source, "--function", inputs.PROTOTYPE]
    return _pack(bench, "build", *kernel, "--blob", f"raw={payload}", "-o", output, *options)


def add(bench: Bench, library: Path, output: Path) -> Sample:
    """The whole command, without a compiler."""
    small = bench.path("small")
    small.write_bytes(b"labels")
    return _pack(bench, "add", library, "--blob", f"small={small}", "-o", output)


def _pack(bench: Bench, *words: str | Path) -> Sample:
    python, environment = inputs.interpreter(bench)
    return command(bench, [python, "-m", "mblob.cli.main", *words], **environment)


def copy(bench: Bench, payload: Path, output: Path) -> Sample:
    """The yardstick."""
    return command(bench, ["cp", payload, output])


def copy_beside(bench: Bench, payload: Path, output: Path) -> Sample:
    """The yardstick while a compiler is at work: wall time until both have ended, and CPU of
    both."""
    source, made = inputs.new_kernel(bench), bench.path("beside.so")
    compile_it = f"{os.environ.get('CC', 'cc')} -O2 -fPIC -shared -o '{made}' '{source}'"
    return command(bench, ["sh", "-c", f"{compile_it} & cp '{payload}' '{output}' && wait $!"])


def export(bench: Bench, worker: Worker, payload: Path, output: Path) -> Sample:
    """Inside a process that has packed before."""
    given = {
        "object_file": inputs.kernel_object(bench),
        "payload": payload,
        "output": output,
        "digest": "none",
    }
    return worker.sample("export", **given)


def _rows(bench: Bench, worker: Worker, mib: int) -> list[Row]:
    payload, output = inputs.payload_file(bench, mib), bench.path("out")
    cases: dict[str, Callable[[], Sample]] = {
        "cp": lambda: copy(bench, payload, output),
        DEFAULT: lambda: build(bench, payload, output),
        PLAIN: lambda: build(bench, payload, output, "--digest", "none"),
        INSIDE: lambda: export(bench, worker, payload, output),
        AGAIN: lambda: copy(bench, payload, output),
        BESIDE: lambda: copy_beside(bench, payload, output),
    }
    library = bench.path("library.so")
    if 0 < mib <= LARGEST_TO_ADD_TO:
        build(bench, payload, library)
        cases[ADD] = lambda: add(bench, library, output)
    found = alternate(cases, bench.rounds(mib), lambda: cleared(output), runs=2)
    output.unlink()
    library.unlink(missing_ok=True)
    return [Row(name, mib, "cp", found[name], found["cp"]) for name in cases if name != "cp"]


def _targets(rows: list[Row]) -> list[Target]:
    by_name = {(r.series, r.size): r for r in rows}
    floor = medians(by_name[PLAIN, 0].ours).wall if (PLAIN, 0) in by_name else None
    floor_inside = medians(by_name[INSIDE, 0].ours).cpu if (INSIDE, 0) in by_name else None

    def why(size: int, whole_command: bool) -> str:
        """An explanation: how the machine copied that size, and what there is besides the copy."""
        text = f"`cp` beside itself took {_range(by_name[AGAIN, size])} of its time"
        if whole_command:
            text += f", and while `cc` compiled {_range(by_name[BESIDE, size])}"
            text += f"; without any payload the command takes {1e3 * floor:.0f} ms" if floor else ""
        elif floor_inside:
            text += f"; without any payload it takes {1e3 * floor_inside:.1f} ms of CPU time"
        return text + "."

    targets = []
    for name, limit in ((DEFAULT, 1.5), (PLAIN, 1.25)):
        row = by_name.get((name, 1024))
        targets.append(Target(f"pack 1 GiB, `{name}`, wall over `cp`", limit, row and row.ratio("wall"), "x",
                              why(1024, True) if row else ""))  # fmt: skip
    row = by_name.get((ADD, 1024))
    targets.append(Target("add to 1 GiB, `mblob-pack add`, wall over `cp`", 1.2, row and row.ratio("wall"), "x",
                          why(1024, True) if row else ""))  # fmt: skip
    for size in sorted({r.size for r in rows if r.size and r.size >= 64}):
        row = by_name[INSIDE, size]
        what = f"pack {size} MiB in a process, no digest"
        targets.append(
            Target(f"{what}, CPU over `cp`", 1.1, row.ratio("cpu"), "x", why(size, False))
        )
        added = max(s.peak or 0 for s in row.ours)
        targets.append(
            Target(f"{what}, memory added", 20, in_mib(added), "MiB", "buffers are held too long.")
        )
    for size in (3072, 5120):
        row = by_name.get((PLAIN, size))
        targets.append(Target(f"pack {size // 1024} GiB, `{PLAIN}`, wall over `cp`", 1.1, row and row.ratio("wall"),
                              "x", why(size, True) if row else ""))  # fmt: skip
    return targets


def _range(row: Row) -> str:
    """The least and the greatest ratio of wall times."""
    ratios = [a.wall / b.wall for a, b in zip(row.ours, row.theirs) if a.wall and b.wall]
    return f"{min(ratios):.2f}x to {max(ratios):.2f}x"
