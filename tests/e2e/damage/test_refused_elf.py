"""Damage that the dynamic linker would not survive, one kind a test: the loader names it, and so
does `verify`."""

from __future__ import annotations

import ctypes
import platform
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_GNU_HASH, DT_RELR, DT_SYMTAB, DT_VERSYM
from mblob.errors import FormatError
from tests.e2e.damage.test_c_elf import KERNEL, damaged, judge_refuses, open_error, refused_by_both
from tests.e2e.programs import run

PT_LOAD, PT_DYNAMIC, PT_GNU_RELRO, PF_W = 1, 2, 0x6474E552, 2
R_X86_64_64, R_X86_64_RELATIVE = 1, 8
x86_64 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="no golden relocations for this machine"
)


def segments(data: bytes) -> list[tuple[int, list[int]]]:
    """Offset and fields of each 64-bit program header: type, flags, offset, vaddr, paddr, filesz,
    memsz, align."""
    start, count = struct.unpack_from("<32xQ16xH", data)
    return [
        (at, list(struct.unpack_from("<IIQQQQQQ", data, at)))
        for at in range(start, start + 56 * count, 56)
    ]


def offset_of(data: bytes, vaddr: int) -> int:
    return next(
        s[2] + vaddr - s[3]
        for _, s in segments(data)
        if s[0] == PT_LOAD and s[3] <= vaddr < s[3] + s[5]
    )


def dynamic(data: bytes) -> dict[int, int]:
    at, size = next((s[2], s[5]) for _, s in segments(data) if s[0] == PT_DYNAMIC)
    return dict(struct.unpack_from("<QQ", data, at + i) for i in range(0, size, 16))


def relocations(data: bytes) -> Iterator[tuple[int, int]]:
    """Offset and type of each relocation of DT_RELA and DT_JMPREL."""
    tags = dynamic(data)
    for table, size in ((7, 8), (23, 2)):
        start = offset_of(data, tags[table]) if table in tags else 0
        yield from (
            (at, *struct.unpack_from("<I", data, at + 8))
            for at in range(start, start + tags.get(size, 0), 24)
        )


def relocation(data: bytes, number: int) -> int:
    """Offset of the first relocation of DT_RELA and DT_JMPREL of a type."""
    return next(at for at, found in relocations(data) if found == number)


# Where in a GLOB_DAT or JUMP_SLOT relocation, what, and the error of opening it and of `verify`.
RELOCATIONS = {
    "nothing for a symbol far away": ({8: 0, 12: 0xFFFFFFFF}, "names no symbol|names symbol"),
    "a place in a thread's memory": ({8: 18}, "thread-local"),
    "the module of a thread's block": (
        {8: 16},
        "no relocation behind it gives the offset|writes the same bytes",
    ),
    "a place in a thread's block": ({8: 17}, "no relocation in front of it gives the module"),
    "a descriptor": ({8: 36}, "thread-local|lies outside the data|writes the same bytes"),
    "a copy": ({8: 5}, "only executables do"),
    "no known type": ({8: 77}, "type 77, at .*no known type"),
}


@pytest.mark.sample(5)
@x86_64
@pytest.mark.parametrize("call", [False, True])
@pytest.mark.parametrize("case", RELOCATIONS)
def test_a_relocation_that_lies_is_refused_by_both(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str, call: bool
) -> None:
    source = "#include <stdlib.h>\nvoid *__tvm_module_ctx; extern char **environ; char **e(void) { return environ; }"
    source += " int f(void) { return rand(); }"
    library = cc(source, tmp_path / "f.so", "-Wl,-z,lazy")
    data = bytearray(library.read_bytes())
    at = relocation(data, 7 if call else 6)
    for start, value in RELOCATIONS[case][0].items():
        struct.pack_into("<I", data, at + start, value)
    library.write_bytes(data)
    expected = RELOCATIONS[case][1] + ("|of no known kind" if call else "")
    refused_by_both(built, library, expected)


def last_symbol(elf: ElfFile) -> int:
    return elf.offset_of(elf.dynamic[DT_SYMTAB][0], 1, "symbols") + 24 * len(elf.dynsym)


def last_hash(elf: ElfFile) -> int:
    """The chain word of the last symbol."""
    at = elf.offset_of(elf.dynamic[DT_GNU_HASH][0], 1, "hash table")
    return at + elf.gnu_hash_size(len(elf.dynsym))


# What is wrong, where, what is there, and what the loader and `verify` name.
NAMED: dict[str, tuple[Callable[[ElfFile], int], bytes, str]] = {
    "a symbol far away": (lambda e: last_symbol(e) + 8, b"\0\0\0\0\0\0\0\x10", "the symbol '{}'|the function '{}'"),
    "a symbol of no type": (lambda e: last_symbol(e) + 4, b"\x1b", "the exported symbol '{}'"),
    "a hash": (last_hash, b"\1\0\0\0", "does not lead to the symbol '{}'"),
    "a version": (lambda e: e.offset_of(e.dynamic[DT_VERSYM][0], 1, "") + 2 * len(e.dynsym), b"\x4d\0",
                  "the symbol '{}' has version 77"),
    "a symbol of no binding": (lambda e: last_symbol(e) + 4, b"\xd2", "the symbol '{}' is of no known binding, 13"),
    "a symbol of no section": (lambda e: last_symbol(e) + 6, b"\x20\xff", "the symbol '{}' lies in the section 0xff20"),
    "the program headers": (lambda e: e.e_phoff + 8, b"\x41", r"\(PT_PHDR\) does not point to the program headers"),
}  # fmt: skip


@x86_64
@pytest.mark.parametrize("case", NAMED)
def test_the_loader_and_verify_name_the_culprit(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str
) -> None:
    source = KERNEL + "int random_number(void) { return rand(); }"  # of a version
    # so there is PT_PHDR
    source += 'const char loader[] __attribute__((section(".interp"))) = "/lib/none";'
    library = cc(source, tmp_path / "f.so", "-Wl,--hash-style=gnu")
    data = bytearray(library.read_bytes())
    elf = ElfFile(memoryview(bytes(data)))
    place, value, text = NAMED[case]
    at = place(elf)
    data[at : at + len(value)] = value
    library.write_bytes(data)
    expected = text.replace("{}", elf.dynsym[-1].name)
    refused_by_both(built, library, expected)


@x86_64
def test_a_call_is_relocated_by_a_type_that_can_be_bound_late(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """A place in a thread's memory, of a function of the dynamic linker: that one has no thread
    storage to divide."""
    source = (
        "void *__tvm_module_ctx; __thread int counter = 3; int count(void) { return ++counter; }"
    )
    library = cc(source, tmp_path / "f.so", "-Wl,-z,lazy", "-fPIC", "-ftls-model=global-dynamic")
    data = bytearray(library.read_bytes())
    at = relocation(data, 7)
    symbol = offset_of(data, dynamic(data)[6]) + 24 * struct.unpack_from("<I", data, at + 12)[0]
    data[symbol + 4] = 0x16  # STB_GLOBAL, STT_TLS
    struct.pack_into("<I", data, at + 8, 18)  # R_X86_64_TPOFF64
    library.write_bytes(data)
    refused_by_both(built, library, "of no known kind")


def of_constructor(data: bytes, tag: int = 25) -> int:
    """Where the relocation of the first constructor has its addend."""
    tags = dynamic(data)
    places = range(offset_of(data, tags[7]), offset_of(data, tags[7]) + tags[8], 24)
    return next(at + 16 for at in places if struct.unpack_from("<Q", data, at)[0] == tags[tag])


def of_tag(data: bytes, tag: int) -> int:
    start = next(s[2] for _, s in segments(data) if s[0] == PT_DYNAMIC)
    return next(
        at + 8 for at in range(start, len(data), 16) if struct.unpack_from("<Q", data, at)[0] == tag
    )


# Where an address of code is. That of a call is in its slot.
CODE: dict[str, Callable[[bytes], int]] = {
    "a constructor": of_constructor,
    "a destructor": lambda data: of_constructor(data, 26),
    "DT_INIT": lambda data: of_tag(data, 12),
    "DT_FINI": lambda data: of_tag(data, 13),
    "a resolver": lambda data: relocation(data, 37) + 16,
    "a call": lambda data: offset_of(data, struct.unpack_from("<Q", data, relocation(data, 7))[0]),
    "a function": lambda data: (
        next(s.offset for s in ElfFile(memoryview(data)).dynsym if s.name == "last") + 8
    ),
    "a packed constructor": lambda data: offset_of(data, dynamic(data)[25]),
}
# The tables: by the tag of each. The others are the ELF header and the program headers.
HEADERS = {"e_ident": 1, "e_phoff": 0x20, "program header 1": 0x78, "symbols": DT_SYMTAB, "names": 5, "relocations": 7,
           "hash": DT_GNU_HASH}  # fmt: skip


@x86_64
@pytest.mark.sample(9)
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("code", CODE)
def test_code_is_neither_in_headers_nor_in_tables(
    built: Path, tmp_path: Path, cc: Callable[..., Path], code: str, header: str
) -> None:
    """Where one segment has both, as by gold: all of it may be executed."""
    source = """
        #include <stdlib.h>
        void *__tvm_module_ctx;
        static int one(void) { return 1; }
        static void *choose(void) { return (void *)one; }
        static int chosen(void) __attribute__((ifunc("choose")));
        int last(void) { return rand() + chosen(); }
    """
    flags = ["-Wl,-z,noseparate-code", "-Wl,-z,lazy", "-w"]
    library = cc(
        source,
        tmp_path / "f.so",
        *flags,
        *(["-Wl,-z,pack-relative-relocs"] if "packed" in code else []),
    )
    data = bytearray(library.read_bytes())
    value = dynamic(data).get(HEADERS[header], HEADERS[header])
    struct.pack_into("<Q", data, CODE[code](data), value)
    library.write_bytes(data)
    expected = "outside the code|points to no code"
    refused_by_both(built, library, expected)


@x86_64
def test_constructors_lie_in_the_file(built: Path, tmp_path: Path, cc: Callable[..., Path]) -> None:
    """Where the file has no data, nothing tells two addresses of one from one of each."""
    library = cc(KERNEL, tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    zeros = ElfFile(memoryview(bytes(data))).find("zeros")
    assert zeros
    struct.pack_into("<Q", data, of_constructor(data) - 16, zeros.st_value)
    struct.pack_into("<Q", data, of_tag(data, 25), zeros.st_value)
    library.write_bytes(data)
    refused_by_both(built, library, "the table of constructors is not in the file")


# -- which damage is told --------------------------------------------------------------------------


def dynamic_segment(data: bytes) -> int:
    return next(at for at, s in segments(data) if s[0] == PT_DYNAMIC)


# What is wrong, as offsets and bytes, and the code of the error. Some of it hides the blob.
CODES: dict[str, tuple[Callable[[bytes], dict[int, bytes]], str]] = {
    "no dynamic section": (lambda data: {dynamic_segment(data): b"\0\0\0\0"}, "elf_dynamic"),
    "no end of it": (lambda data: {dynamic_segment(data) + 32: b"\x20\0\0\0\0\0\0\0"}, "elf_dynamic"),
    "no program headers": (lambda data: {56: b"\0\0"}, "elf_header"),
    "a strange alignment, and a file that is cut": (
        lambda data: {segments(data)[0][0] + 48: b"\3", dynamic_segment(data) + 32: b"\xff" * 7}, "elf_truncated"),
    "a huge alignment": (lambda data: {segments(data)[0][0] + 48: b"\0\0\0\0\0\0\0\x80"}, "elf_header"),
    "padding of e_ident": (lambda data: {15: b"\x80"}, "elf_header"),
}  # fmt: skip


@x86_64
@pytest.mark.parametrize("case", CODES)
def test_the_loader_and_verify_tell_the_same_damage(built: Path, tmp_path: Path, case: str) -> None:
    data = bytearray((built / "lib" / "keyed.so").read_bytes())
    change, code = CODES[case]
    for at, value in change(bytes(data)).items():
        data[at : at + len(value)] = value
    (tmp_path / "f.so").write_bytes(data)
    said = open_error(built, tmp_path / "f.so")
    with pytest.raises(FormatError) as refused:
        mblob.verify(tmp_path / "f.so")
    assert refused.value.code == code
    at = r"\(at byte \d+\)$"
    assert re.findall(at, said) == re.findall(at, str(refused.value)), said


# -- tables and names ------------------------------------------------------------------------------


@x86_64
def test_the_size_of_a_symbol_of_nobody(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    source = (
        'void *__tvm_module_ctx; __asm__(".weak nobodys\\n.data\\n.quad nobodys@size\\n.text");'
    )
    library = cc(source, tmp_path / "f.so")
    assert re.search(
        "type 33, .* it takes the size of the weak symbol 'nobodys'", open_error(built, library)
    )
    with pytest.raises(FormatError, match="it takes the size of the weak symbol 'nobodys'"):
        mblob.verify(library)


@pytest.mark.parametrize("option", ["--auxiliary", "--filter"])
def test_a_filter_is_refused_by_name(
    built: Path, tmp_path: Path, cc: Callable[..., Path], option: str
) -> None:
    library = cc("void *__tvm_module_ctx;", tmp_path / "f.so", f"-Wl,{option},libm.so.6")
    found = f"DT_{option[2:].upper()}"
    assert found in open_error(built, library)
    with pytest.raises(FormatError, match=found):
        mblob.verify(library)


# What the dynamic linker copies onto the stack: an option of the linker, its text, the error, None
# for a sound library.
FOLLOWED: dict[str, tuple[str, str, str | None]] = {
    "a search path": ("-rpath", "/" + "x" * 65535, "has no end within 65536 bytes"),
    "an old search path": (
        "--disable-new-dtags,-rpath",
        "/" + "x" * 65535,
        "has no end within 65536 bytes",
    ),
    "a name": ("-soname", "x" * 65536, "has no end within 65536 bytes"),
    "an auditor": ("--audit", "x" * 65536, "has no end within 65536 bytes"),
    "folders that get long": ("-rpath", "$ORIGIN" * 1500, "have more than 262144 bytes"),
    "folders": ("-rpath", "$ORIGIN/lib:" * 400 + "/x" * 20_000, None),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_names_and_search_paths_are_limited(
    built: Path, tmp_path: Path, cc: Callable[..., Path], case: str
) -> None:
    option, text, expected = FOLLOWED[case]
    library = cc("void *__tvm_module_ctx;", tmp_path / "f.so", f"-Wl,{option},{text}")
    if expected is None:
        assert damaged(built, library, "load", [[]]) == ["opened"]
        assert not judge_refuses(library.read_bytes())
        return
    assert expected in open_error(built, library)
    with pytest.raises(FormatError, match=expected):
        mblob.verify(library)


def test_so_are_the_names_of_needed_libraries_together(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    needed = [cc("", tmp_path / f"lib{i}.so", f"-Wl,-soname,{i}{'x' * 60_000}") for i in range(5)]
    library = cc(
        "void *__tvm_module_ctx;", tmp_path / "f.so", "-Wl,--no-as-needed", *map(str, needed)
    )
    refused_by_both(built, library, "have more than 262144 bytes")


@x86_64
@pytest.mark.parametrize("count", [1024, 1025, 60_000])
def test_program_headers_are_limited(
    built: Path, tmp_path: Path, cc: Callable[..., Path], count: int
) -> None:
    """The dynamic linker copies them onto the stack."""
    library = cc("void *__tvm_module_ctx;", tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    old = segments(data)
    table = b"".join(data[at : at + 56] for at, s in old) + bytes(56 * (count - len(old)))
    struct.pack_into("<Q", data, 32, len(data))
    struct.pack_into("<H", data, 56, count)
    library.write_bytes(data + table)
    expected = f"{count} program headers, a shared library has 1 to 1024"
    if count == 1024:
        assert damaged(built, library, "load", [[]]) == ["opened"]
        assert not judge_refuses(library.read_bytes())
        return
    assert expected in open_error(built, library)
    with pytest.raises(FormatError, match=expected):
        mblob.verify(library)


# A tag, by how much its value becomes smaller, and flags of the linker.
CUT = {
    "DT_RELASZ": (8, 24, []), "all calls": (2, 0, []), "DT_PLTRELSZ": (2, 24, []), "DT_INIT_ARRAYSZ": (27, 8, []),
    "all destructors": (28, 0, []), "DT_RELRSZ": (35, 8, ["-Wl,-z,pack-relative-relocs"]),
    "gold": (8, 48, ["-fuse-ld=gold"]), "lld": (2, 24, ["-fuse-ld=lld"]), "mold": (8, 24, ["-fuse-ld=mold"]),
}  # fmt: skip


@x86_64
@pytest.mark.sample(4)
@pytest.mark.parametrize("case", CUT)
def test_a_table_ends_where_its_section_does(
    built: Path, tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str], case: str
) -> None:
    """What is cut off would not be relocated, or not run."""
    tag, less, flags = CUT[case]
    for flag in flags:
        if flag.startswith("-fuse-ld="):
            require(flag.replace("-fuse-ld=", "ld."))
    source = (
        KERNEL
        + "int f(void) { return rand(); } void *a[] = {a, data, 0, 0, zeros}; void *volatile b = data;"
    )
    library = cc(source, tmp_path / "f.so", "-Wl,-z,lazy", *flags)
    data = bytearray(library.read_bytes())
    at = of_tag(data, tag)
    struct.pack_into("<Q", data, at, struct.unpack_from("<Q", data, at)[0] - less if less else 0)
    library.write_bytes(data)
    refused_by_both(built, library, "and ends inside a section, ")
    struct.pack_into("<Q", data, 40, 0)  # nothing else tells, without sections
    library.write_bytes(data)
    assert "inside a section" not in damaged(built, library, "check", [[]])[0]


@x86_64
def test_sections_that_lie_refuse_no_library(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """No loader reads them: only what agrees with the segments is believed."""
    library = cc(KERNEL, tmp_path / "f.so")
    data = bytearray(library.read_bytes())
    start, count = struct.unpack_from("<40xQ12xH", data)
    for at in range(start, start + 64 * count, 64):
        struct.pack_into("<Q", data, at + 16, 0x40)  # sh_addr
        struct.pack_into("<Q", data, at + 32, 2**40)  # sh_size
    library.write_bytes(data)
    assert damaged(built, library, "load", [[]]) == ["opened"]
    assert not judge_refuses(bytes(data))


@x86_64
@pytest.mark.parametrize("size", [8, 2])  # DT_RELASZ, DT_PLTRELSZ
def test_sizes_of_tables_near_two_to_the_64_are_one_error(
    tmp_path: Path, cc: Callable[..., Path], size: int
) -> None:
    source = "#include <stdlib.h>\nvoid *__tvm_module_ctx; int f(void) { return rand(); }"
    library = cc(source, tmp_path / "f.so", "-Wl,-z,lazy")
    data = bytearray(library.read_bytes())
    start, length = next((s[2], s[5]) for _, s in segments(data) if s[0] == PT_DYNAMIC)
    at = next(
        i for i in range(start, start + length, 16) if struct.unpack_from("<Q", data, i)[0] == size
    )
    struct.pack_into("<Q", data, at + 8, 0xFFFFFFFFFFFFF000)
    library.write_bytes(data)
    with pytest.raises(FormatError):
        mblob.verify(library)


def test_a_library_that_exports_nothing_is_sound(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    """No hash table counts its undefined symbols; relocations name them."""
    source = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { srand(1); }"
    library = cc(source, tmp_path / "f.so")
    assert damaged(built, library, "load", [[]]) == ["opened"]
    assert not judge_refuses(library.read_bytes())


def test_a_library_that_needs_versions_of_a_runtime_that_is_not_there_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    (tmp_path / "map").write_text("TVM_1 { *; };")
    flags = (f"-Wl,--version-script={tmp_path}/map", "-Wl,-soname,libtvm_runtime.so")
    runtime = cc("int TVMNobodys(void) { return 1; }", tmp_path / "libtvm_runtime.so", *flags)
    (tmp_path / "lib").mkdir()
    source = "int TVMNobodys(void) __attribute__((weak)); int f(void) { return TVMNobodys(); }"
    library = cc(
        source, tmp_path / "lib" / "f.so", f"-L{tmp_path}", "-Wl,--no-as-needed", "-ltvm_runtime"
    )
    runtime.unlink()
    assert "libtvm_runtime.so" in open_error(built, library)


def test_a_dynamic_section_that_cannot_be_written_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    library = cc("int f(void) { return 1; }", tmp_path / "f.so", "-nostdlib", "-Wl,-z,norelro")
    data = bytearray(library.read_bytes())
    for at, s in segments(data):
        if s[0] == PT_LOAD and s[1] & PF_W:
            struct.pack_into("<I", data, at + 4, s[1] & ~PF_W)
    library.write_bytes(data)
    assert "writable" in open_error(built, library)


@x86_64
@pytest.mark.parametrize("table", ["init", "fini"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_constructor_outside_the_code_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path], table: str, packed: bool
) -> None:
    flags = ["-Wl,-z,pack-relative-relocs"] if packed else []
    library = cc("int x; int *f(void) { return &x; }", tmp_path / "f.so", *flags)
    data = bytearray(library.read_bytes())
    tags = dynamic(data)
    # DT_INIT_ARRAY, DT_FINI_ARRAY; DT_SYMTAB
    entry, text = tags[25 if table == "init" else 26], tags[6]
    if packed:
        struct.pack_into("<Q", data, offset_of(data, entry), text)
    else:
        start = offset_of(data, tags[7])  # DT_RELA, DT_RELASZ
        at = next(
            i
            for i in range(start, start + tags[8], 24)
            if struct.unpack_from("<Q", data, i)[0] == entry
        )
        struct.pack_into("<Q", data, at + 16, text)
    library.write_bytes(data)
    assert "code" in open_error(built, library)


@x86_64
def test_a_constructor_that_is_a_symbol_of_data_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    source = 'int data[4]; __asm__(".section .init_array,\\"aw\\"\\n.quad data\\n.text");'
    library = cc(source, tmp_path / "f.so")
    assert "a constructor lies outside the code" in open_error(built, library)


@pytest.mark.parametrize("flags", [["-pie"], ["-no-pie"]], ids=["pie", "fixed"])
def test_an_executable_is_told_how_to_become_a_library(
    built: Path, tmp_path: Path, require: Callable[[str], str], flags: list[str]
) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    run(require("cc"), *flags, "-fPIE", tmp_path / "main.c", "-o", tmp_path / "main.so")
    assert "an executable; link it with -shared (at byte 16)" in open_error(
        built, tmp_path / "main.so"
    )


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("double erfc(double); double f(double x) { return erfc(x); }", "link it with -lm"),
        (
            "int nobodys(int); int f(int x) { return nobodys(x); }",
            "link the library with what defines it",
        ),
        (
            "int TVMNobodys(void); int f(void) { return TVMNobodys(); }",
            "a function of TVM's runtime",
        ),
    ],
)
def test_a_function_that_nobody_provides_is_named_with_a_remedy(
    built: Path, tmp_path: Path, cc: Callable[..., Path], call: str, remedy: str
) -> None:
    error = open_error(built, cc(call, tmp_path / "f.so"))
    assert "undefined symbol: " in error
    assert remedy in error


@x86_64
@pytest.mark.parametrize("linker", ["mold", "lld"])
def test_packed_relocations_without_their_version_are_refused_as_by_glibc(
    tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str], linker: str
) -> None:
    """Linkers that do not say what a library needs: glibc opens it if it needs no libc."""
    require(f"ld.{linker}")
    packed = "-Wl,-z,pack-relative-relocs" if linker == "mold" else "-Wl,--pack-dyn-relocs=relr"
    source = (
        "#include <stdlib.h>\nstatic int v; int *const table[64] = {[0 ... 63] = &v};"
        " int f(int x) { return x + (table[x] != 0) + abs(0); }"
    )
    library = cc(source, tmp_path / "f.so", "-fno-builtin", f"-fuse-ld={linker}", packed)
    elf = ElfFile(memoryview(library.read_bytes()))
    assert DT_RELR in elf.dynamic and "libc.so.6" in elf.needed
    with pytest.raises(OSError, match="GLIBC_ABI_DT_RELR"):
        ctypes.CDLL(str(library))
    for look in (mblob.load_module, mblob.verify):
        with pytest.raises(mblob.IncompatibleError, match="without -z pack-relative-relocs"):
            look(library)
