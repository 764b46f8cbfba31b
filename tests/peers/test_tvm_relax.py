"""TVM's tests of the virtual machine of today (0.27). Its programs are compiled and run by apache-tvm,
then loaded and run by mblob; results, bytes of arrays, and errors are the same.

`tests/peers/tvm_today_relax.py` has the programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from mblob.compat import tvm_ffi
from tests.peers import tvm_today_relax
from tests.peers.cases import Case
from tests.peers.kernel import array
from tests.peers.outcomes import outcomes_of
from tests.peers.tvm_today_relax import BUILD, CALLBACK, CODEGEN, MODES, PROGRAMS

RPC = "mblob has no RPC"
GPU = "the test needs a GPU; tests/e2e/cuda and tests/loader/opencl run kernels on one"
SYSTEM = "the test links objects of TVM into a program, as tests/e2e/ffi does"
FACE = {
    **{
        f"{BUILD}.test_{name}": name
        for name in (
            *("time_evaluator", "set_input", "set_input_tuple", "save_function_kwargs"),
            *("save_function_time_evaluator", "set_input_stateless_failure"),
            *("set_input_invoke_failure", "set_input_get_failure"),
        )
    },
    f"{CODEGEN}.test_vm_exec_serialize_export_library": "text_of_program",
    f"{CALLBACK}.test_catch_exception_with_full_stack_trace": "raised",
}
CASES = [
    *(Case(f"{program.case}[{mode}]") for program in PROGRAMS for mode in MODES),
    *(Case(f"{name}[{mode}]") for name in FACE for mode in MODES),
    *(
        Case(f"{BUILD}.test_{name}_rpc[{mode}]", unsaid=RPC)
        for name in (
            *(
                "save_function_kwargs",
                "save_function_time_evaluator",
                "set_input_stateless_failure",
            ),
            *("set_input_invoke_failure", "set_input_get_failure"),
        )
        for mode in MODES
    ),
    *(
        Case(f"{BUILD}.test_{name}[{mode}]", unsaid=GPU)
        for name in ("vm_emit_te_constant_param_gpu", "relax_module_with_multiple_targets")
        for mode in MODES
    ),
    *(Case(f"{BUILD}.test_multi_systemlib[{mode}]", unsaid=SYSTEM) for mode in MODES),
]


pytestmark = pytest.mark.own_process


@pytest.fixture(scope="module")
def compiled(package_of: Callable[[str], Path]) -> Path:
    """The folder with what TVM made."""
    return outcomes_of(package_of("tvm"), tvm_today_relax)


@pytest.fixture(scope="module")
def outcomes(compiled: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((compiled / "outcomes.json").read_text())
    return found


@pytest.fixture(scope="module", params=MODES)
def machine(request: pytest.FixtureRequest, compiled: Path) -> Iterator[Any]:
    for name, function in tvm_today_relax.HOST.items():
        mblob.register_func(name, function, override=True)
    tvm_today_relax.TENSOR[:] = [mblob.array]
    library = tvm.runtime.load_module(compiled / f"{request.param}.so")
    made = tvm.relax.VirtualMachine(library, tvm.cpu())
    yield request.param, made


MAKERS = tvm_today_relax.Makers(mblob.array, tvm_ffi.Shape, mblob.get_global_func)


@pytest.mark.parametrize("case", sorted({program.case for program in PROGRAMS}))
def test_programs_of_tvm_have_the_outcomes_of_tvm(
    case: str, machine: Any, outcomes: dict[str, list[Any]]
) -> None:
    mode, vm = machine
    (program,) = [p for p in PROGRAMS if p.case == case]
    for arguments, expected in zip(program.calls, outcomes[f"{case}[{mode}]"]):
        found = tvm_today_relax.outcome(vm[program.function], arguments, MAKERS)
        if "error" in expected:
            assert set(expected.pop("classes")) <= set(found.pop("classes", ())), (found, expected)
            expected["error"] = re.sub(r"`([\w.]+)\(.*?\) -> [^`]+`", r"`\1`", expected["error"])
            text = re.split(r" is false: |\) : ", expected.pop("error").split("\n")[0])[-1].strip()
            assert text in found.pop("error"), text
        assert found == expected, arguments


# -- cases of the machine itself -------------------------------------------------------------------


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    return [mblob.array(tvm_today_relax.numpy_array(array("float32", *s, start=3))) for s in shapes]


def time_evaluator(vm: Any) -> None:
    x, y = tensors((2, 3), (2, 3))
    timed = vm.time_evaluator("items", tvm.cpu(), number=2, repeat=3)(x, y)
    assert len(timed.results) == 3 and timed.mean > 0


def set_input(vm: Any) -> None:
    x, w = tensors((4, 3), (3, 5))
    vm.set_input("product", x, w)
    vm.invoke_stateful("product")
    found = vm.get_outputs("product")
    np.testing.assert_array_equal(found.numpy(), x.numpy() @ w.numpy())
    vm.set_input("product", w=w, x=x)
    vm.invoke_stateful("product")
    np.testing.assert_array_equal(vm.get_outputs("product").numpy(), found.numpy())


def set_input_tuple(vm: Any) -> None:
    x, y = tensors((5,), (5,))
    vm.set_input("nested", x, y)
    vm.invoke_stateful("nested")
    (first, second), again = vm.get_outputs("nested")
    for found, given in ((first, x), (second, y), (again, x)):
        np.testing.assert_array_equal(found.numpy(), given.numpy())


def save_function_kwargs(vm: Any) -> None:
    x, w = tensors((4, 3), (3, 5))
    vm.save_function("product", "saved_product", w=w, x=x)
    np.testing.assert_array_equal(vm["saved_product"]().numpy(), x.numpy() @ w.numpy())


def save_function_time_evaluator(vm: Any) -> None:
    x, w = tensors((4, 3), (3, 5))
    vm.save_function("product", "timed_product", x, w, include_return=False)
    assert vm.time_evaluator("timed_product", tvm.cpu(), number=2)().mean > 0


def set_input_stateless_failure(vm: Any) -> None:
    vm.set_input("concat", *tensors((2,), (3,)))
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        vm["concat"]()


def set_input_invoke_failure(vm: Any) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        vm.invoke_stateful("to_int16")


def set_input_get_failure(vm: Any) -> None:
    vm.set_input("half", *tensors((4,)))
    with pytest.raises((RuntimeError, ValueError)):
        vm.get_outputs("half")


def text_of_program(vm: Any) -> None:
    text = vm._executable["as_text"]()
    assert "items" in text


def raised(vm: Any) -> None:
    def failing() -> None:
        raise RuntimeError("raised in a callback")

    with pytest.raises(RuntimeError, match="raised in a callback") as caught:
        vm["from_callback"](failing)
    assert caught.traceback[-1].name == "failing"


@pytest.mark.parametrize("name", FACE.values(), ids=list(FACE))
def test_a_case_of_the_machine_holds(name: str, machine: Any) -> None:
    globals()[name](machine[1])
