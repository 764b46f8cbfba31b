"""Prototypes: what is understood, and that what is not is refused by name."""

from __future__ import annotations

import pytest

import mblob
from mblob.packager.errors import BuildError
from mblob.packager.modules.prototype_parser import Words, parse


def kinds(text: str) -> list[str]:
    return [p.kind for p in parse(text)[0].parameters]


def test_pointers_are_tensors_and_const_marks_inputs() -> None:
    (p,) = parse("void vadd(const float *a, const float *b, float *c, int64_t n)")
    assert [(a.name, a.kind, a.const) for a in p.parameters] == [
        ("a", "tensor", True),
        ("b", "tensor", True),
        ("c", "tensor", False),
        ("n", "scalar", False),
    ]
    assert p.types == "const float *, const float *, float *, int64_t"


def test_strings_and_untyped_pointers_have_kinds_of_their_own() -> None:
    assert kinds("void f(const char *s, void *p, const void *q, char *t, const char u[4])") == [
        "string",
        "pointer",
        "pointer",
        "tensor",
        "tensor",
    ]


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("void f(float a[12])", ["12"]),
        ("void f(float a[64][64])", ["64", "64"]),
        ("void f(const float a[n][k], int n, int k)", ["n", "k"]),
        ("void f(int64_t n, int64_t k, float a[n * k + 1])", ["n * k + 1"]),
        ("void f(float a[][3])", ["", "3"]),
        ("void f(float (*a)[3])", ["", "3"]),
        ("void f(float a[0x10][010])", ["16", "8"]),
        ("void f(float a[*])", [""]),
    ],
)
def test_array_parameters_give_dimensions(text: str, dims: list[str]) -> None:
    (p,) = parse(text)
    (array,) = (a for a in p.parameters if a.kind == "tensor")
    assert [d.text for d in array.dims] == dims


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("struct s *x", "struct s *x"),
        ("const union u *x", "const union u *x"),
        ("struct s x[4]", "struct s x[4]"),
        ("int (*g)(int, float *)", "int (*g)(int, float *)"),
        ("int g(int)", "int (*g)(int)"),
        ("float **x", "float **x"),
        ("void **x", "void **x"),
        ("struct s **x", "struct s **x"),
    ],
)
def test_other_pointers_are_passed_as_they_are(parameter: str, text: str) -> None:
    (p,) = parse(f"void f({parameter})")[0].parameters
    assert (p.kind, p.text) == ("pointer", text)


@pytest.mark.parametrize("spelling", ["double complex", "double _Complex", "_Complex double"])
def test_pointers_to_complex_numbers_are_tensors(spelling: str) -> None:
    (p,) = parse(f"void f(const {spelling} x[3])")[0].parameters
    assert (p.kind, p.text) == ("tensor", "const double _Complex x[3]")


@pytest.mark.parametrize(
    ("bound", "text"),
    [("9 / 2 + 1", "4 + 1"), ("1 << 3", "8"), ("(16 | 1)", "17"), ("(int)3", "3"), ("-(-2)", "2")],
)
def test_numbers_in_a_dimension_are_computed(bound: str, text: str) -> None:
    (p,) = parse(f"void f(float x[{bound}])")[0].parameters
    assert [d.text for d in p.dims] == [text]


def test_words_of_a_source_are_known() -> None:
    types = {
        "real": "float",
        "enum mode": "uint32_t",
        "image": "void",
        "view": "void *",
        "struct s": "void",
    }
    words = Words(types, {"ROWS": 3})
    (p,) = parse(
        "real f(const real x[ROWS], enum mode m, const image *i, const view v, struct s *s, real r)",
        words,
    )
    assert p.text == (
        "float f(const float x[3], uint32_t m, const image *i, const view v, struct s *s, float r)"
    )
    assert [x.const for x in p.parameters] == [True, False, True, False, False, False]


@pytest.mark.parametrize(
    "text",
    [
        f"void f(int x[{'(' * 5000}1{')' * 5000}])",
        f"void f(int {'(*' * 3000}x{')(int)' * 3000})",
        f"void f(int {'*' * 100000}x)",
        f"void f(int x[{'+'.join('1' * 20000)}])",
        f"int f({'(a,' * 200}{')' * 200})",
    ],
    ids=["brackets", "functions", "pointers", "a sum", "lists"],
)
@pytest.mark.parametrize("source", ["", "int f(int x) { return x; }"])
def test_a_text_that_nests_without_end_is_one_error(text: str, source: str) -> None:
    with pytest.raises(BuildError, match="nested more deeply than prototypes are"):
        mblob.csource_module(source, functions=[text])


def test_static_in_brackets_means_at_least() -> None:
    (p,) = parse("void f(float a[static 4])")
    assert p.parameters[0].dims[0].at_least


@pytest.mark.parametrize("spelling", ["restrict", "__restrict", "__restrict__"])
def test_restrict_is_accepted_however_compilers_spell_it(spelling: str) -> None:
    assert kinds(f"void f(float *{spelling} a)") == ["tensor"]


@pytest.mark.parametrize(
    "type_name",
    ["int8_t", "uint64_t", "size_t", "unsigned long long", "long", "short", "char", "signed char", "bool", "_Bool",
     "float", "double", "_Float16", "__bf16", "intptr_t", "uint_fast16_t"],
)  # fmt: skip
def test_all_arithmetic_types_are_known(type_name: str) -> None:
    assert kinds(f"void f({type_name} x, {type_name} *p, const {type_name} p2[3])") == [
        "scalar",
        "tensor",
        "tensor",
    ]


def test_several_prototypes_may_share_a_string() -> None:
    assert [p.name for p in parse("void f(void); int g(int);")] == ["f", "g"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "void f(struct s x)",
            r"f: parameter 0 \(x\): struct s is not supported by value; .*takes a pointer",
        ),
        ("void f(union u x)", r"parameter 0 \(x\): union u"),
        ("void f(int a, ...)", "f: a variadic function has no packed function"),
        ("void f(long double x)", r"parameter 0 \(x\): long double"),
        ("void f(const long double *x)", r"parameter 0 \(x\): long double"),
        (
            "void f(float _Complex x)",
            r"parameter 0 \(x\): float _Complex by value .*a pointer to them",
        ),
        ("double complex f(int x)", r"its result: double _Complex by value .*a pointer to them"),
        (
            "void f(long double _Complex *x)",
            r"parameter 0 \(x\): long double _Complex is not .*use double",
        ),
        ("void f(__int128 x)", r"parameter 0 \(x\): .*does not fit"),
        (
            "void f(float x[n])",
            r"parameter 0 \(x\): dimension 'n' is no integer parameter .*write the number",
        ),
        ("void f(float x[n], float n)", r"dimension 'n' is no integer parameter"),
        (
            "void f(float x[N], int n)",
            r"'N' is no integer parameter .*a macro, or a parameter \(n\)",
        ),
        (f"void f(float x[{2**63}])", rf"dimension {2**63} is too large"),
        ("void f(float x[0xFFFFFFFFFFFFFFFFu])", "dimension 0xFFFFFFFFFFFFFFFFu is too large"),
        (
            "void f(float x[sizeof(long)])",
            r"parameter 0 \(x\): a dimension is made of.*write the number",
        ),
        ("void f(float x[2][])", r"only the first dimension may be empty"),
        ("struct s f(int)", "f: its result: struct"),
        ("enum e f(int)", "f: its result: enum e .*write int"),
        ("void f(enum e *x)", r"parameter 0 \(x\): enum e .*write int"),
        ("static void f(int a)", "f is static.*leave static out.*-Dstatic="),
        ("void f(int a, int b, float *a)", "f: two parameters are called 'a'; rename one"),
        ("void f(int a) { }", "a function with a body"),
        ("int x", "no function declaration"),
        ("void f(float", "is no prototype .*expected one like"),
        ("void f(float x float y)", "is no prototype .*expected one like"),
        ("void f(x, y)", r"f: parameter 0 \(x\) has no type"),
        ("void f(foo_t x)", r"unknown type 'foo_t'; write int for an enum, void \* for a pointer"),
        ("vec *f(int a)", r"unknown type 'vec'; write void \*"),
        (
            "void f(int, const foo_t *)",
            r"unknown type 'foo_t'; write void \* if it is a struct",
        ),
        ("void f(foo_t x[2])", r"unknown type 'foo_t'; write void \*"),
        ("void f(flaot *x)", "unknown type 'flaot'; did you mean 'float'"),
        ("void f(int8 x)", "unknown type 'int8'; did you mean 'int8_t'"),
        ("DLLEXPORT int f(int)", "'DLLEXPORT': leave macros out"),
        ("void ZLIB_INTERNAL f(int)", "'ZLIB_INTERNAL': leave macros out"),
        (
            "ZEXTERN int ZEXPORT f(foo_t *)",
            "'ZEXTERN' and 'ZEXPORT': leave macros out; unknown type 'foo_t'",
        ),
        ("PyAPI_FUNC(int) f(int)", "'PyAPI_FUNC': leave macros out"),
        ('MARKED("x") int f(int)', "'MARKED': leave macros out"),
        ("void f(float *RESTRICT x)", "'RESTRICT': leave macros out"),
        ("void f(float &x)", "as C declares it: a pointer for a reference"),
        ("void ns::f(std::size_t n)", "as C declares it: .*no namespaces"),
        ("void f(int n = 3) noexcept", "default arguments and noexcept are no part"),
        ("void ns::f(std::vector<int> &x)", r"templates, .* write void \* for a pointer"),
        ("void ns::f(float &x", "those of C\\+\\+ sources, and of objects with debug information"),
        ('void f(int n) asm("g")', "by the name in asm"),
        ("#define N 3", "leave directives"),
        ("void f(int a /* open", "is no prototype"),
        ("", "an empty prototype"),
    ],
)
def test_what_has_no_packed_form_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(BuildError, match=message) as error:
        parse([text])
    assert "\n" not in str(error.value)


def test_an_error_is_about_one_of_several_prototypes() -> None:
    many = "; ".join(f"void f{i}(DIR int *x, foo_t *y, int n{i})" for i in range(300))
    with pytest.raises(
        BuildError, match=r"^functions: 'void f0\([^;]*\)': 'DIR': leave macros out"
    ):
        parse(f"int g(int); {many}; int h(int);")


def test_two_different_declarations_of_one_function_are_refused() -> None:
    with pytest.raises(BuildError, match="f is declared twice"):
        parse(["void f(int)", "void f(float)"])


def test_comments_are_no_part_of_a_prototype() -> None:
    (p,) = parse("void f(/* in */ const float *a, // out\n float *b /* n; */);")
    assert p.types == "const float *, float *"


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" void f(float *x)',
        'extern "C" { void f(float *x); }',
        "extern void f(float *x)",
        "__inline__ void f(__volatile__ float *__restrict__ x)",
    ],
)
def test_words_that_change_no_call_are_left_out(text: str) -> None:
    (p,) = parse(text)
    assert p.text == "void f(float *x)"
