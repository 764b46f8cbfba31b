"""Code generators in C: functions `relay.ext.NAME` that a shared library registers."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import byoc
from mblob.packager.byoc.codegens import _prototype
from mblob.packager.errors import BuildError
from tests.packager.byoc.partitions import array, check, regions_of
from tests.packager.graphs import Builder, takes

pytestmark = [
    pytest.mark.own_process,
    pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning"),
]

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def generators(tmp_path: Path) -> None:
    compiled(tmp_path, "cc", HERE / "codegen.c")


def compiled(folder: Path, *command: Any) -> None:
    """A shared library of a host in C or C++, loaded: its constructors register functions."""
    include, libraries = mblob.get_include(), mblob.get_library_dir()
    subprocess.run(
        [
            *command, "-shared", "-fPIC", "-DMBLOB_HOST", f"-I{include}", f"-I{include}/mblob/compat", "-o",
            (library := folder / f"{command[0]}.so"), f"-L{libraries}", "-lmblob", f"-Wl,-rpath,{libraries}",
        ],
        check=True,
    )  # fmt: skip
    ctypes.CDLL(str(library))


def add(constant: bool) -> Any:
    b = Builder()
    x = b.input("x")
    return b.json(b.call("add", x, b.input("w") if constant else x, axis="1", shape="7"))


def test_a_generator_in_c_gives_c_source(tmp_path: Path) -> None:
    graph, w = add(constant=True), array(3)
    module = mblob.partition_graph(graph, {"w": w}, None, {"to_c": takes("add")})
    assert check(graph, module, tmp_path / "x.so", {"x": array(1), "w": w}) == []
    text, *constants = mblob.get_global_func("tests.called")().split("\n")
    assert constants == [f"constant of 1 dimensions: {w[0]}"]
    symbol = "tvmgen_default_to_c_main_0"
    types = {"dtype": [["int32"]], "shape": [[[4]]]}
    assert json.loads(text) == {
        "symbol": symbol,
        "nodes": [
            {"op": "input", "name": "to_c_0_i0", "attrs": types},
            {"op": "const", "name": f"{symbol}_const_0", "attrs": types},
            {
                "op": "kernel", "name": "add", "inputs": [[0, 0, 0], [1, 0, 0]],
                "attrs": {"num_inputs": "2", "num_outputs": "1", **types, "axis": [["1"]], "shape_": [["7"]]},
            },
        ],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
        "node_row_ptr": [0, 1, 2, 3],
    }  # fmt: skip


def test_a_generator_in_c_gives_a_module_that_saves_itself(tmp_path: Path) -> None:
    module = mblob.partition_graph(add(constant=False), None, None, {"to_module": takes("add")})
    (made,) = (m for m in module.walk() if m.type_key == "tests.saved")
    module.export_library(tmp_path / "m.so")
    with mblob.open(tmp_path / "m.so") as library:
        (entry,) = (e for e in library.entries if e.type_key == "tests.saved")
        assert bytes(entry.view()) == b"tvmgen_default_to_module_main_0\0"
    assert made.type_key == "tests.saved"


def test_a_generator_in_c_sees_composites_and_constants_of_any_type(tmp_path: Path) -> None:
    g = mblob.GraphBuilder()
    x, w = g.input("x", (2,), "bfloat16"), g.param("w", np.zeros(2, "uint16"))
    y = g.call("f", [x, w], (2,), "bfloat16")
    g.output(g.call("relu", [y], (2,), "bfloat16"))
    pattern = byoc.is_op("relu")(byoc.is_op("f"))
    module = mblob.partition_graph(g, None, None, {"to_module": [("my.f_relu", pattern)]})
    assert module is not None
    kernels = json.loads(mblob.get_global_func("tests.called")().split("\n")[0])["nodes"][2:]
    assert [(k["name"], k["attrs"]["composite"]) for k in kernels] == [
        ("f", [["my.f_relu", "0"]]),
        ("relu", [["my.f_relu", "0"]]),
    ]


def test_errors_of_generators_in_c_are_named() -> None:
    graph = add(constant=False)
    with pytest.raises(mblob.MblobError, match=r"'fails', for tvmgen_.*: this accelerator has no"):
        mblob.partition_graph(graph, None, None, {"fails": takes("add")})
    with pytest.raises(BuildError, match=r"'number' gave int for tvmgen.*, expected a Module"):
        mblob.partition_graph(graph, None, None, {"number": takes("add")})
    g = mblob.GraphBuilder()
    g.output(g.call("f", [g.input("x", (2,), "float8_e4m3fn")], (2,), "float8_e4m3fn"))
    with pytest.raises(BuildError, match=r"x: float8_e4m3fn has no type in C; return a module"):
        mblob.partition_graph(g, None, None, {"to_c": takes("f")})


def test_a_generator_in_c_may_be_given_for_one_call(tmp_path: Path) -> None:
    graph = add(constant=True)
    codegen = mblob.get_global_func("relay.ext.to_c")
    w = array(3)
    module = mblob.partition_graph(
        graph, {"w": w}, None, {"mine": takes("add")}, codegens={"mine": codegen}
    )
    assert check(graph, module, tmp_path / "x.so", {"x": array(1), "w": w}) == []


SOURCE = r"""
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>
#include <string>

TVM_REGISTER_GLOBAL("relay.ext.to_cpp").set_body([](tvm::runtime::TVMArgs args, tvm::runtime::TVMRetValue* ret) {
  const std::string json = args[0];
  const std::string name = "\"symbol\": \"";
  const size_t at = json.find(name) + name.size();
  const std::string symbol = json.substr(at, json.find('"', at) - at);
  *ret = "void " + symbol + "(const int *x, int *y) { for (int i = 0; i < 4; i++) y[i] = x[i] + x[i]; }";
});
"""


@pytest.mark.slow
def test_a_generator_in_cpp_is_registered_as_in_tvm(tmp_path: Path) -> None:
    if not shutil.which("c++"):
        pytest.skip("needs c++")
    (tmp_path / "g.cpp").write_text(SOURCE)
    compiled(tmp_path, "c++", "-std=c++17", tmp_path / "g.cpp")
    graph = add(constant=False)
    module = mblob.partition_graph(graph, None, None, {"to_cpp": takes("add")})
    assert check(graph, module, tmp_path / "x.so", {"x": array(1)}) == []


def test_a_region_of_several_results_and_scalars() -> None:
    """The prototype of a source: scalars and empty tensors have no extents."""
    g = mblob.GraphBuilder()
    x = g.input("x", (), "float64")
    g.output(*g.call_many("f", [x], [((2, 0), "int8"), ((2, 3), "bool")]))
    (region,) = regions_of(json.loads(g.graph_json()), {"k": takes("f")}).regions
    assert _prototype(region) == (
        f"void {region.symbol}(const double i0[], int8_t o0[], bool o1[2][3])"
    )
