"""Types that rules of C or of the target decide, in sources and in objects of both compilers."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.packager.errors import BuildError

pytestmark = pytest.mark.compiles

OLD_STYLE = """
int sum(a, b) int a; float b; { return a + (int)b; }
float scale(x, s, n) float *x; float s; int n; { int i; for (i = 0; i < n; i++) x[i] *= s; return s; }
int first(c, s, b) char c; unsigned short s; _Bool b; { return c + s + b; }
int declared(int, float);
int declared(a, b) int a; float b; { return a + (int)b; }
int none() { return 7; }
"""


def library(folder: Path, cc: str, is_object: bool, text: str, *flags: str, **how: Any) -> Any:
    """A C text as a library, compiled by mblob, or by `cc -g`."""
    if is_object:
        (folder / "x.c").write_text(text)
        subprocess.run([cc, "-g", "-w", "-fPIC", *flags, "-c", "x.c"], cwd=folder, check=True)
        module = mblob.static_library(folder / "x.o", **how)
        module.export_library(folder / "x.so")
    else:
        module = mblob.csource_module(text, **how)
        module.export_library(folder / "x.so", cc=cc, options=["-w", *flags])
    return mblob.load_module(folder / "x.so")


@pytest.mark.parametrize("is_object", [False, True], ids=["source", "object"])
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_functions_of_the_old_style_are_called_with_promoted_types(
    tmp_path: Path, cc: str, is_object: bool
) -> None:
    lib = library(tmp_path, cc, is_object, OLD_STYLE, "-std=gnu11")
    x = np.ones(2, np.float32)
    assert lib.sum(1, 2.5) == 3
    assert lib.scale(x, 3.0, 2) == 3.0 and x.tolist() == [3.0, 3.0]
    assert lib.first(-1, 60000, 1) == 60000
    assert lib.declared(1, 2.5) == 3  # its prototype counts
    assert lib.none() == 7
    assert str(lib.functions["sum"]) == "int sum(int a, double b)"
    assert str(lib.functions["declared"]) == "int declared(int a, float b)"


def test_the_promoted_types_are_those_of_a_prototype(tmp_path: Path) -> None:
    lib = library(tmp_path, "gcc", True, OLD_STYLE, functions=["int sum(int a, double b)"])
    assert lib.sum(1, 2.5) == 3
    with pytest.raises(BuildError, match=r"'float', the source has 'double', as its old-style"):
        library(tmp_path, "gcc", True, OLD_STYLE, functions=["int sum(int a, float b)"])


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_debug_information_of_a_library_has_the_promoted_types(tmp_path: Path, cc: str) -> None:
    (tmp_path / "x.c").write_text(OLD_STYLE)
    subprocess.run(
        [cc, "-g", "-w", "-fPIC", "-shared", "x.c", "-o", "x.so"], cwd=tmp_path, check=True
    )
    lib = mblob.load_module(tmp_path / "x.so")
    assert lib.symbol("sum")(1, 2.5) == 3
    assert lib.symbol("first")(-1, 60000, True) == 60000
    assert lib.ctypes.declared(1, 2.5) == 3


CHARS = """
typedef char byte_;
char back(int x) { return (char)x; }
int given(byte_ c) { return c; }
const char *text(const char *s) { return s; }
"""


@pytest.mark.parametrize("functions", [None, ["char back(int x)", "int given(char c)"]])
@pytest.mark.parametrize(("cc", "is_object"), [("gcc", False), ("gcc", True), ("clang", True)])
def test_the_sign_of_char_is_that_of_the_source(
    tmp_path: Path, cc: str, is_object: bool, functions: Any
) -> None:
    lib = library(tmp_path, cc, is_object, CHARS, "-funsigned-char", functions=functions)
    assert lib.back(200) == 200 and lib.given(200) == 200
    with pytest.raises(mblob.MblobError, match="255"):
        lib.given(-1)
    if functions is None:
        assert lib.text("a") == "a"


ENUMS = """
enum E : char { M = -1, A = 1 };
enum class S : signed char { N = -1 };
enum U : unsigned char { B = 200 };
extern "C" int given(E e) { return e; }
extern "C" E back(int x) { return (E)x; }
extern "C" S other(int x) { return (S)x; }
extern "C" U last(U x) { return x; }
"""


@pytest.mark.parametrize("cxx", ["g++", "clang++"])
def test_enums_have_the_sign_of_their_type(tmp_path: Path, cxx: str) -> None:
    (tmp_path / "x.cc").write_text(ENUMS)
    command = [cxx, "-g", "-fPIC", "-c", "x.cc"]
    subprocess.run(command, cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "x.o").export_library(tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    assert lib.given(-1) == -1 and lib.back(-1) == -1 and lib.other(-1) == -1
    assert lib.last(200) == 200
    subprocess.run([*command[:3], "-shared", "x.cc", "-o", "y.so"], cwd=tmp_path, check=True)
    plain = mblob.load_module(tmp_path / "y.so")
    assert plain.symbol("back")(-1) == -1 and plain.symbol("last")(200) == 200


@pytest.mark.parametrize("debug", [(), ("-g",)], ids=["own", "callers"])
def test_types_in_units_of_their_own_are_known_from_sources(
    tmp_path: Path, debug: tuple[str, ...]
) -> None:
    text = "typedef struct { int a, b; } pair;\nint sum(const pair *p) { return p->a + p->b; }\n"
    lib = library(tmp_path, "gcc", False, text, *debug, "-fdebug-types-section")
    assert lib.sum(np.array([(1, 2)], [("a", "i4"), ("b", "i4")])) == 3


def test_a_descriptor_is_a_name_like_others_in_c(tmp_path: Path) -> None:
    """Rows about Fortran have that word, too."""
    text = "struct descriptor { int n; };\n"
    text += "int n_of(const struct descriptor *d) { return d->n; }\n"
    text += "float first(const float *descriptor) { return *descriptor; }\n"
    lib = library(tmp_path, "cc", False, text)
    assert lib.symbol("first")(np.full(1, 2, "float32")) == lib.first(np.full(1, 2, "float32")) == 2
    assert lib.symbol("n_of")(np.full(1, 3, "int32")) == lib.n_of(np.full(1, 3, "int32")) == 3


def test_wide_characters_and_long_doubles_are_arrays_of_ctypes_and_numpy(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#include <wchar.h>\n"
        "int wide(const wchar_t *s) { return (int)wcslen(s); }\n"
        "void more(long double *x, int n) { for (int i = 0; i < n; i++) x[i] += 1; }\n"
    )
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for function in (lib.wide, lib.ctypes.wide):
        assert function(ctypes.create_unicode_buffer("ab")) == 2
    x = np.ones(2, np.longdouble)
    for more in (lib.more, lib.ctypes.more):
        more(x, 2)
    assert x.tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"found float128|longdouble"):
        lib.wide(x)
