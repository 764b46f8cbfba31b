"""Pointers to structs and to pointers: how many bytes a value must have, by every way to call."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from ctypes import byref, c_float, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.format import functions_table

pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in

SOURCE = """
#include <stddef.h>
#include <string.h>
typedef struct point { float x, y; } point;
typedef point pair[2];
typedef float vec4[4];
struct line { point a, b; int n; };
enum mode { ADD, MUL = 4, LEAST = -1 };
typedef enum mode mode_t;
union number { int i; double d; };
struct __attribute__((aligned(32))) wide { float v[8]; };
struct of_wide { struct wide w[2]; int n; };
/* Adds a number. */
void move(point *p, float dx) { if (p) p->x += dx; }
float one(const struct line *l) { return l ? l->b.y : -1; }
double number(const union number *u) { return u->d; }
float three(const struct point p[3]) { return p[0].x + p[2].y; }
float some(int n, const point p[n + 1]) { return n < 0 ? 0 : p[n].x; }
float none(int n, const point p[n]) { return n ? p[n - 1].x : -1; }
float open(const point p[], int n) { return p[n - 1].x; }
float grid(int m, const point p[m][3]) { return p[m - 1][2].y; }
float pairs(pair *p) { return (*p)[1].y; }
float typed(const pair p[2]) { return p[1][1].y; }
float first(const vec4 *v, const pair *p) { return v[0][0] + (*p)[0].x; }
int bytes(const unsigned char *b, int n) { return b[n - 1]; }
float rows(const float *const r[2]) { return r[0][0] + r[1][0]; }
float rest(float *const *r, int n) { r[n - 1][0] = 9; return r[0][0]; }
float wide(struct wide *w) { w->v[0] += 1; return w->v[7]; }
int of_wide(const struct of_wide *w) { return w->n; }
float each(const point *p, float (*f)(const point *, float), float y) { return f(p, y); }
mode_t next(mode_t m, const enum mode *others) { return others[m == ADD]; }
int lengths(int n, const char *const words[n]) { int s = 0; while (n--) s += (int)strlen(words[n]); return s; }
void erase(char **words) { words[0][0] = 0; }
float sum(int n, const point *const ps[n]) { float s = 0; while (n--) s += ps[n]->y; return s; }
void create(point **out, int at) { static point made[3] = {{1, 2}, {3, 4}, {5, 6}}; *out = made + at; }
int *counter(void) { static int n = 3; return &n; }
point *origin(void) { static point p = {1, 2}; return &p; }
const double *table(void) { static const double t[2] = {1.5, 2}; return t; }
"""
PROTOTYPES = {
    "some": "float some(int n, const point p[n + 1])",
    "grid": "float grid(int m, const point p[m][3])",
    "pairs": "float pairs(point p[][2])",
    "typed": "float typed(const point p[2][2])",
    "first": "float first(const float v[][4], const point p[][2])",
    "rows": "float rows(const float * const r[2])",
    "counter": "int *counter(void)",
    "origin": "point *origin(void)",
    "table": "const double *table(void)",
}


class Point(ctypes.Structure):
    _fields_ = (("x", c_float), ("y", c_float))


class Line(ctypes.Structure):
    _fields_ = (("a", Point), ("b", Point), ("n", ctypes.c_int))


class Half(ctypes.Structure):
    _fields_ = (("x", c_float),)


class Number(ctypes.Union):
    _fields_ = (("i", ctypes.c_int), ("d", ctypes.c_double))


class Wide(ctypes.Structure):
    _fields_ = (("v", c_float * 8),)


Made = dict[str, mblob.Module]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Libraries of both dialects, and one of an explicit prototype each."""
    folder = tmp_path_factory.mktemp("structs")
    (folder / "k.c").write_text(SOURCE)
    written = [
        "void move(point *p, float dx)", "float one(const struct line *l)", "double number(const union number *u)",
        "float three(const struct point p[3])", "float some(int n, const point p[n + 1])",
        "float none(int n, const point p[n])", "float open(const point p[], int n)",
        "float grid(int m, const point p[m][3])", "float pairs(pair *p)", "float typed(const pair p[2])",
        "float first(const vec4 *v, const pair *p)", "int bytes(const uint8_t *b, int n)",
        "float rows(const float *const r[2])", "float rest(float *const *r, int n)",
        "float wide(struct wide *w)", "int of_wide(const struct of_wide *w)", "int *counter(void)",
        "point *origin(void)", "const double *table(void)", "each", "lengths", "erase", "create", "sum",
    ]  # fmt: skip
    libraries: Made = {}
    for name, functions in ("classic", None), ("ffi", None), ("written", written):
        module = mblob.csource_module(folder / "k.c", functions=functions)
        module.export_library(folder / f"{name}.so", dialect="ffi" if name == "ffi" else "classic")
        libraries[name] = mblob.load_module(folder / f"{name}.so")
    return libraries


WAYS: dict[str, Callable[[Made], Callable[[str], Callable[..., Any]]]] = {
    "call": lambda made: lambda name: made["classic"][name],
    "ffi": lambda made: lambda name: made["ffi"][name],
    "written": lambda made: lambda name: made["written"][name],
    "bind": lambda made: lambda name: lambda *args: made["classic"][name].bind(*args)(),
    "ctypes": lambda made: lambda name: getattr(made["classic"].ctypes, name),
    "symbol": lambda made: lambda name: made["written"].symbol(name),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, made: Made) -> Callable[[str], Callable[..., Any]]:
    """A way to find a function."""
    return WAYS[request.param](made)


def points(count: int) -> Any:
    return (Point * count)(*[Point(i, 10 * i) for i in range(count)])


def records(*shape: int) -> np.ndarray:
    found = np.zeros(shape, [("x", "f4"), ("y", "f4")])
    found["y"] = 5
    return found


ROW = np.full(2, 3, "float32")
LINE = Line(b=Point(y=4))
RIGHT: list[tuple[str, tuple[Any, ...], Any]] = [
    ("one", (LINE,), 4), ("one", (byref(LINE),), 4), ("one", (ctypes.pointer(LINE),), 4),
    ("one", (bytes(LINE),), 4), ("one", (bytearray(bytes(LINE)),), 4), ("one", ((Line * 2)(LINE),), 4),
    ("one", (None,), -1), ("one", (ctypes.POINTER(Line)(),), -1), ("one", (c_void_p(),), -1),
    ("one", (c_void_p(ctypes.addressof(LINE)),), 4),
    ("number", (Number(d=2.5),), 2.5), ("number", (np.array([2.5]),), 2.5),
    ("three", (points(3),), 20), ("three", (records(4),), 5), ("three", (records(2, 2),), 5),
    ("three", (byref(points(3)),), 20), ("three", (ctypes.pointer(points(3)),), 20),
    ("three", (ctypes.cast(points(3), ctypes.POINTER(Point)),), 20), ("three", (bytes(24),), 0),
    ("some", (2, points(3)), 2), ("some", (-1, None), 0), ("none", (3, points(3)), 2), ("none", (0, None), -1),
    ("none", (0, np.empty(0, "uint8")), -1), ("none", (0, ctypes.POINTER(Point)()), -1),
    ("open", (points(3), 3), 2), ("grid", (2, records(2, 3)), 5), ("grid", (1, points(3)), 20),
    ("pairs", (points(2),), 10), ("typed", (points(4),), 30), ("rows", ([ROW, ROW],), 6),
    ("rows", ((c_void_p * 2)(ROW.ctypes.data, ROW.ctypes.data),), 6),
    ("rows", (np.array([ROW.ctypes.data] * 2, "uintp"),), 6), ("rest", ([np.zeros(1, "float32")], 1), 9),
]  # fmt: skip


def test_values_of_at_least_the_size_are_passed(way: Callable[[str], Callable[..., Any]]) -> None:
    for name, args, expected in RIGHT:
        assert way(name)(*args) == expected, (name, args)
    point, record = Point(1, 2), records(1)
    for value in (point, byref(point), ctypes.pointer(point), record):
        way("move")(value, 2.0)
    way("move")(None, 1.0)
    assert (point.x, record["x"][0]) == (7, 2)


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    *(("one", (value,), r"20 bytes for const struct line \*l, found 8")
      for value in (Point(), byref(Point()), ctypes.pointer(Point()), points(1), bytes(8), bytearray(8), records(1))),
    ("one", (ctypes.pointer(points(2)),), "found 16"),
    ("number", (bytes(4),), "8 bytes for const union number"),
    ("move", (Half(), 1.0), r"expected at least 8 bytes for point \*p, found 4"),
    ("three", (points(2),), r"24 bytes for const struct point p\[3\], found 16"),
    ("three", (None,), "found None"), ("three", (byref(Point()),), "found 8"),
    ("three", (ctypes.POINTER(Point)(),), "found NULL"), ("three", (c_void_p(),), "found NULL"),
    ("three", (ctypes.pointer(points(2)),), "found 16"), ("three", (np.empty(0, "f4"),), "found 0"),
    ("some", (2, points(2)), r"expected at least 24 bytes for const point p\[n \+ 1\], found 16"),
    ("some", (0, None), "8 bytes .* found None"), ("none", (1, None), "8 bytes .* found None"),
    ("grid", (2, points(5)), r"48 bytes for const point p\[m\]\[3\], found 40"),
    ("pairs", (Point(),), r"16 bytes for point p\[\]\[2\], found 8"),
    ("typed", (points(3),), "32 bytes .* found 24"),
    ("rows", ([ROW],), r"at least 2 arrays for const float \*.*r\[2\], found 1"), ("rows", (None,), "found None"),
    ("rows", ([ROW, ROW.astype("f8")],), "item 1: expected an array of float32, found an array of float64|item 1"),
]  # fmt: skip


def test_values_of_fewer_bytes_are_refused(way: Callable[[str], Callable[..., Any]]) -> None:
    for name, args, text in WRONG:
        with pytest.raises((ValueError, TypeError), match=text) as caught:
            way(name)(*args)
        assert isinstance(caught.value, mblob.MblobError), (name, args)
        assert "\n" not in str(caught.value) or "when calling" in str(caught.value)


def test_lists_have_texts_and_structs(way: Callable[[str], Callable[..., Any]]) -> None:
    texts = ["ab", b"cde", np.frombuffer(b"f\0", "uint8"), ctypes.c_char_p(b"gh")]
    assert way("lengths")(4, texts) == 8
    with pytest.raises(
        TypeError, match=r"item 1: expected a text \(str, bytes\) or an array of char, found int"
    ):
        way("lengths")(2, ["a", 1])
    with pytest.raises(ValueError, match="item 0: the str has a NUL inside"):
        way("lengths")(1, ["a\0b"])
    assert way("sum")(3, [Point(1, 2), ctypes.pointer(Point(0, 3)), points(2)]) == 5
    with pytest.raises(ValueError, match="item 0: its memory is read-only"):
        way("erase")([b"ab"])
    buffer = ctypes.create_string_buffer(b"ab")
    way("erase")([ctypes.cast(buffer, ctypes.c_char_p)])
    assert buffer.raw == b"\0b\0"


def test_pointers_are_results_through_their_places(
    way: Callable[[str], Callable[..., Any]],
) -> None:
    place = ctypes.POINTER(Point)()
    for of_place in (byref(place), ctypes.pointer(place)):
        place.contents = Point()
        way("create")(of_place, 2)
        assert (place[0].x, place[0].y) == (5, 6)
    address = c_void_p()
    way("create")(byref(address), 1)
    assert way("sum")(1, [address]) == 4
    array = np.zeros(1, "uintp")
    way("create")(array, 0)
    assert Point.from_address(int(array[0])).y == 2


def test_rows_that_are_written_are_not_read_only(way: Callable[[str], Callable[..., Any]]) -> None:
    row = np.zeros(2, "float32")
    row.flags.writeable = False
    assert way("rows")([row, row]) == 0
    with pytest.raises(mblob.MblobError, match=r"item 0: its memory is read-only"):
        way("rest")([row], 1)


def test_structs_of_a_larger_alignment(made: Made) -> None:
    memory = np.zeros(256, "uint8")
    start = -memory.ctypes.data % 64
    aligned, other = (memory[start + at : start + at + 32] for at in (0, 36))
    aligned.view("f4")[7] = other.view("f4")[7] = 2
    for name in ("classic", "ffi", "written"):
        before = other.view("f4")[0]
        assert [made[name].wide(x) for x in (aligned, other)] == [2, 2]  # one is copied, and back
        assert other.view("f4")[0] == before + 1
        value = Wide.from_buffer(other)
        assert made[name].wide.bind(value)() == 2
        with pytest.raises(mblob.MblobError, match="aligned to 32 bytes, found address 0x"):
            made[name].wide(c_void_p(other.ctypes.data))
        for function in (made[name].ctypes.wide, made[name].symbol("wide")):
            assert function(aligned) == 2
            with pytest.raises(mblob.MblobError, match="aligned to 32 bytes, found address 0x"):
                function(other)
            with pytest.raises(mblob.MblobError, match="aligned to 32 bytes"):
                made[name].ctypes.of_wide(memory[start + 36 : start + 132])


def test_c_calls_check_the_bytes_of_tensors(made: Made) -> None:
    c = ctypes.CDLL(str(Path(mblob.get_library_dir()) / "libmblob.so.0"))
    c.mblob_last_error.restype = ctypes.c_char_p
    for name in ("classic", "ffi"):
        module = c_void_p()
        assert not c.mblob_open(str(made[name]._node.path).encode(), None, byref(module))
        three, value = points(3), c_float()
        for types in (b"uint8[24]", b"float32[3,2]", b"handle"):
            types += b" -> float32"
            assert not c.mblob_call(module, b"three", types, three, byref(value))
            assert value.value == 20
        for types, argument, found in (b"uint8[16]", three, b"16"), (b"handle", None, b"NULL"):
            assert c.mblob_call(module, b"three", types, argument)
            assert b"expected at least 24 bytes for const struct point p[3], found " + found in (
                c.mblob_last_error()
            )
        twice = ctypes.CFUNCTYPE(c_float, ctypes.POINTER(Point), c_float)(lambda p, y: p[1].y + y)
        types = b"uint8[24],handle,float32 -> float32"
        arguments = three, twice, ctypes.c_double(2.5), byref(value)
        assert not c.mblob_call(module, b"each", types, *arguments), c.mblob_last_error()
        assert value.value == 12.5
        prepared = c_void_p()
        types = b"int,float32[*,2] -> float32"
        assert not c.mblob_prepare(module, b"none", types, byref(prepared))
        extent = ctypes.c_int64
        assert not c.mblob_call_prepared(prepared, 3, extent(3), three, byref(value))
        assert c.mblob_call_prepared(prepared, 3, extent(2), three, byref(value))
        assert b"expected at least 24 bytes for const point p[n], found 16" in c.mblob_last_error()
        c.mblob_prepared_release(prepared)
        c.mblob_module_release(module)


def test_bytes_are_arrays_of_bytes_without_a_sign(way: Callable[[str], Any]) -> None:
    assert [way("bytes")(x, 3) for x in (b"abc", bytearray(b"abc"), memoryview(b"abc"))] == [99] * 3


def test_typedefs_of_arrays_are_read_only_as_the_source_says(way: Callable[[str], Any]) -> None:
    v, p = np.full((1, 4), 2, "float32"), points(2)
    v.flags.writeable = False
    assert way("first")(v, bytes(p)) == 2 + p[0].x


def test_prototypes_have_sizes_and_results(made: Made) -> None:
    for name in ("classic", "ffi", "written"):
        lib = made[name]
        assert {f: str(lib.functions[f]) for f in PROTOTYPES} == PROTOTYPES
        counter = lib.ctypes.counter()
        assert isinstance(counter, ctypes.POINTER(ctypes.c_int)) and counter[0] == 3
        assert lib.symbol("table")()[:2] == [1.5, 2]
        assert ctypes.cast(lib.origin(), ctypes.POINTER(Point))[0].y == 2
        assert lib.ctypes.origin() == lib.origin().value


def test_help_has_the_members_of_structs_and_says_for_what_none_is_null(made: Made) -> None:
    lib = made["classic"]
    assert lib.move.__doc__ == (
        "void move(point *p, float dx)\n\nAdds a number."
        "\n\np: point of 8 bytes: float32 x at 0, float32 y at 4\n\nNone is the null pointer for p."
    )
    assert "null" not in lib.three.__doc__ and "None is the null" in lib.open.__doc__


def test_help_names_the_values_of_enums(made: Made) -> None:
    values = "ADD 0, MUL 4, LEAST -1"
    for name in ("classic", "ffi"):
        assert made[name].next.__doc__ == (
            "int32_t next(int32_t m, const int32_t *others)\n\n"
            f"m: {values}\nothers: {values}\nresult: {values}"
        )
        assert made[name].next(0, np.array([-1, 4], "int32")) == 4
        assert made[name].ctypes.next(4, np.array([-1, 4], "int32")) == -1


def test_callables_are_no_functions_of_c(way: Callable[[str], Callable[..., Any]]) -> None:
    with pytest.raises(TypeError, match=r"a function of ctypes\.CFUNCTYPE.*found function"):
        way("each")(points(1), lambda p, y: y, 1.0)


def test_functions_of_other_types_are_refused(way: Callable[[str], Callable[..., Any]]) -> None:
    each = way("each")
    other = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.POINTER(Point), ctypes.c_double)(
        lambda p, y: y
    )
    expected = (
        r"expected float \(\*f?\)\(const (struct )?point \*, float\), found CFUNCTYPE\(c_double, "
    )
    with pytest.raises(TypeError, match=expected):
        each(points(1), other, 1.0)
    right = ctypes.CFUNCTYPE(c_float, c_void_p, c_float)(lambda p, y: y)
    for f in (right, ctypes.cast(right, c_void_p)):
        assert each(points(1), f, 1.5) == 1.5


WORDS = {
    "struct s *:12": (12, 1), "struct s *:0064:032 ": (64, 32), "struct s *": (0, 1), "void *:columns": (0, 1),
    f"s *:{1 << 30}": (1 << 30, 1), f"s *:{(1 << 30) + 1}": (0, 1), "s *:64abc": (0, 1), "s *:64:3": (0, 1),
    "s *:64:": (0, 1), "s *:64:8192": (0, 1), "s *:0": (0, 1), "s *:": (0, 1), f"s *:{'9' * 30}": (0, 1),
    "s *: 64": (0, 1), "s *:32:32:32": (0, 1), "s *:32:32": (32, 32),
}  # fmt: skip


def test_words_behind_a_pointer_that_say_nothing_are_ignored_as_a_whole(tmp_path: Path) -> None:
    rows = "".join(f"\\nf{i}\\tf\\tpacked\\t0\\t{text}" for i, text in enumerate(WORDS))
    source = f"""
    #include <dlpack/dlpack.h>
    #include <tvm/runtime/c_runtime_api.h>
    const char __mblob_functions[] = "mblob functions 1{rows}";
    int f(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {{
      const DLTensor *t = args[0].v_handle;
      *ret_code = kTVMArgInt;
      ret->v_int64 = codes[0] == kTVMDLTensorHandle ? (long)t->data % 32 : -1;
      return 0;
    }}"""
    (tmp_path / "k.c").write_text(source)
    include = f"-I{mblob.get_include()}/mblob/compat"
    subprocess.run(
        ["cc", "-shared", "-fPIC", include, "k.c", "-o", "k.so"], cwd=tmp_path, check=True
    )
    lib = mblob.load_module(tmp_path / "k.so")
    memory = np.zeros(128, "uint8")
    start = -memory.ctypes.data % 32
    for i, (text, expected) in enumerate(WORDS.items()):
        assert functions_table.memory_of(text) == expected, text
        is_aligned = lib[f"f{i}"](memory[start + 4 : start + 68]) == 0  # a copy is
        is_whole = lib[f"f{i}"](ctypes.pointer(Half())) == -1  # an address is passed
        assert (is_aligned, is_whole) == (expected[1] == 32, expected[0] <= 4), text


def test_objects_tell_sizes_of_structs_but_no_bounds(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-O2", "-fPIC", "-c", "k.c"], cwd=tmp_path, check=True)
    written = ["float three(const struct point p[3])", "one", "typed"]
    mblob.static_library(tmp_path / "k.o", functions=written).export_library(tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    for function, value in (lib.one, bytes(19)), (lib.three, points(2)), (lib.typed, Point()):
        with pytest.raises(ValueError, match="expected at least"):
            function(value)
    mblob.static_library(tmp_path / "k.o", functions=[]).export_library(tmp_path / "y.so")
    with pytest.raises(ValueError, match="expected at least 20 bytes"):
        mblob.load_module(tmp_path / "y.so").ctypes.one(bytes(19))


ROWS = "void rows(float **r, int n, int m) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) r[i][j] = i + j; }"


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
def test_a_pointer_to_pointers_takes_addresses_and_no_other_elements(
    tmp_path: Path, dialect: Any
) -> None:
    mblob.csource_module(ROWS).export_library(tmp_path / "r.so", dialect=dialect)
    lib = mblob.load_module(tmp_path / "r.so")
    x = np.zeros((2, 3), "float32")
    rows = (ctypes.POINTER(ctypes.c_float) * 2)(
        *(r.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for r in x)
    )
    for f in (lib.rows, lib.ctypes.rows, lib.symbol("rows")):
        for given in (rows, np.array([r.ctypes.data for r in x], "uint64")):
            x[:] = 0
            f(given, 2, 3)
            assert x.tolist() == [[0, 1, 2], [1, 2, 3]]
        for wrong in (
            x,
            x.astype("float64"),
            np.zeros((2, 24), "uint8"),
            np.zeros(9, "int32"),
            np.zeros(4, "complex64"),
        ):
            with pytest.raises(
                (mblob.MblobError, TypeError),
                match=r"list of arrays for float .*r, or an array of their addresses",
            ):
                f(wrong, 0, 3)


def test_elements_that_are_no_addresses_are_never_taken_as_some(
    way: Callable[[str], Callable[..., Any]],
) -> None:
    """Their kind decides: texts, structs and objects may have the size of an address, too."""
    objects = np.array(["ab", "c"], dtype=object)
    both = [("x", "f4"), ("y", "f4")]
    for wrong in (
        np.array(["ab", "c"]), np.array([b"12345678"]), np.zeros(2, "V8"), objects, np.zeros(2, both),
        np.zeros(2, [("a", "O")]), "ab", b"ab", bytearray(8), (Point * 2)(), ctypes.c_char_p(b"ab"),
        ctypes.pointer(c_float()), byref(c_float()), ctypes.pointer((c_float * 2)()),
    ):  # fmt: skip
        with pytest.raises(
            (mblob.MblobError, TypeError),
            match=r"expected a list of texts for const char \* ?const",
        ):
            way("lengths")(0, wrong)
    given = (
        ctypes.c_char_p * 2,
        ctypes.POINTER(ctypes.c_char) * 2,
        c_void_p * 2,
        ctypes.c_uint64 * 2,
    )
    kept = [ctypes.create_string_buffer(text) for text in (b"abc", b"d")]
    for made in given:
        words = (c_void_p * 2)(*map(ctypes.addressof, kept))
        array = made.from_buffer(words)
        for right in (array, byref(array), ctypes.pointer(array)):
            assert way("lengths")(2, right) == 4
    with pytest.raises((mblob.MblobError, TypeError), match=r"expected a list of arrays for"):
        way("sum")(2, np.zeros(2, "U2"))


def test_arrays_of_objects_are_no_memory(way: Callable[[str], Callable[..., Any]]) -> None:
    for wrong in np.zeros(2, [("x", "f4"), ("a", "O")]), np.zeros(4, "O"):
        with pytest.raises((mblob.MblobError, TypeError), match=r"objects of Python|object;"):
            way("move")(wrong, 1)
        with pytest.raises((mblob.MblobError, TypeError), match=r"item 1: .*objects of Python"):
            way("sum")(2, [points(1), wrong])


def test_byref_of_a_pointer_gets_an_address(tmp_path: Path) -> None:
    source = """void text(const char **s) { *s = "out"; }
    void any(void **s) { *s = "out"; }
    void words(const char *s[], int n) { while (n--) s[n] = "out"; }"""
    mblob.csource_module(source).export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for name in "text", "any":
        for f in lib[name], lib.ctypes[name], lib.symbol(name):
            for made in ctypes.c_char_p(), c_void_p(), ctypes.POINTER(ctypes.c_char)():
                f(byref(made))
                assert ctypes.string_at(ctypes.cast(made, c_void_p).value or 0) == b"out"
    words = (ctypes.c_char_p * 2)()
    lib.words(words, 2)
    assert list(words) == [b"out", b"out"]


def test_errors_name_what_the_parameter_takes(way: Callable[[str], Callable[..., Any]]) -> None:
    for wrong in (3, 4), [3.0]:
        with pytest.raises(
            TypeError,
            match=r"(at least|struct of) 20 bytes.*ctypes\.byref.*structured array|handle, found Array",
        ):
            way("one")(wrong)
    with pytest.raises(
        TypeError, match=r"CFUNCTYPE\(c_float, c_void_p, c_float\)|function of ctypes"
    ):
        way("each")(points(1), lambda p, y: y, 1.0)


def test_a_bytearray_is_memory_for_characters(tmp_path: Path) -> None:
    source = """void up(int n, char s[n]) { s[n - 1] = 'X'; }
    double apply(double (*f)(double), double x) { return f(x); }"""
    mblob.csource_module(source).export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for f in lib.up, lib.ctypes.up, lib.symbol("up"):
        text = bytearray(b"abc")
        f(3, text)
        assert text == b"abX"
        with pytest.raises(ValueError, match="read-only"):
            f(3, b"abc")
    for f in lib.apply, lib.ctypes.apply:
        with pytest.raises(TypeError, match=r"pass CFUNCTYPE\(c_double, c_double\)\(f\)"):
            f(lambda x: x, 1.0)


def test_texts_that_are_written(tmp_path: Path) -> None:
    source = "void up(char **s, int n) { while (n--) for (char *c = s[n]; *c; ++c) *c -= 32; }"
    mblob.csource_module(source).export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    for f in lib.up, lib.ctypes.up, lib.symbol("up"):
        grows, fixed = bytearray(b"abc"), ctypes.create_string_buffer(b"xyz")
        f([grows, fixed, bytearray()], 3)
        assert (grows, fixed.value) == (b"ABC", b"XYZ")
        for text in "abc", b"abc":
            with pytest.raises(
                mblob.MblobError, match=r"item 1: (its memory is read-only|.*pass bytearray\()"
            ):
                f([bytearray(b"a"), text], 2)
        grows += b"d"  # nothing holds it any more
