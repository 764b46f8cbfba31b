"""Programs of the Relay virtual machine: what they compute, and what machines do with inputs,
results and time."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import Function, Program, plain

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")


def test_a_program_of_tvm_gives_tvms_numbers(golden: Path) -> None:
    known = np.load(golden / "mlp_llvm.npz")
    vm = mblob.load_module(golden / "vm_mlp.so")["vm_load_executable"]()
    vm["init"](1, 0, 2)
    for _ in range(3):
        vm["set_input"]("main", known["data"])
        np.testing.assert_allclose(vm["invoke"]("main").numpy(), known["out"], rtol=1e-5)


def test_inputs_by_name_and_index_and_all_ways_to_outputs(machine: Any) -> None:
    vm = machine(vm_programs.arithmetic())
    vm["set_one_input"]("main", "y", Y)
    with pytest.raises(ValueError, match="input 'x' of function 'main' has not been set"):
        vm["invoke"]("main")
    vm["set_one_input"]("main", 0, X)
    assert vm["invoke_stateful"]("main") is None
    assert vm["get_num_outputs"]() == 1
    np.testing.assert_array_equal(vm["get_output"](0).numpy(), (X + W) * Y)
    out = mblob.empty((4,), "float32")
    vm["set_outputs"]("main", out)
    vm["invoke"]("main")
    np.testing.assert_array_equal(out.numpy(), (X + W) * Y)
    np.testing.assert_array_equal(
        vm["invoke_return_to_device"]("main", 1, 0, 2 * X, Y).numpy(), (2 * X + W) * Y
    )
    assert [vm["get_input_index"](n, "main") for n in ("x", "y", "z")] == [0, 1, -1]


def test_branches_and_tuples(machine: Any) -> None:
    vm = machine(vm_programs.choice())
    np.testing.assert_array_equal(vm["invoke"]("main", np.array(7), X).numpy(), X)
    tag, (n, (inner, (x, five))) = plain(vm["invoke"]("main", np.array(-3), X))
    assert (tag, int(n), inner, five.tolist()) == (3, -3, 0, [5])
    np.testing.assert_array_equal(x, X)
    assert vm["get_num_outputs"]() == 2
    assert plain(vm["get_output"](1))[1][1].tolist() == [5]
    tag, (of_nine, again) = plain(vm["invoke"]("tag", X))
    assert (tag, of_nine.tolist(), again.tolist()) == (0, [9], X.tolist())


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64"])
def test_conditions_of_every_width(machine: Any, dtype: str) -> None:
    code = [("LoadConsti", 1, 2), ("If", 0, 2, 1, 3), ("LoadConsti", 10, 1), ("Ret", 1), ("Ret", 0)]
    vm = machine(Program({"main": Function(["c"], 3, code)}))
    assert vm["invoke"]("main", np.array(1, dtype)).numpy().tolist() == [10]
    assert vm["invoke"]("main", np.array(0, dtype)).numpy() == 0
    wrong = (
        r"instruction 1 \(If of input 'c' \(float32\[\]\)\): register 0 has float32 of shape \[\]"
    )
    with pytest.raises(ValueError, match=wrong):
        vm["invoke"]("main", np.array(1, "float32"))


def test_tuples_go_in_too(machine: Any) -> None:
    vm = machine(
        Program(
            {"main": Function(["t"], 3, [("GetField", 0, 1, 1), ("GetField", 1, 0, 2), ("Ret", 2)])}
        )
    )
    pair, adt = mblob.get_global_func("runtime.Tuple"), mblob.get_global_func("runtime.ADT")
    np.testing.assert_array_equal(vm["invoke"]("main", pair(X, adt(4, Y))).numpy(), Y)
    with pytest.raises(
        ValueError,
        match=r"\(GetField of input 't' \(a tuple\)\): .* a tuple of 1 fields, no field 1",
    ):
        vm["invoke"]("main", pair(X))
    with pytest.raises(ValueError, match="has an array, expected a tuple"):
        vm["invoke"]("main", X)
    with pytest.raises(
        ValueError, match=r"\(GetField of input 't' \(float32\[4\]\)\): .* expected a tuple"
    ):
        vm["invoke"]("main", pair(X, X))  # what is inside of an input is the caller's, too


def test_closures_call_and_long_lists_are_freed_without_recursion(machine: Any) -> None:
    vm = machine(vm_programs.calls())
    assert plain(vm["invoke"]("main", np.array(3)))[1][1][1][0].tolist() == 2
    count = 60_000
    result = vm["invoke"]("main", np.array(count))
    assert int(result["get_field"](0).numpy()) == 1
    vm["invoke"]("main", np.array(0))
    field = result["get_field"](1)
    del result, vm
    assert int(field["get_field"](0).numpy()) == 2


def test_shapes_at_run_time(machine: Any) -> None:
    vm = machine(vm_programs.shapes())
    x = np.arange(6, dtype="float32").reshape(2, 3)
    _, (reshaped, shape, flipped) = plain(vm["invoke"]("main", x, np.array([3, 1, 2])))
    np.testing.assert_array_equal(reshaped, x.reshape(3, 1, 2))
    np.testing.assert_array_equal(flipped, -x.reshape(3, 1, 2))
    assert shape.tolist() == [2, 3]
    for wrong, message in (
        (
            [4],
            r"of input 'x' \(float32\[2,3\]\), input 's' \(int64\[1\]\)\): shape \[2,3\] cannot become \[4\]",
        ),
        ([-6], r"shape\[0\] is -6, expected at least 0"),
        ([1] * 65, "expected a shape of at most 64 dimensions"),
    ):
        with pytest.raises((mblob.MblobError, ValueError), match=message):
            vm["invoke"]("main", x, np.array(wrong))
    big = np.zeros((9, 8), "float32")
    with pytest.raises(
        ValueError, match="a tensor of 288 bytes at 0 is outside of its storage of 256 bytes"
    ):
        vm["invoke"]("main", big, np.array([72]))
    np.testing.assert_array_equal(plain(vm["invoke"]("main", x, np.array([6])))[1][0], x.ravel())


def test_a_primitive_with_an_empty_output_is_not_called(machine: Any) -> None:
    vm = machine(vm_programs.shapes())
    _, (_, _, flipped) = plain(vm["invoke"]("main", np.zeros((0, 3), "float32"), np.array([3, 0])))
    assert flipped.shape == (3, 0)


def test_limits_end_what_does_not_end_and_the_machine_goes_on(machine: Any) -> None:
    vm = machine(vm_programs.endless())
    vm["set_limits"](10_000, 0)
    with pytest.raises(mblob.KernelError, match="the limit of 10000 instructions is reached"):
        vm["invoke"]("main")
    vm["set_limits"](0, 0)
    with pytest.raises(MemoryError, match="more than 1048576 calls inside each other"):
        vm["invoke"]("deep")
    with pytest.raises(mblob.KernelError, match=r"function 'fatal', instruction 0 \(Fatal\)"):
        vm["invoke"]("fatal")
    with pytest.raises(ValueError, match="there is no output"):
        vm["get_output"](0)
    with pytest.raises(ValueError, match="the result is nothing"):
        vm["invoke"]("empty")
    assert vm["invoke"]("constant").numpy()[5] == 5


@pytest.mark.own_process
def test_sigint_ends_what_does_not_end(machine: Any) -> None:
    vm = machine(vm_programs.endless())
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        vm["invoke"]("main")
    assert vm["invoke"]("constant").numpy()[5] == 5


def test_storage_over_the_limit_is_refused(machine: Any) -> None:
    vm = machine(vm_programs.arithmetic())
    vm["set_limits"](0, 100)
    with pytest.raises(MemoryError, match="over the limit of 100"):
        vm["invoke"]("main", X, Y)
    vm["set_limits"](0, 0)
    vm["invoke"]("main", X, Y)


def test_a_constant_that_is_returned_is_the_callers_to_write(machine: Any) -> None:
    vm = machine(vm_programs.endless())
    result = vm["invoke"]("constant").numpy()
    result[:] = -1
    shared = vm["invoke"]("shared")["get_field"](0).numpy()
    assert shared[31] == 31
    shared[:] = -1
    assert vm["invoke"]("constant").numpy()[31] == 31


def test_outputs_stay_while_the_machine_runs_on(machine: Any) -> None:
    vm = machine(vm_programs.arithmetic())
    first = vm["invoke"]("main", X, Y)
    second = vm["invoke"]("main", 3 * X, Y)
    np.testing.assert_array_equal(first.numpy(), (X + W) * Y)
    np.testing.assert_array_equal(second.numpy(), (3 * X + W) * Y)


def test_an_error_of_a_primitive_is_told_and_the_machine_goes_on(machine: Any) -> None:
    vm = machine(vm_programs.arithmetic())
    expected = (
        r"function 'main', instruction \d+ \(InvokePacked 'vm_mul' of input 'y' \(float32\[4\]\)\): "
        r"vm_mul: negative\nsecond line"
    )
    with pytest.raises(mblob.KernelError, match=expected):
        vm["invoke"]("main", X, -Y)
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)


def test_one_call_at_a_time(load: Any) -> None:
    """A primitive that calls the machine that calls it, and another thread."""
    errors: list[str] = []
    vm: Any = None

    def again(x: Any) -> None:
        for work in (lambda: vm["invoke"]("main", X), lambda: thread_call()):
            try:
                work()
            except ValueError as error:
                errors.append(str(error))

    def thread_call() -> None:
        caught: list[Exception] = []

        def work() -> None:
            try:
                vm["get_output"](0)
            except ValueError as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise caught[0]

    program = Program(
        {"main": Function(["x"], 1, [("InvokePacked", 0, 1, 0, 0), ("Ret", 0)])}, (), ["again"]
    )
    make = mblob.get_global_func("runtime.Load_Executable")
    executable = make(program.code(), mblob.Module("made_here", functions={"again": again}))
    vm = executable["vm_load_executable"]()
    vm["invoke"]("main", X)
    assert len(errors) == 2
    assert all("the machine is in another call" in e for e in errors)
