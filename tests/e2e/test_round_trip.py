"""The whole circle through the public names only: pack with `mblob.export_library`, look, load,
call."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.e2e.kernels import KERNELS, PACKED, VADD, arrays, kernels

GOLDEN = Path(os.environ.get("MBLOB_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden")
needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="no golden libraries beside the project"
)


def test_kernels_and_a_blob_go_out_and_come_back(tmp_path: Path) -> None:
    host = kernels()
    host.import_module(mblob.blob_module("my_key", b"payload"))
    host.export_library(tmp_path / "deploy.so")
    mod = mblob.load_module(tmp_path / "deploy.so")
    a, b, c = arrays()
    mod["vadd"](a, b, c, len(a))
    np.testing.assert_array_equal(c, a + b)
    assert mod["mean"](np.arange(5.0), 5) == 2.0
    assert [m.type_key for m in mod.imported_modules] == ["my_key"]
    assert bytes(mod.imported_modules[0].payload) == b"payload"
    assert mod.imported_modules[0].payload.readonly
    with mblob.open(tmp_path / "deploy.so") as lib:
        lib.verify("full")
        assert lib.functions == ["mean", "vadd"]
        assert bytes(lib.entries[1].view()) == b"payload"
        assert lib.to_json()["entries"][0]["imports"] == [1]


def test_the_plain_c_function_stands_beside_the_packed_one(tmp_path: Path) -> None:
    """A dlopen host finds what the source says; Python calls it through `symbol`."""
    kernels().export_library(tmp_path / "k.so")
    a, b, c = arrays(7)
    pointer = ctypes.POINTER(ctypes.c_float)
    for function in (
        ctypes.CDLL(str(tmp_path / "k.so")).vadd,
        mblob.load_module(tmp_path / "k.so").symbol(
            "vadd", None, [pointer, pointer, pointer, ctypes.c_int64]
        ),
    ):
        c[:] = 0
        function(*(x.ctypes.data_as(pointer) for x in (a, b, c)), ctypes.c_int64(7))
        np.testing.assert_array_equal(c, a + b)


def test_packed_functions_of_c_sources_return_values_and_errors(tmp_path: Path) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "p.so")
    mod = mblob.load_module(tmp_path / "p.so")
    x = np.ones(4, "float32")
    assert mod["scale"](x) == 4
    assert list(x) == [2, 2, 2, 2]
    with pytest.raises(mblob.KernelError, match="one tensor, please"):
        mod["scale"](1, 2)


def test_no_runtime_symbol_is_left_undefined(tmp_path: Path) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "p.so")
    text = subprocess.run(
        ["nm", "-D", tmp_path / "p.so"], check=True, capture_output=True, text=True
    ).stdout
    assert not re.findall(r"\b[Uw] +TVM\w+", text)
    assert re.search(r"\b[VDB] __TVMAPISetLastError", text)
    headers = subprocess.run(
        ["readelf", "-lW", tmp_path / "p.so"], check=True, capture_output=True, text=True
    ).stdout
    assert re.search(r"GNU_STACK.* RW ", headers)


def test_a_diamond_goes_out_and_comes_back_with_one_shared_child(tmp_path: Path) -> None:
    """TVM refuses to export this tree."""
    shared = mblob.blob_module("d", b"D")
    left, right = mblob.blob_module("b", b"B"), mblob.blob_module("e", b"E")
    left.import_module(shared)
    right.import_module(shared)
    root = kernels()
    root.import_module(left)
    root.import_module(right)
    root.export_library(tmp_path / "diamond.so")
    mod = mblob.load_module(tmp_path / "diamond.so")
    one, two = mod.imported_modules
    assert {one.type_key, two.type_key} == {"b", "e"}
    assert one.imported_modules[0] is two.imported_modules[0]
    assert bytes(one.imported_modules[0].payload) == b"D"


def test_a_root_that_is_no_library_goes_out_and_comes_back(tmp_path: Path) -> None:
    for index in (True, False):
        root = mblob.json_module("dnnl_json", "sub", "{}", ["sub_const_0"])
        root.export_library(tmp_path / "j.so", index=index)
        mod = mblob.load_module(tmp_path / "j.so", missing="stub")
        assert mod.type_key == "dnnl_json"
        assert mod.get_source() == "{}"


def test_module_above_library_above_module(tmp_path: Path) -> None:
    top, host, low = mblob.blob_module("top", b"T"), kernels(), mblob.blob_module("low", b"L")
    top.import_module(host)
    host.import_module(low)
    top.export_library(tmp_path / "x.so")
    mod = mblob.load_module(tmp_path / "x.so")
    assert (mod.type_key, mod.imported_modules[0].type_key) == ("top", "library")
    assert mod.imported_modules[0].imported_modules[0].type_key == "low"
    a, b, c = arrays(3)
    mod["vadd"](a, b, c, 3)
    np.testing.assert_array_equal(c, a + b)
    with pytest.raises(AttributeError, match="query_imports"):
        mod.get_function("vadd")


@needs_golden
@pytest.mark.parametrize("embed", ["auto", "object", "c"])
def test_the_dag_that_tvm_wrote_is_rebuilt_byte_for_byte(tmp_path: Path, embed: str) -> None:
    graph = json.loads((GOLDEN / "dag.json").read_text())

    def build(node: list) -> mblob.Module:
        key, symbol, imports = node
        if key == "library":
            module = mblob.csource_module(KERNELS)
        else:
            text = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0]}'
            module = mblob.json_module(key, symbol, text, [])
        for child in reversed(imports):  # TVM's order turns imports around
            module.import_module(build(child))
        return module

    build(graph).export_library(tmp_path / "dag.so", index=False, embed=embed)
    text = (GOLDEN / "dag_devc.c").read_text()
    want = bytes(int(x, 16) for x in re.findall(r"0x([0-9a-f]{2})", text))
    with mblob.open(tmp_path / "dag.so") as lib:
        symbol = lib.elf.find("__tvm_dev_mblob")
        assert symbol
        assert symbol.st_size == len(want)
        assert bytes(lib.elf.bytes_of(symbol)[1]) == want


@needs_golden
@pytest.mark.parametrize("name", ["host_llvm", "host_c"])
def test_real_kernels_run_on_aligned_and_unaligned_arrays(name: str) -> None:
    mod = mblob.load_module(GOLDEN / f"{name}.so")
    base = np.random.default_rng(0).random((3, 1025), dtype="float32")
    for start in (0, 1):
        a, b, c = (row[start : start + 1024] for row in base)
        mod["vadd"](a, b, c)
        np.testing.assert_array_equal(c, a + b)


@needs_golden
def test_a_real_parallel_kernel_runs_on_threads_with_workspace() -> None:
    mod = mblob.load_module(GOLDEN / "host_parallel.so")
    a = np.random.default_rng(1).random((512, 512), dtype="float32")
    c = np.zeros_like(a)
    mod["par_matmul"](a, c)
    np.testing.assert_allclose(c, (2 * a) @ (2 * a), rtol=1e-4)

    results: list = []

    def work() -> None:
        out = np.zeros_like(a)
        mod["par_matmul"](a, out)
        results.append(np.allclose(out, c))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 4


def test_weights_are_views_aligned_in_the_mapping(tmp_path: Path) -> None:
    data = np.arange(12, dtype="float32")
    header = b'{"w":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]}}'
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data.tobytes())
    host = kernels()
    host.import_module(mblob.safetensors_module(path))
    host.export_library(tmp_path / "w.so")
    mod = mblob.load_module(tmp_path / "w.so")
    weights = mod.imported_modules[0]
    assert bytes(weights.payload) == path.read_bytes()
    w = weights.tensors["w"].numpy()
    np.testing.assert_array_equal(w, data.reshape(3, 4))
    assert w.ctypes.data % 64 == 0
    assert not w.flags.writeable
    del mod, weights
    assert w.sum() == data.sum()


def test_loaders_open_an_entry_on_its_first_use_and_once(tmp_path: Path) -> None:
    """The payload is a library itself, opened from memory."""
    kernels().export_library(tmp_path / "inner.so")
    outer = mblob.csource_module("int unused_here;")
    outer.import_module(mblob.blob_module("nested", tmp_path / "inner.so"))
    outer.export_library(tmp_path / "outer.so")
    seen: list = []

    def loader(payload: memoryview, ctx: object) -> mblob.Module:
        seen.append((ctx.type_key, ctx.index, ctx.dialect, len(ctx.imports)))  # type: ignore[attr-defined]
        return mblob.load_module(payload)

    mod = mblob.load_module(tmp_path / "outer.so", loaders={"nested": loader})
    assert seen == []
    a, b, c = arrays(5)
    mod["vadd"](a, b, c, 5)
    mod["vadd"](a, b, c, 5)
    np.testing.assert_array_equal(c, a + b)
    assert seen == [("nested", 1, "classic", 0)]


def test_kernels_reach_python_functions_through_the_environment(tmp_path: Path) -> None:
    source = """
    #include <tvm/runtime/c_runtime_api.h>
    #include <tvm/runtime/c_backend_api.h>
    TVM_DLL int ask(TVMValue *a, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
      static void *f;
      if (!f && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "e2e.answer", &f)) return -1;
      return TVMFuncCall(f, a, codes, n, ret, ret_code);
    }
    """
    mblob.csource_module(source).export_library(tmp_path / "env.so")
    mod = mblob.load_module(tmp_path / "env.so")
    with pytest.raises(mblob.KernelError, match=r"e2e\.answer"):
        mod["ask"](1)

    @mblob.register_func("e2e.answer")
    def answer(x: int) -> int:
        if x < 0:
            raise ZeroDivisionError("below zero")
        return x + 41

    assert mod["ask"](1) == 42
    with pytest.raises(ZeroDivisionError, match="below zero"):
        mod["ask"](-1)


def test_an_output_that_a_process_has_mapped_goes_on_working(tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    kernels().export_library(path)
    old = mblob.load_module(path)
    source = KERNELS.replace("a[i] + b[i]", "a[i] - b[i]")
    mblob.csource_module(source, functions=[VADD]).export_library(path)
    new = mblob.load_module(path)
    a, b, c = arrays(5)
    old["vadd"](a, b, c, 5)
    np.testing.assert_array_equal(c, a + b)
    new["vadd"](a, b, c, 5)
    np.testing.assert_array_equal(c, a - b)


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / ("x" * (3 if name == "a" else 30))
        folder.mkdir(parents=True)
        (folder / "k.c").write_text(KERNELS)
        host = mblob.csource_module(folder / "k.c", functions=[VADD])
        host.import_module(mblob.blob_module("my_key", b"payload"))
        host.export_library(tmp_path / f"{name}.so")
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def test_data_of_a_loaded_library_stays_data(tmp_path: Path) -> None:
    first = mblob.csource_module("int g(void) { return 1; }")
    first.import_module(mblob.blob_module("my_data", b"payload"))
    first.export_library(tmp_path / "a.so")
    second = mblob.csource_module("int g(void) { return 1; }")
    second.import_module(mblob.load_module(tmp_path / "a.so").imported_modules[0])
    second.export_library(tmp_path / "b.so")
    assert bytes(mblob.load_module(tmp_path / "b.so").imported_modules[0].payload) == b"payload"
