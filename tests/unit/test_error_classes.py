"""docs/errors.md: what went wrong, and the classes of the error. One test for each row of its table."""

from __future__ import annotations

import builtins
import copy
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import errors
from mblob.loader import bridge

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text("utf-8")
VADD = "void vadd(const float a[n], const float b[n], float c[n], int n)"
SOURCE = """
#include <tvm/runtime/c_runtime_api.h>
int fails(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)codes; (void)n; (void)ret; (void)ret_code; (void)resource;
  TVMAPISetLastError(args[0].v_str);
  return -1;
}
"""
VADD_SOURCE = """
void vadd(const float *a, const float *b, float *c, int n) {
  for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
}
"""
GRAPH = {
    "nodes": [{"op": "null", "name": "x", "inputs": []}],
    "arg_nodes": [0], "heads": [[0, 0, 0]], "node_row_ptr": [0, 1],
    "attrs": {
        "dltype": ["list_str", ["float32"]], "storage_id": ["list_int", [0]],
        "shape": ["list_shape", [[2]]],
    },
}  # fmt: skip
# a library without a loader starts plug-ins
pytestmark = pytest.mark.own_process
A, C = np.ones(4, "float32"), np.zeros(4, "float32")


class Case:
    """A library in a folder of its own, and what tests do wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "t.so"
        (folder / "v.c").write_text(VADD_SOURCE)
        host = mblob.csource_module(folder / "v.c", functions=[VADD])
        host.import_module(mblob.safetensors_module({"fc.weight": np.arange(6, dtype="float32")}))
        host.export_library(self.file)
        self.lib = mblob.load_module(self.file)
        mblob.csource_module(SOURCE).export_library(folder / "fails.so")
        self.fails = mblob.load_module(folder / "fails.so")["fails"]

    def vadd(self, *arguments: Any) -> Any:
        return self.lib["vadd"](*arguments)

    def model(self) -> Any:
        return mblob.graph_executor.create(json.dumps(GRAPH), self.lib, mblob.cpu())

    def changed(self, old: bytes, new: bytes) -> Path:
        data = self.file.read_bytes()
        assert data.count(old) >= 1 and len(old) == len(new)
        (self.folder / "changed.so").write_bytes(data.replace(old, new, 1))
        return self.folder / "changed.so"

    def foreign(self) -> Path:
        data = bytearray(self.file.read_bytes())
        data[18:20] = (43 if data[18] != 43 else 62).to_bytes(2, "little")  # e_machine: sparc64
        (self.folder / "foreign.so").write_bytes(data)
        return self.folder / "foreign.so"

    def unknown_key(self) -> Path:
        host = mblob.csource_module("")
        host.import_module(mblob.json_module("tensorrt", "sub", "{}", []))
        host.export_library(self.folder / "unknown.so")
        return self.folder / "unknown.so"

    def broken_source(self) -> None:
        mblob.csource_module("int x(").export_library(self.folder / "b.so")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("errors"))


WRONG: dict[str, Callable[[Case], Any]] = {
    "type of an argument": lambda t: mblob.load_module(None),  # type: ignore[call-overload]
    "value of an argument": lambda t: mblob.empty((1,), "floot32"),
    "number of arguments of a function": lambda t: t.vadd(A, A, C),
    "dtype of an array": lambda t: t.vadd(A.astype("float64"), A, C, 4),
    "layout of an array": lambda t: t.vadd(np.ones(8, "float32")[::2], A, C, 4),
    "number that does not fit an integer": lambda t: t.vadd(A, A, C, 2**70),
    "arguments that do not fit together, given to `bind`": lambda t: t.lib["vadd"].bind(A, A, C, 5),
    "a size that the function itself refuses": lambda t: t.vadd(A, A, C, 5),
    "a type that the function itself refuses": lambda t: t.vadd(None, A, C, 4),
    "array that an executor refuses": lambda t: t.model().set_input("x", np.ones(3, "float32")),
    "unknown input of an executor": lambda t: t.model().set_input("y", np.ones(2, "float32")),
    "unknown function, asked for by key or attribute": lambda t: t.lib["vad"],
    "unknown tensor": lambda t: t.lib.tensors["fc.weigh"],
    "unknown global function": lambda t: mblob.get_global_func("nope"),
    "failure with a kind in a kernel": lambda t: t.fails("IndexError: row 7 of 4"),
    "failure without a kind in a kernel": lambda t: t.fails("the sensor is gone"),
    "file that is no library, or a damaged one": lambda t: mblob.open(t.folder / "v.c"),
    "bytes that differ from their digest": lambda t: mblob.verify(
        t.changed(np.float32([4, 5]).tobytes(), np.float32([4, 6]).tobytes())
    ),
    "library for another machine": lambda t: mblob.load_module(t.foreign()),
    "module without a loader": lambda t: mblob.load_module(t.unknown_key()),
    "argument when packing": lambda t: mblob.csource_module("").export_library(
        "x.so", dialect="fi"
    ),  # type: ignore[call-overload]
    "type of an argument when packing": lambda t: mblob.csource_module(3),  # type: ignore[arg-type]
    "entry or tensor to change that is not there": lambda t: mblob.swap(
        t.file, None, t.folder / "o.so", weights={"fc.weigh": A}
    ),
    "compiler or linker": lambda t: t.broken_source(),
    "something that is gone": lambda t: bridge._Late(lambda name: None, "f", "the module")(),
}


def rows() -> dict[str, tuple[list[str], str]]:
    """Of the first table: what went wrong -> the names of classes, the example."""
    found = {}
    for line in PAGE.partition("## Kinds")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] not in ("what went wrong", "---"):
            names = re.findall(r"`(\w+)`", f"{cells[1]} {cells[2]}")
            found[cells[0]] = (names, cells[3].strip("`"))
    return found


def class_of(name: str) -> type[Exception]:
    return getattr(mblob, name, None) or getattr(builtins, name)


def error_of(case: Case, row: str) -> BaseException:
    with pytest.raises(Exception) as caught:
        WRONG[row](case)
    return caught.value


def test_each_row_has_a_test() -> None:
    assert list(WRONG) == list(rows())


@pytest.mark.parametrize("row", WRONG)
def test_an_error_has_the_classes_and_the_text_of_its_row(case: Case, row: str) -> None:
    names, example = rows()[row]
    error = error_of(case, row)
    expected = [class_of(name) for name in names]
    if row == "failure with a kind in a kernel":
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


def test_each_class_of_an_error_is_that_of_one_name() -> None:
    """A name in a traceback stands for one combination of classes, which can be asked for."""
    for row in (errors.ArgumentTypeError, errors.ArgumentValueError, errors.BuildTypeError):
        assert getattr(errors, row.__name__) is row
    assert errors.also(errors.ArgumentError, TypeError) is errors.ArgumentTypeError
    assert errors.also(errors.ArgumentError, ValueError, TypeError) is errors.also(
        errors.ArgumentError, TypeError, ValueError
    )
    assert errors.also(errors.KernelError) is errors.KernelError


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
    "AotModule": lambda t: mblob.aot_executor.AotModule(3),  # type: ignore[arg-type]
    "VirtualMachine": lambda t: mblob.vm.VirtualMachine(3, mblob.cpu()),  # type: ignore[arg-type]
    "a keyword": lambda t: t.lib["vadd"](A, A, C, n=4),
    "a surrogate": lambda t: t.vadd("\udc80", A, C, 4),
    "a list": lambda t: t.vadd([1.0], A, C, 4),
    "a bound function": lambda t: t.lib["vadd"].bind(A, A, C, 4)(1),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_users_mistake_is_an_error_of_mblob_that_names_it(case: Case, mistake: str) -> None:
    with pytest.raises(mblob.MblobError) as caught:
        MISTAKES[mistake](case)
    assert isinstance(caught.value, (TypeError, ValueError))
    assert re.search("expected|found|not|without|are bound|pass bytes", str(caught.value))
