"""Libraries of the ffi dialect, as apache-tvm 0.27 exports them, called in a process without
TVM."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

pytestmark = pytest.mark.own_process

ROOT = Path(__file__).resolve().parents[3]
TARGETS = ["llvm", "c"]


@pytest.fixture(scope="session")
def exported(package_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what tests/loader/calls/ffi_libraries.py writes; apache-tvm must be
    installed."""
    for package in ("tvm", "tvm_ffi"):
        package_of(package)
    folder = tmp_path_factory.mktemp("ffi")
    program = [sys.executable, "-m", "tests.loader.calls.ffi_libraries", str(folder)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype="float32")


# -- kernels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compute(exported: Path, target: str) -> None:
    assert "tvm" not in sys.modules
    lib = mblob.load_module(exported / f"host_{target}.so")
    assert (lib.type_key, lib.imported_modules, bytes(lib.payload)) == ("library", [], b"")
    a, b, c = floats(16), np.full(16, 0.5, "float32"), np.empty(16, "float32")
    lib["main"](a, b, c)
    np.testing.assert_array_equal(c, a + b)
    lib(b, b, c)  # the entry
    np.testing.assert_array_equal(c, b + b)
    assert lib.entry_func is not None
    x = floats(10).reshape(5, 2)
    lib["scale"](x, 3, 0.5)
    np.testing.assert_array_equal(x, floats(10).reshape(5, 2) * 0.5 + 3)
    assert lib["iadd"](2**62, -1) == 2**62 - 1
    flags, out = np.array([True, False, True, True]), np.zeros(4, bool)
    lib["flip"](flags, out)
    np.testing.assert_array_equal(out, ~flags)
    assert [lib["above"](n) for n in (3, 4)] == [False, True]
    assert isinstance(lib["above"](1), bool)
    small, wide = np.full((2, 3), 7, "int8"), np.zeros((2, 3), "uint64")
    lib["widen"].bind(small, wide)()
    assert wide.sum() == 42


@pytest.mark.parametrize("target", TARGETS)
def test_names_are_those_of_the_source(exported: Path, target: str) -> None:
    lib = mblob.load_module(exported / f"host_{target}.so")
    assert lib.implements_function("iadd")
    for name in ("nobody", "__tvm_ffi_iadd", "_library_ctx", "_library_bin", "", "iadd\0"):
        assert not lib.implements_function(name)
    with pytest.raises(
        AttributeError, match=r"no function 'iad'; it has: above, flip, iadd, main, scale, widen"
    ):
        lib.get_function("iad")
    assert ctypes.cast(lib.symbol("__tvm_ffi_iadd"), ctypes.c_void_p).value
    assert (lib.get_function_metadata("iadd"), lib.get_function_doc("iadd")) == (None, None)


@pytest.mark.parametrize("target", TARGETS)
def test_what_kernels_refuse_is_told_with_its_kind(exported: Path, target: str) -> None:
    lib = mblob.load_module(exported / f"host_{target}.so")
    a, b = floats(16), floats(16)
    cases: list[tuple[tuple[Any, ...], str, str]] = [
        ((a, b), "TypeError", "Expected 3 arguments"),
        ((a, b, 1), "TypeError", "Mismatched type on argument #2"),
        ((a, b, floats(4)), "ValueError", "argument #2"),
        ((a, b, b.astype("int32")), "TypeError", "dtype on argument #2"),
        ((a, b, b.reshape(4, 4)), "ValueError", "argument #2"),
        ((a, b, None), "", "argument #2"),
    ]
    for args, kind, text in cases:
        with pytest.raises(mblob.KernelError) as caught:
            lib["main"](*args)
        assert text in str(caught.value)
        assert caught.value.kind == kind or not kind
        assert caught.value.exit_code == 2  # wrong arguments
        assert str(caught.value).startswith(caught.value.kind + ": ")
    lib["main"](a, b, np.empty(16, "float32"))  # an error leaves nothing behind


# -- what kernels call -----------------------------------------------------------------------------


@pytest.fixture
def functions() -> Any:
    """Register functions for a test: functions(name, fn)."""

    def register(name: str, function: Any) -> None:
        mblob.register_func(name, function, override=True)

    return register


@pytest.mark.parametrize("target", TARGETS)
def test_functions_are_called_by_name(exported: Path, functions: Any, target: str) -> None:
    lib = mblob.load_module(exported / f"calls_{target}.so")
    notes: list[Any] = []
    functions("test.note", lambda *args: notes.append(args))
    asked: list[int] = []
    functions("test.answer", lambda n: asked.append(n) or n * 2)
    x = floats(8)
    lib["notes"](x, 7, 2.5)
    (text, short, n, f, address) = notes[0]
    assert (text, short, n, f) == ("a text that is long", "short", 7, 2.5)
    assert int(address) != 0
    results = [lib["answers"](n) for n in (20, -1)]
    assert asked == [20, -1]
    functions("test.answer", lambda n: asked.append(n) or n * 3)  # another from now on
    results.append(lib["answers"](30))
    assert asked == [20, -1, 30]
    # What TVM 0.27 writes for "c" forgets the result of the call: 1 is what its own runtime
    # returns, too.
    assert results == ([41, -1, 91] if target == "llvm" else [1, 1, 1])


def test_imports_come_before_the_registry(exported: Path, functions: Any) -> None:
    functions("test.answer", lambda n: n * 2)
    lib = mblob.load_module((exported / "calls_llvm.so").read_bytes())
    lib.import_module(mblob.Module("helper", functions={"test.answer": lambda n: n * 100}))
    assert lib["answers"](2) == 201


@pytest.mark.parametrize("target", TARGETS)
def test_a_python_function_that_raises_ends_the_kernel(
    exported: Path, functions: Any, target: str
) -> None:
    lib = mblob.load_module(exported / f"calls_{target}.so")
    error = KeyError("what is missing")

    def fails(*_args: Any) -> None:
        raise error

    functions("test.answer", fails)
    functions("test.each", fails)
    with pytest.raises(KeyError) as caught:
        lib["answers"](1)
    assert caught.value is error
    with pytest.raises((KeyError, mblob.KernelError), match="what is missing"):
        lib["loops"](1)
    functions("test.answer", lambda n: n)
    assert lib["answers"](1) == (2 if target == "llvm" else 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_that_nobody_has_is_an_error(exported: Path, target: str) -> None:
    lib = mblob.load_module(exported / f"calls_{target}.so")
    with pytest.raises(mblob.KernelError, match=r"Cannot find function test\.nobody"):
        lib["misses"](1)


@pytest.mark.parametrize("target", TARGETS)
def test_workspaces_and_loops(exported: Path, functions: Any, target: str) -> None:
    lib = mblob.load_module(exported / f"calls_{target}.so")
    a, b = floats(1024), np.zeros(1024, "float32")
    hits: list[int] = []
    functions("test.each", hits.append)

    def run() -> None:
        out = np.zeros(1024, "float32")
        for _ in range(20):
            lib["works"](a, out)
            np.testing.assert_array_equal(out, a * 2 + 1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lib["works"](a, b)
    np.testing.assert_array_equal(b, a * 2 + 1)
    lib["loops"](0)
    assert sorted(hits) == list(range(64))


def test_a_kernel_passes_a_tensor_of_its_own(exported: Path, functions: Any) -> None:
    seen: list[Any] = []
    functions("test.tensor", lambda t: seen.append(t.numpy().copy()))
    mblob.load_module(exported / "tensors.so")["shows"](floats(8))
    np.testing.assert_array_equal(seen[0], floats(8))


# -- devices and models ----------------------------------------------------------------------------


def test_opencl_kernels_run_on_the_device(exported: Path, opencl_device: mblob.Device) -> None:
    lib = mblob.load_module(exported / "opencl.so")
    (device,) = lib.imported_modules
    assert device.type_key == "opencl"
    assert "__kernel void vadd_kernel" in device.get_source()
    assert device.tensors == {}
    a, b = floats(1024), np.full(1024, 0.5, "float32")
    c = mblob.empty((1024,), "float32", opencl_device)
    lib["vadd"](mblob.array(a, opencl_device), mblob.array(b, opencl_device), c)
    np.testing.assert_array_equal(c.numpy(), a + b)
    with pytest.raises(mblob.KernelError, match="device_type"):
        lib["vadd"](a, b, c)


def test_a_cuda_module_is_opened_and_its_source_told(exported: Path) -> None:
    lib = mblob.load_module(exported / "cuda.so")
    (device,) = lib.imported_modules
    assert "vadd_kernel" in device.get_source()
    with pytest.raises(mblob.IncompatibleError, match=r"the module holds CUDA C\+\+ source"):
        device.get_function("vadd_kernel")


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_kernels_of_a_model_can_be_called_by_name(exported: Path, mode: str) -> None:
    lib = mblob.load_module(exported / f"relax_{mode}.so")
    assert (lib.type_key, [m.type_key for m in lib.imported_modules]) == (
        "relax.VMExecutable",
        ["library"],
    )
    assert bytes(lib.payload[:8]) == bytes.fromhex("1e1514422fde25d2")
    x, out = np.zeros((2, 3), "float32"), np.empty((2, 3), "float32")
    lib["add"](x, out)
    assert (out == 1).all()


def test_a_loader_of_the_program_opens_them(exported: Path) -> None:
    seen: list[Any] = []

    def load(payload: memoryview, ctx: Any) -> mblob.Module:
        seen.append((ctx.dialect, ctx.type_key, ctx.index, [m.type_key for m in ctx.imports]))
        return mblob.Module("mine", functions={"main": lambda: len(payload)})

    lib = mblob.load_module(exported / "relax_bytecode.so", loaders={"relax.VMExecutable": load})
    assert lib["main"]() == len(lib.payload)
    assert seen == [("ffi", "relax.VMExecutable", 0, ["library"])]


# -- TVM's own files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tree"),
    [
        ("ctx_llvm", ["library"]),
        ("metal", ["library", "metal"]),
        ("webgpu", ["library", "webgpu"]),
        ("relax_c", ["relax.VMExecutable", "library"]),
    ],
)
def test_the_golden_files_open(golden: Path, functions: Any, name: str, tree: list[str]) -> None:
    lib = mblob.load_module(golden / f"ffi/{name}.so", missing="stub")
    assert [m.type_key for m in lib.walk()] == tree
    if name == "ctx_llvm":
        assert lib.implements_function("par")
        assert lib.implements_function("usepacked")
    if name in ("metal", "webgpu"):
        assert "vadd_kernel" in lib.imported_modules[0].get_source()
        with pytest.raises(mblob.LoaderMissingError):
            lib.imported_modules[0]["vadd_kernel"]
        with pytest.raises(mblob.KernelError, match="device_type"):
            lib["main"](*(floats(1024) for _ in range(2)))
    if name == "relax_c":
        assert lib.implements_function("add", query_imports=True)


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_blob_is_told_by_its_rule(golden: Path) -> None:
    whole = bytearray((golden / "ffi/relax_c.so").read_bytes())
    with mblob.open(golden / "ffi/relax_c.so") as lib:
        at = lib.to_json()["blob"]["offset"]
    damage = {
        "size": (0, 2**40),
        "truncated": (8, 2**60),
        "tree_rows": (16, 1),
        "tree_child": (48, 7),
        "tree_cycle": (48, 0),
        "tree_empty": (8, 1),
    }
    for code, (offset, value) in damage.items():
        data = bytearray(whole)
        data[at + offset : at + offset + 8] = value.to_bytes(8, "little")
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(bytes(data), missing="stub")
        assert caught.value.code == code


@pytest.mark.parametrize("name", ["uint_fast8_t", "uint_fast16_t", "uint_fast32_t"])
def test_a_type_as_wide_as_the_c_library_likes_takes_no_negative_number(
    tmp_path: Path, name: str
) -> None:
    prototype = f"{name} same({name} x)"
    code = f"#include <stdint.h>\n{prototype} {{ return x; }}"
    source = mblob.csource_module(code, functions=[prototype])
    source.export_library(tmp_path / "x.so", dialect="ffi")
    same = mblob.load_module(tmp_path / "x.so")["same"]
    assert same(7) == 7
    for number in (-1, -(2**40), 2**64):
        with pytest.raises((OverflowError, mblob.KernelError), match="expected"):
            same(number)
