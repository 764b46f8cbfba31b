"""Fixtures of the packager's tests: sources, trees, and a way to call packed functions without our
runtime."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mblob
from tests.packager import graphs as graph_kernels

VADD_C = """#include <stdint.h>
void vadd(const float *a, const float *b, float *c, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i] = a[i] + b[i];
}
"""
PAYLOAD = bytes(range(250)) * 400
VADD = "void vadd(const float *a, const float *b, float *c, int64_t n)"


class DLTensor(ctypes.Structure):
    """DLPack's tensor, as TVM's kernels read it."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Value(ctypes.Union):
    _fields_ = (
        ("i", ctypes.c_int64),
        ("f", ctypes.c_double),
        ("p", ctypes.c_void_p),
        ("s", ctypes.c_char_p),
    )


class Tensor:
    """A tensor argument over a ctypes array; every field can be set wrong."""

    def __init__(
        self,
        data: Any,
        shape: tuple[int, ...] | None = None,
        *,
        code: int = 2,
        bits: int = 32,
        lanes: int = 1,
        device: int = 1,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        address: int | None = None,
    ) -> None:
        self.data = data
        shape = (len(data),) if shape is None else shape
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * len(strides))(*strides) if strides else None
        where = ctypes.addressof(data) if address is None else address
        self.c = DLTensor(
            where, device, 0, len(shape), code, bits, lanes, self.shape, self.strides, offset
        )


class Typed:
    """An argument with a type code of its own."""

    def __init__(self, code: int, value: Any) -> None:
        self.code = code
        self.value = value


class PackedLibrary:
    """A packed library opened with plain dlopen; packed functions report errors through the
    fallback."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))

    def call(self, name: str, *args: Any) -> tuple[int, str, int, Value]:
        """Status, error text, result code and result of a packed call."""
        values = (Value * (len(args) + 1))()
        codes = (ctypes.c_int * (len(args) + 1))()
        for i, arg in enumerate(args):
            self._set(values[i], codes, i, arg)
        result, code = Value(), ctypes.c_int(4)
        function = self.lib[name]
        status = function(values, codes, len(args), ctypes.byref(result), ctypes.byref(code), None)
        text = b""
        if status:
            read = self.lib["__mblob_last_error"]
            read.restype = ctypes.c_char_p
            text = read()
        return status, text.decode(), code.value, result

    def error(self, name: str, *args: Any) -> str:
        """The error text of a call that must fail."""
        status, text, _, _ = self.call(name, *args)
        assert status == -1
        return text

    @staticmethod
    def _set(value: Value, codes: Any, i: int, arg: Any) -> None:
        if isinstance(arg, Tensor):
            value.p, codes[i] = ctypes.addressof(arg.c), 7
        elif isinstance(arg, Typed):
            codes[i] = arg.code
            if arg.value is not None:
                value.i = arg.value
        elif isinstance(arg, bool):
            value.i, codes[i] = int(arg), 15
        elif isinstance(arg, int):
            value.i, codes[i] = arg, 0
        elif isinstance(arg, float):
            value.f, codes[i] = arg, 2
        elif isinstance(arg, bytes):
            value.s, codes[i] = arg, 11
        else:
            value.p, codes[i] = None, 4


def floats(*values: float) -> Any:
    return (ctypes.c_float * len(values))(*values)


def check(path: Path) -> None:
    """The library holds the tree, reads without a remark, and its function computes."""
    with mblob.open(path) as lib:
        lib.verify("full")
        assert [e.type_key for e in lib.entries] == ["library", "my_key"]
        assert bytes(lib.entries[1].view()) == PAYLOAD
        assert lib.diagnostics == []
        offset, size = lib.blob_offset, lib.blob.size if lib.blob else 0
    opened = PackedLibrary(path)
    c = floats(0)
    assert opened.call("vadd__packed", Tensor(floats(1)), Tensor(floats(2)), Tensor(c), 1)[0] == 0
    assert c[0] == 3
    mapped = ctypes.string_at(
        ctypes.addressof(ctypes.c_char.in_dll(opened.lib, "__tvm_dev_mblob")), size
    )
    assert mapped == path.read_bytes()[offset : offset + size]
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert "arning" not in done.stderr


@pytest.fixture
def vadd() -> mblob.Module:
    """A host module with one plain function."""
    return mblob.csource_module(VADD_C, functions=[VADD])


@pytest.fixture
def tree(vadd: mblob.Module) -> mblob.Module:
    """The host module over a blob of 100000 bytes."""
    vadd.import_module(mblob.blob_module("my_key", PAYLOAD))
    return vadd


@pytest.fixture
def packed(tmp_path: Path) -> Callable[..., PackedLibrary]:
    """`packed(source, *prototypes)`: compile and open."""

    def make(source: str, *prototypes: str, **kwargs: Any) -> PackedLibrary:
        module = mblob.csource_module(
            "#include <stdint.h>\n#include <stdbool.h>\n" + source, functions=prototypes, **kwargs
        )
        module.export_library(tmp_path / "packed.so")
        return PackedLibrary(tmp_path / "packed.so")

    return make


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test, however it fails, leaves temporary files: not beside the output, not in TMPDIR."""
    temporary = tmp_path / "TMPDIR"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    yield
    assert list(temporary.iterdir()) == []
    assert [p.name for p in tmp_path.rglob(".*.so.*")] == []


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The host's kernels, compiled once."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "k.c").write_text(graph_kernels.KERNELS_C)
    subprocess.run(["cc", "-g", "-O1", "-fPIC", "-c", "k.c"], cwd=folder, check=True)
    return folder / "k.o"


@pytest.fixture
def host(kernels: Path) -> Callable[[], mblob.Module]:
    return lambda: mblob.static_library(kernels, functions=graph_kernels.PROTOTYPES)
