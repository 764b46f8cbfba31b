"""Sound files that compilers, linkers and assemblers write, however odd: nothing of it is taken for
damage."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.compilers import include_flags
from tests.e2e.damage.test_c_elf import damaged, judge_refuses, open_error
from tests.e2e.damage.test_refused_elf import PT_GNU_RELRO, PT_LOAD, relocation, segments
from tests.e2e.programs import ROOT, run

x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these are forms of x86-64")

SOUND = {
    "thread storage of one file, by gold": (
        "static __thread int a = 1; static __thread long b[4];"
        " int f(int x) { b[x & 3] += x; return a++ + (int)b[x & 3]; }",
        ["-O0", "-fuse-ld=gold"],
    ),
    "packed relocations of each section, by mold": (
        "static int x[9]; static int *const a[] = {x, 0, x + 1, 0, 0, x + 2}; int *b = x, *c[] = {0, x + 3};"
        " int f(int i) { return *a[2] + *b + *c[1] + i; }",
        ["-nostdlib", "-fuse-ld=mold", "-Wl,-z,pack-relative-relocs"],
    ),
    "a constructor that is chosen": (
        "static int done; static void run(void) { done = 1; } static void *choose(void) { return (void *)run; }"
        ' static void chosen(void) __attribute__((ifunc("choose")));'
        ' __attribute__((section(".init_array"), used)) static void (*const start[])(void) = {chosen};'
        " int f(int x) { return x + done; }",
        ["-w"],
    ),
    "absolute symbols with types": (
        '__asm__(".globl at, of\\n.type at,@function\\n.set at,0x1234\\n"'
        ' ".type of,@object\\n.size of,8\\n.set of,0x1234");'
        " int f(int x) { return x; }",
        [],
    ),
    "sizes of symbols": (
        "int data[7]; __thread int local[5]; extern int rand(void); extern char sizes[];"
        ' __asm__(".data\\n.globl sizes\\nsizes: .quad data@size, local@size + 1\\n.long rand@size\\n.text");'
        " int f(int x) { return x + sizes[0]; }",
        [],
    ),
    "variables of the loader that have values, and pointers that are not aligned": (
        "static int x; void *__tvm_module_ctx = &x; int y; void *__TVMFuncCall = &y;"
        " struct __attribute__((packed)) { char c; int *p, *q; } data = {1, &x, &y};"
        " int f(int i) { return *data.p + *data.q + i; }",
        [],
    ),
    "packed variables of the loader": (
        "static int x; void *__tvm_module_ctx = &x; int f(int i) { return i + !__tvm_module_ctx; }",
        ["-Wl,-z,pack-relative-relocs"],
    ),
    "offsets of thread storage that the linker knows": (
        "__thread int a = 1, b; int f(int i) { return i + a + b; }",
        ["-fuse-ld=lld", "-Wl,-Bsymbolic", "-ftls-model=global-dynamic"],
    ),
    "a descriptor of a variable of another library": (
        "extern __thread int elsewhere; int f(int x) { return x + elsewhere; }",
        ["-mtls-dialect=gnu2", "-Wl,-z,lazy", "-L.", "-lelsewhere"],
    ),
}


@x86_64
@pytest.mark.parametrize("kind", SOUND)
def test_what_compilers_and_linkers_write_is_accepted(
    tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str], kind: str
) -> None:
    source, flags = SOUND[kind]
    if "-L." in flags:
        cc("__thread int elsewhere = 5;", tmp_path / "libelsewhere.so")
        flags = [flag.replace("-L.", f"-L{tmp_path}") for flag in flags] + ["-Wl,-rpath,$ORIGIN"]
    for flag in flags:
        if flag.startswith("-fuse-ld="):
            require(flag.replace("-fuse-ld=", "ld."))
    library = cc(source, tmp_path / "sound.so", *flags)
    assert not judge_refuses(library.read_bytes())
    mblob.load_module(library).symbol("f")


def test_one_variable_may_be_the_context_of_several_forms(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    alias = '__attribute__((alias("__tvm_module_ctx")))'
    library = cc(
        f"void *__tvm_module_ctx; extern void *__tvm_ffi__library_ctx {alias};", tmp_path / "f.so"
    )
    assert not judge_refuses(library.read_bytes())
    assert damaged(built, library, "check", [[]]) == ["accepted "]


@pytest.mark.parametrize(
    "flags", [["-nostdlib", "-Wl,-N", "-w"], ["-Wl,-z,noseparate-code"]], ids=["writable", "code"]
)
def test_code_and_data_behind_the_symbols_of_a_library_that_exports_nothing(
    built: Path, tmp_path: Path, cc: Callable[..., Path], flags: list[str]
) -> None:
    """No hash table counts its symbols, and nothing but relocations tells where they end."""
    (tmp_path / "map").write_text("{ local: *; };")
    source = "extern int rand(void); static int x, *p = &x; int (*q)(void) = rand;"
    source += " __attribute__((constructor)) static void run(void) { *p += q != 0; }"
    library = cc(source, tmp_path / "f.so", f"-Wl,--version-script={tmp_path}/map", *flags)
    assert not judge_refuses(library.read_bytes())
    # older dynamic linkers do not load -N
    assert damaged(built, library, "check", [[]]) == ["accepted "]


@x86_64
@pytest.mark.parametrize(("where", "is_sound"), [("code", True), ("data", False)])
def test_the_slot_of_a_call_may_tell_where_its_entry_is(
    tmp_path: Path, cc: Callable[..., Path], where: str, is_sound: bool
) -> None:
    """As `ld -z mark-plt` writes it, which Debian 13 has in libc: glibc ignores it."""
    source = "extern int rand(void); int data = 1; int code(void) { return rand() + data; }"
    library = cc(source, tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    symbol = next(s for s in ElfFile(memoryview(bytes(data))).dynsym if s.name == where)
    struct.pack_into("<Q", data, relocation(data, 7) + 16, symbol.st_value)  # R_X86_64_JUMP_SLOT
    assert bool(judge_refuses(bytes(data))) is not is_sound
    library.write_bytes(data)
    if is_sound:
        mblob.load_module(library).symbol("code")
    else:
        with pytest.raises(mblob.FormatError, match="no symbol, or an addend"):
            mblob.load_module(library)


@x86_64
def test_an_address_without_a_symbol_is_the_librarys(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """The dynamic linker adds the library's base, as in a relative relocation; where it leads is
    looked at."""
    source = "void *__tvm_module_ctx; int data[4] = {1, 2, 3, 4}, *pointer = data; int f(void) { return *pointer; }"
    library = cc(source, tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    at = relocation(data, 1)  # R_X86_64_64
    symbol = next(s for s in ElfFile(memoryview(bytes(data))).dynsym if s.name == "data")
    struct.pack_into("<IIQ", data, at + 8, 1, 0, symbol.st_value + 8)
    (tmp_path / "base.so").write_bytes(data)
    assert not judge_refuses(bytes(data))
    assert ctypes.CDLL(str(tmp_path / "base.so")).f() == 3
    mblob.load_module(tmp_path / "base.so").symbol("f")
    struct.pack_into("<Q", data, at + 16, 1 << 40)
    library.write_bytes(data)
    assert "it points outside the library, to 0x10000000000" in open_error(built, library)
    with pytest.raises(mblob.FormatError, match="it points outside the library, to 0x10000000000"):
        mblob.verify(library)


def test_a_read_only_dynamic_section_is_for_glibc_2_35_and_later(
    built: Path, tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str]
) -> None:
    require("ld.lld")
    source = "void *__tvm_module_ctx; int x = 3, *p = &x; int f(void) { return *p; }"
    library = cc(source, tmp_path / "f.so", "-fuse-ld=lld", "-Wl,-z,rodynamic")
    assert not judge_refuses(library.read_bytes())
    old = cc('const char *gnu_get_libc_version(void) { return "2.34"; }', tmp_path / "old.so")
    command = [built / "plain" / "golden_host", tmp_path, "f.so"]
    done = subprocess.run(
        command, env={**os.environ, "LD_PRELOAD": str(old)}, capture_output=True, text=True
    )
    assert "dynamic linkers write into it; link without -z rodynamic" in done.stderr
    if (os.confstr("CS_GNU_LIBC_VERSION") or "").split() >= ["glibc", "2.35"]:
        assert mblob.load_module(library).symbol("f")
        assert "read_only_dynamic" in {d["code"] for d in mblob.open(library).diagnostics}


# -- what linkers write ----------------------------------------------------------------------------

LINKERS = {
    "bfd": ["-fuse-ld=bfd"], "gold": ["-fuse-ld=gold"], "lld": ["-fuse-ld=lld"], "mold": ["-fuse-ld=mold"],
    "sysv": ["-Wl,--hash-style=sysv"], "now": ["-Wl,-z,now"], "norelro": ["-Wl,-z,norelro"],
    "one-segment": ["-Wl,-z,noseparate-code"], "large-pages": ["-Wl,-z,max-page-size=65536"], "stripped": ["-s"],
    "packed": ["-Wl,-z,pack-relative-relocs"], "lld-large-pages": ["-fuse-ld=lld", "-Wl,-z,max-page-size=65536"],
    "lld-pages-of-16-KiB": ["-fuse-ld=lld", "-Wl,-z,max-page-size=16384,-z,common-page-size=16384"],
    "lld-pages-of-64-KiB": ["-fuse-ld=lld", "-Wl,-z,max-page-size=65536,-z,common-page-size=65536"],
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("flags", LINKERS.values(), ids=LINKERS)
def test_sound_libraries_of_all_linkers_open(
    built: Path,
    tmp_path: Path,
    cc: Callable[..., Path],
    require: Callable[[str], str],
    flags: list[str],
) -> None:
    """The checks of the dynamic section must not refuse what a linker writes."""
    for flag in flags:
        if flag.startswith("-fuse-ld="):
            require(flag.replace("-fuse-ld=", "ld."))
    source = (ROOT / "tests" / "c" / "kernels" / "plain.c").read_text()
    library = cc(source, tmp_path / "linked.so", *include_flags(), *flags)
    assert not judge_refuses(library.read_bytes())
    found = run(built / "plain" / "golden_host", tmp_path, "linked.so").stdout
    assert json.loads(found) == {"type_key": "library", "imports": []}


PAGES = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).f(1))
"""


def opens(library: Path) -> bool:
    """Whether the dynamic linker opens it, and its function gives 2; in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PAGES, library], capture_output=True, text=True)
    return done.stdout == "2\n" and not done.returncode


@x86_64
def test_a_segment_may_ask_for_more_than_the_page_that_it_starts_at(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """As patchelf 0.18 leaves a library with weights: glibc maps pages."""
    library = cc("int v = 1; int f(int x) { return x + v; }", tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    for at, s in segments(data):
        if s[0] == PT_LOAD:
            struct.pack_into("<Q", data, at + 48, 1 << 21)
    assert any((s[3] - s[2]) % (1 << 21) for _, s in segments(data) if s[0] == PT_LOAD)
    library.write_bytes(data)
    assert opens(library) or os.confstr("CS_GNU_LIBC_VERSION") < "glibc 2.35"  # which refuse it
    assert damaged(built, library, "check", [[]]) == ["accepted "]
    assert not judge_refuses(bytes(data))


# Bytes that become read-only, where segments begin at multiples of 16 KiB: the last one begins at
# 0xc000 and what becomes read-only behind 0x8000.
READ_ONLY = {
    "to the next segment": 0x3FFF,
    "two pages of it": 0x5FFF,
    "all": 0x20000,
    "others": 0x1000000,
}


@x86_64
@pytest.mark.parametrize("behind", [True, False], ids=["data-behind", "at-the-end"])
@pytest.mark.parametrize("size", READ_ONLY.values(), ids=READ_ONLY)
def test_what_becomes_read_only_may_reach_into_the_hole_behind_it(
    built: Path,
    tmp_path: Path,
    cc: Callable[..., Path],
    require: Callable[[str], str],
    size: int,
    behind: bool,
) -> None:
    """Linkers round its end to the pages of any machine. glibc takes the same libraries."""
    require("ld.lld")
    source = "static const int z = 1; const int *const t[] = {&z, &z};" + (
        " int big[20000], v = 1; int f(int x) { v += x; return big[0] + v; }"
        if behind
        else " int f(int x) { return x + *t[1]; }"
    )
    pages = "-Wl,-z,max-page-size=16384,-z,common-page-size=16384,-z,now"
    library = cc(source, tmp_path / "f.so", "-nostdlib", "-fuse-ld=lld", pages)
    data = bytearray(library.read_bytes())
    at = next(at for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    struct.pack_into("<Q", data, at + 40, size)
    library.write_bytes(data)
    sound = behind and size == READ_ONLY["to the next segment"]
    assert opens(library) is sound
    said = damaged(built, library, "check", [[]])
    assert (said == ["accepted "], not judge_refuses(bytes(data))) == (sound, sound)
