"""Operators of a graph that run at the same time: on several threads, and on a device beside them."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import graph_executor
from tests.loader.executors import relax_programs
from tests.loader.executors.relax_programs import call, ret

pytestmark = pytest.mark.own_process

ONE = np.ones(1, "f")


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime reads the number once; each test has a process of its own."""
    monkeypatch.setenv("TVM_NUM_THREADS", "4")


def branches(functions: dict[str, Callable[..., None]], depth: int = 1) -> Any:
    """A debug model with one branch for each function, which is called `depth` times. All values are
    outputs, so that none shares its memory with another."""
    graph = mblob.GraphBuilder()
    x = graph.input("x", (1,))
    for name in functions:
        value = x
        for i in range(depth):
            value = graph.call(name, [value], (1,), name=f"{name}{i}")
            graph.output(value)
    kernels = mblob.Module("tests.kernels", functions=functions)
    model = graph_executor.create_debug(graph.graph_json(), kernels)
    model.set_input("x", ONE)
    return model


def add(seconds: float) -> Callable[..., None]:
    """Waits, as a kernel would compute, and adds 1."""

    def function(x: mblob.Tensor, y: mblob.Tensor) -> None:
        if seconds:
            time.sleep(seconds)
        y.numpy()[:] = x.numpy() + 1

    return function


def overlap(rows: list[graph_executor.NodeTime]) -> bool:
    """Whether two nodes ran at the same time."""
    return any(a.start < b.end and b.start < a.end for a in rows for b in rows if a.node < b.node)


def test_functions_of_python_meet_on_two_threads() -> None:
    barrier = threading.Barrier(2, timeout=20)

    def meet(x: mblob.Tensor, y: mblob.Tensor) -> None:
        barrier.wait()
        y.numpy()[:] = x.numpy() + 1

    model = branches({"left": meet, "right": meet}, depth=3)
    for _ in range(5):
        model.run(parallel=2)
    assert [model.get_output(i).numpy()[0] for i in range(6)] == [2, 3, 4] * 2


def test_branches_of_a_planned_graph_meet() -> None:
    """Their values inside are no outputs; the plan keeps them apart."""
    barrier = threading.Barrier(2, timeout=20)

    def meet(x: mblob.Tensor, y: mblob.Tensor) -> None:
        barrier.wait()
        y.numpy()[:] = x.numpy() + 1

    def join(x: mblob.Tensor, y: mblob.Tensor, z: mblob.Tensor) -> None:
        z.numpy()[:] = x.numpy() + 10 * y.numpy()

    graph = mblob.GraphBuilder()
    ends = []
    for x in (graph.input("x", (1,)), graph.input("y", (1,))):
        value = x
        for _ in range(4):
            value = graph.call("meet", [value], (1,))
        ends.append(value)
    graph.output(graph.call("join", ends, (1,)))
    kernels = mblob.Module("tests.kernels", functions={"meet": meet, "join": join})
    model = graph_executor.create(graph.graph_json(), kernels, mblob.cpu(0))
    model.run(parallel=2, x=ONE, y=2 * ONE)
    assert model.get_output(0).numpy()[0] == 65


def test_branches_that_take_long_run_at_the_same_time_unasked() -> None:
    model = branches({"left": add(0.03), "right": add(0.03)})
    for _ in range(4):
        assert overlap(model.profile())
    rows = model.profile(parallel=1)
    assert not overlap(rows)
    assert [row.thread for row in rows] == [0, 0]
    assert [row.device for row in rows] == ["cpu:0"] * 2
    rows = model.profile(parallel=2)
    assert sorted(row.thread for row in rows) == [0, 1]
    assert all(0 <= row.start <= row.end for row in rows)


def test_branches_that_take_microseconds_run_in_order_before_long() -> None:
    model = branches({"left": add(0), "right": add(0)}, depth=3)
    for _ in range(3):
        model.run()
    rows = model.profile(3)
    assert not overlap(rows)
    assert {row.thread for row in rows} == {0}


def test_a_profile_decides_nothing_for_later_runs() -> None:
    seconds = 0.0

    def wait(x: mblob.Tensor, y: mblob.Tensor) -> None:
        time.sleep(seconds)
        y.numpy()[:] = x.numpy() + 1

    model = branches({"left": wait, "right": wait})
    model.profile(5)
    seconds = 0.03
    model.run()
    assert overlap(model.profile())


def test_the_exception_of_the_first_node_is_raised_whatever_thread_it_came_from() -> None:
    mistakes = {"slow": ValueError("of the first"), "quick": KeyError("of the second")}

    def fail(name: str, seconds: float) -> Callable[..., None]:
        def function(x: mblob.Tensor, y: mblob.Tensor) -> None:
            time.sleep(seconds)
            raise mistakes[name]

        return function

    model = branches({"slow": fail("slow", 0.05), "quick": fail("quick", 0)})
    for parallel in (None, 1, 2, 4):
        with pytest.raises(ValueError, match="of the first") as caught:
            model.run(parallel=parallel)
        assert caught.value is mistakes["slow"]
    only = branches({"fine": add(0.05), "quick": fail("quick", 0.01)})
    for _ in range(3):
        with pytest.raises(KeyError) as raised:
            only.run(parallel=2)
        assert raised.value is mistakes["quick"]


class Mistake(Exception):
    pass


def test_an_exception_is_raised_after_a_call_inside_of_the_function() -> None:
    helper = mblob.Module("tests.helper", functions={"help": lambda: None})["help"]
    mistake = Mistake("on any thread")

    def fail(x: mblob.Tensor, y: mblob.Tensor) -> None:
        time.sleep(0.01)
        helper()
        raise mistake

    model = branches({"left": add(0.02), "right": fail, "third": add(0.02)})
    for parallel in (2, 3, None, 3):
        with pytest.raises(Mistake) as caught:
            model.run(parallel=parallel)
        assert caught.value is mistake


def test_graphs_of_several_threads_raise_exceptions_of_their_own_and_keep_none() -> None:
    """The first node of each fails last. Those of later nodes are dropped with the run."""
    left: list[weakref.ref[Mistake]] = []
    wrong: list[object] = []

    def fail(text: str, seconds: float, helper: Callable[[], None]) -> Callable[..., None]:
        def function(x: mblob.Tensor, y: mblob.Tensor) -> None:
            time.sleep(seconds)
            helper()
            mistake = Mistake(text)
            left.append(weakref.ref(mistake))
            raise mistake

        return function

    def run(name: str) -> None:
        helper = mblob.Module("tests.helper", functions={"help": lambda: None})["help"]
        first = {"first": fail(f"first of {name}", 0.006, helper)}
        others = {f"b{i}": fail(f"{i} of {name}", 0.001 * i, helper) for i in range(4)}
        model = branches({**first, **others})
        for _ in range(20):
            try:
                model.run(parallel=5)
            except BaseException as exc:
                if type(exc) is not Mistake or str(exc) != f"first of {name}":
                    wrong.append(exc)

    threads = [threading.Thread(target=run, args=[f"graph {i}"]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    gc.collect()
    assert len(left) > 4 * 20
    assert [ref() for ref in left if ref() is not None] == []


def test_sigint_ends_a_run_and_the_model_goes_on() -> None:
    model = branches({"left": add(0.005), "right": add(0.005)}, depth=400)
    for parallel in (1, 2):
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        start = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            model.run(parallel=parallel)
        assert time.monotonic() - start < 1.8  # a run takes 2 or 4 seconds
    small = branches({"left": add(0), "right": add(0)})
    small.run(parallel=2)
    assert small.get_output(0).numpy()[0] == 2


def test_sigint_ends_a_run_whose_first_thread_only_waits() -> None:
    """The branch of the first thread ends at once, the others go on."""
    model = branches({f"b{i}": add(0.005 if i else 0) for i in range(3)}, depth=400)
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.run(parallel=3)
    assert time.monotonic() - start < 1.8


def test_a_child_runs_with_threads_of_its_own() -> None:
    model = branches({"left": add(0.01), "right": add(0.01)}, depth=2)
    model.run()
    child = os.fork()
    if child == 0:
        for parallel in (None, 2):
            model.run(parallel=parallel)
        os._exit(0 if model.get_output(1).numpy()[0] == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_in_an_operator_is_an_error_of_the_child_alone() -> None:
    parent, children = os.getpid(), []

    def fork(x: mblob.Tensor, y: mblob.Tensor) -> None:
        children.append(os.fork())

    model = branches({"left": add(0.05), "forks": fork, "right": add(0.05)})
    failed = False
    try:
        model.run(parallel=3)
    except mblob.MblobError:
        failed = True
    if os.getpid() != parent:
        os._exit(3 if failed else 4)
    assert not failed
    (child,) = children
    # 3: of the thread that called; else its thread has nothing to return to
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (1, 3)


def test_a_model_may_be_let_go_while_it_runs_and_run_others() -> None:
    inner = branches({"left": add(0.01), "right": add(0.01)})

    def run_inner(x: mblob.Tensor, y: mblob.Tensor) -> None:
        inner.run()
        y.numpy()[:] = inner.get_output(0).numpy()

    model = branches({"a": run_inner, "b": run_inner, "c": add(0.02)})
    outputs = [model.get_output(i) for i in range(3)]
    run = model.module["run"]
    thread = threading.Thread(target=run)
    thread.start()
    del model, run
    thread.join()
    assert [t.numpy()[0] for t in outputs] == [2, 2, 2]


LOOPS = """\
#include <tvm/runtime/c_backend_api.h>
#include <time.h>
static int part(int id, TVMParallelGroupEnv *env, void *data) {
  (void)data, (void)id;
  nanosleep(&(struct timespec){.tv_nsec = 20000000 / env->num_task}, 0);
  return 0;
}
void wide(const float *x, float *y) { TVMBackendParallelLaunch(part, 0, 0); *y = *x + 1; }
void thin(const float *x, float *y) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, 0); *y = *x + 1; }
"""


def test_kernels_that_use_all_threads_themselves_run_in_order(tmp_path: Path) -> None:
    """`wide` takes 5 ms with four threads, and 20 ms with the one that it has in a run on several."""
    names = ["thin", "wide"]
    source = [f"void {name}(const float x[1], float y[1])" for name in names]
    mblob.export_library(mblob.csource_module(LOOPS, functions=source), tmp_path / "loops.so")
    graph = mblob.GraphBuilder()
    x = graph.input("x", (1,))
    for name in names:
        graph.output(graph.call(name, [x], (1,)))
    kernels = mblob.load_module(tmp_path / "loops.so")
    model = graph_executor.create_debug(graph.graph_json(), kernels)
    for _ in range(4):
        model.run()
    assert not overlap(model.profile())


def test_arrays_that_overlap_order_the_operators_that_use_them() -> None:
    """An input of one branch is bound to a part of an output of the other."""
    graph = mblob.GraphBuilder()
    a, b = graph.input("a", (16,)), graph.input("b", (16,))
    graph.output(graph.call("slow", [a], (16,)))
    graph.output(graph.call("quick", [b], (16,)))

    def slow(x: mblob.Tensor, y: mblob.Tensor) -> None:
        time.sleep(0.02)
        y.numpy()[:] = x.numpy() + 1

    def quick(x: mblob.Tensor, y: mblob.Tensor) -> None:
        y.numpy()[:] = 2 * x.numpy()

    kernels = mblob.Module("tests.kernels", functions={"slow": slow, "quick": quick})
    model = graph_executor.create(graph.graph_json(), kernels)
    shared = mblob.empty((32,)).numpy()
    model.run(parallel=2)
    for offset, expected in ((0, 10.0), (8, 10.0), (16, 0.0)):
        shared[:] = 0
        model.set_input("a", np.full(16, 4, "f"))
        model.set_output_zero_copy(0, shared[:16])
        model.set_input_zero_copy("b", shared[offset : offset + 16])
        for parallel in (None, 2):
            shared[:] = 0
            model.run(parallel=parallel)
            assert model.get_output(1).numpy()[0] == expected


def test_the_trace_of_a_model_for_debugging_has_the_threads_of_the_whole_run(
    tmp_path: Path,
) -> None:
    graph = mblob.GraphBuilder()
    x = graph.input("x", (1,))
    for name in ("left", "right"):
        graph.output(graph.call(name, [x], (1,), name=name))
    kernels = mblob.Module("tests.kernels", functions={"left": add(0.05), "right": add(0.05)})
    for parallel, threads in ((2, {1, 2}), (1, set())):
        model = graph_executor.create_debug(graph.graph_json(), kernels, dump_root=tmp_path)
        model.run(x=ONE, parallel=parallel)
        (trace,) = tmp_path.glob("*/_tvmdbg_execution_trace.json")
        events = json.loads(trace.read_text())["traceEvents"]
        alone = [e for e in events if e["pid"] == 1]
        assert [e["ts"] for e in alone] == sorted(e["ts"] for e in alone)
        together = {(e["name"], e["ph"]): e for e in events if e["pid"] == 2}
        assert {e["tid"] for e in together.values()} == threads
        if threads:
            begins = [together[name, "B"]["ts"] for name in ("left", "right")]
            assert max(begins) < min(together[name, "E"]["ts"] for name in ("left", "right"))
        assert model.get_output(1).numpy()[0] == 2
        model.exit()


def test_functions_of_one_relax_program_run_at_once_in_machines_of_their_own() -> None:
    barrier = threading.Barrier(2, timeout=20)
    mblob.register_func("test.together.meet", lambda: barrier.wait())
    functions = (
        relax_programs.Function("test.together.meet"),
        relax_programs.Function("left", [call(0, [], 1), ret(1)], ["x"]),
        relax_programs.Function("right", [call(0, [], 1), ret(1)], ["x"]),
    )
    program = mblob.get_global_func("mblob.RelaxExecutable")(
        relax_programs.Program(functions).payload()
    )
    found: list[int] = []

    def work(name: str) -> None:
        machine: Any = mblob.relax.VirtualMachine(program, mblob.cpu(0))
        found.append(machine[name](1))

    threads = [threading.Thread(target=work, args=[name]) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1]
