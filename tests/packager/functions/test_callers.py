"""Functions that cannot be called, by the names of their sources: the error has a function that calls
them, and this one works."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.packager.functions.test_prototypes_from_sources import packed

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

CXX = """
struct Acc { int v; int get(int x) const; void add(int x) { v += x; } static int twice(int x); ~Acc(); };
int Acc::get(int x) const { return v + x; }
int Acc::twice(int x) { return 2 * x; }
Acc::~Acc() {}
class Own { int v; int secret(int); public: Own(int n) : v(n) {} int open(int x) { return v + x; } };
int Own::secret(int x) { return x; }
namespace ns {
struct In { int k; int of(const In &other, float *x) { x[0] = other.k; return k; } };
#define CODE __attribute__((noinline)) // clang tells nothing of a function that it leaves out
#line 1 "a_header.h"
template <typename T> CODE T same(T v) { return v; }
#line 1 "k.cpp"
template <typename T> T nobody(T v) { return v; }
namespace deep { namespace { CODE int hidden(int x) { return x + 1; } } int use(int x) { return hidden(x); } }
CODE static int local(int x) { return x - 1; }
CODE inline int quick(int x) { return 3 * x; }
struct Pair { int a : 31, : 1, b; };
Pair turn(Pair p) { return {p.b, p.a}; }
int uses(int x) { Own o(x); In i{x}; float f; return same(x) + local(x) + quick(o.open(x)) + i.of(i, &f); }
}
"""
THREE = ctypes.c_int(3)
ACC = ctypes.pointer(THREE)  # an object with a destructor, of which only an address is taken
# what the error says, and a call of the function in it
ASKED = {
    "Acc::get": ("a method of Acc", lambda lib: lib.call_get(ACC, 4) == 7),
    "Acc::add": (
        "a method of Acc",
        lambda lib: lib.call_add(ctypes.pointer(ctypes.c_int(3)), 4) is None,
    ),
    "Acc::twice": ("a static member function of Acc", lambda lib: lib.call_twice(4) == 8),
    "Own::Own": ("a constructor of Own", lambda lib: bool(lib.call_Own(4))),
    "open": ("a method of Own", lambda lib: lib.call_open(np.array([3], "i4"), 4) == 7),
    "ns::In::of": (
        "a method of ns::In",
        lambda lib: lib["ns::call_of"](*[np.array([5], "i4")] * 2, np.zeros(1, "f4")) == 5,
    ),
    "ns::same": ("a template", lambda lib: lib["ns::call_same"](4) == 4),
    "ns::deep::hidden": ("an anonymous", lambda lib: lib["ns::deep::call_hidden"](4) == 5),
    "ns::local": ("static: remove static", lambda lib: lib["ns::call_local"](4) == 3),
    "ns::quick": ("inline", lambda lib: lib["ns::call_quick"](4) == 12),
    "ns::turn": ("struct Pair by value", lambda lib: turned(lib["ns::call_turn"]) == [2, 1]),
}


def turned(call: Any) -> list[int]:
    result = np.zeros(2, "i4")
    call(np.array([1, 2], "i4"), result)
    return list(map(int, result))


def refused(source: Any, fmt: Any, name: str, **export: Any) -> str:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(mblob.BuildError) as caught:
        module = mblob.csource_module(source, fmt, functions=[name])
        module.export_library(f"{folder}/never.so", **export)
    return str(caught.value)


def line_in(error: str) -> str:
    found = re.search(r"give [^:]*: (.*(?:\}|end))$", error)
    assert found, error
    return found[1]


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_functions_in_errors_about_cxx_work(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    lines = []
    for name, (what, _) in ASKED.items():
        error = refused(CXX, "cpp", name, cc=require(cc))
        assert f"functions: {name} cannot be called: " in error and what in error, error
        lines.append(line_in(error))
    lib = packed(tmp_path, CXX + "\n".join(lines), "cpp", export={"cc": cc})
    for name, (_, works) in ASKED.items():
        assert works(lib), name
    says = r"no function 'Acc::get'; .*pack with --function Acc::get \(in Python functions=\), whose error"
    with pytest.raises(mblob.NotFoundError, match=says):
        lib["Acc::get"]
    with pytest.raises(
        mblob.NotFoundError, match=r"struct Pair by value: .*call_turn\(const struct"
    ):
        lib["ns::turn"]


def test_what_has_no_such_function_is_told_too(tmp_path: Path) -> None:
    for name, says in {
        "int Acc::get(int x)": r"Acc::get cannot be called: it is a method of Acc",
        "Own::secret": r"Own::secret cannot be called: it is a method of Own: make it public, and give a function",
        "ns::nobody": "ns::nobody cannot be called: it is a template: give a function that calls it$",
        "ns::same<int>": r"ns::same cannot be called: it is a template: give a function .*call_same",
        "ns::nothing": r"check the name, .*; if inline or a template, give a function that calls it",
        "ns::tur": r"check the name, .*; did you mean 'ns::turn'\?$",
    }.items():
        assert re.search(says, refused(CXX, "cpp", name)), name
    (tmp_path / "k.cpp").write_text(CXX)
    for options in ([], ["-g"]):
        command = ["c++", *options, "-fPIC", "-c", "k.cpp"]
        subprocess.run(command, cwd=tmp_path, check=True)
        module = mblob.static_library(tmp_path / "k.o", functions=["Acc::twice"])
        says = (
            "a static member function of Acc"
            if options
            else r"has Acc::twice, of C\+\+, .*compile it with -g"
        )
        with pytest.raises(mblob.BuildError, match=says):
            module.export_library(tmp_path / "x.so")


NAMED = """
int zero() { return 0; }
#line 1 "a_header.h"
template <class T> T f(T x) { return x + x; }
template double f<double>(double);
template int f<int>(int);
#line 1 "k.cpp"
struct V { int x; };
V operator<<(V a, const V &b) { return {a.x * 10 + b.x}; }
int twice(int x) { return 2 * x; }
"""


def test_templates_by_arguments_operators_and_symbols_of_cxx_have_functions_that_work(
    tmp_path: Path,
) -> None:
    lines = {}
    for name, what in {
        "f<int>": "a template",
        "_Z1fIdET_S0_": "a template",
        "operator<<": "an operator",
    }.items():
        error = refused(NAMED, "cpp", name)
        assert f"cannot be called: it is {what}: " in error, error
        lines[name] = line_in(error)
    assert "f<double>" in lines["_Z1fIdET_S0_"]
    lines["_Z1fIdET_S0_"] = lines["_Z1fIdET_S0_"].replace("call_f", "of_double")
    lib = packed(tmp_path, NAMED + "\n".join(lines.values()), "cpp")
    assert (lib.call_f(3), lib.of_double(1.25)) == (6, 2.5)
    result = np.zeros(1, "i4")
    lib.call_operator(np.array([4], "i4"), np.array([2], "i4"), result)
    assert result[0] == 42


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("_Z5twicei", "no function has the name _Z5twicei; there is twice: write its name so"),
        ("V operator<<(V a, const V &b)", "is no prototype .*give the name of an operator alone"),
    ],
)
def test_a_symbol_of_cxx_is_no_packed_function(asked: str, says: str) -> None:
    assert re.search(says, refused(NAMED, "cpp", asked))


C = """
struct pair { int a : 31, : 1, b; };
static int hidden(int x) { return x + 1; }
int sum(struct pair p) { return p.a + p.b + hidden(0) - 1; }
struct pair made(int a, int b) { struct pair p = {a, b}; return p; }
long double half(long double x) { return x / 2; }
"""


def test_functions_in_errors_about_c_work(tmp_path: Path) -> None:
    lines = [line_in(refused(C, "c", name)) for name in ("hidden", "sum", "made", "half")]
    lib = packed(tmp_path, C + "\n".join(lines))
    pair = np.array([3, 4], "i4")
    assert (lib.call_hidden(3), lib.call_sum(pair), lib.call_half(3)) == (4, 7, 1.5)
    lib.call_made(5, 6, pair)
    assert pair.tolist() == [5, 6]


UNUSED = {
    "twice": ("inline int twice(int x) { return 2 * x; }", "remove inline", (4,), 8),
    "last": ("static inline float last(const float x[4], int n) { return x[n - 1]; }", "remove static and inline",
             (np.arange(4, dtype="f4"), 3), 2),
    "first": ("static float first(const float *x) { return x[0]; }", "remove static", (np.array([5], "f4"),), 5),
    "nothing": ("__inline__ void nothing(void) {}", "remove inline", (), None),
    "included": ('#include "included.h"', "remove static and inline", (3,), 6),
}  # fmt: skip
UNUSED_CXX = {
    "half": ("constexpr double half(double x) { return x / 2; }", "remove constexpr", (5,), 2.5),
    "ns::n::most": ("namespace ns { namespace n { inline int most(int a, const int &b = 2) { return a + b; } } }",
                    "remove inline", (3, 4), 7),
    "ns::counted": ("namespace ns { inline bool counted(const int *x, bool (*f)(int)) { return f(*x); } }",
                    "remove inline", (np.array([2], "i4"), ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int)(bool)), True),
}  # fmt: skip


@pytest.mark.parametrize(("fmt", "cc"), [("c", "gcc"), ("cpp", "gcc"), ("cpp", "clang")])
def test_functions_that_compilers_leave_out_are_told(
    tmp_path: Path, require: Callable[[str], str], fmt: str, cc: str
) -> None:
    (tmp_path / "included.h").write_text("static inline int included(int x) { return 2 * x; }\n")
    asked = UNUSED if fmt == "c" else {**UNUSED, **UNUSED_CXX}
    text = "#include <stdio.h>\nint other(int x) { return x; }\n"
    text += "\n".join(source for source, *_ in asked.values()) + "\n"
    path = tmp_path / f"k.{fmt}"
    path.write_text(text)
    errors = {name: refused(path, fmt, name, cc=require(cc)) for name in asked}
    lines = [line_in(error) for error in errors.values()]
    path.write_text(text + "\n".join(lines))
    mblob.csource_module(path).export_library(tmp_path / "k.so", cc=cc)
    lib = mblob.load_module(tmp_path / "k.so")
    for name, (source, remedy, args, result) in asked.items():
        assert f"functions: {name} cannot be called: it is " in errors[name]
        assert f"{remedy} in the source" in errors[name]
        scope, _, last = name.rpartition("::")
        assert lib[f"{scope}{'::' * bool(scope)}call_{last}"](*args) == result
        without = source
        for word in remedy.split(" ")[1::2] if "#include" not in source else ():
            without = without.replace(f"__{word}__", "").replace(word, "", 1)
        module = mblob.csource_module(without, fmt, functions=[name])
        if without != source:
            module.export_library(tmp_path / "one.so", cc=cc)
            assert mblob.load_module(tmp_path / "one.so")[name](*args) == result
    for source, name in (
        ("template <class T> T any(T x) { return x; }", "any"),
        ("consteval int early(int x) { return x; }", "early"),
    ):
        if cc == "gcc" and fmt == "cpp":
            error = refused(source, fmt, name, options=["-std=c++20"])
            assert re.search(
                "a template: give a func.*calls it$|consteval, .*remove consteval in the source$",
                error,
            )


OF_CXX_17 = """#include <string_view>
#include <cstddef>
namespace ns { int count(std::string_view s, char c) { int n = 0; for (char x : s) n += x == c; return n; } }
std::string_view made(int) { return "a"; }
char16_t wide(char16_t c, const char16_t *more, char32_t last) { return c + more[1] + (char16_t)last; }
int none(std::nullptr_t p, int x) { return x + (p == nullptr); }
"""


def test_types_of_newer_releases_of_cxx(tmp_path: Path) -> None:
    how: Any = {"options": ["-std=c++17"]}
    lib = packed(tmp_path, OF_CXX_17, "cpp", export=how)
    assert (lib["ns::count"]("banana", ord("a")), lib.made(1)) == (3, "a")
    assert lib.wide(1, np.array([5, 7], "uint16"), 1 << 16 | 2) == 10
    assert str(lib.functions["none"]) == "int none(void *p, int x)"
    assert lib.none(None, 4) == lib.ctypes.none(None, 4) == 5
    with pytest.raises(mblob.ArgumentError, match="expected an array of uint16, found int32"):
        lib.wide(1, np.array([5, 7], "int32"), 2)


BESIDE = """#include <map>
#include <string>
#include <string_view>
#include <vector>
struct Bits { unsigned a : 3; int b; };
namespace ns {
int odd(const std::string &s, long double x) { return s.size() + (int)x; }
int moved(std::string &&s, Bits b) { std::string own(std::move(s)); return own.size() + b.b; }
int seen(std::string_view s, std::vector<float> v, long double x) { return s.size() + v.size() + (int)x; }
std::vector<float> line(long double x) { return {(float)x, 1}; }
const std::string &kept(long double x) { static std::string own; return own = std::to_string((int)x); }
}
int mapped(const std::string &s, std::map<int, int> m) { return s.size() + m.size(); }
"""


def test_functions_in_errors_have_the_strings_and_vectors_of_the_source(tmp_path: Path) -> None:
    how: Any = {"options": ["-std=c++17"]}
    lib = packed(tmp_path, BESIDE, "cpp", export=how)
    written = ""
    for name in ("odd", "moved", "seen", "line", "kept"):
        with pytest.raises(mblob.NotFoundError, match=r"long double|struct Bits") as error:
            lib[f"ns::{name}"]
        written += re.findall("(namespace ns {.*} }),", str(error.value))[0] + "\n"
    with pytest.raises(mblob.NotFoundError, match=r"parameter 1 \(m\) is struct map"):
        lib["mapped"]
    lib = packed(tmp_path, BESIDE + written, "cpp", export=how)
    assert lib["ns::call_odd"]("ab", 3) == 5
    assert lib["ns::call_moved"]("ab", np.array([0, 3], "i4").view("u1")) == 5
    assert lib["ns::call_seen"]("ab", np.ones(2, "f4"), 3) == 7
    assert lib["ns::call_line"](3).numpy().tolist() == [3, 1]
    assert lib["ns::call_kept"](3) == "3"


FORTRAN = """
real(16) function avg(x, n)
  integer, intent(in) :: n
  complex(8), intent(in) :: x(n)
  avg = sum(real(x, 16)) / n
end function
"""


def test_subroutines_in_errors_about_fortran_work(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    require("gfortran")
    error = refused(FORTRAN, "f90", "avg")
    assert "its result is real(kind=16), which no argument is: give a procedure of real(8)" in error
    assert ": subroutine call_avg(x, n, res" in error
    lib = packed(tmp_path, f"{FORTRAN}\n{line_in(error)}\n", "f90")
    result = np.zeros(1, "f8")
    lib.call_avg(np.array([1 + 2j, 3 + 4j]), np.array([2], "i4"), result)
    assert result[0] == 2
    of_module = (
        "module m\ncontains\nreal(16) function turned(x, k)\nreal, value :: x\ninteger, intent(in) :: k(*)\n"
        "turned = x * k(1)\nend function\n@end module\n"
    )
    line = line_in(refused(of_module.replace("@", ""), "f90", "m::turned"))
    of_name = (
        of_module.replace("@", "").replace("real(16) function", "subroutine").split("turned = ")[0]
    )
    for name in ("turned", "Turned", "M::TURNED", "other::turned", "void turned(float x, int *k)"):
        error = refused(f"{of_name}end subroutine\nend module\n", "f90", name)
        assert error.endswith("is a procedure of a module: its name is m::turned"), error
    lib = packed(tmp_path, of_module.replace("@", line + "\n"), "f90")
    lib["m::call_turned"](3.0, np.array([2], "i4"), result)
    assert result[0] == 6
    with pytest.raises(mblob.NotFoundError) as caught:
        lib["m::turned"]
    assert line in str(caught.value)
    array = "function f(n)\ninteger, intent(in) :: n\nreal :: f(max(n, 2))\nf = n\nend function\n"
    error = refused(array, "f90", "f")
    assert (
        "its result is an array: give a subroutine that calls it, and writes the result to" in error
    )


CXX_COMPLEX = """#include <complex>
float sum(const std::complex<float> &z) { return z.real() + z.imag(); }
void turned(std::complex<double> *z, int n) { for (int i = 0; i < n; ++i) z[i] *= std::complex<double>(0, 1); }
std::complex<float> made(float a) { return {a, 1}; }
float real(std::complex<float> z) { return z.real(); }
"""


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_complex_numbers_of_cxx_are_those_of_c(
    tmp_path: Path, require: Callable[[str], str], cc: str, dialect: Any
) -> None:
    how: Any = {"cc": require(cc), "dialect": dialect}
    lib = packed(tmp_path, CXX_COMPLEX, "cpp", export=how)
    values = np.array([1, 2j, 3])
    lib.turned(values, 2)
    assert values.tolist() == [1j, -2, 3]
    assert lib.sum(np.array([1 + 2j], "complex64")) == lib.sum(1 + 2j) == 3
    assert lib.made(5) == 5 + 1j and lib.real(5 + 1j) == 5
    for function, wrong in (
        (lib.sum, np.ones(1, "complex128")),
        (lib.sum, np.ones(2, "float32")),
        (lambda z: lib.turned(z, 2), np.ones(4, "complex64")),
        (lambda z: lib.turned(z, 2), np.ones((2, 2))),
    ):
        with pytest.raises(mblob.ArgumentError, match="expected an array of complex"):
            function(wrong)


def test_a_function_for_a_template_names_its_arguments(tmp_path: Path) -> None:
    source = """int zero() { return 0; }
#line 1 "a_header.h"
    template <int N> int total(const int *x) { int s = 0; for (int i = 0; i < N; i++) s += x[i]; return s; }
    template int total<3>(const int *);
    """
    line = line_in(refused(source, "cpp", "total<3>"))
    assert "return total<3>(x);" in line
    lib = packed(tmp_path, source + line, "cpp")
    assert lib.call_total(np.arange(4, dtype="i4")) == 3


def test_numbers_of_128_bits_are_no_numbers_of_ctypes(tmp_path: Path) -> None:
    source = (
        "unsigned __int128 turn(unsigned __int128 x, int n) { return x << n | x >> (128 - n); }\n"
        "typedef __int128 big_t; big_t same(big_t x) { return x; }\n"
    )
    lib = packed(tmp_path, source, "c")
    assert lib.turn(1 << 127 | 1, 1) == 3 and lib.same(-1) == -1
    for name, args in (("turn", (1, 1)), ("same", (1,))):
        with pytest.raises(
            TypeError, match=rf"_t; call module\['{name}'\], which takes and returns"
        ):
            lib.ctypes[name](*args)


def test_functions_whose_names_begin_with_an_underscore_are_attributes(tmp_path: Path) -> None:
    source = "int _twice(int x) { return 2 * x; } int __twice(int x) { return 2 * x; }"
    lib = packed(tmp_path, source, "c")
    assert lib._twice(2) == lib.ctypes._twice(2) == 4
    for owner in (lib, lib.ctypes):
        assert getattr(owner, "__twice")(2) == 4
    for name in ("_thrice", "__thrice", "__array_interface__"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
            getattr(lib, name)
