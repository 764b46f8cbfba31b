"""Tensors that are less aligned than compiled code assumes, on every way into a Relax program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import Function, Program, c, call, f, i, r, ret

pytestmark = pytest.mark.own_process
ALIGNMENT = 64
NAMES = (f"test.alignment.{n}" for n in itertools.count())


def unaligned(values: Any, dtype: str = "float32") -> np.ndarray:
    """An array whose address is 4 modulo 64."""
    values = np.asarray(values, dtype)
    room = np.empty(values.nbytes + 2 * ALIGNMENT, "uint8")
    start = -room.ctypes.data % ALIGNMENT + 4
    out = room[start : start + values.nbytes].view(dtype).reshape(values.shape)
    out[...] = values
    return out


class Probe:
    """A function that programs call on tensors: it notes their addresses and changes them."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.name = next(NAMES)
        mblob.register_func(self.name, self)

    def __call__(self, *tensors: Any) -> None:
        for tensor in tensors:
            array = tensor.numpy()
            self.seen.append(array.ctypes.data)
            array += 1

    def all_aligned(self) -> bool:
        assert self.seen
        return not any(address % ALIGNMENT for address in self.seen)


@pytest.fixture
def probe() -> Probe:
    return Probe()


def machine(*functions: Function) -> mblob.relax.VirtualMachine:
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
    return mblob.relax.VirtualMachine(code, mblob.cpu(0))


def over_tuple(probe: Probe, depth: int = 1) -> mblob.relax.VirtualMachine:
    """main(x) and kept(x): the probe sees items 0 and 1 of the innermost tuple."""
    item = Function("vm.builtin.tuple_getitem")
    down = [call(0, [r(0), i(0)], 0)] * (depth - 1)
    items = [call(0, [r(0), i(0)], 1), call(0, [r(0), i(1)], 2)]
    code = [*down, *items, call(1, [r(1), r(2)]), ret(1)]
    return machine(item, Function(probe.name), Function("main", code, ["x"]))


@pytest.mark.parametrize("wrap", [np.asarray, mblob.from_dlpack], ids=["numpy", "dlpack"])
@pytest.mark.parametrize("depth", [1, 2, 40])
def test_tensors_in_tuples_are_aligned_and_written_back(
    probe: Probe, wrap: Callable[[Any], Any], depth: int
) -> None:
    a, b = unaligned([1, 2, 3]), unaligned([4.0])
    value: Any = (wrap(a), wrap(b))
    for k in range(depth - 1):
        value = [value, 7] if k % 2 else (value,)
    result = over_tuple(probe, depth)["main"](value)
    assert probe.all_aligned()
    assert result.numpy().tolist() == [2, 3, 4]
    assert (a.tolist(), b.tolist()) == ([2, 3, 4], [5])


def test_one_array_twice_is_one_copy(probe: Probe) -> None:
    a = mblob.from_dlpack(unaligned([1, 2]))
    over_tuple(probe)["main"]((a, a))
    assert probe.all_aligned()
    assert len(set(probe.seen)) == 1
    assert a.numpy().tolist() == [3, 4]


def test_aligned_tensors_are_passed_as_they_are(probe: Probe) -> None:
    a, b = mblob.array(np.ones(3, "float32")), mblob.array(np.ones(3, "float32"))
    over_tuple(probe)["main"]((a, b))
    assert probe.seen == [a.numpy().ctypes.data, b.numpy().ctypes.data]


@pytest.mark.parametrize("wrap", [np.asarray, mblob.from_dlpack, memoryview])
def test_tensors_alone_are_aligned_and_written_back(
    probe: Probe, wrap: Callable[[Any], Any]
) -> None:
    a = unaligned([1, 2, 3])
    vm = machine(Function(probe.name), Function("main", [call(0, [r(0)]), ret(0)], ["x"]))
    vm["main"](wrap(a))
    assert probe.all_aligned()
    assert a.tolist() == [2, 3, 4]


def test_saved_inputs_are_aligned(probe: Probe) -> None:
    pair = (mblob.from_dlpack(unaligned([1.0])), mblob.from_dlpack(unaligned([2.0])))
    vm = over_tuple(probe)
    vm.set_input("main", pair)
    vm.invoke_stateful("main")
    vm.module["set_input"]("main", pair)
    vm.invoke_stateful("main")
    vm.module["set_one_input"]("main", "x", pair)
    vm.invoke_stateful("main")
    vm.save_function("main", "saved", pair)
    vm["saved"]()
    assert len(probe.seen) == 8
    assert probe.all_aligned()


def test_tensors_bound_to_closures_are_aligned(probe: Probe) -> None:
    code = [call(0, [f(3), r(0)], 1), call(1, [1 << 54 | 1, r(1)], 2), ret(2)]
    vm = machine(
        Function("vm.builtin.make_closure"),
        Function("vm.builtin.invoke_closure"),
        Function(probe.name),
        Function("inner", [call(2, [r(0)]), ret(0)], ["x"]),
        Function("main", code, ["x"]),
    )
    vm["main"](mblob.from_dlpack(unaligned([1.0])))
    assert probe.all_aligned()


@pytest.mark.parametrize("form", ["alone", "tuple", "tuple in list"])
@pytest.mark.parametrize("way", ["registered", "argument", "py_func"])
def test_results_of_python_functions_are_aligned(probe: Probe, form: str, way: str) -> None:
    tensor = mblob.from_dlpack(unaligned([1.0]))
    made = {"alone": tensor, "tuple": (tensor,), "tuple in list": [(tensor,)]}[form]
    name = next(NAMES)
    mblob.register_func(name, lambda: made)
    mblob.get_global_func("vm.builtin.register_py_func")(name, lambda: made)
    ways = {
        "registered": [call(0, [], 1)],
        "argument": [call(1, [1 << 54 | 1, r(0)], 1)],
        "py_func": [call(4, [], 1), call(5, [c(0), r(1)], 1)],
    }
    unpack = [call(2, [r(1), i(0)], 1)] * (len(form.split()) - 1 if form != "tuple" else 1)
    unpack = {"alone": [], "tuple": unpack[:1], "tuple in list": unpack[:2]}[form]
    functions = [
        Function(name),
        Function("vm.builtin.invoke_closure"),
        Function("vm.builtin.tuple_getitem"),
        Function(probe.name),
        Function("vm.builtin.make_tuple"),
        Function("vm.builtin.call_py_func"),
        Function("main", [*ways[way], *unpack, call(3, [r(1)]), ret(1)], ["g"]),
    ]
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions, [name]).payload())
    mblob.relax.VirtualMachine(code, mblob.cpu(0))["main"](lambda: made)
    assert probe.all_aligned()


def test_an_array_of_no_elements_is_no_error(probe: Probe) -> None:
    empty = mblob.from_dlpack(unaligned([1.0])[:0])
    over_tuple(probe)["main"]((empty, empty))
    assert probe.all_aligned()
