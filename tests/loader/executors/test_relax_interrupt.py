"""Ctrl-C in programs that do not end."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

import mblob
from tests.loader.executors.relax_programs import Function, Program, call, goto, ret

pytestmark = pytest.mark.own_process


def machine(*functions: Function) -> mblob.relax.VirtualMachine:
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
    return mblob.relax.VirtualMachine(code, mblob.cpu(0))


def endless() -> mblob.relax.VirtualMachine:
    return machine(Function("main", [goto(0)], ["x"]))


def interrupt(after: float = 0.3) -> None:
    threading.Timer(after, os.kill, [os.getpid(), signal.SIGINT]).start()


def test_sigint_ends_a_program_that_loops_and_the_machine_goes_on() -> None:
    vm = machine(Function("main", [goto(0)], ["x"]), Function("same", [ret(0)], ["x"]))
    for _ in range(2):
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            vm["main"](1)
        assert vm["same"](3) == 3


def test_sigint_ends_a_program_that_calls_kernels_in_a_loop() -> None:
    mblob.register_func("test.interrupt.null", lambda: None)
    vm = machine(
        Function("test.interrupt.null"), Function("main", [call(0, [], 1), goto(-1)], ["x"])
    )
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        vm["main"](1)


def test_a_handler_of_python_runs_during_a_call_and_may_let_it_go_on() -> None:
    seen: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
    vm = endless()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    interrupt(1.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            vm["main"](1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(seen) == 1
    assert time.monotonic() - seen[0] > 0.5


@pytest.mark.slow
def test_a_worker_thread_leaves_the_signal_to_the_main_thread() -> None:
    vm, ended = endless(), []
    vm.set_limits(instructions=200_000_000)

    def work() -> None:
        try:
            vm["main"](1)
        except BaseException as exc:
            ended.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(30)
    thread.join()
    assert "the limit of 200000000 instructions" in str(ended[0])
