"""From the start of a process to the first result of a kernel, beside an interpreter that does
nothing; and to a packed kernel, beside the compiler."""

from __future__ import annotations

import os
from pathlib import Path

import mblob
from benchmarks import inputs
from benchmarks.executors import wall_seconds
from benchmarks.results import Row, Sample, Section, Target, medians, thousand
from benchmarks.sampling import Bench, alternate, command
from mblob.compilers import include_flags

INTRO = """\
`python -c ...` that imports, opens a library, calls a kernel on three buffers and looks at the result, beside
`python -c pass` of the same environment, which has nothing else installed. Without numpy the arrays are memoryviews
of bytearrays. Packing a kernel with a prototype, by the command and in a process that packed before, is beside
`cc -O2 -shared` of the same kernel and of the C that mblob generates for it. Packing sources without prototypes is
beside `cc -O2 -shared` of the source alone."""
BARE = "python -c pass"
COMPILE = "cc -O2 -shared of kernel and generated C"
PACK, PACK_INSIDE = "mblob-pack build of a kernel", "export_library of a kernel in a process"
FROM_SOURCE = "mblob-pack build of a kernel, prototypes from the source"
MANY = "mblob-pack build of 300 functions, prototypes from the source"
MBLOB_PACK = "from mblob.cli.main import main; main()"  # as the command's script has it
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
        section.targets.append(Target(f"{row.series}: {clock if clock == 'wall' else 'CPU'} over `{BARE}`", 12,
                                      thousand(row.over(clock)), "ms", why))  # fmt: skip
    _pack(bench, section)
    _pack_sources(bench, section)
    return section


def _pack(bench: Bench, section: Section) -> None:
    """Rows of packing a kernel that differs each time, and their targets."""
    bench.say("packing a kernel")
    python, environment = inputs.interpreter(bench)
    work, output = bench.path("generated"), bench.path("packed.so")
    inputs.new_kernel(bench)
    mblob.csource_module(inputs.KERNEL, functions=[inputs.PROTOTYPE]).export_library(
        output, workspace_dir=work
    )
    flags = ["-O2", "-fPIC", "-shared", *include_flags(), "-DMBLOB_KERNEL"]
    compiler = [os.environ.get("CC", "cc"), *flags, str(work / "mblob_functions.c"), "-lm"]

    def compile_it() -> Sample:
        source = inputs.new_kernel(bench)
        return command(bench, [*compiler, str(source), "-o", bench.path("compiled.so")])

    def build() -> Sample:
        words = ["-c", MBLOB_PACK, "build", "--kernel", inputs.new_kernel(bench)]
        more = ["--function", inputs.PROTOTYPE, "-o", output]
        return command(bench, [python, *words, *more], **environment)

    def export() -> Sample:
        module = mblob.csource_module(inputs.new_kernel(bench), functions=[inputs.PROTOTYPE])
        return Sample(wall=wall_seconds(lambda: module.export_library(output)))

    cases = {
        COMPILE: compile_it,
        BARE: lambda: command(bench, [python, "-c", "pass"], **environment),
        PACK: build,
        PACK_INSIDE: export,
    }
    found = alternate(cases, 3 * bench.scale.rounds)
    both = [_sum(a, b) for a, b in zip(found[COMPILE], found[BARE])]
    rows = [
        Row(PACK, None, f"{COMPILE}, and {BARE}", found[PACK], both),
        Row(PACK_INSIDE, None, COMPILE, found[PACK_INSIDE], found[COMPILE]),
    ]
    section.rows += rows
    why = "importing what packs takes longer than the compiler; it is imported while that runs, as far as it can be."
    for row, limit in zip(rows, (2.0, 1.3)):
        section.targets.append(
            Target(f"{row.series}, wall over {row.yardstick}", limit, row.ratio("wall"), "x", why)
        )


def _pack_sources(bench: Bench, section: Section) -> None:
    """Rows of packing sources whose prototypes mblob reads itself, and their targets."""
    python, environment = inputs.interpreter(bench)
    many = bench.path("many.c")
    many.write_text(
        "".join(
            f"void f{i}(const float *x, float *y, int n) {{ for (int k = 0; k < n; ++k) y[k] = {i} * x[k]; }}\n"
            for i in range(300)
        )
    )
    compiler = [
        os.environ.get("CC", "cc"),
        "-O2",
        "-fPIC",
        "-shared",
        "-o",
        bench.path("compiled.so"),
    ]
    why = "the C compiler reads and optimises the packed functions too, and Python imports what packs."
    for name, source, limit in (
        (FROM_SOURCE, lambda: inputs.new_kernel(bench), 4.0),
        (MANY, lambda: many, 2.0),
    ):
        bench.say(name)
        words = ["-c", MBLOB_PACK, "build", "-o", bench.path("packed.so")]
        cases = {
            "cc": lambda source=source: command(bench, [*compiler, source()]),
            BARE: lambda: command(bench, [python, "-c", "pass"], **environment),
            name: lambda source=source, words=words: command(
                bench, [python, *words, source()], **environment
            ),
        }
        found = alternate(cases, 3 * bench.scale.rounds)
        both = [_sum(a, b) for a, b in zip(found["cc"], found[BARE])]
        row = Row(name, None, f"cc -O2 -shared of it, and {BARE}", found[name], both)
        section.rows.append(row)
        section.targets.append(
            Target(f"{name}, wall over {row.yardstick}", limit, row.ratio("wall"), "x", why)
        )


def _sum(a: Sample, b: Sample) -> Sample:
    return Sample(wall=(a.wall or 0) + (b.wall or 0), cpu=(a.cpu or 0) + (b.cpu or 0))


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
