"""Damage in what a loader fills, and in what relocations write: one kind a test. The loader names
it, and so does `verify`."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_VERSYM
from mblob.errors import FormatError
from mblob.format.system_library_prefixes import CONTEXTS, SLOTS
from tests.e2e.damage.test_c_elf import KERNEL, damaged, open_error, refused_by_both
from tests.e2e.damage.test_refused_elf import (
    PT_DYNAMIC,
    PT_GNU_RELRO,
    PT_LOAD,
    dynamic,
    of_tag,
    offset_of,
    relocation,
    relocations,
    segments,
    x86_64,
)
from tests.e2e.programs import run

# -- what only loaders ask for ---------------------------------------------------------------------


HIDDEN = {
    "__tvm_dev_mblob": "its note announces a blob",
    "__mblob_functions": "its note announces a table",
}


@pytest.mark.parametrize(("name", "expected"), HIDDEN.items(), ids=HIDDEN)
def test_by_name_nobody_finds_a_hidden_version(
    built: Path, tmp_path: Path, name: str, expected: str
) -> None:
    source = "#include <stdlib.h>\nint lucky(int x) { return x + rand(); }"
    module = mblob.csource_module(source)
    module.import_module(mblob.json_module("json", "region", "{}"))
    module.export_library(tmp_path / "f.so")
    elf = ElfFile(memoryview((tmp_path / "f.so").read_bytes()))
    place = next(i for i, s in enumerate(elf.dynsym, 1) if s.name == name)
    data = bytearray(elf.data)
    data[elf.offset_of(elf.dynamic[DT_VERSYM][0], 1, "") + 2 * place + 1] |= 0x80
    (tmp_path / "f.so").write_bytes(data)
    assert elf.find(name) and not ElfFile(memoryview(data)).find(name)
    assert expected in open_error(built, tmp_path / "f.so")
    with pytest.raises(FormatError, match=expected):
        mblob.verify(tmp_path / "f.so")


@pytest.mark.parametrize("change", ["e_type", "DF_1_PIE"])
def test_an_entry_point_makes_no_program_of_a_library(
    built: Path, tmp_path: Path, cc: Callable[..., Path], change: str
) -> None:
    """mold gives libraries one."""
    library = cc(
        "void *__tvm_module_ctx; int f(void) { return 1; }",
        tmp_path / "f.so",
        "-Wl,-e,f",
        "-Wl,-z,now",
    )
    data = bytearray(library.read_bytes())
    if change == "e_type":
        data[16] = 2
    else:
        data[of_tag(data, 0x6FFFFFFB) + 3] |= 8
    library.write_bytes(data)
    assert struct.unpack_from("<Q", data, 24)[0]
    refused_by_both(built, library, "an executable")


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("kind", [0, 1, 4])
def test_a_library_of_another_type_is_no_object(
    built: Path, tmp_path: Path, require: Callable[[str], str], kind: int, stripped: bool
) -> None:
    """An object has no program headers."""
    library = tmp_path / "f.so"
    shutil.copy(built / "lib" / "keyed.so", library)
    if stripped:
        run(require("strip"), library)
    data = bytearray(library.read_bytes())
    data[16 if sys.byteorder == "little" else 17] = kind
    library.write_bytes(data)
    expected = f"ELF type {kind}, a shared library has 3: link it with -shared"
    assert expected in open_error(built, library)
    for read in (mblob.verify, mblob.load_module):
        with pytest.raises(FormatError, match=expected):
            read(library)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*SLOTS, *CONTEXTS])
def test_what_a_loader_fills_stays_writable(
    built: Path, tmp_path: Path, cc: Callable[..., Path], name: str
) -> None:
    source = f"void *other; void *{name} __attribute__((aligned(4096))); int f(void) {{ return !{name}; }}"
    library = cc(source, tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    at, relro = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    last = max(s[3] + s[6] for _, s in segments(data) if s[0] == PT_LOAD)
    struct.pack_into("<Q", data, at + 40, (last | 4095) + 1 - relro[3])  # p_memsz: all of the data
    library.write_bytes(data)
    said = open_error(built, library)
    # the plug-in is looked for first
    assert f"{name} becomes read-only" in said or "libmblob-ffi.so" in said
    with pytest.raises(FormatError, match=f"{name} becomes read-only"):
        mblob.verify(library)


PLACES = {
    "a destructor": 'static void bye(void) {} __attribute__((section(".fini_array"), used)) void *NAME = (void *)bye;',
    "a constructor": 'static void run(void) {} __attribute__((section(".init_array"), used)) void *NAME = (void *)run;',
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["__tvm_module_ctx", "__TVMBackendAllocWorkspace"])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_loader_fills_is_no_function_that_the_linker_calls(
    built: Path, tmp_path: Path, cc: Callable[..., Path], place: str, name: str
) -> None:
    library = cc(PLACES[place].replace("NAME", name), tmp_path / "f.so", "-Wl,-z,norelro")
    expected = f"{name} lies in a table that the dynamic linker reads"
    assert expected in open_error(built, library)
    with pytest.raises(FormatError, match=expected):
        mblob.verify(library)


def _slot_of(type_: int) -> Callable[[bytes], int]:
    return lambda data: struct.unpack_from("<Q", data, relocation(data, type_))[0]


# Where a slot is moved, and the error.
MOVED: dict[str, tuple[Callable[[bytes], int], str]] = {
    "the dynamic section": (
        lambda data: next(s[3] for _, s in segments(data) if s[0] == PT_DYNAMIC) + 8,
        "a table",
    ),
    "words of the linker": (lambda data: dynamic(data)[3] + 8, "a table"),
    "constructors": (lambda data: dynamic(data)[25], "a table"),
    "destructors": (lambda data: dynamic(data)[26] + 4, "a table"),
    "the slot of a call": (_slot_of(7), "it writes {}, which a loader fills"),
    "the end of that": (
        lambda data: _slot_of(7)(data) + 4,
        "it writes {}, which a loader fills|writes the same",
    ),
    "the slot of a symbol": (_slot_of(6), "it writes {}, which a loader fills"),
    "a thread's block": (lambda data: _slot_of(16)(data) + 8, "it writes {}, which a loader fills"),
    "half a pointer": (lambda data: _slot_of(1)(data) - 4, "it writes {}, which a loader fills"),
    "another one": (
        lambda data: ElfFile(memoryview(data)).find("__TVMFuncCall").st_value,
        "lie in one place",
    ),  # type: ignore[union-attr]
}


@x86_64
@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["__tvm_module_ctx", "__TVMBackendAllocWorkspace"])
@pytest.mark.parametrize("place", MOVED)
def test_what_a_loader_fills_is_no_word_of_the_linkers(
    built: Path, tmp_path: Path, cc: Callable[..., Path], place: str, name: str
) -> None:
    source = KERNEL + "void *__TVMBackendAllocWorkspace, *__TVMFuncCall; __thread int shared;"
    source += "int f(void) { return rand() + shared; }"
    library = cc(source, tmp_path / "f.so", "-Wl,-z,norelro", "-Wl,-z,lazy")
    data = bytearray(library.read_bytes())
    symbol = ElfFile(memoryview(bytes(data))).find(name)
    where, expected = MOVED[place]
    assert symbol
    struct.pack_into("<Q", data, symbol.offset + 8, where(bytes(data)))
    library.write_bytes(data)
    expected = expected.replace("{}", name)
    refused_by_both(built, library, expected)


# -- two relocations, one word ---------------------------------------------------------------------


THREADS = """
#include <stdlib.h>
void *__tvm_module_ctx;
int data[4], *pointer = data;
static int *volatile own = data + 1;
__thread int counter = 3, second;
__attribute__((tls_model("initial-exec"))) __thread int near;
int f(void) { return rand() + abs(*pointer) + *own + counter + second + near; }
"""
# By the types of relocations: which one is moved, onto which, how many bytes behind it.
OVERLAPS = {
    "a symbol onto a call": (6, 7, 0), "a symbol onto half a call": (6, 7, 4),
    "a symbol onto a thread's block": (6, 16, 0),
    "a symbol onto an offset in it": (6, 16, 8), "a module onto another": (16, 16, 0),
    "an address onto a symbol": (1, 6, 0),
    "an address onto a part of one": (1, 6, -3), "a relative one onto an address": (8, 1, 0),
    "a place of a thread onto a symbol": (18, 6, 0), "a call onto a symbol": (7, 6, 0),
    "an offset elsewhere": (17, 18, 0), "a module between words": (16, 16, -1), "an offset between words": (17, 17, 1),
    "a symbol between words": (6, 6, -4),
}  # fmt: skip


@x86_64
@pytest.mark.sample(5)
@pytest.mark.parametrize("case", OVERLAPS)
def test_each_byte_is_written_by_one_relocation(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str
) -> None:
    library = cc(THREADS, tmp_path / "f.so", "-Wl,-z,lazy", "-ftls-model=global-dynamic")
    assert damaged(built, library, "load", [[]]) == ["opened"]
    data = bytearray(library.read_bytes())
    moved, onto, behind = OVERLAPS[case]
    places = [at for at, number in relocations(data) if number == onto]
    at = next(at for at, number in relocations(data) if number == moved)
    (word,) = struct.unpack_from("<Q", data, places[-1])
    struct.pack_into("<Q", data, at, word + behind)
    library.write_bytes(data)
    expected = "another relocation writes the same bytes|not aligned|a call slot has no address"
    expected += "|no relocation (behind|in front of) it gives the (offset|module)"
    refused_by_both(built, library, expected)


@x86_64
def test_a_packed_relocation_is_the_only_one_of_its_word(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    library = cc(THREADS, tmp_path / "f.so", "-Wl,-z,pack-relative-relocs")
    data = bytearray(library.read_bytes())
    packed = next(s.st_value for s in ElfFile(memoryview(bytes(data))).symtab if s.name == "own")
    struct.pack_into("<Q", data, relocation(data, 6), packed)
    library.write_bytes(data)
    refused_by_both(built, library, "another relocation writes the same bytes")


# What is changed of the relocation of an offset in a thread's block, and the error.
OFFSETS: dict[str, tuple[int, int, str]] = {
    "far behind": (16, 0x7FFFFFFF, "outside the thread storage"),
    "in front": (16, 2**64 - 8, "outside the thread storage"),
    "of another symbol": (
        12,
        1,
        "no relocation in front of it gives the module|is not|that is none",
    ),
    "without its module": (8 - 24, 0, "no relocation in front of it gives the module"),
}


@x86_64
@pytest.mark.parametrize("case", OFFSETS)
def test_an_offset_in_a_threads_block_is_one_of_its_module(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str
) -> None:
    library = cc(THREADS, tmp_path / "f.so", "-ftls-model=global-dynamic")
    data = bytearray(library.read_bytes())
    at = relocation(data, 17)
    field, value, expected = OFFSETS[case]
    struct.pack_into("<Q" if field == 16 else "<I", data, at + field, value)
    library.write_bytes(data)
    refused_by_both(built, library, expected)


@x86_64
def test_an_offset_that_the_linker_wrote_lies_in_the_thread_storage(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """Of a variable that nobody else sees; no relocation gives it."""
    source = "void *__tvm_module_ctx; static __thread int first, own = 3; int f(void) { return first++ + own++; }"
    library = cc(source, tmp_path / "f.so", "-O0", "-ftls-model=global-dynamic")
    data = bytearray(library.read_bytes())
    word = offset_of(data, struct.unpack_from("<Q", data, relocation(data, 16))[0]) + 8
    struct.pack_into("<Q", data, word, 4096)
    library.write_bytes(data)
    refused_by_both(built, library, "outside the thread storage")


@x86_64
def test_packed_relocations_outside_the_data_are_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    library = cc("int f(void) { return 0; }", tmp_path / "f.so", "-Wl,-z,pack-relative-relocs")
    data = bytearray(library.read_bytes())
    tags = dynamic(data)
    # DT_RELR; DT_SYMTAB is read-only
    struct.pack_into("<Q", data, offset_of(data, tags[36]), tags[6])
    library.write_bytes(data)
    assert "a relocation lies outside the data" in open_error(built, library)


# What is written into the first or the last of three relocations of calls, from where the number
# starts.
CALLS: dict[str, tuple[int, Callable[[list[int]], tuple[int, int]], str]] = {
    "no address": (0, lambda slots: (8, 0), "of no known kind"),
    "the address of another": (0, lambda slots: (0, slots[2]), "writes the same bytes"),
    "two addresses": (2, lambda slots: (0, slots[1]), "writes the same bytes"),
    "none, but a place behind": (
        2,
        lambda slots: (0, slots[2] + 8),
        "writes the same bytes|points to no code",
    ),
    "none, but a place in front": (
        0,
        lambda slots: (0, slots[0] - 8),
        "a table that the dynamic linker reads",
    ),
    "half of two places": (
        2,
        lambda slots: (0, slots[1] + 4),
        "not aligned|between two call slots",
    ),
}


@x86_64
@pytest.mark.parametrize("case", CALLS)
def test_each_slot_of_a_call_gets_its_address_once(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str
) -> None:
    """What a library calls when it goes would else be an address of nothing."""
    source = "#include <stdlib.h>\nvoid *__tvm_module_ctx;\n"
    source += 'int f(void) { return rand() + system(0) + (int)strtol(getenv("HOME"), 0, 9); }'
    library = cc(source, tmp_path / "f.so", "-Wl,-z,lazy")
    data = bytearray(library.read_bytes())
    start = offset_of(data, dynamic(data)[23])
    count = dynamic(data)[2] // 24
    slots = [struct.unpack_from("<Q", data, start + 24 * i)[0] for i in (0, 1, count - 1)]
    which, change, expected = CALLS[case]
    field, value = change(slots)
    struct.pack_into("<Q", data, start + 24 * (0, 1, count - 1)[which] + field, value)
    library.write_bytes(data)
    refused_by_both(built, library, expected)


# -- what becomes read-only ------------------------------------------------------------------------


@pytest.mark.parametrize("bit", [13, 15, 20, 40, 62])
def test_read_only_data_that_goes_on_behind_the_data_is_refused(
    built: Path, tmp_path: Path, bit: int
) -> None:
    data = bytearray((built / "lib" / "keyed.so").read_bytes())
    at, relro = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    struct.pack_into("<Q", data, at + 40, relro[6] ^ 1 << bit)
    (tmp_path / "relro.so").write_bytes(data)
    assert "read-only" in open_error(built, tmp_path / "relro.so")


@pytest.mark.parametrize("field", [16, 40])  # p_vaddr, p_memsz
def test_a_slot_that_becomes_read_only_is_refused(
    built: Path, tmp_path: Path, golden: Path, field: int
) -> None:
    data = bytearray((golden / "dag.so").read_bytes())
    at, _ = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    data[at + field + 1] ^= 0x10  # one page more, or later
    (tmp_path / "relro.so").write_bytes(data)
    assert "read-only" in open_error(built, tmp_path / "relro.so")


@x86_64
def test_read_only_data_does_not_reach_zeros_that_are_not_in_the_file(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """What a compiler adds writes there when the library goes."""
    library = cc(
        "void *__tvm_module_ctx; int zeros[5000]; int f(void) { return *zeros; }", tmp_path / "f.so"
    )
    data = bytearray(library.read_bytes())
    at, relro = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    struct.pack_into("<Q", data, at + 40, relro[6] + 0x2000)
    library.write_bytes(data)
    refused_by_both(built, library, "makes other things read-only than data")
