"""Packed forms of plain functions: results, and one clear line for everything that can be wrong in
a call."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.compilers import include_flags
from mblob.format.functions_table import decode
from mblob.packager.functions.wrappers import Wrapped, packed_forms, rows_of, table
from mblob.packager.modules.prototype_parser import parse
from tests.packager.conftest import VADD, VADD_C, PackedLibrary, Tensor, Typed, floats

Packed = Callable[..., PackedLibrary]


@pytest.fixture
def vadd_lib(packed: Packed) -> PackedLibrary:
    return packed(VADD_C, VADD)


def call_vadd(lib: PackedLibrary, b: Any, n: Any = 3) -> str:
    return lib.error("vadd__packed", Tensor(floats(1, 2, 3)), b, Tensor(floats(0, 0, 0)), n)


def test_both_forms_compute(vadd_lib: PackedLibrary) -> None:
    c = floats(0, 0, 0)
    assert (
        vadd_lib.call(
            "vadd__packed", Tensor(floats(1, 2, 3)), Tensor(floats(4, 5, 6)), Tensor(c), 3
        )[0]
        == 0
    )
    assert list(c) == [5, 7, 9]
    vadd_lib.lib.vadd(c, c, c, ctypes.c_int64(3))
    assert list(c) == [10, 14, 18]


def test_the_table_lists_both_forms(vadd_lib: PackedLibrary) -> None:
    text = ctypes.string_at(
        ctypes.addressof(ctypes.c_char.in_dll(vadd_lib.lib, "__mblob_functions"))
    )
    rows = [(r.name, r.symbol, r.abi, r.alignment, r.types) for r in decode(text + b"\0")]
    types = "const float *, const float *, float *, int64_t"
    assert rows == [
        ("vadd", "vadd", "plain", 0, types),
        ("vadd", "vadd__packed", "packed", 0, types),
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("b", "message"),
    [
        (Tensor((ctypes.c_double * 3)(), bits=64), "expected float32, found float64"),
        (Tensor(floats(1, 2, 3), code=0), "expected float32, found int32"),
        (Tensor(floats(1, 2, 3), lanes=4), "expected float32, found float32x4"),
        (Tensor(floats(1, 2, 3), code=1, bits=1), "expected float32, found bool"),
        (Tensor(floats(1, 2, 3), device=2), "expected data on the cpu, found device type 2; copy it to the cpu"),
        (Tensor(floats(*range(9)), (3,), strides=(2,)), "expected compact row-major data, found a non-contiguous"
         " array; pass a copy (numpy.ascontiguousarray)"),
        (Tensor(floats(1, 2, 3), address=0), "expected data, found a NULL pointer"),
        (Tensor(floats(1, 2, 3), (-1,)), "dimension 0 is -1, expected a possible size"),
        (Tensor(floats(1, 2, 3), (2**40, 2**40)), "dimension 1 is 1099511627776, expected a possible size"),
        (None, "expected a float32 tensor, found None; to pass NULL, pack it with a prototype that has void * there"),
        (7, "expected a float32 tensor, found int"),
        (1.5, "expected a float32 tensor, found float"),
        (b"x", "expected a float32 tensor, found str"),
        (Typed(3, 64), "expected a float32 tensor, found handle"),
        (Typed(99, 0), "expected a float32 tensor, found an unknown type"),
    ],
)  # fmt: skip
def test_a_wrong_tensor_is_named(vadd_lib: PackedLibrary, b: Any, message: str) -> None:
    assert call_vadd(vadd_lib, b) == f"vadd: argument 1 (b): {message}"


def test_less_than_the_elements_own_alignment_is_refused(vadd_lib: PackedLibrary) -> None:
    data = floats(*range(8))
    text = call_vadd(vadd_lib, Tensor(data, (3,), offset=2))
    assert text.startswith(
        "vadd: argument 1 (b): expected data aligned to 4 bytes, found address 0x"
    )


def test_articles_and_plurals_are_those_of_their_words(packed: Packed) -> None:
    lib = packed("int f(const signed char *x) { return *x; }", "int f(const int8_t *x)")
    assert lib.error("f__packed") == "f: expected 1 argument, found 0"
    assert lib.error("f__packed", 1) == "f: argument 0 (x): expected an int8 tensor, found int"


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_wrong_count_is_named(vadd_lib: PackedLibrary, count: int) -> None:
    assert (
        vadd_lib.error("vadd__packed", *[1] * count) == f"vadd: expected 4 arguments, found {count}"
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(floats(9, 4, 5, 6), (3,), offset=4),
        Tensor(floats(4, 5, 6), (1, 3), strides=(77, 1)),
        Tensor(floats(4, 5, 6), device=3),
        Tensor(floats(4, 5, 6), device=11),
        Tensor(floats(4, 5, 6), device=13),
        Typed(13, 0),
    ],
    ids=[
        "byte_offset", "strides of a dimension of one", "cuda_host", "rocm_host", "cuda_managed", "NDArray",
    ],
)  # fmt: skip
def test_every_layout_of_the_same_data_is_taken(vadd_lib: PackedLibrary, tensor: Any) -> None:
    if isinstance(tensor, Typed):  # an NDArray handle points at its DLTensor
        kept = Tensor(floats(4, 5, 6))
        tensor = Typed(13, ctypes.addressof(kept.c))
    c = floats(0, 0, 0)
    status, text, _, _ = vadd_lib.call(
        "vadd__packed", Tensor(floats(1, 2, 3)), tensor, Tensor(c), 3
    )
    assert (status, text) == (0, "")
    assert list(c) == [5, 7, 9]


def test_empty_tensors_may_have_no_data(vadd_lib: PackedLibrary) -> None:
    empty = Tensor(floats(), (0,), address=0, strides=(7,))
    assert vadd_lib.call("vadd__packed", empty, empty, empty, 0)[0] == 0


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("type_name", "good", "bad"),
    [
        ("int8_t", (-128, 127), (-129, 128)),
        ("uint8_t", (0, 255), (-1, 256)),
        ("int16_t", (-32768, 32767), (-32769, 32768)),
        ("uint32_t", (0, 2**32 - 1), (-1, 2**32)),
        ("int64_t", (-(2**63), 2**63 - 1), ()),
        ("uint64_t", (0, 2**63 - 1, -(2**63), -1), ()),  # the bits of 2^63 and 2^64 - 1
        ("bool", (0, 1, True), (-1, 2)),
    ],
)
def test_integers_must_fit_their_parameter(
    packed: Packed, type_name: str, good: Any, bad: Any
) -> None:
    lib = packed(f"int64_t f({type_name} x) {{ return (int64_t)x; }}", f"int64_t f({type_name} x)")
    for value in good:
        status, text, code, result = lib.call("f__packed", value)
        assert (status, text, code, result.i) == (0, "", 0, int(value))
    for value in bad:
        text = lib.error("f__packed", value)
        assert text.startswith(f"f: argument 0 (x): expected {type_name} (")
        assert text.endswith(f"), found {value}")


def test_floats_take_integers_and_integers_take_no_floats(packed: Packed) -> None:
    lib = packed("double f(float x, int n) { return x + n; }", "double f(float x, int n)")
    assert lib.call("f__packed", 2, 3)[3].f == 5.0
    assert lib.call("f__packed", 2.5, 3)[2:][1].f == 5.5
    assert lib.error("f__packed", 2.5, 3.0) == "f: argument 1 (n): expected int, found float"
    assert lib.error("f__packed", b"x", 3) == "f: argument 0 (x): expected float, found str"


@pytest.mark.parametrize(("type_name", "bad"), [("float", (1e300, -1e39)), ("double", ())])
def test_floats_must_fit_their_parameter(
    packed: Packed, type_name: str, bad: tuple[float, ...]
) -> None:
    lib = packed(f"double f({type_name} x) {{ return x; }}", f"double f({type_name} x)")
    for value in (3.4028234663852886e38, float("inf"), -float("inf")):
        assert lib.call("f__packed", value)[3].f == value
    for value in bad:
        text = lib.error("f__packed", value)
        assert text.startswith("f: argument 0 (x): expected float (up to 3.40282347e+38), found ")
        assert text.endswith(f"found {value:.9g}, which would be infinite")


def test_strings_are_passed_as_they_are(packed: Packed) -> None:
    lib = packed("int f(const char *s) { return s[0]; }", "int f(const char *s)")
    assert lib.call("f__packed", b"A")[3].i == 65
    assert lib.error("f__packed", 1) == "f: argument 0 (s): expected str, found int"
    assert lib.error("f__packed", None) == "f: argument 0 (s): expected str, found None"


def test_untyped_pointers_take_tensors_handles_and_nothing(packed: Packed) -> None:
    lib = packed("void *f(void *p) { return p; }", "void *f(void *p)")
    data = floats(1, 2)
    _, _, code, result = lib.call("f__packed", Tensor(data, offset=4))
    assert (code, result.p) == (3, ctypes.addressof(data) + 4)
    assert lib.call("f__packed", Typed(3, 4096))[3].p == 4096
    assert lib.call("f__packed", None)[3].p is None
    assert (
        lib.error("f__packed", 1) == "f: argument 0 (p): expected a tensor or a handle, found int"
    )


def test_a_pointer_of_a_caller_that_is_null_is_no_tensor_and_no_text(packed: Packed) -> None:
    lib = packed(
        "void f(float *a, const char *s) { *a = *s; }", "void f(float a[1], const char *s)"
    )
    for code in (7, 13):
        text = lib.error("f__packed", Typed(code, None), b"x")
        assert text == "f: argument 0 (a): expected a float32 tensor, found NULL"
    text = lib.error("f__packed", Tensor(floats(1)), Typed(11, None))
    assert text == "f: argument 1 (s): expected str, found NULL"


def test_a_text_result_arrives_as_a_string(packed: Packed) -> None:
    lib = packed('const char *f(int n) { return n ? "digits" : 0; }', "const char *f(int n)")
    _, _, code, result = lib.call("f__packed", 1)
    assert (code, ctypes.string_at(result.p)) == (11, b"digits")
    assert lib.call("f__packed", 0)[2] == 4


def test_whose_text_a_mutable_one_is_nobody_knows(packed: Packed) -> None:
    lib = packed("char *f(void) { static char s[2]; return s; }", "char *f(void)")
    assert lib.call("f__packed")[2] == 3


def test_a_result_without_a_sign_has_its_64_bits(packed: Packed) -> None:
    lib = packed("uint64_t f(int n) { return n ? UINT64_MAX : INT64_MAX; }", "uint64_t f(int n)")
    assert lib.call("f__packed", 0)[3].i == 2**63 - 1
    assert lib.call("f__packed", 1)[3].i == -1  # as TVM hands a uint64_t on


def test_a_void_function_leaves_the_result_alone(vadd_lib: PackedLibrary) -> None:
    t = Tensor(floats(1))
    assert vadd_lib.call("vadd__packed", t, t, t, 1)[2] == 4


def test_one_dimension_checks_the_number_of_elements(packed: Packed) -> None:
    lib = packed(
        "void f(const float *a, int n) { (void)a; (void)n; }", "void f(const float a[n * 2], int n)"
    )
    assert lib.call("f__packed", Tensor(floats(*range(6)), (2, 3)), 3)[0] == 0
    text = lib.error("f__packed", Tensor(floats(*range(6))), 4)
    assert text == "f: argument 0 (a): expected shape (8,) for [n * 2], found (6,)"


def test_at_least_is_at_least(packed: Packed) -> None:
    lib = packed("void f(float *a) { (void)a; }", "void f(float a[static 4])")
    assert lib.call("f__packed", Tensor(floats(*range(5))))[0] == 0
    assert (
        lib.error("f__packed", Tensor(floats(1)))
        == "f: argument 0 (a): expected shape (at least 4,), found (1,)"
    )


def test_several_dimensions_check_the_shape(packed: Packed) -> None:
    lib = packed("void f(float *a, int n) { (void)a; (void)n; }", "void f(float a[n][3], int n)")
    assert lib.call("f__packed", Tensor(floats(*range(6)), (2, 3)), 2)[0] == 0
    assert lib.error("f__packed", Tensor(floats(*range(6)), (3, 2)), 2) == (
        "f: argument 0 (a): expected shape (2, 3), found (3, 2)"
    )
    assert lib.error("f__packed", Tensor(floats(*range(6))), 2).endswith(
        "expected shape (2, 3), found (6,)"
    )
    assert lib.error("f__packed", Tensor(floats(1), ()), 2).endswith(
        "expected shape (2, 3), found ()"
    )


def test_an_open_dimension_takes_any_size(packed: Packed) -> None:
    lib = packed("void f(float (*a)[3]) { (void)a; }", "void f(float a[][3])")
    assert lib.call("f__packed", Tensor(floats(*range(6)), (2, 3)))[0] == 0
    assert lib.error("f__packed", Tensor(floats(*range(4)), (2, 2))).endswith(
        "expected shape (*, 3), found (2, 2)"
    )


def test_dimensions_that_overflow_are_refused(packed: Packed) -> None:
    lib = packed(
        "void f(float *a, int64_t n) { (void)a; (void)n; }", "void f(float a[n * n], int64_t n)"
    )
    assert "overflows" in lib.error("f__packed", Tensor(floats(1)), 2**62)


def test_a_number_without_sign_that_no_size_reaches_is_no_small_one(packed: Packed) -> None:
    names = {"a": "[static n]", "b": "[n][3]", "c": "[n * n]"}
    source = "".join(
        f"uint64_t {f}(uint64_t n, const float *a) {{ (void)a; return n >> 1; }}\n" for f in names
    )
    lib = packed(source, *[f"uint64_t {f}(uint64_t n, const float a{d})" for f, d in names.items()])
    for f, n in [("a", -1), ("a", -(2**63)), ("b", -(2**63)), ("c", -1)]:
        shape = (4, 3) if f == "b" else (12,)
        text = lib.error(f"{f}__packed", n, Tensor(floats(*range(12)), shape))
        assert "overflow" in text, (f, n)


def test_a_negative_size_is_none_that_a_tensor_has(packed: Packed) -> None:
    names = {"a": "[static n]", "b": "[n][3]"}
    source = "".join(f"void {f}(int64_t n, float *a) {{ (void)a; (void)n; }}\n" for f in names)
    lib = packed(source, *[f"void {f}(int64_t n, float a{d})" for f, d in names.items()])
    for f in names:
        tensor = Tensor(floats(*range(6)), (2, 3) if f == "b" else (6,))
        for n in (-1, -(2**63)):
            assert "negative; pass the size" in lib.error(f"{f}__packed", n, tensor), (f, n)


def test_a_very_long_shape_is_cut(packed: Packed) -> None:
    lib = packed("void f(float *a) { (void)a; }", "void f(float a[2][3])")
    text = lib.error("f__packed", Tensor(floats(*range(2)), (1,) * 60 + (2,)))
    assert text.startswith("f: argument 0 (a): expected shape (2, 3), found (1, 1, ")
    assert text.endswith("...)")


def test_bools_and_bytes_are_different_elements(packed: Packed) -> None:
    lib = packed(
        "void f(const bool *a, uint8_t *b) { b[0] = a[0]; }", "void f(const bool *a, uint8_t *b)"
    )
    a, b = (ctypes.c_bool * 1)(True), (ctypes.c_uint8 * 1)()
    assert lib.call("f__packed", Tensor(a, code=1, bits=1), Tensor(b, code=1, bits=8))[0] == 0
    assert b[0] == 1
    assert lib.error("f__packed", Tensor(b, code=1, bits=8), Tensor(b, code=1, bits=8)) == (
        "f: argument 0 (a): expected bool, found uint8"
    )


def test_half_precision_pointers_need_no_half_support_of_the_compiler(packed: Packed) -> None:
    lib = packed(
        "void f(uint16_t *a, uint16_t *b) { *b = *a; }", "void f(const _Float16 *a, __bf16 *b)"
    )
    data = (ctypes.c_uint16 * 1)(7)
    half, brain = Tensor(data, code=2, bits=16), Tensor(data, code=4, bits=16)
    assert lib.call("f__packed", half, brain)[0] == 0
    assert (
        lib.error("f__packed", brain, brain)
        == "f: argument 0 (a): expected float16, found bfloat16"
    )


def test_functions_named_like_those_of_headers_are_no_problem(packed: Packed) -> None:
    lib = packed("int index(int x) { return x + 1; }", "int index(int x)")
    assert lib.call("index__packed", 1)[3].i == 2


def test_packed_name_gives_the_packed_form_the_bare_name(tmp_path: Path) -> None:
    source = (
        VADD_C
        + "float sum(const float *a, const float *b) { float c; vadd(a, b, &c, 1); return c; }\n"
    )
    host = mblob.csource_module(source, functions=[VADD], packed="name")
    host.export_library(tmp_path / "x.so")
    lib = PackedLibrary(tmp_path / "x.so")
    c = floats(0)
    assert lib.call("vadd", Tensor(floats(1)), Tensor(floats(2)), Tensor(c), 1)[0] == 0
    assert c[0] == 3
    lib.lib.sum.restype = ctypes.c_float
    assert lib.lib.sum(floats(1), floats(2)) == 3, (
        "callers inside the source still reach the C function"
    )
    names = subprocess.run(
        ["nm", "-D", tmp_path / "x.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "vadd__" not in names


def test_packed_may_name_one_function_of_several(tmp_path: Path) -> None:
    source = "int f(int x) { return x; }\nint g(int x) { return x; }\n"
    mblob.csource_module(
        source, functions=["int f(int x)", "int g(int x)"], packed="f"
    ).export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        assert [(r.name, r.symbol, r.abi) for r in lib.function_table] == [
            ("f", "f", "packed"),
            ("g", "g", "plain"),
            ("g", "g__packed", "packed"),
        ]


def test_packed_works_on_an_object_and_leaves_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("int f(int x) { return x + 1; }\n")
    subprocess.run(["gcc", "-fPIC", "-c", "f.c", "-o", "f.o"], cwd=tmp_path, check=True)
    before = (tmp_path / "f.o").read_bytes()
    mblob.static_library(tmp_path / "f.o", functions="int f(int x)", packed="name").export_library(
        tmp_path / "x.so"
    )
    assert PackedLibrary(tmp_path / "x.so").call("f", 1)[3].i == 2
    assert (tmp_path / "f.o").read_bytes() == before


def test_helpers_of_ours_are_not_exported(tmp_path: Path, vadd: mblob.Module) -> None:
    vadd.export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        names = {s.name for s in lib.elf.dynsym if s.is_exported}
    assert names <= {
        "vadd",
        "vadd__packed",
        "__mblob_functions",
        "__mblob_last_error",
        "__TVMAPISetLastError",
        "__tvm_dev_mblob",
    }


@pytest.mark.parametrize(
    "flags", [["-O2"], ["-O0", "-fsanitize=undefined"], ["-Og", "-std=c99", "-D_GNU_SOURCE"]]
)
def test_generated_code_compiles_without_a_warning(
    tmp_path: Path, root: Path, flags: list[str]
) -> None:
    prototypes = parse(
        [
            VADD,
            "int f(float a[64][64], const double x[n][k], int n, int k, unsigned long long u, bool b)",
            "float g(void)",
            "void h(float a[static 4], const char *s, void *p, char c, unsigned char const *d)",
            "void k(float a[n*m+1], size_t n, uint8_t m)",
            "const char *name(void)",
            "long l(long *p, short q, bool *f)",
        ]
    )
    wrapped = [Wrapped(p, p.name == "g") for p in prototypes]
    (tmp_path / "x.c").write_text(packed_forms(wrapped) + table(rows_of(wrapped)))
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
    command = [
        "gcc",
        *flags,
        *warnings,
        "-fPIC",
        *include_flags(),
        "-c",
        "x.c",
        "-o",
        "x.o",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("source", "prototype", "message"),
    [
        (
            "int g(int x) { return x; }",
            "int f(int x)",
            "no kernel or object defines 'f'",
        ),
        (
            "static int f(int x) { return x; }\nint g(void) { return f(1); }",
            "int f(int)",
            "f cannot be called: it is static: remove static",
        ),
    ],
)
def test_a_prototype_without_a_function_is_refused(
    tmp_path: Path, source: str, prototype: str, message: str
) -> None:
    with pytest.raises(mblob.MblobError, match=message):
        mblob.csource_module(source, functions=[prototype]).export_library(tmp_path / "x.so")


def test_a_mangled_function_is_explained(tmp_path: Path, require: Callable[[str], str]) -> None:
    require("g++")
    source = "namespace n { int f(int x) { return x; } }\n"
    host = mblob.csource_module(source, fmt="cc", functions=["int f(int x)"])
    with pytest.raises(mblob.MblobError, match="there is n::f: write its name so"):
        host.export_library(tmp_path / "x.so")


def test_packed_needs_a_declared_function() -> None:
    with pytest.raises(mblob.MblobError, match="packed= names 'g'"):
        mblob.csource_module(";", functions=["int f(int)"], packed="g")
