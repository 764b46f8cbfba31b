"""Functions of Python that a machine keeps, and that keep the machine."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import VM, Function, Program, call, r, ret

pytestmark = pytest.mark.own_process


class Noted:
    pass


def machine() -> mblob.relax.VirtualMachine:
    functions = [
        Function("vm.builtin.copy"),
        Function("vm.builtin.invoke_closure"),
        Function("main", [call(0, [r(0)], 1), ret(1)], ["x"]),
        Function("apply", [call(1, [VM, r(0)], 1), ret(1)], ["g"]),
    ]
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
    return mblob.relax.VirtualMachine(code, mblob.cpu(0))


WAYS = {
    "instrument": lambda vm, f: vm.set_instrument(f),
    "packed instrument": lambda vm, f: vm.set_instrument(mblob.packed_function(f)),
    "saved": lambda vm, f: vm.save_function("main", "saved", f),
    "saved packed": lambda vm, f: vm.save_function("main", "saved", mblob.packed_function(f)),
    "input": lambda vm, f: vm.set_input("main", f),
    "input in tuples": lambda vm, f: vm.set_input("main", (1, [mblob.packed_function(f)])),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_cycle_through_a_machine_is_collected(way: str) -> None:
    noted = []
    for _ in range(20):
        vm, inside = machine(), Noted()

        def function(*args: Any, vm: Any = vm, inside: Any = inside) -> int:
            return 1

        WAYS[way](vm, function)
        noted.append(weakref.ref(inside))
        del vm, inside, function
    gc.collect()
    assert sum(one() is not None for one in noted) == 0


def test_functions_that_a_machine_was_lent_live_as_long_as_its_functions() -> None:
    vm, seen = machine(), []
    vm.set_instrument(lambda function, name, before, *rest: seen.append(name))
    vm.save_function("apply", "saved", lambda: 7)
    vm.set_input("apply", lambda: 8)
    main, saved, state = vm["main"], vm["saved"], vm.module["invoke_stateful"]
    output = vm.module["get_output"]
    del vm
    gc.collect()
    main(np.zeros(1, "float32"))
    assert "vm.builtin.copy" in seen
    assert saved() == 7
    state("apply")
    assert output("apply") == 8
