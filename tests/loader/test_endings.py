"""Owners of owners of .., to any depth: the end of the first needs no stack for the others."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import Function, Program, call, f, i, r, ret

pytestmark = pytest.mark.own_process
# Bytes of the thread in which they end. Python 3.13 nests the ends of its own objects (lists too)
# 10,000 levels, however small the stack is.
STACK = 256 * 1024 if sys.version_info < (3, 13) else 8 << 20
NAMES = (f"test.endings.{n}" for n in itertools.count())


def machine(*functions: Function) -> mblob.relax.VirtualMachine:
    code = mblob.get_global_func("mblob.RelaxExecutable")(Program(functions).payload())
    return mblob.relax.VirtualMachine(code, mblob.cpu(0))


def closures(levels: int) -> list[Any]:
    """Closures that captured closures."""
    make, inner = Function("vm.builtin.make_closure"), Function("inner", [ret(0)], ["x"])
    vm = machine(make, inner, Function("main", [call(0, [f(1), r(0)], 0), ret(0)], ["x"]))
    held = [None, vm]
    for _ in range(levels):
        held[0] = vm["main"](held[0])
    return held


def closures_of_tuples(levels: int) -> list[Any]:
    """Closures that captured tuples of closures."""
    make, inner = Function("vm.builtin.make_closure"), Function("inner", [ret(0)], ["x"])
    pack = Function("vm.builtin.make_tuple")
    code = [call(2, [r(0), i(1)], 0), call(0, [f(1), r(0)], 0), ret(0)]
    vm = machine(make, inner, pack, Function("main", code, ["x"]))
    held = [None, vm]
    for _ in range(levels):
        held[0] = vm["main"](held[0])
    return held


def functions_of_python(levels: int) -> list[Any]:
    """Functions of Python that captured functions of the runtime."""
    held: list[Any] = [mblob.packed_function(len)]
    for _ in range(levels):
        held[0] = mblob.packed_function(lambda x, inner=held[0]: inner(x))
    return held


def bound_functions(levels: int) -> list[Any]:
    """Functions whose arguments are bound, one of which is such a function."""
    first = mblob.packed_function(lambda x: x)
    held: list[Any] = [first.bind(1)]
    for _ in range(levels):
        held[0] = first.bind(held[0])
    return held


def machines(levels: int) -> list[Any]:
    """Machines whose instrument is a function of a machine."""
    code = mblob.get_global_func("mblob.RelaxExecutable")
    program = code(Program([Function("main", [ret(0)], ["x"])]).payload())
    held: list[Any] = [len]
    for _ in range(levels // 8):
        module = program["vm_load_executable"]()
        module["vm_initialization"](1, 0, 2)
        module["set_instrument"](held[0])
        held[0] = module["main"]
    return held


def imports(levels: int) -> list[Any]:
    """Modules that import modules."""
    make = mblob.get_global_func("runtime.Tuple")
    held: list[Any] = [make()]
    last = held[0]
    for _ in range(levels):
        inner = make()
        last.import_module(inner)
        last = inner
    return held


def relay_tuples(levels: int) -> list[Any]:
    """Tuples of Relay in tuples."""
    make = mblob.get_global_func("runtime.Tuple")
    held: list[Any] = [make()]
    for _ in range(levels):
        held[0] = make(held[0])
    return held


def views(levels: int) -> list[Any]:
    """Tensors that are views of tensors."""
    code = [call(0, [r(0), r(1)], 0), ret(0)]
    vm = machine(Function("vm.builtin.reshape"), Function("main", code, ["x", "s"]))
    held = [mblob.array(np.zeros(4, "float32")), vm]
    for _ in range(levels):
        held[0] = vm["main"](held[0], mblob.Shape([4]))
    return held


def imported_tensors(levels: int) -> list[Any]:
    """Tensors over the memory of tensors, through DLPack."""
    held: list[Any] = [mblob.array(np.zeros(4, "float32"))]
    for _ in range(levels):
        held[0] = mblob.from_dlpack(held[0])
    return held


OWNERS = [
    closures, closures_of_tuples, functions_of_python, bound_functions, machines, imports, relay_tuples, views,
    imported_tensors,
]  # fmt: skip


def end(make: Callable[[int], list[Any]], levels: int) -> None:
    held = make(levels)
    before = threading.stack_size(STACK)
    thread = threading.Thread(target=held.clear)
    thread.start()
    threading.stack_size(before)
    thread.join()
    gc.collect()


@pytest.mark.parametrize("make", OWNERS)
def test_what_owns_owners_ends_on_a_small_stack(make: Callable[[int], list[Any]]) -> None:
    end(make, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("make", OWNERS)
def test_a_million_owners_end(make: Callable[[int], list[Any]]) -> None:
    end(make, 1_000_000)
