"""The whole circle through the public names only: pack with `mblob.export_library`, look, load, call."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

import mblob

np = pytest.importorskip("numpy")

GOLDEN = Path(os.environ.get("MBLOB_GOLDEN") or Path(__file__).parents[3] / "shared" / "golden")
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="no golden libraries beside the project")

VADD = "void vadd(const float *a, const float *b, float *c, int64_t n)"
KERNELS = """
#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
double mean(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum / (double)n;
}
"""
PACKED = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
TVM_DLL int scale(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  if (n != 1 || codes[0] != kTVMDLTensorHandle) { TVMAPISetLastError("scale: one tensor, please"); return -1; }
  DLTensor *t = (DLTensor *)args[0].v_handle;
  for (int64_t i = 0; i < t->shape[0]; ++i) ((float *)t->data)[i] *= 2;
  ret->v_int64 = t->shape[0];
  *ret_code = kTVMArgInt;
  return 0;
}
"""


def kernels() -> mblob.Module:
    return mblob.csource_module(KERNELS, functions=[VADD, "double mean(const double *x, int64_t n)"])


def arrays(n: int = 1000) -> tuple:
    a = np.arange(n, dtype="float32")
    return a, a[::-1].copy(), np.zeros(n, "float32")


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
        mblob.load_module(tmp_path / "k.so").symbol("vadd", None, [pointer, pointer, pointer, ctypes.c_int64]),
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
    text = subprocess.run(["nm", "-D", tmp_path / "p.so"], check=True, capture_output=True, text=True).stdout
    assert not re.findall(r"\b[Uw] +TVM\w+", text)
    assert re.search(r"\b[VDB] __TVMAPISetLastError", text)
    headers = subprocess.run(["readelf", "-lW", tmp_path / "p.so"], check=True, capture_output=True, text=True).stdout
    assert re.search(r"GNU_STACK.* RW ", headers)


def test_a_diamond_goes_out_and_comes_back_with_one_shared_child(tmp_path: Path) -> None:
    """TVM refuses to export this tree."""
    shared = mblob.blob_module("d", b"D")
    left, right = mblob.blob_module("b", b"B"), mblob.blob_module("c", b"C")
    left.import_module(shared)
    right.import_module(shared)
    root = kernels()
    root.import_module(left)
    root.import_module(right)
    root.export_library(tmp_path / "diamond.so")
    mod = mblob.load_module(tmp_path / "diamond.so")
    one, two = mod.imported_modules
    assert {one.type_key, two.type_key} == {"b", "c"}
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


WRONG = [
    ((np.zeros(3, "float32"),), r"argument"),
    ((np.zeros(3, "float64"), np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"float32.*float64"),
    ((np.zeros(6, "float32")[::2], np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"(?i)contiguous|compact"),
    ((1, np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"\ba\b|argument"),
    ((np.zeros(3, "float32"), np.zeros(3, "float32"), np.zeros(3, "float32"), "3"), r"\bn\b|argument"),
]


@pytest.mark.parametrize(("args", "text"), WRONG, ids=["count", "dtype", "strides", "no tensor", "no int"])
def test_a_wrong_call_is_one_clear_line(tmp_path: Path, args: tuple, text: str) -> None:
    kernels().export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    with pytest.raises((mblob.MblobError, TypeError, ValueError), match=text) as caught:
        mod["vadd"](*args)
    assert "\n" not in str(caught.value)


def test_prototypes_with_dimensions_check_shapes(tmp_path: Path) -> None:
    source = "#include <stdint.h>\nvoid twice(const float *x, float *y, int64_t n) { while (n--) y[n] = 2 * x[n]; }\n"
    host = mblob.csource_module(source, functions=["void twice(const float x[n], float y[n], int64_t n)"])
    host.export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    x, y = np.arange(3, dtype="float32"), np.zeros(3, "float32")
    mod["twice"](x, y, 3)
    assert list(y) == [0, 2, 4]
    with pytest.raises((mblob.KernelError, ValueError), match="4"):
        mod["twice"](x, y, 4)


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


def test_a_missing_loader_names_the_key_the_entry_and_the_remedy(tmp_path: Path) -> None:
    host = kernels()
    host.import_module(mblob.json_module("dnnl_json", "sub", "{}", []))
    host.export_library(tmp_path / "m.so")
    with pytest.raises(mblob.LoaderMissingError) as caught:
        mblob.load_module(tmp_path / "m.so")
    assert caught.value.type_key == "dnnl_json"
    assert caught.value.hint
    assert "dnnl_json" in str(caught.value)
    assert "1" in str(caught.value)
    mod = mblob.load_module(tmp_path / "m.so", missing="stub")
    a, b, c = arrays(5)
    mod["vadd"](a, b, c, 5)
    np.testing.assert_array_equal(c, a + b)


def test_a_symbol_that_nobody_provides_is_an_error_when_the_library_is_opened(tmp_path: Path) -> None:
    source = "int nobody_has_this(int);\nint f(int a) { return nobody_has_this(a); }"
    mblob.csource_module(source, functions=["int f(int a)"]).export_library(tmp_path / "u.so")
    with pytest.raises(mblob.IncompatibleError, match=r"undefined symbol: nobody_has_this; link the library"):
        mblob.load_module(tmp_path / "u.so")


def test_a_file_that_is_overwritten_while_it_is_loaded_is_noticed(tmp_path: Path) -> None:
    kernels().export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    content = (tmp_path / "k.so").read_bytes()
    with (tmp_path / "k.so").open("r+b") as file:
        file.write(content)  # the same bytes, so that what is loaded stays sound
    with pytest.raises(OSError, match="overwritten in place"):
        mblob.load_module(tmp_path / "k.so")
    assert mod["mean"](np.ones(2), 2) == 1.0


@pytest.mark.parametrize("missing", ["error", "stub"])
def test_a_key_that_nobody_knows_without_an_index_ends_the_list(tmp_path: Path, missing: str) -> None:
    """Everything before it is usable, if the rest may be missing."""
    host = kernels()
    host.import_module(mblob.blob_module("nobodys_key", b"payload"))
    with pytest.warns(mblob.UnreadableWarning):
        host.export_library(tmp_path / "n.so", index=False)
    if missing == "error":
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(tmp_path / "n.so")
        assert caught.value.code == "unknown_key"
    else:
        mod = mblob.load_module(tmp_path / "n.so", missing=missing)
        assert (mod.type_key, mod.imported_modules) == ("library", [])
        assert mod["mean"](np.ones(2), 2) == 1.0


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


def test_a_library_cut_anywhere_is_refused_and_never_crashes(tmp_path: Path) -> None:
    host = kernels()
    host.import_module(mblob.blob_module("my_key", bytes(5000)))
    host.export_library(tmp_path / "k.so")
    whole = (tmp_path / "k.so").read_bytes()
    with mblob.open(tmp_path / "k.so") as lib:
        blob = lib.to_json()["blob"]
    end = blob["offset"] + blob["size"]
    for cut in [*range(0, 600, 40), *range(600, end, 1009), end - 1]:
        path = tmp_path / f"cut{cut}.so"
        path.write_bytes(whole[:cut])
        with pytest.raises(mblob.MblobError):
            mblob.load_module(path)


def test_damage_in_the_blob_is_found_before_any_code_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    source = '#include <stdio.h>\n__attribute__((constructor)) static void run(void) { fclose(fopen("%s", "w")); }\n'
    host = mblob.csource_module(source % marker)
    host.import_module(mblob.blob_module("my_key", b"payload-of-my-key"))
    host.export_library(tmp_path / "k.so")
    whole = bytearray((tmp_path / "k.so").read_bytes())
    whole[whole.index(b"payload-of-my-key")] ^= 4
    (tmp_path / "bad.so").write_bytes(whole)
    with pytest.raises(mblob.DigestError, match="my_key"):
        mblob.load_module(tmp_path / "bad.so")
    assert not marker.exists()
    mblob.load_module(tmp_path / "k.so")
    assert marker.exists()


def test_failures_of_packing_keep_the_old_file_and_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = out / "k.so"
    kernels().export_library(path)
    before = path.read_bytes()
    broken = mblob.csource_module("int f(void) { return not_declared; }")
    with pytest.raises(mblob.ToolchainError) as caught:
        broken.export_library(path)
    assert "not_declared" in caught.value.output
    assert caught.value.command
    missing = kernels()
    missing.import_module(mblob.blob_module("k", b"x"))
    with pytest.raises(mblob.ToolchainError, match="no-such-cc"):
        missing.export_library(path, cc="no-such-cc")
    gone = tmp_path / "gone.bin"
    gone.write_bytes(b"x")
    late = kernels()
    late.import_module(mblob.blob_module("k", gone))
    gone.unlink()
    with pytest.raises((OSError, mblob.MblobError), match=r"gone\.bin"):
        late.export_library(path)
    twice = kernels()
    twice.import_module(mblob.csource_module(KERNELS))
    with pytest.raises((mblob.MblobError, ValueError), match="defined twice"):
        twice.export_library(path)
    assert path.read_bytes() == before
    assert [p.name for p in out.iterdir()] == ["k.so"]


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
