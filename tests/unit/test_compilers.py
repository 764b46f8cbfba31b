"""The one line of a tool's output that people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.compilers import first_error

pytestmark = pytest.mark.compiles

COLLECT = "\ncollect2: error: ld returned 1 exit status"
CLANG = "\nclang: error: linker command failed with exit code 1 (use -v to see invocation)"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        (
            "src/error/x.c:1:2: warning: odd\nsrc/error/x.c:3:4: error: bad\n",
            "src/error/x.c:3:4: error: bad",
        ),
        (
            "my-error.c:1: note\nx.c:1:10: fatal error: k.h: No such file",
            "x.c:1:10: fatal error: k.h: No such file",
        ),
        (f"ld: a.o: undefined reference to `f'{COLLECT}", "ld: a.o: undefined reference to `f'"),
        (COLLECT, "collect2: error: ld returned 1 exit status"),
        ("compilation terminated.", "compilation terminated."),
        ("\n  words\nmore\n", "words"),
        # What a line of source that a warning quotes says is not what the compiler says.
        (
            'x.c:1:2: warning: odd\n    1 | f("an error");\nx.c:9:1: error: bad',
            "x.c:9:1: error: bad",
        ),
        (
            "x.c: In function 'f':\nx.c:1:2: warning: an error?\nx.c:3:1: error: bad",
            "x.c:3:1: error: bad",
        ),
    ],
)
def test_it_is_the_line_that_says_most(output: str, line: str) -> None:
    assert first_error(output) == line


# What gcc 12, clang 14, GNU ld 2.40, gold, lld 14, mold 1.10 and GNU as printed: `>` marks the line
# that tells.
RECORDED = {
    "collect2 without a linker": "> collect2: fatal error: cannot find 'ld'\ncompilation terminated.",
    "collect2, ld was killed": "> collect2: fatal error: ld terminated with signal 9 [Killed]\ncompilation terminated.",
    "gcc without as": (
        "> gcc: fatal error: cannot execute 'as': execvp: No such file or directory\ncompilation terminated."
    ),
    "gcc without a header": (
        "In file included from a.h:2,\n                 from i.c:3:\n"
        "> b.h:1:10: fatal error: nope.h: No such file or directory\n    1 | #include <nope.h>\n"
        "      |          ^~~~~~~~\ncompilation terminated."
    ),
    "clang without ld": f'> clang: error: unable to execute command: Executable "ld" doesn\'t exist!{CLANG}',
    "clang without a header": "> i.c:1:10: fatal error: 'nope.h' file not found\n#include <nope.h>\n1 error generated.",
    "as": "/tmp/cc.s: Assembler messages:\n> /tmp/cc.s:4: Error: no such instruction: `nope x'",
    "clang with as": (
        "/tmp/as.s: Assembler messages:\n> /tmp/as.s:4: Error: no such instruction: `nope x'\n"
        "clang: error: assembler command failed with exit code 1 (use -v to see invocation)"
    ),
    "bfd, no library": f"> /usr/bin/ld: cannot find -lnope: No such file or directory{COLLECT}",
    "bfd, no script, after a warning": (
        "/usr/bin/ld: warning: a.o: missing .note.GNU-stack section implies executable stack\n"
        "/usr/bin/ld: NOTE: This behaviour is deprecated and will be removed in a future version of the linker\n"
        f"> /usr/bin/ld: cannot open linker script file nope.ld: No such file or directory{COLLECT}"
    ),
    "bfd, nothing defines it": (
        "/usr/bin/ld: warning: cannot find entry symbol nope; defaulting to 0000000000001050\n"
        f"/usr/bin/ld: a.o: in function `f':\n> a.c:(.text+0x5): undefined reference to `g'{COLLECT}"
    ),
    "bfd, a text": (
        "> /usr/bin/ld:text.o: file format not recognized; treating as linker script\n"
        f"/usr/bin/ld:text.o:0: syntax error{COLLECT}"
    ),
    "bfd, another machine": (
        "/usr/bin/ld: arm.o: Relocations in generic ELF (EM: 183)\n"
        f"> /usr/bin/ld: arm.o: error adding symbols: file in wrong format{COLLECT}"
    ),
    "gold": (
        "/usr/bin/ld.gold: warning: a.o: missing .note.GNU-stack section\n"
        "> /usr/bin/ld.gold: error: cannot open nope.ld: No such file or directory\n"
        f"/usr/bin/ld.gold: fatal error: unable to parse script file nope.ld{COLLECT}"
    ),
    "gold, an option": (
        "> /usr/bin/ld.gold: --nope: unknown option\n"
        f"/usr/bin/ld.gold: use the --help option for usage information{COLLECT}"
    ),
    "lld": f"ld.lld: warning: unknown -z value: nope\n> ld.lld: error: unable to find library -lnope{CLANG}",
    "mold": f"mold: warning: unknown command line option: -z nope\n> mold: fatal: library not found: nope{COLLECT}",
    "link time optimization": (
        "> k.c:1:5: fatal error: bytecode stream in file 'a.o' generated with LTO version 11.3\n"
        f"compilation terminated.\nlto-wrapper: fatal error: gcc returned 1 exit status{COLLECT}"
    ),
}


@pytest.mark.parametrize("case", RECORDED)
def test_a_tool_that_only_repeats_another_is_not_shown(case: str) -> None:
    marked = next(line for line in RECORDED[case].splitlines() if line.startswith("> "))
    assert first_error(RECORDED[case].replace("\n> ", "\n").removeprefix("> ")) == marked[2:]


MISSING = [
    ("gcc", "-fuse-ld=lld", r"ld\.lld"),
    ("gcc", "-fuse-ld=gold", r"ld\.gold"),
    (
        "gcc",
        "-fuse-ld=nope",
        r"-fuse-ld=nope names 'nope', a linker that this compiler does not know; expected",
    ),
    ("gcc", "-fuse-ld=/no/ld", r"names '/no/ld', a linker that this compiler does not know"),
    ("gcc", "-fuse-ld=", r"-fuse-ld= names no linker; expected one such as bfd"),
    ("clang", "-fuse-ld=nope", r"-fuse-ld=nope needs ld\.nope, which is not installed"),
    ("clang", "-fuse-ld=/nope/ld", "-fuse-ld=/nope/ld needs /nope/ld, which"),
    ("clang", "--ld-path=/nope/ld", "--ld-path=/nope/ld needs /nope/ld, which"),
    *(
        (compiler, options, name)
        for compiler in ("gcc", "clang")
        for options, name in {
            "-lmblob_nope": "mblob_nope",
            "-Wl,-T,nope.ld": r"nope\.ld",
            "-Wl,--version-script=nope.map": r"nope\.map",
            "-include nope.h": r"nope\.h",
        }.items()
    ),
]


@pytest.mark.parametrize(("compiler", "options", "name"), MISSING)
def test_an_error_names_what_is_missing(
    tmp_path: Path, require: Callable[[str], str], compiler: str, options: str, name: str
) -> None:
    """PATH has `as` and `ld` alone: the other linkers are not installed."""
    (tmp_path / "bin").mkdir()
    for tool in ("as", "ld"):
        (tmp_path / "bin" / tool).symlink_to(require(tool))
    command = f"env PATH={tmp_path}/bin {require(compiler)}"
    with pytest.raises(mblob.ToolchainError, match=name) as caught:
        mblob.csource_module("int f;").export_library(
            tmp_path / "x.so", cc=command, options=options
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tool", ["as", "ld"])
def test_an_error_names_the_program_that_the_compiler_does_not_find(
    tmp_path: Path, require: Callable[[str], str], tool: str
) -> None:
    for name in {"as", "ld"} - {tool}:
        (tmp_path / name).symlink_to(require(name))
    with pytest.raises(mblob.ToolchainError, match=f"(find|execute) '{tool}'"):
        mblob.csource_module("int f;").export_library(
            tmp_path / "x.so", cc=f"env CCACHE_DISABLE=1 PATH={tmp_path} {require('gcc')}"
        )
