"""Objects and archives of the caller: what their debug information tells, and what it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.elf import ElfFile
from mblob.elf_records import SHF_COMPRESSED
from packager.debug_info import functions
from packager.errors import BuildError

from .conftest import VADD, VADD_C

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
    mblob.static_library(made).export_library(tmp_path / "n.so")
    assert made.read_bytes() == before
    library = mblob.load_module(tmp_path / "n.so")
    with pytest.raises(AttributeError, match="'vadd' is a plain C function"):
        library["vadd"]
    library["sum"](1)
    assert table(tmp_path / "n.so") == [("vadd", "plain", "const float *, const float *, float *, int64_t")]


def test_members_of_an_archive_are_asked_too(tmp_path: Path) -> None:
    one = compiled(tmp_path, "one", VADD_C, "-g")
    two = compiled(tmp_path, "two", "int two(int x) { return x; }\n", "-g")
    subprocess.run(["ar", "rcs", "x.a", one.name, two.name], cwd=tmp_path, check=True)
    mblob.static_library((tmp_path / "x.a").read_bytes()).export_library(tmp_path / "x.so")
    assert [name for name, _, _ in table(tmp_path / "x.so")] == ["two", "vadd"]


def test_objects_among_the_addons_are_asked_too(tmp_path: Path) -> None:
    addon = compiled(tmp_path, "addon", "int extra(int x) { return x; }\n", "-g")
    mblob.csource_module(VADD_C, functions=[VADD]).export_library(tmp_path / "x.so", addons=[addon])
    assert ("extra", "plain", "int") in table(tmp_path / "x.so")


def test_objects_that_another_links_are_asked_too(tmp_path: Path) -> None:
    def link(output: str, files: list[str], **_: object) -> None:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", output, *files], check=True)

    made = compiled(tmp_path, "p", VADD_C, "-g")
    mblob.static_library(made).export_library(tmp_path / "x.so", link)
    assert [(name, abi) for name, abi, _ in table(tmp_path / "x.so")] == [("vadd", "plain")]
    with pytest.raises(AttributeError, match="plain C function"):
        mblob.load_module(tmp_path / "x.so")["vadd"]


def test_a_plain_function_of_a_system_library_is_announced_as_such(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g")
    mblob.static_library(made).export_library(tmp_path / "x.tar", system_lib=True, prefix="p_", workspace_dir=tmp_path)
    assert "p_vadd__plain" in (tmp_path / "mblob_system_lib.c").read_text()


def test_a_packed_form_takes_the_name_of_an_objects_function(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C + "int other(int x) { return x; }\n", "-g")
    mblob.static_library(made, functions=[VADD], packed="name").export_library(tmp_path / "x.so")
    assert [(name, abi) for name, abi, _ in table(tmp_path / "x.so")] == [("vadd", "packed"), ("other", "plain")]


def test_an_object_without_debug_information_takes_prototypes(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g0")
    mblob.static_library(made, functions=[VADD]).export_library(tmp_path / "x.so")
    assert [abi for _, abi, _ in table(tmp_path / "x.so")] == ["plain", "packed"]


def test_a_prototype_that_contradicts_an_object(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", VADD_C, "-g")
    with pytest.raises(BuildError, match=r"vadd: the prototype parameter 0 \(a\) is 'const double \*'"):
        mblob.static_library(made, functions=[VADD.replace("float", "double")]).export_library(tmp_path / "x.so")


@pytest.mark.parametrize(
    "flags",
    ["-gdwarf-2", "-gdwarf-4", "-gdwarf-5", "-g -gz=zlib", "-gdwarf-5 -gdwarf64", "-g -ffunction-sections"],
)
def test_forms_of_debug_information(tmp_path: Path, flags: str) -> None:
    asked = subprocess.run(["cc", *flags.split(), "-E", "-x", "c", "/dev/null"], capture_output=True)
    if asked.returncode:
        pytest.skip(f"a compiler that takes {flags} is not installed")
    text = "__thread int counter;\n" + VADD_C + "int next(void) { return ++counter; }\n"
    content = memoryview(compiled(tmp_path, "p", text, *flags.split()).read_bytes())
    section = ElfFile(content).section(".debug_info")
    assert section is not None
    assert bool(section.sh_flags & SHF_COMPRESSED) == ("-gz" in flags)
    found = functions(content)
    assert [(f.name, f.types) for f in found if f.name == "vadd"] == [
        ("vadd", "const float *, const float *, float *, int64_t")
    ]
    assert [f.types for f in found if f.name == "next"] == ["void"]


@pytest.mark.parametrize("target", ["aarch64", "arm", "i386", "mips64", "powerpc64le", "riscv64", "s390x", "x86_64"])
def test_every_machine(tmp_path: Path, require: Callable[[str], str], target: str) -> None:
    flags = ["-g", f"--target={target}-linux-gnu", "-fintegrated-as", "-ffreestanding"]
    made = compiled(tmp_path, "p", "__thread int t;\nfloat f(float *a, int n) { return a[n + t]; }\n", *flags,
                    cc=require("clang"))  # fmt: skip
    assert [(f.name, f.types) for f in functions(memoryview(made.read_bytes()))] == [("f", "float *, int")]


def test_the_symbol_counts_not_the_name_in_the_source(tmp_path: Path) -> None:
    made = compiled(tmp_path, "p", RENAMED_C, "-g")
    mblob.static_library(made).export_library(tmp_path / "x.so")
    assert table(tmp_path / "x.so") == [("inner", "plain", "float *")]


def test_functions_that_tvm_compiled_are_packed_whatever_their_types(tmp_path: Path) -> None:
    # TVM's LLVM writes debug information: producer "TVM", pointers to int8 for void *.
    made = compiled(tmp_path, "f", "int f(char *a, int *b, int n) { return 0; }\n", "-g", "-S")
    assembly = made.read_text()
    producer = next(line for line in assembly.splitlines() if '"GNU C' in line or "clang version" in line)
    (tmp_path / "tvm.s").write_text(assembly.replace(producer, '\t.string "TVM"'))
    subprocess.run(["cc", "-c", "tvm.s", "-o", "tvm.o"], cwd=tmp_path, check=True)
    mblob.static_library(tmp_path / "tvm.o").export_library(tmp_path / "x.so")
    assert table(tmp_path / "x.so") == []
    assert mblob.load_module(tmp_path / "x.so").implements_function("f")


@pytest.mark.slow
def test_damaged_debug_information_raises_nothing(tmp_path: Path) -> None:
    for flags in ([], ["-gz=zlib"]):
        content = compiled(tmp_path, "p", VADD_C, "-g", *flags).read_bytes()
        for at in range(0, len(content), 7):
            damaged = bytearray(content)
            damaged[at] ^= 0xFF
            functions(memoryview(bytes(damaged)))
