"""Builtins of Relax that Python calls, objects of Python in programs, and devices of the host."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import Function, Program, c, call, i, r, ret

pytestmark = pytest.mark.own_process


def builtin(name: str) -> Any:
    return mblob.get_global_func(f"vm.builtin.{name}")


def machine(functions: list[Function], constants: Any = (), devices: Any = None) -> Any:
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions, constants).payload())
    return mblob.relax.VirtualMachine(code, devices or mblob.cpu(0))


@pytest.mark.parametrize("make", [mblob.Shape, tuple, list])
def test_builtins_take_a_shape_as_python_has_it(make: Any) -> None:
    x, heap = mblob.array(np.arange(6, dtype="int32")), mblob.array(np.zeros(4, "int64"))
    assert builtin("reshape")(x, make([2, 3])).shape == (2, 3)
    builtin("match_shape")(make([5]), heap, 1, 1, 2, "")
    assert heap.numpy().tolist() == [0, 0, 5, 0]
    with pytest.raises(mblob.KernelError, match=r"Expected `ffi.Shape` but got `ffi.Array`"):
        builtin("reshape")(x, [2, "3"])


def test_builtins_take_tuples_types_and_texts() -> None:
    x = mblob.array(np.zeros((2, 3), "int32"))
    builtin("check_shape_info")(mblob.Shape([1, 2, 3]), 3, "")
    builtin("check_tuple_info")([x, x], 2, "")
    assert builtin("tuple_getitem")((x, x), 0).shape == (2, 3)
    assert [t.shape for t in builtin("make_tuple")(x, x)] == [(2, 3)] * 2
    for dtype in ("float32", np.dtype("float32")):
        with pytest.raises(ValueError, match="myerror expect Tensor with dtype float32 but get"):
            builtin("check_tensor_info")(x, 2, dtype, "myerror")
    with pytest.raises(TypeError, match=r"myerror expect a Function but get ffi.Tensor"):
        builtin("check_func_info")(x, "myerror")


def test_samples_are_drawn_by_uniform_numbers_as_in_tvm() -> None:
    """Numbers of TVM 0.27."""
    draw, state = builtin("multinomial_from_uniform"), np.random.RandomState(0)
    tvm = [[2, 1, 1, 1, 0, 0, 1], [671, 415, 704, 599, 433, 538, 605]]
    for count in (1, 5, 1000):
        p = state.rand(7, count).astype("float32")
        p /= p.sum(1, keepdims=True)
        u, column = state.rand(7).astype("float32"), state.rand(7, 1).astype("float32")
        found = draw(p, u)
        assert (found.shape, found.dtype) == ((7, 1), "int64")
        assert found.numpy().ravel().tolist() == (tvm.pop(0) if count > 1 else [0] * 7)
        assert draw(p, column).shape == (7, 1)
    few = np.array([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]], "float32")
    assert draw(few, np.array([0.4, 0.9], "float32")).numpy().tolist() == [[1], [2]]
    assert draw(few, np.array([1, 2], "float32")).numpy().tolist() == [[2], [2]]
    assert draw(few * np.nan, np.zeros(2, "float32")).numpy().tolist() == [[2], [2]]
    assert draw(np.stack([few, few]), np.array([0.1, 0.4], "float32")).numpy().tolist() == [
        [0],
        [1],
    ]
    assert draw(few[:0], np.zeros(0, "float32")).shape == (0, 1)
    assert draw(few[:, :0].copy(), np.zeros(2, "float32")).numpy().tolist() == [[0], [0]]


@pytest.mark.parametrize(
    ("shape", "count", "dtype", "text"),
    [
        ((3, 2), 2, "float32", "as many as argument 1 has numbers"),
        ((3,), 3, "float32", "expected rows of probabilities"),
        ((3, 2), 3, "float64", "argument 0: expected float32"),
    ],
)
def test_probabilities_that_do_not_fit_the_numbers_are_refused(
    shape: tuple[int, ...], count: int, dtype: str, text: str
) -> None:
    with pytest.raises(mblob.KernelError, match=text):
        builtin("multinomial_from_uniform")(np.zeros(shape, dtype), np.zeros(count, "float32"))


def test_objects_of_python_pass_through_programs() -> None:
    class State:
        pass

    state = State()
    mblob.register_func("test.state.make", lambda: state)
    mblob.register_func("test.state.is_it", lambda x: x is state)
    functions = [
        Function("test.state.make"),
        Function("test.state.is_it"),
        Function("vm.builtin.make_tuple"),
        Function("make", [call(0, [], 1), call(2, [r(1), i(7)], 1), ret(1)]),
        Function("check", [call(1, [r(0)], 1), ret(1)], ["x"]),
    ]
    vm = machine(functions)
    assert vm["make"]() == (state, 7)
    assert vm["check"](state) is True
    assert vm["check"](State()) is False
    vm.module["set_input"]("check", state)
    vm.invoke_stateful("check")
    assert vm.get_outputs("check") is True


def test_a_shape_of_tvm_ffi_is_a_shape() -> None:
    """A stand-in of the class, so that tvm_ffi is not needed: a tuple with an object behind it."""
    program = """
import mblob
from tests.loader.executors.relax_programs import Function, Program, call, i, r, ret
class Shape(tuple):
    _tvm_ffi_cached_object = None
functions = [Function("vm.builtin.check_shape_info"), Function("main", [call(0, [r(0), i(2), i(0)]), ret(0)], ["x"])]
code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
print(mblob.relax.VirtualMachine(code, mblob.cpu(0))["main"](Shape((2, 3))))
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (out.stdout, out.returncode) == ("mblob.Shape([2, 3])\n", 0), out.stderr


def test_programs_tell_devices_of_the_host_apart() -> None:
    functions = [
        Function("vm.builtin.alloc_storage"),
        Function("vm.builtin.alloc_tensor"),
        Function("vm.builtin.to_device"),
        *(
            Function(
                f"on{device}",
                [
                    call(0, [1 << 54 | 1, c(0), i(device), c(1), c(2)], 1),
                    call(1, [r(1), i(0), c(0), c(1)], 2),
                    ret(2),
                ],
            )
            for device in (0, 1)
        ),
        Function("move", [call(2, [r(0), i(1), i(1)], 1), ret(1)], ["x"]),
        Function("same", [ret(0)], ["x"]),
    ]
    constants = [mblob.Shape([4]), np.dtype("float32"), "global"]
    vm = machine(functions, constants, [mblob.cpu(0), mblob.cpu(1)])
    assert [vm[f"on{k}"]().device for k in (0, 1)] == [mblob.cpu(0), mblob.cpu(1)]
    there = mblob.array(np.ones(4, "float32"), mblob.cpu(1))
    assert there.device == mblob.empty((2,), "int8", mblob.cpu(1)).device == mblob.cpu(1)
    assert vm["move"](np.ones(4, "float32")).device == mblob.cpu(1)
    assert vm["same"](there).device == mblob.cpu(1)
    vm.set_input("same", there)
    vm.invoke_stateful("same")
    assert vm.get_outputs("same").device == mblob.cpu(1)
    assert [machine(functions, constants)[f"on{k}"]().device for k in (0, 1)] == [mblob.cpu(0)] * 2
