"""Programs of the Relax virtual machine that are damaged or lie, and calls that are wrong."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.format.grammar import FFI_GRAMMARS
from mblob.inspect import relax_graph, relax_summary
from mblob.inspect.relax_program import PROVIDED
from mblob.inspect.tensors import relax_program
from mblob.packager.modules import relax_payload
from tests.loader.executors import relax_programs
from tests.loader.executors.relax_programs import (
    CODE,
    COMPILED,
    COPY,
    PACKED,
    TAGS,
    VM,
    VOID,
    Function,
    Program,
    branch,
    c,
    call,
    f,
    goto,
    i,
    r,
    ret,
)

pytestmark = pytest.mark.own_process
ROOT = Path(__file__).parents[3]
COPIED = "vm.builtin.copy"


def open_program(program: Program | bytes) -> mblob.Module:
    """Its executable. `verify` says the same of it: both read it, or both refuse it in the same words."""
    code = program if isinstance(program, bytes) else program.payload()
    try:
        executable = mblob.get_global_func("mblob.RelaxExecutable")(code)
    except mblob.FormatError as error:
        with pytest.raises(mblob.FormatError) as told:
            relax_program(memoryview(code), FFI_GRAMMARS)
        assert (told.value.code, told.value.offset) == (error.code, error.offset)
        assert str(told.value) in str(error)
        raise
    relax_program(memoryview(code), FFI_GRAMMARS)
    assert isinstance(executable, mblob.Module)
    return executable


def machine(program: Program) -> mblob.relax.VirtualMachine:
    return mblob.relax.VirtualMachine(open_program(program), mblob.cpu(0))


def main(*code: list[int], **said: Any) -> Program:
    """A program of the builtin copy, number 0, and main(x) of that code, with 4 registers."""
    constants = said.pop("constants", ())
    function = Function("main", list(code), **{"params": ["x"], "registers": 4, **said})
    return Program([Function(COPIED), function], constants)


LIES: list[tuple[str, Program, str]] = [
    ("opcode", main([7, 0], ret(0)), "an opcode is not known"),
    ("short call", main([1, 0, 0], ret(0)), "cut off"),
    ("operands", main([1, 0, 0, 5, 0], ret(0)), "more operands than words"),
    ("negative count", main([1, 0, 0, -1], ret(0)), "more operands than words"),
    ("function", main(call(2), ret(0)), "a function that is not there"),
    ("negative function", main(call(-1), ret(0)), "a function that is not there"),
    ("register", main(call(0, [r(4)]), ret(0)), "a register that the function does not have"),
    ("result", main(call(0, [r(0)], 4), ret(0)), "a register that the function does not have"),
    ("negative result", main(call(0, [r(0)], -1), ret(0)), "does not have"),
    ("ret", main(ret(4)), "a register that the function does not have"),
    ("ret of the machine", main(ret(VM)), "a register that the function does not have"),
    ("constant", main(call(0, [c(0)]), ret(0)), "a constant that is not there"),
    ("function operand", main(call(0, [f(2)]), ret(0)), "a function that is not there"),
    ("operand", main(call(0, [9 << 56]), ret(0)), "an operand of a kind that is not known"),
    ("jump out", main(goto(2), ret(0)), "a jump out of the function"),
    ("jump before", main(goto(-1), ret(0)), "a jump out of the function"),
    ("jump far", main(goto(2**62), ret(0)), "a jump out of the function"),
    ("if back", main(branch(0, 1), ret(0)), "whose other way is not ahead"),
    ("if out", main(branch(0, 2), ret(0)), "a jump out of the function"),
    ("end", main(call(0, [r(0)], 1)), "does not end with Ret or Goto"),
    ("no code", main(), "does not end with Ret or Goto"),
    ("place", main(ret(0), place=(0, 2)), "behind the last one"),
    ("place backwards", main(ret(0), place=(1, 0)), "ends before it starts"),
    ("registers", main(ret(0), registers=1 << 40), "impossible number of registers"),
    ("negative registers", main(ret(0), registers=-1), "impossible number of registers"),
    ("arguments", main(ret(0), registers=0), "more arguments than registers"),
    ("names", main(ret(0), num_args=2), "names for more or fewer arguments"),
    ("negative arguments", main(ret(0), num_args=-1), "a negative number of arguments"),
    ("kind", main(ret(0), kind=3), "a kind that is not known"),
    ("compiled", main(ret(0), kind=COMPILED, registers=1), "no register for its result"),
    ("packed code", main(ret(0), kind=PACKED, place=(0, 1)), "has a place in them"),
    ("magic", replace(main(ret(0)), magic=5), "does not start as a program"),
    ("version", replace(main(ret(0)), version="0.15"), "its version is not"),
    ("tail", replace(main(ret(0)), tail=b"x"), "bytes follow"),
    ("scope", replace(main(ret(0)), scopes={0: "global"}), "a memory scope is of a constant"),
    ("order", replace(main(ret(0), ret(0)), offsets=[2, 0]), "not in order"),
    ("overlap", replace(main(ret(0), ret(0)), offsets=[0, 1]), "cut off"),
    ("offset", replace(main(ret(0)), offsets=[-1]), "not in order"),
    ("far offset", replace(main(ret(0)), offsets=[2**62]), "not in order"),
    ("tag", main(ret(0), constants=[pack("<iq", 6, 1)]), "a kind that this dialect does not have"),
    ("shape", main(ret(0), constants=[pack("<iQ", 69, 2**60)]), "items of at least"),
    ("text", main(ret(0), constants=[pack("<iQ", 65, 2**60)]), "items of at least"),
    ("tensor", main(ret(0), constants=[pack("<i6Q", 70, *[0] * 6)]), "wrong magic"),
]


@pytest.mark.parametrize(
    ("program", "message"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES]
)
def test_a_program_that_lies_is_refused_before_it_runs(program: Program, message: str) -> None:
    with pytest.raises(mblob.FormatError, match=message):
        open_program(program)


def test_functions_do_not_share_instructions() -> None:
    program = main(ret(0))
    program.functions = [
        *program.functions,
        Function("other", [], ["x"], kind=CODE, place=(0, 1)),
    ]
    with pytest.raises(mblob.FormatError, match="functions share instructions"):
        open_program(program)


def test_each_cut_of_a_program_is_refused() -> None:
    code = relax_programs.sample().payload()
    for size in range(0, len(code), 7):
        with pytest.raises(mblob.FormatError):
            open_program(code[:size])


def test_the_garbage_collector_frees_programs_and_errors_in_circles() -> None:
    code = bytearray(relax_programs.sample().payload())
    for size in (*range(0, len(code), 16), len(code)):
        circle: list[Any] = []
        circle.append(circle)
        try:
            circle.append(relax_program(memoryview(code[:size]), FFI_GRAMMARS))
        except mblob.FormatError as error:
            circle.append(error)
    gc.collect()


@pytest.mark.parametrize(
    ("dialect", "magic"), [("ffi", 0x1E), ("ffi", 0x1D), ("0.21", 0x1D), ("classic", 0x1D)]
)
def test_the_sample_runs_in_each_dialect(dialect: str, magic: int) -> None:
    program = relax_programs.sample(dialect, relax_programs.MAGIC & ~0xFF | magic)
    executable = mblob.get_global_func("mblob.RelaxExecutable")(program.payload())
    vm = mblob.relax.VirtualMachine(executable, mblob.cpu(0))
    x = np.ones((2, 3), "float32")
    given, shape, text, large, half, seven, nothing, view = vm["main"](x)
    assert given.numpy().tolist() == x.tolist()
    assert (shape, text, large, half) == ((3, 2), "ErrorContext(fn=main) ", 1 << 60, 0.5)
    assert (type(shape), seven, nothing, view.shape) == (mblob.Shape, -7, None, (3, 2))
    assert vm["down"](0) == (6,)
    assert vm["down"](np.zeros((), "int32")) == (6,)
    assert vm["invoked"]("y") == ("y", ("y", "y", "global"))
    assert vm["bind"](1)(2) == (1, (2, 1, "global"))


@pytest.fixture
def vm() -> mblob.relax.VirtualMachine:
    return machine(relax_programs.sample())


def fails(kind: str, text: str) -> Any:
    return pytest.raises(mblob.KernelError, match=f"^{kind}: .*{text}")


def test_errors_name_function_instruction_and_builtin(vm: Any) -> None:
    with fails("TypeError", r"main, instruction 0 \(call vm.builtin.check_tensor_info\).*get None"):
        vm["main"](None)
    with fails("InternalError", r"Invoking function main expects 1 arguments \(x\), but 0"):
        vm["main"]()
    with fails("TypeError", r"down, instruction 0 \(call vm.builtin.read_if_cond\).*`None`"):
        vm["down"](None)
    with fails("ValueError", "a condition that is a tensor without elements"):
        vm["down"](np.zeros(0, "int32"))


def test_errors_are_of_the_classes_that_their_cause_has(vm: Any) -> None:
    """docs/errors.md; the kind is TVM's."""
    text = "ErrorContext(fn=main, loc=param[0], param=x) "
    match = [r(0), VOID, i(1), i(0), i(3), c(0)]
    functions = [
        Function("vm.builtin.check_tensor_info"),
        Function("vm.builtin.match_shape"),
        Function("main", [call(0, [r(0), i(1), c(1), c(0)]), call(1, match), ret(0)], ["x"]),
    ]
    vm = machine(Program(functions, [text, np.dtype("float32")]))
    x = np.ones(3, "float32")
    causes: list[tuple[Any, str, set[type[Exception]]]] = [
        (lambda: vm["main"](), "InternalError", {TypeError, ValueError, RuntimeError}),
        (lambda: vm.set_input("main"), "InternalError", {TypeError, ValueError, RuntimeError}),
        (lambda: vm["main"](None), "TypeError", {TypeError}),
        (lambda: vm["main"](x[None]), "ValueError", {ValueError}),
        (lambda: vm["main"](x.astype("int32")), "ValueError", {TypeError, ValueError}),
        (lambda: vm["main"](x[:2]), "RuntimeError", {ValueError, RuntimeError}),
        (lambda: vm.set_input("min", x), "ValueError", {KeyError, AttributeError, ValueError}),
    ]
    for cause, kind, classes in causes:
        with pytest.raises(mblob.KernelError) as error:
            cause()
        assert error.value.kind == kind
        every = (TypeError, ValueError, RuntimeError, KeyError, AttributeError)
        assert {one for one in every if isinstance(error.value, one)} == classes, error.value
    with pytest.raises(mblob.NotFoundError, match="it has: main; did you mean 'main'"):
        vm["mian"]


def test_exceptions_of_python_functions_pass_through_a_program_unchanged() -> None:
    class Late(Exception):
        pass

    late = Late("no such row")
    program = main(call(2, [r(0)], 1), ret(1))
    program.functions = [*program.functions, Function("tests.relax.raises")]

    def fail(_: Any) -> None:
        raise late

    mblob.register_func("tests.relax.raises", fail, override=True)
    vm = machine(program)
    vm.set_input("main", 1)
    for run in (lambda: vm["main"](1), lambda: vm.invoke_stateful("main")):
        with pytest.raises(Late) as found:
            run()
        assert found.value is late


@pytest.mark.parametrize(("code", "name"), [(10, "e4m3_float8"), (12, "e5m2_float8")])
def test_an_8_bit_float_passes_checks_under_either_name(code: int, name: str) -> None:
    dtype = pack("<iBBH", TAGS["ffi"][1], code, 8, 1)
    check = Function("main", [call(0, [r(0), i(1), c(0), c(1)]), ret(0)], ["x"])
    vm = machine(Program([Function("vm.builtin.check_tensor_info"), check], [dtype, "x"]))
    assert vm["main"](mblob.empty((2,), name)).shape == (2,)
    with fails("ValueError", "expect Tensor with dtype float8_.* but get uint8"):
        vm["main"](mblob.empty((2,), "uint8"))


def test_endless_recursion_is_an_error_and_the_limit_can_be_raised(vm: Any) -> None:
    for _ in range(2):
        with fails("RecursionError", "more than 10000 calls inside each other"):
            vm["deep"](1)
    vm.set_limits(calls=20000)
    with fails("RecursionError", "more than 20000 calls inside each other"):
        vm["deep"](1)
    vm.set_limits(instructions=500)
    with fails("RuntimeError", "the limit of 500 instructions is reached"):
        vm["deep"](1)
    vm.set_limits(memory=10)
    with pytest.raises(MemoryError, match="over the limit of 10"):
        vm["main"](np.ones((2, 3), "float32"))
    vm.set_limits()
    assert vm["main"](np.ones((2, 3), "float32"))[1] == (3, 2)


def test_a_machine_that_is_not_ready_says_so() -> None:
    vm = open_program(relax_programs.sample())["vm_load_executable"]()
    for name, arguments in (("main", ()), ("set_input", ("main",)), ("invoke_stateful", ("main",))):
        with fails("RuntimeError", "call vm_initialization first"):
            vm[name](*arguments)
    with fails("InternalError", "Unknown allocator type: 3"):
        vm["vm_initialization"](1, 0, 3)
    with fails("InternalError", "expected triples"):
        vm["vm_initialization"]()
    vm["vm_initialization"](1, 0, 2)
    vm["vm_initialization"](1, 0, 1)
    assert vm["down"](0) == (6,)


def test_a_function_without_parameters_needs_no_inputs() -> None:
    vm = machine(main(call(0, [i(7)], 1), ret(1), params=[]))
    vm.invoke_stateful("main")
    assert vm.get_outputs("main") == vm["main"]() == 7
    assert "copy" in str(vm.profile("main"))


def test_rows_of_a_profile_name_opcodes_as_rows_of_relay_do() -> None:
    code = (call(0, [i(1)], 1), branch(1, 2), goto(1), ret(1))
    rows = machine(main(*code, params=[])).profile("main")
    assert [row.opcode for row in rows] == ["Call", "If", "Goto"]  # Ret takes no time


def test_stateful_calls_tell_what_is_missing(vm: Any) -> None:
    with fails("ValueError", "Unknown function: nope"):
        vm.set_input("nope")
    with fails("InternalError", "doesn't match the number of arguments for main"):
        vm.set_input("main")
    with fails("ValueError", "No inputs set for stateful call of main"):
        vm.invoke_stateful("main")
    with fails("ValueError", 'No output saved for call of "main"'):
        vm.get_outputs("main")
    vm.set_input("main", np.ones((2, 3), "float32"))
    vm.invoke_stateful("main")
    assert vm.module["get_output_arity"]("main") == 8
    with fails("ValueError", "cannot return a tuple"):
        vm.module["get_output"]("main")
    with fails("IndexError", r"Invalid index \(8 >= 8\)"):
        vm.module["get_output"]("main", 8)
    with fails("ValueError", "not an Array"):
        vm.module["get_output"]("main", 0, 0)


def test_a_program_that_lacks_builtins_runs_what_needs_none_of_them() -> None:
    """All that are missing are told when the machine is made, and again by the call of one."""
    program = main(call(2, [r(0)], 1), call(3, [r(1)], 1), ret(1))
    program.functions = [
        *program.functions,
        Function("vm.builtin.no_such"),
        Function("vm.builtin.nor_this"),
        Function("same", [ret(0)], params=["x"], registers=1),
    ]
    executable = open_program(program)
    with pytest.warns(UserWarning, match=r"vm\.builtin\.no_such, vm\.builtin\.nor_this; a call"):
        vm = mblob.relax.VirtualMachine(executable, mblob.cpu(0))
    assert vm.missing == ["vm.builtin.no_such", "vm.builtin.nor_this"]
    assert executable["get_missing_functions"]() == "vm.builtin.no_such\nvm.builtin.nor_this\n"
    assert vm["same"](5) == 5
    told = (
        r"find ffi::Function vm\.builtin\.no_such.* 'vm\.builtin\.no_such' 'vm\.builtin\.nor_this'"
    )
    with fails("InternalError", told):
        vm["main"](1)


def test_a_function_that_is_asked_for_as_an_attribute_is_told_with_the_way_to_it() -> None:
    vm = machine(main(ret(0)))
    with pytest.raises(AttributeError, match=r"'main'; to get the function .* write vm\['main'\]"):
        vm.main(1)  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"no attribute 'nothing'; .* vm\['main'\]; it has: main$"
    ):
        _ = vm.nothing  # type: ignore[attr-defined]
    with pytest.raises(
        TypeError, match=r"to call a function of the program, write vm\['main'\]\(x\)"
    ):
        vm(1)
    assert not hasattr(mblob.relax.VirtualMachine.__new__(mblob.relax.VirtualMachine), "main")


def test_other_names_are_found_when_they_are_called() -> None:
    program = main(call(2, [r(0)], 1), ret(1))
    program.functions = [*program.functions, Function("tests.relax.late")]
    with pytest.warns(UserWarning, match=r"nobody provides: tests\.relax\.late; a call") as found:
        vm = machine(program)
    assert found[0].filename == __file__
    assert vm.missing == ["tests.relax.late"]
    with fails("InternalError", "Cannot find ffi::Function tests.relax.late"):
        vm["main"](1)
    mblob.register_func("tests.relax.late", lambda x: (x, "seen"), override=True)
    assert vm["main"](1) == (1, "seen")
    assert vm.missing == []
    assert machine(program)["main"](1) == (1, "seen")  # without a warning


def test_instruments_see_calls_and_may_skip_them(vm: Any) -> None:
    seen: list[tuple[str, bool]] = []

    def watch(function: Any, name: str, before: bool, result: Any, *args: Any) -> int:
        seen.append((name, before))
        return int(name == "vm.builtin.copy")

    vm.set_instrument(watch)
    assert vm["down"](0) is None
    vm.set_instrument(None)
    assert vm["down"](0) == (6,)
    assert seen == [
        ("vm.builtin.read_if_cond", True),
        ("vm.builtin.read_if_cond", False),
        ("vm.builtin.copy", True),
    ]


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (
            lambda vm: vm.set_input("down", 2**40),
            OverflowError,
            "down: input 0: .* outside of int32",
        ),
        (lambda vm: vm.set_input("down", RING), ValueError, "input 0: containers are nested more"),
        (lambda vm: vm.set_input("down\0x", 1), ValueError, "argument 0: the name has a NUL"),
        (lambda vm: vm.save_function("down", "a\0b", 1), ValueError, "argument 1: .* has a NUL"),
        (lambda vm: vm.profile("down\0x"), ValueError, "argument 0: the name has a NUL"),
        (lambda vm: vm.set_instrument("a\0b"), ValueError, "argument 0: the name has a NUL"),
    ],
)
def test_a_wrong_input_or_name_is_an_error_of_mblob(
    vm: Any, wrong: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as error:
        wrong(vm)
    assert isinstance(error.value, mblob.MblobError)


@pytest.mark.parametrize("device", ["cpu", ["cpu"], None, 5])
def test_what_is_no_device_is_an_error_of_machines(device: Any) -> None:
    executable = open_program(relax_programs.sample())
    with pytest.raises(TypeError, match=r"VirtualMachine: device: expected a Device") as error:
        mblob.relax.VirtualMachine(executable, device)
    assert isinstance(error.value, mblob.MblobError)
    with pytest.raises(TypeError, match=r"memory_cfg: expected a Device .* as a key, found str"):
        mblob.relax.VirtualMachine(executable, mblob.cpu(0), {"cpu": "naive"})  # type: ignore[dict-item]


def test_a_time_evaluator_passes_arguments_as_a_call_does(vm: Any) -> None:
    seen: list[Any] = []
    vm.set_instrument(lambda function, name, before, result, *args: seen.append(args[0]) or 0)
    vm.time_evaluator("down", number=1)(0)
    assert seen[0] == 0 and isinstance(seen[0], int)


def test_functions_of_python_and_instruments_may_keep_tensors() -> None:
    program = main(call(2, [r(0)], 1), ret(1))
    program.functions = [*program.functions, Function("tests.relax.keep")]
    kept: list[Any] = []

    def keep(x: Any, *_: Any) -> int:
        kept.extend([x, np.from_dlpack(x)])
        return 0

    with pytest.warns(UserWarning, match="nobody provides"):
        vm = machine(program)
    mblob.register_func("tests.relax.keep", keep, override=True)
    vm["main"](np.full(2**18, 3, "f"))
    vm.set_instrument(lambda function, name, before, result, *args: keep(args[0]))
    vm["main"](np.full(2**18, 3, "f"))
    assert len(kept) == 8
    for tensor in kept:
        assert set(np.asarray(tensor)) == {3}


def test_a_function_of_python_may_call_the_machine_again() -> None:
    program = main(call(2, [r(0)], 1), ret(1))
    program.functions = [*program.functions, Function("tests.relax.again")]
    with pytest.warns(UserWarning, match="nobody provides"):
        vm = machine(program)
    depth = 5

    def again(n: int) -> Any:
        return (n, vm["main"](n + 1)) if n < depth else "end"

    mblob.register_func("tests.relax.again", again, override=True)
    assert vm["main"](3) == (3, (4, "end"))
    depth = 10**9
    with pytest.raises(RecursionError) as error:
        vm["main"](0)
    assert len(str(error.value)) < 200  # each place is named once
    depth = 0
    assert vm["main"](0) == "end"


def test_saved_functions_keep_their_arguments(vm: Any) -> None:
    vm.save_function("down", "zero", 0)
    vm.save_function("down", "quiet", 0, include_return=False)
    assert vm["zero"]() == (6,)
    assert vm["quiet"]() is None
    vm.save_function("bind", "zero", "x")
    assert vm["zero"]()("y")[0] == "x"
    with fails("InternalError", "Cannot support closure with function kind 0"):
        vm["vm.builtin.copy"]
    with pytest.raises(mblob.NotFoundError):
        vm["nope"]


def test_closures_outlive_what_made_them() -> None:
    closure = machine(relax_programs.sample())["bind"](np.arange(3, dtype="float32"))
    assert closure(None)[1][1].numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(), (4,), (0, 3), (2, 1, 2, 1, 3)])
def test_a_tensor_that_comes_back_has_the_memory_of_the_argument(shape: tuple[int, ...]) -> None:
    same = machine(Program([Function("same", [ret(0)], ["x"])]))["same"]
    given = mblob.array(np.full(shape, 3, "float32"))
    view = given.numpy()
    first = same(given)
    second, third = same(given), same(first)
    view[...] = 7
    del given, first
    for found in (second, third, same(third)):
        assert (found.shape, found.dtype) == (shape, "float32")
        np.testing.assert_array_equal(found.numpy(), np.full(shape, 7, "float32"))
    assert np.shares_memory(third.numpy(), view) == bool(view.size)


def test_shapes_are_told_from_tuples() -> None:
    vm = machine(main(call(0, [r(0)], 1), ret(1)))
    assert type(vm["main"](mblob.Shape(range(3)))) is mblob.Shape
    assert type(vm["main"]((0, 1, 2))) is tuple
    assert vm["main"](mblob.Shape([])) == ()
    assert repr(mblob.Shape(np.array([1, 2]))) == "mblob.Shape([1, 2])"
    with pytest.raises(OverflowError, match="more than 64 bits"):
        mblob.Shape([1 << 63])
    with pytest.raises(TypeError):
        mblob.Shape([0.5])  # type: ignore[list-item]


def each_value() -> list[Callable[[], Any]]:
    return [
        lambda: 1, lambda: True, lambda: 0.5, lambda: None, lambda: "text", lambda: "n\0l", lambda: "",
        lambda: mblob.Shape([2]), lambda: (1, (None, "a"), ()), lambda: [],
    ]  # fmt: skip


@pytest.mark.parametrize("make", each_value())
def test_each_kind_of_value_comes_back(make: Callable[[], Any]) -> None:
    vm = machine(main(call(0, [r(0)], 1), ret(1)))
    given, found = make(), vm["main"](make())
    assert found == (tuple(given) if isinstance(given, list) else given)
    assert type(found) is (tuple if isinstance(given, list) else type(given))


def test_a_void_result_is_none() -> None:
    assert machine(main(call(0, [r(0)], VOID), ret(VOID)))["main"](1) is None
    assert machine(main(call(COPY if COPY == 0 else 0, [i(-5)], 1), ret(1)))["main"](1) == -5


def test_the_names_that_inspect_knows_are_those_that_the_runtime_has() -> None:
    # in a process where no test has registered a function
    program = "import mblob.loader.relax as _, mblob; print(*mblob.get_global_func('mblob.GlobalNames')())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    families = ("vm.builtin.", "tvm.contrib.", "relax.run.")
    assert {name for name in done.stdout.split() if name.startswith(families)} == PROVIDED
    for used in (relax_payload._OF_FFI, relax_graph._LEFT_OUT, relax_graph._SAME, relax_graph._OF_STORAGE,
                 relax_summary._CHECKS):  # fmt: skip
        assert {*used} <= PROVIDED


def test_the_program_of_the_c_tests_is_the_sample() -> None:
    committed = (ROOT / "tests" / "c" / "exec" / "relax_programs.bin").read_bytes()
    assert committed == relax_programs.sample().payload()


def test_inspect_lists_what_the_machine_lists() -> None:
    code = relax_programs.sample().payload()
    lines = relax_program(memoryview(code), FFI_GRAMMARS).listing()
    assert open_program(code)["as_text"]() == "\n".join(lines) + "\n"


def test_functions_of_python_are_called_by_name() -> None:
    of = {
        name: mblob.get_global_func(f"vm.builtin.{name}")
        for name in ("register_py_func", "get_py_func", "clear_py_func_registry")
    }
    program = main(call(2, [c(0), r(0)], 1), ret(1), constants=["doubled"])
    program.functions = [*program.functions, Function("vm.builtin.call_py_func")]
    vm = machine(program)
    with fails("InternalError", "Python function 'doubled' not found in registry"):
        vm["main"]((4,))
    of["register_py_func"]("doubled", lambda x: 2 * x)
    assert vm["main"]((4,)) == 8
    assert of["get_py_func"]("doubled")(5) == 10
    of["clear_py_func_registry"]()
    with fails("InternalError", "not found in registry"):
        vm["main"]((4,))


def test_a_program_may_print_tensors_as_in_tvm(capsys: pytest.CaptureFixture[str]) -> None:
    """What `print_` of TVM's nn frontend writes."""
    operands = [r(1), c(0), c(1), r(0)]
    program = main(call(2, operands, 1), ret(1), constants=["vm.builtin.debug_print", "net.py:7"])
    program.functions = [*program.functions, Function("vm.builtin.invoke_debug_func")]
    assert machine(program)["main"](np.array([[1, 2]], "int32")) is None
    told = "net.py:7: shape = (1, 2), dtype = int32, data =\n[[1 2]]\n"
    assert capsys.readouterr().out == told
