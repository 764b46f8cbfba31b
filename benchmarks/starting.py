"""From the start of a process to the first result of a kernel, beside an interpreter that does
nothing."""

from __future__ import annotations

from pathlib import Path

from benchmarks import inputs
from benchmarks.results import Row, Section, Target, medians, thousand
from benchmarks.sampling import Bench, alternate, command

INTRO = """\
`python -c ...` that imports, opens a library, calls a kernel on three buffers and looks at the result, beside
`python -c pass` of the same environment, which has nothing else installed. Without numpy the arrays are memoryviews
of bytearrays."""
BARE = "python -c pass"
SET_AT = 11.3  # ms of it, when the target was set
PROGRAM = """\
import mblob
a, b, c = (memoryview(bytearray(16)).cast("f") for _ in range(3))
a[3], b[3] = 1, 2
mblob.load_module({path!r})["add4"](a, b, c)
assert c[3] == 3
"""
WITH_NUMPY = """\
import mblob, numpy
a, b, c = (numpy.ones(4, "float32") for _ in range(3))
mblob.load_module({path!r})["add4"](a, b, c)
assert c[3] == 2
"""
TVM = """\
import tvm, numpy
a, b, c = (numpy.ones(4, "float32") for _ in range(3))
tvm.runtime.load_module({path!r})["add4"](a, b, c)
assert c[3] == 2
"""


def run(bench: Bench) -> Section:
    section = Section("Starting", INTRO)
    bench.say("process starts")
    path = str(inputs.library(bench, "calls", None))
    programs = {"first result, without numpy": PROGRAM, "first result, with numpy": WITH_NUMPY}
    python, environment = inputs.interpreter(bench)
    named = {name: text.format(path=path) for name, text in programs.items()}
    section.rows += _rows(bench, python, named, environment)
    theirs = bench.path("calls_tvm.so")
    if isinstance(bench.tvm, Path) and theirs.exists():
        section.rows += _rows(
            bench, bench.tvm, {"Apache TVM, first result": TVM.format(path=str(theirs))}, {}
        )
    row = section.rows[0]
    bare = 1e3 * (medians(row.theirs).wall or 0)
    why = f"what is added grows with `{BARE}`, which took {bare:.1f} ms itself, {SET_AT} ms where the target was set."
    for clock in ("cpu", "wall"):
        section.targets.append(Target(f"{row.series}: {clock if clock == 'wall' else 'CPU'} over `{BARE}`", 5,
                                      thousand(row.over(clock)), "ms", why))  # fmt: skip
    return section


def _rows(
    bench: Bench, python: Path, programs: dict[str, str], environment: dict[str, str]
) -> list[Row]:
    texts = {BARE: "pass", **programs}
    cases = {
        name: (lambda text=text: command(bench, [python, "-c", text], **environment))
        for name, text in texts.items()
    }
    found = alternate(cases, 3 * bench.scale.rounds)
    return [Row(name, None, BARE, found[name], found[BARE]) for name in programs]
