"""The table of kinds of parameters and of ways to call: what one way takes, the others take. The exceptions are in
`OF_CTYPES`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_void_p, cast, pointer
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mblob
from mblob.loader.handle import Handle

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
enum color { RED, GREEN = 5 };
struct point { float x; int y; };
typedef int (*fn)(int);
double i8(int8_t x) { return x; }
double i32(int32_t x) { return x; }
double u64(uint64_t x) { return x; }
double flag(bool x) { return x; }
double letter(char x) { return x; }
double color(enum color x) { return x; }
double f32(float x) { return x; }
double f64(double x) { return x; }
double text(const char *s) { return s ? (int)strlen(s) : -1; }
double chars(char *s) { return s ? s[0] : -1; }
double letters(const char s[3]) { return s[2]; }
double floats(const float *x) { return x ? x[0] : -1; }
double written(float *x) { return x ? x[0] : -1; }
double fixed(const float x[3]) { return x[2]; }
double rows(const float x[2][3]) { return x[1][2]; }
double sized(int n, const double x[n]) { return x[n - 1]; }
double bytes(const uint8_t *x) { return x ? x[0] : -1; }
double signs(const int8_t *x) { return x ? x[0] : -1; }
double flags(const bool *x) { return x ? x[0] : -1; }
double any(const void *x) { return x ? *(const unsigned char *)x : -1; }
double complexes(const double complex *x) { return x ? cimag(x[0]) : -1; }
double one(const double complex x[static 1]) { return cimag(x[0]); }
double record(const struct point *p) { return p ? p->y : -1; }
double records(const struct point p[2]) { return p[1].y; }
double lists(const float **x) { return x && x[0] ? x[0][0] : -1; }
double texts(const char **x) { return x && x[0] ? (int)strlen(x[0]) : -1; }
double deep(float ***x) { return x && x[0] && x[0][0] ? x[0][0][0] : -1; }
double call(fn f) { return f ? f(3) : -1; }
double calls(fn *f) { return f && f[0] ? f[0](3) : -1; }
"""


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_int))


class Index:
    def __index__(self) -> int:
        return 3


class Real:
    def __float__(self) -> float:
        return 3.0


class Lent:
    """An array of another package."""

    def __dlpack__(self, **_: Any) -> Any:
        return FLOATS.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Parameter:
    def __init__(self, value: Any) -> None:
        self._as_parameter_ = value


FLOATS = np.array([5, 6, 7], "float32")
READ_ONLY = FLOATS.copy()
READ_ONLY.flags.writeable = False
ROWS = np.arange(6, dtype="float32").reshape(2, 3)
POINTS = (Point * 2)(Point(1, 2), Point(3, 7))
RECORDS = np.array([(1, 2), (3, 7)], [("x", "f4"), ("y", "i4")])
COMPLEX = np.full(3, 1 + 2j)
F = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)
OTHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_double)(lambda x: 0)
ADDRESSES = np.array([FLOATS.ctypes.data], "uint64")
C_FLOATS = (ctypes.c_float * 3)(5, 6, 7)
THREE = (3, np.int32(3), np.uint8(3), np.array(3), Index())
NO_INT = (
    None,
    "3",
    b"3",
    2.5,
    np.float32(2),
    1j,
    [3],
    FLOATS,
    np.array([3]),
    object(),
    Real(),
    Fraction(3),
)
NO_FLOAT = (None, "3", b"3", 1j, [3], FLOATS, np.array([3.0]), object(), 10**400)
NO_ARRAY = (3, 2.5, "abc", [5.0], object(), np.float32(5), {}, np.ma.array(FLOATS, mask=[0, 0, 1]))
OTHER_FLOATS = (
    FLOATS.astype("f8"),
    FLOATS.astype(">f4"),
    np.zeros(6, "f4")[::2],
    bytes(12),
    COMPLEX,
)
PAIR = np.array([1.0, 5.0])
A_BYTE = np.array([97, 2, 3], "uint8")


class Kind(NamedTuple):
    """Values that each way takes, with the same result, and those that none takes.

    Attributes:
        c: types of mblob_call and an argument of C, where C has the kind.
    """

    right: tuple[Any, ...]
    result: float
    wrong: tuple[Any, ...]
    c: tuple[bytes, Any] | None = None
    before: tuple[Any, ...] = ()


KINDS = {
    "i8": Kind((*THREE, ctypes.c_int8(3)), 3, (*NO_INT, 300, 2**70), (b"int8", 3)),
    "i32": Kind((*THREE, ctypes.c_int(3)), 3, (*NO_INT, 2**31, ctypes.c_double(3)), (b"int32", 3)),
    "u64": Kind((*THREE, ctypes.c_uint64(3)), 3, (*NO_INT, -1), (b"uint64", ctypes.c_uint64(3))),
    "flag": Kind((1, True, np.bool_(1), np.int8(1), ctypes.c_bool(True)), 1, (*NO_INT, 2), (b"bool", 1)),
    "letter": Kind(THREE, 3, (*NO_INT, 300), (b"int8", 3)),
    "color": Kind((5, np.int64(5), np.array(5)), 5, (*NO_INT, 2**40), (b"int", 5)),
    "f32": Kind((*THREE, 3.0, np.float16(3), Real(), Fraction(3), ctypes.c_float(3)), 3, (*NO_FLOAT, 1e300),
                (b"float32", ctypes.c_double(3))),
    "f64": Kind((*THREE, 3.0, np.longdouble(3), Real(), Fraction(3), ctypes.c_double(3)), 3, NO_FLOAT,
                (b"float64", ctypes.c_double(3))),
    "text": Kind(("abc", b"abc", np.str_("abc"), np.bytes_(b"abc")), 3, (3, 2.5, [b"a"], "a\0b", "\ud800", FLOATS),
                 (b"str", b"abc")),
    "chars": Kind((A_BYTE, bytearray(b"ab"), ctypes.create_string_buffer(b"ab"), A_BYTE.view("i1")), 97,
                  (*NO_ARRAY, b"abc", FLOATS, np.ones(3, bool)), (b"uint8[3]", A_BYTE.ctypes)),
    "letters": Kind((b"xya", "xya", "x\0a", np.frombuffer(b"xya", "u1"), (ctypes.c_char * 3)(*b"xya")), 97,
                    (3, None, b"abcd", "ab", [1], FLOATS, np.ones(3, bool)), (b"uint8[3]", b"xya")),
    "floats": Kind((FLOATS, mblob.array(FLOATS), C_FLOATS, byref(C_FLOATS), memoryview(FLOATS), READ_ONLY, Lent(),
                    ROWS + 5), 5, (*NO_ARRAY, *OTHER_FLOATS), (b"float32[3]", C_FLOATS)),
    "written": Kind((FLOATS, mblob.array(FLOATS), C_FLOATS, byref(C_FLOATS)), 5, (*NO_ARRAY, *OTHER_FLOATS, READ_ONLY),
                    (b"float32[3]", C_FLOATS)),
    "fixed": Kind((FLOATS, FLOATS.reshape(1, 3), C_FLOATS), 7, (*NO_ARRAY, *OTHER_FLOATS, FLOATS[:2], None),
                  (b"float32[3]", C_FLOATS)),
    "rows": Kind((ROWS, np.ascontiguousarray(ROWS)), 5, (*NO_ARRAY, FLOATS, ROWS.T, np.asfortranarray(ROWS)),
                 (b"float32[2,3]", ROWS.ctypes)),
    "sized": Kind((PAIR,), 5, (*NO_ARRAY, np.ones(3), FLOATS), (b"int,float64[2]", (2, PAIR.ctypes)),
                  (2,)),
    "bytes": Kind((A_BYTE, bytes(A_BYTE), bytearray(A_BYTE), (ctypes.c_ubyte * 1)(97)), 97,
                  (*NO_ARRAY, A_BYTE.view("i1"), np.ones(3, bool)), (b"uint8[3]", b"abc")),
    "signs": Kind((A_BYTE.view("i1"), b"abc", bytearray(b"abc"), (ctypes.c_char * 1)(b"a")), 97,
                  (*NO_ARRAY, A_BYTE, np.ones(3, bool)), (b"int8[3]", b"abc")),
    "flags": Kind((np.ones(2, bool), mblob.array(np.ones(2, bool)), (ctypes.c_bool * 1)(True)), 1,
                  (*NO_ARRAY, A_BYTE, b"abc", A_BYTE.view("i1"))),
    "any": Kind((A_BYTE, b"a", bytearray(b"a"), np.array([b"a"]), np.array([97], ">u1"), c_void_p(A_BYTE.ctypes.data),
                 ctypes.c_char_p(b"a"), (ctypes.c_ubyte * 1)(97), np.array([(97,)], [("x", "u1")])), 97,
                (2.5, [1], "a", object(), np.array([object()]), np.float64(3), np.complex128(3), np.zeros(4)[::2]),
                (b"handle", A_BYTE.ctypes)),
    "complexes": Kind((COMPLEX, mblob.array(COMPLEX)), 2,
                      (*NO_ARRAY, 1j, np.complex128(1j), COMPLEX.astype("c8"), FLOATS)),
    "one": Kind((COMPLEX, 2j, np.complex128(2j), np.complex64(2j), np.array(2j)), 2, ("2j", None, [2j], FLOATS)),
    "record": Kind((POINTS[1], byref(POINTS[1]), pointer(POINTS[1]), RECORDS[1:], RECORDS[1], bytes(POINTS[1]),
                    bytearray(POINTS[1]), cast(pointer(POINTS[1]), POINTER(Point)),
                    c_void_p(ctypes.addressof(POINTS[1]))), 7,
                   (2.5, bytes(4), [POINTS[0]], {}, "abc", ctypes.c_float(1), np.array([object()]))),
    "records": Kind((POINTS, byref(POINTS), pointer(POINTS), RECORDS, bytes(POINTS)), 7,
                    (2.5, None, POINTS[0], bytes(8), RECORDS[:1], "abc", [POINTS[0]] * 2)),
    "lists": Kind(([FLOATS], (READ_ONLY,), [mblob.array(FLOATS)], [C_FLOATS], [memoryview(FLOATS)], [Lent()],
                   [byref(C_FLOATS)], [pointer(ctypes.c_float(5))], [c_void_p(FLOATS.ctypes.data)], ADDRESSES,
                   ADDRESSES.view("i8"), (c_void_p * 1)(FLOATS.ctypes.data), byref(pointer(ctypes.c_float(5)))), 5,
                  (FLOATS, "abc", [3], [2.5], [FLOATS.astype("f8")], [FLOATS[::2]], [pointer(ctypes.c_double(5))],
                   [[FLOATS]], [np.float32(5)], {0: FLOATS})),
    "texts": Kind((["abc"], [b"abc"], (np.frombuffer(b"abc\0", "u1"),), [ctypes.create_string_buffer(b"abc")],
                   [bytearray(b"abc\0")], (ctypes.c_char_p * 1)(b"abc"), [np.str_("abc")]), 3,
                  ("abc", b"abc", [3], ["a\0b"], [FLOATS], np.array(["abc"]))),
    "deep": Kind(([[FLOATS]], ([C_FLOATS],), [ADDRESSES], [(c_void_p * 1)(FLOATS.ctypes.data)]), 5,
                 ([FLOATS], FLOATS, [[READ_ONLY]], [[3]], [3], [[[FLOATS]]])),
    "call": Kind((F, cast(F, c_void_p), cast(F, c_void_p).value, Handle(cast(F, c_void_p).value)), 4,
                 (len, OTHER, [F], byref(F), pointer(F), (type(F) * 1)(F), "x", bytes(8), FLOATS, 2.5), (b"handle", F)),
    "calls": Kind(([F], (F,), (type(F) * 1)(F), [cast(F, c_void_p)]), 4,
                  (F, [len], [OTHER], [3], [pointer(ctypes.c_float())], [FLOATS], [POINTS[0]], FLOATS, "x")),
}  # fmt: skip

# Functions of ctypes take addresses whose size nothing tells, as ctypes does; packed functions do not.
ADDRESS = c_void_p(FLOATS.ctypes.data)
OF_FLOATS = (
    ADDRESS, Handle(ADDRESS.value), None, Parameter(FLOATS), pointer(C_FLOATS),
    cast(pointer(C_FLOATS), POINTER(ctypes.c_float)),
)  # fmt: skip
OF_CTYPES: dict[str, tuple[Any, ...]] = {
    "floats": OF_FLOATS,
    "written": OF_FLOATS,
    "bytes": (ADDRESS, None, ctypes.c_char_p(b"a")),
    "text": (None, b"a\0b", bytearray(b"a\0"), A_BYTE, ctypes.c_char_p(b"a")),
    "any": (ADDRESS.value, Parameter(A_BYTE)),
    "record": (ctypes.addressof(POINTS), Parameter(POINTS)),
    "call": (Parameter(F),),
}
NULL = ("any", "record", "call", "lists", "texts", "deep", "calls")  # each way takes None

Made = dict[str, mblob.Module]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("ways")
    for dialect in ("classic", "ffi"):
        path = folder / f"{dialect}.so"
        mblob.csource_module(SOURCE).export_library(path, dialect=dialect)  # type: ignore[arg-type]
    return {name: mblob.load_module(folder / f"{name}.so") for name in ("classic", "ffi")}


def kept(made: Made, name: str) -> Any:
    """A function that outlives the module that it was found in."""
    module = mblob.load_module(made["classic"]._node.path)
    return module[name]


PACKED: dict[str, Callable[[Made, str], Callable[..., Any]]] = {
    "attribute": lambda made, name: getattr(made["classic"], name),
    "item": lambda made, name: made["classic"][name],
    "ffi": lambda made, name: made["ffi"][name],
    "bind": lambda made, name: lambda *args: made["classic"][name].bind(*args)(),
    "kept": kept,
}
WAYS = {
    **PACKED,
    "ctypes": lambda made, name: made["classic"].ctypes[name],
    "symbol": lambda made, name: made["ffi"].symbol(name),
}
REFUSED = (mblob.MblobError, TypeError, ValueError, OverflowError)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_each_way_takes_the_same_values(made: Made, way: str, kind: str) -> None:
    function, (right, result, wrong, _, before) = WAYS[way](made, kind), KINDS[kind]
    for value in right:
        assert function(*before, value) == result, value
    for value in wrong:
        with pytest.raises(REFUSED) as caught:
            print(value, function(*before, value))
        assert kind in str(caught.value)
        assert "argument" in str(caught.value)
    if kind in NULL:
        assert function(None) == -1


@pytest.mark.parametrize("kind", OF_CTYPES)
@pytest.mark.parametrize("way", WAYS)
def test_addresses_without_a_size_are_for_functions_of_ctypes(
    made: Made, way: str, kind: str
) -> None:
    function = WAYS[way](made, kind)
    for value in OF_CTYPES[kind]:
        if way in PACKED:
            with pytest.raises(REFUSED):
                print(value, function(value))
        else:
            assert function(value) >= -1


@pytest.mark.parametrize("kind", [kind for kind, found in KINDS.items() if found.c])
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_calls_of_c_take_them_by_their_types(made: Made, dialect: str, kind: str) -> None:
    c = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
    c.mblob_last_error.restype = ctypes.c_char_p
    types, argument = KINDS[kind].c or (b"", None)
    module, value = c_void_p(), ctypes.c_double()
    assert not c.mblob_open(made[dialect]._node.path.encode(), None, byref(module))
    arguments = argument if isinstance(argument, tuple) else (argument,)
    passed = [getattr(a, "_as_parameter_", a) for a in arguments]
    status = c.mblob_call(module, kind.encode(), types + b" -> float64", *passed, byref(value))
    assert (status, value.value) == (0, KINDS[kind].result), c.mblob_last_error()
    assert c.mblob_call(module, kind.encode(), b"str,str -> float64", b"a", b"b", byref(value))
    c.mblob_module_release(module)
