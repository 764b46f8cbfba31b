"""Libraries whose relocations Android's linkers packed, as lld does for it: swap and convert read
them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import DT_ANDROID_RELA
from mblob.bytes.mapping import map_file
from mblob.packager.errors import BuildError
from mblob.packager.join import relocations
from tests.e2e.ffi.ffi_sources import PACKED

pytestmark = pytest.mark.own_process

PACKS = ["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=android", "-Wl,-Bsymbolic"]
REFERS = """extern const char __tvm_dev_mblob[];
const char *const places[] = {"a", __tvm_dev_mblob, "b"};
const char *const *where(void) { return places; }
"""


@pytest.fixture
def library(require: Callable[[str], str], tmp_path: Path) -> Path:
    """With functions in the packed convention, and data that refers to the blob."""
    require("ld.lld")
    root = mblob.csource_module(PACKED + REFERS)
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "a.so", embed="object", options=PACKS)
    return tmp_path / "a.so"


def elf_of(path: Path) -> ElfFile:
    return ElfFile(map_file(path), str(path))


def test_they_are_those_that_are_not_packed(library: Path, tmp_path: Path) -> None:
    root = mblob.csource_module(PACKED + REFERS)
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "b.so", embed="object", options=[PACKS[0], PACKS[2]])
    packed, plain = (relocations.read(elf_of(path)) for path in (library, tmp_path / "b.so"))
    assert DT_ANDROID_RELA in elf_of(library).dynamic

    def forms(read: tuple[list[relocations.Relocation], ...]) -> list[tuple[int, int]]:
        return sorted((r.type, r.symbol) for r in read[0])

    assert forms(packed) == forms(plain)


def test_a_blob_that_data_refers_to_stays(library: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"data at 0x[0-9a-f]+ has its address"):
        mblob.swap(library, {"my.kind": b"x" * (1 << 17)}, tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()


def test_what_is_converted_runs_here_too(library: Path, tmp_path: Path) -> None:
    """The new table is not packed, so that other dynamic linkers read it."""
    mblob.convert(library, tmp_path / "b.so", dialect="ffi")
    lib = mblob.load_module(tmp_path / "b.so", missing="stub")
    assert lib["twice"](21) == 42
    with pytest.raises(mblob.KernelError, match="twice: wants one int"):
        lib["twice"]("x")


@pytest.mark.parametrize(
    "head, text",
    [
        (b"APS3", "start with b'APS3'"),
        (b"APS2" + b"\xff" * 9 + b"\x00", "records"),
        (b"APS2\x05\x00\x06\x0b", "a group of 6 records, of which 5 are left"),
        (b"APS2\x05\x00\x00", "a group of 0 records"),
        (b"APS2" + b"\x80" * 20, "more than 64 bits"),
    ],
)
def test_damage_is_named(library: Path, tmp_path: Path, head: bytes, text: str) -> None:
    elf = elf_of(library)
    at = elf.offset_of(elf.dynamic[DT_ANDROID_RELA][0], len(head), "relocations")
    shutil.copy(library, tmp_path / "bad.so")
    data = bytearray(library.read_bytes())
    data[at : at + len(head)] = head
    (tmp_path / "bad.so").write_bytes(data)
    with pytest.raises(mblob.FormatError, match="damaged packed relocations.*" + text) as error:
        mblob.swap(tmp_path / "bad.so", {"my.kind": b"x" * (1 << 17)})
    assert error.value.code == "elf_dynamic"
