"""docs/errors.md: causes of errors, and the classes of each. One test for each row of its table."""

from __future__ import annotations

import ast
import builtins
import copy
import decimal
import json
import operator
import pickle
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import errors
from mblob.cli.report import exit_code
from mblob.loader import callbacks
from mblob.native import runtime
from mblob.packager.modules.prototype_parser import parse
from tests.unit.error_cases import GRAPH, PTX, VADD, VADD_SOURCE, A, C, Case

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
# a library without a loader starts plug-ins
pytestmark = [pytest.mark.own_process, pytest.mark.compiles]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("errors"))


WRONG: dict[str, Callable[[Case], Any]] = {
    "type of an argument": lambda t: mblob.load_module(None),  # type: ignore[call-overload]
    "value of an argument": lambda t: mblob.empty((1,), "floot32"),
    "number of arguments of a function": lambda t: t.vadd(A, A, C),
    "assignment to a tensor, payload or function of a library": lambda t: operator.setitem(
        t.lib.tensors, "fc.weight", A
    ),
    "dtype of an array": lambda t: t.vadd(A.astype("float64"), A, C, 4),
    "layout of an array": lambda t: t.vadd(np.ones(8, "float32")[::2], A, C, 4),
    "integer that has more than 64 bits": lambda t: t.vadd(A, A, C, 2**70),
    "sizes that do not match, found by `bind`": lambda t: t.lib["vadd"].bind(A, A, C, 5),
    "sizes that do not match, found by the called function": lambda t: t.vadd(A, A, C, 5),
    "type of an argument, found by the called function": lambda t: t.vadd(None, A, C, 4),
    "array that an executor rejects": lambda t: t.model().set_input("x", np.ones(3, "float32")),
    "unknown input of an executor": lambda t: t.model().set_input("y", np.ones(2, "float32")),
    "unknown function, asked for by key or attribute": lambda t: t.lib["vad"],
    "unknown tensor": lambda t: t.lib.tensors["fc.weigh"],
    "unknown system library": lambda t: mblob.system_lib("zz"),
    "unknown global function": lambda t: mblob.get_global_func("nope"),
    "error of a kernel, with a kind": lambda t: t.fails("IndexError: row 7 of 4"),
    "error of a kernel, without a kind": lambda t: t.fails("the sensor is gone"),
    "a [C++ exception](limits.md#c-exceptions) that leaves a kernel": lambda t: t.throws(),
    "file that is damaged or not a library": lambda t: mblob.open(t.folder / "v.c"),
    "bytes that differ from their digest": lambda t: mblob.verify(
        t.changed(np.float32([4, 5]).tobytes(), np.float32([4, 6]).tobytes())
    ),
    "unpickling a library, if the file at its path is now another library": lambda t: (
        t.pickle_of_another()
    ),
    "pickling a module that was loaded from memory, or with `loaders=`": lambda t: pickle.dumps(
        mblob.load_module(t.file.read_bytes())
    ),
    "pickling a function without a module": lambda t: pickle.dumps(mblob.packed_function(len)),
    "pickling a library whose file was replaced": lambda t: pickle.dumps(t.replaced()),
    "library for another machine": lambda t: mblob.load_module(t.foreign()),
    "module whose type key has no loader": lambda t: mblob.load_module(t.unknown_key()),
    "value of an argument when packing": lambda t: mblob.csource_module("").export_library(
        "x.so", dialect="fi"
    ),  # type: ignore[call-overload]
    "type of an argument when packing": lambda t: mblob.csource_module(3),  # type: ignore[arg-type]
    "unknown entry or tensor in `swap` or `extract`": lambda t: mblob.swap(
        t.file, None, t.folder / "o.so", weights={"fc.weigh": A}
    ),
    "failed or missing compiler or linker": lambda t: t.broken_source(),
    "error in a loader written in Python": lambda t: t.opened_by(lambda payload, ctx: 1 // 0),
    "change of a `Device`": lambda t: setattr(mblob.cpu(), "device_id", 1),
    "call of a function whose module no longer exists": lambda t: callbacks._LookedUpAtEachCall(
        lambda name: None, "f", "the module"
    )(),
    "second export of a module whose payload was an iterator, which can be read once": lambda t: (
        t.exported_twice()
    ),
}


def rows() -> dict[str, tuple[list[str], str]]:
    """Of the first table: the cause -> the names of classes, the example."""
    found = {}
    for line in PAGE.partition("## Kinds")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] not in ("cause", "---"):
            names = re.findall(r"`(\w+)`", f"{cells[1]} {cells[2]}")
            found[cells[0]] = (names, cells[3].strip("`"))
    return found


def class_of(name: str) -> type[Exception]:
    return getattr(mblob.errors, name, None) or getattr(builtins, name)


def error_of(case: Case, row: str) -> BaseException:
    with pytest.raises(Exception) as caught:
        WRONG[row](case)
    if isinstance(caught.value, mblob.ToolchainError) and "no C++ compiler" in str(caught.value):
        raise caught.value  # then the test is skipped
    return caught.value


def test_each_status_of_c_has_a_row_and_is_left_to_no_default() -> None:
    root = Path(__file__).parents[2]
    source = (root / "csrc/plugins/ffi/errors.c").read_text()
    switch = source.partition("kind_of_status(int status) {")[2].partition("\n}")[0]
    kinds = dict(re.findall(r'case (MBLOB_E_\w+): return "(\w+)";', switch))
    kinds |= dict.fromkeys(re.findall(r"case (MBLOB_E_\w+):(?! return)", switch), "RuntimeError")
    found = {}
    for name in re.findall(r"(MBLOB_E_\w+) = \d+", (root / "csrc/include/mblob.h").read_text()):
        runtime.lib.mblob_set_error(getattr(runtime.lib, name), b"a text")
        error = runtime.last_error()
        names = (c.__name__ for c in type(error).__mro__)
        named = next(n for n in names if n in mblob.__all__ or hasattr(builtins, n))
        found[name] = [named, str(exit_code(error)), kinds.get(name, "none")]
    assert "StateError" not in {row[0] for row in found.values()}
    table = PAGE.partition("## Statuses in C")[2].partition("\n## ")[0]
    cells = (re.split(r" *\| *", line) for line in table.splitlines() if "| `MBLOB_E_" in line)
    rows = {c[1]: [c[2], c[3].partition(",")[0], c[4]] for c in cells}
    assert {k: [n.strip("`") for n in v] for k, v in rows.items()} == {
        f"`{k}`": v for k, v in found.items()
    }


def test_each_row_has_a_test() -> None:
    assert list(WRONG) == list(rows())


@pytest.mark.parametrize("row", WRONG)
def test_an_error_has_the_classes_and_the_text_of_its_row(case: Case, row: str) -> None:
    names, example = rows()[row]
    error = error_of(case, row)
    expected = [class_of(name) for name in names]
    if row == "error of a kernel, with a kind":
        expected.append(IndexError)
    assert isinstance(error, mblob.MblobError)
    assert [c for c in expected if not isinstance(error, c)] == []
    plain = {
        KeyError,
        AttributeError,
        TypeError,
        ValueError,
        RuntimeError,
        IndexError,
        OverflowError,
    }
    assert {c for c in plain if isinstance(error, c)} == plain & set(expected)
    text = str(error).replace(f"{case.folder}/", "")
    assert "\n" not in text
    assert (
        text.startswith(example[:-3]) if example.endswith("...") else not example or text == example
    )


@pytest.mark.parametrize("row", WRONG)
def test_an_error_can_be_pickled_and_copied(case: Case, row: str) -> None:
    error = error_of(case, row)
    error.note = ["a"]  # type: ignore[attr-defined]
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (str(again), again.args) == (str(error), error.args)
        assert again.__dict__ == {**error.__dict__}


def test_no_error_is_of_the_base_class_alone() -> None:
    """Each has a class that says what went wrong, of the table."""
    root = Path(mblob.__file__).parents[1]
    found = []
    for path in (
        p for room in ("mblob", "packager", "loader") for p in (root / room).rglob("*.py")
    ):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "MblobError(" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "MblobError":
                found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_each_class_of_an_error_is_that_of_one_name() -> None:
    """Those that have a name of their own."""
    for row in (errors.ArgumentTypeError, errors.ArgumentValueError, errors.BuildTypeError):
        assert getattr(errors, row.__name__) is row
    assert errors.also(errors.ArgumentError, TypeError) is errors.ArgumentTypeError
    assert errors.also(errors.ArgumentError, ValueError, TypeError) is errors.also(
        errors.ArgumentError, TypeError, ValueError
    )
    assert errors.also(errors.KernelError) is errors.KernelError


@pytest.mark.parametrize(
    ("base", "others"),
    [
        (errors.ArgumentError, (TypeError, ValueError)),
        (errors.KernelError, (RuntimeError, ValueError)),
        (errors.KernelError, (IndexError,)),
        (errors.NotFoundError, (ValueError, RuntimeError)),
        (errors.BuildError, (errors.NotFoundError,)),
        (errors.IncompatibleError, (ImportError,)),
        (errors.ArgumentTypeError, (OverflowError,)),
    ],
)
def test_a_traceback_shows_a_class_that_programs_can_import(
    base: type[errors.MblobError], others: tuple[type[Exception], ...]
) -> None:
    error = errors.also(base, *others)("what")
    assert all(isinstance(error, c) for c in (base, *others)) and type(error) is not base
    (shown,) = traceback.format_exception_only(type(error), error)
    assert shown == f"mblob.errors.{base.__name__}: what\n"
    assert getattr(errors, type(error).__qualname__) is base
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == "what"


TWO = np.ones(2, "float32")
CODES: dict[str, list[tuple[Any, ...]]] = {
    "argument_type": [("set_input", "x", 5), ("get_output", "x", None), ("share_params", 3, b"")],
    "argument_count": [("set_input", "x"), ("get_output", 0, 1, 2), ("set_input",)],
    "argument_dtype": [("set_input", "x", TWO.astype("int32")), ("get_output", 0, TWO.astype("int8"))],
    "argument_index": [("set_input", 7, TWO), ("get_output", 7), ("get_output", -1)],
    "argument_name": [("set_input", "y", TWO), ("get_input", "no input 3")],
    "argument_value": [("set_input", "x", np.ones(3, "float32")), ("get_output", 0, np.ones(3, "float32"))],
}  # fmt: skip


def classes_of_code(code: str) -> set[type[Exception]]:
    """What the page's table of codes says."""
    line = next(x for x in PAGE.splitlines() if x.startswith("|") and f"`{code}`" in x)
    names = re.findall(r"`(\w+)`", line.split("|")[2])
    return {class_of(name) for name in names if hasattr(builtins, name)}


@pytest.mark.parametrize("code", CODES)
def test_the_code_of_c_decides_the_class(case: Case, code: str) -> None:
    from mblob.native.runtime import lib, text

    for call in CODES[code]:
        with pytest.raises(mblob.MblobError) as caught:
            case.refused_by_model(*call)
        assert text(lib.mblob_last_error_info().code) == code, call
        plain = (KeyError, AttributeError, TypeError, ValueError, IndexError)
        found = {c for c in plain if isinstance(caught.value, c)}
        assert found == classes_of_code(code), call


NAMES = (
    "expected int8, found bool;",
    "x: no input 'y'",
    "expected 2 arguments, found 3",
    "a: no output 7",
    "expected a tensor, found None",
)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_text_changes_the_class(case: Case, name: str) -> None:
    graph = json.loads(json.dumps(GRAPH))
    graph["nodes"][0]["name"] = name
    model = mblob.graph_executor.create(json.dumps(graph), case.lib, mblob.cpu())
    with pytest.raises(ValueError, match="expected shape") as caught:
        model.set_input(name, np.ones(3, "float32"))
    assert name in str(caught.value)
    assert not isinstance(caught.value, (TypeError, KeyError, IndexError))


KINDS = {
    "ValueError": ValueError, "IndexError": IndexError, "KeyError": KeyError,
    "NotImplementedError": NotImplementedError,
    "OpNotImplemented": NotImplementedError, "OpAttributeUnImplemented": NotImplementedError,
    "OpAttributeRequired": AttributeError, "OpAttributeInvalid": AttributeError, "InternalError": RuntimeError,
    "tvm.error.InternalError": RuntimeError, "SystemExit": RuntimeError, "StopIteration": RuntimeError,
    "UnicodeDecodeError": UnicodeError, "Exception": Exception, "int": RuntimeError,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernels_kind_is_a_class(case: Case, kind: str) -> None:
    with pytest.raises(mblob.KernelError) as caught:
        case.fails(f"{kind}: no such row")
    assert isinstance(caught.value, KINDS[kind])
    assert str(caught.value) == f"{kind}: no such row"
    assert caught.value.kind == ("" if kind == "int" else kind)


MISTAKES: dict[str, Callable[[Case], Any]] = {
    "load_module, fmt": lambda t: mblob.load_module(t.file, 5),  # type: ignore[call-overload]
    "load_module, verify": lambda t: mblob.load_module(t.file, verify="x"),  # type: ignore[call-overload]
    "open": lambda t: mblob.open(3),  # type: ignore[arg-type]
    "verify": lambda t: mblob.verify(3),  # type: ignore[arg-type]
    "verify, level": lambda t: mblob.verify(t.file, level="x"),  # type: ignore[arg-type]
    "diff": lambda t: mblob.diff(t.file, 3),  # type: ignore[arg-type]
    "extract": lambda t: mblob.extract(3, 4),  # type: ignore[arg-type]
    "extract, entries": lambda t: mblob.extract(t.file, "o.bin", entries=3),  # type: ignore[arg-type]
    "extract, tensors": lambda t: mblob.extract(t.file, "o.bin", tensors=3),  # type: ignore[arg-type]
    "add": lambda t: mblob.add(3, blobs={}),  # type: ignore[arg-type]
    "add, blobs": lambda t: mblob.add(t.file, blobs=3),  # type: ignore[arg-type]
    "add, weights": lambda t: mblob.add(t.file, weights=3),
    "swap": lambda t: mblob.swap(3, {}),  # type: ignore[arg-type]
    "swap, changes": lambda t: mblob.swap(t.file, "o.so"),  # type: ignore[arg-type]
    "swap, weights": lambda t: mblob.swap(t.file, None, "o.so", weights=3),  # type: ignore[arg-type]
    "strip_index": lambda t: mblob.strip_index(3, "o.so"),  # type: ignore[arg-type]
    "add_index": lambda t: mblob.add_index(3, "o.so"),  # type: ignore[arg-type]
    "convert": lambda t: mblob.convert(3, "o.so", dialect="ffi"),  # type: ignore[arg-type]
    "csource_module, functions": lambda t: mblob.csource_module("", functions=3),  # type: ignore[arg-type]
    "csource_module, options": lambda t: mblob.csource_module("", options=3),  # type: ignore[arg-type]
    "static_library": lambda t: mblob.static_library(3),
    "blob_module": lambda t: mblob.blob_module("k", 3),
    "safetensors_module": lambda t: mblob.safetensors_module(3),
    "safetensors_module, array": lambda t: mblob.safetensors_module(A),
    "safetensors_module, values": lambda t: mblob.safetensors_module({"a": [1.0]}),
    "safetensors_module, dtype": lambda t: mblob.safetensors_module({"a": np.array(["text"])}),
    "csource_module, packed": lambda t: mblob.csource_module("", packed=3),  # type: ignore[arg-type]
    "json_module": lambda t: mblob.json_module("dnnl_json", "f", 3),  # type: ignore[arg-type]
    "create": lambda t: mblob.graph_executor.create(None, t.lib),  # type: ignore[arg-type]
    "load_params": lambda t: t.model().load_params(3),
    "Shape": lambda t: mblob.Shape(3),  # type: ignore[arg-type]
    "Shape, extent": lambda t: mblob.Shape((1, "a")),  # type: ignore[list-item]
    "relax.VirtualMachine": lambda t: mblob.relax.VirtualMachine(t.lib, mblob.cpu()),
    "save_tensors": lambda t: mblob.save_tensors(t.folder / "o.safetensors", 3),  # type: ignore[arg-type]
    "save_tensors, path": lambda t: mblob.save_tensors(3, {"a": A}),  # type: ignore[arg-type]
    "save_param_dict": lambda t: mblob.save_param_dict(3),  # type: ignore[arg-type]
    "load_param_dict": lambda t: mblob.load_param_dict(3),  # type: ignore[arg-type]
    "export_library": lambda t: mblob.csource_module("").export_library(3),  # type: ignore[call-overload]
    "import_module": lambda t: mblob.csource_module("").import_module(3),  # type: ignore[arg-type]
    "symbol": lambda t: t.lib.symbol(3),  # type: ignore[arg-type]
    "module[3]": lambda t: t.lib[3],  # type: ignore[index]
    "array": lambda t: mblob.array(object()),
    "array, device": lambda t: mblob.array(A, 5),  # type: ignore[arg-type]
    "from_dlpack": lambda t: mblob.from_dlpack(3),
    "device": lambda t: mblob.device("foo"),
    "cpu": lambda t: mblob.cpu("x"),  # type: ignore[arg-type]
    "get_global_func": lambda t: mblob.get_global_func(3),  # type: ignore[call-overload]
    "register_func": lambda t: mblob.register_func(3),  # type: ignore[call-overload]
    "register_loader": lambda t: mblob.register_loader(3),  # type: ignore[arg-type]
    "register_codegen": lambda t: mblob.register_codegen(3),  # type: ignore[arg-type]
    "system_lib": lambda t: mblob.system_lib(3),  # type: ignore[arg-type]
    "GraphModule": lambda t: mblob.graph_executor.GraphModule(3),  # type: ignore[arg-type]
    "GraphModule of a library": lambda t: mblob.graph_executor.GraphModule(t.lib),
    "AotModule of a library": lambda t: mblob.aot_executor.AotModule(t.lib),
    "AotModule": lambda t: mblob.aot_executor.AotModule(3),  # type: ignore[arg-type]
    "VirtualMachine": lambda t: mblob.vm.VirtualMachine(3, mblob.cpu()),  # type: ignore[arg-type]
    "a keyword": lambda t: t.lib["vadd"](A, A, C, n=4),
    "a surrogate": lambda t: t.vadd("\udc80", A, C, 4),
    "a list": lambda t: t.vadd([1.0], A, C, 4),
    "swap, names of weights": lambda t: mblob.swap(t.file, None, "o.so", weights={0: A}),  # type: ignore[dict-item]
    "export_library, options": lambda t: mblob.csource_module("").export_library(
        "o.so", options="'a"
    ),
    "export_library, addons": lambda t: mblob.csource_module("").export_library("o.so", addons=5),  # type: ignore[call-overload]
    "export_library, carry": lambda t: mblob.csource_module("").export_library("o.so", carry=5),  # type: ignore[call-overload]
    "export_library, target": lambda t: mblob.csource_module("").export_library("o.so", target=5),  # type: ignore[call-overload]
    "copy, value": lambda t: t.graph().copy(5, mblob.cpu()),
    "call, inputs": lambda t: t.graph().call("f", 5, (4,)),
    "call, attrs": lambda t: t.graph().call("f", [], (4,), attrs=5),
    "call, an attribute": lambda t: t.graph().call("f", [], (4,), attrs={"a": object()}),
    "call_many, outputs": lambda t: t.graph().call_many("f", [], 5),
    "call_many, an output": lambda t: t.graph().call_many("f", [], [5]),
    "graph_executor_factory, no JSON": lambda t: mblob.graph_executor_factory({"nodes": object()}),
    "json_module, symbol": lambda t: mblob.json_module("dnnl_json", 5, "{}"),  # type: ignore[arg-type]
    "json_module, no JSON": lambda t: mblob.json_module("dnnl_json", "f", {"a": object()}),
    "json_module, NaN": lambda t: mblob.json_module("dnnl_json", "f", {"a": float("nan")}),
    "json_module, const_names": lambda t: mblob.json_module("dnnl_json", "f", "{}", None),  # type: ignore[arg-type]
    "const_loader_module": lambda t: mblob.const_loader_module(5, {}),  # type: ignore[arg-type]
    "const_loader_module, symbols": lambda t: mblob.const_loader_module({"a": A}, {"f": 5}),  # type: ignore[dict-item]
    "device_module, functions": lambda t: mblob.device_module("cuda", PTX, 5),  # type: ignore[arg-type]
    "device_module, arg_types": lambda t: mblob.device_module("cuda", PTX, [("k", 5)]),
    "device_module, launch": lambda t: mblob.device_module("cuda", PTX, launch=5),  # type: ignore[arg-type]
    "device_module, fmt": lambda t: mblob.device_module("cuda", PTX, [("k", [])], fmt=5),  # type: ignore[arg-type]
    "verify, against": lambda t: mblob.verify(t.file, against=5),  # type: ignore[arg-type]
    "verify, against as text": lambda t: mblob.verify(t.file, against="libm.so.6"),
    "open, machine": lambda t: mblob.open(t.file, machine=5),  # type: ignore[arg-type]
    "extract, written": lambda t: mblob.extract(t.file, t.folder / "o.bin", written=5),  # type: ignore[arg-type]
    "convert, file_name": lambda t: mblob.convert(t.file, 5, dialect="ffi"),  # type: ignore[arg-type]
    "convert, objects": lambda t: mblob.convert(t.file, "o.so", dialect="ffi", objects=5),  # type: ignore[arg-type]
    "time_evaluator, number": lambda t: t.lib.time_evaluator("vadd", number="a")(A, A, C, 4),
    "time_evaluator, cooldown": lambda t: t.lib.time_evaluator("vadd", cooldown_interval_ms="a")(
        A, A, C, 4
    ),
    "save_param_dict, names": lambda t: mblob.save_param_dict({"a": A, 0: A}),  # type: ignore[dict-item]
    "an attribute of a module": lambda t: setattr(t.lib, "payload", b""),
    "a bound function": lambda t: t.lib["vadd"].bind(A, A, C, 4)(1),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_users_mistake_is_an_error_of_mblob_that_names_it(case: Case, mistake: str) -> None:
    with pytest.raises(mblob.MblobError) as caught:
        MISTAKES[mistake](case)
    assert isinstance(caught.value, (TypeError, ValueError))
    assert re.search("expected|found|not|without|are bound|pass bytes", str(caught.value))


MEANT: dict[str, tuple[Callable[[Case], Any], str]] = {
    "a name of mblob": (lambda t: mblob.csource_modul(""), "csource_module"),  # type: ignore[attr-defined]
    "a method": (lambda t: t.lib.get_functon("vadd"), "get_function"),
    "a method before export": (lambda t: mblob.csource_module("").exort_library("o.so"), "export_library"),
    "a property": (lambda t: t.lib.tensor, "tensors"),
    "a property of Library": (lambda t: mblob.open(t.file).entires, "entries"),  # type: ignore[attr-defined]
    "another case": (lambda t: t.lib["VADD"], "vadd"),
    "keyword of export_library": (lambda t: mblob.csource_module("").export_library("o.so", dialct="ffi"), "dialect"),  # type: ignore[call-overload]
    "dialect": (lambda t: mblob.csource_module("").export_library("o.so", dialect="fif"), "ffi"),  # type: ignore[call-overload]
    "embed": (lambda t: mblob.csource_module("").export_library("o.so", embed="gorw"), "grow"),  # type: ignore[call-overload]
    "digest": (lambda t: mblob.csource_module("").export_library("o.so", digest="sha265"), "sha256"),  # type: ignore[call-overload]
    "carry": (lambda t: mblob.csource_module("").export_library("o.so", carry=["opncl"]), "opencl"),
    "fmt": (lambda t: mblob.csource_module("", fmt="CPP"), "cpp"),  # type: ignore[arg-type]
    "dialect of convert": (lambda t: mblob.convert(t.file, "o.so", dialect="fif"), "ffi"),  # type: ignore[arg-type]
    "kind of device_module": (lambda t: mblob.device_module("opncl", "x"), "opencl"),  # type: ignore[arg-type]
    "fmt of device_module": (lambda t: mblob.device_module("cuda", "x", compile=True, fmt="cubn"), "cubin"),
    "verify of load_module": (lambda t: mblob.load_module(t.file, verify="ful"), "full"),  # type: ignore[call-overload]
    "missing of load_module": (lambda t: mblob.load_module(t.file, missing="stubs"), "stub"),  # type: ignore[call-overload]
    "level of verify": (lambda t: mblob.verify(t.file, level="ful"), "full"),  # type: ignore[arg-type]
    "verify of open": (lambda t: mblob.open(t.file, verify="ful"), "full"),  # type: ignore[arg-type]
    "format of extract": (lambda t: mblob.extract(t.file, "o/", tensors=True, format="safetensor"), "safetensors"),  # type: ignore[arg-type]
    "entry of extract": (lambda t: mblob.extract(t.file, "o/", entries="safetensor"), "safetensors"),
    "tensor of extract": (lambda t: mblob.extract(t.file, "o/", tensors="fc.wieght"), "fc.weight"),
    "device": (lambda t: mblob.device("cdua"), "cuda"),
    "dtype": (lambda t: mblob.empty((1,), "flaot32"), "float32"),
    "dtype with lanes": (lambda t: mblob.empty((1,), "flaot32x4"), "float32"),
    "type in a prototype": (
        lambda t: mblob.csource_module(
            "void f(float *x) {}", functions="void f(flaot *x)"
        ).export_library(t.folder / "o.so"),
        "float",
    ),
    "function of a prototype": (
        lambda t: mblob.csource_module(
            VADD_SOURCE, functions=VADD.replace("vadd", "vad")
        ).export_library(t.folder / "o.so"),
        "vadd",
    ),
}  # fmt: skip


@pytest.mark.parametrize("misspelt", MEANT)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(case: Case, misspelt: str) -> None:
    wrong, meant = MEANT[misspelt]
    with pytest.raises((mblob.MblobError, AttributeError)) as caught:
        wrong(case)
    assert str(caught.value).endswith(f"; did you mean {meant!r}?")


def test_an_allocator_that_is_none_is_named(case: Case) -> None:
    from mblob.loader.vm_common import placements

    for config in ("nave", {mblob.cpu(): "nave"}):
        with pytest.raises(mblob.ArgumentError, match=r"memory_cfg: .*did you mean 'naive'"):
            placements([mblob.cpu()], config)  # type: ignore[arg-type]
    for config in (3, ["naive"]):
        with pytest.raises(mblob.ArgumentError, match="memory_cfg: expected one of naive, pooled"):
            placements([mblob.cpu()], config)  # type: ignore[arg-type]


TOLD: dict[str, tuple[Callable[[], Any], str]] = {
    "a list of weights": (
        lambda: mblob.safetensors_module([A, A]),  # type: ignore[arg-type]
        "safetensors_module: expected a path, bytes, or a dictionary of arrays, found list; give each array"
        " a name: {'w': array}",
    ),
    "a list for an array": (
        lambda: mblob.safetensors_module({"w": [1, 2]}),
        "tensor 'w': expected an array with the buffer protocol, found list; make it an array with numpy.asarray(x)",
    ),
    "a dictionary as payload": (
        lambda: mblob.blob_module("k", {"a": 1}),
        "blob_module: expected bytes, a path or an iterable of buffers, found dict",
    ),
    "a library for an executor": (
        lambda: mblob.graph_executor.GraphModule(mblob.Module("library")),
        "GraphModule: module: expected the executor that a model's function gives, as lib['default'](mblob.cpu(0)),"
        " found a module 'library'; it has no model: call its functions, as lib.NAME(...)",
    ),
    "a text for a list": (
        lambda: mblob.csource_module("").export_library("o.so", addons="k.o"),  # type: ignore[call-overload]
        "export_library: addons: expected a list of paths, found 'k.o'; write ['k.o']",
    ),
    "a level": (
        lambda: mblob.verify("x.so", "ful"),  # type: ignore[arg-type]
        "verify: level: expected one of off, header, full, found 'ful'; did you mean 'full'?",
    ),
    "a path to compare": (
        lambda: mblob.diff(5, "x.so"),  # type: ignore[arg-type]
        "diff: a: expected a path, found int",
    ),
    "a parameter of no array": (
        lambda: mblob.save_param_dict({"w": 5}),
        "save_param_dict: params['w']: expected an array with the buffer protocol, found int",
    ),
    "a missing source": (
        lambda: mblob.csource_module("k.rs"),
        "[Errno 2] csource_module: no such file: 'k.rs'",
    ),
    "a complex type": (
        lambda: parse("void f(double complex x)"),
        "f: parameter 0 (x): double _Complex by value is not supported: complex numbers are passed in arrays; give a"
        " function that takes a pointer to them",
    ),
    "a text as payload": (
        lambda: mblob.blob_module("k", "text"),
        "[Errno 2] blob_module: no such file (give a text that is itself the payload as bytes): 'text'",
    ),
}


@pytest.mark.parametrize("mistake", TOLD)
def test_a_text_says_what_to_pass(mistake: str) -> None:
    wrong, text = TOLD[mistake]
    with pytest.raises((mblob.MblobError, FileNotFoundError)) as caught:
        wrong()
    assert str(caught.value) == text


def test_a_module_is_not_changed_by_assignment(case: Case) -> None:
    with pytest.raises(mblob.ArgumentError, match=r"functions cannot be changed \('vadd'\).*too$"):
        case.lib.vadd = 3  # type: ignore[method-assign]
    with pytest.raises(mblob.ArgumentError, match=r"functions cannot be changed \('vadd'\).*too$"):
        del case.lib.vadd
    with pytest.raises(mblob.ArgumentError, match=r"did you mean 'vadd'\?$"):
        case.lib.vad = 3  # type: ignore[method-assign]
    with pytest.raises(mblob.ArgumentError, match="'payload' cannot be changed"):
        case.lib.payload = b""  # type: ignore[misc]


NUMBERS = """
int whole(long n) { return (int)n; }
int real(double x) { return (int)x; }
int text(const char *s) { return s[0]; }
"""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("whole", decimal.Decimal(1), "expected int, found decimal.Decimal; pass int\\(n\\)$"),
        ("real", [1.0], "expected float, found list$"),
        ("text", "a\0b", "has a NUL inside, .*; pass a str without$"),
    ],
)
def test_what_a_plain_function_cannot_take_is_answered_by_what_it_can(
    numbers: mblob.Module, name: str, value: Any, words: str
) -> None:
    with pytest.raises(mblob.ArgumentError, match=words):
        numbers[name](value)


def test_a_float_is_what_python_makes_one_of(numbers: mblob.Module) -> None:
    assert numbers["real"](decimal.Decimal(7)) == 7


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    file = tmp_path_factory.mktemp("numbers") / "t.so"
    functions = ["int whole(long n)", "int real(double x)", "int text(const char *s)"]
    mblob.csource_module(NUMBERS, functions=functions).export_library(file)
    return mblob.load_module(file)


def test_a_text_for_a_payload_of_swap_says_to_pass_bytes(case: Case) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"swap: no such file .give a text that is .* as bytes"
    ):
        mblob.swap(case.file, {"safetensors": "text"}, case.folder / "o.so")
    with pytest.raises(
        FileNotFoundError, match=r"safetensors_module: no such file: 'w.safetensor'"
    ):
        mblob.safetensors_module("w.safetensor")
