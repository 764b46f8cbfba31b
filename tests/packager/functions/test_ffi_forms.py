"""Packed forms of the ffi dialect, called by hand after a plain dlopen: no runtime is there to
help."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.ffi.ffi_sources import PACKED, plain_module
from tests.packager.conftest import Tensor

NONE, INT, FLOAT, HANDLE, TENSOR, RAW_STR, SMALL_STR = 0, 1, 3, 4, 7, 8, 11


class AnyValue(ctypes.Structure):
    """TVMFFIAny."""

    class Value(ctypes.Union):
        _fields_ = (
            ("i", ctypes.c_int64),
            ("f", ctypes.c_double),
            ("p", ctypes.c_void_p),
            ("c", ctypes.c_char * 8),
        )

    _fields_ = (("index", ctypes.c_int32), ("size", ctypes.c_uint32), ("value", Value))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("forms") / "f.so"
    plain_module().export_library(path, dialect="ffi")
    return ctypes.CDLL(str(path))


def call(library: ctypes.CDLL, name: str, *args: tuple[int, Any]) -> tuple[int, AnyValue, str]:
    values = (AnyValue * (len(args) + 1))()
    for value, (index, given) in zip(values, args):
        value.index = index
        field = {FLOAT: "f", INT: "i", NONE: "i"}.get(index, "p")
        setattr(value.value, field, given)
    result = AnyValue()
    status = library[f"__tvm_ffi_{name}"](None, values, len(args), ctypes.byref(result))
    last = library["__mblob_last_error"]
    last.restype = ctypes.c_char_p
    return status, result, last().decode() if status else ""


def tensor(*values: float) -> Any:
    return Tensor((ctypes.c_float * len(values))(*values))


def test_borrowed_tensors_and_scalars_are_arguments(library: ctypes.CDLL) -> None:
    a, b, c = tensor(1, 2, 3), tensor(4, 5, 6), tensor(0, 0, 0)
    arguments = [(TENSOR, ctypes.addressof(t.c)) for t in (a, b, c)]
    assert call(library, "vadd", *arguments, (INT, 3))[0] == 0
    assert list(c.data) == [5, 7, 9]
    status, result, _ = call(library, "scale", (INT, 2), (INT, 4))
    assert (status, result.index, result.size, result.value.f) == (0, FLOAT, 0, 8.0)
    status, result, _ = call(library, "ident", (HANDLE, 4096))
    assert (status, result.index, result.value.p) == (0, HANDLE, 4096)


def test_texts_are_results(library: ctypes.CDLL) -> None:
    short = ctypes.create_string_buffer(b"abcdefg")
    status, result, _ = call(library, "echo", (RAW_STR, ctypes.addressof(short)))
    assert (status, result.index, result.size, result.value.c) == (0, SMALL_STR, 7, b"abcdefg")
    long = ctypes.create_string_buffer(b"abcdefgh")
    status, result, _ = call(library, "echo", (RAW_STR, ctypes.addressof(long)))
    assert (status, result.index) == (0, RAW_STR)
    assert result.value.p is not None and ctypes.string_at(result.value.p) == b"abcdefgh"


def test_errors_have_a_kind_and_a_text(library: ctypes.CDLL) -> None:
    status, _, text = call(library, "scale", (NONE, 0), (INT, 4))
    assert status == -1
    assert text == (
        "TypeError: Mismatched type on argument #0 when calling:\n  `scale(x: float64, k: int8)`,\n"
        "  expected float, found None"
    )
    a = tensor(1, 2, 3)
    a.c.device_type = 2
    status, _, text = call(library, "vadd", *[(TENSOR, ctypes.addressof(a.c))] * 3, (INT, 3))
    assert status == -1
    assert text.startswith("ValueError: Mismatched a.device_type on argument #0")
    assert call(library, "vadd", (HANDLE, ctypes.addressof(a.c)), *[(INT, 1)] * 3)[2].endswith(
        "found handle"
    )
    assert call(library, "vadd", (TENSOR, 0), *[(INT, 1)] * 3)[2].endswith("found NULL")


def test_what_needs_a_runtime_says_so(tmp_path: Path) -> None:
    import mblob

    mblob.csource_module(PACKED).export_library(tmp_path / "p.so", dialect="ffi")
    library = ctypes.CDLL(str(tmp_path / "p.so"))
    status, _, text = call(library, "calls", (INT, 1))
    assert status == -1
    assert text.startswith("RuntimeError: my.callback: no runtime has opened this library")
    assert call(library, "twice", (INT, 4))[1].value.i == 8


def test_nothing_is_undefined_but_the_c_library(tmp_path: Path) -> None:
    """With LD_BIND_NOW, too, in a process that has neither TVM nor tvm_ffi."""
    plain_module().export_library(tmp_path / "f.so", dialect="ffi")
    program = "import ctypes, os; "
    program += f"ctypes.CDLL({str(tmp_path / 'f.so')!r}, os.RTLD_NOW).vadd; print('fine')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "fine\n"
