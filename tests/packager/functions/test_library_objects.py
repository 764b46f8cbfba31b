"""Strings, vectors and other classes of the standard library of C++, which functions take and return: made of texts and
arrays, and copied to them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import shown

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <algorithm>
#include <array>
#include <complex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
struct point { float x; int y; };
namespace ns { inline namespace v1 {
// How long a text is.
int length(std::string s) { return (int)s.size(); }
int length_of(const std::string &s) { return (int)s.size(); }
int length_at(std::string_view s) { return (int)s.size(); }
int kept(std::string &&s) { static std::string own; own = std::move(s); return (int)own.size(); }
double sum(const std::vector<double> &v) { return std::accumulate(v.begin(), v.end(), 0.0); }
int at_most(std::array<int, 3> a, point p) { return a[0] + a[2] + p.y; }
void twice(std::vector<float> &v) { for (auto &x : v) x *= 2; if (v.size() == 3) v.push_back(1); }
void upper(std::string &s, const float *p, const int &n) {
  for (auto &c : s) if (c >= 'a') c -= 32;
  s[0] = (char)('0' + n + (int)p[0]);
}
std::string times(const std::string &a, int n) { std::string r; while (n-- > 0) r += a; return r; }
std::string_view behind(std::string_view s) { return s.substr(1); }
const std::string &same(std::string_view s) { static std::string own; own = s; return own; }
std::vector<int> counted(int n) { std::vector<int> v(n); std::iota(v.begin(), v.end(), 0); return v; }
std::vector<bool> flipped(std::vector<bool> v) { v.flip(); return v; }
std::vector<std::complex<float>> conjugated(std::vector<std::complex<float>> v) {
  for (auto &x : v) x = std::conj(x);
  return v;
}
std::array<double, 2> size_twice(const std::vector<unsigned char> &v) noexcept {
  return {(double)v.size(), (double)v.size()};
}
point at(std::string_view s, float x) { return {x, (int)s.size()}; }
std::string thrown(const std::string &text) { throw std::runtime_error(text); }
void split(const std::string &s, std::vector<std::string> &out) {
  size_t at = 0;
  for (size_t end; (end = s.find(' ', at)) != std::string::npos; at = end + 1) out.push_back(s.substr(at, end - at));
  out.push_back(s.substr(at));
}
std::vector<std::string> words(const std::string &s) { std::vector<std::string> out; split(s, out); return out; }
std::string joined(const std::vector<std::string> &v) { std::string r; for (auto &s : v) r += s + "|"; return r; }
void filled(std::string &out, int n) { out.append(n, 'x'); }
bool parsed(const char *text, std::vector<double> &out) { out.assign(3, text[0] - '0'); return true; }
unsigned long two(std::vector<int> &a, std::vector<int> &b) { a[0] = 7; b[0] = 8; return a.size() + b.size(); }
std::vector<std::vector<int>> rows(int n) { return std::vector<std::vector<int>>(n); }
const char *behind_dots(const std::string &s) { return s[0] == '.' ? s.c_str() + 3 : nullptr; }
const double &largest(const std::vector<double> &v) { return *std::max_element(v.begin(), v.end()); }
int &element(std::vector<int> v, int i) { return v.at(i); }
const double *first(const std::vector<double> &v) { return v.data(); }
const double *first_of(std::string_view name, const double *v) { return name.empty() ? nullptr : v; }
const char *first_text(const std::vector<std::string> &v) { return v[0].c_str(); }
}}
"""


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: Any, tmp_path_factory: Any) -> Any:
    folder = tmp_path_factory.mktemp("library")
    (folder / "k.cpp").write_text(SOURCE)
    module = mblob.csource_module(folder / "k.cpp")
    cc = "clang" if request.param == "ffi" else "cc"
    module.export_library(folder / "k.so", dialect=request.param, cc=cc, options=["-std=c++17"])
    return mblob.load_module(folder / "k.so")


@pytest.mark.parametrize("name", ["length", "length_of", "length_at", "kept"])
def test_a_text_is_made_a_string(lib: Any, name: str) -> None:
    f = lib[f"ns::{name}"]
    for text in ("four", "", "ä", "a\0b", b"\xff\xfe", bytearray(b"abc"), "x" * 100_000):
        assert f(text) == len(text.encode() if isinstance(text, str) else text)
    assert f(np.frombuffer(b"abc", "int8")) == 3
    for wrong in (1, None, np.zeros(3)):
        with pytest.raises(mblob.MblobError, match=r"argument (#)?0"):
            f(wrong)


def test_an_array_is_made_a_vector(lib: Any) -> None:
    total = lib["ns::sum"]
    assert (total(np.arange(5.0)), total(np.zeros(0)), total(np.ones((2, 3)))) == (10, 0, 6)
    read_only = np.ones(3)
    read_only.flags.writeable = False
    assert total(read_only) == 3
    assert total(np.ones(1_000_000)) == 1_000_000
    with pytest.raises(mblob.MblobError, match="expected an array of float64, found float32"):
        total(np.ones(3, "float32"))
    p = np.array((1, 5), dtype=[("x", "f4"), ("y", "i4")])
    assert lib["ns::at_most"](np.array([1, 2, 3], "int32"), p) == 9
    with pytest.raises(mblob.MblobError, match=r"expected shape \(3,\), found \(2,\)"):
        lib["ns::at_most"](np.array([1, 2], "int32"), p)


def test_what_a_function_changes_is_copied_back(lib: Any) -> None:
    v = np.ones(4, "float32")
    lib["ns::twice"](v)
    assert v.tolist() == [2, 2, 2, 2]
    text = bytearray(b"text")
    lib["ns::upper"](text, np.ones(1, "float32"), 3)
    assert text == b"4EXT"
    v.flags.writeable = False
    with pytest.raises(mblob.MblobError, match="read-only"):
        lib["ns::twice"](v)
    with pytest.raises(mblob.MblobError):
        lib["ns::upper"]("text", np.ones(1, "float32"), 3)


def test_a_function_that_leaves_another_number_of_elements_is_an_error(lib: Any) -> None:
    v = np.ones(3, "float32")
    with pytest.raises(mblob.MblobError, match="left 4 elements in it, expected 3; pass None, and"):
        lib["ns::twice"](v)
    assert v.tolist() == [1, 1, 1]


def test_none_begins_empty_and_is_returned(lib: Any) -> None:
    assert lib["ns::split"]("a b ä", None) == ["a", "b", "ä"]
    assert lib["ns::filled"](None, 3) == "xxx"
    assert lib["ns::twice"](None).shape == (0,)
    found, values = lib["ns::parsed"]("2", None)
    assert (found, values.numpy().tolist()) == (True, [2, 2, 2])
    given = np.zeros(3)
    assert lib["ns::parsed"]("4", given) is True or given.tolist() == [4, 4, 4]
    with pytest.raises(mblob.MblobError, match="expected None, found"):
        lib["ns::split"]("a b", ["x"])
    a, b = np.zeros(2, "int32"), np.zeros(3, "int32")
    assert (lib["ns::two"](a, b), a[0], b[0]) == (5, 7, 8)
    with pytest.raises(mblob.MblobError):  # it would be two
        lib["ns::two"](None, b)
    assert "out: std::vector<std::string> &; None: it begins empty" in lib["ns::split"].__doc__
    assert "null pointer" not in lib["ns::split"].__doc__


def test_lists_of_texts_are_vectors_of_strings(lib: Any) -> None:
    joined = lib["ns::joined"]
    assert (joined(["a", "ä", ""]), joined([]), joined((b"x", "y"))) == ("a|ä||", "", "x|y|")
    for wrong in ("abc", None, [1], np.zeros(2), ["a\0b"]):
        with pytest.raises(mblob.MblobError):
            joined(wrong)
    assert lib["ns::words"]("a bc  d") == ["a", "bc", "", "d"]
    assert lib["ns::words"]("a\0b") == ["a\0b"]


def test_a_string_is_returned_as_a_text(lib: Any) -> None:
    times = lib["ns::times"]
    assert (times("ab", 3), times("", 3), times("ä", 2)) == ("ababab", "", "ää")
    assert times("a\0", 2) == "a\0a\0"
    assert times("abc", 1_000_000) == "abc" * 1_000_000
    assert lib["ns::behind"]("text") == "ext"
    assert lib["ns::same"]("same") == "same"
    found = times(b"\xff", 20)
    assert (
        found if isinstance(found, bytes) else found.encode("utf-8", "surrogateescape")
    ) == b"\xff" * 20


def test_c_calls_get_texts(lib: Any) -> None:
    c = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
    module, text = ctypes.c_void_p(), ctypes.c_char_p()
    assert not c.mblob_open(str(lib._node.path).encode(), None, ctypes.byref(module))
    for n in (0, 2, 100):
        assert not c.mblob_call(
            module, b"ns::times", b"str,int -> str", b"ab", n, ctypes.byref(text)
        )
        assert text.value == b"ab" * n
    assert not c.mblob_call(
        module, b"ns::behind_dots", b"str -> str", b"...dots", ctypes.byref(text)
    )
    assert text.value == b"dots"


def test_a_vector_is_returned_as_a_tensor(lib: Any) -> None:
    found = lib["ns::counted"](5)
    lib["ns::counted"](100_000)  # which does not change the one before
    assert (found.dtype, found.numpy().tolist()) == ("int32", [0, 1, 2, 3, 4])
    assert lib["ns::counted"](0).shape == (0,)
    assert lib["ns::counted"](1_000_000).numpy()[-1] == 999_999
    assert lib["ns::flipped"](np.array([True, False])).numpy().tolist() == [False, True]
    assert lib["ns::conjugated"](np.array([1 + 2j], "complex64")).numpy()[0] == 1 - 2j
    assert lib["ns::size_twice"](bytes(7)).numpy().tolist() == [7, 7]


def test_a_struct_beside_a_text_has_its_fields(lib: Any) -> None:
    made = lib["ns::at"]("four", 1.5)
    assert (made["x"], made["y"]) == (1.5, 4)


def test_an_exception_is_an_error_of_the_call(lib: Any) -> None:
    for _ in range(3):
        with pytest.raises(mblob.MblobError, match=r"std::runtime_error: what was wrong"):
            lib["ns::thrown"]("what was wrong")


def test_results_inside_of_objects_outlive_them(lib: Any) -> None:
    for text in ("... longer than what lies in an object itself", "...ü", "..."):
        assert lib["ns::behind_dots"](text) == text[3:]
    assert lib["ns::behind_dots"]("") is None
    assert lib["ns::first_text"](["longer than what lies in an object itself"])[:6] == "longer"
    assert lib["ns::largest"](np.arange(100.0)) == 99
    assert lib["ns::element"](np.arange(100, dtype="i4"), 7) == 7
    with pytest.raises(
        KeyError, match=r"its result may lie in an object .*: give a function that returns a copy"
    ):
        lib["ns::first"]
    v = np.ones(3)
    assert lib["ns::first_of"]("name", v).value == v.ctypes.data


def test_help_shows_what_is_accepted_and_the_types_of_the_source(lib: Any) -> None:
    texts = shown(lib)
    assert texts["ns::length"] == "int ns::length(const char *s)"
    assert texts["ns::twice"] == "void ns::twice(float *v)"
    assert texts["ns::counted"] == "std::vector<int> ns::counted(int n)"
    assert lib["ns::length"].__doc__.endswith("How long a text is.\n\ns: std::string")
    assert "\nv: std::vector<float> &; None" in lib["ns::twice"].__doc__


def test_others_say_what_to_do(lib: Any) -> None:
    with pytest.raises(KeyError, match=r"an object of C.*: give a function that writes"):
        lib["ns::rows"]
    with pytest.raises(
        TypeError, match=r"ctypes has no type for parameter 0.*call module\['ns::sum'\]"
    ):
        lib.ctypes["ns::sum"](np.ones(3))


def test_an_object_with_debug_information_says_to_give_its_source(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    command = ["c++", "-std=c++17", "-O1", "-g", "-fPIC", "-c", "k.cpp", "-o", "k.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "k.o").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for name in ("sum", "length", "times"):
        with pytest.raises(KeyError, match="give its source in place of the object, or a function"):
            lib[f"ns::{name}"]


def test_a_shim_that_does_not_compile_leaves_its_functions_out(tmp_path: Path) -> None:
    text = "#define _GLIBCXX_USE_CXX11_ABI 0\n#include <string>\n#include <vector>\n"
    text += "int size(const std::vector<int> &v) { return (int)v.size(); }\n"
    text += "int length(const std::string &s) { return (int)s.size(); }\nint one() { return 1; }\n"
    module = mblob.csource_module(text, fmt="cpp")
    with pytest.warns(UserWarning, match="left out, as what makes their objects of C"):
        module.export_library(tmp_path / "k.so", cc="gcc")
    lib = mblob.load_module(tmp_path / "k.so")
    assert (lib.one(), lib.size(np.zeros(2, "int32"))) == (1, 2)
    assert list(lib.functions) == ["one", "size"]
    module.export_library(
        tmp_path / "k.so", cc="gcc", options=["-D_GLIBCXX_USE_CXX11_ABI=0", "-std=c++98"]
    )
    assert mblob.load_module(tmp_path / "k.so").length("text") == 4
