"""Plain C functions as functions of ctypes, whose types are those of the stored prototype."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile

SOURCE = r"""
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
double half(double x) { return x / 2; }
float same(float x) { return x; }
int64_t big(int64_t x) { return x; }
uint64_t last(uint64_t x) { return x; }
unsigned char byte(unsigned char x) { return x; }
char letter(char x) { return x; }
bool not(bool x) { return !x; }
void nothing(void) {}
void copy4(const float *from, float *to) { memcpy(to, from, 4 * sizeof *to); }
int64_t sum(const int32_t *x, size_t n) { int64_t s = 0; while (n--) s += x[n]; return s; }
const char *tail(const char *text) { return text + 1; }
void fill(char *text, size_t n) { memset(text, 'x', n); }
void *there(void *p) { return p; }
float *second(float *x) { return x + 1; }
int call(int (*f)(int), int x) { return f(x); }
int64_t through(const int32_t *const *rows) { return rows[1][0]; }
long double wide(long double x) { return x; }
float rowsum(size_t rows, const float *x, size_t n) { float s = 0; while (rows && n--) s += x[n]; return s; }
int (*mystery(int x))(void) { return (int (*)(void))(intptr_t)(x + 1); } /* the table has no such result */
double added(int n, ...) {
  va_list a; double sum = 0;
  for (va_start(a, n); n > 0; --n) sum += va_arg(a, double);
  va_end(a);
  return sum;
}
long double third(long double x) { return x / 3; }
struct pair { int a, b; } pair_of(int x) { return (struct pair){x, x}; }
typedef float real;
typedef real (*unary)(real);
real applied(unary f, real x) { return f(x); }
void doubled(int m, int n, float a[m][n]) { for (int i = 0; i < m * n; i++) a[0][i] *= 2; }
"""
PROTOTYPES = """
double half(double x); float same(float x); int64_t big(int64_t); uint64_t last(uint64_t x);
unsigned char byte(unsigned char x); char letter(char x); bool not(bool x); void nothing(void);
void copy4(const float from[4], float to[4]); int64_t sum(const int32_t *x, size_t n);
const char *tail(const char *text);
void fill(char *text, size_t n); void *there(void *p); float *second(float *x); int call(void *f, int x);
int64_t through(const void *rows);
float rowsum(size_t rows, const float x[rows][2*n], size_t n);
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c_functions")
    prototypes = [p for p in PROTOTYPES.split(";") if p.strip()]
    host = mblob.csource_module(SOURCE, fmt="c", functions=prototypes)
    host.export_library(folder / "k.so")
    return folder / "k.so"


@pytest.fixture
def lib(path: Path) -> mblob.Module:
    return mblob.load_module(path)


def test_a_result_is_what_the_function_returns(lib: mblob.Module) -> None:
    assert lib.symbol("big")(1 << 40) == 1 << 40
    assert lib.symbol("half")(3.0) == 1.5


def test_types_are_those_of_the_prototype(lib: mblob.Module) -> None:
    half, big = lib.symbol("half"), lib.symbol("big")
    assert (half.restype, half.argtypes) == (ctypes.c_double, (ctypes.c_double,))
    assert big.restype is ctypes.c_int64
    assert issubclass(big.argtypes[0], ctypes.c_int64)
    assert lib.symbol("copy4").restype is None
    assert lib.symbol("tail").restype is ctypes.c_char_p
    assert lib.symbol("there").restype is ctypes.c_void_p
    assert lib.symbol("second").restype is ctypes.POINTER(ctypes.c_float)
    assert lib.symbol("nothing").argtypes == ()
    assert repr(half) == f"<C function double half(double x) of {lib._node.path}>"


CALLS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "half": ((np.float32(3),), 1.5), "same": ((2.5,), 2.5), "big": ((np.int16(-3),), -3),
    "last": ((2**64 - 1,), 2**64 - 1), "byte": ((ctypes.c_uint8(255),), 255), "letter": ((65,), 65),
    "not": ((np.bool_(True),), False), "nothing": ((), None), "sum": ((np.array([1, 2, 3], "int32"), 3), 6),
    "tail": ((b"abc",), b"bc"), "there": ((None,), None),
    "call": ((ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs), -7), 7),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_values_pass(name: str, lib: mblob.Module) -> None:
    args, result = CALLS[name]
    assert lib.symbol(name)(*args) == result


def test_texts_and_pointers_to_pointers_pass(lib: mblob.Module) -> None:
    wide = ctypes.c_wchar_p("ab")
    assert lib.symbol("there")(wide) == ctypes.cast(wide, ctypes.c_void_p).value
    assert lib.symbol("tail")("aé").decode() == "é"
    rows = (ctypes.POINTER(ctypes.c_int32) * 2)((ctypes.c_int32 * 1)(3), (ctypes.c_int32 * 1)(4))
    assert lib.symbol("through")(rows) == 4
    assert lib.symbol("second")(np.array([1, 2], "float32"))[0] == 2


def _arrays() -> dict[str, tuple[Any, Callable[[Any], list[float]]]]:
    array = (ctypes.c_float * 4)()
    there = np.zeros(4, "float32")
    return {
        "ctypes array": (array, list),
        "ctypes reference": (ctypes.byref(array), lambda _: list(array)),
        "ctypes pointer": (ctypes.cast(array, ctypes.POINTER(ctypes.c_float)), lambda p: p[:4]),
        "numpy": (there, np.ndarray.tolist),
        "numpy's ctypes": (there.ctypes, lambda _: there.tolist()),
        "data_as": (there.ctypes.data_as(ctypes.c_void_p), lambda _: there.tolist()),
        "memoryview": (memoryview(bytearray(16)).cast("f"), memoryview.tolist),
        "tensor": (mblob.empty((4,), "float32", mblob.cpu(0)), lambda t: t.numpy().tolist()),
    }


@pytest.mark.parametrize("kind", _arrays())
def test_pointers_take_arrays_of_all_kinds(kind: str, lib: mblob.Module) -> None:
    array, read = _arrays()[kind]
    given = np.arange(4, dtype="float32")
    given.flags.writeable = False
    lib.symbol("copy4")(given, array)
    assert read(array) == [0, 1, 2, 3]


SIZED = {
    "numpy": np.ones((3, 4), "float32"),
    "ctypes array": ((ctypes.c_float * 4) * 3)(),
    "reference": ctypes.byref((ctypes.c_float * 12)()),
    "reference to more": ctypes.byref((ctypes.c_float * 13)()),
    "pointer to an array": ctypes.pointer((ctypes.c_float * 12)()),
    "pointer without size": ctypes.cast((ctypes.c_float * 1)(), ctypes.POINTER(ctypes.c_float)),
    "memoryview": memoryview(bytearray(48)).cast("f", (3, 4)),
}


@pytest.mark.parametrize("kind", SIZED)
def test_sizes_that_other_arguments_tell_are_checked(kind: str, lib: mblob.Module) -> None:
    rowsum = lib.ctypes.rowsum
    assert rowsum(ctypes.c_size_t(3), SIZED[kind], 2) == (2 if kind == "numpy" else 0)
    if kind != "pointer without size":
        with pytest.raises(
            ValueError, match=r"^rowsum: argument 1 \(x\): expected shape \("
        ) as error:
            rowsum(np.int64(4), SIZED[kind], 2)
        assert isinstance(error.value, mblob.MblobError)
    assert rowsum(0, None, 2) == 0


def test_argtypes_of_the_caller_know_no_sizes_of_other_arguments(lib: mblob.Module) -> None:
    own = lib.symbol("rowsum", argtypes=lib.symbol("rowsum").argtypes)
    assert own(2, np.ones((3, 2), "float32"), 1) == 1


def test_characters_are_written_where_they_can_be(lib: mblob.Module) -> None:
    for text in (bytearray(b"ab"), ctypes.create_string_buffer(2), np.zeros(2, "int8")):
        lib.symbol("fill")(text, 2)
        assert bytes(text)[:2] == b"xx"


FLOATS = np.zeros(4, "float32")
READ_ONLY = np.frombuffer(bytes(16), "float32")
MISTAKES: dict[str, tuple[str, tuple[Any, ...], type[Exception], str]] = {
    "too large": ("big", (2**63,), ValueError,
        r"big: argument 0: expected int64 \(-9.* to 9\d*\), found 9223372036854775808"),
    "negative": ("last", (-1,), ValueError, r"last: argument 0 \(x\): expected uint64 \(0 to \d+\), found -1"),
    "infinite": ("same", (1e300,), ValueError,
        r"same: argument 0 \(x\): expected float \(up to 3.4.*e\+38\), found 1e\+300"),
    "a float for an int": ("big", (1.5,), TypeError, "big: argument 0: expected int, found float"),
    "a text for a float": ("half", ("x",), TypeError, r"half: argument 0 \(x\): expected float, found str"),
    "too few": ("copy4", (FLOATS,), ValueError,
        r"copy4: expected 2 arguments, found 1: void copy4\(const float from\[4\], "),
    "too many": ("half", (3.0, 4.0), ValueError, "half: expected 1 argument, found 2"),
    "read-only": ("copy4", (FLOATS, READ_ONLY), ValueError,
        r"argument 1 \(to\): its memory is read-only, and the function may"),
    "bytes to write": ("fill", (b"ab", 2), ValueError, r"fill: argument 0 \(text\): its memory is read-only"),
    "a text to write": ("fill", ("ab", 2), TypeError, "expected an array of char, found str"),
    "c_char_p to write": ("fill", (ctypes.c_char_p(b"ab"), 2), TypeError, "found c_char_p"),
    "c_char_p for floats": ("copy4", (ctypes.c_char_p(b"ab"), FLOATS), TypeError, "to float32, found c_char"),
    "NUL": ("tail", ("a\0b",), ValueError, "the str has a NUL inside"),
    "dtype": ("copy4", (FLOATS.astype("float64"), FLOATS), TypeError,
        r"array of float32, found float64; convert it with astype"),
    "byte order": ("copy4", (FLOATS.astype(">f4"), FLOATS), TypeError,
        "expected an array of float32, found format '>f'"),
    "bytes": ("copy4", (bytes(16), FLOATS), TypeError, "expected an array of float32, found bytes; pass"),
    "gaps": ("copy4", (np.zeros(8, "float32")[::2], FLOATS), ValueError, "found a non-contiguous array"),
    "size": ("copy4", (FLOATS[:3], FLOATS), ValueError,
        r"copy4: argument 0 \(from\): expected shape \(4,\), found \(3,\)"),
    "size of another argument": ("rowsum", (3, np.ones((3, 5), "float32"), 2), ValueError,
        r"rowsum: argument 1 \(x\): expected shape \(3, 4\), found \(3, 5\)"),
    "type before size": ("rowsum", (3, np.ones((3, 5)), 2), TypeError,
        r"rowsum: argument 1 \(x\): expected an array of float32, found float64"),
    "no number for a size": ("rowsum", ("3", FLOATS, 2), TypeError,
        r"rowsum: argument 0 \(rows\): expected int, found str"),
    "NULL for a size of another argument": ("rowsum", (3, None, 2), TypeError,
        r"rowsum: argument 1 \(x\): expected an array of float32, found None"),
    "a pointer to less": ("copy4", (FLOATS, ctypes.pointer((ctypes.c_float * 3)())), ValueError,
        r"expected shape \(at least 4,\), found \(3,\)"),
    "a mask": ("copy4", (np.ma.masked_array(FLOATS), FLOATS), TypeError, "a masked array would lose its mask"),
    "a text for a bool": ("not", ("x",), TypeError, r"not: argument 0 \(x\): expected int, found str"),
    "None for a bool": ("not", (None,), TypeError, "expected int, found None"),
    "two for a bool": ("not", (2,), ValueError, r"expected bool \(0 to 1\), found 2"),
    "an int too large for a float": ("same", (10**400,), ValueError, "the int is too large for a float"),
    "an int too large for a double": ("half", (10**400,), ValueError, "the int is too large for a float"),
    "a text for a small float": ("same", ("x",), TypeError, r"same: argument 0 \(x\): expected float, found str"),
    "a function of Python": ("call", (abs, 1), TypeError, "an array or an address, or a function of ctypes.CFUNCTYPE"),
    "surrogates": ("tail", ("\udc80",), ValueError, "the str has surrogates"),
    "NULL for a size": ("copy4", (None, FLOATS), TypeError, "expected an array of float32, found None"),
    "another pointer": ("second", (ctypes.pointer(ctypes.c_int()),), TypeError,
        "expected a pointer to float32, found c_int"),
    "another reference": ("second", (ctypes.byref(ctypes.c_double()),), TypeError,
        "expected a pointer to float32, found c_double"),
    "a reference to less": ("copy4", (FLOATS, ctypes.byref(ctypes.c_float())), ValueError,
        r"expected shape \(at least 4,\), found \(1,\)"),
    "an address": ("second", (4096,), TypeError,
        "expected an array of float32, found the number 4096; pass an array with one element"),
    "a text for a pointer": ("there", ("x",), TypeError, "expected an array or an address, found str"),
    "not a buffer": ("there", (object(),), TypeError, "expected an array or an address, found object"),
    "by name": ("half", (), ValueError, "half: expected 1 argument, found 0"),
    "without a prototype": ("mystery", (1,), TypeError,

               r"no prototype says what it .*returns; pack it .*, or get it with symbol\('mystery', "),
    "packed": ("half__packed", (1,), TypeError, r"it is the packed function 'half', so call module\['half'\]"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_arguments_are_one_error_each(mistake: str, lib: mblob.Module) -> None:
    name, args, kind, text = MISTAKES[mistake]
    with pytest.raises(kind, match=text) as caught:
        lib.symbol(name)(*args)
    assert isinstance(caught.value, mblob.MblobError)
    assert "\n" not in str(caught.value)


def test_a_function_that_is_not_packed_has_the_types_of_its_source(lib: mblob.Module) -> None:
    assert lib.ctypes.added(2, ctypes.c_double(1), ctypes.c_double(2)) == 3
    assert lib.ctypes.third(6) == 2
    with pytest.raises(
        ValueError, match=r"at least 1 argument, found 0: double added\(int n, \.\.\.\)"
    ):
        lib.ctypes.added()
    with pytest.raises(TypeError, match="ctypes has no type for its result, struct pair"):
        lib.ctypes.pair_of(1)


def test_functions_that_are_not_packed_take_callbacks_and_rows(lib: mblob.Module) -> None:
    callback = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(lambda x: 3 * x)
    assert lib.symbol("applied")(callback, 2) == 6
    rows = np.ones((2, 3), np.float32)
    lib.symbol("doubled")(2, 3, rows)
    assert (rows == 2).all()


def test_a_function_without_prototype_says_so(lib: mblob.Module) -> None:
    mystery = lib.symbol("mystery")
    assert "no prototype says what it" in repr(mystery) and "a call is an error" in repr(mystery)
    assert lib.symbol("mystery", ctypes.c_int, [ctypes.c_int])(2) == 3
    mystery.restype, mystery.argtypes = ctypes.c_int, [ctypes.c_int]  # as programs of ctypes do
    assert mystery(2) == lib.symbol("mystery")(2) == 3
    assert "error" not in repr(mystery)


def test_what_is_missing_beside_the_types_of_the_arguments_is_the_result(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("int mystery(int x) { return x + 1; }")
    command = ["gcc", "-shared", "-fPIC", "k.c", "-o", "k.so"]  # without debug information
    subprocess.run(command, cwd=tmp_path, check=True)
    message = (
        r"^mystery: no prototype says what it returns; pack it with its prototype \(functions=\), or"
        r" get it with symbol\('mystery', restype, argtypes\)$"
    )
    unknown = mblob.load_module(tmp_path / "k.so", assume="packed")
    with pytest.raises(TypeError, match="no prototype says what it takes and returns; pack it"):
        unknown.symbol("mystery")(2)
    with pytest.raises(TypeError, match=message):
        unknown.symbol("mystery", argtypes=[ctypes.c_int])(2)
    mystery = unknown.symbol("mystery")
    mystery.argtypes = [ctypes.c_int]
    with pytest.raises(TypeError, match=message):
        mystery(2)
    assert "says what it returns: a call is an error" in repr(mystery)
    mystery.argtypes = None
    mystery.restype = ctypes.c_int
    assert mystery(2) == 3


def test_types_of_the_caller_replace_those_of_the_prototype(lib: mblob.Module) -> None:
    assert lib.symbol("big", ctypes.c_uint8, [ctypes.c_int64])(257) == 1
    assert lib.symbol("big", argtypes=[ctypes.c_uint8])(257) == 1
    assert lib.symbol("big", None, [ctypes.c_int64])(1) is None


WRONG_TYPES: dict[str, tuple[Any, Any, str]] = {
    "a text": ("double", None, "restype: expected a type of ctypes, found str"),
    "float": (float, None, "restype: expected a type of ctypes, found float"),
    "no list": (None, 3, "argtypes: expected a list of types of ctypes, found int"),
    "a text in a list": (None, ["x"], r"argtypes\[0\]: expected a type of ctypes, found str"),
    "float in a list": (
        ...,
        [ctypes.c_int, float],
        r"argtypes\[1\]: expected a type of ctypes, found float",
    ),
}


@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_types_of_the_caller_are_those_of_ctypes(kind: str, lib: mblob.Module) -> None:
    restype, argtypes, message = WRONG_TYPES[kind]
    with pytest.raises(mblob.MblobError, match=f"^symbol: {message}$") as error:
        lib.symbol("half", restype, argtypes)
    assert isinstance(error.value, TypeError)
    assert lib.symbol("big", int, [ctypes.c_int])(3) == 3
    assert lib.symbol("big", lambda found: found + 1, [ctypes.c_int])(3) == 4


def test_a_function_is_the_same_object_each_time(lib: mblob.Module) -> None:
    half = lib.symbol("half")
    assert half is lib.symbol("half")
    assert half is lib.ctypes.half is lib.ctypes["half"]
    assert copy.copy(half) is copy.deepcopy(half) is half
    assert lib["half"] is not half


def test_ctypes_gives_the_functions_as_a_cdll_does(lib: mblob.Module) -> None:
    assert lib.ctypes.half(3.0) == 1.5
    assert {"half", "mystery"} <= set(dir(lib.ctypes))
    assert "C functions" in repr(lib.ctypes)
    with pytest.raises(AttributeError, match="no C symbol 'hlaf'; did you mean 'half'"):
        lib.ctypes.hlaf  # noqa: B018
    assert not hasattr(lib.ctypes, "__array_interface__")
    with pytest.raises(TypeError, match="not iterable"):
        list(lib.ctypes)


@pytest.mark.parametrize("from_memory", [False, True])
def test_variables_are_found_as_in_a_cdll(
    tmp_path: Path, from_memory: bool, mapped: Callable[[Path], bool]
) -> None:
    path = tmp_path / "v.so"
    source = "int counter = 5; int bump(void) { return ++counter; }"
    mblob.csource_module(source).export_library(path)
    lib = mblob.load_module(path.read_bytes() if from_memory else path)
    counter = ctypes.c_int.in_dll(lib.ctypes, "counter")
    assert (lib["bump"](), counter.value) == (6, 6)
    counter.value = 40
    assert lib["bump"]() == 41
    with pytest.raises(ValueError, match="gone"):
        ctypes.c_int.in_dll(lib.ctypes, "gone")
    del lib
    gc.collect()
    assert not mapped(path)


@pytest.mark.own_process  # starts libmblob-ffi.so
def test_libraries_that_are_loaded_as_copies_have_variables(golden: Path) -> None:
    for name in ("ffi/ctx_llvm.so", "ffi/relax_c.so"):
        lib = mblob.load_module(golden / name)
        assert ctypes.c_void_p.in_dll(lib.ctypes, "__tvm_ffi__library_ctx").value


def test_what_is_no_library_has_no_variables(tmp_path: Path) -> None:
    mblob.blob_module("k", b"1").export_library(tmp_path / "k.so")
    (payload, *_) = [m for m in mblob.load_module(tmp_path / "k.so").walk() if m.type_key == "k"]
    for module in (payload, mblob.blob_module("k", b"1")):
        with pytest.raises(mblob.MblobError, match="no library of its own"):
            ctypes.c_int.in_dll(module.ctypes, "counter")


def test_a_function_keeps_the_library_and_nothing_keeps_the_function(
    path: Path, tmp_path: Path, mapped: Callable[[Path], bool]
) -> None:
    path = shutil.copy(path, tmp_path / "own.so")
    lib = mblob.load_module(path)
    half = lib.symbol("half")
    gc.disable()
    try:
        del lib
        assert half(3.0) == 1.5 and mapped(path)
        del half
        assert not mapped(path)
    finally:
        gc.enable()


def test_memory_stays_while_the_function_runs(lib: mblob.Module) -> None:
    data = bytearray(8)

    def resize(_: int) -> int:
        with pytest.raises(BufferError):
            data.extend(bytes(1 << 20))
        return 5

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    both = lib.symbol(
        "call", argtypes=[*lib.symbol("call").argtypes, lib.symbol("fill").argtypes[0]]
    )
    assert both(kind(resize), 1, data) == 5
    data.extend(b"x")


def test_functions_are_pickled_with_their_module(lib: mblob.Module) -> None:
    assert pickle.loads(pickle.dumps(lib.symbol("half")))(3.0) == 1.5


def test_modules_that_are_not_linked_have_no_c_functions() -> None:
    module = mblob.csource_module("int f(void) { return 1; }", fmt="c")
    with pytest.raises(mblob.NotFoundError, match="a plain C function needs an opened library"):
        module.ctypes.f  # noqa: B018


DEBUG_SOURCE = r"""
#include <complex.h>
#include <stdarg.h>
#include <stdint.h>
typedef enum { RED, GREEN } color;
typedef int64_t number;
typedef struct { int a; double b; } pair;
number big(number x) { return x; }
color other(color x) { return x == RED ? GREEN : RED; }
long double wide(long double x) { return x; }
typedef long double widest;
widest wider(widest x) { return x; }
const char *tail(const char *text) { return text + 1; }
void twice(const float *from, float *to) { to[0] = 2 * from[0]; }
int call(int (*f)(int), int x) { return f(x); }
int first(pair *p) { return p->a; }
int second(int (*rows)[2]) { return rows[1][0]; }
void (*picked(int which))(const char *, ...) { (void)which; return 0; }
int nameless(struct { int a; } *p) { return p->a; }
int nested(void (*f)(int (*)(int)), ...) { return f != 0; }
struct bits { int a : 31; double b; } by_value(struct bits p) { return p; }
int of_value(pair p) { return p.a; }
int many(void (*f)(int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int)) { return !f; }
int constant(int *const *const p, const char *const names[2]) { return !p + !names; }
double sum(int n, ...) {
  va_list args;
  va_start(args, n);
  double s = 0;
  while (n--) s += va_arg(args, double);
  va_end(args);
  return s;
}
"""


@pytest.fixture(scope="module", params=["gcc -gdwarf-5", "gcc -gdwarf-4", "clang -g"])
def of_debug(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    require: Callable[[str], str],
) -> mblob.Module:
    """A library that mblob did not make, with debug information."""
    compiler, option = request.param.split()
    folder = tmp_path_factory.mktemp("debug")
    (folder / "k.c").write_text(DEBUG_SOURCE)
    command = [
        require(compiler),
        option,
        "-O2",
        "-ffunction-sections",
        "-shared",
        "-fPIC",
        "k.c",
        "-o",
        "k.so",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return mblob.load_module(folder / "k.so")


def test_debug_information_tells_types(of_debug: mblob.Module) -> None:
    c = of_debug.ctypes
    assert "C function number big(number) of" in repr(c.big)
    assert c.big(1 << 40) == 1 << 40
    assert c.other(0) == 1
    assert c.wide(1.5) == c.wider(1.5) == 1.5
    assert c.tail("ab") == b"b"
    assert c.call(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(abs), -4) == 4
    assert c.first(np.array([(7, 0.5)], np.dtype("i4, f8", align=True))) == 7
    out = np.zeros(1, "float32")
    c.twice(np.ones(1, "float32"), out)
    assert out[0] == 2
    with pytest.raises(
        ValueError, match=r"twice: argument 1: its memory is read-only.*may write to float \*"
    ):
        c.twice(out, READ_ONLY)


SPELLED = {
    "call": ("int call(int (*)(int), int)", ["int (*)(int)"]),
    "first": ("int first(pair *)", ["pair *"]),
    "second": ("int second(int (*)[2])", ["int (*)[2]"]),
    "picked": ("void (*picked(int))(const char *, ...)", []),
    "nameless": ("int nameless(struct {...} *)", ["struct {...} *"]),
    "nested": ("int nested(void (*)({...}), ...)", ["void (*)({...})"]),
    "by_value": ("struct bits by_value(struct bits)", []),
    "many": (f"int many(void (*)({'int, ' * 16}...))", [f"void (*)({'int, ' * 16}...)"]),
    "constant": (
        "int constant(int * const * const, const char * const *)",
        ["int * const * const", "const char * const *"],
    ),
}


@pytest.mark.parametrize("name", SPELLED)
def test_types_of_debug_information_are_spelled_as_in_c(name: str, of_debug: mblob.Module) -> None:
    text, pointers = SPELLED[name]
    function = of_debug.symbol(name)
    assert f"<C function {text} of" in repr(function)
    types = map(repr, function.argtypes or ())
    assert [t for t in types if t.startswith("<pointer")] == [f"<pointer, {t}>" for t in pointers]


def test_rows_of_debug_information_are_checked(of_debug: mblob.Module) -> None:
    assert of_debug.ctypes.second(np.arange(4, dtype="int32").reshape(2, 2)) == 2
    with pytest.raises(
        ValueError, match=r"second: argument 0: expected shape \(\*, 2\), found \(2, 3\)"
    ):
        of_debug.ctypes.second(np.zeros((2, 3), "int32"))
    with pytest.raises(TypeError, match="expected an array of int32, found float32"):
        of_debug.ctypes.second(np.zeros((2, 2), "float32"))


VARIADIC_MISTAKES = {
    "float": (1.0, TypeError),
    "text": ("x", TypeError),
    "array": (np.ones(2), TypeError),
    "c_float": (ctypes.c_float(1), TypeError),
    "large": (1 << 40, ValueError),
}


@pytest.mark.parametrize("kind", VARIADIC_MISTAKES)
def test_arguments_that_c_passes_otherwise_are_refused(kind: str, of_debug: mblob.Module) -> None:
    value, error = VARIADIC_MISTAKES[kind]
    with pytest.raises(
        error, match=r"^sum: argument 2: expected .* value of ctypes such as c_\w+, found"
    ):
        of_debug.ctypes.sum(2, ctypes.c_double(1), value)


def test_more_arguments_follow_those_of_a_variadic_function(of_debug: mblob.Module) -> None:
    assert of_debug.ctypes.sum(2, ctypes.c_double(1), ctypes.c_double(2)) == 3
    with pytest.raises(ValueError, match="expected at least 1 argument, found 0"):
        of_debug.ctypes.sum()


def test_a_type_that_ctypes_lacks_is_named(of_debug: mblob.Module) -> None:
    with pytest.raises(
        TypeError,
        match="by_value: ctypes has no type for parameter 0, struct bits; get it with symbol",
    ):
        of_debug.ctypes.by_value(1)

    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))

    with pytest.raises(
        TypeError, match="by_value: ctypes has no type for its result, struct bits; get"
    ):
        of_debug.symbol("by_value", argtypes=[Pair])(Pair(7, 0.5))
    assert of_debug.symbol("of_value", argtypes=[Pair])(Pair(7, 0.5)) == 7


@pytest.mark.parametrize("damage", range(0, 400, 40))
def test_damaged_debug_information_is_none(
    damage: int, of_debug: mblob.Module, tmp_path: Path
) -> None:
    data = bytearray(Path(of_debug._node.path).read_bytes())
    section = next(s for s in ElfFile(memoryview(data)).sections if s.name == ".debug_info")
    for i in range(damage, section.sh_size, 97):
        data[section.sh_offset + i] ^= 0xA5
    (tmp_path / "damaged.so").write_bytes(data)
    with suppress(TypeError, ValueError):  # its types are unknown, or others
        mblob.load_module(tmp_path / "damaged.so").ctypes.big("text")
