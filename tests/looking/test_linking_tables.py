"""`verify` judges the tables that the dynamic linker follows: damage there is an error. Of a library
for another machine it reads the structure, and says so."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import (
    DT_FINI,
    DT_GNU_HASH,
    DT_HASH,
    DT_INIT,
    DT_INIT_ARRAYSZ,
    DT_NEEDED,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_SYMTAB,
    DT_VERSYM,
    PF_W,
    PT_DYNAMIC,
    PT_LOAD,
)
from mblob.errors import FormatError
from mblob.inspect.elf_judge import check_elf
from tests.e2e.programs import ROOT, run

SOURCE = """
#include <stdlib.h>
void *__tvm_module_ctx;
__attribute__((constructor)) static void begin(void) { __tvm_module_ctx = 0; }
int vadd(void) { return __tvm_module_ctx ? abs(3) : 4; }
int other(void) { return 2; }
"""


@pytest.fixture
def library(cc, tmp_path: Path) -> bytearray:
    script = tmp_path / "versions"
    script.write_text("V1 { other; };")
    flags = ("-Wl,--hash-style=both", f"-Wl,--version-script={script}")
    return bytearray(cc(SOURCE, tmp_path / "m.so", *flags).read_bytes())


def tag_at(elf: ElfFile, tag: int) -> int:
    """File offset of the value of a tag."""
    start = next(s.p_offset for s in elf.segments if s.p_type == PT_DYNAMIC)
    return start + 16 * list(elf.dynamic).index(tag) + 8


def table_at(elf: ElfFile, tag: int) -> int:
    """File offset of what a tag leads to."""
    return elf.offset_of(elf.dynamic[tag][0], 1, "a table")


def at_data(elf: ElfFile) -> int:
    return next(s.p_vaddr for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_W)


def last_relocation(elf: ElfFile) -> int:
    return table_at(elf, DT_RELA) + elf.dynamic[DT_RELASZ][0] - 24


# Where to write, the format, what, and a word of the error. The damage is one number each time.
CASES: dict[str, tuple[Callable[[ElfFile], int], str, Callable[[ElfFile], int], str]] = {
    "initialiser in data": (lambda e: tag_at(e, DT_INIT), "Q", at_data, "constructor"),
    "end in nowhere": (lambda e: tag_at(e, DT_FINI), "Q", lambda e: 2**64 - 8, "constructor"),
    "constructors": (lambda e: tag_at(e, DT_INIT_ARRAYSZ), "Q", lambda e: 2**63, "constructors"),
    "half a constructor": (
        lambda e: tag_at(e, DT_INIT_ARRAYSZ),
        "Q",
        lambda e: 7,
        "inside a section",
    ),
    "size of relocations": (lambda e: tag_at(e, DT_RELASZ), "Q", lambda e: 25, "inside a section"),
    "many relocations": (lambda e: tag_at(e, DT_RELASZ), "Q", lambda e: 24 << 40, "relocations"),
    "relocation of code": (
        last_relocation,
        "Q",
        lambda e: e.find("vadd").st_value,
        "outside the data",
    ),  # type: ignore[union-attr]
    "symbol of a relocation": (
        lambda e: last_relocation(e) + 12,
        "I",
        lambda e: 2**31,
        "names symbol",
    ),
    "place of a symbol": (lambda e: e.find("other").offset + 8, "Q", lambda e: 2**40, "'other'"),  # type: ignore[union-attr]
    "name of a symbol": (lambda e: e.find("vadd").offset, "I", lambda e: 1, "hash table"),  # type: ignore[union-attr]
    "filter": (lambda e: table_at(e, DT_GNU_HASH) + 16, "Q", lambda e: 0, "hash table"),
    "buckets of the old hash": (
        lambda e: table_at(e, DT_HASH) + 8,
        "I",
        lambda e: 2**31,
        "hash table",
    ),
    "versions of symbols": (lambda e: tag_at(e, DT_VERSYM), "Q", lambda e: 2**40, "versions"),
    "a version": (lambda e: table_at(e, DT_VERSYM) + 2, "H", lambda e: 77, "version 77"),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", CASES)
def test_damage_is_found(library: bytearray, tmp_path: Path, case: str) -> None:
    place, fmt, value, word = CASES[case]
    elf = ElfFile(memoryview(bytes(library)))
    assert check_elf(elf.data)
    struct.pack_into(f"<{fmt}", library, place(elf), value(elf))
    path = tmp_path / "damaged.so"
    path.write_bytes(library)
    with pytest.raises(FormatError, match=word) as caught:
        mblob.verify(path)
    assert caught.value.code == "elf_dynamic"


def test_a_hash_table_that_runs_in_circles_is_read_once(library: bytearray) -> None:
    elf = ElfFile(memoryview(bytes(library)))
    at = table_at(elf, DT_HASH)
    buckets, symbols = struct.unpack_from("<2I", library, at)
    chain = at + 8 + 4 * buckets
    for i in range(symbols):
        struct.pack_into("<I", library, chain + 4 * i, (i + 1) % symbols or 1)
    with pytest.raises(FormatError, match="does not lead to"):
        check_elf(memoryview(library))


def _one_bucket(data: bytearray, style: str) -> None:
    """Put all symbols of a hash table into the chain of its first bucket, in the room that the
    table has."""
    elf = ElfFile(memoryview(bytes(data)))
    count = len(elf.dynsym) + 1
    if style == "gnu":
        at = table_at(elf, DT_GNU_HASH)
        buckets, first, words, _ = struct.unpack_from("<4I", data, at)
        old = at + 16 + 8 * words + 4 * buckets
        chain = [c & ~1 for c in struct.unpack_from(f"<{count - first}I", data, old)]
        struct.pack_into("<I", data, at, 1)
        struct.pack_into(
            f"<{len(chain) + 1}I", data, at + 16 + 8 * words, first, *chain[:-1], chain[-1] | 1
        )
    else:
        at = table_at(elf, DT_HASH)
        struct.pack_into(f"<{count + 2}I", data, at, 1, count, 1, 0, *range(2, count))
        struct.pack_into("<I", data, at + 4 * (2 + count), 0)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
@pytest.mark.parametrize(("count", "refused"), [(4000, False), (4200, True)])
def test_a_hash_chain_has_a_limited_number_of_symbols(
    tmp_path: Path, cc: Callable[..., Path], style: str, count: int, refused: bool
) -> None:
    """The dynamic linker goes through all of it for each relocation."""
    source = "void *__tvm_module_ctx;" + "".join(f"char s{i};" for i in range(count))
    path = cc(source, tmp_path / "m.so", f"-Wl,--hash-style={style}", "-nostdlib")
    data = bytearray(path.read_bytes())
    _one_bucket(data, style)
    path.write_bytes(data)
    for look in (mblob.verify, mblob.load_module):
        with (
            pytest.raises(FormatError, match="more than 4096 symbols") if refused else nullcontext()
        ):
            look(path)


@pytest.mark.sample(2)
@pytest.mark.parametrize("tag", [0x60000100, DT_NEEDED], ids=["unknown", "needed"])
@pytest.mark.parametrize(("count", "refused"), [(4096, False), (4097, True), (200_000, True)])
def test_a_library_has_a_limited_number_of_tags(
    cc, tmp_path: Path, tag: int, count: int, refused: bool
) -> None:
    """Each is held against the others, by `verify` and by the loader."""
    path = cc(
        SOURCE, tmp_path / "m.so", f"-Wl,--spare-dynamic-tags={count}", "-Wl,--no-as-needed", "-lm"
    )
    data = bytearray(path.read_bytes())
    elf = ElfFile(memoryview(bytes(data)))
    present, needed = sum(map(len, elf.dynamic.values())), elf.dynamic[DT_NEEDED][0]
    at = next(s.p_offset for s in elf.segments if s.p_type == PT_DYNAMIC)
    for i in range(present, count):
        data[at + 16 * i : at + 16 * (i + 1)] = struct.pack(
            "<2Q", *((tag, needed) if tag == DT_NEEDED else (tag + i, 0))
        )
    path.write_bytes(data)
    for look in (mblob.verify, mblob.load_module):
        with (
            pytest.raises(FormatError, match=f"{count} tags, the limit is 4096")
            if refused
            else nullcontext()
        ):
            look(path)


@pytest.mark.parametrize(
    "flag", ["-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold", "-Wl,--hash-style=sysv", "-s"]
)
def test_what_linkers_write_is_sound(
    cc, tmp_path: Path, require: Callable[[str], str], flag: str
) -> None:
    if "ld=" in flag:
        require(f"ld.{flag.rsplit('=')[-1]}")
    assert mblob.verify(cc(SOURCE, tmp_path / "m.so", flag)).has_blob is False


def test_relocations_cost_verify_no_calls_of_python(
    cc: Callable[..., Path],
    tmp_path: Path,
    count_calls: Callable[[Callable[[], object]], int],
) -> None:
    """A library of 100 MiB has half a million."""
    calls = []
    for count in (100, 50_000):
        source = f"{SOURCE} static char c; char *table[{count}] = {{[0 ... {count - 1}] = &c}};"
        path = cc(source, tmp_path / f"{count}.so")
        mblob.verify(path)
        calls.append(count_calls(lambda path=path: mblob.verify(path)))
    assert abs(calls[1] - calls[0]) < 50


# -- other machines --------------------------------------------------------------------------------

JUDGE = """
#include <stdio.h>
#include "elf/elf.h"
int main(int argc, char **argv) {
  static unsigned char data[1 << 20];
  FILE *file = fopen(argv[argc - 1], "rb");
  if (!file) return 2;
  size_t size = fread(data, 1, sizeof(data), file);
  puts(mblob_elf_check(data, size) ? mblob_last_error() : "sound");
  return fclose(file);
}
"""
QEMU = {"i686": "i386"}  # where it has another name for a machine


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], str]
) -> Callable[[str, Path], str]:
    """`judged(machine, library)`: what libmblob says of it on that machine."""
    made: dict[str, Path] = {}

    def judge(machine: str, library: Path) -> str:
        name = machine.partition("-")[0].replace("armhf", "arm")
        emulator = require(f"qemu-{QEMU.get(name, name)}")
        if machine not in made:
            folder = tmp_path_factory.mktemp(machine)
            (folder / "judge.c").write_text(JUDGE)
            sources = [
                p for part in ("base", "elf") for p in (ROOT / "csrc/src" / part).glob("*.c")
            ]
            folders = [
                f"-I{ROOT}/csrc/{part}" for part in ("include", "include/mblob/compat", "src")
            ]
            run(require(f"{machine}-gcc"), "-std=gnu11", "-D_FILE_OFFSET_BITS=64", "-pthread", *folders,
                folder / "judge.c", *sources, "-o", folder / "judge", "-ldl")  # fmt: skip
            made[machine] = folder / "judge"
        return run(emulator, "-L", f"/usr/{machine}", made[machine], library).stdout.rstrip()

    return judge


def linked(
    machine: str, source: str, output: Path, require: Callable[[str], str], *flags: str
) -> Path:
    """A shared library for another machine."""
    text = output.with_suffix(".c")
    text.write_text(source)
    run(require(f"{machine}-gcc"), "-shared", "-fPIC", *flags, text, "-o", output)
    return output


@pytest.mark.parametrize("machine", ["aarch64-linux-gnu", "s390x-linux-gnu", "arm-linux-gnueabihf"])
def test_what_linkers_write_for_other_machines_is_sound(
    tmp_path: Path,
    require: Callable[[str], str],
    judged: Callable[[str, Path], str],
    machine: str,
) -> None:
    for style in ("gnu", "sysv"):
        path = linked(
            machine, SOURCE, tmp_path / f"{style}.so", require, f"-Wl,--hash-style={style}"
        )
        found = mblob.verify(path)
        assert found.dialect == "classic"
        assert [code for code, _ in found.info] == ["not_judged"]
        assert judged(machine, path) == "sound"


# What of a library for another machine is damaged, as offset, bytes, and the code of the error.
STRUCTURE: dict[str, tuple[Callable[[ElfFile], int], bytes, str]] = {
    "its type": (lambda e: 16, b"\2\0", "elf_header"),
    "an address unlike its offset": (lambda e: e.e_phoff + 16, b"\1", "elf_header"),
    "its symbols": (lambda e: tag_at(e, DT_SYMTAB), b"\xff\xff\xff\x7f", "elf_dynamic"),
    "its relocations": (lambda e: tag_at(e, DT_RELASZ), b"\xff\xff\xff\x7f", "elf_dynamic"),
    "its sections": (lambda e: 40, b"\xff\xff\xff\x7f", "elf_truncated"),
}


@pytest.mark.parametrize("case", STRUCTURE)
def test_the_structure_of_a_library_for_another_machine_is_checked(
    cc: Callable[..., Path], tmp_path: Path, case: str
) -> None:
    """A library of this machine that says it is for another: no cross compiler is needed."""
    data = bytearray(cc(SOURCE, tmp_path / "m.so").read_bytes())
    elf = ElfFile(memoryview(bytes(data)))
    struct.pack_into("<H", data, 18, 22 if elf.e_machine != 22 else 62)
    path = tmp_path / "other.so"
    path.write_bytes(data)
    ((code, text),) = mblob.verify(path).info
    assert (code, "was not judged" in text) == ("not_judged", True)
    place, value, expected = STRUCTURE[case]
    at = place(elf)
    data[at : at + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        mblob.verify(path)
    assert caught.value.code == expected
    assert str(caught.value).count(str(path)) == 1


# A type that writes so many bytes, and is neither an address nor a slot.
PARTS = [
    ("arm-linux-gnueabihf", 3, 4), ("i686-linux-gnu", 2, 4), ("riscv64-linux-gnu", 1, 4), ("s390x-linux-gnu", 1, 1),
    ("s390x-linux-gnu", 16, 2), ("s390x-linux-gnu", 5, 4), ("s390x-linux-gnu", 23, 8),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "number", "width"), PARTS)
def test_a_relocation_of_a_part_ends_within_the_data(
    tmp_path: Path,
    require: Callable[[str], str],
    judged: Callable[[str, Path], str],
    machine: str,
    number: int,
    width: int,
) -> None:
    source = "extern char there[]; char *pointer = there;"
    path = linked(machine, source, tmp_path / "m.so", require, "-nostdlib")
    data = bytearray(path.read_bytes())
    elf = ElfFile(memoryview(bytes(data)))
    end = max(
        s.p_vaddr + s.p_memsz for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_W
    )
    at = table_at(elf, DT_RELA if DT_RELA in elf.dynamic else DT_REL)
    word = "Q" if elf.bits == 64 else "I"
    (info,) = struct.unpack_from(elf.byte_order + word, data, at + elf.bits // 8)
    mask = 0xFFFFFFFF if elf.bits == 64 else 0xFF
    for place, sound in ((end - width, True), (end - width + 1, False)):
        struct.pack_into(f"{elf.byte_order}2{word}", data, at, place, info & ~mask | number)
        path.write_bytes(data)
        said = judged(machine, path)
        assert said == "sound" if sound else "outside the data" in said
