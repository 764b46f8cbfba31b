"""Values that no number is, as arguments and results: structs, unions, complex numbers, integers of 128 bits."""

from __future__ import annotations

import ctypes
import inspect
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_double, c_int
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import STT_TLS
from mblob.format.exported_functions import read_table
from mblob.format.functions_table import contradicts
from mblob.loader.by_value import dtype_of, structure_of
from tests.packager.functions.test_tvm_executor import pack_verb

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <complex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct vec { double x, y; };
typedef struct { int a; float b; } mixed;
typedef struct { float v[3]; } hfa;
struct large { int64_t v[5]; char name[6]; };
union number { double d; int64_t i; };
enum colour { RED, BLUE = 7 };
struct nested { struct vec p[2]; union number u; struct { char c; double d; } s; enum colour e; _Bool ok; };
struct parts { float complex z; void *p; short s; };
struct bits { unsigned a : 3; int c; };
struct __attribute__((packed)) tight { char c; int i; };
struct big { __int128 i; };
struct __attribute__((aligned(32))) wide { double v[4]; };
typedef mixed mixed_wide __attribute__((aligned(16)));
typedef float lanes __attribute__((vector_size(16)));
struct none { };
struct flexible { int n; char c[]; };
/* The product. */
double dot(struct vec a, const struct vec b) { return a.x * b.x + a.y * b.y; }
struct vec add(struct vec a, struct vec b) { return (struct vec){a.x + b.x, a.y + b.y}; }
mixed mix(int a, float b) { return (mixed){a, b}; }
float mixes(char c, mixed m, double d, mixed n, int i) { return c + m.a + m.b + (float)d + n.a + n.b + i; }
hfa scale(hfa h, float by) { for (int i = 0; i < 3; i++) h.v[i] *= by; return h; }
struct large made(int64_t n) { return (struct large){{n, n + 1, n + 2, n + 3, n + 4}, "hello"}; }
int64_t total(struct large l, int n) { int64_t s = l.name[n]; while (n--) s += l.v[n]; return s; }
union number number(double d) { return (union number){d}; }
int64_t bits_of(union number u) { return u.i; }
struct nested change(struct nested n) {
  n.p[1].y += 1; n.u.d = 2.5; n.s.c = 'q'; n.s.d = 7; n.e = BLUE; n.ok = 1; return n;
}
struct parts part(struct parts p) { p.z *= I; p.s++; return p; }
div_t divided(int a, int b) { return div(a, b); }
double complex times(double complex a, float complex b) { return a * b; }
float complex twice(float complex z) { return 2 * z; }
__int128 minus(__int128 a, unsigned __int128 b) { return a - (__int128)(b >> 1); }
unsigned __int128 more(unsigned __int128 a) { return a + 1; }
double each(int n, const double x[n], struct vec by) { double s = 0; while (n--) s += x[n] * by.x; return s; }
double through(const struct vec *p, struct vec v, double (*f)(double)) { return f(p->x + v.y); }
int bit_field(struct bits b) { return b.c; }
int is_tight(struct tight t) { return t.i; }
double is_wide(struct wide w) { return w.v[3]; }
int of_typedef(mixed_wide m) { return m.a; }
lanes of_lanes(lanes x) { return x; }
int empty(struct none n, int a) { return a; }
long double largest(long double x) { return x; }
int maybe_packed(struct big b) { return (int)b.i; }
int open(struct flexible f) { return f.n; }
int calls(int (*f)(struct vec), struct vec v) { return f(v); }
"""
REFUSED = (
    "bit_field", "is_tight", "is_wide", "of_typedef", "of_lanes", "empty", "largest", "open",
    "maybe_packed",  # with `packed`, debug information would be the same
)  # fmt: skip
VEC = np.dtype([("x", "f8"), ("y", "f8")])
V, W = np.array((1, 2), VEC), np.array((3, 4), VEC)


class Vec(ctypes.Structure):
    _fields_ = (("x", c_double), ("y", c_double))


@pytest.fixture(scope="module", params=["classic", "ffi"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("values") / f"{request.param}.so"
    mblob.csource_module(SOURCE).export_library(made, dialect=request.param)
    return made


@pytest.fixture(scope="module")
def lib(path: Path) -> mblob.Module:
    return mblob.load_module(path)


@pytest.fixture(params=["f", "ctypes", "symbol"])
def way(request: pytest.FixtureRequest, lib: mblob.Module) -> Callable[[str], Any]:
    return {
        "f": lambda name: lib[name],
        "ctypes": lambda name: lib.ctypes[name],
        "symbol": lambda name: lib.symbol(name),
    }[request.param]


def test_a_struct_is_passed_by_all_that_has_its_bytes(way: Callable[[str], Any]) -> None:
    dot = way("dot")
    for given in (
        V, V[()], V.view("V16"), V.tobytes(), bytearray(V.tobytes()), Vec(1, 2), byref(Vec(1, 2)), V.reshape(1),
        V.reshape(1).view("f8"), V.reshape(1).view("u1"), memoryview(V.tobytes()), V.view([("a", "f8"), ("any", "V8")]),
    ):  # fmt: skip
        assert dot(given, W) == 11, given
    shifted = bytearray(1) + V.tobytes()
    assert dot(memoryview(shifted)[1:], W) == 11  # which is less aligned than the struct


def test_arguments_in_front_of_and_behind_a_struct_keep_their_places(
    way: Callable[[str], Any],
) -> None:
    m = np.array((3, 0.5), "i4,f4")
    assert way("mixes")(1, m, 0.25, m, 100) == 108.25
    assert way("total")(way("made")(10), 3) == 33 + ord("l")
    assert way("each")(2, np.array([1.0, 2.0]), V) == 3


def test_a_result_has_the_fields_of_its_struct(lib: mblob.Module) -> None:
    found = lib.add(V, W)
    assert found.dtype == VEC and found.tolist() == (4, 6)
    found["x"] = 1
    assert lib.dot(found, V) == 13
    assert lib.mix(3, 2.5).tolist() == (3, 2.5)
    assert lib.scale(np.ones(3, "f4"), 2)["v"].tolist() == [2, 2, 2]
    large = lib.made(10)
    assert large["v"].tolist() == [10, 11, 12, 13, 14] and large["name"] == b"hello"
    assert lib.divided(17, 5).tolist() == (3, 2)
    assert lib.bits_of(lib.number(2.5)) == int(np.float64(2.5).view("i8"))


def test_results_of_threads_and_of_recursion_do_not_mix(lib: mblob.Module, path: Path) -> None:
    """They lie on the heap: memory of threads would keep the library from joining others, and from musl."""
    tls = [s.name for s in ElfFile(path.read_bytes(), "").symtab if s.type == STT_TLS]
    assert tls == []
    made, wrong = lib.made, []

    def call(first: int) -> None:
        kept = [made(first + i) for i in range(500)]
        wrong.extend(i for i, v in enumerate(kept) if v["v"][4] != first + i + 4)

    threads = [threading.Thread(target=call, args=(n * 1000,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    inside = ctypes.CFUNCTYPE(c_double, c_double)(lambda x: lib.add(V, W)["x"] + x)
    assert lib.through(lib.add(V, W), lib.add(W, W), inside) == 4 + 4 + 8


def test_a_result_has_structs_in_structs(lib: mblob.Module) -> None:
    found = lib.change(bytes(64))
    assert found["p"].tolist() == [(0, 0), (0, 1)] and found["p"][1]["y"] == 1
    assert found["s"].tolist() == (b"q", 7) and (found["e"], found["ok"]) == (7, True)
    assert np.frombuffer(found["u"], "f8") == 2.5
    assert lib.change(found)["p"][1]["y"] == 2
    part = lib.part(lib.part(np.array(((1 + 2j), 5, 6), np.dtype("c8,u8,i2", align=True))))
    assert part["z"] == -1 - 2j and (part["p"], part["s"]) == (5, 8)


def test_ctypes_gives_a_structure(lib: mblob.Module) -> None:
    for get in (lambda name: lib.ctypes[name], lib.symbol):
        found = get("add")(V, Vec(3, 4))
        assert (found.x, found.y) == (4, 6) and get("dot")(found, V) == lib.dot(found, V) == 16
        large = get("made")(10)
        assert list(large.v) == [10, 11, 12, 13, 14] and large.name == b"hello"
        assert list(get("scale")(bytes(np.ones(3, "f4")), 2).v) == [2, 2, 2]
        for name in ("number", "change", "minus"):  # a union, one in a struct, 128 bits
            with pytest.raises(mblob.MblobError, match=rf"call module\['{name}'\]"):
                get(name)(1, 2)


def test_complex_numbers_and_128_bits_are_numbers_of_python(lib: mblob.Module) -> None:
    assert lib.times(1 + 2j, 3) == 3 + 6j and lib.twice(2j) == 4j
    assert lib.times(np.complex128(1j), np.array([1j], "c8")) == -1
    assert lib.minus(-5, 1 << 127) == -5 - (1 << 126)
    assert lib.more((1 << 128) - 2) == (1 << 128) - 1 and lib.more((1 << 128) - 1) == 0
    assert lib.more(np.array([1, 2], "u8")) == (2 << 64) + 2 and lib.more(np.int32(1)) == 2
    assert all(
        type(found) is wanted
        for found, wanted in ((lib.twice(1), complex), (lib.more(1), int), (lib.minus(1, 0), int))
    )


@pytest.mark.parametrize("bind", [False, True])
def test_what_is_no_value_of_the_type_is_refused(lib: mblob.Module, bind: bool) -> None:
    def check(name: str, args: tuple[Any, ...], error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            lib[name].bind(*args)() if bind else lib[name](*args)

    for given, found in ((V.tobytes()[:15], "15"), (bytes(17), "17"), (b"", "0"), (None, "None")):
        check(
            "dot",
            (given, V),
            mblob.MblobError,
            f"expected 16 bytes for struct vec a, found {found}",
        )
    check("dot", (np.zeros(2, VEC), V), mblob.MblobError, "expected 16 bytes .*, found 32")
    check("dot", (1.0, V), TypeError, "struct vec a, found the number 1.0")
    check("dot", ("text", V), TypeError, "found the str")
    check("dot", (V, [1, 2]), TypeError, "struct vec b, found list")
    check(
        "dot",
        (np.zeros(1, "i8,f8"), V),
        TypeError,
        "fields {0 x float64, 8 y float64} of 16 bytes, found {0 f0",
    )
    check("dot", (V,), ValueError, "2 arguments")
    check("more", (-1,), ValueError, "__uint128_t .0 to 3402823669")
    check("more", (1 << 128,), ValueError, "__uint128_t")
    check("minus", (1 << 127, 0), ValueError, "__int128_t")
    check("more", (1.5,), TypeError, "expected int, found float")
    check("more", (bytes(8),), mblob.MblobError, "expected 16 bytes .*, found 8")
    check("more", (None,), mblob.MblobError, "expected 16 bytes .*, found None")
    check("times", ("1j", 1), TypeError, "found the str")
    check("times", (None, 1), TypeError, "expected complex(128)?, found None")
    check("times", (np.zeros(1, "c8"), 1), TypeError, "complex128")
    check(
        "times", (np.zeros(2, "c16"), 1), mblob.MblobError, r"expected shape \(1,\), found \(2,\)"
    )
    check("twice", (1e300,), ValueError, "too large")


def test_ctypes_refuses_what_is_no_value_of_the_type(lib: mblob.Module) -> None:
    class Other(ctypes.Structure):
        _fields_ = (("x", c_double), ("y", ctypes.c_int64))

    for given, match in (
        (bytes(15), "16 bytes for struct vec a, found 15"), (np.zeros(2, VEC), "found 32"), (None, "found None"),
        (Other(), "fields .* found {0 x float64, 8 y int64}"), (1, "found int"),
    ):  # fmt: skip
        with pytest.raises(mblob.MblobError, match=match):
            lib.ctypes.dot(given, V)


def test_what_c_may_pass_in_another_way_stays_refused(lib: mblob.Module, path: Path) -> None:
    for name in REFUSED:
        with pytest.raises(mblob.NotFoundError, match="without a packed function"):
            lib[name]
    rows = {(row.name, row.abi) for row in read_table(ElfFile(path.read_bytes(), ""))}
    assert {name for name, abi in rows if (name, "packed") not in rows} == set(REFUSED)


def test_functions_of_python_that_take_structs_are_those_of_ctypes(lib: mblob.Module) -> None:
    double = ctypes.CFUNCTYPE(c_double, c_double)(lambda x: 2 * x)
    assert lib.through(V, W, double) == 10
    taker = ctypes.CFUNCTYPE(c_int, Vec)(lambda v: int(v.x + v.y))
    assert lib.calls(taker, V) == 3


def test_the_prototype_shows_values(lib: mblob.Module, path: Path) -> None:
    assert (
        str(inspect.signature(lib.add)) == "(a: 'struct vec', b: 'struct vec', /) -> 'struct vec'"
    )
    assert lib.dot.__doc__ == (
        "double dot(struct vec a, struct vec b)\n\nThe product.\n\n"
        "a, b: struct vec of 16 bytes: float64 x at 0, float64 y at 8"
    )
    assert lib.mix.__doc__.endswith("result: mixed of 8 bytes: int32 a at 0, float32 b at 4")
    assert (
        str(lib.functions["times"]) == "double _Complex times(double _Complex a, float _Complex b)"
    )
    rows = read_table(ElfFile(path.read_bytes(), ""))
    assert not any(map(contradicts, rows))
    assert [row.types for row in rows if row.name == "dot"] == [
        "struct vec:16, struct vec:16", "const struct vec *:16, const struct vec *:16",
    ]  # fmt: skip
    with mblob.open(path) as looked:
        looked.verify("full")


def test_a_prototype_of_the_caller_has_the_structs_of_its_source(tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    prototypes = [
        "double dot(struct vec left, const struct vec right)", "mixed mix(int a, float b)",
        "double complex times(double complex a, float complex b)", "__int128 minus(__int128 a, unsigned __int128 b)",
    ]  # fmt: skip
    mblob.csource_module(SOURCE, functions=prototypes).export_library(path)
    lib = mblob.load_module(path)
    assert str(lib.functions["dot"]) == "double dot(struct vec left, struct vec right)"
    assert (lib.dot(V, W), lib.times(1j, 2), lib.minus(1, 4)) == (11, 2j, -1)
    assert lib.mix(1, 2).tolist() == (1, 2)
    for prototype, match in (
        ("double dot(mixed a, mixed b)", "is 'mixed', the source has 'struct vec'"),
        ("double dot(const struct vec *a, struct vec b)", r"is 'const struct vec \*', the source has"),
        ("float complex times(double complex a, float complex b)", "returns 'float _Complex', the source's"),
        ("int bit_field(struct bits b)", "not supported by value"),
    ):  # fmt: skip
        with pytest.raises(mblob.BuildError, match=match):
            mblob.csource_module(SOURCE, functions=[prototype]).export_library(path)


def test_objects_tell_their_structs_and_names_of_other_layouts_do_not_mix(tmp_path: Path) -> None:
    one = mblob.csource_module(
        "struct s { float a, b; }; float first(struct s v) { return v.a + v.b; }"
    )
    other = "struct s { double a; int b; }; struct s second(struct s v) { v.b++; return v; }"
    one.import_module(mblob.csource_module(other))
    one.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert lib.first(np.array((1, 2), "f4,f4")) == 3
    found = lib["second"](bytes(16))  # whose fields no name tells
    assert bytes(found) == bytes(8) + (1).to_bytes(4, sys.byteorder) + bytes(4)


def test_a_struct_of_a_name_whose_fields_are_not_told_gets_those_of_no_other(
    tmp_path: Path,
) -> None:
    many = " ".join(f"float f{i};" for i in range(70))
    source = f"struct s {{ {many} }}; struct s first(void) {{ struct s v = {{1}}; return v; }}"
    one = mblob.csource_module(source)
    one.import_module(
        mblob.csource_module("struct s { int a, b; }; int second(struct s v) { return v.b; }")
    )
    one.export_library(tmp_path / "k.so")
    found = mblob.load_module(tmp_path / "k.so")["first"]()
    assert found.dtype == "V280" and np.frombuffer(found, "f4")[0] == 1


@pytest.mark.parametrize(
    "layout",
    ["0 x float24", "0 x float64, 0 x float64", "0 .a float64", "0 a. int64", "0 x[9] int64", "0 x bytes[99]",
     f"0 {'a.' * 9999} float64", "0 x[0].x[0].y int64", "0 x text64", "0 x[999999999] int64, 8 x[0] int64"],
)  # fmt: skip
def test_a_layout_of_a_damaged_file_is_none_or_is_in_the_value(layout: str) -> None:
    assert dtype_of(layout, 8).itemsize == 8
    made = structure_of("struct s", layout, 8)
    assert made is None or ctypes.sizeof(made) == 8


CXX = """
#include <complex>
#include <utility>
namespace g {
struct vec { double x, y; vec operator+(vec o) const { return {x + o.x, y + o.y}; } static int n; };
vec add(vec a, vec b) { return a + b; }
class Hidden { int a; public: Hidden(int a) : a(a) {} int get() const { return a; } };
int get(Hidden p) { return p.get(); }
Hidden make(int a) { return Hidden(a); }
std::complex<double> square(std::complex<double> z) { return z * z; }
std::complex<float> turn(std::complex<float> z) { return z * std::complex<float>(0, 1); }
struct Parts { std::complex<float> a; float b; };
Parts part(Parts p) { p.b += 1; return p; }
enum class Kind : unsigned char { A, B };
struct Small { Kind k; bool b; };
Small flip(Small s) { s.b = !s.b; return s; }
struct Destroyed { int a; ~Destroyed() {} };
int destroyed(Destroyed d) { return d.a; }
struct Late { int a; ~Late(); };
Late::~Late() = default;
int late(Late l) { return l.a; }
struct Unmovable { int a; Unmovable(const Unmovable &) = delete; Unmovable() = default; };
int unmovable(Unmovable u) { return u.a; }
struct Copied { int a; Copied(const Copied &, int = 0); };
Copied::Copied(const Copied &o, int i) : a(o.a + i) {}
int copied(Copied c) { return c.a; }
struct Empty {};
int empty(Empty, int a) { return a; }
struct Derived : vec { int k; };
int derived(Derived d) { return d.k; }
struct Virtual { virtual int f(); int a; };
int Virtual::f() { return 1; }
int virtuals(Virtual v) { return v.a; }
struct Aligned { alignas(16) int a; };
int aligned(Aligned a) { return a.a; }
std::pair<int, int> swapped(std::pair<int, int> p) { return {p.second, p.first}; }
}
"""


@pytest.mark.parametrize("cc", ["g++", "clang++"])
def test_structs_of_cxx_that_are_passed_as_those_of_c(tmp_path: Path, cc: str) -> None:
    path = tmp_path / "k.so"
    mblob.csource_module(CXX, fmt="cc").export_library(path, cc=cc)
    lib = mblob.load_module(path)
    assert lib["g::add"](V, W).tolist() == (4, 6) and lib["g::get"](lib["g::make"](5)) == 5
    assert lib["g::square"](1 + 2j) == -3 + 4j and lib["g::turn"](1 + 2j) == -2 + 1j
    part = lib["g::part"](np.array((1j, 2), "c8,f4"))
    assert part["a"] == 1j and part["b"] == 3
    assert lib["g::flip"](bytes((1, 1))).tolist()[1] is False
    for name in (
        "destroyed",
        "late",
        "unmovable",
        "copied",
        "empty",
        "derived",
        "virtuals",
        "aligned",
        "swapped",
    ):
        with pytest.raises(mblob.NotFoundError, match="by value"):
            lib[f"g::{name}"]


FORTRAN = """
module shapes
  use iso_c_binding
  implicit none
  type, bind(c) :: vec
    real(c_double) :: x, y
  end type
  type :: own
    integer :: a
    real :: b(3)
    logical :: ok
  end type
contains
  function add(a, b) result(r) bind(c)
    type(vec), value :: a, b
    type(vec) :: r
    r%x = a%x + b%x
    r%y = a%y + b%y
  end function
  function turned(z) result(r) bind(c)
    complex(c_float_complex), value :: z
    complex(c_float_complex) :: r
    r = z * (0.0, 1.0)
  end function
  function square(z) result(r)
    complex(8), intent(in) :: z
    complex(8) :: r
    r = z * z
  end function
  function made(n) result(r)
    integer, intent(in) :: n
    type(own) :: r
    r%a = n
    r%b = [1.0, 2.0, 3.0]
    r%ok = .true.
  end function
end module
"""


def test_values_of_fortran(tmp_path: Path) -> None:
    (tmp_path / "k.f90").write_text(FORTRAN)
    mblob.csource_module(tmp_path / "k.f90").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert lib.add(V, W).tolist() == (4, 6)
    assert lib.turned(1 + 2j) == -2 + 1j and lib["shapes::square"](1 + 2j) == -3 + 4j
    made = lib["shapes::made"](4)
    assert (made["a"], made["b"].tolist(), bool(made["ok"])) == (4, [1, 2, 3], True)


PAIR = "struct pair { double x, y; }; struct pair half(struct pair p) { p.x /= 2; return p; }\n"


def test_code_that_joins_a_library_and_another_dialect_have_values(tmp_path: Path) -> None:
    mblob.csource_module(SOURCE, functions=["dot"]).export_library(tmp_path / "1.so")
    (tmp_path / "pair.c").write_text(PAIR)
    mblob.add(tmp_path / "1.so", kernels=[tmp_path / "pair.c"], output=tmp_path / "2.so")
    mblob.convert(tmp_path / "2.so", tmp_path / "3.so", dialect="ffi")
    for name in ("2.so", "3.so"):
        lib = mblob.load_module(tmp_path / name)
        assert lib.half(W).tolist() == (1.5, 4) and lib.dot(V, W) == 11


@pytest.mark.parametrize(
    "options", [["-fpcc-struct-return"], ["-fpack-struct"], ["-gdwarf-4", "-gstrict-dwarf"]]
)
def test_options_that_may_pass_structs_in_another_way_are_seen(
    tmp_path: Path, options: list[str]
) -> None:
    mblob.csource_module(PAIR).export_library(tmp_path / "k.so", cc="gcc", options=options)
    with pytest.raises(mblob.NotFoundError, match="struct pair by value"):
        mblob.load_module(tmp_path / "k.so")["half"]


def test_real_numbers_of_fortran_that_are_returned_as_doubles_are_refused(tmp_path: Path) -> None:
    (tmp_path / "k.f90").write_text(
        "real function half(x)\nreal, intent(in) :: x\nhalf = x / 2\nend\n"
    )
    mblob.csource_module(tmp_path / "k.f90").export_library(tmp_path / "k.so", options=["-ff2c"])
    with pytest.raises(mblob.NotFoundError, match="without a packed function"):
        mblob.load_module(tmp_path / "k.so")["half"]


def test_the_command_takes_and_shows_them(path: Path) -> None:
    for words, shown in (
        (("times", "1+2j", "2j"), "(-4+2j)"),
        (("more", str(1 << 100)), str((1 << 100) + 1)),
        (("mix", "1", "2.5"), "(1, 2.5)"),
    ):
        assert pack_verb("run", path, *words).stdout.strip() == shown


def test_threads_have_results_of_their_own(lib: mblob.Module) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def run(n: int) -> bool:
        return all(lib.made(n + i)["v"][4] == n + i + 4 for i in range(300))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(0, 4000, 1000)))


def test_kernels_without_such_values_have_no_text_for_them() -> None:
    from mblob.packager.functions.wrappers import Wrapped, packed_forms
    from mblob.packager.modules.prototype_parser import parse

    made = packed_forms([Wrapped(parse("float f(const float *x, void *p)")[0])])
    assert "mblob_value" not in made and "_Static_assert" not in made
