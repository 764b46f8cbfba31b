"""The times that users wait, beside an earlier commit of mblob: `--before FOLDER`, a worktree of it with
its `.venv`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks import inputs
from benchmarks.results import MIB, Row, Sample, Section, Target
from benchmarks.sampling import Bench, Worker, alternate, command
from benchmarks.starting import PROGRAM

INTRO = """\
The same work by this tree and by an earlier commit in a worktree of its own, by turns: in a process for each of
them, and as commands. Both read libraries that the earlier commit packed. Calls: CPU time of the calling thread."""
THEIRS = "the earlier commit"
SIZE = 256  # MiB
LIMIT = 1.1
CALLS = {
    "aligned": "call, three numpy arrays",
    "bound": "call, bound beforehand",
    "views": "call, three memoryviews",
}
WHY = "a busy machine moves such a ratio by a tenth."


def run(bench: Bench) -> list[Section]:
    """No section if no earlier commit was named."""
    if bench.before is None:
        return []
    section = Section("Beside an earlier commit", INTRO)
    bench.say("an earlier commit")
    log = ["git", "-C", str(bench.before), "log", "-1", "--format=%h, %s"]
    found = subprocess.run(log, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        section.notes.append(f"The earlier commit is {found.stdout.strip()}.")
    section.rows += _in_a_process(bench, bench.before)
    section.rows += _commands(bench, bench.before)
    for row in section.rows:
        what = "wall" if row.ratio("cpu") is None else "cpu"
        text = f"{row.series}: {what if what == 'wall' else 'CPU'} over {THEIRS}"
        section.targets.append(Target(text, LIMIT, row.ratio(what), "x", WHY))
    return [section]


def _in_a_process(bench: Bench, before: Path) -> list[Row]:
    kernel, payload = inputs.kernel_object(bench), inputs.payload_file(bench, SIZE)
    small, large = bench.path("before.so"), bench.path("before_large.so")
    scratch = bench.path("before_scratch.so")
    rows = []
    with Worker("mblob") as ours, Worker("mblob", before / ".venv" / "bin" / "python") as theirs:
        packed = {"object_file": kernel, "payload": payload, "digest": "crc32"}
        theirs.ask("export", **packed, output=large)
        build = [_tool(before), "build", "--kernel", inputs.new_kernel(bench)]
        command(bench, [*build, "--function", inputs.PROTOTYPE, "-o", small])
        for side in (ours, theirs):
            side.ask("prepare", path=small)
        size = SIZE * MIB
        asked = {
            f"export_library, {SIZE} MiB": ("export", {**packed, "output": scratch}, 1),
            "load_module of a kernel": ("load", {"path": small, "count": 0, "size": 0}, 5),
            f"load_module, {SIZE} MiB": ("load", {"path": large, "count": 1, "size": size}, 5),
            "open of a kernel": ("look", {"path": small, "count": 0, "size": 0}, 5),
            f"open, {SIZE} MiB": ("look", {"path": large, "count": 1, "size": size}, 5),
        }
        loops = bench.scale.loops
        for case, series in CALLS.items():
            asked[series] = ("call", {"case": case, "count": loops}, 5)
        for series, (action, arguments, more) in asked.items():
            found = alternate(
                {
                    name: (lambda s=side, a=action, k=arguments: s.sample(a, **k))
                    for name, side in (("", ours), (THEIRS, theirs))
                },
                more * bench.scale.rounds,
            )
            rows.append(Row(series, None, THEIRS, found[""], found[THEIRS]))
    return rows


def _commands(bench: Bench, before: Path) -> list[Row]:
    small, output = bench.path("before.so"), bench.path("before_output.so")
    build = ["build", "--function", inputs.PROTOTYPE, "-o", output, "--kernel"]
    asked = {
        "mblob-pack inspect of a kernel": lambda tool: [tool, "inspect", small],
        "mblob-pack build of a kernel": lambda tool: [tool, *build, inputs.new_kernel(bench)],
        "first result, without numpy": lambda tool: [
            tool.parent / "python",
            "-c",
            PROGRAM.format(path=str(small)),
        ],
    }
    rows = []
    for series, words in asked.items():

        def sample(root: Path, words=words) -> Sample:  # type: ignore[no-untyped-def]
            # the object cache that mblob once had is not what is measured
            return command(bench, words(_tool(root)), MBLOB_CACHE="0")

        found = alternate(
            {"": lambda: sample(inputs.ROOT), THEIRS: lambda: sample(before)},
            3 * bench.scale.rounds,
        )
        rows.append(Row(series, None, THEIRS, found[""], found[THEIRS]))
    return rows


def _tool(root: Path) -> Path:
    return root / ".venv" / "bin" / "mblob-pack"
