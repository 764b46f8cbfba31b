"""Pages of what is no ELF library: objects, archives, Mach-O, PE, C source. The blob and its
headers are shown too."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.html.test_page import data_of, fields_of, page_of
from tests.looking.conftest import BLOB, KERNEL, blob_source

TARGETS = {
    "x86_64-linux-gnu": "ELF header",
    "powerpc-linux-gnu": "ELF header",
    "x86_64-apple-macos11": "Mach-O header",
    "i686-apple-darwin": "Mach-O header",
    "x86_64-pc-windows-msvc": "COFF header",
}


def check(page: str, path: Path, header: str) -> dict[str, Any]:
    """The blob's entries and headers are there, the areas are the whole file, and named bytes are
    those of the file."""
    found, raw = data_of(page), path.read_bytes()
    assert [found["keys"][row[0]] for row in found["entries"]] == ["library", "cuda"]
    assert found["kernels"]["rows"] == [[1, "k", "handle, int32", "blockIdx.x"]]
    assert sum(row[2] for row in found["areas"]) + found["blob"]["size"] == len(raw)
    titles = [g["title"] for g in found["headers"]]
    assert titles[0] == header
    assert titles[-3:] == ["Blob", "Items", "Import tree"]
    for group in found["headers"]:
        for _, offset, digits, _ in group["blocks"]:
            assert raw[offset : offset + len(digits) // 2].hex() == digits
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_objects_of_other_systems(clang: Callable[..., Path], tmp_path: Path, target: str) -> None:
    path = clang(KERNEL + blob_source(BLOB), tmp_path / "lib0.o", target)
    found = check(page_of(path), path, TARGETS[target])
    assert any(row[3] == "code" for row in found["areas"])
    assert {row[0].lstrip("_") for row in found["undefined"]["rows"]} >= {
        "TVMBackendAllocWorkspace",
        "expf",
    }


def test_mach_o_libraries(dylib: dict[str, Path]) -> None:
    for path in dylib.values():
        check(page_of(path), path, "Mach-O header")


def test_the_headers_of_a_pe_library_are_named(dll: Path) -> None:
    page = page_of(dll)
    check(page, dll, "DOS header")
    assert fields_of(page, "PE signature")["Signature"] == repr("PE\0\0")
    assert fields_of(page, "COFF header")["Machine"].startswith("0x8664")


def test_an_archive_shows_its_members_and_what_is_in_them(
    clang: Callable[..., Path], tmp_path: Path
) -> None:
    objects = [
        clang(KERNEL, tmp_path / "kernel.o", "x86_64-linux-gnu"),
        clang(blob_source(BLOB, attributes=""), tmp_path / "devc.o", "x86_64-linux-gnu"),
    ]
    path = tmp_path / "lib.tar"
    with tarfile.open(path, "w") as tar:
        for part in objects:
            tar.add(part, part.name)
    page = page_of(path)
    found = check(page, path, "ELF header")
    members = {row[0]: row for row in found["areas"]}
    assert ".text" in {child[0] for child in members["kernel.o"][5]}
    inside = gzip.compress(path.read_bytes())
    packed = tmp_path / "lib.tar.gz"
    packed.write_bytes(inside)
    again = data_of(page_of(packed))
    assert again["blob"] == found["blob"]
    assert again["entries"] == found["entries"]


def test_a_blob_in_c_source_is_shown_as_the_library_has_it(golden: Path) -> None:
    text, library = data_of(page_of(golden / "dag_devc.c")), data_of(page_of(golden / "dag.so"))
    assert text["blob"]["size"] == library["blob"]["size"]
    assert [row[2:5] for row in text["entries"]] == [row[2:5] for row in library["entries"]]
    named = [[b[2] for b in g["blocks"]] for g in text["headers"]]
    groups = [g for g in library["headers"] if g["title"] in ("Blob", "Items", "Import tree")]
    assert named == [[b[2] for b in g["blocks"]] for g in groups]
