"""The fields of numpy's and ctypes' structs, beside those of the C struct that a parameter points at."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.format import functions_table, struct_layouts
from mblob.format.exported_functions import read_table

SOURCE = """
#include <stdbool.h>
typedef struct { float x, y; int id; } point;
enum mode { A, B };
struct base { double at; };
struct all {
  char name[16]; double m[2][3]; point p[2]; union { int i; float f; } u; unsigned a : 3, b : 7; enum mode e;
  void *q; bool ok; _Complex float c; struct base base;
};
float sum(const point *p, int n) { float s = 0; while (n--) s += p[n].x * p[n].y + p[n].id; return s; }
double all(const struct all *a) { return a->m[1][2] + a->p[1].x + a->base.at; }
int last(point **p, int n) { return p[n - 1]->id; }
int both(point by_value, const point *q) { return by_value.id + q->id; }
struct none; int opaque(struct none *p) { return p != 0; }
"""
pytestmark = pytest.mark.own_process  # the ffi dialect has a plug-in
POINT = [("x", "f4"), ("y", "f4"), ("id", "i4")]


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("y", ctypes.c_float), ("id", ctypes.c_int))


class Other(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("id", ctypes.c_int))


@pytest.fixture(scope="module", params=["classic", "ffi"])
def lib(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    path = tmp_path_factory.mktemp("layouts") / "k.so"
    mblob.csource_module(SOURCE).export_library(path, dialect=request.param)
    return mblob.load_module(path)


@pytest.fixture(params=["f", "ctypes", "symbol"])
def way(request: pytest.FixtureRequest, lib: mblob.Module) -> Callable[[str], Any]:
    return {
        "f": lambda name: lib[name],
        "ctypes": lambda name: lib.ctypes[name],
        "symbol": lambda name: lib.symbol(name),
    }[request.param]


def union_like() -> np.ndarray:
    names, offsets = ["x", "y", "id", "bits"], [0, 4, 8, 4]
    dtype = {
        "names": names,
        "formats": ["f4", "f4", "i4", "u4"],
        "offsets": offsets,
        "itemsize": 12,
    }
    made = np.zeros(3, np.dtype(dtype))  # type: ignore[call-overload]
    made["x"] = made["y"] = made["id"] = 1
    return made


def test_structs_with_the_fields_of_c_are_passed(way: Callable[[str], Any]) -> None:
    points = np.ones(3, POINT)
    points["id"] = 2
    for right in (
        points, points.view("V12"), points.view("u1"), points.tobytes(), points[:, None],
        points.view([("xy", "f4", 2), ("n", "i4")]), points.view([("c", "c8"), ("n", "i4")]),
        points.view([("z", [("x", "f4"), ("y", "f4")]), ("n", "i4")]), points.view([("any", "V8"), ("n", "i4")]),
        (Point * 3)(*[Point(1, 1, 2)] * 3),
    ):  # fmt: skip
        assert way("sum")(right, 3) == 9
        assert way("sum")(right, 3) == 9  # as the last one, whose type is known
    for one in Point(1, 1, 2), ctypes.byref(Point(1, 1, 2)), ctypes.pointer(Point(1, 1, 2)):
        assert way("sum")(one, 1) == 3
    larger = np.ones(1, [*POINT, ("more", "f8")])
    assert way("sum")(larger, 1) == 2
    assert way("opaque")(points) == 1


def test_structs_with_other_fields_are_refused_with_both_layouts(way: Callable[[str], Any]) -> None:
    one = np.ones(1, [*POINT, ("more", "f8")])
    assert way("sum")(one, 1) == 2
    for wrong, found in (
        (np.ones(3, [("x", "f8"), ("id", "i4")]), "0 x float64, 8 id int32} of 12"),
        (np.ones(3, [("x", "f4"), ("id", "i4"), ("y", "f4")]), "4 id int32, 8 y float32} of 12"),
        (np.ones(3, [("x", "f4"), ("y", "f4"), ("id", "u4")]), "8 id uint32} of 12"),
        (np.ones(3, [("x", ">f4"), ("y", ">f4"), ("id", "i4")]), "0 x swapped32, 4 y swapped32"),
        (np.ones(3, [*POINT, ("more", "f8")]), "12 more float64} of 20"),
        ((Other * 3)(), "0 x float64, 8 id int32} of 16"),
        (ctypes.byref(Other()), "0 x float64, 8 id int32} of 16"),
        (ctypes.pointer(Other()), "0 x float64, 8 id int32} of 16"),
    ):
        with pytest.raises(TypeError) as caught:
            way("sum")(wrong, 1)
        text = str(caught.value)
        expected = (
            "const point *p with fields {0 x float32, 4 y float32, 8 id int32} of 12 bytes, found {"
        )
        assert text.startswith(f"sum: argument 0 (p): expected {expected}") and found in text


def test_fields_that_overlap_are_a_union(way: Callable[[str], Any]) -> None:
    points = union_like()
    assert way("sum")(points, 3) == 6
    assert way("sum")(points[1], 1) == 2
    assert way("last")([points], 1) == 1
    with pytest.raises(ValueError, match="contiguous"):
        way("sum")(points[::2], 1)


def test_all_kinds_of_fields(way: Callable[[str], Any], lib: mblob.Module) -> None:
    fields = [
        ("name", "S16"), ("m", "f8", (2, 3)), ("p", POINT, 2), ("u", "i4"), ("bits", "u4"), ("e", "i4"), ("q", "u8"),
        ("ok", "?"), ("c", "c8"), ("base", "f8"),
    ]  # fmt: skip
    made = np.zeros(1, np.dtype(fields, align=True))
    made["m"][0, 1, 2], made["p"]["x"][0, 1], made["base"] = 1, 2, 4
    assert way("all")(made) == 7
    wrong = np.zeros(1, np.dtype([*fields[:6], ("q", "f8"), *fields[7:]], align=True))
    with pytest.raises(TypeError, match=r"104 q pointer64.*104 q float64"):
        way("all")(wrong)


def test_layouts_are_notes_that_old_readers_skip(lib: mblob.Module) -> None:
    path = Path(lib._node.path)
    rows = {row.symbol: row for row in read_table(ElfFile(path.read_bytes(), str(path)))}
    layout = "0 x float32, 4 y float32, 8 id int32"
    assert dict(rows["sum"].structs)["point"] == dict(rows["both"].structs)["point"] == layout
    assert rows["opaque"].structs == ()
    table = functions_table.encode(list(rows.values()))
    assert {row.symbol: row for row in functions_table.decode(table)} == rows
    notes = table.partition(b"\0")[2].decode().split("\n")
    assert f"point\t{layout}" in notes


def test_two_structs_of_a_name_have_no_layout() -> None:
    rows = [
        functions_table.Row(
            name, name, "plain", 0, "s *:4", f"void {name}(s *x)", structs=(("s", text),)
        )
        for name, text in (("f", "0 x float32"), ("g", "0 x int32"))
    ]
    assert [row.structs for row in functions_table.decode(functions_table.encode(rows))] == [(), ()]


def test_damaged_layouts_check_nothing() -> None:
    for text in "", "x", "0 x", "0 x float32[", "-1 x int8", "99999999999 x int8":
        assert struct_layouts.read(text) == []
    assert (
        struct_layouts.difference("0 x float32[2]x", 8, np.dtype([("x", "i4"), ("y", "i4")]), True)
        == ""
    )
