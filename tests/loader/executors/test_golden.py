"""Libraries that TVM 0.14 exported: they run, and their trees are what TVM says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

TREES = [
    "aot_mlp",
    "dnnl_c_lib",
    "dnnl_llvm_factory",
    "host_c",
    "host_llvm",
    "host_parallel",
    "mlp_c",
    "mlp_llvm",
    "vm_mlp",
]


@pytest.mark.parametrize("name", ["host_llvm", "host_c"])
def test_vadd_of_tvm_adds(golden: Path, name: str) -> None:
    lib = mblob.load_module(golden / f"{name}.so")
    rng = np.random.default_rng(0)
    a, b = rng.random(1024, "f"), rng.random(1024, "f")
    for function in (lib["vadd"], lib.entry_func, lib):
        c = np.zeros(1024, "f")
        function(a, b, c)
        np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("name", ["host_llvm", "host_c"])
def test_vadd_of_tvm_takes_the_tail_of_an_array(golden: Path, name: str) -> None:
    vadd = mblob.load_module(golden / f"{name}.so")["vadd"]
    a, b, c = (np.random.default_rng(i).random(1025, "f") for i in range(3))
    first = c[0]
    vadd(a[1:], b[1:], c[1:])
    np.testing.assert_array_equal(c[1:], a[1:] + b[1:])
    assert c[0] == first


def test_a_parallel_matrix_product_of_tvm_runs(golden: Path) -> None:
    lib = mblob.load_module(golden / "host_parallel.so")
    a = np.random.default_rng(1).random((512, 512), "f")
    c = np.zeros((512, 512), "f")
    lib["par_matmul"](a, c)
    np.testing.assert_allclose(c, (2 * a) @ (2 * a), rtol=1e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros(1024, "f"),) * 2,
        (np.zeros(1024, "f"),) * 2 + (1,),
        (np.zeros(1024, "f"),) * 2 + (np.zeros(1024),),
        (np.zeros(1024, "f"),) * 2 + (np.zeros(1023, "f"),),
        (np.zeros(1024, "f"),) * 2 + (np.zeros((32, 32), "f"),),
    ],
    ids=["count", "kind", "dtype", "size", "shape"],
)
def test_tvms_own_checks_arrive_as_wrong_use(golden: Path, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(mblob.KernelError) as caught:
        mblob.load_module(golden / "host_llvm.so")["vadd"](*arguments)
    assert caught.value.exit_code == 2


def tree_of(module: mblob.Module) -> dict[str, Any]:
    return {"type_key": module.type_key, "imports": [tree_of(m) for m in module.imported_modules]}


@pytest.mark.parametrize("name", TREES)
def test_the_tree_is_the_one_tvm_shows(golden: Path, name: str) -> None:
    expected = json.loads((golden / f"{name}.json").read_text())["tree"]
    assert tree_of(mblob.load_module(golden / f"{name}.so", missing="stub")) == expected


def test_the_tree_of_dags_reads_back(golden: Path) -> None:
    def row(module: mblob.Module) -> list[Any]:
        return [module.type_key, [row(m) for m in module.imported_modules]]

    def expected(node: list[Any]) -> list[Any]:
        return [node[0], [expected(child) for child in node[2]]]

    tree = json.loads((golden / "dag.json").read_text())
    assert row(mblob.load_module(golden / "dag.so", missing="stub")) == expected(tree)


def test_sources_are_read_without_a_runtime(golden: Path) -> None:
    opencl = mblob.load_module(golden / "opencl_llvm.so", missing="stub").imported_modules[0]
    assert "__kernel" in opencl.get_source()
    assert opencl.get_source("cl") == opencl.get_source()
    assert opencl.get_source("ptx") == ""
    factory = mblob.load_module(golden / "mlp_llvm.so", missing="stub")
    assert "nodes" in json.loads(factory.get_source())
    assert factory.get_source("json") == factory.get_source()
    assert all(t.readonly for t in factory.tensors.values())


def test_a_runtime_that_is_absent_is_named(tmp_path: Path) -> None:
    graph = {"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0]}
    mblob.json_module("tensorrt", "net", graph).export_library(str(tmp_path / "trt.so"))
    with pytest.raises(mblob.LoaderMissingError) as caught:
        mblob.load_module(tmp_path / "trt.so")
    assert (caught.value.type_key, caught.value.entry) == ("tensorrt", 0)
    assert caught.value.hint
