"""`mblob.vm`: programs of the Relay virtual machine in the shape of tvm.runtime.vm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import Function, Program

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")
CPU = mblob.cpu(0)


@pytest.fixture
def load(primitives: Path) -> Any:
    """`load(program)`: its executable."""
    return lambda program: mblob.vm.Executable.load_exec(
        program.code(), mblob.load_module(primitives)
    )


def test_a_program_of_tvm(golden: Path) -> None:
    known = np.load(golden / "mlp_llvm.npz")
    machine = mblob.vm.VirtualMachine(mblob.load_module(golden / "vm_mlp.so"), CPU)
    np.testing.assert_allclose(machine.run(known["data"]).numpy(), known["out"], rtol=1e-5)
    machine.invoke_stateful("main", data=known["data"])
    np.testing.assert_allclose(machine.get_outputs()[0].numpy(), known["out"], rtol=1e-5)


def test_inputs_by_position_and_by_name(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU, "naive")
    expected = (X + W) * Y
    for result in (
        machine.run(X, Y),
        machine.run(x=X, y=Y),
        machine.run(X, y=Y),
        machine.run(Y, x=X, other=3),
        machine.invoke("main", mblob.array(X), Y),
    ):
        np.testing.assert_array_equal(result.numpy(), expected)
    machine.set_one_input("main", "x", 2 * X)
    machine.set_one_input("main", y=Y)
    np.testing.assert_array_equal(machine.run().numpy(), (2 * X + W) * Y)
    assert (machine.get_input_index("y"), machine.get_input_index("z")) == (1, -1)
    for wrong, of in (
        ({"y": Y}, r"\(x\), found 0"),
        ({"x": X, "z": Y}, r"\(y\), found 0; it has no parameter 'z'"),
    ):
        with pytest.raises(TypeError, match=rf"main\(x, y\): expected 1 more argument {of}$"):
            machine.run(**wrong)
    with pytest.raises(ValueError, match="function 'main': expected 2 arguments, found 1"):
        machine.run(X)
    with pytest.raises(TypeError, match="expected one name or index and one array"):
        machine.set_one_input("main", "x")


def test_outputs_into_given_arrays(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), [CPU], {CPU: "pooled"})
    out = mblob.empty((4,), "float32")
    machine.set_outputs("main", out)
    machine.run(X, Y)
    np.testing.assert_array_equal(out.numpy(), (X + W) * Y)
    machine.run(3 * X, Y)  # into its own again
    np.testing.assert_array_equal(out.numpy(), (X + W) * Y)
    machine.set_outputs("main", mblob.empty((5,), "float32"))
    with pytest.raises(ValueError, match=r"output: expected shape \[4\], found \[5\]"):
        machine.run(X, Y)


def test_tuples_come_back_as_sequences(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.choice()), CPU)
    result = machine.run(-3, X)
    assert (result.tag, len(result), repr(result)) == (3, 2, "<mblob.vm.ADT tag 3, 2 fields>")
    number, (x, five) = result
    assert (int(number.numpy()), number.dtype, five.numpy().tolist()) == (-3, "int32", [5])
    np.testing.assert_array_equal(x.numpy(), X)
    np.testing.assert_array_equal(result[-1][0].numpy(), X)
    assert len(result[0:2]) == 2
    with pytest.raises(IndexError, match="no field 2; there are 2"):
        result[2]
    np.testing.assert_array_equal(machine.run(7, X).numpy(), X)
    assert len(machine.get_outputs()) == 1


def test_tuples_and_numbers_go_in(load: Any) -> None:
    code: list[tuple[Any, ...]] = [("GetField", 0, 1, 1), ("GetField", 1, 0, 2), ("Ret", 2)]
    machine = mblob.vm.VirtualMachine(load(Program({"main": Function(["t"], 3, code)})), CPU)
    for value, dtype in (
        (True, "bool"),
        (3, "int32"),
        (2.5, "float32"),
        (np.int16(7), "int16"),
        (np.array(9), "int64"),
    ):
        result = machine.run((X, [value]))
        assert (result.dtype, result.numpy()) == (dtype, value)
    again = machine.run((X, mblob.vm.VirtualMachine(load(vm_programs.choice()), CPU).run(1, X)))
    assert again.numpy() == 1


@pytest.mark.slow
def test_a_long_list_is_walked_without_recursion(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.calls()), CPU)
    rest, count = machine.run(np.array(20_000)), 0
    while len(rest):
        _, rest = rest
        count += 1
    assert count == 20_000


def test_what_an_executable_tells_of_itself(load: Any) -> None:
    executable = load(vm_programs.arithmetic())
    assert executable.globals == ["main"]
    assert executable.primitive_ops == ["vm_add", "vm_mul"]
    assert executable.get_function_params("main") == ["x", "y"]
    assert "Primitive ops (#2): [vm_add, vm_mul]" in executable.stats
    assert (
        executable.primitives
        and executable.constants
        and executable.virtual_devices
        and executable.bytecode
    )
    code, lib = executable.save()
    again = mblob.vm.Executable.load_exec(code, lib)
    np.testing.assert_array_equal(
        mblob.vm.VirtualMachine(again, CPU).run(X, Y).numpy(), (X + W) * Y
    )


def test_limits(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.endless()), CPU)
    machine.set_limits(instructions=100)
    with pytest.raises(mblob.KernelError, match="the limit of 100 instructions"):
        machine.run()


def test_wrong_uses_are_told(load: Any, primitives: Path) -> None:
    with pytest.raises(
        TypeError, match="expected a module of the key 'VMExecutable', found 'library'"
    ):
        mblob.vm.VirtualMachine(mblob.load_module(primitives), CPU)
    with pytest.raises(ValueError, match="memory_cfg: expected one of naive, pooled, found 'best'"):
        mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU, "best")


def test_inputs_of_one_call_are_not_those_of_the_next(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU)
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), (X + W) * Y)
    for call in (
        machine.run,
        lambda: machine.invoke_stateful("main"),
        lambda: machine.module["invoke"]("main"),
    ):
        with pytest.raises(ValueError, match="input 'x' of function 'main' has not been set"):
            call()
    machine.set_input("main", x=2 * X, y=Y)
    machine.run(5 * X, Y)
    np.testing.assert_array_equal(machine.run().numpy(), (2 * X + W) * Y)  # what was set stays
    with pytest.raises(TypeError, match="main: y: argument 2: expected a tensor, found a string"):
        machine.module["set_input"]("main", X, "y")
    np.testing.assert_array_equal(machine.run().numpy(), (2 * X + W) * Y)  # all or none


def test_a_device_that_is_not_here_is_refused_with_what_the_program_needs(load: Any) -> None:
    executable = load(vm_programs.arithmetic())
    for devices in (mblob.cuda(0), [CPU, mblob.opencl(1)]):
        name = "cuda:0" if devices == mblob.cuda(0) else "opencl:1"
        text = rf"device {name} .*: virtual machines run on the cpu only; the program needs: cpu:0$"
        with pytest.raises(mblob.IncompatibleError, match=text):
            mblob.vm.VirtualMachine(executable, devices)


@pytest.mark.parametrize("value", [1e300, -1e39, 2**31, -(2**31) - 1, [X, 1e300]])
def test_a_number_that_its_type_cannot_hold_is_named(load: Any, value: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU)
    with pytest.raises(OverflowError, match=r"main: input 'y': .* is outside of (float32|int32)"):
        machine.run(X, y=value)
    with pytest.raises(OverflowError, match="main: input 1: "):
        machine.run(X, value)
    with pytest.raises(OverflowError, match="main: input 'y': "):
        machine.set_one_input("main", "y", value)


def test_infinity_is_a_number(load: Any) -> None:
    code: list[tuple[Any, ...]] = [("Ret", 0)]
    machine = mblob.vm.VirtualMachine(load(Program({"main": Function(["x"], 1, code)})), CPU)
    assert machine.run(float("inf")).numpy() == np.inf
    assert machine.run(-(2**31)).numpy() == -(2**31)


def test_the_time_of_each_instruction(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.calls()), CPU)
    rows = machine.profile(np.array(3), repeat=2)
    assert all(row.seconds > 0 for row in rows)
    counts = {(row.function, row.instruction): row.count for row in rows}
    assert counts["main", 0] == 2  # once per run
    assert counts["count", 1] == 8  # n = 3, 2, 1, 0
    kernels = [(row.opcode, row.kernel, row.count) for row in rows if row.kernel]
    assert kernels == [("InvokePacked", "vm_add_int", 6)]
    assert [row.opcode for row in rows if row.function == "main"] == ["AllocADT", "Invoke", "Ret"]
    assert len(machine.get_outputs()) == 2
    assert machine.profile() != []  # the inputs stay
    with pytest.raises(ValueError, match="repeat 0, expected at least 1"):
        machine.profile(repeat=0)
    with pytest.raises(ValueError, match="no function 'none'; there are 2: main, count"):
        machine.profile(func_name="none")


def test_what_fails_while_it_is_timed_is_told_and_the_machine_goes_on(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU)
    with pytest.raises(mblob.KernelError, match="vm_mul: negative"):
        machine.profile(X, -Y)
    np.testing.assert_array_equal(machine.run(X, Y).numpy(), (X + W) * Y)


def test_a_benchmark_calls_as_often_as_it_says(load: Any) -> None:
    calls = []

    def again(x: Any) -> None:
        calls.append(x.shape)

    program = Program(
        {"main": Function(["x"], 1, [("InvokePacked", 0, 1, 0, 0), ("Ret", 0)])}, (), ["again"]
    )
    make = mblob.get_global_func("runtime.Load_Executable")
    executable = make(program.code(), mblob.Module("made_here", functions={"again": again}))
    machine = mblob.vm.VirtualMachine(executable, CPU)
    result = machine.benchmark(CPU, X, repeat=3, number=4, end_to_end=True)
    assert len(result.results) == 3
    assert len(calls) == 13  # one before, which is not measured
    machine.benchmark(CPU, x=X, repeat=1, number=1)
    machine.benchmark(repeat=1, number=1)
    assert len(calls) == 17
    with pytest.raises(ValueError, match="benchmark: repeat: expected 1 to"):
        machine.benchmark(repeat=0)


def test_an_input_that_only_a_kernel_refuses_names_instruction_kernel_and_argument(
    golden: Path,
) -> None:
    """Programs do not record what main takes: what reshapes to the kernel's shape is right, and
    runs."""
    known = np.load(golden / "mlp_llvm.npz")
    machine = mblob.vm.VirtualMachine(mblob.load_module(golden / "vm_mlp.so"), CPU)
    flat = machine.run(known["data"].reshape(1, 8, 8))
    np.testing.assert_allclose(flat.numpy(), known["out"], rtol=1e-5)
    where = (
        r"function 'main', instruction 10 \(InvokePacked 'vm_mod_fused_nn_contrib_dense_pack_add_nn_relu' "
        r"of input 'data' \(float64\[1,64\]\)\): "
    )
    with pytest.raises(mblob.KernelError, match=where + r".*p0\.dtype is expected to be float32"):
        machine.run(known["data"].astype("float64"))
    where = r"instruction 1 \(ReshapeTensor of input 'data' \(float32\[1,1,8,9\]\)\): "
    with pytest.raises(ValueError, match=where + r"shape \[1,1,8,9\] cannot become \[1,64\]$"):
        machine.run(np.zeros((1, 1, 8, 9), "float32"))


def test_late_constants_from_arrays(load: Any) -> None:
    program = vm_programs.arithmetic()
    program.constants = [vm_programs.Late("w"), *program.constants[1:2], vm_programs.Late("zero")]
    executable = load(program)
    bind = executable.mod["load_late_bound_consts_from_map"]
    with pytest.raises(mblob.FormatError, match="there is no constant 'zero'"):
        executable.load_late_bound_consts_from_map({"w": W})
    with pytest.raises(ValueError, match="constant 'w' is kept in a file of its own"):
        mblob.vm.VirtualMachine(executable, CPU).run(X, Y)  # none was bound
    for wrong, text in (
        (("w", W, "zero"), "pairs of a name and a tensor; found 3 arguments"),
        ((W, "w"), "argument 0: expected a string"),
        (("w", "x"), "argument 1: expected a tensor"),
        ((b"abc",), "no dictionary of parameters"),
        ((mblob.save_param_dict({"w": W})[:-1],), "needs 16 bytes, 15 are left"),
    ):
        with pytest.raises((mblob.MblobError, TypeError, ValueError), match=text):
            bind(*wrong)
    given = W.copy()
    executable.load_late_bound_consts_from_map({"other": X, "w": given, "zero": np.int64(0)})
    given[:] = -1  # they are copied
    np.testing.assert_array_equal(
        mblob.vm.VirtualMachine(executable, CPU).run(X, Y).numpy(), (X + W) * Y
    )
    again = load(program)
    again.mod["load_late_bound_consts_from_map"](
        mblob.save_param_dict({"w": W, "zero": np.int64(0)})
    )
    np.testing.assert_array_equal(
        mblob.vm.VirtualMachine(again, CPU).run(X, Y).numpy(), (X + W) * Y
    )
