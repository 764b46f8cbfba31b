"""Which exported symbols are listed as functions, with the loader as the judge."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.cli.main import main

MODULE = 'extern const char __tvm_main__[];\nconst char __tvm_main__[] = "typed";\nint typed(void) { return 0; }\n'
ASSEMBLY = r"""
__asm__(".text\n"
        ".globl untyped\nuntyped: .byte 0x31, 0xc0, 0xc3\n"
        ".weak weak_one\nweak_one: .byte 0x31, 0xc0, 0xc3\n"
        "local_one: .byte 0xc3\n"
        ".globl hidden_one\n.hidden hidden_one\nhidden_one: .byte 0xc3\n"
        ".globl etext\netext: .byte 0xc3\n"
        ".globl _start\n_start: .byte 0xc3\n"
        ".globl __start_of\n__start_of: .byte 0xc3\n"
        ".globl $x\n$x: .byte 0xc3\n"
        ".globl absolute\n.set absolute, 0x1000\n"
        ".section .rodata\n.globl constants\nconstants: .quad 1\n"
        ".data\n.globl numbers\nnumbers: .quad 1\n"
        ".section .kernels,\"ax\"\n.globl elsewhere\nelsewhere: .byte 0x31, 0xc0, 0xc3\n.text\n");
static int chosen(void) { return 0; }
static void *choose(void) { return chosen; }
int by_processor(void) __attribute__((ifunc("choose")));
"""
LISTED = ["by_processor", "elsewhere", "typed", "untyped", "weak_one"]


def functions(path: Path) -> list[str]:
    with mblob.open(path) as library:
        return library.functions


def callable_ones(path: Path, names: list[str]) -> list[str]:
    """Which of these functions mblob's loader finds and calls."""
    script = (
        "import sys, mblob\nm = mblob.load_module(sys.argv[1])\n"
        "for n in sys.argv[2:]:\n    if m.implements_function(n): m[n](); print(n)\n"
    )
    command = [sys.executable, "-c", script, path, *names]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture
def assembled(cc, tmp_path: Path) -> Path:
    return cc(MODULE + ASSEMBLY, tmp_path / "f.so")


@pytest.mark.parametrize("linker", ["", "bfd", "gold", "lld", "mold"])
def test_code_without_a_type_is_a_function(
    cc, tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    flags = []
    if linker:
        require(f"ld.{linker}")
        flags = [f"-fuse-ld={linker}"]
    path = cc(MODULE + ASSEMBLY, tmp_path / "f.so", *flags)
    assert functions(path) == LISTED
    assert callable_ones(path, LISTED) == LISTED
    # which always does so: constants lie in the segment of code, not in its sections
    if linker != "gold":
        flags.append("-Wl,-z,noseparate-code")
    assert functions(cc(MODULE + ASSEMBLY, tmp_path / "g.so", *flags)) == LISTED


def test_without_sections_segments_tell(assembled: Path, tmp_path: Path) -> None:
    data = bytearray(assembled.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    bare = tmp_path / "bare.so"
    bare.write_bytes(data)
    assert functions(bare) == LISTED


def test_objects_and_archives(cc, assembled: Path, tmp_path: Path) -> None:
    source = assembled.with_suffix(".c")
    subprocess.run(["cc", "-c", "-fPIC", source, "-o", tmp_path / "f.o"], check=True)
    shutil.copy(tmp_path / "f.o", tmp_path / "one.o")
    subprocess.run(["ar", "rcs", tmp_path / "f.a", tmp_path / "one.o"], check=True)
    subprocess.run(["tar", "-C", tmp_path, "-cf", tmp_path / "f.tar", "one.o"], check=True)
    for name in ("f.o", "f.a", "f.tar"):
        assert functions(tmp_path / name) == sorted(LISTED), name


def test_other_machines(require: Callable[[str], str], tmp_path: Path) -> None:
    source = tmp_path / "a.S"
    source.write_text(
        ".globl __tvm_module_ctx\n.comm __tvm_module_ctx,8,8\n.text\n.globl kernel\nkernel: nop\n.globl $d\n$d: nop\n"
        ".data\n.globl numbers\nnumbers: .long 1\n"
    )
    found = 0
    for compiler in ("aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc", "s390x-linux-gnu-gcc"):
        if shutil.which(compiler) is None:
            continue
        found += 1
        path = tmp_path / f"{compiler}.so"
        subprocess.run(
            [compiler, "-shared", "-nostdlib", "-x", "assembler", source, "-o", path], check=True
        )
        assert functions(path) == ["kernel"], compiler
    if not found:
        pytest.skip("no compiler for another machine is installed")


def test_versions_that_are_not_the_default_are_found_by_nobody(cc, tmp_path: Path) -> None:
    script = tmp_path / "v.map"
    script.write_text("V1 { global: *; };\nV2 { } V1;\n")
    names = [f"both_{i}" for i in range(20)]  # linkers put now the one, now the other version first
    source = MODULE + '__asm__(".symver gone_one,gone@V1");\nint gone_one(void) { return 0; }\n'
    for i, name in enumerate(names):
        source += f'__asm__(".symver old_{i},{name}@V1"); __asm__(".symver new_{i},{name}@@V2");\n'
        source += f"int old_{i}(void) {{ return -1; }} int new_{i}(void) {{ return 0; }}\n"
    path = cc(source, tmp_path / "v.so", f"-Wl,--version-script={script}")
    listed = functions(path)
    assert {"typed", *names} <= set(listed) and "gone" not in listed
    assert callable_ones(path, [*names, "gone", "typed"]) == [*names, "typed"]


def test_the_command_line_lists_them(assembled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(assembled), "--functions"]) == 0
    assert capsys.readouterr().out.split() == LISTED


def test_what_compilers_find_code_with_is_no_function(tmp_path: Path) -> None:
    """Objects for i386 have it, as a function."""
    text = "int x; int f(void) { return x; }\n"
    text += '__asm__(".globl __x86.get_pc_thunk.bx\\n.type __x86.get_pc_thunk.bx,@function\\n'
    text += '__x86.get_pc_thunk.bx: ret\\n");\n'
    (tmp_path / "f.c").write_text(text)
    subprocess.run(["cc", "-c", "-fPIC", tmp_path / "f.c", "-o", tmp_path / "f.o"], check=True)
    with mblob.open(tmp_path / "f.o") as lib:
        assert [f.symbol for f in lib.host_functions] == ["f"]


# -- tables that tell what is not so ---------------------------------------------------------------

TABLE = """
typedef int code(void *, int *, int, void *, int *, void *);
#define PACKED int *c, int n, void *r, int *rc, void *x) { (void)c, (void)n, (void)r, (void)rc, (void)x;
int there(void *a, PACKED return a == 0; }
int plain_one(int x) { return x; }
int data_one = 3;
__attribute__((visibility("hidden"))) int hidden_one(void *a, PACKED return a == 0; }
code *const used = hidden_one;
extern const char __mblob_functions[];
const char __mblob_functions[] = "mblob functions 1\\n" ROWS;
"""
LOST = {
    "gone": "gone__packed",
    "hid": "hidden_one",
    "datum": "data_one",
    "plain_gone": "plain_lost",
}
ROWS = (
    "there\tthere\tpacked\t0\t?",
    "plain_one\tplain_one\tplain\t0\tint",
    *(
        f"{name}\t{symbol}\t{'plain' if 'plain' in name else 'packed'}\t0\t?"
        for name, symbol in LOST.items()
    ),
)


@pytest.fixture
def with_table(cc: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A library with a table of such rows."""

    def make(*rows: str) -> Path:
        text = "".join(row.replace("\t", "\\t") + "\\n" for row in rows)
        return cc(f'#define ROWS "{text}"\n{TABLE}', tmp_path / "table.so")

    return make


@pytest.mark.parametrize("name", LOST)
def test_a_function_that_a_table_makes_up_is_told_with_its_symbol(
    with_table: Callable[..., Path], name: str
) -> None:
    from mblob.native.runtime import ffi
    from mblob.native.runtime import lib as runtime

    module = mblob.load_module(with_table(*ROWS))
    for ask in (module.__getitem__, module.get_function):
        with pytest.raises(mblob.NotFoundError) as caught:
            ask(name)
        text, what = str(caught.value), f"the symbol {LOST[name]!r}, and the library has no such"
        assert text.startswith(f"module 'library' has no function {name!r}; it has: there; ")
        assert what in text and "plain C" not in text
    out = ffi.new("mblob_function **")
    for imports in (0, 1):
        runtime.mblob_module_function(module._node.handle, name.encode(), imports, out)
        assert ffi.string(runtime.mblob_last_error()).decode() == text
    with pytest.raises(mblob.NotFoundError, match=r"'nope'; it has: there$"):
        module["nope"]
    with pytest.raises(mblob.NotFoundError, match="plain_one' is a plain C function"):
        module["plain_one"]


def test_lists_leave_out_what_a_table_makes_up(
    with_table: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_table(*ROWS)
    assert functions(path) == ["plain_one", "there"]
    assert list(mblob.load_module(path).functions) == ["there"]
    assert main(["inspect", "--functions", str(path)]) == 0
    assert capsys.readouterr().out == "there\nplain plain_one(int)\n"
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    told = ", ".join(f"{name} (symbol {symbol})" for name, symbol in LOST.items())
    for warnings in (
        [(d["code"], d["message"]) for d in mblob.open(path).diagnostics],
        mblob.verify(path, level="header").warnings,
        mblob.verify(path).warnings,
    ):
        (message,) = (text for code, text in warnings if code == "table_symbols")
        assert f"lists {told}, and it exports no such function" in message
        assert message in shown


SAME = (
    ("int", "int f(int)"), ("int", "void f(const int x)"), ("const float *", "void f(const float a[static n])"),
    ("float *, int64_t", "void f(float a[n][4], int64_t n)"), ("void", "int f(void)"), ("void", "int f()"),
    ("", "int f(void)"), ("unsigned", "void f(unsigned int x)"), ("long unsigned int", "void f(unsigned long)"),
    ("const my_t *, my_t", "void f(const my_t *, my_t x)"), ("?", "void f(int a, int b)"), ("int", ""),
    ("void *", "void f(void *restrict p)"), ("const char *", "char *f(const char *text)"),
    ("const struct vector<> &:object", "int f(const struct vector<> & v)"), ("struct Q *:8", "int f(struct Q *q)"),
)  # fmt: skip
DIFFERENT = (
    ("int", "int f(float x)"), ("int", "int f(int a, int b)"), ("int, int", "int f(int a)"), ("void", "int f(int a)"),
    ("int", "int f(void)"), ("float *", "int f(float a)"), ("float", "int f(float a[n])"),
    ("float *", "int f(const float a[n])"), ("const float *", "int f(float *a)"), ("int64_t", "int f(uint64_t n)"),
    ("long", "int f(long long n)"), ("int", "no prototype"), ("const my_t *", "void f(const your_t *p)"),
)  # fmt: skip


@pytest.mark.sample(8)
@pytest.mark.parametrize(("types", "prototype"), [*SAME, *DIFFERENT])
def test_a_prototype_that_contradicts_the_types_beside_it_is_told(
    with_table: Callable[..., Path], types: str, prototype: str
) -> None:
    row = f"there\tthere\tpacked\t0\t{types}"
    path = with_table(f"{row}\t{prototype}" if prototype else row)
    expected = [
        f"its table of functions has types and a prototype that differ: there: ({types}) and {prototype}"
    ]
    expected *= (types, prototype) in DIFFERENT
    for warnings in (
        [(d["code"], d["message"]) for d in mblob.open(path).diagnostics],
        mblob.verify(path, level="header").warnings,
    ):
        assert [text for code, text in warnings if code == "table_prototypes"] == expected
    assert mblob.load_module(path).implements_function("there")
