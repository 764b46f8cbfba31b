"""Objects that are kept: what is not compiled again, and what is."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.packager.compile import compile_key, toolchain
from tests.packager.compile.caching import COMPILERS, KERNEL, Tool, cxx_of, export


@pytest.fixture(params=COMPILERS)
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> Tool:
    (tmp_path / "bin").mkdir()
    return Tool(tmp_path / "bin", request.param)


def test_nothing_is_compiled_twice_and_the_bytes_are_the_same(tmp_path: Path, tool: Tool, folder: Path) -> None:
    plain, first, again = (tmp_path / name for name in ("plain.so", "first.so", "again.so"))
    assert tool.compiles(export(tool, plain, cache=False)) > 0
    assert not folder.exists()
    assert tool.compiles(export(tool, first)) > 0
    assert tool.compiles(export(tool, again)) == 0
    assert plain.read_bytes() == first.read_bytes() == again.read_bytes()


def test_packed_forms_rewritten_vectors_and_cxx_are_kept_too(
    tmp_path: Path, tool: Tool, folder: Path, require: Callable[[str], str]
) -> None:
    vectors = "void twice(float *x) { float4 v = *(float4 *)x; *(float4 *)x = v + v; }\n"
    for text, fmt in ((KERNEL, "c"), (vectors, "c"), ('extern "C" int f(int x) { return x; }\n', "cc")):
        if fmt == "cc":
            require(cxx_of(tool.real))
        prototype = "void twice(float *x)" if "twice" in text else "int f(int x)"

        def make(text: str = text, fmt: str = fmt, prototype: str = prototype) -> None:
            module = mblob.csource_module(text, fmt, functions=[prototype])
            module.export_library(tmp_path / "o.so", cc=str(tool.path))

        assert tool.compiles(make) > 0
        assert tool.compiles(make) == 0


CHANGES = {
    "the text": ({"text": KERNEL.replace("+ 1", "+ 2")}, {}),
    "an option": ({}, {"options": "-O1"}),
    "a macro that is not used": ({}, {"options": "-DNOBODY"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_compiled(tmp_path: Path, tool: Tool, folder: Path, change: str) -> None:
    own, how = CHANGES[change]
    export(tool, tmp_path / "o.so")()
    assert tool.compiles(export(tool, tmp_path / "o.so", **own, **how)) > 0  # type: ignore[arg-type]
    assert tool.compiles(export(tool, tmp_path / "o.so")) == 0


def test_a_header_that_changed_counts_wherever_it_is_included(tmp_path: Path, tool: Tool, folder: Path) -> None:
    (tmp_path / "inner.h").write_text("#define N 1\n")
    (tmp_path / "outer.h").write_text('#include "inner.h"\n')
    (tmp_path / "n.c").write_text('#include "outer.h"\nint n(void) { return N; }\n')
    make = export(tool, tmp_path / "o.so", tmp_path / "n.c")
    assert tool.compiles(make) > 0
    assert tool.compiles(make) == 0
    for path in (tmp_path / "n.c", tmp_path / "inner.h"):
        os.utime(path, (1, 1))  # times say nothing
    assert tool.compiles(make) == 0
    (tmp_path / "inner.h").write_text("#define N 2\n")
    assert tool.compiles(make) == 1
    assert mblob.load_module(tmp_path / "o.so").symbol("n", ctypes.c_int, [])() == 2


def test_another_compiler_of_the_same_name_compiles(tmp_path: Path, tool: Tool, folder: Path) -> None:
    export(tool, tmp_path / "o.so")()
    tool.path.write_text(tool.path.read_text() + "# of another release\n")
    assert tool.compiles(export(tool, tmp_path / "o.so")) > 0


@pytest.fixture
def gnu(tmp_path: Path, folder: Path) -> Tool:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc, which runs an assembler of its own choice")
    (tmp_path / "bin").mkdir()
    return Tool(tmp_path / "bin", "gcc")


def assembler(path: Path) -> Path:
    """A copy of the machine's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(os.path.realpath(str(shutil.which("as"))), path)
    return path


def test_another_assembler_in_a_folder_of_the_options_compiles(tmp_path: Path, gnu: Tool) -> None:
    own = assembler(tmp_path / "b" / "as")
    make = export(gnu, tmp_path / "o.so", options=[f"-B{own.parent}"])
    make()
    assert gnu.compiles(make) == 0
    with own.open("ab") as file:
        file.write(b"newer")
    assert gnu.compiles(make) == 1


def test_an_assembler_that_is_a_script_may_do_anything(tmp_path: Path, gnu: Tool) -> None:
    own = tmp_path / "b" / "as"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\nexec {shutil.which("as")} "$@"\n')
    own.chmod(0o755)
    make = export(gnu, tmp_path / "o.so", options=[f"-B{own.parent}"])
    make()
    assert gnu.compiles(make) == 1


@pytest.mark.parametrize("name", ["PATH", "COMPILER_PATH"])
def test_another_assembler_of_the_environment_compiles(
    tmp_path: Path, gnu: Tool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    own = assembler(tmp_path / "elsewhere" / "as")
    make = export(gnu, tmp_path / "o.so")
    make()
    assert gnu.compiles(make) == 0
    monkeypatch.setenv(name, f"{own.parent}{os.pathsep}{os.environ['PATH']}" if name == "PATH" else str(own.parent))
    assert gnu.compiles(make) > 0
    assert gnu.compiles(make) == 0


def test_another_compiler_on_the_path_is_asked_anew(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triples = []
    for triple in ("aarch64-one-linux-gnu", "s390x-two-linux-gnu"):
        compiler = tmp_path / triple / "cc"
        compiler.parent.mkdir()
        compiler.write_text(f"#!/bin/sh\necho {triple}\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("PATH", f"{compiler.parent}:/bin:/usr/bin")
        triples.append(toolchain.find("cc").triple)
    assert triples == ["aarch64-one-linux-gnu", "s390x-two-linux-gnu"]


def test_a_file_that_an_option_names_counts(tmp_path: Path, folder: Path) -> None:
    """A list of what a sanitizer leaves alone, which no preprocessor reads."""
    if not shutil.which("clang"):
        pytest.skip("needs clang")
    (tmp_path / "bin").mkdir()
    tool = Tool(tmp_path / "bin", "clang")
    ignored = tmp_path / "ignored"
    ignored.write_text("fun:nobody\n")
    (tmp_path / "f.c").write_text(KERNEL)
    options = ["-fsanitize=signed-integer-overflow", "-fsanitize-trap=all", f"-fsanitize-ignorelist={ignored}"]
    make = export(tool, tmp_path / "o.so", tmp_path / "f.c", options=options)
    make()
    assert tool.compiles(make) == 0
    ignored.write_text("fun:f\n#\n")
    assert tool.compiles(make) > 0  # what we generate gets such options too


TEXT_HAS_MORE = {
    "the time": "const char *t(void) { return __TIME__; }",
    "the date": "const char *t(void) { return __DATE__; }",
    "the time stamp": "const char *t(void) { return __TIMESTAMP__; }",
    "incbin": '__asm__(".pushsection .rodata\\n.incbin \\"@\\"\\n.popsection");',
    "incbin in pieces": '__asm__(".pushsection .rodata\\n.inc" "bin \\"@\\"\\n.popsection");',
    "incbin, escaped": '__asm__(".pushsection .rodata\\n.INC\\x62IN \\"@\\"\\n.popsection");',
    "assembler that is included": '__asm__(".include \\"@\\"");',
    "incbin by a macro of the assembler": (
        '__asm__(".pushsection .rodata\\n.macro m a\\n.inc\\\\a \\"@\\"\\n.endm\\nm bin\\n.popsection");'
    ),
    "incbin in the name of a section": (
        '__attribute__((section(".rodata,\\"a\\"\\nZK: .incbin \\"@\\"\\n#"))) const char J = 0;'
    ),
    "incbin in the name of a section, in pieces": (
        '__attribute__((section(".rodata,\\"a\\"\\nZK: .inc" "\\142in \\"@\\"\\n#"))) const char J = 0;'
    ),
    "incbin by an operand": (
        "static char bin;\n"
        'void g(void) { __asm__(".pushsection .rodata\\n.inc%c0 \\"@\\"\\n.popsection" :: "i"(&bin)); }'
    ),
    "machine options in the text": '#pragma GCC optimize("O1")\nint g(void) { return 1; }',
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", TEXT_HAS_MORE)
def test_a_text_that_is_not_all_is_always_compiled(tmp_path: Path, tool: Tool, folder: Path, case: str) -> None:
    (tmp_path / "data").write_text("# nothing\n")
    text = TEXT_HAS_MORE[case].replace("@", str(tmp_path / "data")) + "\nint one(void) { return 1; }\n"
    make = export(tool, tmp_path / "o.so", text)
    make()
    assert tool.compiles(make) == 1  # but what we wrote ourselves is not


def test_a_time_of_the_caller_is_part_of_the_text(tmp_path: Path, tool: Tool, folder: Path) -> None:
    make = export(tool, tmp_path / "o.so", "int t(void) { return __TIME__; }\n",
                  options="-Wno-builtin-macro-redefined -D__TIME__=7")  # fmt: skip
    make()
    assert tool.compiles(make) == 0
    assert mblob.load_module(tmp_path / "o.so").symbol("t", ctypes.c_int, [])() == 7


def test_assembler_without_files_is_kept(tmp_path: Path, tool: Tool, folder: Path) -> None:
    text = 'int g(int a) { __asm__ volatile("nop\\n\\t" "nop" : "+r"(a) : : "memory"); return a; }\n'
    make = export(tool, tmp_path / "o.so", text)
    make()
    assert tool.compiles(make) == 0


@pytest.mark.parametrize("options", ["-MMD", "-g3", "-save-temps=obj"])
def test_options_that_write_or_hide_more_are_always_compiled(
    tmp_path: Path, tool: Tool, folder: Path, options: str
) -> None:
    make = export(tool, tmp_path / "o.so", options=[options])
    make()
    assert tool.compiles(make) > 0


def test_files_with_options_are_always_read(tmp_path: Path, gnu: Tool) -> None:
    specs = tmp_path / "s.specs"
    specs.write_text("*asm:\n+ --defsym K=1\n\n")
    make = export(gnu, tmp_path / "o.so", options=[f"-specs={specs}"])
    make()
    specs.write_text("*asm:\n+ --defsym K=2\n\n")
    assert gnu.compiles(make) > 0


def test_a_compiler_that_does_not_tell_what_it_runs_always_compiles(tmp_path: Path, gnu: Tool) -> None:
    gnu.path.write_text(gnu.path.read_text().replace("sh\n", 'sh\n[ "$1" = -### ] && exit 1\n', 1))
    make = export(gnu, tmp_path / "o.so")
    make()
    assert gnu.compiles(make) > 0


def test_errors_are_those_of_the_source(tmp_path: Path, tool: Tool, folder: Path) -> None:
    for _ in range(2):
        with pytest.raises(mblob.ToolchainError, match=r"error.*expected") as caught:
            export(tool, tmp_path / "o.so", "int f( { return 1; }\n")()
        assert "-c" in caught.value.command


def test_a_source_that_changes_while_it_is_compiled_is_not_kept(tmp_path: Path, folder: Path) -> None:
    """The compiler sees a text that its key is not made of."""
    source = tmp_path / "n.c"
    source.write_text("int n(void) { return 1; }\n")
    compiler = tmp_path / "slowcc"
    compiler.write_text(
        f'#!/bin/sh\nfor a in "$@"; do case "$a" in -c) compiles=1;; */n.c) ours=1;; esac; done\n'
        f'[ "$compiles$ours" = 11 ] && echo "int n(void) {{ return 2; }}" > {source}\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    mblob.csource_module(source).export_library(tmp_path / "o.so", cc=str(compiler))
    source.write_text("int n(void) { return 1; }\n")
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n')
    mblob.csource_module(source).export_library(tmp_path / "o.so", cc=str(compiler))
    assert mblob.load_module(tmp_path / "o.so").symbol("n", ctypes.c_int, [])() == 1


# -- texts --------------------------------------------------------------------------------------------------

HEADER = b'# 1 "/usr/include/x.h" 1 3 4\n%b\n# 2 "a.c" 2\n'
PRAGMA = b'#pragma GCC target ("avx2")\n'


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (PRAGMA, True),
        (HEADER % PRAGMA, False),  # of a system header, which does not change
        (HEADER % b"" + PRAGMA, True),
        (b"#embed <x>\n", True),
        (b'#embed "." __gnu__::__base64__("AAAA")\n', False),
        (b"int asm_count;\n", False),
        (b'int x __asm__("y");\n', False),
        (b'__asm__(".byte 1\\n.ascii \\"\\\\0x\\"");\n', False),
        (b'__asm__(R"(.incbin "x")");\n', True),
        (b'__asm__("nop" R"(.incbin "x")");\n', True),
        (b'__asm__(".inc"\n# 3 "a.c"\n"bin \\"x\\"");\n', True),
        (b'extern int z __asm__("x\\n.in\\143bin \\"k\\"");\n', True),
        (b'#ident "x\\n\\056include \\"k\\""\n', True),
        (b'u8".inc" u8R"a(bin)a"', True),
        (b"""int a = 1'0; char s[] = ".inc" "bin"; char c = 'c';""", True),
        (b'asm(".inc{bin|x} \\"k\\"");', True),
        (b'asm("{x|.inc}bin \\"k\\"");', True),
        (b'asm("mov %c0bin, %1" :: "i"(&z));', True),
        (b'asm("%c[a]%c[b]" :: "i"(&z));', True),
        (b'asm(words);', True),
        (b'asm("mov %10, %1\\n.Lend%=: add %0.4s, %1.4s" : : );', False),
        (b'asm("mov.b64 {%0,%1}, %2;" : );', False),
        (b'asm("vaddps %1, %2, %0 %{%3%}; movl %%eax, %1" : );', False),
        (b'puts("a macro\\n"); puts("\\x1b[31m\\0"); c = \'"\';', False),
    ],
)
def test_what_a_text_depends_on(text: bytes, more: bool) -> None:
    assert compile_key._depends_on_more(text) is more
