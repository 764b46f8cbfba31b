"""Calls from Python with three arrays of four floats, beside `np.add(a, b, out=c)` and Apache
TVM."""

from __future__ import annotations

import subprocess

from benchmarks import inputs
from benchmarks.results import Row, Sample, Section, Target
from benchmarks.sampling import HERE, Bench, Worker, alternate, compiled, tvm_worker

NUMPY = "np.add(a, b, out=c)"
INTRO = f"""\
`void add4(const float a[4], const float b[4], float c[4])`: types, shapes and places of all three arrays are
checked, and the interpreter's lock is released. CPU time of the calling thread for one turn of a loop, the loop's
own some 20 ns included on both sides; `{NUMPY}` on the same arrays, in the same process, by turns. To be copied:
arrays that lie between the addresses of floats, of which the kernel gets aligned copies. TVM calls a kernel that
TVM compiled, in a process of its own with its own numpy."""
CASES = {
    "aligned": "call, three numpy arrays",
    "bound": "call, bound beforehand",
    "copied": "call, three arrays to be copied",
    "views": "call, three memoryviews",
}
THEIRS = {
    "arrays": "Apache TVM, call, three numpy arrays",
    "tensors": "Apache TVM, call, three of its tensors",
}
KEPT = "call of a kept function"
LOOKED_UP = {  # and the most that it may cost, over a kept function
    "attribute": ("call as `lib.add4(a, b, c)`", 1.5),
    "item": ('call as `lib["add4"](a, b, c)`', 2.0),
}
LIMITS = {"aligned": 0.85, "bound": 0.425}
OF_PROTOTYPE = "call of `lib.ctypes.add4`, kept"
OWN_CTYPES = "`ctypes.CDLL(path).add4`, its types by hand (`ndpointer`)"
OBJECT = "call of C++, one tensor as an object"
VIEW = "the same of C, as a `DLTensor *`"
OBJECT_LIMIT = 60  # ns more
FROM_C = "C: mblob_function_call"
PREPARED = "C: mblob_call_prepared"
OPEN = "C: mblob_call_prepared, extents as arguments"
PREPARED_LIMIT = 1.3


def run(bench: Bench) -> Section:
    section = Section("Calling", INTRO)
    bench.say("calls")
    with Worker("mblob") as worker:
        worker.ask("prepare", path=inputs.library(bench, "calls", None))
        section.rows += _rows(bench, worker, CASES)
        section.rows += _looked_up(bench, worker)
        section.rows.append(
            _beside(bench, worker, OF_PROTOTYPE, OWN_CTYPES, "ctypes", "own_ctypes")
        )
        worker.ask("prepare_tensors", **inputs.of_tensors(bench))
        objects = _beside(bench, worker, OBJECT, VIEW, "object", "view")
        section.rows.append(objects)
    section.rows += _from_c(bench)
    with tvm_worker(bench, section.notes) as theirs:
        if theirs:
            library = bench.path("calls_tvm.so")
            theirs.ask("export", payload="", output=library)
            theirs.ask("prepare", path=library)
            section.rows += _rows(bench, theirs, THEIRS)
    why = "both sides are loops of some hundred nanoseconds: a busy machine moves their ratio by a tenth."
    for case, limit in LIMITS.items():
        row = next(r for r in section.rows if r.series == CASES[case])
        section.targets.append(
            Target(f"{row.series}: CPU over `{NUMPY}`", limit, row.ratio("cpu"), "x", why)
        )
    kept = f"a {KEPT.partition(' of a ')[2]}"
    limits = [(name, limit, kept) for name, limit in LOOKED_UP.values()]
    limits += [(name, PREPARED_LIMIT, FROM_C) for name in (PREPARED, OPEN)]
    for name, limit, over in limits:
        row = next(r for r in section.rows if r.series == name)
        target = Target(f"{name}: CPU over {over}", limit, row.ratio("cpu"), "x", why)
        section.targets.append(target)
    more = objects.over("cpu")
    found = None if more is None else more * 1e9
    section.targets.append(
        Target(f"{OBJECT}: CPU more than {VIEW}", OBJECT_LIMIT, found, "ns", why)
    )
    return section


def _from_c(bench: Bench) -> list[Row]:
    """Calls whose types are a text, read once or each time."""
    program = compiled(bench, HERE / "calling.c", *inputs.runtime_options())
    path, rounds = inputs.library(bench, "calls", None), 5 * bench.scale.rounds
    words = [str(program), str(path), str(rounds), str(bench.scale.loops)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    columns = zip(*(map(float, line.split()) for line in done.stdout.splitlines()))
    function, prepared, opened, text = ([Sample(cpu=cpu) for cpu in column] for column in columns)
    return [
        Row(PREPARED, None, FROM_C, prepared, function),
        Row(OPEN, None, FROM_C, opened, function),
        Row("C: mblob_call", None, FROM_C, text, function),
    ]


def _looked_up(bench: Bench, worker: Worker) -> list[Row]:
    """The cost of naming the library in each call."""
    loops = bench.scale.loops
    cases = {
        case: (lambda case=case: worker.sample("call", case=case, count=loops))
        for case in ("aligned", *LOOKED_UP)
    }
    found = alternate(cases, 5 * bench.scale.rounds)
    return [
        Row(name, None, KEPT, found[case], found["aligned"])
        for case, (name, _) in LOOKED_UP.items()
    ]


def _beside(bench: Bench, worker: Worker, name: str, other: str, case: str, than: str) -> Row:
    """One call beside another, by turns."""
    loops = bench.scale.loops
    cases = {
        case: (lambda case=case: worker.sample("call", case=case, count=loops))
        for case in (than, case)
    }
    found = alternate(cases, 5 * bench.scale.rounds)
    return Row(name, None, other, found[case], found[than])


def _rows(bench: Bench, worker: Worker, names: dict[str, str]) -> list[Row]:
    """Each beside numpy, in one worker."""
    loops = bench.scale.loops
    cases = {
        case: (lambda case=case: worker.sample("call", case=case, count=loops))
        for case in ("numpy", *names)
    }
    found = alternate(cases, 5 * bench.scale.rounds)
    return [Row(name, None, NUMPY, found[case], found["numpy"]) for case, name in names.items()]
