"""Functions of a source, as the compiler tells them: plain ones are listed, wrong prototypes
refused."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.format.functions_table import Row
from mblob.packager.errors import BuildError
from mblob.packager.objects.debug_info import functions
from tests.packager.conftest import VADD, VADD_C, PackedLibrary, Tensor, floats

SOURCE = """
#include <stdint.h>
typedef float f32;
struct s { int a; };
typedef union { int64_t i; double d; void *p; } Value;
void vadd(const f32 *a, float *const b, int64_t n) { b[0] = a[0] + n; }
double odd(struct s *x, const char *text, unsigned long long u) { return x->a + text[0] + u; }
int many(int n, ...) { return n; }
int hook(int (*f)(int)) { return f(1); }
int none(void) { return 1; }
static int local(int x) { return x; }
__attribute__((visibility("hidden"))) int hidden(int x) { return local(x); }
int packed(Value *args, int *codes, int num_args, Value *result, int *result_code, void *resource) { return 0; }
int32_t of_tvm(void* args, int32_t* ids, int32_t num_args, void* ret, int32_t* code, void* handle) { return 0; }
int32_t of_old_tvm(void* args, void* arg_type_ids, int32_t num_args) { return 0; }
int like_packed(float *a, float *b, int n) { return 0; }
"""
PLAIN = {
    "vadd": "const f32 *, float * const, int64_t",
    "odd": "struct s *:4, const char *, long long unsigned int",
    "many": "int, ...",
    "hook": "int (*)(int)",
    "none": "void",
    "of_old_tvm": "void *, void *, int32_t",
    "like_packed": "float *, float *, int",
}


PACKED = {"of_tvm packed", "packed packed"}


def table(path: Path) -> dict[str, Row]:
    with mblob.open(path) as lib:
        return {f"{row.name} {row.abi}": row for row in lib.function_table}


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_c_functions_without_a_prototype_are_listed_as_plain(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    mblob.csource_module(SOURCE, functions=[]).export_library(tmp_path / "x.so", cc=require(cc))
    found = table(tmp_path / "x.so")
    spelled = {
        row.name: row.types.replace("unsigned long long", "long long unsigned int")
        for row in found.values()
        if row.abi == "plain"
    }
    assert spelled == PLAIN
    assert {name for name, row in found.items() if row.abi == "packed"} == PACKED
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.packed_functions == ["of_tvm", "packed"]


def test_a_plain_function_is_never_called_as_a_packed_one(tmp_path: Path) -> None:
    mblob.csource_module(VADD_C, functions=[]).export_library(tmp_path / "x.so")
    with pytest.raises(AttributeError, match="plain C function"):
        mblob.load_module(tmp_path / "x.so")["vadd"]


def test_thread_local_variables_do_not_hide_the_functions(tmp_path: Path) -> None:
    mblob.csource_module(
        "__thread int t;\nint next(void) { return ++t; }\n", functions=[]
    ).export_library(tmp_path / "x.so")
    assert list(table(tmp_path / "x.so")) == ["next plain"]


def test_listed_and_other_functions_share_a_table(tmp_path: Path) -> None:
    root = mblob.csource_module(VADD_C + "int one(void) { return 1; }\n", functions=[VADD])
    root.import_module(mblob.csource_module("int two(int x) { return x; }\n", functions=[]))
    root.export_library(tmp_path / "x.so")
    assert list(table(tmp_path / "x.so")) == ["vadd plain", "vadd packed", "one plain", "two plain"]


def test_free_functions_of_cxx_are_listed(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("g++")
    source = """
    #include <vector>
    int mangled(int x) { return x; }
    namespace k { extern "C" int inside(int x) { std::vector<int> v(x); return (int)v.size(); } }
    extern "C" float outside(const float &x, bool b) { return b ? x : 0; }
    """
    mblob.csource_module(source, "cc", functions=[]).export_library(tmp_path / "x.so")
    assert {row.name: row.types for row in table(tmp_path / "x.so").values()} == {
        "inside": "int",
        "mangled": "int",
        "outside": "const float &, bool",
    }


def test_a_library_without_plain_functions_has_no_table(tmp_path: Path) -> None:
    source = "void *__tvm_module_ctx;\nint f(void *a, int *b, int c) { return 0; }\n"
    mblob.csource_module(source, functions=[]).export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert (lib.functions, lib.function_table, lib.elf.find("__mblob_functions")) == (
            ["f"],
            [],
            None,
        )


@pytest.mark.sample(1)
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_the_debug_information_of_ours_is_not_linked(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}")
    root = mblob.csource_module(VADD_C, functions=[VADD])
    root.export_library(tmp_path / "x.so", options=f"-fuse-ld={linker}", embed="object")
    text = subprocess.run(
        ["readelf", "-SW", tmp_path / "x.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "debug_" not in text
    done = subprocess.run(
        ["readelf", "-aW", tmp_path / "x.so"], capture_output=True, text=True, check=True
    )
    assert "arning" not in done.stderr
    one, c = Tensor(floats(1)), floats(0)
    assert PackedLibrary(tmp_path / "x.so").call("vadd__packed", one, one, Tensor(c), 1)[0] == 0
    assert c[0] == 2


def test_what_tells_the_functions_leaves_no_trace_in_the_library(tmp_path: Path) -> None:
    for name, options in (("x.so", ""), ("y.so", "-g0")):
        mblob.csource_module(VADD_C, functions=[VADD]).export_library(
            tmp_path / name, options=options
        )
    assert (tmp_path / "x.so").read_bytes() == (tmp_path / "y.so").read_bytes()


def test_the_callers_debug_information_is_kept(tmp_path: Path) -> None:
    (tmp_path / "g.c").write_text("int g(void) { return 1; }\n")
    subprocess.run(["gcc", "-g", "-fPIC", "-c", "g.c"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "g.o", functions=[]).export_library(tmp_path / "object.so")
    mblob.csource_module(VADD_C, functions=[]).export_library(tmp_path / "source.so", options="-g")
    for name in ("object.so", "source.so"):
        text = subprocess.run(
            ["readelf", "-SW", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout
        assert ".debug_info" in text


def test_the_folder_of_the_build_leaves_no_trace(tmp_path: Path) -> None:
    for name in ("one", "another"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "k.c").write_text(VADD_C)
        root = mblob.csource_module(tmp_path / name / "k.c", functions=[VADD])
        root.export_library(tmp_path / f"{name}.so", workspace_dir=tmp_path / name / "work")
    assert (tmp_path / "one.so").read_bytes() == (tmp_path / "another.so").read_bytes()


def test_an_object_that_tells_nothing_has_no_functions() -> None:
    assert functions(ElfFile(memoryview(b"\x7fELF\x02\x01\x01" + bytes(57)))) == []


@pytest.mark.parametrize("content", [b"", b"not ELF"])
def test_what_is_no_object_is_refused_before_its_functions_are_read(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.o").write_bytes(content)
    root = mblob.static_library(tmp_path / "x.o")
    with pytest.raises(BuildError, match=r"expected an (ELF )?object file or an archive"):
        root.export_library(tmp_path / "x.so")


@pytest.mark.parametrize("options", ["-flto", "-g0"])
def test_without_debug_information_a_library_is_packed_all_the_same(
    tmp_path: Path, options: str
) -> None:
    mblob.csource_module(VADD_C, functions=[VADD]).export_library(
        tmp_path / "x.so", options=options
    )
    assert list(table(tmp_path / "x.so")) == ["vadd plain", "vadd packed"]


# -- prototypes ------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("source", "prototype", "message"),
    [
        (
            "void f(float *a, int n) {}",
            "void f(double *a, int n)",
            r"parameter 0 \(a\) is 'double \*', .* 'float \*'",
        ),
        (
            "void f(float *a, int n) {}",
            "void f(float *a, int64_t n)",
            r"parameter 1 \(n\) is 'int64_t', .* 'int'",
        ),
        (
            "void f(float *a, int n) {}",
            "void f(float *a)",
            r"has 1 parameter, the source has 2: \(float \*, int\)",
        ),
        (
            "void f(float a) {}",
            "void f(float *a)",
            r"parameter 0 \(a\) is 'float \*', the source has 'float'",
        ),
        (
            "void f(float *a) {}",
            "void f(float a)",
            r"parameter 0 \(a\) is 'float', the source has 'float \*'",
        ),
        ("void f(float **a) {}", "void f(float *a)", r"the source has 'float \*\*'"),
        ("void f(unsigned n) {}", "void f(int n)", "the source has 'unsigned int'"),
        ("void f(long n) {}", "void f(int n)", "the source has 'long int'"),
        ("void f(float x) {}", "void f(double x)", "the source has 'float'"),
        ("void f(_Bool x) {}", "void f(int x)", "the source has '_Bool'"),
        ("void f(int *x) {}", "void f(const char *x)", r"'const char \*', the source has 'int \*'"),
        (
            "struct s { int a; }; void f(struct s x) {}",
            "void f(int x)",
            "the source has 'struct s'",
        ),
        (
            "int f(int (*g)(int)) { return 0; }",
            "int f(float *x)",
            r"'float \*', the source has 'int \(\*\)\(int\)'",
        ),
        (
            "typedef float real; real f(real (*g)(real)) { return 0; }",
            "float f(float (*g)(double))",
            r"'float \(\*\)\(double\)', the source has 'real \(\*\)\(real\)'",
        ),
        (
            "void f(int (*g)(const float *, const float *)) {}",
            "void f(int (*g)(const float *))",
            r"the source has 'int \(\*\)\(const float \*, const float \*\)'",
        ),
        (
            "typedef float real; void f(const real **a) {}",
            "void f(const double **a)",
            r"'const double \*\*', the source has 'const real \*\*'",
        ),
        (
            "void f(char *const *a) {}",
            "void f(float *const *a)",
            r"the source has 'char \*const \*|the source has 'char \* const \*",
        ),
        (
            "struct s { int a; }; void f(struct s **a) {}",
            "void f(struct t **a)",
            r"the source has 'struct s \*\*'",
        ),
        (
            "double f(void) { return 1; }",
            "float f(void)",
            "returns 'float', the source's returns 'double'",
        ),
        (
            "void f(const float w[3][4]) {}",
            "void f(const float w[4][3])",
            r"parameter 0 \(w\) is 'const float w\[4\]\[3\]', the source has 'const float \(\*\)\[4\]'",
        ),
        (
            "void f(float (*w)[2][5]) {}",
            "void f(float w[7][2][6])",
            r"is 'float w\[7\]\[2\]\[6\]', the source has 'float \(\*\)\[2\]\[5\]'",
        ),
        (
            "typedef float row[4]; void f(int n, row *w) {}",
            "void f(int n, float w[n][3])",
            r"parameter 1 \(w\) is 'float w\[n\]\[3\]', the source has 'row \*'",
        ),
        (
            "void f(const float *x, const float w[3][4], float *y) {}",
            "void f(const float *x, float *y)",
            r"the source has 3: \(const float \*, const float \(\*\)\[4\], float \*\)",
        ),
        (
            "void f(int (*g)(int), int n) {}",
            "void f(int n)",
            r"the source has 2: \(int \(\*\)\(int\), int\)",
        ),
        ("void f(void) {}", "int f(void)", "returns 'int', the source's returns 'void'"),
        ("int f(int n, ...) { return n; }", "int f(int n)", r"\(int, \.\.\.\)"),
    ],
)
def test_a_prototype_that_contradicts_the_source(
    tmp_path: Path, source: str, prototype: str, message: str
) -> None:
    (tmp_path / "x.so").write_bytes(b"old")
    root = mblob.csource_module(source, functions=[prototype])
    with pytest.raises(BuildError, match="functions: f: the prototype ") as error:
        root.export_library(tmp_path / "x.so")
    error.match(message)
    assert (tmp_path / "x.so").read_bytes() == b"old"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("source", "prototype"),
    [
        ("void f(f32 *restrict a, const int64_t n)", "void f(const float *a, int64_t n)"),
        ("void f(float a[3][4])", "void f(float *a)"),
        ("void f(float *a)", "void f(float a[3][4])"),
        ("void f(float (*a)[4])", "void f(float a[][4])"),
        ("void f(float a[3][4])", "void f(float a[3][4])"),
        ("void f(float a[6][4])", "void f(float a[2][3][4])"),
        ("void f(float a[2][3][4])", "void f(float a[6][4])"),
        ("void f(int n, float a[][n])", "void f(int n, float a[3][n])"),
        ("void f(int n, float a[][n])", "void f(int n, float a[3][4])"),
        ("void f(int n, float a[][4])", "void f(int n, float a[][n])"),
        ("void f(long long a, unsigned long b)", "void f(int64_t a, size_t b)"),
        ("void f(struct s *a, v4 *b, void *c)", "void f(float *a, float *b, float *c)"),
        ("void f(float *a)", "void f(void *a)"),
        (
            "void f(uint8_t *a, uint16_t *b, signed char *c)",
            "void f(bool *a, _Float16 *b, char *c)",
        ),
        ("void f(int_fast16_t a, uint_least8_t *b)", "void f(int_fast16_t a, uint_least8_t *b)"),
        ("void f(enum e a, bool b)", "void f(int a, _Bool b)"),
        ("void f(char *a)", "void f(const char *a)"),
        ("void f(const f32 **a, long **b)", "void f(float *const *a, void **b)"),
        (
            "void f(f32 (*g)(f32, void *), void (*h)(void))",
            "void f(float g(float, int *), void (*)())",
        ),
        (
            "void f(int (*g)(struct s *, enum e), int8_t **a)",
            "void f(int (*g)(void *, int), char **a)",
        ),
        ("void f(int8_t *a)", "void f(int8_t *)"),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_a_prototype_may_spell_the_same_types_otherwise(
    tmp_path: Path, require: Callable[[str], str], source: str, prototype: str, cc: str
) -> None:
    head = (
        "#include <stdint.h>\n#include <stdbool.h>\n#include <stddef.h>\ntypedef float f32; struct s { float re, im; };"
        "\nenum e { A, B }; typedef float v4 __attribute__((vector_size(16)));\n"
    )
    root = mblob.csource_module(f"{head}{source} {{}}\n", functions=[prototype])
    root.export_library(tmp_path / "x.so", cc=require(cc))
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.packed_functions == ["f"]


def test_a_listed_function_that_the_options_hide(tmp_path: Path, vadd: mblob.Module) -> None:
    with pytest.raises(
        BuildError, match="vadd is listed, but the library does not export it: -fvisibility=hidden"
    ):
        vadd.export_library(tmp_path / "x.so", options="-fvisibility=hidden")
    (tmp_path / "v.map").write_text("{ global: __*; local: *; };\n")
    with pytest.raises(BuildError, match="vadd is listed, but"):
        vadd.export_library(
            tmp_path / "x.so", options=[f"-Wl,--version-script={tmp_path / 'v.map'}"]
        )
    assert not (tmp_path / "x.so").exists()


def test_c_sources_in_a_tar_are_callable_as_those_outside(tmp_path: Path) -> None:
    (tmp_path / "post.c").write_text("/* adds one */ int post(const int a[2]) { return a[1] + 1; }")
    with tarfile.open(tmp_path / "k.tar", "w") as archive:
        archive.add(tmp_path / "post.c", "post.c")
    mblob.static_library(tmp_path / "k.tar").export_library(tmp_path / "k.so")
    lib = mblob.load_module(tmp_path / "k.so")
    assert str(lib.functions["post"]) == "int post(const int a[2])"
    assert lib.post(np.array([1, 2], "int32")) == 3
    mblob.static_library(tmp_path / "k.tar", functions=[]).export_library(tmp_path / "k.so")
    assert not mblob.load_module(tmp_path / "k.so").functions
