"""Which functions of ctypes may stand for a pointer to a function."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_float, c_int, c_uint, c_void_p
from typing import Any

import pytest

from mblob.loader.c_callbacks import mismatch


class Point(ctypes.Structure):
    _fields_ = (("x", c_float),)


RIGHT: dict[str, tuple[Any, ...]] = {
    "int (*f)(int, int)": (c_int, c_int, c_int),
    "void (*)(void)": (None,),
    "void (*)()": (None, c_int, c_double),  # takes anything
    "int (*f)(const char *format, ...)": (c_int, c_char_p),
    "float *(*)(const float x[4], void *, size_t n)": (c_void_p, POINTER(c_float), POINTER(Point), ctypes.c_size_t),
    "real (*)(struct point, enum mode)": (c_double, Point, c_int),
    "int (*)(void (*)(int), char **, _Bool)": (c_int, CFUNCTYPE(None, c_int), POINTER(c_char_p), ctypes.c_uint8),
    "int (*(*f)(int))(float)": (c_void_p, c_int),
    "double (*)(unsigned char, long long)": (c_double, ctypes.c_ubyte, ctypes.c_longlong),
}  # fmt: skip
WRONG: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "result": ("int (*)(int)", (c_double, c_int), "CFUNCTYPE(c_int, c_int)"),
    "no result": ("int (*)(int)", (None, c_int), "CFUNCTYPE(c_int, c_int)"),
    "sign": ("int (*)(int)", (c_int, c_uint), "CFUNCTYPE(c_int, c_int)"),
    "size": ("long long (*)(void)", (c_int,), "CFUNCTYPE(c_long)"),
    "too few": ("void (*f)(float, int)", (None, c_float), "CFUNCTYPE(None, c_float, c_int)"),
    "too many": ("void (*)(void)", (None, c_int), "CFUNCTYPE(None)"),
    "number for an address": ("void (*)(void *)", (None, ctypes.c_size_t), "CFUNCTYPE(None, c_void_p)"),
    "address for a number": ("void (*)(size_t)", (None, c_void_p), "CFUNCTYPE(None, c_ulong)"),
    "other memory": ("void (*)(const double *x)", (None, POINTER(c_float)), "CFUNCTYPE(None, POINTER(c_double))"),
    "text for numbers": ("void (*)(const float *)", (None, c_char_p), "CFUNCTYPE(None, POINTER(c_float))"),
    "too few for more": ("int (*)(int, ...)", (c_int,), ""),
    "beside a struct": ("int (*)(struct s, int)", (c_int, Point, c_float), ""),
}  # fmt: skip


@pytest.mark.parametrize("declared", RIGHT)
def test_types_that_pass_the_same_fit(declared: str) -> None:
    assert mismatch(declared, CFUNCTYPE(*RIGHT[declared])()) == ""


@pytest.mark.parametrize("kind", WRONG)
def test_other_types_are_shown_with_those_to_write(kind: str) -> None:
    declared, types, instead = WRONG[kind]
    given = f"CFUNCTYPE({', '.join(_shown(t) for t in types)})"
    remedy = f"; declare it as {instead}" if instead else ""
    expected = f"expected {declared}, found {given}{remedy}"
    assert mismatch(declared, CFUNCTYPE(*types)()) == expected


def _shown(ctype: Any) -> str:
    if ctype is None:
        return "None"
    name = str(ctype.__name__)
    return f"POINTER({name[3:]})" if name.startswith("LP_") else name


def test_a_function_without_types_is_an_address() -> None:
    assert mismatch("float (*)(float)", ctypes.CDLL(None).abs) == ""
