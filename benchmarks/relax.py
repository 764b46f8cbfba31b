"""Programs of the Relax virtual machine, beside Apache TVM, which compiled them."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks import inputs
from benchmarks.results import Row, Sample, Section, Target
from benchmarks.sampling import Bench, Worker, alternate, command, tvm_worker

THEIRS = "Apache TVM"
INTRO = """\
Programs that Apache TVM compiled, called from Python with a tensor of each side's own, in a process for each side.
CPU time of the calling thread for one turn of a loop; for the chains divided by their adds. First output: wall and
CPU time of a whole process, `python -c ...` that imports, opens the program, calls it and looks at the result."""
ADDS = 1000
CASES = {
    "chain": f"chain of {ADDS} adds of four floats, bytecode, per add",
    "compiled": f"chain of {ADDS} adds of four floats, compiled, per add",
    "empty": "call of a function that only returns",
    "mlp": "two dense layers, call",
    "cnn": "two convolutions and a dense layer, call",
}
FIRST = "first output from process start"
FIRST_WITH_NUMPY = f"{FIRST}, numpy imported"
LIMITS = {"chain": 0.4, "compiled": 0.9, "empty": 0.7, "mlp": 1.0, "cnn": 1.0}
WHY = "both sides take some hundred nanoseconds: a busy machine moves their ratio by a tenth."
PROGRAM = """\
import mblob
vm = mblob.relax.VirtualMachine(mblob.load_module({path!r}), mblob.cpu(0))
x = memoryview(bytearray(4 * 2 * 32)).cast("f", (2, 32))
assert vm["main"](x).shape == (2, 10)
"""
WITH_NUMPY = """\
import mblob, numpy
vm = mblob.relax.VirtualMachine(mblob.load_module({path!r}), mblob.cpu(0))
assert vm["main"](numpy.zeros((2, 32), "float32")).numpy().shape == (2, 10)
"""
TVM_PROGRAM = """\
import tvm, numpy
vm = tvm.relax.VirtualMachine(tvm.runtime.load_module({path!r}), tvm.cpu())
assert vm["main"](tvm.runtime.tensor(numpy.zeros((2, 32), "float32"))).numpy().shape == (2, 10)
"""


def run(bench: Bench) -> Section:
    section = Section("Relax programs", INTRO)
    bench.say("Relax programs")
    with tvm_worker(bench, section.notes) as theirs:
        if theirs and isinstance(bench.tvm, Path):
            section.rows = [*_calls(bench, theirs), *_first_output(bench, bench.tvm)]
    rows = {row.series: row for row in section.rows}
    for case, limit in LIMITS.items():
        found = rows[CASES[case]].ratio("cpu") if rows else None
        text = f"Relax, {CASES[case]}: CPU over {THEIRS}"
        section.targets.append(Target(text, limit, found, "x", WHY))
    found = rows[FIRST].ratio("wall") if rows else None
    text = f"Relax, {FIRST}: wall over {THEIRS}"
    section.targets.append(Target(text, 0.1, found, "x", "a busy disk delays both."))
    return section


def _calls(bench: Bench, theirs: Worker) -> list[Row]:
    """Both sides by turns, after they gave the same results."""
    shapes = theirs.ask("write_relax", folder=bench.folder)
    rows = []
    with Worker("mblob") as ours:
        sums, expected = (
            side.ask("prepare_relax", folder=bench.folder, shapes=shapes) for side in (ours, theirs)
        )
        assert all(math.isclose(sums[case], expected[case], rel_tol=1e-4) for case in CASES)
        for case, series in CASES.items():
            sides = {series: ours, THEIRS: theirs}
            cases = {
                name: (lambda side=side, case=case: _sample(bench, side, case))
                for name, side in sides.items()
            }
            found = alternate(cases, 5 * bench.scale.rounds)
            rows.append(Row(series, None, THEIRS, found[series], found[THEIRS]))
    return rows


def _sample(bench: Bench, side: Worker, case: str) -> Sample:
    chain = case in ("chain", "compiled")
    loops = max(1, bench.scale.loops // {"empty": 1, "mlp": 10}.get(case, 50))
    sample = side.sample("call", case=case, count=loops)
    return Sample(cpu=(sample.cpu or 0) / ADDS) if chain else sample


def _first_output(bench: Bench, tvm: Path) -> list[Row]:
    python, environment = inputs.interpreter(bench)
    path = str(bench.path("relax_mlp.so"))
    found = alternate(
        {
            FIRST: lambda: command(bench, [python, "-c", PROGRAM.format(path=path)], **environment),
            FIRST_WITH_NUMPY: lambda: command(
                bench, [python, "-c", WITH_NUMPY.format(path=path)], **environment
            ),
            THEIRS: lambda: command(bench, [tvm, "-c", TVM_PROGRAM.format(path=path)]),
        },
        bench.scale.rounds,
    )
    return [
        Row(name, None, THEIRS, found[name], found[THEIRS]) for name in (FIRST, FIRST_WITH_NUMPY)
    ]
