"""Parameters that a program refuses are told when its machine is made, as far as its code says what it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import (
    BUILTINS,
    CHECK,
    F32,
    HEAP,
    ITEM,
    MATCH,
    TAGS,
    VM,
    VOID,
    Function,
    Program,
    branch,
    c,
    call,
    i,
    r,
    ret,
)

pytestmark = pytest.mark.own_process  # starts libmblob-ffi.so

TUPLE_OF = len(BUILTINS)  # vm.builtin.check_tuple_info
I8 = np.dtype("int8")
CONSTANTS: list[Any] = [
    F32,
    I8,
    "ErrorContext(fn=main, loc=param[1], param=params, annotation=R.Tuple) ",
]
CONTEXT = c(2)
SET = {"w": np.arange(32, dtype="float32").reshape(2, 16), "b": np.arange(3, dtype="int8")}
EQUAL, STORE, ANY, STORED = range(4)

Row = tuple[
    int, Sequence[tuple[int, int]]
]  # constant of the type; of each dimension code and number
W: Row = (0, [(EQUAL, 2), (EQUAL, 16)])
B: Row = (1, [(EQUAL, 3)])
X: Row = (0, [(EQUAL, 1)])


def tensor(register: int, row: Row, heap: int = VOID) -> list[list[int]]:
    """As TVM checks a tensor."""
    dtype, dims = row
    numbers = [word for code, number in dims for word in (i(code), i(number))]
    return [
        call(CHECK, [r(register), i(len(dims)), c(dtype), CONTEXT]),
        call(MATCH, [r(register), heap, i(len(dims)), *numbers, CONTEXT]),
    ]


def checks(argument: int, rows: Sequence[Row], free: int, heap: int = VOID) -> list[list[int]]:
    """As TVM checks a tuple; `free`: the first register for its items."""
    code = [call(TUPLE_OF, [r(argument), i(len(rows)), CONTEXT])]
    code += [call(ITEM, [r(argument), i(k)], free + k) for k in range(len(rows))]
    for k, row in enumerate(rows):
        code += tensor(free + k, row, heap)
    return code


def main(*rows: Row) -> Function:
    """main(x, params): the first parameter."""
    code = [*tensor(0, X), *checks(1, rows, 2), call(ITEM, [r(1), i(0)], 7), ret(7)]
    return Function("main", code, ["x", "params"])


def library(path: Path, *functions: Function, weights: Any = SET, dialect: Any = "ffi") -> Path:
    builtins = [Function(f"vm.builtin.{name}") for name in (*BUILTINS, "check_tuple_info")]
    program = Program([*builtins, *functions], CONSTANTS, dialect)
    root = mblob.blob_module("relax.VMExecutable", payload(program, dialect))
    root.import_module(mblob.csource_module(""))
    root.import_module(mblob.safetensors_module(weights, order=True))
    root.export_library(path, dialect=dialect)
    return path


def payload(program: Program, dialect: str) -> bytes:
    code = program.payload()
    return code if dialect == "ffi" else len(code).to_bytes(8, "little") + code


def machine(path: Path) -> mblob.relax.VirtualMachine:
    return mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))


@pytest.mark.parametrize("dialect", ["ffi", "classic"])
def test_what_the_program_takes_is_given(tmp_path: Path, dialect: Any) -> None:
    vm = machine(library(tmp_path / "m.so", main(W, B), dialect=dialect))
    found = vm["main"](np.zeros(1, "float32"), vm.params)
    np.testing.assert_array_equal(found.numpy(), SET["w"])


REFUSED: dict[str, tuple[list[Row], str]] = {
    "too few": ([W, B, B], "expected 3 tensors, found 2"),
    "too many": ([W], "expected 1 tensors, found 2"),
    "type": ([(1, W[1]), B], "tensor 'w': expected int8, found float32"),
    "dimensions": ([W, (1, [(EQUAL, 3), (EQUAL, 1)])], r"tensor 'b': expected 2 dimensions, found shape \[3\]"),
    "shape": ([(0, [(STORE, 0), (EQUAL, 8)]), B], r"tensor 'w': expected shape \[2,8\], found \[2,16\]"),
    "other order": ([B, W], "tensor 'w': expected int8, found float32"),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ["ffi", "classic"])
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_it_refuses_is_told_when_the_machine_is_made(
    tmp_path: Path, name: str, dialect: Any
) -> None:
    rows, text = REFUSED[name]
    lib = mblob.load_module(library(tmp_path / "m.so", main(*rows), dialect=dialect))
    with pytest.raises(
        mblob.FormatError,
        match=f"parameters: function 'main', argument 1 params: {text}; replace them",
    ):
        mblob.relax.VirtualMachine(lib, mblob.cpu(0))


def test_bytes_are_no_small_floats_as_in_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    float8 = pack("<iBBH", TAGS["ffi"][1], 10, 8, 1)
    monkeypatch.setattr(sys.modules[__name__], "CONSTANTS", [*CONSTANTS, float8])
    weights = {**SET, "b": np.arange(3, dtype="uint8")}
    lib = library(tmp_path / "m.so", main(W, (len(CONSTANTS) - 1, [(EQUAL, 3)])), weights=weights)
    with pytest.raises(mblob.FormatError, match=r"tensor 'b': expected float8_.*, found uint8"):
        machine(lib)


def test_code_that_reads_items_says_how_many_there_are(tmp_path: Path) -> None:
    code = [call(ITEM, [r(0), i(5)], 1), ret(1)]
    lib = mblob.load_module(library(tmp_path / "m.so", Function("main", code, ["params"])))
    with pytest.raises(mblob.FormatError, match="expected at least 6 tensors, found 2"):
        mblob.relax.VirtualMachine(lib, mblob.cpu(0))


def other(*rows: Row) -> Function:
    """A function of another tuple."""
    return Function("other", [*checks(0, rows, 1), ret(0)], ["state"])


TAKEN: dict[str, list[Function]] = {
    "no function takes a tuple": [Function("main", [ret(0)], ["x"])],
    "another function takes them": [main(W, B, B), other(W, B)],
    "the function takes another tuple, too": [
        Function("main", [*checks(0, [W], 2), *checks(1, [W, B], 4), ret(0)], ["state", "params"])
    ],
    "the function takes them before another tuple": [
        Function("main", [*checks(0, [W, B], 2), *checks(1, [W], 4), ret(0)], ["params", "state"])
    ],
    "they are passed one by one": [
        Function("main", [*tensor(1, W), *tensor(2, B), ret(0)], ["x", "w", "b"]), other(W)
    ],
    "they are passed one by one, in front of an input": [
        Function("main", [*tensor(0, W), *tensor(1, B), *tensor(2, X), ret(0)], ["w", "b", "x"]), other(W)
    ],
    "code says nothing of an argument": [Function("main", [ret(0)], ["params"]), other(W)],
    "a dimension is free": [
        Function("main", [call(HEAP, [VM, i(2)], 5), *checks(0, [(0, [(STORE, 0), (ANY, 0)]), B], 1, 5), ret(0)],
                 ["params"])
    ],
    "a register has something else by then": [
        Function("main", [*checks(0, [W, B], 1), call(ITEM, [r(0), i(1)], 1), *tensor(1, B), ret(0)], ["params"])
    ],
    "the check is behind a branch": [
        Function("main", [call(ITEM, [r(1), i(1)], 2), branch(0, 2), *checks(1, [W, B, B], 3), ret(0)],
                 ["x", "params"])
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", list(TAKEN))
def test_programs_that_may_take_them_open(tmp_path: Path, name: str) -> None:
    vm = machine(library(tmp_path / "m.so", *TAKEN[name]))
    assert [t.shape for t in vm.params] == [(2, 16), (3,)]


@pytest.mark.parametrize(
    ("rows", "result", "left"),
    [
        ([*tensor(0, X), *tensor(1, W), *tensor(2, B), ret(1)], "w", 2),
        ([*tensor(0, X), *tensor(1, W), *tensor(2, B), ret(2)], "b", 2),
        ([*tensor(0, X), *tensor(1, X), *checks(2, [W, B], 3), ret(4)], "b", 1),
        ([call(ITEM, [r(2), i(0)], 3), ret(3)], "w", 1),
    ],
)
def test_packed_parameters_are_the_last_inputs_where_nobody_sets_them(
    tmp_path: Path, rows: list[list[int]], result: str, left: int
) -> None:
    vm = machine(library(tmp_path / "m.so", Function("main", rows, ["x", "y", "p"])))
    assert vm.module["get_param_inputs"]("main") == left
    for name in ["x", "y", "p"][: 3 - left]:
        vm.module["set_one_input"]("main", name, np.zeros(1, "float32"))
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), SET[result])
    vm.module["set_one_input"]("main", "p", np.zeros(2, "float32"))  # what is set wins
    if left == 2:
        with pytest.raises(mblob.MblobError, match=r"float32|int8"):
            vm.invoke_stateful("main")


def test_inputs_with_the_names_of_parameters_are_these(tmp_path: Path) -> None:
    """Also if nothing checks them, in another order than that of the file."""
    for result, name in enumerate(["b", "w"], 1):
        vm = machine(
            library(tmp_path / f"{name}.so", Function("main", [ret(result)], ["x", "b", "w"]))
        )
        assert vm.module["get_param_inputs"]("main") == 2
        vm.module["set_one_input"]("main", "x", np.zeros(1, "float32"))
        vm.invoke_stateful("main")
        np.testing.assert_array_equal(vm.get_outputs("main").numpy(), SET[name])
    vm = machine(library(tmp_path / "front.so", Function("main", [ret(0)], ["w", "b", "x"])))
    assert vm.module["get_param_inputs"]("main") == 0  # they are not the last ones


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_an_input_of_another_type_or_shape_than_its_parameter(tmp_path: Path, dialect: Any) -> None:
    for checked, text in (
        (tensor(1, W), r"tensor 'b': expected .*, found"),
        (tensor(1, (W[0], [(EQUAL, 7)])), r"tensor 'b': expected .*, found"),
    ):
        code = [*checked, ret(1)]
        lib = library(tmp_path / "m.so", Function("main", code, ["x", "b"]), dialect=dialect)
        with pytest.raises(
            mblob.FormatError, match=f"parameters: function 'main', argument 1 b: {text}"
        ):
            mblob.relax.VirtualMachine(mblob.load_module(lib), mblob.cpu(0))


@pytest.mark.filterwarnings("ignore::mblob.PortabilityWarning")
def test_a_program_of_tvm_gets_its_detached_parameters(golden: Path, tmp_path: Path) -> None:
    with np.load(golden / "relax" / "mlp_static.npz") as stored:
        x, *weights, expected = [stored[f"c0_{k}"] for k in ("a0", "a1", "a2", "a3", "a4", "r")]
    names = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    for order in (names, names[::-1]):
        mblob.add(
            golden / "relax" / "mlp_static.so",
            params=dict(zip(names, weights)),
            order=order,
            output=tmp_path / "m.so",
        )
        vm = mblob.relax.VirtualMachine(mblob.load_module(tmp_path / "m.so"), mblob.cpu(0))
        vm.module["set_one_input"]("forward", "x", x)
        vm.invoke_stateful("forward")
        np.testing.assert_allclose(vm.get_outputs("forward").numpy(), expected, rtol=1e-5)


def test_an_input_before_the_parameters_must_be_set(tmp_path: Path) -> None:
    vm = machine(library(tmp_path / "m.so", main(W, B)))
    with pytest.raises(mblob.MblobError, match="input 'x' of function 'main' has not been set"):
        vm.invoke_stateful("main")


def test_the_text_is_about_the_model(tmp_path: Path) -> None:
    path = library(tmp_path / "m.so", other(W), main(W, W), other(B))
    with pytest.raises(mblob.FormatError, match="function 'main', argument 1 params: tensor 'b'"):
        machine(path)


def test_what_code_does_not_say_is_told_at_the_call(tmp_path: Path) -> None:
    """A dimension that two tensors share."""
    rows: list[Row] = [(0, [(STORE, 0), (ANY, 0)]), (1, [(STORED, 0)])]
    code = [call(HEAP, [VM, i(2)], 5), *checks(0, rows, 1, 5), ret(0)]
    vm = machine(library(tmp_path / "m.so", Function("main", code, ["params"])))
    with pytest.raises(mblob.MblobError, match=r"dimension 0 is 3|match_cast"):
        vm["main"](vm.params)


HOST = """
#include <mblob.h>
#include <stdio.h>
int main(int argc, char **argv) {
  mblob_module *lib = NULL, *vm = NULL;
  int status = mblob_open(argv[1], NULL, &lib);
  if (!status) status = mblob_executor_create(lib, NULL, kDLCPU, 0, &vm);
  printf("%d %s", status == MBLOB_E_FORMAT && !vm, mblob_last_error());
  mblob_module_release(lib);
  return 0;
}
"""


def test_a_c_program_is_told_the_same(tmp_path: Path, require: Callable[[str], str]) -> None:
    library(tmp_path / "m.so", main(W, W))
    (tmp_path / "host.c").write_text(HOST)
    folder = mblob.get_library_dir()
    words = [require("cc"), "host.c", "-o", "host", f"-I{mblob.get_include()}", f"-L{folder}"]
    subprocess.run([*words, f"-Wl,-rpath,{folder}", "-lmblob"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["./host", "m.so"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("1 ")
    assert (
        "function 'main', argument 1 params: tensor 'b': expected float32, found int8"
        in done.stdout
    )
