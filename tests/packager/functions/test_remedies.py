"""The remedies in errors about prototypes work."""

from __future__ import annotations

import ctypes
import re
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.native.runtime import ffi, text
from mblob.native.runtime import lib as native
from mblob.packager.functions import undefined
from mblob.packager.functions.wrappers import Wrapped, packed_forms
from mblob.packager.modules.prototype_parser import parse

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <complex.h>
#define DLLEXPORT __attribute__((visibility("default")))
#define N 4
typedef struct { float a; int b; } pair_t;
typedef pair_t *pair_ptr;
typedef enum { A, B, C } mode;
DLLEXPORT void pointed(pair_t *x) { x->a *= 2; x->b += 1; }
void named(pair_ptr x) { pointed(x); }
int number(mode m) { return m + 1; }
void numbers(mode *m) { *m = C; }
void sized(float x[N]) { x[N - 1] = 7; }
void turned(float complex *x, int n) { for (int i = 0; i < n; ++i) x[i] *= I; }
void rows(float **x, int n, int m) { for (int i = 0; i < n; ++i) for (int j = 0; j < m; ++j) x[i][j] += i; }
void applied(int (*f)(int), int *r) { *r = f(3); }
static void hidden(float *x) { *x = 9; }
"""
# refused: what to write instead
INSTEAD = {
    "DLLEXPORT void pointed(void *x)": "void pointed(void *x)",
    "void pointed(pair_t *x)": "void pointed(void *x)",
    "void named(pair_ptr x)": "void named(void *x)",
    "int number(mode m)": "int number(int m)",
    "void numbers(mode *m)": "void numbers(int *m)",
    "void sized(float x[N])": "void sized(float x[4])",
    "void turned(float complex *x, int n)": "void turned(void *x, int n)",
    "void rows(float **x, int n, int m)": "void rows(void *x, int n, int m)",
    "void applied(int (*f)(int), int *r)": "void applied(void *f, int *r)",
    "static void hidden(float *x)": "void hidden(float *x)",
}

# whose words the source of the module explains
OWN = tuple(text for text in INSTEAD if not text.startswith("static"))


def test_words_of_the_source_need_no_remedy(tmp_path: Path) -> None:
    with pytest.raises(mblob.BuildError, match="pointed is declared twice, and differently"):
        mblob.csource_module(SOURCE, functions=OWN).export_library(tmp_path / "k.so")
    once = mblob.csource_module(SOURCE, functions=[text for text in OWN if "DLLEXPORT" not in text])
    once.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert {str(signature) for signature in lib.functions.values()} == {
        "void pointed(pair_t *x)", "void named(pair_t *x)", "int number(uint32_t m)", "void numbers(uint32_t *m)",
        "void sized(float x[4])", "void turned(float _Complex *x, int n)", "void rows(float **x, int n, int m)",
        "void applied(int (*f)(int), int *r)",
    }  # fmt: skip
    with pytest.raises(mblob.KernelError, match=r"expected shape \(4,\)"):
        lib.sized(np.zeros(3, "float32"))


@pytest.mark.parametrize(
    "refused", ["int number(mode m)", "void sized(float x[N])", "DLLEXPORT void pointed(void *x)"]
)
def test_words_of_the_source_need_the_source(tmp_path: Path, refused: str) -> None:
    (tmp_path / "k.c").write_text(SOURCE)
    subprocess.run(["cc", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    module = mblob.static_library(tmp_path / "k.o", functions=[refused])
    with pytest.raises(
        mblob.BuildError, match=r"write int for an enum|write the number|leave macros out"
    ):
        module.export_library(tmp_path / "k.so")


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> mblob.Module:
    folder = tmp_path_factory.mktemp("remedies")
    for refused in INSTEAD:
        if refused not in OWN:
            with pytest.raises(mblob.BuildError):
                mblob.csource_module(SOURCE, functions=[refused])
    module = mblob.csource_module(SOURCE, functions=[*INSTEAD.values()], options=["-Dstatic="])
    module.export_library(folder / "k.so", dialect=request.param)
    return mblob.load_module(folder / "k.so")


class Packed(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_byte))


class Either(ctypes.Union):
    _fields_ = (("pair", ctypes.c_float * 2), ("number", ctypes.c_int))


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_int))


def test_a_struct_is_passed_itself_or_by_its_pointer(lib: mblob.Module) -> None:
    pair = Pair(2, 1)
    lib.pointed(ctypes.pointer(pair))
    lib.named(pair)
    assert (pair.a, pair.b) == (8, 3)
    packed, either = Packed(2, 1, 3), Either((2, 0))
    lib.pointed(packed)
    lib.pointed(either)
    assert (packed.a, packed.b, packed.c, either.pair[0]) == (4, 2, 3, 4)
    several = (Pair * 2)(Pair(1, 1), Pair(3, 3))
    lib.pointed(several)
    assert (several[0].a, several[1].a) == (2, 3)
    lib.pointed(ctypes.byref(pair))
    assert (pair.a, pair.b) == (16, 4)
    with pytest.raises(mblob.ArgumentError, match=r"ctypes\.pointer to the part of x"):
        lib.pointed(ctypes.byref(pair, 4))


def test_an_array_of_structs_is_passed_if_the_function_may_write_to_it(lib: mblob.Module) -> None:
    pairs = np.array([(2, 1), (3, 1)], [("a", "f4"), ("b", "i4")])
    lib.pointed(pairs)
    lib.pointed(pairs[1:])
    assert pairs.tolist() == [(4, 2), (6, 2)]
    with pytest.raises(mblob.ArgumentError, match="not contiguous"):
        lib.pointed(np.repeat(pairs, 2)[::2])
    pairs.flags.writeable = False
    with pytest.raises(mblob.ArgumentError, match="the array is read-only"):
        lib.pointed(pairs)
    with pytest.raises(mblob.ArgumentError, match="expected an array of bool"):
        lib.sized(pairs)


def test_enums_dimensions_of_macros_and_static_functions(lib: mblob.Module) -> None:
    assert lib.number(1) == 2
    modes, x = np.zeros(1, "int32"), np.zeros(4, "float32")
    lib.numbers(modes)
    lib.sized(x)
    assert modes[0] == 2 and x[3] == 7
    lib.hidden(x)
    assert x[0] == 9


def test_arrays_of_complex_numbers_and_of_addresses(lib: mblob.Module) -> None:
    turned = np.ones(2, "complex64")
    lib.turned(turned, 2)
    assert turned.tolist() == [1j, 1j]
    rows = [np.zeros(3, "float32") for _ in range(2)]
    lib.rows(np.array([row.ctypes.data for row in rows], "uintp"), 2, 3)
    assert rows[1].tolist() == [1, 1, 1] and not rows[0].any()


def test_the_address_of_a_function(lib: mblob.Module) -> None:
    double = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: 2 * x)
    result = np.zeros(1, "int32")
    lib.applied(ctypes.cast(double, ctypes.c_void_p), result)
    assert result[0] == 6
    result[0] = 0
    lib.applied(double, result)
    assert result[0] == 6


CXX = """
void plain(float *x) { *x = 1; }
namespace one { namespace two { void inner(float *x) { *x = 2; } } }
struct K { static void method(float *x); };
void K::method(float *x) { *x = 3; }
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "inner",
            "no function has the name inner; there is one::two::inner: write its name so",
        ),
        (
            "method",
            "a static member function of K: give a function that calls it: void call_method",
        ),
        (
            "plian",
            "check the name, or give the source or object that has it; if it is static, remove static",
        ),
    ],
)
def test_a_function_of_cxx_is_told_where_it_is(tmp_path: Path, name: str, message: str) -> None:
    module = mblob.csource_module(CXX, "cpp", functions=[f"void {name}(float *x)"])
    with pytest.raises(mblob.BuildError, match=message):
        module.export_library(tmp_path / "k.so")


def test_functions_of_several_namespaces_are_listed_also_where_compilers_inline_them(
    tmp_path: Path,
) -> None:
    source = "int f(int x) { return x; } int g(int x) { return f(x); }"
    text = f"namespace n {{ {source} }} namespace m {{ {source} }}"
    with pytest.raises(
        mblob.BuildError, match=r"f is in several namespaces: its name is m::f or n::f$"
    ):
        mblob.csource_module(text, "cpp", functions=["f"]).export_library(tmp_path / "k.so")


@pytest.mark.parametrize("written", ["void {}(float *x)", "{}"])
def test_a_function_of_cxx_without_debug_information_is_told(tmp_path: Path, written: str) -> None:
    (tmp_path / "k.cpp").write_text(CXX)
    subprocess.run(["c++", "-fPIC", "-c", "k.cpp"], cwd=tmp_path, check=True)
    for name in ("one::two::inner", "inner"):
        module = mblob.static_library(tmp_path / "k.o", functions=[written.format(name)])
        remedies = (
            r"k\.o has one::two::inner, .*compile it with -g, or write the symbol .*void (_Z\w+)\("
        )
        with pytest.raises(mblob.BuildError, match=remedies) as error:
            module.export_library(tmp_path / "k.so")
    symbol, x = str(error.value).partition("void ")[2].partition("(")[0], np.zeros(1, "float32")
    module = mblob.static_library(tmp_path / "k.o", functions=[f"void {symbol}(float *x)"])
    module.export_library(tmp_path / "k.so")
    mblob.load_module(tmp_path / "k.so")[symbol](x)
    assert x[0] == 2
    subprocess.run(["c++", "-g", "-fPIC", "-c", "k.cpp"], cwd=tmp_path, check=True)
    module = mblob.static_library(tmp_path / "k.o", functions=[written.format("one::two::inner")])
    module.export_library(tmp_path / "k.so")
    assert "one::two::inner" in mblob.load_module(tmp_path / "k.so").functions


def test_a_header_that_is_read_first_makes_functions_of_cxx_functions_of_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cpp").write_text(CXX)
    (tmp_path / "decl.h").write_text(
        'extern "C" void plain(float *x);\n'
        'namespace one { namespace two { extern "C" void inner(float *x); } }\n'
    )
    functions = ["void plain(float *x)", "void inner(float *x)"]
    module = mblob.csource_module("k.cpp", functions=functions, options=["-include", "decl.h"])
    module.export_library("k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    x = np.zeros(1, "float32")
    for i, name in enumerate(("plain", "inner"), 1):
        lib[name](x)
        assert x[0] == i


def test_a_damaged_note_is_left_out_and_no_other(tmp_path: Path) -> None:
    """Notes are for people. They are read when somebody asks for one."""
    path = tmp_path / "n.so"
    source = "int more(int n, ...) { return n; }\nint most(int n, ...) { return n; }"
    mblob.csource_module(source).export_library(path)
    with pytest.raises(AttributeError, match="it is variadic"):
        mblob.load_module(path)["most"]
    data = path.read_bytes()
    at = data.index(b"variadic", data.index(b"mblob notes 1"))
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    lib = mblob.load_module(path)
    with pytest.raises(AttributeError) as damaged:
        lib["more"]
    assert "ariadic" not in str(damaged.value)
    with pytest.raises(AttributeError, match="it is variadic"):
        lib["most"]


def test_pointers_to_unsigned_bytes_are_no_texts() -> None:
    """In the errors of packed functions, as in those of calls."""
    words = ("char", "const char", "unsigned char", "signed char")
    for word in words:
        (prototype,) = parse([f"void f({word} **x)"])
        of = "texts" if word.endswith("char") and "signed" not in word else "arrays"
        assert f'"{of} for {word} **x"' in packed_forms([Wrapped(prototype)])


def test_debug_information_that_is_too_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undefined, "_MOST", 3)
    source = "int a(int x) { return x; }\nint b(int x) { return x; }\nint c(void) { return 0; }"
    with pytest.raises(
        mblob.BuildError, match=r"no kernel .* 3 entries were read, and it has more"
    ):
        mblob.csource_module(source, functions=["gone"]).export_library(tmp_path / "g.so")


def test_a_source_or_an_object_without_a_function_that_can_be_called_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.c").write_text("static int f(int x) { return x; }\n")
    Path("t.cpp").write_text("template <class T> T twice(T x) { return 2 * x; }\n")
    Path("k.cpp").write_text("namespace vis { void f(float *x) { *x = 1; } }\n")
    subprocess.run(["c++", "-fPIC", "-c", "k.cpp"], check=True)
    Path("i.cpp").write_text("struct V { int x; int get(); }; int V::get() { return x; }\n")
    Path("o.cpp").write_text(
        "struct V { int x; }; bool operator<(V a, V b) { return a.x < b.x; }\n"
    )
    Path("m.cpp").write_text("struct V { int x; int get(); }; int V::get() { return x; }\n")
    for name in ("s.c", "t.cpp", "i.cpp", "o.cpp", "m.cpp"):
        with pytest.warns(UserWarning, match=rf"{name}: defines nothing that a call") as told:
            mblob.csource_module(name).export_library("a.so")
        assert len(told) == 1
    with pytest.warns(UserWarning, match=r"k\.o: .* types of vis::f, of C.*compile it with -g"):
        mblob.static_library("k.o").export_library("a.so")
    with pytest.warns(UserWarning, match=r"k\.o: .* types of vis::f"):
        mblob.add("a.so", objects="k.o", replace=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mblob.csource_module("").export_library("b.so")
        user = mblob.csource_module(
            'namespace vis { void f(float *); } extern "C" void g(float *x) { vis::f(x); }', "cpp"
        )
        user.import_module(mblob.static_library("k.o"))
        user.export_library("a.so")


UNSEEN = {
    "st": ("c", "static int st(int x) { return x; } int sta(int x) { return st(x); }", "remove static there, or add"),
    "ns::st": ("cc", "namespace ns { static int st(int x) { return x; } } int sta(int x) { return ns::st(x); }",
               "remove static there, or add"),
    "no": ("cc", "namespace { int no(int x) { return x; } } int sta(int x) { return no(x); }",
           "is in an anonymous namespace in its source: add"),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("name", UNSEEN)
def test_a_function_that_no_library_exports_is_told_when_it_is_called_before_names_that_are_like_it(
    tmp_path: Path, name: str, dialect: str
) -> None:
    fmt, source, told = UNSEEN[name]
    code = mblob.csource_module(source, fmt=fmt)
    code.export_library(tmp_path / "plain.so", dialect=dialect)
    data = mblob.blob_module("root", b"data")
    data.import_module(mblob.csource_module(source, fmt=fmt))
    data.export_library(tmp_path / "below.so", dialect=dialect)
    for file in ("plain.so", "below.so"):
        lib = mblob.load_module(tmp_path / file)
        for ask in (lib.__getitem__, lib.symbol, lambda n, of=lib.ctypes: getattr(of, n)):
            with pytest.raises(AttributeError, match=re.escape(told)) as caught:
                ask(name)
            assert "did you mean" not in str(caught.value).partition(told)[0]
        call = ffi.new("mblob_prepared **")
        handle = lib._node.handle
        assert native.mblob_prepare(handle, name.encode(), b"int", call) == native.MBLOB_E_NOT_FOUND
        said = text(native.mblob_last_error())
        assert told in said and "did you mean" not in said


def test_a_static_function_says_nothing_of_one_of_its_name_that_is_called(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("static int f(int x) { return x; } int g(int x) { return f(x); }")
    (tmp_path / "b.c").write_text("/* adds one */\nint f(int x) { return x + 1; }")
    module = mblob.csource_module(tmp_path / "a.c")
    module.import_module(mblob.csource_module(tmp_path / "b.c"))
    module.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert lib.f(1) == 2
    assert "adds one" in lib.f.__doc__ and "static" not in lib.f.__doc__
