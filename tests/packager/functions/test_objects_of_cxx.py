"""Parameters of C++ that are objects of classes: bytes are none."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob

SOURCE = """
#include <map>
#include <memory>
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
template <class T> struct own_allocator : std::allocator<T> {
  template <class U> struct rebind { using other = own_allocator<U>; };
};
struct plain { int a; float b; int sum() const { return a; } };
int vec(const std::vector<int> &v) { return (int)v.size(); }
int text(const std::string &s) { return (int)s.size(); }
int vector(const std::vector<int> *v) { return (int)v->size(); }
int text_by_value(std::string s) { return (int)s.size(); }
std::string made() { return "x"; }
int unique(std::unique_ptr<int> p) { return *p; }
int mapped(const std::map<int, int> &m) { return (int)m.size(); }
int allocated(const std::vector<int, own_allocator<int>> &v) { return (int)v.size(); }
int rows(const std::vector<std::vector<int>> &v) { return (int)v.size(); }
std::shared_ptr<int> shared() { return nullptr; }
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
PLAIN = ["copy", "unique", "mapped", "allocated", "rows", "shared"]
MADE = ["made", "text", "text_by_value", "vec"]
BY_ADDRESS = ["derived_of", "member_of", "owned", "vector", "virtual_of"]


@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_bytes_are_no_objects(tmp_path: Path, compiler: str, require: Any) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    path = tmp_path / "k.so"
    mblob.csource_module(tmp_path / "k.cpp").export_library(path, cc=require(compiler))
    lib = mblob.load_module(path)
    assert set(lib.functions) == {"three", "plain_of", "create", "copied_one", *BY_ADDRESS, *MADE}
    assert lib.three(np.ones(3, "float32").view([("x", "f4"), ("y", "f4"), ("z", "f4")])) == 2
    assert lib.plain_of(np.array([7, 0], "int32").view([("a", "i4"), ("b", "f4")])) == 7
    for name in PLAIN:
        with pytest.raises(KeyError, match="an object of C") as error:
            lib[name]
        assert "call_" not in str(error.value)
        if name not in ("unique", "shared"):
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


VIEWS = """
#include <array>
#include <complex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>
template <class T> struct range { T *data; int size; };
int len(std::string_view s) { return (int)s.size(); }
int len_of(const std::string_view &s) { return (int)s.size(); }
int len_at(const std::string_view *s) { return (int)s->size(); }
int maybe(const std::optional<int> &o) { return o.value_or(3); }
int second(const std::pair<int, int> &p) { return p.second; }
float third(const std::array<float, 3> &a) { return a[2]; }
float real(const std::complex<float> &z) { return z.real(); }
int size_of(const range<float> &r) { return r.size; }
std::string_view *view() { static std::string_view made = "four"; return &made; }
"""


@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_views_of_the_library_take_addresses_alone(
    tmp_path: Path, compiler: str, require: Any
) -> None:
    (tmp_path / "k.cpp").write_text(VIEWS)
    options = ["-std=c++17"]
    module = mblob.csource_module(tmp_path / "k.cpp")
    module.export_library(tmp_path / "k.so", cc=require(compiler), options=options)
    lib = mblob.load_module(tmp_path / "k.so")
    found = {"len", "len_of", "len_at", "second", "third", "real", "size_of", "view"}
    assert set(lib.functions) == found
    assert lib.len_at(lib.view()) == 4
    assert lib.second(np.array([1, 2], "int32")) == 2
    assert lib.third(np.array([1, 2, 3], "float32")) == 3
    assert lib.real(np.array([5 + 1j], "complex64")) == 5
    assert lib.size_of(bytes(8) + (7).to_bytes(8, "little")) == 7
    for given in (b"0123456789abcdef", bytearray(16), np.zeros(2, "int64"), np.zeros(16, "uint8")):
        with pytest.raises(TypeError, match="an object of C"):
            lib.len_at(given)
        with pytest.raises(TypeError, match="an object of C"):
            lib.ctypes.len_at(given)
        for name in ("len", "len_of", "maybe"):
            with pytest.raises(TypeError, match="ctypes has no type for parameter 0"):
                lib.ctypes[name](given)
    with pytest.raises(KeyError, match="an object of C"):
        lib["maybe"]
    remedies = []
    command = [compiler, "-O1", "-g", "-fPIC", *options, "-c", "k.cpp", "-o", "k.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    for name in ("len", "len_of"):
        asked = mblob.static_library(tmp_path / "k.o", functions=[name])
        with pytest.raises(mblob.BuildError, match=r"an object of C.*: int call_") as error:
            asked.export_library(tmp_path / "y.so", cc=compiler, options=options)
        remedies.append(str(error.value).rpartition(": ")[2])
    (tmp_path / "k.cpp").write_text(VIEWS + "\n".join(remedies))
    module.export_library(tmp_path / "z.so", cc=compiler, options=options)
    lib = mblob.load_module(tmp_path / "z.so")
    assert (lib.call_len("text"), lib.call_len_of("texts")) == (4, 5)


def test_overloads_that_are_given_together_are_told_with_a_function_to_write(
    tmp_path: Path, require: Any
) -> None:
    source = "int f(int x) { return x + 1; }\ndouble f(double x) { return x + 0.5; }\n"
    (tmp_path / "k.cpp").write_text(f"namespace ns {{ {source} }}")
    both = ["int ns::f(int x)", "double ns::f(double)"]
    shown = r"int ns::f\(int x\), and double ns::f\(double\); leave one out.*, one is called by the name: add namespace"
    with pytest.raises(mblob.BuildError, match=shown):
        mblob.csource_module(tmp_path / "k.cpp", functions=both).export_library(tmp_path / "k.so")
    (tmp_path / "k.cpp").write_text(source)
    both = ["int f(int x)", "double f(double)"]
    shown = r"int f\(int x\), and double f\(double\); leave one out.*: add double f_2\(.*\) .* to the source"
    with pytest.raises(mblob.BuildError, match=shown) as error:
        mblob.csource_module(tmp_path / "k.cpp", functions=both).export_library(tmp_path / "k.so")
    text = str(error.value)
    made = text[text.index(": add ") + 6 : text.index(" to the source")]
    (tmp_path / "k.cpp").write_text(source + made)
    module = mblob.csource_module(tmp_path / "k.cpp", functions=[both[0], "double f_2(double)"])
    module.export_library(tmp_path / "k.so", cc=require("c++"))
    lib = mblob.load_module(tmp_path / "k.so")
    assert (lib.f(1), lib.f_2(1)) == (2, 1.5)
