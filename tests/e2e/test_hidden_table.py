"""Damage that would hide functions, or the table that tells plain ones: refused, or without
effect."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.format import functions_table, note
from tests.e2e.programs import run

VADD_C = "void vadd(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = a[i]; }\n"
# Flips each bit of some bytes and opens the result. What opens must still say the same of `name`.
FLIP = """
import sys, mblob
path, start, stop, name, packed = sys.argv[1:]
data = bytearray(open(path, "rb").read())
refused = opened = 0
for at in range(int(start), int(stop)):
    for bit in range(8):
        data[at] ^= 1 << bit
        try:
            library = mblob.load_module(bytes(data))
        except mblob.MblobError:
            refused += 1
        else:
            assert library.implements_function(name) == (packed == "True"), (at, bit)
            opened += 1
        data[at] ^= 1 << bit
print(refused, opened)
"""


def flipped(library: Path, start: int, stop: int, name: str, packed: bool) -> tuple[int, int]:
    """How many libraries with one bit flipped were refused, and how many opened."""
    refused, opened = run(
        sys.executable, "-c", FLIP, library, start, stop, name, packed
    ).stdout.split()
    return int(refused), int(opened)


def elf_of(path: Path) -> ElfFile:
    return ElfFile(memoryview(path.read_bytes()), path.name)


def error_of(opens: Callable[[Path], object], path: Path) -> mblob.MblobError:
    with pytest.raises(mblob.MblobError) as caught:
        opens(path)
    return caught.value


@pytest.fixture(params=[True, False], ids=["index", "no index"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A library of ours with a plain function; without an index it has no blob."""
    mblob.csource_module(VADD_C, functions=[]).export_library(
        tmp_path / "plain.so", index=request.param
    )
    return tmp_path / "plain.so"


def test_the_table_is_announced(plain: Path) -> None:
    elf = elf_of(plain)
    symbol = elf.find(functions_table.SYMBOL)
    assert symbol is not None
    said = note.announced(elf)
    assert said.flags & note.HAS_TABLE
    assert said.table_crc == functions_table.checksum(bytes(elf.bytes_of(symbol)[1]))


@pytest.mark.parametrize("opens", [mblob.open, mblob.load_module])
def test_a_table_that_is_announced_and_missing(
    plain: Path, opens: Callable[[Path], object]
) -> None:
    data = plain.read_bytes()
    plain.write_bytes(data.replace(b"\0__mblob_functions\0", b"\0__mblob_functionz\0", 1))
    # The dynamic strings come before the table; with the hash table as it was, C sees that it leads
    # nowhere.
    error = error_of(opens, plain)
    assert isinstance(error, mblob.FormatError)
    assert error.code == ("function_table_missing" if opens is mblob.open else "elf_dynamic")


@pytest.mark.parametrize("opens", [mblob.open, mblob.load_module])
def test_a_table_that_is_hidden(plain: Path, opens: Callable[[Path], object]) -> None:
    elf = elf_of(plain)
    symbol = elf.find(functions_table.SYMBOL)
    assert symbol is not None
    data = bytearray(plain.read_bytes())
    data[symbol.offset + 5] = 2  # st_other: STV_HIDDEN
    plain.write_bytes(data)
    error = error_of(opens, plain)
    assert isinstance(error, mblob.FormatError)
    assert error.code == "function_table_missing"
    assert "its note announces a table of functions, but __mblob_functions is missing" in str(error)


@pytest.mark.parametrize("opens", [mblob.open, mblob.load_module])
def test_a_table_that_is_damaged(plain: Path, opens: Callable[[Path], object]) -> None:
    data = plain.read_bytes()
    plain.write_bytes(data.replace(b"vadd\tvadd\t", b"vadd\tvade\t"))
    error = error_of(opens, plain)
    assert isinstance(error, mblob.DigestError)
    assert "__mblob_functions: CRC-32 " in str(error)


def test_a_library_without_the_flag_opens(plain: Path) -> None:
    elf = elf_of(plain)
    data = bytearray(plain.read_bytes())
    for owner, _, desc, at in elf.notes():
        if owner == b"mblob":
            struct.pack_into(
                "<2I", data, at + 4, struct.unpack_from("<I", desc, 4)[0] & ~note.HAS_TABLE, 0
            )
    plain.write_bytes(data)
    with mblob.open(plain) as lib:
        assert lib.plain_functions == ["vadd"]
    assert not mblob.load_module(plain).implements_function("vadd")


@pytest.mark.sample(1)
def test_no_bit_makes_a_plain_function_a_packed_one(plain: Path) -> None:
    elf = elf_of(plain)
    symbol = elf.find(functions_table.SYMBOL)
    hashes = elf.section(".gnu.hash") or elf.section(".hash")
    assert symbol is not None
    assert hashes is not None
    start, table = elf.bytes_of(symbol)
    name = plain.read_bytes().index(b"\0__mblob_functions\0") + 1
    parts = [
        (hashes.sh_offset, hashes.sh_size),
        (symbol.offset, 24),
        (name, len(functions_table.SYMBOL)),
    ]
    for first, size in [*parts, (start, len(table))]:
        refused, opened = flipped(plain, first, first + size, "vadd", packed=False)
        assert refused > opened, first


# -- libraries of others ---------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_damaged_hash_tables_of_foreign_libraries_hide_nothing(
    tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str], linker: str, style: str
) -> None:
    require("mold" if linker == "mold" else f"ld.{linker}")
    source = "void *__tvm_module_ctx;" + "".join(
        f"int function_{i}(void *a, int *b, int c) {{ return 0; }}\n" for i in range(7)
    )
    library = cc(
        source,
        tmp_path / "foreign.so",
        f"-fuse-ld={linker}",
        f"-Wl,--hash-style={style}",
        "-nostdlib",
    )
    elf = elf_of(library)
    tables = [s for s in elf.sections if s.name in (".gnu.hash", ".hash")]
    assert len(tables) == (2 if style == "both" else 1)
    for table in tables:
        refused, _ = flipped(
            library, table.sh_offset, table.sh_offset + table.sh_size, "function_3", packed=True
        )
        assert refused > 4 * 7
