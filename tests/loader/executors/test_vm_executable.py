"""The key VMExecutable: opening, constants, devices, what a program tells of itself."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors import vm_programs
from tests.loader.executors.vm_programs import Function, Late, Program, plain

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")


def test_what_an_executable_tells_of_itself(load: Any) -> None:
    executable = load(vm_programs.arithmetic())
    assert executable.type_key == "VMExecutable"
    assert executable["get_function_arity"]("main") == 2
    assert [executable["get_function_param_name"]("main", i) for i in range(2)] == ["x", "y"]
    assert executable["get_function_names"]() == "main"
    assert executable["get_primitive_names"]() == "vm_add\nvm_mul"
    assert "InvokePacked vm_add 1 ($0, $2, $6)" in executable["get_bytecode"]()
    assert "AllocTensor $4 $5 float32 -> $6 [4]" in executable["get_bytecode"]()
    assert executable["get_constants"]().splitlines()[0] == "VM Const[0]: float32[4]"
    assert executable["get_virtual_devices"]() == "VM VirtualDevice[0]: device type 1, id 0\n"
    assert executable["get_primitives"]().splitlines() == [
        "VM PackedFunc[0]: vm_add",
        "VM PackedFunc[1]: vm_mul",
    ]
    assert executable["save"]() == vm_programs.arithmetic().code()
    assert executable["get_lib"]().type_key == "library"
    for ask in (
        lambda: executable["get_function_arity"]("none"),
        lambda: executable["vm_load_executable"]()["invoke"]("none"),
    ):
        with pytest.raises(ValueError, match="no function 'none'; there are 1: main"):
            ask()
    with pytest.raises(ValueError, match="has no parameter 2"):
        executable["get_function_param_name"]("main", 2)


def test_constants_of_a_file_of_their_own(load: Any, tmp_path: Path) -> None:
    program = vm_programs.arithmetic()
    program.constants = [Late("w"), *program.constants[1:]]
    executable = load(program)
    vm = executable["vm_load_executable"]()
    for _ in range(2):
        with pytest.raises(
            ValueError,
            match="constant 'w' is kept in a file of its own: call load_late_bound_consts",
        ):
            vm["invoke"]("main", X, Y)
    path = tmp_path / "consts"
    path.write_bytes(b"nothing")
    with pytest.raises(mblob.FormatError, match="consts: it is no dictionary of parameters"):
        executable["load_late_bound_consts"](str(path))
    path.write_bytes(mblob.save_param_dict({"v": W}))
    with pytest.raises(mblob.FormatError, match="consts: there is no constant 'w'"):
        executable["load_late_bound_consts"](str(path))
    with pytest.raises(OSError, match="missing"):
        executable["load_late_bound_consts"](str(tmp_path / "missing"))
    path.write_bytes(mblob.save_param_dict({"v": X, "w": W}))
    executable["load_late_bound_consts"](str(path))
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)
    other = load(program)["vm_load_executable"]()
    other["load_late_bound_consts"](str(path))
    path.unlink()
    np.testing.assert_array_equal(other["invoke"]("main", X, Y).numpy(), (X + W) * Y)
    vm = executable["vm_load_executable"]()
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)


def test_a_missing_primitive_is_named(load: Any) -> None:
    program = Program(
        {"main": Function([], 1, [("LoadConsti", 0, 0), ("Ret", 0)])}, (), ["vm_none"]
    )
    with pytest.raises(mblob.MblobError, match="no primitive function 'vm_none'"):
        load(program)["vm_load_executable"]()


def test_a_program_for_another_device_is_refused(machine: Any) -> None:
    program = vm_programs.arithmetic()
    program.devices = (1, 2)
    with pytest.raises(
        mblob.IncompatibleError, match=r"device cuda:0 \(type 2\).* needs: cpu:0, cuda:0"
    ):
        machine(program)


@pytest.mark.parametrize("arguments", [(), (1, 0), (2, 0, 2), (1, 0, 3)])
def test_wrong_devices_are_refused(machine: Any, arguments: tuple[int, ...]) -> None:
    vm = machine(vm_programs.arithmetic())
    with pytest.raises((ValueError, mblob.IncompatibleError), match="init: "):
        vm["init"](*arguments)


def test_the_library_stays_as_long_as_results_and_closes_then(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
    mapped: Any,
) -> None:
    program = vm_programs.choice()
    blob = packed_blob([("VMExecutable", program.payload()), ("library", None)], [[1], []])
    path = build(tmp_path / "held.so", kernel_source + vm_programs.PRIMITIVES, blob=blob)
    vm = mblob.load_module(path)["vm_load_executable"]()
    result = vm["invoke"]("main", np.array(3), X)
    del vm
    gc.collect()
    assert mapped(path)
    np.testing.assert_array_equal(plain(result)[1][1][1][0], X)
    del result
    gc.collect()
    assert not mapped(path)


def test_a_payload_in_a_library_runs(
    build: Callable[..., Path],
    packed_blob: Callable[..., bytes],
    kernel_source: str,
    tmp_path: Path,
) -> None:
    blob = packed_blob(
        [("VMExecutable", vm_programs.arithmetic().payload()), ("library", None)], [[1], []]
    )
    mod = mblob.load_module(
        build(tmp_path / "vm.so", kernel_source + vm_programs.PRIMITIVES, blob=blob)
    )
    assert mod.type_key == "VMExecutable"
    vm = mod["vm_load_executable"]()
    del mod
    result = vm["invoke"]("main", X, Y)
    del vm
    np.testing.assert_array_equal(result.numpy(), (X + W) * Y)
