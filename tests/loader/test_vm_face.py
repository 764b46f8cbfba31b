"""`mblob.vm`: programs of the Relay virtual machine in the shape of tvm.runtime.vm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import vm_programs
from tests.loader.vm_programs import Function, Program

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")
CPU = mblob.cpu(0)


@pytest.fixture
def load(primitives: Path) -> Any:
    """`load(program)`: its executable."""
    return lambda program: mblob.vm.Executable.load_exec(program.code(), mblob.load_module(primitives))


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
    for wrong in ({"y": Y}, {"x": X, "z": Y}):
        with pytest.raises(TypeError, match=r"main\(x, y\): 0 arguments for"):
            machine.run(**wrong)
    with pytest.raises(ValueError, match="function 'main' takes 2 arguments, found 1"):
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
    with pytest.raises(ValueError, match=r"output: expected shape \[5\], found \[4\]"):
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
    assert executable.primitives and executable.constants and executable.virtual_devices and executable.bytecode
    code, lib = executable.save()
    again = mblob.vm.Executable.load_exec(code, lib)
    np.testing.assert_array_equal(mblob.vm.VirtualMachine(again, CPU).run(X, Y).numpy(), (X + W) * Y)


def test_limits(load: Any) -> None:
    machine = mblob.vm.VirtualMachine(load(vm_programs.endless()), CPU)
    machine.set_limits(instructions=100)
    with pytest.raises(mblob.KernelError, match="the limit of 100 instructions"):
        machine.run()


def test_wrong_uses_are_told(load: Any, primitives: Path) -> None:
    with pytest.raises(TypeError, match="expected a module of the key 'VMExecutable', found 'library'"):
        mblob.vm.VirtualMachine(mblob.load_module(primitives), CPU)
    with pytest.raises(ValueError, match="expected 'naive' or 'pooled', found 'best'"):
        mblob.vm.VirtualMachine(load(vm_programs.arithmetic()), CPU, "best")
