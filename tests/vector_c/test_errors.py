"""Lines and errors: what the compiler says, what we refuse, text that is no C."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.packager.compile.vector_c.rewrite import rewrite
from tests.vector_c.building import ADD4, COMPILERS, adds

Require = Callable[[str], str]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_compiler_complains_about_the_line_of_the_source(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    (tmp_path / "k.c").write_text(
        "#include <stdint.h>\n/* a\n comment */\nfloat4 f(float4 a,\n  float4 b) {\n  return a\n    + b;\n}\n"
        "int g(void) { return nobody; }\n"
    )
    with pytest.raises(mblob.ToolchainError, match=r"k\.c:9:.*nobody"):
        mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", cc=compiler)


@pytest.mark.parametrize("text", ["float4 v;\n\nint w = v[4];\n", "float4 v;\n\nint w = nobody;\n"])
def test_a_text_has_no_folder_in_messages(tmp_path: Path, text: str) -> None:
    with pytest.raises(mblob.MblobError, match=r"(^|: )lib0\.c:3: "):
        mblob.csource_module(text).export_library(tmp_path / "x.so")


def test_a_missing_header_is_the_compilers_error(tmp_path: Path) -> None:
    with pytest.raises(mblob.ToolchainError, match=r"lib0\.c:1:.*no_such\.h"):
        mblob.csource_module('#include "no_such.h"\nfloat4 x;\n').export_library(tmp_path / "x.so")


def test_a_debugger_sees_the_lines_of_the_source(tmp_path: Path, require: Require) -> None:
    require("readelf")
    (tmp_path / "k.c").write_text(ADD4)
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", options="-g -O0")
    done = subprocess.run(
        ["readelf", "--debug-dump=decodedline", tmp_path / "x.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("k.c ")]
    assert {int(row[1]) for row in rows if row[1].isdigit()} == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("float4 a; float8 b;\nvoid f() { a + b; }", r"x\.c:2: float4 \+ float8: vectors of 4 and of 8 lanes"),
        ("void f() {\n\n float4 v = float4(1, 2, 3); }", r"x\.c:3: float4 is made of 3 lanes"),
        ("void f() { float4 v = (float4)(1, 2); }", r"x\.c:1: float4 is made of 2 lanes"),
        ("void f(float3 v) { v.s3 = 1; }", r"float3 has no 's3'; its lanes are s0 to s2"),
        ("void f(float3 v) { v.length; }", r"float3 has no 'length'"),
        ("void f(float3 v) { v % v; }", r"float3: % is for vectors of integers"),
        ("void f(float3 v) { v <<= 1; }", r"float3: <<= is for vectors of integers"),
        ("void f(float3 v) { ~v; }", r"float3: ~ is for vectors of integers"),
        ("float4 f(float3 v) { return v; }", r"a vector of 3 lanes \(float3\) where float4 is expected"),
        ("void f(float4 c, float2 v) { v = c ? v : v; }", r"condition of 4 lanes chooses among vectors of 2"),
        ("float4 v;\nvoid f(float2 x) { v.xx = x; }", r"x\.c:2: one lane is written twice"),
        ("void f(float4 v, float3 x) { v.lo = x; }", r"3 lanes \(float3\) where float2 is expected"),
        ("void f(float4 v) { v.lo ^= 1; }", r"float2: \^= is for vectors of integers"),
        ("void f(float4 v) { g(&v.lo); }", r"several lanes have no address"),
        ("void f(float4 v) { v.lo.s2 = 1; }", r"float2 has no 's2'"),
        ("float4 v;\nint f() { return v[4]; }", r"x\.c:2: float4 has no lane 4; its lanes are 0 to 3"),
        ("void f(float4 *p) { p[9][0x4u] = 1; }", r"float4 has no lane 4"),
        ("double4 f(float4 v) { return *(double4*)(&(v + v)); }", r"the bits of float4 are 128, of double4 256"),
        ("float f(float *p) { return *(float4*)(p + 4)[5]; }", r"float4 has no lane 5"),
        ("float4 f(float *p) { return p; }", r"a pointer or function where float4 is expected"),
        ("float f(float4 v) { return v; }", r"a vector of 4 lanes \(float4\) where float is expected"),
        ("void f(float4 v) { int x = (int)v; }", r"x\.c:1: float4 is cast to what is no vector"),
        ("void f(float4 v) {\n if (v < 1) f(v); }", r"x\.c:2: int32_t4 as a condition"),
        ("void f(float4 a, float2 b) { powf(a, b); }", r"powf: vectors of 4 and of 2 lanes"),
        ("struct s { double (*g)(double); } t; void f(float4 v) { t.g(v); }", r"called through an expression"),
        ("struct s { float4 v; float2 w; } t; void f() { t.v = t.w; }", r"2 lanes \(float2\) where float4"),
        ("float4 (*p)[2]; float2 v; void f() { (*p)[1] = v; }", r"2 lanes \(float2\) where float4"),
        ("float4 (*g(int))(float2); void f(float4 v) { g(1)(v); }", r"4 lanes \(float4\) where float2"),
        ("void f() { float4 v(1, 2, 3, 4); }", r"lanes in parentheses; write = float4\(\.\.\.\)"),
        ('# 7 "a/b.h"\nfloat2 a; float3 b;\nint c = a * b;', r"a/b\.h:8: float2 \* float3"),
    ],
)  # fmt: skip
def test_vectors_that_do_not_fit_are_refused_with_their_line(code: str, message: str) -> None:
    with pytest.raises(mblob.MblobError, match=message):
        rewrite(code, "x.c")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"), ("(*", ")"), ("*", ""), ("", "[2]"), ("(", ")(float4)"), ("f(float4 (*", ")(int))"),
        ("(float4 (*)(", "))v"),
    ],
)  # fmt: skip
def test_no_declarator_is_too_deep(opening: str, closing: str) -> None:
    made = rewrite(
        f"float4 w;\nfloat4 {opening * 5000}v{closing * 5000};\nfloat4 f() {{ return w + w; }}",
        "x.c",
    )
    assert made is not None
    assert "float4_add" in made.source


@pytest.mark.slow
def test_no_nesting_is_too_deep() -> None:
    depth = 20000
    made = rewrite(f"float2 f(float2 v) {{ return {'(' * depth}v{' + v)' * depth}; }}", "x.c")
    assert made is not None
    assert made.source.count("mblob_float2_add") == depth


@pytest.mark.parametrize(
    "code",
    [
        "float4 f(", "float4 v = (((", "float4 f() { return v +; }", "struct { float4", "float4 a[", ") float4 x; }",
        "float4(", "? float2 x", "for (float4", "float4 f() { a ? b; }", "typedef float4", "float4 v = {1, {2}", "'",
        '"', "float4 f() { x..s0 }",
    ],
)  # fmt: skip
def test_what_is_no_c_is_left_to_the_compiler(code: str) -> None:
    made = rewrite(code, "x.c")
    assert made is None or made.source.count("\n") == code.count("\n")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_the_compiler_says_is_about_the_source(
    tmp_path: Path, require: Require, compiler: str
) -> None:
    require(compiler)
    header = (
        "struct s { int x; };\nstatic inline void\nfrom_header(void) { float4 v = v + nobody; }\n"
    )
    (tmp_path / "k.h").write_text(header)
    (tmp_path / "k.c").write_text(
        '#include "k.h"\nvoid f(struct s *p, float4 v) {\n  v = v\n + *p;\n}\n'
    )
    with pytest.raises(mblob.ToolchainError) as caught:
        mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", cc=compiler)
    said = caught.value.output
    assert f"{tmp_path}/k.h:3: error: " in said
    assert re.search(rf"{tmp_path}/k\.c:[34]: error: .*'float4'", said)
    assert "mblob_" not in said
    assert "simd" not in said


def test_an_fcompile_gets_lines_of_the_file(tmp_path: Path) -> None:
    def fcompile(output: str, files: list[str], options: list[str]) -> None:
        done = subprocess.run(["gcc", "-c", "-o", output, files[0]], capture_output=True, text=True)
        raise ValueError(done.stderr)

    (tmp_path / "k.c").write_text("float4 a;\n\nint f(void) { return nobody; }\n")
    with pytest.raises(ValueError, match=rf"{tmp_path}/k\.c:3:.*nobody"):
        mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", fcompile)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int a;\n#define LOAD(p) \\\n  (*(float4*)(p))\nfloat4 b;\n", r"k\.c:2: macro LOAD uses float4; for an f"),
        ('/* */ int a;\n\n  #include "own.h"\nfloat4 b;\n', r'k\.c:3: header "own\.h" uses vector types; f'),
    ],
)  # fmt: skip
def test_vectors_that_an_fcompile_would_not_understand_are_named(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "own.h").write_text("typedef float4 (*f)(float4);\n")
    (tmp_path / "k.c").write_text(text)
    with pytest.raises(mblob.MblobError, match=message):
        mblob.csource_module(tmp_path / "k.c").export_library(
            tmp_path / "x.so", lambda *_, **__: None
        )


def test_macros_of_the_source_without_vectors_and_other_headers_are_an_fcompiles(
    tmp_path: Path,
) -> None:
    def fcompile(output: str, files: list[str], options: list[str]) -> None:
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", output, *files, *options, f"-I{tmp_path}"], check=True
        )

    (tmp_path / "own.h").write_text("#define TWO 2 /* as in float2 */\n")
    three = "int three(void) { return ONE + TWO; }\n"
    (tmp_path / "k.c").write_text('#include "own.h"\n#define ONE 1\n' + ADD4 + three)
    mblob.csource_module(tmp_path / "k.c").export_library(tmp_path / "x.so", fcompile)
    assert adds(tmp_path / "x.so")
