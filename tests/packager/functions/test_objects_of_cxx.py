"""Parameters of C++ that are objects of classes: bytes are none."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

SOURCE = """
#include <string>
#include <vector>
struct vec3 { float x, y, z; vec3(float a) : x(a), y(a), z(a) {} vec3(const vec3 &) = default; };
struct own { int a; ~own() {} };
struct copied { int a; copied(); copied(const copied &other); };
copied::copied() : a(1) {}
copied::copied(const copied &other) : a(other.a) {}
struct virt { int a = 3; virtual int f() { return a; } };
struct member { int a; std::vector<int> v; };
struct derived : own { int b; };
struct plain { int a; float b; int sum() const { return a; } };
int vec(const std::vector<int> &v) { return (int)v.size(); }
int text(const std::string &s) { return (int)s.size(); }
int vector(const std::vector<int> *v) { return (int)v->size(); }
int text_by_value(std::string s) { return (int)s.size(); }
std::string made() { return "x"; }
int owned(own *v) { return v->a; }
int copy(copied &v) { return v.a; }
int virtual_of(virt *v) { return v->f(); }
int member_of(const member *v) { return v->a; }
int derived_of(derived *v) { return v->b; }
int three(const vec3 &v) { return (int)(v.x + v.z); }
int plain_of(const plain *v) { return v->sum(); }
copied *copied_one() { static copied made; return &made; }
virt *create() { static virt v; return &v; }
"""
PLAIN = ["copy", "made", "text", "text_by_value", "vec"]
BY_ADDRESS = ["derived_of", "member_of", "owned", "vector", "virtual_of"]


@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_bytes_are_no_objects(tmp_path: Path, compiler: str, require: Any) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    path = tmp_path / "k.so"
    mblob.csource_module(tmp_path / "k.cpp").export_library(path, cc=require(compiler))
    lib = mblob.load_module(path)
    assert set(lib.functions) == {"three", "plain_of", "create", "copied_one", *BY_ADDRESS}
    assert lib.three(np.ones(3, "float32").view([("x", "f4"), ("y", "f4"), ("z", "f4")])) == 2
    assert lib.plain_of(np.array([7, 0], "int32").view([("a", "i4"), ("b", "f4")])) == 7
    for name in PLAIN:
        with pytest.raises(KeyError, match="an object of C") as error:
            lib[name]
        assert "call_" not in str(error.value)
        if name not in ("text_by_value", "made"):
            with pytest.raises(TypeError, match="ctypes has no type for parameter 0"):
                lib.ctypes[name](b"bytes" * 10)
    values = bytes(64), bytearray(64), np.zeros(8), ctypes.byref((ctypes.c_int64 * 8)())
    for f in (f for name in BY_ADDRESS for f in (lib[name], lib.ctypes[name], lib.symbol(name))):
        for value in values:
            with pytest.raises(
                (mblob.MblobError, TypeError),
                match=r"expected the address of an object of C|read-only",
            ):
                f(value)
    assert lib.virtual_of(lib.create()) == lib.virtual_of.bind(lib.create())() == 3
    assert lib.ctypes.virtual_of(lib.ctypes.create()) == 3
    names = ["int copy(void *v)", "copied_one"]
    mblob.csource_module(tmp_path / "k.cpp", functions=names).export_library(path, cc=compiler)
    lib = mblob.load_module(path)
    assert lib.copy(lib.copied_one()) == 1
