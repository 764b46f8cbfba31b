"""`help` shows the comment above a function of the source, and `inspect` where a prototype comes from."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest

import mblob
from mblob.packager.modules import source_comments
from mblob.packager.modules.source_comments import Comments
from tests.packager.functions.test_tvm_executor import pack_verb

pytestmark = pytest.mark.own_process

SOURCE = r"""// Copyright of somebody
int first(int x) { return x; }

/** Adds two numbers.
 *
 * @param a the "first", with a \ in it
 */
__attribute__((noinline))
int add(int a, int b) { return a + b; } // behind it

/* of nothing */

int apart(int a) { if (a) { return a; } return 0; }
// Zwei Zeilen: größer,
// with	a tab and a \n
#pragma GCC optimize("O2")
float
mul(float x,
    int n)
{ return x * (float)n; }
const char *text(void) { return "/* no comment */ int quoted(int x) {"; }
int after(void) { return '"'; } /* of after */
/* calls */ int beside(void) { return add(1, 2); }
"""
SHOWN = {
    "first": "", "add": 'Adds two numbers.\n\n@param a the "first", with a \\ in it', "apart": "",
    "mul": "Zwei Zeilen: größer,\nwith a tab and a \\n", "text": "", "after": "", "beside": "",
}  # fmt: skip


@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("functions", [None, "add", "int add(int a, int b)"])
def test_help_shows_the_comment_behind_the_prototype(
    tmp_path: Path, dialect: Any, functions: Any
) -> None:
    module = mblob.csource_module(SOURCE, functions=functions)
    module.export_library(tmp_path / "k.so", dialect=dialect)
    lib = mblob.load_module(tmp_path / "k.so")
    assert set(lib.functions) == (set(SHOWN) if functions is None else {"add"})
    for name, signature in lib.functions.items():
        expected = f"{signature}\n\n{SHOWN[name]}" if SHOWN[name] else str(signature)
        assert lib[name].__doc__ == expected


def test_comments_survive_an_added_function_and_an_export(tmp_path: Path) -> None:
    (tmp_path / "more.c").write_text("// Halves.\nint half(int x) { return x / 2; }\n")
    mblob.csource_module(SOURCE).export_library(tmp_path / "k.so")
    mblob.add(tmp_path / "k.so", kernels=tmp_path / "more.c", output=tmp_path / "more.so")
    mblob.load_module(tmp_path / "more.so").export_library(tmp_path / "again.so", dialect="ffi")
    for name in ("more.so", "again.so"):
        lib = mblob.load_module(tmp_path / name)
        assert lib["half"].__doc__ == "int half(int x)\n\nHalves."
        assert lib["add"].__doc__.startswith("int add(int a, int b)\n\nAdds two numbers.")
    mblob.csource_module(SOURCE).export_library(tmp_path / "k.tar")
    mblob.static_library(tmp_path / "k.tar").export_library(tmp_path / "linked.so")
    assert "Adds two" in mblob.load_module(tmp_path / "linked.so")["add"].__doc__


def test_a_library_without_a_file_of_its_own_shows_prototypes(tmp_path: Path) -> None:
    mblob.csource_module(SOURCE).export_library(tmp_path / "k.so")
    data = (tmp_path / "k.so").read_bytes()
    assert mblob.load_module(data)["add"].__doc__ == "int add(int a, int b)"
    lib = mblob.load_module(tmp_path / "k.so")
    (tmp_path / "k.so").unlink()
    assert lib["add"].__doc__.startswith("int add(int a, int b)")


def test_inspect_tells_where_prototypes_come_from(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    (tmp_path / "o.c").write_text("int debugged(int x) { return x; }\n")
    subprocess.run([require("cc"), "-g", "-fPIC", "-c", "o.c"], cwd=tmp_path, check=True)
    root = mblob.static_library(tmp_path / "o.o")
    root.import_module(mblob.csource_module("int found(int x) { return x; }"))
    root.import_module(
        mblob.csource_module(
            "int given(int x) { return x; }\nint taken(int x) { return x; }",
            functions=["int given(int x)", "int taken(int x)"],
            packed=["taken"],
        )
    )
    root.export_library(tmp_path / "k.so")
    done = pack_verb("inspect", "--functions", tmp_path / "k.so")
    assert done.stdout.splitlines() == [
        "debugged  int debugged(int x)  # from debug information",
        "found  int found(int x)  # from the source",
        "given  int given(int x)  # as given to mblob",
        "taken  int taken(int x)  # as given to mblob",
        "plain int given(int x)  # as given to mblob",
        "plain int debugged(int x)  # from debug information",
        "plain int found(int x)  # from the source",
    ]
    with mblob.open(tmp_path / "k.so") as library:
        told = {f["name"]: f["origin"] for f in library.to_json()["host_functions"]}
    assert told == {
        "debugged": "debug information",
        "found": "source",
        "given": "given",
        "taken": "given",
    }


def test_inspect_shows_prototypes_of_what_stays_plain_and_why_it_does(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    source = """
    namespace ns { void scale(float *x, int n) { x[n - 1] *= 2; } struct P { int a : 3; }; int of(P p) { return p.a; } }
    extern "C" double sum(int count, ...) { return count; }
    """
    require("c++")
    stays = [
        "plain int ns::of(struct P p)  # symbol _ZN2ns2ofENS_1PE, from the source, not callable: parameter 0 (p) is"
        " struct P by value: give a function that takes a pointer to it: namespace ns { int call_of(const struct P *p)"
        " { return of(*p); } }",
        "plain void ns::scale(float *x, int n)  # symbol _ZN2ns5scaleEPfi, from the source",
        "plain double sum(int count, ...)  # from the source, not callable: it is variadic: give a function with a"
        " fixed list of parameters",
    ]
    packed = "ns::scale  void ns::scale(float *x, int n)  # from the source"
    for functions, lines in ((None, [packed, *stays]), ([], stays)):
        root = mblob.csource_module(source, "cc", functions=functions)
        root.export_library(tmp_path / "k.so")
        shown = pack_verb("inspect", "--functions", tmp_path / "k.so").stdout.splitlines()
        assert sorted(shown) == sorted(lines)


@pytest.mark.parametrize(
    ("text", "name", "comment"),
    [
        (
            "namespace n {\n/// Of n.\ntemplate <typename T>\nT f(T x) { return x; }\n}",
            "f",
            "Of n.",
        ),
        ("struct S {\n  // Of S.\n  int g() const noexcept { return 1; }\n};", "g", "Of S."),
        ("//! auto\nauto h(int x) -> int { return x; }", "h", "auto"),
        ("// declared\nint f(int);\n// defined\nint f(int x) { return x; }", "f", "defined"),
        ("int x; /* a */ /* b */\nint f(void) { return x; }", "f", ""),
        ("// a \\\n   b\nint f(void) { return 1; }", "f", ""),
        ("/* open\nint f(void) { return 1; }", "f", None),
        ("// f\nint f(void {", "f", None),
        ("", "f", None),
        ("// a\nvoid f(float *x) __attribute__((noinline)) {}", "f", "a"),
        ("// a\nvoid f(int x) noexcept(true) REQUIRES(mu) {}", "f", "a"),
        ("// a\n__attribute__((cold)) void F(int x) {}", "F", "a"),
        ("// a\nauto f(int x) -> decltype(x) {}", "f", "a"),
        ("// a\nS(int x) : b(0), f(x) {}", "f", None),
        ("struct S {\n// of S\nint f() { return 1; }\n};\nint f(void) { return 1; }", "f", ""),
        ("// a\nint f(int x) {}\n// b\nint f(float x) {}", "f", ""),
        ("// clang-format off\nint f(void) {}", "f", ""),
        ("// a\n// NOLINTNEXTLINE(b)\nint f(void) {}", "f", "a"),
        ("/* clang-format off */\nint f(void) {}", "f", ""),
        ("/* macro doc */ F(d)\nint f(void) {}", "f", ""),
        ("/* macro\ndoc */ F(d)\nint f(void) {}", "f", ""),
        ("/* macro\ndoc */ F(d);\nint f(void) {}", "f", ""),
        ("/* a */ int e(void) {} // b\nint f(void) {}", "f", ""),
        ("// a\nint e(void) {} int f(void) {}", "f", ""),
        (
            "int e(void) {\n#if A\nif (a) {\n#else\nif (b) {\n#endif\n}\n}\n// a\nint f(void) {}",
            "f",
            "a",
        ),
        ("int e = 1'000'0;\nchar c = u8'{';\n// a\nint f(void) { return 0x1'0; }", "f", "a"),
        ('auto e = R"(") {)";\n// a\nint f(void) {}', "f", "a"),
        ("#define E /* { \n { */ \\\n {\n// a\nint f(void) {}", "f", "a"),
    ],
)
def test_the_comment_of_one_function(text: str, name: str, comment: str | None) -> None:
    assert Comments(text, is_fortran=False).of(name) == comment


ONE_LINE = "// of it\nint f%d(int x) { if (x) { return f0(x, (1), g(2)); } return 0; } // %d\n"


@pytest.mark.parametrize(
    "source",
    [
        lambda n: "".join(ONE_LINE % (i, i) for i in range(n)),
        lambda n: "a(" * 8 * n,
        lambda n: "a() " * 8 * n + "{",
        lambda n: "/* x */ " * 8 * n + "f(void) {",
        lambda n: "x; " * 8 * n + "f(void) { } " * n,
        lambda n: 'c = "' + r"\"" * 16 * n,
        lambda n: "// x\n" * 8 * n + "f(void) {}" * n,
        lambda n: "f(void) {\n#if A\nif (x) {\n#else\nif (y) {\n#endif\n}\n}\n" * n,
    ],
)
def test_a_source_is_read_in_time_of_its_length(source: Callable[[int], str]) -> None:
    def seconds(count: int) -> float:
        text, taken = source(count), []
        for _ in range(3):
            start = process_time()
            Comments(text, is_fortran=False).of("f")
            taken.append(process_time() - start)
        return min(taken)

    assert seconds(1600) < 8 * seconds(400)  # 16 if each function looked at all others


def test_an_export_reads_a_source_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        source_comments,
        "Comments",
        lambda *args, **named: asked.append(1) or Comments(*args, **named),
    )
    path = tmp_path / "k.c"
    module = None
    for comment in ("one", "other"):
        path.write_text(
            f"// {comment}\nint f(int x) {{ return x; }}\nint g(int x) {{ return x; }}\n"
        )
        module = module or mblob.csource_module(path, functions=["int f(int x)", "g"])
        module.export_library(tmp_path / f"{comment}.so")
        lib = mblob.load_module(tmp_path / f"{comment}.so")
        assert lib["f"].__doc__ == f"int f(int x)\n\n{comment}"
    assert len(asked) == 2


@pytest.mark.parametrize("functions", [None, ["int f(int x)"]])
def test_a_comment_is_one_of_the_module_that_has_the_function(
    tmp_path: Path, functions: Any
) -> None:
    other = "// not of f\nstatic int f(int x) { return x; }\n// of g\nint g(int x) { return f(x); }"
    root = mblob.csource_module(other, functions=None if functions is None else ["int g(int x)"])
    root.import_module(mblob.csource_module("int f(int x) { return x; }", functions=functions))
    root.export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert lib["f"].__doc__ == "int f(int x)"
    assert lib["g"].__doc__ == "int g(int x)\n\nof g"


@pytest.mark.parametrize("old", [b"\x7fELF", b"mblob functions 1"])
def test_help_is_no_error_where_the_file_was_written_over(tmp_path: Path, old: bytes) -> None:
    mblob.csource_module(SOURCE).export_library(tmp_path / "k.so")
    data = (tmp_path / "k.so").read_bytes()
    read, unread = (mblob.load_module(tmp_path / "k.so")["add"] for _ in range(2))
    assert "Adds two" in read.__doc__
    with (tmp_path / "k.so").open("r+b") as file:
        file.write(data.replace(old, old[:-1] + b"?"))
    assert read.__doc__ == "int add(int a, int b)"
    assert unread.__doc__ is None


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("! Of f.\n!$omp declare simd\n!dir$ attributes inline :: f\nsubroutine f(x)", "Of f."),
        ("c$omp declare simd\n      subroutine f(x)", ""),
        ("! a\nsubroutine f(x)\nend subroutine f\n! b\nsubroutine f(x)", ""),
        ("interface\n! a\nsubroutine f(x)\nend interface\n! b\nsubroutine f(x)", "b"),
    ],
)
def test_the_comment_of_one_procedure(text: str, comment: str) -> None:
    assert Comments(text, is_fortran=True).of("f") == comment


def test_comments_of_fortran(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("gfortran")
    (tmp_path / "f.f90").write_text(
        "module shapes\ncontains\n!> Fills it\n!! with zeros.\nsubroutine fill(n, x)\ninteger, value :: n\n"
        "real, intent(out) :: x(n)\nx = 0\nend subroutine fill\nend module\n"
    )
    mblob.csource_module(tmp_path / "f.f90").export_library(tmp_path / "f.so")
    lib = mblob.load_module(tmp_path / "f.so")
    assert lib["shapes::fill"].__doc__.endswith(")\n\nFills it\nwith zeros.")


LINES = r"""#define DECL(name) float name(float x) { return x; }
#define LATE(name, body) \
  float name(float x) { return body; }
#define MORE
/* of one */
DECL(one)
/* about two */
int two(int a) { return a; }
/* of one_three */
LATE(one_three,
     x + 1)
int four(int a) { return a; }
/* about five */
MORE
int five(int a) { return a; }
#if 0
/* dropped */
int six(int a) { return a; }
#else
/* about six */
int six(int a) { return a; }
#endif
#ifndef ONE
int seven(int a) { return a; }
#else
/* dropped */
int seven(int a) { return a; }
#endif
#if 0
/* dropped */
DECL(eight)
#endif
float eight(float x) { return x; }
// Of nine, above
// its declaration.
int nine(int a, const float *);
/* not of nine */
int nine_times(void);
#if 0
/* dropped */
int ten(void);
#endif
static int other = 1;
int nine(int a, const float *x) { return a + x[0]; }
int ten(void) { return other; }
int nine_times(void) { return 9; }
/* at the definition */
int eleven(void) { return 11; }
/* at a declaration */
int eleven(void);
struct s { int (*twelve)(void); };
int twelve(void) { return nine_times(); }
#include "included.h"
"""
OF_LINES = {
    "one": "of one", "two": "about two", "one_three": "of one_three", "four": "", "five": "about five",
    "six": "about six", "seven": "", "eight": "", "nine": "Of nine, above\nits declaration.", "ten": "",
    "nine_times": "not of nine", "eleven": "at the definition", "twelve": "", "included": "",
}  # fmt: skip


@pytest.mark.parametrize("fmt", ["c", "cc"])
def test_a_comment_is_one_above_code_that_the_compiler_has(tmp_path: Path, fmt: str) -> None:
    (tmp_path / "included.h").write_text("/* a */\n\n/* b */\nint included(void) { return 1; }\n")
    text = LINES if fmt == "c" else f'extern "C" {{\n{LINES}}}\n'
    (tmp_path / f"k.{fmt}").write_text(text)
    prototypes = None
    for name in ("found", "given"):
        module = mblob.csource_module(tmp_path / f"k.{fmt}", functions=prototypes)
        module.export_library(tmp_path / f"{name}.so")
        lib = mblob.load_module(tmp_path / f"{name}.so")
        prototypes = [str(signature) for signature in lib.functions.values()]
        told = {n: lib[n].__doc__.partition("\n\n")[2] for n in lib.functions}
        assert told == OF_LINES


def test_a_comment_above_a_declaration_is_not_of_another_function_of_that_name(
    tmp_path: Path,
) -> None:
    source = """
    // of float
    void f(float);
    // of int
    void f(int n);
    namespace a { struct S {
      // of a method
      int g(float x);
    }; }
    void f(int x) {}
    // of double
    void f(const double &x) {}
    int g(float x) { return x; }
    // of h
    float h(const float *, int);
    float h(const float *x, int n) { return x[n]; }
    """
    told = Comments(source, is_fortran=False)
    lines = {line: i for i, line in enumerate(source.split("\n"), 1)}
    assert told.of("f", lines["    void f(int x) {}"]) == "of int"
    assert told.of("f", lines["    void f(const double &x) {}"]) == "of double"
    assert told.of("f") == ""
    assert (told.of("g"), told.of("h"), told.of("i")) == ("", "of h", None)


def test_comments_around_macros_are_those_of_the_function() -> None:
    source = """/* about DECL */
DECL(one)
/* about two */
int two(int a) { return a; }
/* about DECL */
DECL(three)
int four(int a) { return a; }
/* about five */
EXPORT(int)
five(int a) { return a; }
/* of int */
int eight(int a) { return a; }
int eight(float a) { return 1; }
"""
    told = Comments(source, is_fortran=False)
    names = ("one", "two", "three", "four", "five", "eight")
    assert list(map(told.of, names)) == [None, "about two", None, "", "about five", ""]
