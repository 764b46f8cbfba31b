"""Arguments that cannot be passed: the error says what to pass in place of each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

CODE = """#include <stdbool.h>
int apply(int (*f)(int), int x) { return f(x); }
int twice(int x) { return 2 * x; }
int fill(void *p, int n) { return n; }
void set(int *out) { *out = 5; }
void flag(bool *out) { *out = 1; }
void upper(char *s) { *s -= 32; }
void name(const char **out) { *out = "made"; }
"""
POINTER, INT = ctypes.c_char_p(), ctypes.c_int()
# what is wrong, what is said, and what is passed instead
ADVICE: dict[str, tuple[Callable[[Any], object], str, Callable[[Any], object]]] = {
    "a packed function for one of C": (
        lambda lib: lib.apply(lib.twice, 4), r"PackedFunction; of a C function pass lib\.symbol\('twice'\)",
        lambda lib: lib.apply(lib.symbol("twice"), 4) == 8,
    ),
    "a number for a function": (
        lambda lib: lib.apply(0.5, 4), r"a function of ctypes\.CFUNCTYPE, or an address, found float$",
        lambda lib: lib.apply(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs), -3) == 3,
    ),
    "a text for a function": (
        lambda lib: lib.apply("twice", 4), r"a function of ctypes\.CFUNCTYPE, or an address, found str$",
        lambda lib: True,
    ),
    "a number for any pointer": (
        lambda lib: lib.fill(5, 4), r"expected an array, bytes, or ctypes\.c_void_p\(address\), found 5$",
        lambda lib: lib.fill(ctypes.c_void_p(5), 4) == 4,
    ),
    "a pointer of ctypes for an array": (
        lambda lib: lib.set(ctypes.pointer(INT)), r"tells no size; pass ctypes\.byref\(out\.contents\), or an array$",
        lambda lib: lib.set(ctypes.byref(ctypes.pointer(INT).contents)) is None and INT.value == 5,
    ),
    "bytes for bool": (
        lambda lib: lib.flag(np.zeros(1, "u1")), r'array of bool, found uint8; convert it with astype\("bool"\)$',
        lambda lib: lib.flag(np.zeros(1, bool)) is None,
    ),
    "bytes to write to": (
        lambda lib: lib.upper(b"abc"), r"bytes are read-only, and the function writes to it; pass bytearray\(s\)$",
        lambda lib: lib.upper(bytearray(b"abc")) is None,
    ),
    "a pointer that is to be set": (
        lambda lib: lib.name(POINTER), r"found c_char_p; if the function sets the pointer p, pass ctypes\.byref\(p\)$",
        lambda lib: lib.name(ctypes.byref(POINTER)) is None and POINTER.value == b"made",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    path: Path = tmp_path_factory.mktemp("advice") / "k.so"
    mblob.csource_module(CODE).export_library(path, dialect=request.param)
    return mblob.load_module(path)


@pytest.mark.own_process  # starts libmblob-ffi.so
@pytest.mark.parametrize("kind", ADVICE)
def test_what_cannot_be_passed_is_told_with_what_can(kind: str, lib: mblob.Module) -> None:
    wrong, says, right = ADVICE[kind]
    with pytest.raises(mblob.MblobError, match=says):
        wrong(lib)
    assert right(lib)
