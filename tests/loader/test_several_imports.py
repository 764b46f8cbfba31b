"""Models whose factory imports more than their kernels: functions are looked for in all imports, in
order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import graph_executor
from tests.loader.executors.test_graph_executor import FUNCTIONS, KERNELS, B, W, graph

GraphModule, GraphModuleDebug = graph_executor.GraphModule, graph_executor.GraphModuleDebug
SPLIT = KERNELS.splitlines()
X = np.ones((2, 3), "f")
Imports = list[mblob.Module]


def kernels() -> mblob.Module:
    return mblob.csource_module(KERNELS, functions=FUNCTIONS)


def note(text: bytes = b"hi") -> mblob.Module:
    return mblob.blob_module("note", text)


def beside_a_note() -> Imports:
    return [kernels(), note()]


def behind_a_note() -> Imports:
    return [note(), kernels()]


def between_notes() -> Imports:
    return [note(), kernels(), note(b"two")]


def below_a_note() -> Imports:
    top = note()
    top.import_module(kernels())
    return [note(b"two"), top]


def in_two_modules() -> Imports:
    each = [mblob.csource_module(text, functions=[f]) for text, f in zip(SPLIT, FUNCTIONS)]
    return [each[0], note(), each[1]]


def behind_what_needs_a_loader() -> Imports:
    return [mblob.blob_module("unknown", b"?", data=False), kernels()]


TREES: list[Callable[[], Imports]] = [
    beside_a_note, behind_a_note, between_notes, below_a_note, in_two_modules, behind_what_needs_a_loader,
]  # fmt: skip


def factory_of(imports: Imports, name: str = "default", text: Any = None) -> mblob.Module:
    made = mblob.graph_executor_factory(text or graph(), {"w": W, "b": B}, name)
    for module in imports:
        made.import_module(module)
    return made


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
@pytest.mark.parametrize("tree", TREES)
def test_kernels_are_found_wherever_they_are_imported(
    tmp_path: Path, tree: Callable[[], Imports]
) -> None:
    factory_of(tree()).export_library(tmp_path / "m.so")
    lib = mblob.load_module(tmp_path / "m.so", missing="stub")
    debug = lib["debug_create"]("default", mblob.cpu(0))
    for model in (GraphModule(lib["default"](mblob.cpu(0))), GraphModuleDebug(debug)):
        for parallel in (None, 2):
            model.run(x=X, parallel=parallel)
            np.testing.assert_array_equal(model.get_output(0).numpy(), X * W + B)


def test_an_executor_keeps_what_it_looked_for_its_kernels_in(tmp_path: Path) -> None:
    factory_of(in_two_modules()).export_library(tmp_path / "m.so")
    lib = mblob.load_module(tmp_path / "m.so")
    bare = lib["remove_params"]()
    assert [m.type_key for m in bare.imported_modules] == [m.type_key for m in lib.imported_modules]
    model = GraphModule(bare["default"](mblob.cpu(0)))
    del lib, bare
    model.run(x=X, w=W, b=B)
    np.testing.assert_array_equal(model.get_output(0).numpy(), X * W + B)


def test_functions_of_the_factory_itself_are_no_kernels(tmp_path: Path) -> None:
    text = graph()
    text["nodes"][4]["attrs"]["func_name"] = "get_graph_json"
    names = [line.replace("plus", "get_graph_json") for line in (KERNELS, *FUNCTIONS)]
    host = mblob.csource_module(names[0], functions=names[1:])
    with pytest.warns(mblob.HiddenNameWarning, match="get_graph_json"):
        factory_of([note(), host], "scale", text).export_library(tmp_path / "m.so")
    lib = mblob.load_module(tmp_path / "m.so")
    model = GraphModule(lib["scale"](mblob.cpu(0)))
    model.run(x=X)
    np.testing.assert_array_equal(model.get_output(0).numpy(), X * W + B)
    for node in text["nodes"]:
        if node["op"] == "tvm_op" and node["attrs"]["func_name"] != "__nop":
            node["attrs"]["func_name"] += "__packed"  # as TVM's executor calls them
    assert json.loads(lib["get_graph_json"]()) == text


def test_a_kernel_that_no_import_has_is_named_with_those_there_are(tmp_path: Path) -> None:
    text = graph()
    text["nodes"][4]["attrs"]["func_name"] = "minus"
    factory_of([note(), kernels()], text=text).export_library(tmp_path / "m.so")
    with pytest.raises(
        mblob.KernelError, match=r"node 4 'sum': .*no function 'minus'; it has: .*plus"
    ) as caught:
        mblob.load_module(tmp_path / "m.so")["default"](mblob.cpu(0))
    assert "debug_create" not in str(caught.value)


def test_a_library_of_tvm_0_7_that_stands_several_times_in_its_tree(
    tmp_path: Path, tree_library: Callable[..., Path]
) -> None:
    """TVM 0.7 wrote a module for each of several host modules."""
    entries = [
        ("metadata_module", b""),
        ("library", None),
        ("metadata_module", b""),
        ("library", None),
    ]
    path = tree_library(
        tmp_path / "m.so", entries, [[1, 3], [2], [], [2]], index=False, target="x86_64-linux-gnu"
    )
    lib = mblob.load_module(path, missing="stub")
    first, second = lib.imported_modules
    assert (first.type_key, second.type_key) == ("library", "library")
    assert first is not second
    assert first.imported_modules == second.imported_modules
    for module in (lib, first, second):
        c = np.empty(3, "float32")
        module["vadd"](np.ones(3, "float32"), np.arange(3, dtype="float32"), c)
        assert list(c) == [1, 2, 3]
    with mblob.open(path) as looked:
        assert "several modules stand for the library" in [f.text for f in looked.era.facts]
