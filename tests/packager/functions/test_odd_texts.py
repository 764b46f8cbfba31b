"""Odd texts of sources are read in one pass: ten times the text takes about ten times as long."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

import mblob
from mblob.packager.compile import call_attributes, first_look
from mblob.packager.modules import prototype_parser, source_words
from mblob.packager.modules.nodes import DeclaredFunctions

READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "typedefs": (first_look.has_arrays, "typedef "),
    "typedefs with brackets": (first_look.has_arrays, "typedef ] "),
    "braces": (first_look.has_arrays, "{ namespace "),
    "macros": (first_look.has_arrays, "#define A [\n#define B A\nint {"),
    "functions without bodies": (first_look.has_arrays, "(x[n]);"),
    "typedefs of nothing": (call_attributes.array_types, "typedef int ]; "),
    "enums in enums": (call_attributes.enums, "enum a { "),
    "references": (source_words.as_in_c, "& "),
    "references in bounds": (source_words.as_in_c, "[ & "),
}


@pytest.mark.parametrize("name", list(READERS))
def test_no_reader_takes_the_square_of_a_text(name: str) -> None:
    read, piece = READERS[name]

    def cost(count: int) -> float:
        start = process_time()
        read(piece * count)
        return process_time() - start

    assert cost(20_000) < 40 * (min(cost(2_000) for _ in range(3)) + 0.01)


def test_a_text_with_typedefs_of_arrays() -> None:
    said = first_look.has_arrays
    assert said("typedef float row[4];\nvoid f(const row *x) {}")
    assert said("struct s { int a; }; typedef\nfloat row [ 4 ] ;")
    assert not said("typedef float real; int a[4];")
    assert not said("typedef struct { float a[4]; } s;")


WITH_ARRAYS = {
    "braces of a body": "#define B {\n#define E }\nvoid f(int n, float x[n]) B x[n - 1] = 1; E",
    "a body": "#define B { x[n - 1] = 1; }\nvoid f(int n, float x[n]) B",
    "a parameter": "#define V(x, n) float x[n]\nvoid f(int n, V(x, n)) { x[n - 1] = 1; }",
    "a macro in a macro": (
        "#define V(x, n) float x[n]\n#define W V(x, n)\nvoid f(int n, W) { x[n - 1] = 1; }"
    ),
    "parameters": "#define P (int n, \\\n float x[n])\nvoid f P { x[n - 1] = 1; }",
    "brackets": "#define L [\n#define R ]\nvoid f(int n, float x L n R) { *x = 1; }",
    "a function": "#define D(f) void f(int n, float x[n]) { x[n - 1] = 1; }\nD(f)",
    "a body of another one": "#define B {\nint z(void) B return 1; }\nvoid f(int n, float x[n]) { *x = 1; }",
    "an end of another one": "#define E }\nint z(void) { return 1; E\nvoid f(int n, float x[n]) { *x = 1; }",
}
WITHOUT = [
    "#define AT(i, j) a[(i) * n + (j)]\nvoid f(float *a, int n) { g(AT(1, 2)); a[0] = h(a[1]); }",
    "int t[4];\n#define SWAP(a, b) do { int t = a; a = b; } while (0)\nvoid f(float *x) { SWAP(x[0], x[1]); }",
    "void f(float *x) { if (x[0]) { g(x[1]); } }\nint g(int a) { return a; }",
]


def test_functions_with_arrays_are_seen_in_macros(tmp_path: Any) -> None:
    for source in WITHOUT:
        assert not first_look.has_arrays(source), source
    for name, source in WITH_ARRAYS.items():
        assert first_look.has_arrays(source), name
        mblob.csource_module(source + "\n", "c").export_library(tmp_path / "k.so")
        lib = mblob.load_module(tmp_path / "k.so")
        assert str(lib.functions["f"]) == "void f(int n, float x[n])", name


def test_references_become_pointers_except_in_bounds() -> None:
    code = "int f(const int &a, T &&b, float x[n & 3][m && 2], ns::real (&y)[2])"
    found = source_words.as_in_c(code)
    assert found == "int f(const int *a, T *b, float x[n & 3][m && 2], real (*y)[2])"


def test_each_prototype_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = prototype_parser.parse

    def counted(declarations: Any) -> Any:
        parsed.extend(declarations)
        return parse(declarations)

    monkeypatch.setattr(source_words, "parse", counted)
    found, others = source_words.each_readable(["int f(int x); void g(real *x)", "int h(int y)"])
    assert parsed == ["int f(int x)", " void g(real *x)", "int h(int y)"]
    assert ([p.name for p in found], list(others)) == (["f", "h"], ["g"])


def test_prototypes_that_differ_are_told_beside_one_with_words_of_a_source() -> None:
    texts = ["void g(real *x)", "int f(int x)", "int f(long x)"]
    declared = DeclaredFunctions(texts, None, "csource_module")
    declared.has_code = True
    with pytest.raises(mblob.BuildError, match="f is declared twice, and differently"):
        _ = declared.functions
