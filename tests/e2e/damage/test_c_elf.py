"""Libraries as the C runtime meets them: damaged ones are refused before they run, sound ones of
all linkers open."""

from __future__ import annotations

import os
import platform
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_VERDEF,
    DT_VERDEFNUM,
    DT_VERNEED,
    PF_X,
    PT_DYNAMIC,
    Segment,
)
from mblob.errors import FormatError, IncompatibleError
from mblob.inspect.elf_judge import check_elf
from tests.e2e.damage.elf_damage import Change, several, single, text
from tests.e2e.programs import ROOT, run

# -- old headers -----------------------------------------------------------------------------------

# What the <elf.h> of glibc 2.31 (Debian 11) lacks of what a reader of libraries may name, and what
# other libcs lack.
NEWER = ("DF_1_PIE", "DT_RELR", "DT_RELRENT", "DT_RELRSZ", "DT_TLSDESC_GOT", "DT_TLSDESC_PLT", "EM_INTELGT",
         "EM_LOONGARCH", "PT_GNU_PROPERTY", "R_RISCV_IRELATIVE", "R_RISCV_TLSDESC", "SHT_RELR")  # fmt: skip


@pytest.mark.parametrize(
    "compiler", ["", pytest.param("riscv64-linux-gnu-gcc", marks=pytest.mark.slow)]
)
def test_the_c_runtime_compiles_with_the_elf_header_of_debian_11(
    tmp_path: Path, require: Callable[[str], str], compiler: str
) -> None:
    lines = ["#include_next <elf.h>", *(f"#undef {name}" for name in NEWER)]
    (tmp_path / "elf.h").write_text("".join(f"{line}\n" for line in lines))
    users = [
        f
        for f in (ROOT / "csrc").glob("**/*.c")
        if "elf.h>" in f.read_text() or f.parent.name == "elf"
    ]
    assert len(users) > 5
    command = [require(compiler or os.environ.get("CC") or "cc"), "-fsyntax-only", "-std=gnu11"]
    folders = [
        f"-I{ROOT}/csrc/{name}"
        for name in ("include", "include/mblob/compat", "src", "plugins/common")
    ]
    done = subprocess.run(
        [*command, f"-I{tmp_path}", *folders, *users], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- damage ----------------------------------------------------------------------------------------


def test_a_library_cut_anywhere_is_refused(built: Path, tmp_path: Path) -> None:
    data = (built / "lib" / "keyed.so").read_bytes()
    cuts = {*range(0, 64), *range(64, len(data), 97), *range(len(data) - 20, len(data))}
    file = tmp_path / "cut.so"
    for cut in sorted(cuts):
        file.write_bytes(data[:cut])
        with pytest.raises(mblob.FormatError) as refused:
            mblob.load_module(file)
        assert "elf" in refused.value.code, cut
        file.unlink()  # another file next time: libraries are told apart by their inode
    file.write_bytes(data[: len(data) // 2])
    assert "is it an incomplete copy?" in open_error(built, file)


def damaged(built: Path, library: Path, verb: str, changes: list[Change]) -> list[str]:
    """What damage_library.c says to each change."""
    lines = "".join(f"{text(c)}\n" for c in changes)
    command = [built / "plain" / "damage_library", library, verb]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, errors="replace")
    found = [line for line in done.stdout.splitlines() if line.split(" ")[0] in SAYS]
    assert (done.returncode, len(found)) == (0, len(changes)), done
    return found


def open_error(built: Path, library: Path) -> str:
    """The error of opening the library; a crash is a failure."""
    done = subprocess.run(
        [built / "plain" / "golden_host", library.parent, library.name],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done
    return done.stderr.partition("last error: ")[2].strip()


def refused_by_both(built: Path, library: Path, expected: str) -> None:
    """A C program that opens the library, and `verify`, tell an error that the pattern is in."""
    assert re.search(expected, open_error(built, library))
    with pytest.raises(FormatError, match=expected):
        mblob.verify(library)


SAYS = ("accepted", "refused", "opened", "died", "crashed")


# The second is loaded from a copy in which its undefined symbols are bound.
@pytest.mark.sample(1)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])  # bits
@pytest.mark.parametrize(("name", "tables"), [("plain", 4), ("c_target", 2)])
def test_flipped_bits_of_elf_headers_and_tables_do_not_end_the_process(
    built: Path, name: str, tables: int, step: int
) -> None:
    library = built / "lib" / f"{name}.so"
    data = library.read_bytes()
    ranges = [range(64 + 56 * int.from_bytes(data[56:58], "little"))]
    for line in run("readelf", "-SW", library).stdout.splitlines():
        fields = line.partition("]")[2].split()
        if fields and fields[0] in (".gnu.hash", ".dynsym", ".gnu.version", ".gnu.version_r"):
            ranges.append(range(int(fields[3], 16), int(fields[3], 16) + int(fields[4], 16)))
    assert len(ranges) == 1 + tables
    for part in ranges:
        flips: list[Change] = [
            [(at, bytes([data[at] ^ 1 << bit]))] for at in part for bit in range(8)
        ]
        found = damaged(built, library, "load", flips[::step])
        assert {*found} == {"refused ", "opened"}, part


# -- lies in every field: the loader and `verify` are told the same, and what is accepted loads ------

KERNEL = """
#include <stdlib.h>
void *__tvm_module_ctx;
int data[4] = {1, 2, 3, 4}, *pointer = &data[2], zeros[3000];
__attribute__((constructor)) static void begin(void) { __asm__ volatile(""); }
__attribute__((destructor)) static void end(void) { __asm__ volatile(""); }
int vadd(void) { return __tvm_module_ctx ? abs(3) : *pointer; }
int other(void) { return 2; }
"""
THREAD = """
__thread int counter TLS = 3;
static __thread int own TLS;
int count(void) { return ++counter + own++; }
"""
INDIRECT = """
static int one(void) { return 1; }
static void *choose(void) { return (void *)one; }
int chosen(void) __attribute__((ifunc("choose")));
int use(void) { return chosen(); }
"""
MODEL = '#define TLS __attribute__((tls_model("{}")))'
KINDS = {
    "both-hashes": (KERNEL, ["-Wl,--hash-style=both", "-Wl,-z,lazy"]),
    "general-dynamic": (
        KERNEL + MODEL.format("global-dynamic") + THREAD,
        ["-Wl,--hash-style=sysv"],
    ),
    "local-dynamic": (KERNEL + MODEL.format("local-dynamic") + THREAD, ["-fuse-ld=gold"]),
    "initial-exec": (KERNEL + MODEL.format("initial-exec") + THREAD, ["-Wl,-z,now"]),
    "indirect": (KERNEL + INDIRECT, ["-Wl,-z,norelro"]),
    "packed": (KERNEL, ["-Wl,-z,pack-relative-relocs"]),
    "one-segment": (KERNEL, ["-nostdlib", "-Wl,-N"]),
    "lld": (KERNEL + MODEL.format("global-dynamic") + THREAD, ["-fuse-ld=lld"]),
    "mold": (KERNEL + INDIRECT, ["-fuse-ld=mold"]),
}
if platform.machine() == "x86_64":
    SIZES = '__asm__(".data\\n.quad data@size\\n.long zeros@size\\n.text");'
    KINDS["sizes"] = (KERNEL + SIZES, ["-Wl,-z,now"])
    KINDS["descriptors"] = (
        KERNEL + MODEL.format("global-dynamic") + THREAD,
        ["-mtls-dialect=gnu2"],
    )
# MBLOB_TEST_DAMAGE=all: every field with every value, and ten thousand times several (some
# minutes).
ALL = os.environ.get("MBLOB_TEST_DAMAGE") == "all"
SINGLE, SEVERAL = (10**9, 10_000) if ALL else (500, 100)
# These fields name code or data. A wrong name may lead into other code of the library, and that may
# crash. Only on x86-64 does damage_library.c tell a crash there from one in the dynamic linker.
TAKES_OTHER_CODE = re.compile(
    r"r_(sym|offset|addend|type)|st_(name|info|value|shndx)|tag 0x(2|c|d|17) d_val"
)
# The linker calls constructors. One that starts in the middle of other code may spoil the linker's
# registers.
STARTS_ELSEWHERE = re.compile(r"(?:r_addend|st_value|tag 0x[cd] d_val) = (0x[0-9a-f]+)")


@pytest.fixture
def library(
    request: pytest.FixtureRequest,
    cc: Callable[..., Path],
    tmp_path: Path,
    require: Callable[[str], str],
) -> Path:
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        pytest.skip("the fields of elf_damage.py are those of 64-bit little-endian files")
    source, flags = KINDS[request.param]
    for flag in flags:
        if flag.startswith("-fuse-ld="):
            require(flag.replace("-fuse-ld=", "ld."))
    return cc(source, tmp_path / "kernel.so", *flags)


def chosen(library: Path) -> list[tuple[str, Change]]:
    elf = ElfFile(memoryview(library.read_bytes()))
    one = list(single(elf))
    return [*random.Random(3).sample(one, min(SINGLE, len(one))), *several(elf, SEVERAL)]


def judge_refuses(data: bytes) -> bool:
    """Whether `verify` and the packer are told that the dynamic linker cannot take these bytes."""
    try:
        return not check_elf(memoryview(data))  # of another machine
    except FormatError as error:
        assert error.code in ("not_elf", "elf_header", "elf_truncated", "elf_dynamic")
        return True
    except IncompatibleError as error:
        assert "DF_1_NOOPEN" in str(error)
        return True


@pytest.mark.sample(4)
@pytest.mark.parametrize("library", KINDS, indirect=True)
def test_verify_refuses_what_the_loader_refuses(built: Path, library: Path) -> None:
    """Every number of the headers and tables, wrong alone and with others."""
    data, cases = library.read_bytes(), chosen(library)
    assert not judge_refuses(data)
    found = damaged(built, library, "check", [[], *(change for _, change in cases)])
    assert found[0] == "accepted "
    for (name, change), said in zip(cases, found[1:]):
        changed = bytearray(data)
        for at, value in change:
            changed[at : at + len(value)] = value
        assert judge_refuses(bytes(changed)) == said.startswith("refused"), name


def is_the_codes_own(name: str, said: str, code: list[Segment]) -> bool:
    """Whether the library's code ended the process, and not the dynamic linker."""
    if said.startswith("crashed") or platform.machine() != "x86_64":
        return TAKES_OTHER_CODE.search(name) is not None
    starts = [int(value, 16) for value in STARTS_ELSEWHERE.findall(name)]
    return any(s.p_vaddr <= at < s.p_vaddr + s.p_memsz for at in starts for s in code)


@pytest.mark.sample(2)
@pytest.mark.parametrize("library", KINDS, indirect=True)
def test_no_lie_ends_the_process_in_the_dynamic_linker(built: Path, library: Path) -> None:
    cases = chosen(library)
    found = damaged(built, library, "load", [change for _, change in cases])
    code = [s for s in ElfFile(memoryview(library.read_bytes())).segments if s.p_flags & PF_X]
    wrong = [
        (name, said)
        for (name, _), said in zip(cases, found)
        if said.startswith(("died", "crashed"))
    ]
    assert [(name, said) for name, said in wrong if not is_the_codes_own(name, said, code)] == []
    assert {said.split(" ")[0] for said in found} >= {"refused"}


@pytest.mark.skipif(
    sys.byteorder != "little" or sys.maxsize < 2**32, reason="records of 64-bit little-endian files"
)
@pytest.mark.parametrize(("count", "sound"), [(8000, True), (8192, False)])
def test_the_version_records_of_all_tables_are_counted_together(
    built: Path, tmp_path: Path, cc: Callable[..., Path], count: int, sound: bool
) -> None:
    """2^14 together: a definition is two records, and the library needs a version of abs."""
    (tmp_path / "map").write_text("V { f; room; };")
    source = (
        "#include <stdlib.h>\nint f(void) { return abs(rand()); } const char room[1 << 18] = {1};"
    )
    library = cc(source, tmp_path / "f.so", f"-Wl,--version-script={tmp_path}/map")
    data = bytearray(library.read_bytes())
    elf = ElfFile(memoryview(bytes(data)))
    assert DT_VERNEED in elf.dynamic
    room = next(s.st_value for s in elf.dynsym if s.name == "room")
    at = elf.offset_of(room, 1 << 18, "room")
    # vd_version, vd_flags, vd_ndx, vd_cnt, vd_hash, vd_aux, vd_next: all share one Verdaux
    for i in range(count):
        following = 20 if i < count - 1 else 0
        struct.pack_into("<4H3I", data, at + 20 * i, 1, 0, 2, 1, 0, 20 * (count - i), following)
    struct.pack_into("<2I", data, at + 20 * count, 0, 0)
    start = next(s.p_offset for s in elf.segments if s.p_type == PT_DYNAMIC)
    for tag, value in ((DT_VERDEF, room), (DT_VERDEFNUM, count)):
        struct.pack_into("<Q", data, start + 16 * list(elf.dynamic).index(tag) + 8, value)
    library.write_bytes(data)
    said = damaged(built, library, "check", [[]])
    assert (said == ["accepted "], not judge_refuses(bytes(data))) == (sound, sound)
