"""The properties that a module shows: functions with their prototypes, tensors and payloads by
name."""

from __future__ import annotations

import pydoc
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.module import Module

pytestmark = pytest.mark.own_process  # libraries of the ffi dialect start a plug-in

KERNELS = r"""
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
int twice(int x) { return 2 * x; }
void tensors(void) {}
"""
VADD = "void vadd(const float a[n], const float b[n], float c[n], int64_t n)"


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("face")
    host = mblob.csource_module(KERNELS, functions=[VADD, "int twice(int x)", "void tensors(void)"])
    host.import_module(mblob.blob_module("about", b"{}"))
    path = folder / "deploy.so"
    with pytest.warns(mblob.HiddenNameWarning, match="'tensors'"):
        mblob.export_library(host, path, dialect=request.param)
    return mblob.load_module(path)


def test_functions_have_their_prototypes_with_names_and_dimensions(lib: Module) -> None:
    assert str(lib.functions["vadd"]) == VADD
    assert str(lib.functions["twice"]) == "int twice(int x)"
    assert sorted(lib) == sorted(lib.functions) == ["tensors", "twice", "vadd"]


def test_in_tells_whether_there_is_a_function(lib: Module) -> None:
    assert "vadd" in lib
    assert "softmax" not in lib
    assert 0 not in lib


def test_a_function_is_an_attribute_unless_a_module_has_one_of_that_name(lib: Module) -> None:
    assert lib.twice(21) == lib["twice"](21) == 42
    assert "vadd" in dir(lib)
    assert lib.tensors == {}
    lib["tensors"]()


def test_an_unknown_name_is_a_key_error_and_an_attribute_error_with_the_nearest_one(
    lib: Module,
) -> None:
    asked: list[Callable[[], object]] = [
        lambda: lib["vad"],
        lambda: lib.vad,
        lambda: lib.get_function("vad"),
        lambda: lib.functions["vad"],
    ]
    for ask in asked:
        with pytest.raises(mblob.NotFoundError, match="did you mean 'vadd'") as error:
            ask()
        assert isinstance(error.value, KeyError)
        assert isinstance(error.value, AttributeError)
        assert "twice" in str(error.value)


def test_payloads_of_the_tree_are_found_by_key(lib: Module) -> None:
    assert bytes(lib.payloads["about"]) == b"{}"
    with pytest.raises(mblob.NotFoundError, match="it has: about"):
        lib.payloads["abuot"]


def test_weights_of_the_tree_are_found_on_the_root(tmp_path: Path) -> None:
    root = mblob.csource_module("void f(void) {}", functions=["void f(void)"])
    root.import_module(mblob.safetensors_module({"fc.weight": array("f", [1.0, 2.0])}))
    mblob.export_library(root, tmp_path / "w.so")
    loaded = mblob.load_module(tmp_path / "w.so")
    assert list(memoryview(loaded.tensors["fc.weight"])) == [1.0, 2.0]
    with pytest.raises(mblob.NotFoundError, match=r"no tensor 'fc'; it has: fc\.weight"):
        loaded.tensors["fc"]


def test_a_repr_names_the_file_its_functions_and_imports(lib: Module) -> None:
    text = repr(lib)
    assert "deploy.so" in text
    assert "vadd" in text
    assert "imports about" in text
    assert repr(mblob.blob_module("about", b"")) == "<mblob.Module 'about'>"


def test_notebooks_complete_names_of_functions(lib: Module) -> None:
    assert "vadd" in lib._ipython_key_completions_()  # type: ignore[attr-defined]


def test_protocols_find_no_function(lib: Module) -> None:
    assert not hasattr(lib, "_repr_html_")
    assert not hasattr(lib, "__array__")


def test_code_that_is_not_linked_says_so() -> None:
    host = mblob.csource_module("void f(void) {}", functions=["void f(void)"])
    with pytest.raises(mblob.NotFoundError, match="export_library, then load_module"):
        host["f"]


def test_what_packing_raises_is_a_build_error(tmp_path: Path) -> None:
    assert issubclass(mblob.ToolchainError, mblob.BuildError)
    with pytest.raises(mblob.BuildError):
        mblob.export_library(mblob.csource_module("int;;x"), tmp_path / "x.so")


# -- what is made of modules -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    g = mblob.GraphBuilder()
    x, w = g.input("x", (1, 4)), g.param("w", array("f", [1.0, 2.0, 3.0, 4.0]))
    g.output(g.call("same", [x, w], (1, 4)))
    factory = mblob.graph_executor_factory(g)
    same = "void same(const float x[1][4], const float w[4], float y[1][4])"
    code = f"{same} {{ for (int i = 0; i < 4; i++) y[0][i] = x[0][i]; }}"
    factory.import_module(mblob.csource_module(code, functions=[same], packed="name"))
    path = tmp_path_factory.mktemp("model") / "model.so"
    factory.export_library(path)
    return path


def test_a_factory_lists_its_model_before_it_is_opened(model: Path) -> None:
    lib = mblob.load_module(model)
    assert ": same, default; imports library>" in repr(lib)
    assert next(iter(lib)) == "default"
    assert "default" in lib
    lib.default(mblob.cpu())
    assert next(iter(lib)) == "default"


def test_a_model_shows_its_inputs_outputs_and_functions(model: Path) -> None:
    gm = mblob.graph_executor.GraphModule(mblob.load_module(model)["default"](mblob.cpu()))
    assert repr(gm) == "<mblob.GraphModule: inputs x float32[1, 4]; outputs same:0 float32[1, 4]>"
    assert "run" in gm and "walk" not in gm
    assert "set_input" in list(gm) == gm._ipython_key_completions_()


def test_other_executors_show_what_they_run(golden: Path) -> None:
    machine = mblob.vm.VirtualMachine(mblob.load_module(golden / "vm_mlp.so"), mblob.cpu())
    assert repr(machine).startswith("<mblob.vm.VirtualMachine: main(data")
    aot = mblob.load_module(golden / "aot_mlp.so")
    executor = mblob.aot_executor.AotModule(aot[next(iter(aot))](mblob.cpu()))
    assert repr(executor).startswith("<mblob.AotModule: inputs data float32[")


def test_names_of_tensors_and_payloads_complete(model: Path) -> None:
    lib = mblob.load_module(model)
    assert lib.tensors._ipython_key_completions_() == ["w"]  # type: ignore[attr-defined]
    assert lib.payloads._ipython_key_completions_() == ["GraphExecutorFactory"]  # type: ignore[attr-defined]


def test_an_entry_of_an_open_library_shows_its_place(model: Path) -> None:
    with mblob.open(model) as library:
        entry = library.entries[0]
        place = f"{entry.size} bytes at {entry.offset:#x}"
        assert repr(library.entries) == (
            f"[<mblob.EntryView 0 'GraphExecutorFactory', {place}>, <mblob.EntryView 1 'library'>]"
        )


def test_help_begins_with_what_the_package_does() -> None:
    text = pydoc.render_doc(mblob, renderer=pydoc.plaintext)
    start = text[: text.index("PACKAGE CONTENTS")]
    for name in ("load_module", "csource_module", "export_library", "graph_executor", "open"):
        assert name in start
    assert len(start.splitlines()) < 40
