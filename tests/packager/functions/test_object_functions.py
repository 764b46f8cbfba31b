"""Objects and archives of the caller: what their debug information tells, and what it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_COMPRESSED
from mblob.errors import FormatError
from mblob.packager.errors import BuildError
from mblob.packager.objects.debug_info import functions
from tests.packager.conftest import VADD, VADD_C

PACKED_C = "int sum(void *args, int *codes, int count, void *result, int *code, void *resource) { return 0; }\n"
RENAMED_C = 'void outer(float *a) __asm__("inner");\nvoid outer(float *a) { a[0] = 1; }\n'


def compiled(folder: Path, name: str, text: str, *flags: str, cc: str = "cc") -> Path:
    """An object file."""
    (folder / f"{name}.c").write_text(text)
    command = [cc, "-O1", "-fPIC", *flags, "-c", f"{name}.c", "-o", f"{name}.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.o"


def table(path: Path) -> list[tuple[str, str, str]]:
    with mblob.open(path) as lib:
        return [(row.name, row.abi, row.types) for row in lib.function_table]


@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_a_plain_function_of_an_object_is_not_called_as_a_packed_one(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    made = compiled(tmp_path, "p", VADD_C + PACKED_C, "-g", cc=require(cc))
    before = made.read_bytes()
    mblob.static_library(made, functions=[]).export_library(tmp_path / "n.so")
    assert made.read_bytes() == before
    library = mblob.load_module(tmp_path / "n.so")
    with pytest.raises(AttributeError, match="'vadd' is a plain C function"):
        library["vadd"]
    library["sum"](1)
    assert table(tmp_path / "n.so") == [
        ("vadd", "plain", "const float *, const float *, float *, int64_t"),
        ("sum", "packed", "?"),
    ]


def test_members_of_an_archive_are_asked_too(tmp_path: Path) -> None:
    one = compiled(tmp_path, "one", VADD_C, "-g")
    two = compiled(tmp_path, "two", "int two(int x) { return x; }\n", "-g")
    subprocess.run(["ar", "rcs", "x.a", one.name, two.name], cwd=tmp_path, check=True)
    mblob.static_library((tmp_path / "x.a").read_bytes(), functions=[]).export_library(
        tmp_path / "x.so"
    )
    assert [name for name, _, _ in table(tmp_path / "x.so")] == ["two", "vadd"]


def test_objects_among_the_addons_are_asked_too(tmp_path: Path) -> None:
    addon = compiled(tmp_path, "addon", "int extra(int x) { return x; }\n", "-g")
    mblob.csource_module(VADD_C, functions=[VADD]).export_library(tmp_path / "x.so", addons=[addon])
    assert ("extra", "plain", "int") in table(tmp_path / "x.so")


def test_objects_that_another_links_are_asked_too(tmp_path: Path) -> None:
    def link(output: str, files: list[str], **_: object) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", output, *files], check=True)

    made = compiled(tmp_path, "p", VADD_C, "-g")
    mblob.static_library(made, functions=[]).export_library(tmp_path / "x.so", link)
    assert [(name, abi) for name, abi, _ in table(tmp_path / "x.so")] == [("vadd", "plain")]
    with pytest.raises(AttributeError, match="plain C function"):
        mblob.load_module(tmp_path / "x.so")["vadd"]


def test_a_plain_function_of_a_system_library_is_announced_as_such(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g")
    mblob.static_library(made, functions=[]).export_library(
        tmp_path / "x.tar", system_lib=True, prefix="p_", workspace_dir=tmp_path
    )
    assert "p_vadd__plain" in (tmp_path / "mblob_system_lib.c").read_text()


def test_a_packed_form_takes_the_name_of_an_objects_function(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C + "int other(int x) { return x; }\n", "-g")
    mblob.static_library(made, functions=[VADD], packed="name").export_library(tmp_path / "x.so")
    assert [(name, abi) for name, abi, _ in table(tmp_path / "x.so")] == [
        ("vadd", "packed"),
        ("other", "plain"),
    ]


def test_an_object_without_debug_information_takes_prototypes(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g0")
    mblob.static_library(made, functions=[VADD]).export_library(tmp_path / "x.so")
    assert [abi for _, abi, _ in table(tmp_path / "x.so")] == ["plain", "packed"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "text",
    [
        "int f = 3;",
        "int f;",
        "__thread int f = 3;",
        "__attribute__((weak)) char f[4];",
        "int g(int a) { return a; } int (*f)(int) = g;",
        '__asm__(".data; .globl f; f: .long 3; .previous");',
    ],
)
def test_a_prototype_that_names_a_variable_is_refused(tmp_path: Path, text: str) -> None:
    module = mblob.static_library(
        compiled(tmp_path, "p", text, "-fcommon"), functions=["int f(int a)"]
    )
    with pytest.raises(BuildError, match=r"f is a variable in .*p\.o, expected a function"):
        module.export_library(tmp_path / "x.so")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "text",
    [
        "static int g(int a) { return a + 1; }\n"
        "static void *choose(void) { return (void *)g; }\n"
        'int f(int a) __attribute__((ifunc("choose")));',
        'int g(int a) { return a + 1; } int f(int a) __attribute__((weak, alias("g")));',
        "int g(int a) { return a + 1; }\n"
        '__asm__(".pushsection .text; .globl f; f: jmp g; .popsection");',
    ],
    ids=["ifunc", "alias", "assembler"],
)
def test_code_of_any_kind_of_symbol_is_called(tmp_path: Path, text: str) -> None:
    made = compiled(tmp_path, "p", text)
    mblob.static_library(made, functions=["int f(int a)"]).export_library(tmp_path / "x.so")
    assert mblob.load_module(tmp_path / "x.so").f(2) == 3


def test_a_function_with_clones_for_processors_is_called_as_its_source_says(tmp_path: Path) -> None:
    text = """__attribute__((target_clones("avx2", "default")))
    void twice(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = 2 * a[i]; }
    """
    mblob.csource_module(text).export_library(tmp_path / "x.so")
    lib, b = mblob.load_module(tmp_path / "x.so"), np.zeros(3, "f4")
    assert lib.functions.keys() == {"twice"}
    lib.twice(np.arange(3, dtype="f4"), b, 3)
    assert b.tolist() == [0, 2, 4]
    mblob.csource_module(text).export_library(tmp_path / "x.a", system_lib=True, prefix="p_")


def test_a_prototype_that_contradicts_an_object(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g")
    with pytest.raises(
        BuildError, match=r"vadd: the prototype parameter 0 \(a\) is 'const double \*'"
    ):
        mblob.static_library(made, functions=[VADD.replace("float", "double")]).export_library(
            tmp_path / "x.so"
        )


@pytest.mark.parametrize(
    "flags",
    [
        "-gdwarf-2",
        "-gdwarf-4",
        "-gdwarf-5",
        "-g -gz=zlib",
        "-gdwarf-5 -gdwarf64",
        "-g -ffunction-sections",
    ],
)
def test_forms_of_debug_information(tmp_path: Path, flags: str) -> None:
    asked = subprocess.run(
        ["cc", *flags.split(), "-E", "-x", "c", "/dev/null"], capture_output=True
    )
    if asked.returncode:
        pytest.skip(f"a compiler that takes {flags} is not installed")
    text = "__thread int counter;\n" + VADD_C + "int next(void) { return ++counter; }\n"
    content = memoryview(compiled(tmp_path, "p", text, *flags.split()).read_bytes())
    section = ElfFile(content).section(".debug_info")
    assert section is not None
    assert bool(section.sh_flags & SHF_COMPRESSED) == ("-gz" in flags)
    found = functions(ElfFile(content))
    assert [(f.name, f.types) for f in found if f.name == "vadd"] == [
        ("vadd", "const float *, const float *, float *, int64_t")
    ]
    assert [f.types for f in found if f.name == "next"] == ["void"]


@pytest.mark.parametrize(
    "target", ["aarch64", "arm", "i386", "mips64", "powerpc64le", "riscv64", "s390x", "x86_64"]
)
def test_every_machine(tmp_path: Path, require: Callable[[str], str], target: str) -> None:
    flags = ["-g", f"--target={target}-linux-gnu", "-fintegrated-as", "-ffreestanding"]
    made = compiled(
        tmp_path,
        "p",
        "__thread int t;\nfloat f(float *a, int n) { return a[n + t]; }\n",
        *flags,
        cc=require("clang"),
    )
    assert [(f.name, f.types) for f in functions(ElfFile(memoryview(made.read_bytes())))] == [
        ("f", "float *, int")
    ]


def test_the_symbol_counts_not_the_name_in_the_source(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", RENAMED_C, "-g")
    mblob.static_library(made, functions=[]).export_library(tmp_path / "x.so")
    assert table(tmp_path / "x.so") == [("inner", "plain", "float *")]


def test_functions_that_tvm_compiled_are_packed_whatever_their_types(tmp_path: Path) -> None:
    # TVM's LLVM writes debug information: producer "TVM", pointers to int8 for void *.
    text = "void *__tvm_module_ctx;\nint f(char *a, int *b, int n) { return 0; }\n"
    made = compiled(tmp_path, "f", text, "-g", "-S")
    assembly = made.read_text()
    producer = next(
        line for line in assembly.splitlines() if '"GNU C' in line or "clang version" in line
    )
    (tmp_path / "tvm.s").write_text(assembly.replace(producer, '\t.string "TVM"'))
    subprocess.run(["cc", "-c", "tvm.s", "-o", "tvm.o"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "tvm.o").export_library(tmp_path / "x.so")
    assert table(tmp_path / "x.so") == []
    assert mblob.load_module(tmp_path / "x.so").implements_function("f")


def functions_of_damaged(content: bytearray) -> None:
    """What is no ELF file is refused before its functions are read."""
    try:
        elf = ElfFile(memoryview(content))
    except FormatError:
        return
    functions(elf)


@pytest.mark.slow
def test_damaged_debug_information_raises_nothing(tmp_path: Path) -> None:
    for flags in ([], ["-gz=zlib"]):
        content = compiled(tmp_path, "p", VADD_C, "-g", *flags).read_bytes()
        for at in range(0, len(content), 7):
            damaged = bytearray(content)
            damaged[at] ^= 0xFF
            functions_of_damaged(damaged)


# -- functions that debug information does not name ------------------------------------------------

SCALE = "void scale(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }\n"
STATIC = SCALE.replace("void scale(", "static void one(")
VIEWS = {
    "alias": SCALE + 'extern __typeof(scale) other __attribute__((alias("scale")));',
    "weak alias": SCALE + 'extern __typeof(scale) other __attribute__((weak, alias("scale")));',
    "pragma weak": SCALE + "extern void other(float *, long);\n#pragma weak other = scale",
    "alias of a static function": STATIC
    + 'void other(float *, long) __attribute__((alias("one")));',
    "ifunc": STATIC + "static void (*choose(void))(float *, long) { return one; }\n"
    'void other(float *, long) __attribute__((ifunc("choose")));',
    "ifunc with a named type": STATIC + "typedef void kernel(float *, long);\n"
    "kernel *const choose(void) { return one; }\n"
    'void other(float *, long) __attribute__((ifunc("choose")));',
}
UNKNOWN = {
    "assembler text": SCALE + '__asm__(".globl other\\nother: .byte 0");',
    "assembler text alone": '__asm__(".globl other\\n.type other, %function\\nother: .byte 0");',
    "ifunc of void *": STATIC + "static void *choose(void) { return one; }\n"
    'void other(float *, long) __attribute__((ifunc("choose")));',
    "alias of assembler text": SCALE
    + '__asm__(".globl it, other\\n.type it, %function\\nit: .byte 0\\n'
    '.set other, it");',
}
COMPILERS = [pytest.param("gcc"), pytest.param("clang", marks=pytest.mark.slow)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("cc", COMPILERS)
@pytest.mark.parametrize("kind", [*VIEWS, *UNKNOWN])
def test_a_function_that_debug_information_does_not_name_is_not_called_as_a_packed_one(
    tmp_path: Path, require: Callable[[str], str], kind: str, cc: str
) -> None:
    text = {**VIEWS, **UNKNOWN}[kind]
    mblob.csource_module(text, functions=[]).export_library(tmp_path / "x.so", cc=require(cc))
    types = {name: types for name, abi, types in table(tmp_path / "x.so") if abi == "plain"}
    assert types["other"].replace("long int", "long") == ("float *, long" if kind in VIEWS else "?")
    with pytest.raises(AttributeError, match=r"'other' is (a plain C function|called)"):
        mblob.load_module(tmp_path / "x.so")["other"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", ["", "-g", "-g1", "-flto", "-ffunction-sections"])
def test_an_alias_is_known_with_any_option(tmp_path: Path, options: str) -> None:
    mblob.csource_module(VIEWS["alias"], functions=[]).export_library(
        tmp_path / "x.so", options=options
    )
    assert table(tmp_path / "x.so") == [
        (n, "plain", "float *, long int") for n in ("other", "scale")
    ]


def test_an_alias_gets_no_adapter_to_the_ffi_dialect(tmp_path: Path) -> None:
    mblob.csource_module(VIEWS["alias"], functions=[]).export_library(
        tmp_path / "x.so", dialect="ffi"
    )
    assert table(tmp_path / "x.so") == [
        (n, "plain", "float *, long int") for n in ("other", "scale")
    ]


def test_an_alias_in_a_given_object_and_in_cpp_is_known(tmp_path: Path) -> None:
    text = "void scale(float *x, long n) {}\n"
    text += 'extern "C" void other(float *, long) __attribute__((alias("_Z5scalePfl")));'
    (tmp_path / "p.cc").write_text(text)
    subprocess.run(["g++", "-g", "-fPIC", "-c", "p.cc"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "p.o", functions=[]).export_library(tmp_path / "o.so")
    mblob.csource_module(text, fmt="cc", functions=[]).export_library(tmp_path / "s.so")
    for made in ("o.so", "s.so"):
        assert table(tmp_path / made) == [
            (name, "plain", "float *, long int") for name in ("scale", "other")
        ]


@pytest.mark.parametrize("cc", COMPILERS)
def test_versions_for_processors_are_no_packed_functions(
    tmp_path: Path, require: Callable[[str], str], cc: str
) -> None:
    text = SCALE.replace("void", '__attribute__((target_clones("avx2", "default"))) void', 1)
    (tmp_path / "k.c").write_text(text)
    done = subprocess.run(
        [require(cc), "-c", "k.c", "-o", "k.o"], cwd=tmp_path, capture_output=True, text=True
    )
    if done.returncode:
        assert "target" in done.stderr, done.stderr  # of the attribute, and of nothing else
        pytest.skip("a compiler for x86-64 that knows target_clones is not installed")
    mblob.csource_module(text, functions=[]).export_library(tmp_path / "x.so", cc=cc)
    with mblob.open(tmp_path / "x.so") as library:
        assert {f.abi for f in library.host_functions} == {"plain"}
        types = {
            f.name: (f.types or "").replace("long int", "long") for f in library.host_functions
        }
    assert types.pop("scale.resolver") == "?"
    assert set(types.values()) == {"float *, long"}


PACKED_IFUNC = PACKED_C.replace("int sum(", "static int one(") + (
    "static int processor(void) { return 1; }\n"
    "%s choose(void) { return processor() ? one : 0; }\n"
    'int sum(void *, int *, int, void *, int *, void *) __attribute__((ifunc("choose")));'
)


@pytest.mark.parametrize(
    "text",
    [
        PACKED_C + 'extern __typeof(sum) other __attribute__((alias("sum")));',
        PACKED_IFUNC.replace("%s", "static void *"),
        PACKED_IFUNC.replace(
            "%s", "typedef int f(void *, int *, int, void *, int *, void *);\nstatic f *"
        ),
    ],
)
def test_a_packed_function_that_debug_information_does_not_name_stays_one(
    tmp_path: Path, text: str
) -> None:
    mblob.csource_module(text, functions=[]).export_library(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as library:
        assert {f.name: f.abi for f in library.host_functions} == dict.fromkeys(
            ["sum", "other"] if "other" in text else ["sum"], "packed"
        )
    mblob.load_module(tmp_path / "x.so")["other" if "other" in text else "sum"](1)


@pytest.mark.parametrize("flags", ["-g", "-g0"])
def test_an_object_linked_with_one_that_tells_no_types_says_nothing_of_its_functions(
    tmp_path: Path, flags: str
) -> None:
    compiled(tmp_path, "p", VADD_C, "-g")
    note = '.section .note.GNU-stack,"",%progbits\n'
    (tmp_path / "q.s").write_text(f'.file "q"\n.text\n.globl q\n.type q, %function\nq: nop\n{note}')
    subprocess.run(["cc", flags, "-c", "q.s"], cwd=tmp_path, check=True)
    subprocess.run(
        ["cc", "-r", "-nostdlib", "p.o", "q.o", "-o", "both.o"], cwd=tmp_path, check=True
    )
    assert [f.name for f in functions(ElfFile(memoryview((tmp_path / "both.o").read_bytes())))] == [
        "vadd"
    ]


@pytest.mark.parametrize(
    ("cc", "flag"), [("gcc", "-g1"), ("clang", "-g1"), ("clang", "-gline-tables-only")]
)
def test_an_object_whose_debug_information_has_no_types_is_taken_as_one_without(
    tmp_path: Path, require: Callable[[str], str], cc: str, flag: str
) -> None:
    inlined = "static inline __attribute__((always_inline)) int next(int n) { volatile int m = n + 1; return m; }\n"
    text = inlined + PACKED_C.replace("return 0", "return next(count) - next(count)")
    text += (
        PACKED_C.replace("sum", "alone")
        + 'extern __typeof(sum) other __attribute__((alias("sum")));'
    )
    made = compiled(tmp_path, "p", text, flag, cc=require(cc))
    assert functions(ElfFile(memoryview(made.read_bytes()))) == []
    names = ["sum", "alone", "other"]
    mblob.static_library(made, functions=names).export_library(tmp_path / "x.so", cc=cc)
    loaded = mblob.load_module(tmp_path / "x.so")
    for name in names:
        loaded[name](1)


def test_functions_of_one_name_in_an_object_linked_of_several_tell_an_alias_only_what_they_agree_on(
    tmp_path: Path,
) -> None:
    for name, kind in (("p", "float"), ("q", "double")):
        alias = f'void {name}({kind} *) __attribute__((alias("same")));'
        compiled(tmp_path, name, f"static void same({kind} *x) {{ *x = 0; }}\n{alias}", "-g")
    subprocess.run(
        ["cc", "-r", "-nostdlib", "p.o", "q.o", "-o", "both.o"], cwd=tmp_path, check=True
    )
    found = functions(ElfFile(memoryview((tmp_path / "both.o").read_bytes())))
    assert [(f.name, f.types) for f in found] == [("p", "?"), ("q", "?")]


def test_a_prototype_of_an_alias_is_held_against_the_function_that_it_names(tmp_path: Path) -> None:
    def pack(prototype: str, text: str) -> None:
        mblob.csource_module(text, functions=[prototype]).export_library(tmp_path / "x.so")

    with pytest.raises(BuildError, match="other: the prototype parameter 0"):
        pack("void other(double *x, long n)", VIEWS["alias"])
    with pytest.raises(
        BuildError, match=r"give its prototype, as functions=\['void other\(\.\.\.\)'\]"
    ):
        pack("other", UNKNOWN["ifunc of void *"])
    for text in (VIEWS["alias"], UNKNOWN["ifunc of void *"]):
        pack("void other(float x[n], long n)", text)
        x = bytearray(b"\0\0\x80?" * 2)
        mblob.load_module(tmp_path / "x.so")["other"](memoryview(x).cast("f"), 2)
        assert list(memoryview(x).cast("f")) == [2.0, 2.0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", ["-flto", "-flto -ffat-lto-objects", "-flto -gz=zlib"])
def test_an_object_for_link_time_optimization_tells_types_too(
    tmp_path: Path, require: Callable[[str], str], options: str
) -> None:
    compiled(tmp_path, "p", SCALE, "-g", *options.split(), cc=require("gcc"))
    mblob.static_library(tmp_path / "p.o", functions=[]).export_library(tmp_path / "x.so", cc="gcc")
    assert table(tmp_path / "x.so") == [("scale", "plain", "float *, long int")]


def test_other_names_in_an_object_for_link_time_optimization_are_plain_too(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    text = (
        VIEWS["alias"]
        + "int data[3]; extern int far(void); int near(void) { return far() + data[0]; }\n"
    )
    text += "int far(void) { return 1; }\n"
    text += '__attribute__((visibility("hidden"))) extern __typeof(scale) inside __attribute__((alias("scale")));'
    compiled(tmp_path, "p", text, "-g", "-flto", cc=require("gcc"))
    mblob.static_library(tmp_path / "p.o", functions=[]).export_library(tmp_path / "x.so", cc="gcc")
    assert table(tmp_path / "x.so") == [
        ("far", "plain", "void"),
        ("near", "plain", "void"),
        ("other", "plain", "?"),
        ("scale", "plain", "float *, long int"),
    ]
    with pytest.raises(AttributeError, match="nothing says how 'other' is called"):
        mblob.load_module(tmp_path / "x.so")["other"]


@pytest.mark.slow
def test_a_damaged_list_of_functions_for_link_time_optimization_raises_nothing(
    tmp_path: Path, require: Callable[[str], str]
) -> None:
    content = compiled(tmp_path, "p", VIEWS["alias"], "-g", "-flto", cc=require("gcc")).read_bytes()
    for section in ElfFile(memoryview(content)).sections:
        if "symtab." in section.name:
            for at in range(section.sh_offset, section.sh_offset + section.sh_size):
                damaged = bytearray(content)
                damaged[at] ^= 0xFF
                functions_of_damaged(damaged)
