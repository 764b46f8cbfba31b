"""Parameters that a program refuses are told when its machine is made, as far as its texts say what it takes."""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mblob
from mblob.cli.main import main as main_of_command
from mblob.dtype import DataType
from mblob.native.programs import FFI, check_relax_parameters, read_relax
from tests.loader.executors.relax_programs import (
    BUILTINS,
    COMPILED,
    ITEM,
    PACKED,
    Function,
    Program,
    call,
    i,
    r,
    ret,
)

pytestmark = pytest.mark.own_process  # starts libmblob-ffi.so

SET = {"w": np.arange(32, dtype="float32").reshape(2, 16), "b": np.arange(3, dtype="int8")}
W = 'R.Tensor((T.int64(2), 16), dtype="float32")'
B = 'R.Tensor((3,), dtype="int8")'
X = 'R.Tensor((1,), dtype="float32")'


def tuple_of(*items: str) -> str:
    return f"T.Tuple({', '.join(items)})"


class Typed(NamedTuple):
    """A function, and the annotations of its parameters: "" is none."""

    function: Function
    annotations: Sequence[str]

    @property
    def contexts(self) -> list[str]:
        name, params = self.function.name, self.function.params
        return [
            f"ErrorContext(fn={name}, loc=param[{k}], param={params[k]}, annotation={annotation}) "
            for k, annotation in enumerate(self.annotations)
            if annotation
        ]


def function(name: str, kind: str = "bytecode", **annotations: str) -> Typed:
    """A function of these parameters, which gives the last one; a compiled one has no code."""
    params, said = list(annotations), list(annotations.values())
    if kind == "compiled":
        return Typed(Function(name, None, params, kind=COMPILED, num_args=len(params)), said)
    return Typed(Function(name, [ret(len(params) - 1)], params), said)


def main(*items: str, kind: str = "bytecode") -> Typed:
    return function("main", kind, x=X, params=tuple_of(*items))


def first(parameter: str = "params") -> Typed:
    """main(x, params): the first parameter."""
    code = [call(ITEM, [r(1), i(0)], 7), ret(7)]
    return Typed(Function("main", code, ["x", parameter]), [X, tuple_of(W, B)])


def library(
    path: Path, *functions: Typed, weights: Any = SET, dialect: Any = "ffi", checked: bool = False
) -> Path:
    """A library of the functions and weights. `checked`: packing compares them."""
    builtins = [Function(f"vm.builtin.{name}") for name in BUILTINS]
    texts = [text for f in functions for text in f.contexts]
    program = Program([*builtins, *(f.function for f in functions)], texts, dialect)
    root = mblob.blob_module("relax.VMExecutable", payload(program, dialect))
    root.import_module(mblob.csource_module(""))
    if weights is None:
        root.export_library(path, dialect=dialect)
        return path
    module = mblob.safetensors_module(weights, order=True)
    if not checked:
        module = mblob.blob_module("safetensors", bytes(module.payload))
    root.import_module(module)
    root.export_library(path, dialect=dialect)
    return path


def payload(program: Program, dialect: str) -> bytes:
    code = program.payload()
    return code if dialect == "ffi" else len(code).to_bytes(8, "little") + code


def machine(path: Path) -> mblob.relax.VirtualMachine:
    return mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))


@pytest.mark.parametrize("dialect", ["ffi", "classic"])
def test_what_the_program_takes_is_given(tmp_path: Path, dialect: Any) -> None:
    vm = machine(library(tmp_path / "m.so", first(), dialect=dialect))
    found = vm["main"](np.zeros(1, "float32"), vm.params)
    np.testing.assert_array_equal(found.numpy(), SET["w"])


REFUSED = {
    "too few": ([W, B, B], "expected 3 tensors, found 2"),
    "too many": ([W], "expected 1 tensors, found 2"),
    "type": (['R.Tensor((2, 16), dtype="int8")', B], "tensor 'w': expected int8, found float32"),
    "dimensions": ([W, 'R.Tensor((3, 1), dtype="int8")'], r"tensor 'b': expected 2 dimensions, found shape \[3\]"),
    "rank": (["R.Tensor(ndim=3)", B], r"tensor 'w': expected 3 dimensions, found shape \[2,16\]"),
    "scalar": ([W, "R.Tensor(())"], r"tensor 'b': expected 0 dimensions, found shape \[3\]"),
    "shape": (["R.Tensor((n + T.int64(1), T.int64(8)))", B],
              r"tensor 'w': expected shape \[2,8\], found \[2,16\]"),
    "other order": ([B, W], "tensor 'w': expected int8, found float32"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["bytecode", "compiled"])
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_it_refuses_is_told_when_the_machine_is_made(
    tmp_path: Path, name: str, kind: str
) -> None:
    items, text = REFUSED[name]
    # the dialects differ in how the program is read, which one refusal shows
    for dialect in ("ffi", "classic") if name == "shape" else ("ffi",):
        path = library(tmp_path / f"{dialect}.so", main(*items, kind=kind), dialect=dialect)
        with pytest.raises(
            mblob.FormatError,
            match=f"parameters: function 'main', argument 1 params: {text}; replace them",
        ):
            machine(path)
        with pytest.raises(mblob.BuildError, match=rf"argument 1 params: {text}; .* order="):
            library(path, main(*items, kind=kind), dialect=dialect, checked=True)
        bare, out = tmp_path / "bare.so", tmp_path / "out.so"
        library(bare, main(*items, kind=kind), dialect=dialect, weights=None)
        with pytest.raises(
            mblob.BuildError, match=rf"bare.so: .*argument 1 params: {text}; .* order="
        ):
            mblob.add(bare, params=SET, output=out)
        lib = mblob.load_module(bare)
        lib.import_module(mblob.safetensors_module(SET, order=True))
        with pytest.raises(mblob.BuildError, match=f"argument 1 params: {text}"):
            lib.export_library(out)
        assert not out.exists()


def test_bytes_are_no_small_floats_as_in_a_call(tmp_path: Path) -> None:
    weights = {**SET, "b": np.arange(3, dtype="uint8")}
    float8 = 'R.Tensor((3,), dtype="float8_e4m3fn")'
    lib = library(tmp_path / "m.so", main(W, float8), weights=weights)
    with pytest.raises(mblob.FormatError, match=r"tensor 'b': expected float8_.*, found uint8"):
        machine(lib)


def other(*items: str) -> Typed:
    """A function of another tuple."""
    return function("other", state=tuple_of(*items))


TAKEN = {
    "no function takes a tuple": [function("main", x="")],
    "another function takes them": [main(W, B, B), other(W, B)],
    "the function takes another tuple, too": [function("main", state=tuple_of(W), params=tuple_of(W, B))],
    "the function takes them before another tuple": [function("main", all=tuple_of(W, B), state=tuple_of(W))],
    "they are passed one by one": [function("main", x=X, w=W, b=B), other(W)],
    "they are passed one by one, in front of an input": [function("main", w=W, b=B, x=X), other(W)],
    "nothing is said of an argument": [function("main", params=""), other(W)],
    "an argument may be anything": [function("main", state=tuple_of(W), p="R.Object"), other(W)],
    "dimensions are free": [
        main('R.Tensor((n, T.min(T.int64(2), m)), dtype="float32")', "R.Tensor(dtype=\"int8\")")
    ],
    "a tensor of any type and rank is one of them": [function("main", x=X, w="R.Tensor", b=B), other(W)],
    "another tuple is called params, too": [
        function("main", model_params=tuple_of(W, B), lora_params=tuple_of(W))
    ],
    "items are no tensors": [main("R.Any", "R.Shape([2, n])")],
    "a text is cut off": [function("main", s='R.Tensor((2, 16, dtype="float32"', b=B)],
    "a number is too long": [main('R.Tensor((2, 9999999999999999999), dtype="float32")', B)],
    "a text is about no argument": [Typed(Function("main", [ret(0)], ["x", "p", "q"]), ["", "", "R.Shape([n])"])],
}  # fmt: skip


@pytest.mark.parametrize("name", list(TAKEN))
def test_programs_that_may_take_them_open(tmp_path: Path, name: str) -> None:
    vm = machine(library(tmp_path / "m.so", *TAKEN[name]))
    assert [t.shape for t in vm.params] == [(2, 16), (3,)]


@pytest.mark.parametrize("kind", ["bytecode", "compiled"])
def test_a_tuple_called_params_is_their_place(tmp_path: Path, kind: str) -> None:
    """Whatever else the function takes: caches are objects."""
    decode = function("decode", kind, x=X, cache="", packed_params=tuple_of(W, W))
    with pytest.raises(mblob.FormatError, match="'decode', argument 2 packed_params: tensor 'b'"):
        machine(library(tmp_path / "m.so", decode))


@pytest.mark.parametrize(
    ("annotations", "item", "result", "left"),
    [
        ([X, W, B], None, "w", 2),
        ([X, X, tuple_of(W, B)], 1, "b", 1),
        (["", "", ""], 0, "w", 1),
    ],
)
def test_packed_parameters_are_the_last_inputs_where_nobody_sets_them(
    tmp_path: Path, annotations: list[str], item: int | None, result: str, left: int
) -> None:
    code = [ret(1)] if item is None else [call(ITEM, [r(2), i(item)], 3), ret(3)]
    typed = Typed(Function("main", code, ["x", "y", "p"]), annotations)
    vm = machine(library(tmp_path / "m.so", typed))
    assert vm.module["get_param_inputs"]("main") == left
    for name in ["x", "y", "p"][: 3 - left]:
        vm.module["set_one_input"]("main", name, np.zeros(1, "float32"))
    vm.invoke_stateful("main")
    np.testing.assert_array_equal(vm.get_outputs("main").numpy(), SET[result])
    vm.module["set_one_input"]("main", "y", np.zeros(2, "float32"))  # what is set wins
    if left == 2:
        vm.invoke_stateful("main")
        np.testing.assert_array_equal(vm.get_outputs("main").numpy(), np.zeros(2))


def test_inputs_with_the_names_of_parameters_are_these(tmp_path: Path) -> None:
    """Also if nothing checks them, in another order than that of the file."""
    for result, name in enumerate(["b", "w"], 1):
        typed = Typed(Function("main", [ret(result)], ["x", "b", "w"]), ())
        vm = machine(library(tmp_path / f"{name}.so", typed))
        assert vm.module["get_param_inputs"]("main") == 2
        vm.module["set_one_input"]("main", "x", np.zeros(1, "float32"))
        vm.invoke_stateful("main")
        np.testing.assert_array_equal(vm.get_outputs("main").numpy(), SET[name])
    vm = machine(library(tmp_path / "front.so", function("main", w="", b="", x="")))
    assert vm.module["get_param_inputs"]("main") == 0  # they are not the last ones


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("kind", ["bytecode", "compiled"])
def test_an_input_of_another_type_or_shape_than_its_parameter(
    tmp_path: Path, kind: str, dialect: Any
) -> None:
    for said in (W, 'R.Tensor((7,), dtype="int8")'):
        typed = function("main", kind, x=X, b=said)
        lib = library(tmp_path / "m.so", typed, dialect=dialect)
        with pytest.raises(
            mblob.FormatError,
            match=r"parameters: function 'main', argument 1 b: tensor 'b': expected .*, found",
        ):
            mblob.relax.VirtualMachine(mblob.load_module(lib), mblob.cpu(0))


def test_a_tuple_beside_inputs_with_the_names_of_parameters(tmp_path: Path) -> None:
    vm = machine(library(tmp_path / "m.so", function("main", state=tuple_of(X), w=W, b=B)))
    assert vm.module["get_param_inputs"]("main") == 2


@pytest.mark.filterwarnings("ignore::UserWarning")  # functions that are missing
def test_a_model_of_tvm_is_refused_for_each_difference(golden: Path, tmp_path: Path) -> None:
    """In both modes; `decode` also takes a tuple of caches, `p_decode` a cache that is an object."""
    for name in ("llama_legacy", "llama_paged"):
        with np.load(golden / "lm" / f"{name}.bytecode.npz") as stored:
            weights = {key[2:]: stored[key] for key in stored.files if key.startswith("p_")}
        names = list(weights)
        shaped = {**weights, names[1]: np.ones(95, "float32")}
        for mode in ("bytecode", "compiled"):
            for given, text in (
                (weights, ""),
                (dict(list(weights.items())[:-1]), f"expected {len(names)} tensors, found"),
                (dict(reversed(weights.items())), "tensor '.*': expected 1 dimensions, found"),
                (shaped, rf"tensor '{names[1]}': expected shape \[96\], found \[95\]"),
            ):
                path = tmp_path / "m.so"
                if not text:
                    mblob.add(golden / "lm" / f"{name}.{mode}.so", params=given, output=path)
                    assert len(machine(path).params) == len(names)
                    continue
                with pytest.raises(mblob.BuildError, match=f"packed_params: {text}"):
                    mblob.add(golden / "lm" / f"{name}.{mode}.so", params=given, output=path)


@pytest.mark.filterwarnings("ignore::mblob.PortabilityWarning")
@pytest.mark.filterwarnings("ignore:.*'forward' gets them in this order")
def test_a_program_of_tvm_gets_its_detached_parameters(golden: Path, tmp_path: Path) -> None:
    with np.load(golden / "relax" / "mlp_static.npz") as stored:
        x, *weights, expected = [stored[f"c0_{k}"] for k in ("a0", "a1", "a2", "a3", "a4", "r")]
    names = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    for known, order in ((names, names), (names, names[::-1]), ("dcba", "dcba")):
        mblob.add(
            golden / "relax" / "mlp_static.so",
            params=dict(zip(known, weights)),
            order=list(order),
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
    path = library(tmp_path / "m.so", other(W), main(W, W), function("third", state=tuple_of(B)))
    with pytest.raises(mblob.FormatError, match="function 'main', argument 1 params: tensor 'b'"):
        machine(path)


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


def save_as_others_do(path: Path, arrays: Any, order: Sequence[str]) -> None:
    """A file of safetensors, in this order."""
    header, data = {}, b""
    for name in order:
        array = arrays[name]
        kind = {"float32": "F32", "int8": "I8"}[str(array.dtype)]
        end = len(data) + array.nbytes
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_an_order_of_names_is_said_where_the_program_does_not_tell_its_own(tmp_path: Path) -> None:
    """Writers of safetensors sort names."""
    up, down = np.ones((2, 16), "float32"), np.zeros((2, 16), "float32")
    for name, arrays, items, said in (
        ("same", {"up": up, "down": down}, [W, W], True),
        ("by types", SET, [B, W], False),
        ("nothing told", SET, ["R.Any", "R.Any"], True),
        ("not sorted", {"up": up, "a": down[0]}, [W, "R.Any"], False),
    ):
        bare, file = (
            library(tmp_path / f"{name}.so", main(*items), weights=None),
            tmp_path / "w.safetensors",
        )
        save_as_others_do(file, arrays, sorted(arrays) if name != "not sorted" else list(arrays))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mblob.add(bare, params=file, output=tmp_path / "out.so")
            mblob.add(
                bare, params=file, order=list(arrays), output=tmp_path / "out2.so"
            ) if said else None
        texts = [str(w.message) for w in caught]
        assert len(texts) == said, (name, texts)
        assert all("is that of their names" in text and "order=" in text for text in texts)


def test_parameters_that_no_input_has_the_name_of_are_said(tmp_path: Path) -> None:
    bare = library(tmp_path / "m.so", function("main", x=X, p="", q=""), weights=None)
    with pytest.warns(UserWarning, match=r"no input \(x, p, q\) has the name of a parameter"):
        mblob.add(bare, params=SET, output=tmp_path / "out.so")
    mblob.add(bare, params={"p": SET["w"], "q": SET["b"]}, output=tmp_path / "out.so")


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("kind", ["bytecode", "compiled"])
def test_a_program_that_takes_none_gets_none(tmp_path: Path, kind: str, dialect: Any) -> None:
    """Add, its sources and a module by hand refuse them alike."""
    typed = [function("main", kind, x=X, s="R.Shape([n])"), function("more", kind, x=X)]
    bare, out = library(tmp_path / "m.so", *typed, dialect=dialect, weights=None), tmp_path / "o.so"
    text = r"parameters: no function takes a tuple, or 2 tensors: main\(x, s\), more\(x\); weights="
    with pytest.raises(mblob.BuildError, match=rf"m\.so: .*{text}"):
        mblob.add(bare, params=SET, output=out)
    by_hand = mblob.load_module(bare)
    by_hand.import_module(mblob.safetensors_module(SET, order=True))
    with pytest.raises(mblob.BuildError, match=text):
        by_hand.export_library(out)
    with pytest.raises(mblob.BuildError, match=text):
        library(out, *typed, dialect=dialect, checked=True)
    assert not out.exists()
    mblob.add(bare, weights=SET, output=out)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("pq", ""),
        ("pqz", "no input has the name of z"),
        ("p", "no tensor has the name of q, which 'main' takes behind 'p'; calls pass only"),
        ("pz", "name of q, which 'main' takes behind 'p'; no input has the name of z; calls"),
        ("zq", "no input has the name of z"),
    ],
)
def test_an_input_that_gets_no_parameter_is_said(
    tmp_path: Path, names: str, text: str, recwarn: pytest.WarningsRecorder
) -> None:
    bare = library(tmp_path / "m.so", function("main", x=X, p="", q=""), weights=None)
    mblob.add(bare, params={name: SET["w"] for name in names}, output=tmp_path / "out.so")
    said = [str(w.message) for w in recwarn]
    assert len(said) == bool(text) and all(text in line for line in said), said


def of_kernels(path: Path, **options: Any) -> Path:
    """A library of main(x, p, q), which gives p and q to kernels, and says nothing else about them."""
    kernel = len(BUILTINS)
    code = [call(kernel, [r(0), r(1)], 3), call(kernel, [r(3), r(2)], 4), ret(1)]
    takes = Typed(Function("main", code, ["x", "p", "q"]), [X])
    return library(path, Typed(Function("kernel"), []), takes, **options)


@pytest.mark.filterwarnings("ignore:.* kernel:UserWarning")  # there is none
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_more_tensors_than_kernels_take_are_told(tmp_path: Path, dialect: Any) -> None:
    """When they are packed, and when the machine is made: no input can be a tuple."""
    many = {f"w{i}": np.zeros(2, "float32") for i in range(4)}
    bare, options = tmp_path / "bare.so", {"dialect": dialect}
    of_kernels(bare, weights=None, **options)
    with pytest.raises(mblob.BuildError, match=r"a tuple, or 4 tensors: main\(x, p, q\); weights="):
        mblob.add(bare, params=many, output=tmp_path / "out.so")
    with pytest.raises(mblob.FormatError, match="parameters: no function takes 4 tensors; replace"):
        machine(of_kernels(tmp_path / "m.so", weights=many, **options))
    some = of_kernels(tmp_path / "m.so", weights={"a": SET["w"]}, **options)
    assert machine(some).module["get_param_inputs"]("main") == 0  # which of the last, nobody knows
    both = of_kernels(tmp_path / "m.so", **options)
    assert machine(both).module["get_param_inputs"]("main") == 2


def test_tensors_that_no_input_takes_are_told(tmp_path: Path) -> None:
    bare = library(tmp_path / "m.so", function("main", x=X, p=W, q=B), weights=None)
    for wrong, shown in (
        (SET["b"][:2], r"int8\[2\]"),
        (np.ones((2, 16), "int8"), r"int8\[2, 16\]"),
    ):
        text = (
            rf"no input takes tensor 'b', {shown}: main\(x float32\[1\], p float32\[2, 16\], q int8"
        )
        with pytest.raises(mblob.BuildError, match=text):
            mblob.add(bare, params={"a": SET["w"], "b": wrong}, output=tmp_path / "o.so")
    with pytest.warns(
        UserWarning, match=r"\(x, p, q\) has .*; 'main' gets them in this order, as p, q"
    ):
        mblob.add(bare, params={"a": SET["w"], "b": SET["b"]}, output=tmp_path / "o.so")


@pytest.mark.filterwarnings("ignore:TVM cannot open", "ignore:.*no input")
def test_run_names_each_input_that_gets_no_parameter(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.so"
    for given in (["p", "q"], ["p", "q", "r", "s"]):
        arrays = {name: np.ones(1, "float32") for name in given}
        mblob.add(golden / "relax" / "mlp_static.so", params=arrays, output=out)
        assert main_of_command(["run", str(out)]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        weights = "fc1.weight, fc1.bias, fc2.weight, fc2.bias"
        left = ["x float32[2, 32]", *([weights] if len(given) == 2 else [])]
        assert error.endswith(f"takes {', '.join(left)}; not given: {', '.join(left)}")
        assert ("parameters of the model:" in hint) == (len(given) == 2)


@pytest.mark.parametrize(
    ("told", "weights", "said"),
    [
        (function("main", x=X, w="", b=""), SET, True),
        (main(B, W), SET, True),  # in any order
        (main(B, B), SET, False),
        (function("main", x=X, p=""), SET, False),
    ],
)
def test_weights_that_the_program_takes_as_parameters_are_told(
    tmp_path: Path, told: Typed, weights: Any, said: bool, recwarn: pytest.WarningsRecorder
) -> None:
    bare, out, file = (tmp_path / name for name in ("m.so", "out.so", "p.safetensors"))
    library(bare, told, weights=None)
    mblob.save_tensors(file, weights)
    mblob.add(bare, weights=[file], output=out)
    by_hand = mblob.load_module(bare)
    by_hand.import_module(mblob.safetensors_module(weights))
    by_hand.export_library(out)
    texts = [str(w.message) for w in recwarn]
    assert len(texts) == 2 * said, texts
    assert all("packed as weights, which" in text and "; params= packs" in text for text in texts)
    if said:
        assert texts[0].startswith(f"{file}: ")
        order = {"order": ["b", "w"]}
        mblob.add(bare, params=file, weights={"more": SET["b"]}, output=out, **order)
        mblob.add(out, weights={"another": SET["b"]})
        assert len(recwarn) == 2


def test_a_tuple_of_any_name_is_their_place(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    told = function("main", x=X, y=X, weights=tuple_of(W, B))
    mblob.add(library(tmp_path / "m.so", told, weights=None), params=SET, output=tmp_path / "o.so")
    assert not [str(w.message) for w in recwarn]


def seconds(rows: list[Function], texts: list[str], names: list[str]) -> float:
    """Those of the check of a program; FormatError if it refuses tensors of these names."""
    code = Program(rows, texts).payload()  # which what is read is in
    program = read_relax(memoryview(code), FFI)
    begin = time.thread_time()
    check_relax_parameters(program, [(name, DataType.parse("float32"), (1,)) for name in names])
    return time.thread_time() - begin


def compare(functions: int, texts: int, kernels: int = 0) -> float:
    """Seconds of the check of a program whose functions take a tuple of one tensor, given two."""
    rows = [Function(f"f{k}", [ret(0)], num_args=1) for k in range(functions)]
    rows += [Function(f"kernel{k}", kind=PACKED) for k in range(kernels)]
    said = [f"ErrorContext(fn=f{k % functions}, loc=param[0], param=p, annotation={tuple_of(W)}) "
            for k in range(texts)]  # fmt: skip
    return seconds(rows, said, ["t", "u"])


TWO_FOR_ONE = "'f0', argument 0 : expected 1 tensors, found 2"


def test_a_crafted_program_does_not_keep_the_check_busy() -> None:
    with pytest.raises(mblob.FormatError, match=TWO_FOR_ONE):
        compare(1000, 1000)
    assert compare(20000, 20000) < 0.5


def test_kernels_of_a_program_do_not_switch_the_check_off() -> None:
    with pytest.raises(mblob.FormatError, match=TWO_FOR_ONE):
        compare(20, 10000, kernels=4000)


@pytest.mark.parametrize("functions", [1, 10])
def test_many_inputs_are_found_by_name_in_linear_time(functions: int) -> None:
    def of(count: int) -> tuple[list[str], list[Function]]:
        inputs = [f"p{k}" for k in range(count)]
        return inputs, [
            Function(f"f{k}", [ret(0)], inputs, registers=count) for k in range(functions)
        ]

    def needed(count: int) -> float:
        rows, names = of(count)[1], [f"t{k}" for k in range(count)]
        return min(seconds(rows, [], names) for _ in range(4))

    count = 20000 // functions
    assert needed(count) < 8 * needed(count // 4)  # 4 times, and 16 if it took the square
    inputs, rows = of(count)
    told = [f"ErrorContext(fn=f0, loc=param[{count - 1}], param=p, annotation={W}) "]
    with pytest.raises(
        mblob.FormatError, match=f"argument {count - 1} p{count - 1}: tensor 'p{count - 1}'"
    ):
        seconds(rows, told, inputs[::-1])
