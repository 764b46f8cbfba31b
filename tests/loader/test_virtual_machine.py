"""Programs of the Relay virtual machine: the key VMExecutable."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader import payloads, vm_programs
from tests.loader.vm_programs import F32, Function, Late, Program

X, Y, W = np.ones(4, "float32"), np.array([1, 2, 3, 4], "float32"), np.arange(4, dtype="float32")


@pytest.fixture
def load(primitives: Path) -> Callable[..., mblob.Module]:
    """`load(program or code)`: its executable."""

    def make(program: Program | bytes, version: str = "0.14.0") -> mblob.Module:
        code = program if isinstance(program, bytes) else program.code(version)
        executable = mblob.get_global_func("runtime.Load_Executable")(code, mblob.load_module(primitives))
        assert isinstance(executable, mblob.Module)
        return executable

    return make


@pytest.fixture
def machine(load: Callable[..., mblob.Module]) -> Callable[..., Any]:
    def make(program: Program | bytes, version: str = "0.14.0") -> Any:
        vm = load(program, version)["vm_load_executable"]()
        vm["init"](1, 0, 2)
        return vm

    return make


def plain(value: Any) -> Any:
    """A result of the machine as numpy arrays in (tag, fields)."""
    if isinstance(value, mblob.Module):
        return value["get_tag"](), [plain(value["get_field"](i)) for i in range(value["get_size"]())]
    return value.numpy()


def test_a_program_of_tvm_gives_tvms_numbers(golden: Path) -> None:
    known = np.load(golden / "mlp_llvm.npz")
    vm = mblob.load_module(golden / "vm_mlp.so")["vm_load_executable"]()
    vm["init"](1, 0, 2)
    for _ in range(3):
        vm["set_input"]("main", known["data"])
        np.testing.assert_allclose(vm["invoke"]("main").numpy(), known["out"], rtol=1e-5)


@pytest.mark.parametrize("version", [*vm_programs.RELEASES, "0.9.dev12+g1234", "0.15.dev0"])
def test_bytecode_of_each_release_runs(machine: Any, version: str) -> None:
    vm = machine(vm_programs.arithmetic(), version)
    for x in (X, 2 * X):
        np.testing.assert_array_equal(vm["invoke"]("main", x, Y).numpy(), (x + W) * Y)


@pytest.mark.parametrize("layout", vm_programs.RELEASES)
def test_the_form_of_the_bytecode_counts_not_the_version(load: Any, layout: str) -> None:
    """Builds between releases carry the next version and the form of the last."""
    executable = load(vm_programs.arithmetic().code("0.11.dev0", layout))
    form = {"0.7.0": "0.7", "0.8.0": "0.8", "0.9.0": "0.9", "0.13.0": "0.9"}.get(layout, "0.14")
    assert f"Written by TVM 0.11.dev0, bytecode of {form}\n" in executable["get_stats"]()
    vm = executable["vm_load_executable"]()
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)


def test_a_payload_in_a_library_runs(
    build: Callable[..., Path], packed_blob: Callable[..., bytes], kernel_source: str, tmp_path: Path
) -> None:
    blob = packed_blob([("VMExecutable", vm_programs.arithmetic().payload()), ("library", None)], [[1], []])
    mod = mblob.load_module(build(tmp_path / "vm.so", kernel_source + vm_programs.PRIMITIVES, blob=blob))
    assert mod.type_key == "VMExecutable"
    vm = mod["vm_load_executable"]()
    del mod
    result = vm["invoke"]("main", X, Y)
    del vm
    np.testing.assert_array_equal(result.numpy(), (X + W) * Y)


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
    np.testing.assert_array_equal(vm["invoke_return_to_device"]("main", 1, 0, 2 * X, Y).numpy(), (2 * X + W) * Y)
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
    with pytest.raises(mblob.FormatError, match=r"instruction 1 \(If\): register 0 has float32 of shape \[\]"):
        vm["invoke"]("main", np.array(1, "float32"))


def test_tuples_go_in_too(machine: Any) -> None:
    vm = machine(Program({"main": Function(["t"], 3, [("GetField", 0, 1, 1), ("GetField", 1, 0, 2), ("Ret", 2)])}))
    pair, adt = mblob.get_global_func("runtime.Tuple"), mblob.get_global_func("runtime.ADT")
    np.testing.assert_array_equal(vm["invoke"]("main", pair(X, adt(4, Y))).numpy(), Y)
    with pytest.raises(mblob.FormatError, match="has a tuple of 1 fields, no field 1"):
        vm["invoke"]("main", pair(X))
    with pytest.raises(mblob.FormatError, match="has an array, expected a tuple"):
        vm["invoke"]("main", X)


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
        ([4], r"instruction 0 \(ReshapeTensor\): shape \[2,3\] cannot become \[4\]"),
        ([-6], "dimension 0 is -6"),
        ([1] * 65, "expected a shape of at most 64 dimensions"),
    ):
        with pytest.raises((mblob.MblobError, ValueError), match=message):
            vm["invoke"]("main", x, np.array(wrong))
    big = np.zeros((9, 8), "float32")
    with pytest.raises(mblob.FormatError, match="a tensor of 288 bytes at 0 is outside of its storage of 256 bytes"):
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
    expected = r"function 'main', instruction \d+ \(InvokePacked 'vm_mul'\): vm_mul: negative\nsecond line"
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

    program = Program({"main": Function(["x"], 1, [("InvokePacked", 0, 1, 0, 0), ("Ret", 0)])}, (), ["again"])
    make = mblob.get_global_func("runtime.Load_Executable")
    executable = make(program.code(), mblob.Module("made_here", functions={"again": again}))
    vm = executable["vm_load_executable"]()
    vm["invoke"]("main", X)
    assert len(errors) == 2
    assert all("the machine is in another call" in e for e in errors)


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
    assert executable["get_primitives"]().splitlines() == ["VM PackedFunc[0]: vm_add", "VM PackedFunc[1]: vm_mul"]
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
    with pytest.raises(ValueError, match="constant 'w' is kept in a file of its own"):
        executable["vm_load_executable"]()
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
    path.unlink()
    vm = executable["vm_load_executable"]()
    np.testing.assert_array_equal(vm["invoke"]("main", X, Y).numpy(), (X + W) * Y)


def test_a_missing_primitive_is_named(load: Any) -> None:
    program = Program({"main": Function([], 1, [("LoadConsti", 0, 0), ("Ret", 0)])}, (), ["vm_none"])
    with pytest.raises(mblob.MblobError, match="no primitive function 'vm_none'"):
        load(program)["vm_load_executable"]()


def test_a_program_for_another_device_is_refused(machine: Any) -> None:
    program = vm_programs.arithmetic()
    program.devices = (1, 2)
    with pytest.raises(mblob.IncompatibleError, match=r"device cuda\(0\) \(type 2\).* needs: cpu\(0\), cuda\(0\)"):
        machine(program)


@pytest.mark.parametrize("arguments", [(), (1, 0), (2, 0, 2), (1, 0, 3)])
def test_wrong_devices_are_refused(machine: Any, arguments: tuple[int, ...]) -> None:
    vm = machine(vm_programs.arithmetic())
    with pytest.raises((ValueError, mblob.IncompatibleError), match="init: "):
        vm["init"](*arguments)


RET: list[tuple[Any, ...]] = [("Ret", 0)]
LIES: list[tuple[str, Sequence[Any], str]] = [  # what, code of main() with 3 registers, error
    ("register", [("Move", 0, 3), *RET], "no such register"),
    ("negative register", [("Move", -1, 1), *RET], "no such register"),
    ("function", [("Invoke", 1, 0, 0), *RET], "no such function"),
    ("arguments", [("Invoke", 0, 1, 0, 0), *RET], "a wrong number of arguments"),
    ("captures", [("AllocClosure", 0, 1, 0, 0), *RET], "more captures than parameters"),
    ("primitive", [("InvokePacked", 0, 0, 0), *RET], "no such primitive"),
    ("constant", [("LoadConst", 1, 0), *RET], "no such constant"),
    ("jump out", [("Goto", 2), *RET], "a jump to outside"),
    ("jump before", [("Goto", -1), *RET], "a jump to outside"),
    ("jump to itself", [*RET, ("Goto", 0)], "or to itself"),
    ("jump far", [("If", 0, 0, 1, 2**62), *RET], "a jump to outside"),
    ("end", [("LoadConsti", 0, 0)], "does not end in Ret"),
    ("no code", [], "it has no instructions"),
    ("alignment", [("AllocStorage", 0, 48, *F32, 1), *RET], "an impossible alignment"),
    ("large alignment", [("AllocStorage", 0, 2**40, *F32, 1), *RET], "an impossible alignment"),
    ("dtype", [("AllocStorage", 0, 64, 2, 0, 1, 1), *RET], "an impossible data type"),
    ("dimension", [("AllocTensor", 0, 0, *F32, 1, 1, -4), *RET], "a negative dimension"),
    ("dimensions", [("AllocTensor", 0, 0, *F32, 65, 1, *[1] * 65), *RET], "too many dimensions"),
    ("count", [("AllocADT", 0, 2, 0, 0), *RET], "a wrong number of fields"),
    ("negative count", [("AllocADT", 0, -1, 0), *RET], "a wrong number of fields"),
    ("index", [("GetField", 0, -1, 0), *RET], "a negative index"),
    ("device", [("DeviceCopy", 0, 0, 1, 1), *RET], "no device of that index"),
]


@pytest.mark.parametrize(("code", "message"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_code_that_lies_is_refused_before_it_runs(load: Any, code: Sequence[Any], message: str) -> None:
    with pytest.raises(mblob.FormatError, match=message):
        load(Program({"main": Function([], 3, code)}, [np.int64(1)]))


def test_values_that_lie_are_errors_when_they_run(machine: Any) -> None:
    def run(*code: Any, registers: int = 4) -> None:
        functions = {"main": Function([], registers, code), "two": Function(["a", "b"], 2, RET)}
        vm = machine(Program(functions, [np.int64(-1), np.float32(1), np.int64(8), np.int64(2**61)], ["vm_add"]))
        with pytest.raises((mblob.FormatError, ValueError, MemoryError)) as caught:
            vm["invoke"]("main")
        assert "function 'main', instruction" in str(caught.value) or "out of memory" in str(caught.value)

    run(("GetTag", 0, 1), ("Ret", 1))
    run(("ShapeOf", 0, 1), ("Ret", 1))
    run(("InvokePacked", 0, 1, 1, 0), ("Ret", 0))
    run(("InvokeClosure", 0, 0, 1), ("Ret", 1))
    run(("AllocClosure", 1, 0, 0), ("InvokeClosure", 0, 0, 1), ("Ret", 1))
    run(("AllocClosure", 1, 0, 0), ("InvokePacked", 0, 1, 1, 0), ("Ret", 1))
    for size in (0, 1, 3):
        run(("LoadConst", size, 0), ("AllocStorage", 0, 64, *F32, 1), ("Ret", 1))
    storage = [("LoadConst", 2, 0), ("AllocStorage", 0, 64, *F32, 1)]
    run(*storage, ("AllocTensor", 1, 0, *F32, 1, 2, 1), ("Ret", 2))  # at 8: not aligned
    run(*storage, ("LoadConst", 0, 0), ("AllocTensor", 1, 0, *F32, 1, 2, 1), ("Ret", 2))
    run(*storage, ("LoadConsti", 0, 0), ("AllocTensor", 1, 0, *F32, 2, 2, 2**40, 2**40), ("Ret", 2))
    run(*storage, ("LoadConsti", 0, 0), ("AllocTensor", 1, 0, *F32, 1, 2, 2**40), ("Ret", 2))
    run(*storage, ("AllocTensor", 0, 1, *F32, 0, 2), ("Ret", 2))


def test_every_cut_and_many_changes_of_a_program_are_errors_or_programs(load: Any) -> None:
    rng = np.random.default_rng(3)
    values = [0, 1, 2, 7, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
    refused = 0
    for name, make in vm_programs.PROGRAMS.items():
        good = make().code()
        cuts = range(0, len(good), 7)
        for cut in cuts:
            with pytest.raises(mblob.FormatError):
                load(good[:cut])
        for _ in range(150):
            data = bytearray(good)
            at = int(rng.integers(len(data)))
            if rng.random() < 0.5:
                data[at] ^= 1 << int(rng.integers(8))
            else:
                data[at : at + 8] = int(rng.choice(np.array(values, "uint64"))).to_bytes(8, "little")
            try:
                load(bytes(data))
            except (mblob.FormatError, MemoryError):
                refused += 1
        assert refused, name


def test_a_wrong_header_is_told(load: Any) -> None:
    good = vm_programs.arithmetic().code()
    with pytest.raises(mblob.FormatError, match="does not start as a program"):
        load(b"\0" * 8 + good[8:])
    with pytest.raises(mblob.FormatError, match="bytes follow the last function"):
        load(good + b"\0")
    with pytest.raises(mblob.FormatError, match="its hash differs"):
        load(good[:-8] + payloads.u64(1))


def test_the_library_stays_as_long_as_results_and_closes_then(
    build: Callable[..., Path], packed_blob: Callable[..., bytes], kernel_source: str, tmp_path: Path, mapped: Any
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
