"""`mblob_last_error_info()` in C: every status and every code that mblob.h names."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

import pytest

import mblob
from tests.built_once import ROOT
from tests.unit.test_error_classes import GRAPH

# a library without a loader starts plug-ins
pytestmark = pytest.mark.own_process
HEADER = (ROOT / "csrc/include/mblob.h").read_text()
KERNELS = """
int one(int n) { return n; }
int other(int n) { return n; }
"""


class Info(ctypes.Structure):
    _fields_ = [
        ("status", c_int), ("message", c_char_p), ("code", c_char_p), ("offset", c_int64), ("entry", c_int64),
        ("type_key", c_char_p), ("available", c_char_p), ("hint", c_char_p),
    ]  # fmt: skip


class Runtime:
    """libmblob through ctypes, and a library with a kernel and a model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.c = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
        self.c.mblob_last_error_info.restype = ctypes.POINTER(Info)
        for name in ("last_error", "status_name", "function_signature", "function_prototype"):
            getattr(self.c, f"mblob_{name}").restype = c_char_p
        self.file = folder / "k.so"
        factory = mblob.graph_executor_factory(json.dumps(GRAPH), {})
        factory.import_module(
            mblob.csource_module(KERNELS, functions=["int one(int n)"]),
        )
        factory.export_library(self.file)
        self.module = self.open(self.file)
        self.model = c_void_p()
        assert not self.c.mblob_executor_create(self.module, None, 1, 0, byref(self.model))

    def open(self, path: Path) -> c_void_p:
        module = c_void_p()
        self.c.mblob_open(str(path).encode(), None, byref(module))
        return module

    def call_unknown(self) -> None:
        """A function of a library that nothing but a compiler made."""
        path = self.folder / "unknown.so"
        (self.folder / "unknown.c").write_text("int one(int n) { return n; }")
        command = ["cc", "-shared", "-fPIC", self.folder / "unknown.c", "-o", path]
        subprocess.run(command, check=True)
        module = self.open(path)
        self.c.mblob_call(module, b"one", b"int", 1)

    def call(self, name: bytes, types: bytes, *arguments: Any) -> None:
        self.c.mblob_call(self.module, name, types, *arguments)

    def run(self, name: bytes, types: bytes, *arguments: Any) -> None:
        self.c.mblob_call(self.model, name, types, *arguments)

    def damaged(self, old: bytes, new: bytes) -> None:
        data = self.file.read_bytes()
        assert data.count(old) and len(old) == len(new)
        (self.folder / "damaged.so").write_bytes(data.replace(old, new))
        self.open(self.folder / "damaged.so")

    def of_other_machine(self) -> None:
        data = bytearray(self.file.read_bytes())
        data[18:20] = b"\xf3\x00" if data[18] != 0xF3 else b"\xb7\x00"  # riscv, or aarch64
        (self.folder / "other.so").write_bytes(data)
        self.open(self.folder / "other.so")

    def without_loader(self) -> None:
        host = mblob.csource_module(KERNELS, functions=[])
        host.import_module(mblob.device_module("metal", "kernel void k() {}", functions=["k"]))
        host.export_library(self.folder / "alone.so")
        self.open(self.folder / "alone.so")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    return Runtime(tmp_path_factory.mktemp("codes"))


X = (ctypes.c_float * 2)(1, 2)
Case = tuple[str, Callable[[Runtime], object]]
CODES: dict[str, list[Case]] = {
    "argument_type": [
        ("MBLOB_E_ARGUMENT", lambda r: r.run(b"set_input", b"str,int", b"x", 1)),
        ("MBLOB_E_ARGUMENT", lambda r: r.run(b"get_output", b"str", b"x")),
    ],
    "argument_count": [
        ("MBLOB_E_ARGUMENT", lambda r: r.call(b"one", b"int,int", 1, 2)),
        ("MBLOB_E_ARGUMENT", lambda r: r.call(b"one", b"")),
        ("MBLOB_E_ARGUMENT", lambda r: r.run(b"get_output", b"int,int,int", 0, 1, 2)),
        ("MBLOB_E_ARGUMENT", lambda r: r.run(b"set_input", b"str", b"x")),
    ],
    "argument_dtype": [
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_executor_set_input(r.model, b"x", b"int32[2]", X)),
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_executor_get_output(r.model, c_int64(0), b"int32[2]", X)),
    ],
    "argument_index": [
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_executor_get_output(r.model, c_int64(7), b"float32[2]", X)),
        ("MBLOB_E_ARGUMENT", lambda r: r.run(b"set_input", b"int,float32[2]", 7, X)),
    ],
    "argument_name": [
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_executor_set_input(r.model, b"no", b"float32[2]", X)),
    ],
    "argument_value": [
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_executor_set_input(r.model, b"x", b"float32[3]", X)),
        ("MBLOB_E_ARGUMENT", lambda r: r.call(b"one", b"integer", 1)),
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_open(None, None, byref(c_void_p()))),
        ("MBLOB_E_ARGUMENT", lambda r: r.c.mblob_set_error(10, b"mine")),
    ],
    "kernel_arguments": [
        ("MBLOB_E_KERNEL", lambda r: r.call(b"one", b"float32", ctypes.c_double(1))),
    ],
    "elf_machine": [("MBLOB_E_INCOMPATIBLE", Runtime.of_other_machine)],
    "plain_function": [("MBLOB_E_NOT_FOUND", lambda r: r.call(b"other", b"int", 1))],
    "unknown_convention": [("MBLOB_E_NOT_FOUND", Runtime.call_unknown)],
}  # fmt: skip
STATUSES: dict[str, Callable[[Runtime], object]] = {
    "MBLOB_E_ARGUMENT": CODES["argument_count"][0][1],
    "MBLOB_E_NOT_FOUND": lambda r: r.call(b"none", b""),
    "MBLOB_E_FORMAT": lambda r: r.damaged(b"\x7fELF", b"\x7fELG"),
    "MBLOB_E_DIGEST": lambda r: r.damaged(b'"float32"', b'"float64"'),
    "MBLOB_E_INCOMPATIBLE": Runtime.of_other_machine,
    "MBLOB_E_LOADER": Runtime.without_loader,
    "MBLOB_E_KERNEL": CODES["kernel_arguments"][0][1],
    "MBLOB_E_IO": lambda r: r.open(r.folder / "none.so"),
    "MBLOB_E_MEMORY": lambda r: r.c.mblob_set_error(70, b"no memory"),
}


def statuses() -> dict[str, int]:
    return {name: int(n) for name, n in re.findall(r"(MBLOB_(?:OK|E_\w+)) = (\d+)", HEADER)}


def test_each_code_and_status_of_the_header_has_a_test() -> None:
    comment = HEADER[HEADER.index("/* Stable name of what is wrong") :].partition("*/")[0]
    assert set(re.findall(r'"(\w+)"', comment)) == set(CODES)
    assert set(statuses()) == {"MBLOB_OK", *STATUSES}


@pytest.mark.parametrize("code", CODES)
def test_a_code_of_the_header_is_what_c_finds(runtime: Runtime, code: str) -> None:
    for i, (status, fail) in enumerate(CODES[code]):
        fail(runtime)
        info = runtime.c.mblob_last_error_info().contents
        found = (info.code.decode(), runtime.c.mblob_status_name(info.status).decode())
        assert found == (code, status), (i, info.message)


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_of_the_header_is_what_c_finds_and_has_its_name(
    runtime: Runtime, status: str
) -> None:
    STATUSES[status](runtime)
    info = runtime.c.mblob_last_error_info().contents
    assert info.status == statuses()[status], info.message
    assert runtime.c.mblob_status_name(info.status).decode() == status


def test_a_number_that_is_no_status_has_no_name(runtime: Runtime) -> None:
    assert runtime.c.mblob_status_name(0) == b"MBLOB_OK"
    assert {runtime.c.mblob_status_name(n) for n in (-1, 1, 71, 2**31 - 1)} == {b""}


def test_a_function_tells_its_types_and_its_prototype(runtime: Runtime) -> None:
    function = c_void_p()
    assert not runtime.c.mblob_module_function(runtime.module, b"one", 1, byref(function))
    assert runtime.c.mblob_function_signature(function) == b"int"
    assert runtime.c.mblob_function_prototype(function) == b"int one(int n)"
    runtime.c.mblob_function_release(function)
    assert not runtime.c.mblob_module_function(runtime.model, b"run", 0, byref(function))
    assert runtime.c.mblob_function_prototype(function) == b""
    runtime.c.mblob_function_release(function)
    assert runtime.c.mblob_function_prototype(None) == b""


def test_an_empty_path_is_named(runtime: Runtime) -> None:
    for opened in (
        runtime.c.mblob_open,
        lambda p, _, out: runtime.c.mblob_open_readonly(p, 1, out),
    ):
        opened(b"", None, byref(c_void_p()))
        assert runtime.c.mblob_last_error().startswith(b'"" (an empty path): cannot be opened')
