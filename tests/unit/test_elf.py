"""The ELF reader against readelf and nm, and against damage."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from mblob.binary.elf import ElfFile
from mblob.errors import DigestError, FormatError
from mblob.inspect.library import Library

SYSTEM = sorted(
    {
        p.resolve()
        for d in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
        for p in Path(d).glob("lib*.so.*")
    }
)[:100]

SOURCE = """
#include <stdint.h>
const unsigned char __tvm_dev_mblob[] __attribute__((aligned(64))) = {%s};
int vadd(void *a, int *c, int n) { return 0; }
int helper_counter;
extern float expf(float);
float calls(float x) { return expf(x); }
"""


def compile_library(folder: Path, blob: bytes, *flags: str) -> Path:
    cc = shutil.which("cc") or shutil.which("gcc")
    assert cc, "these tests need a C compiler"
    source, out = folder / "lib.c", folder / "lib.so"
    source.write_text(SOURCE % ",".join(map(str, blob)))
    subprocess.run([cc, "-shared", "-fPIC", "-O1", *flags, "-o", out, source], check=True)
    return out


EMPTY_BLOB = (8).to_bytes(8, "little") + bytes(8)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_library(tmp_path_factory.mktemp("elf"), EMPTY_BLOB)


def nm(path: Path) -> set[tuple[str, int]]:
    """(name, address) of defined exported symbols, by binutils; small letters are local ones."""
    text = subprocess.run(
        ["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True
    ).stdout
    rows = (line.split() for line in text.splitlines())
    return {
        (r[2].split("@")[0], int(r[0], 16)) for r in rows if len(r) == 3 and r[1] not in "aANbdrt"
    }


@pytest.mark.compiles
def test_symbols_agree_with_nm(library: Path) -> None:
    elf = ElfFile(memoryview(library.read_bytes()))
    ours = {(s.name, s.st_value) for s in elf.dynsym if s.is_exported}
    assert ours == nm(library)


@pytest.mark.compiles
@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
def test_symbols_are_counted_by_any_hash_table(tmp_path: Path, style: str) -> None:
    path = compile_library(tmp_path, EMPTY_BLOB, f"-Wl,--hash-style={style}")
    elf = ElfFile(memoryview(path.read_bytes()))
    assert {(s.name, s.st_value) for s in elf.dynsym if s.is_exported} == nm(path)


@pytest.mark.sample(8)
@pytest.mark.parametrize("path", SYSTEM, ids=lambda p: p.name)
def test_system_libraries_are_read_as_readelf_reads_them(path: Path) -> None:
    """Machine, needed libraries, undefined and defined symbols; and none of them is a model
    library."""
    with Library(path) as lib:
        text = subprocess.run(
            ["readelf", "-hdW", path], check=True, capture_output=True, text=True
        ).stdout
        assert lib.elf.needed == re.findall(r"\(NEEDED\) .*\[(.*)\]", text)
        ours = {
            (s.name, s.st_value)
            for s in lib.elf.dynsym
            if s.is_defined and s.st_shndx < 0xFF00 and s.binding
        }
        theirs = nm(path)
        assert theirs <= ours
        assert lib.blob is None
        assert not lib.is_model_library
        assert lib.to_json()["entries"] == [
            {
                "index": 0, "type_key": "library", "offset": None, "size": 0, "imports": [], "data": False,
                "alignment": 1, "digest": None,
            }
        ]  # fmt: skip


@pytest.mark.compiles
def test_the_blob_is_found_with_its_offset_in_the_file(library: Path) -> None:
    with Library(library) as lib:
        assert lib.dialect == "classic"
        found = lib.to_json()
        assert found["blob"]["size"] == 16
        assert library.read_bytes()[found["blob"]["offset"] :][:16] == EMPTY_BLOB
        assert found["functions"] == ["calls", "vadd"]
        assert found["undefined"] == ["expf"]
        assert found["target"]["bits"] == 64


def attempt(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        with Library(path) as lib:
            lib.to_json()
            list(lib.elf.notes())
            lib.elf.symtab  # noqa: B018
    except (FormatError, DigestError) as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 500


@pytest.mark.compiles
def test_a_library_cut_anywhere_is_one_error(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    for cut in [*range(0, 1200, 7), *range(1200, len(whole), 97)]:
        path = tmp_path / "cut.so"
        path.write_bytes(whole[:cut])
        if cut < 4096:  # what is loaded ends further on
            with pytest.raises(FormatError):
                Library(path)
        attempt(whole[:cut], path)


@pytest.mark.slow
def test_damaged_headers_and_tables_are_one_error_or_harmless(
    library: Path, tmp_path: Path
) -> None:
    whole = library.read_bytes()
    elf = ElfFile(memoryview(whole))
    rng = random.Random(3)
    places = [*range(64), *range(elf.e_phoff, elf.e_phoff + 56 * elf.e_phnum)]
    places += [rng.randrange(len(whole)) for _ in range(900)]
    for i, at in enumerate(places):
        damaged = bytearray(whole)
        damaged[at] = (0, 0xFF, whole[at] ^ 0x40)[i % 3]
        attempt(bytes(damaged), tmp_path / "damaged.so")


@pytest.mark.compiles
def test_a_symbol_table_said_to_be_huge_costs_nothing(library: Path, tmp_path: Path) -> None:
    """2^32 hash buckets, a section table of 2^64 bytes: refused before anything is allocated."""
    whole = bytearray(library.read_bytes())
    elf = ElfFile(memoryview(bytes(whole)))
    at = elf.offset_of(elf.dynamic[0x6FFFFEF5][0], 16, "hash")
    struct.pack_into("<4I", whole, at, 0xFFFFFFFF, 1, 0xFFFFFFFF, 6)
    path = tmp_path / "huge.so"
    path.write_bytes(whole)
    with pytest.raises(FormatError) as caught:
        Library(path)
    assert caught.value.code == "elf_dynamic"


@pytest.mark.compiles
def test_a_symbol_outside_of_the_file_is_refused(library: Path, tmp_path: Path) -> None:
    whole = bytearray(library.read_bytes())
    symbol = ElfFile(memoryview(bytes(whole))).find("__tvm_dev_mblob")
    assert symbol
    for size in (1 << 20, (1 << 64) - 1):
        struct.pack_into("<Q", whole, symbol.offset + 16, size)
        path = tmp_path / "long.so"
        path.write_bytes(whole)
        with pytest.raises(FormatError, match="no segment holds"):
            Library(path)


def test_what_is_no_library_says_so(tmp_path: Path) -> None:
    for content in (b"", b"MZ\x90\0", b"#!/bin/sh\n", b"\x7fEL"):
        path = tmp_path / "no.so"
        path.write_bytes(content)
        with pytest.raises(FormatError) as caught:
            Library(path)
        assert caught.value.code == "not_elf"
        assert caught.value.exit_code == 3
    with pytest.raises(FileNotFoundError):
        Library(tmp_path / "absent.so")


@pytest.mark.compiles
def test_a_view_outlives_the_library(library: Path) -> None:
    lib = Library(library)
    data = lib.elf.data[:4]
    lib.close()
    assert data == b"\x7fELF"
    with pytest.raises(ValueError, match="closed"):
        lib.blob_bytes()


@pytest.mark.compiles
def test_a_library_cut_at_its_end_is_refused(library: Path, tmp_path: Path) -> None:
    """What is loaded is all there, the section headers are not."""
    whole = library.read_bytes()
    path = tmp_path / "cut.so"
    path.write_bytes(whole[:-1])
    with pytest.raises(FormatError) as caught:
        Library(path)
    assert caught.value.code == "elf_truncated"


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.so"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(FormatError, match="not a regular file"):
            Library(path)
    with pytest.raises(IsADirectoryError):
        Library(tmp_path)
    with pytest.raises(FileNotFoundError):
        Library("")


def test_many_symbols_with_one_long_name_cost_nothing(tmp_path: Path) -> None:
    """40,000 symbols of one name of 60,000 bytes would be 2.4 GB of text."""
    count, name = 40_000, b"n" * 60_000
    strings = b"\0" + name + b"\0"
    head, segments = 64, 2 * 56
    symbols = head + segments
    table = symbols + 24 * (count + 1)
    dynamic = table + len(strings) + -len(strings) % 8
    hashes = dynamic + 16 * 5
    size = hashes + 8
    ident = b"\x7fELF\2\1\1" + bytes(9)
    ehdr = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, head, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, size, size, 4096)
    dyn = struct.pack("<IIQQQQQQ", 2, 6, dynamic, dynamic, dynamic, 80, 80, 8)
    body = (
        bytes(24)
        + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 0) * count
        + strings
        + bytes(-len(strings) % 8)
    )
    tags = struct.pack("<10Q", 5, table, 6, symbols, 10, len(strings), 4, hashes, 0, 0)
    path = tmp_path / "names.so"
    path.write_bytes(ehdr + load + dyn + body + tags + struct.pack("<II", 0, count + 1))
    with pytest.raises(FormatError, match="add up to more than 8 times"):
        Library(path)


@pytest.mark.compiles
def test_what_stands_before_an_unknown_key_is_still_usable(tmp_path: Path) -> None:
    """Without an index nobody knows where the payload of an unknown key ends."""
    from mblob.bytes.wire import encode_string, encode_strings, encode_u64

    payload = encode_string("sub") + encode_string("{}") + encode_strings([])
    stream = encode_u64(4) + encode_string("_lib") + encode_string("dnnl_json") + payload
    stream += encode_string("nobodys_key") + b"payload"
    path = compile_library(tmp_path, encode_u64(len(stream)) + stream)
    with pytest.raises(FormatError, match=r"lib\.so: .*nobodys_key") as caught:
        Library(path)
    assert caught.value.code == "unknown_key"
    assert caught.value.offset == len(stream) + 8 - len(b"payload")
    with Library(path, partial=True) as lib:
        assert [(e.type_key, e.size) for e in lib.entries] == [
            ("library", 0),
            ("dnnl_json", len(payload)),
        ]
        assert bytes(lib.entries[1].view()) == payload
        assert lib.diagnostics[0]["code"] == "unknown_key"
        assert lib.diagnostics[0]["severity"] == "error"
