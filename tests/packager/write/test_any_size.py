"""Libraries around and past 2 and 4 GiB, with each linker. Payloads are sparse files, and stay
sparse: what counts here are offsets, sizes and addresses, and every byte of a hole is a zero of the
payload like any other."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import Segment
from mblob.errors import ToolchainError
from mblob.packager.compile.toolchain import Linker, Toolchain, find
from mblob.packager.link import embed
from mblob.packager.objects.object_files import ElfTarget

SIZES = [(2 << 30) - 1, 2 << 30, (2 << 30) + 1, (4 << 30) + 1, 5 << 30]
X86_64 = ElfTarget(64, "<", 62, 0, 0, b"", "x86_64")
AARCH64 = ElfTarget(64, "<", 183, 0, 0, b"", "aarch64")
# Code that reaches its constants, data and other functions as compilers let it: within 2 GiB.
KERNEL = """
#include <string.h>
static const double table[64] = {1, 2, 3};
static int counter = 5;
static char buffer[4096];
int f(int x) { buffer[x & 4095] = (char)x; return counter + (int)table[x & 63] + buffer[x & 4095] + (int)strlen("ab"); }
"""
RESULT = 5 + 2 + 1 + 2  # of f(1)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernel") / "f.o"
    subprocess.run(
        ["cc", "-O2", "-g", "-fPIC", "-c", "-x", "c", "-", "-o", path],
        input=KERNEL.encode(),
        check=True,
    )
    return path


def sparse(path: Path, size: int) -> dict[int, bytes]:
    """A payload with a mark at both ends, across 2 GiB and across 4 GiB; offset -> mark."""
    marks = {0: b"the start", size - 7: b"the end"}
    marks.update(
        {at: b"crossing" for at in ((2 << 30) - 300_004, (4 << 30) - 300_004) if at < size - 100}
    )
    with path.open("wb") as file:
        file.truncate(size)
        for at, mark in marks.items():
            file.seek(at)
            file.write(mark)
    return marks


def compare(path: Path, size: int, marks: dict[int, bytes]) -> None:
    """Open in Python and in C's loader; every byte that the file holds is a mark or 0, and what it
    leaves out is 0."""
    with mblob.open(path) as lib:
        entry = lib.to_json()["entries"][1]
        assert entry["size"] == size
    module = mblob.load_module(path)
    assert module.symbol("f", ctypes.c_int, [ctypes.c_int])(1) == RESULT
    payload = module.imported_modules[0].payload
    assert payload.nbytes == size
    for at, mark in marks.items():
        assert payload[at : at + len(mark)] == mark
    with path.open("rb") as file:
        position, end = entry["offset"], entry["offset"] + size
        while position < end:
            try:
                start = min(os.lseek(file.fileno(), position, os.SEEK_DATA), end)
            except OSError:
                break
            stop = min(os.lseek(file.fileno(), start, os.SEEK_HOLE), end) if start < end else end
            data = bytearray(payload[start - entry["offset"] : stop - entry["offset"]])
            for at, mark in marks.items():
                here = at - (start - entry["offset"])
                if 0 <= here < len(data):
                    data[here : here + len(mark)] = bytes(len(mark))
            assert not any(data)
            position = stop


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_any_size_with_each_linker(
    tmp_path: Path, kernel: Path, require: Callable[[str], str], linker: str, size: int
) -> None:
    require(f"ld.{linker}")
    marks = sparse(tmp_path / "p", size)
    root = mblob.static_library(kernel)
    root.import_module(mblob.blob_module("raw", tmp_path / "p"))
    options = [f"-fuse-ld={linker}"]
    if linker != "mold":
        root.export_library(tmp_path / "x.so", options=options)
    else:
        if find().linker(options, tmp_path).major < 2:
            said = r"mold 1\.[\d.]+ cannot link \d+ bytes of packed modules: it writes unwind tables .*embed='append'"
            with pytest.raises(ToolchainError, match=said):
                root.export_library(tmp_path / "x.so", options=options)
            assert not (tmp_path / "x.so").exists()
        root.export_library(tmp_path / "x.so", options=options, embed="append")
    assert (tmp_path / "x.so").stat().st_size > size
    compare(tmp_path / "x.so", size, marks)


@pytest.mark.sample(1)
@pytest.mark.parametrize("digest", ["sha256", "none"])
def test_other_digests_past_4_gib(tmp_path: Path, kernel: Path, digest: str) -> None:
    size = (4 << 30) + 1 if digest == "none" else (1 << 30) + 1
    marks = sparse(tmp_path / "p", size)
    root = mblob.static_library(kernel)
    root.import_module(mblob.blob_module("raw", tmp_path / "p"))
    root.export_library(tmp_path / "x.so", digest=digest)
    compare(tmp_path / "x.so", size, marks)


@pytest.mark.parametrize(
    ("linker", "machine", "message"),
    [
        (
            Linker("mold", "1.10.1"),
            X86_64,
            r"^mold 1.10.1 cannot link .*unwind tables that wrap around.*-fuse-ld=bfd",
        ),
        (
            Linker("lld", "14.0.6"),
            X86_64,
            r"^lld 14.0.6 cannot link .*do not reach each other.*-fuse-ld=bfd or gold",
        ),
        (
            Linker("bfd", "2.40"),
            AARCH64,
            r"^bfd 2.40 cannot link .*has no section for them on aarch64.*leave embed",
        ),
    ],
)
def test_a_linker_that_cannot_place_the_blob_is_refused_by_name(
    linker: Linker, machine: ElfTarget, message: str
) -> None:
    with pytest.raises(ToolchainError, match=message):
        embed.check_linker(3 << 30, machine, linker)


@pytest.mark.parametrize(
    "linker",
    [
        Linker("bfd", "2.40"),
        Linker("gold", "1.16"),
        Linker("lld", "19.1.7"),
        Linker("mold", "2.30.0"),
    ],
)
def test_linkers_that_may_try(linker: Linker) -> None:
    embed.check_linker(3 << 30, X86_64, linker)


@pytest.mark.parametrize("linker", ["lld", "mold"])
def test_embedding_as_an_object_is_refused_before_anything_large_is_written(
    tmp_path: Path, kernel: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}")
    found = find().linker([f"-fuse-ld={linker}"], tmp_path)
    if found.major > {"lld": embed.LLD_SMALL, "mold": 1}[linker]:
        pytest.skip(f"{found} is not known to get it wrong")
    sparse(tmp_path / "p", 3 << 30)
    root = mblob.static_library(kernel)
    root.import_module(mblob.blob_module("raw", tmp_path / "p"))
    with pytest.raises(ToolchainError, match=f"^{linker} {found.version} cannot link"):
        root.export_library(
            tmp_path / "x.so",
            embed="object",
            options=[f"-fuse-ld={linker}"],
            workspace_dir=tmp_path / "work",
        )
    assert not (tmp_path / "work" / "devc.o").exists()


def test_an_iterable_is_measured_when_it_is_written(
    tmp_path: Path, kernel: Path, require: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    require("ld.mold")
    monkeypatch.setattr(embed, "OBJECT_LIMIT", 1000)
    monkeypatch.setattr(Toolchain, "linker", lambda *_: Linker("mold", "1.11.0"))
    root = mblob.static_library(kernel)
    root.import_module(mblob.blob_module("raw", iter([bytes(1000), bytes(1000)])))
    with pytest.raises(ToolchainError, match=r"mold 1\.11\.0 cannot link"):
        root.export_library(tmp_path / "x.so", options=["-fuse-ld=mold"])


def test_unwind_tables_out_of_reach_are_noticed(
    tmp_path: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What mold 1.x writes at 3 GiB: the blob between tables and code, and no word about it."""
    root = mblob.static_library(kernel)
    root.import_module(mblob.blob_module("raw", b"x"))
    root.export_library(tmp_path / "x.so")
    embed.check_unwinding(tmp_path / "x.so", Linker("mold", "3.0"))
    monkeypatch.setattr(embed.ElfFile, "segments", _far(tmp_path / "x.so"))
    with pytest.raises(
        ToolchainError, match=r"mold 3.0 put the packed modules between code and its unwind tables"
    ):
        embed.check_unwinding(tmp_path / "x.so", Linker("mold", "3.0"))


def _far(path: Path) -> list[Segment]:
    found = ElfFile(memoryview(path.read_bytes()), path.name).segments
    return [s._replace(p_vaddr=s.p_vaddr + (3 << 30)) if s.p_flags & 1 else s for s in found]


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
def test_linkers_say_who_they_are(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}")
    for cc in ("gcc", "clang"):
        require(cc)
        found = find(cc).linker([f"-fuse-ld={linker}"], tmp_path)
        assert found.name == linker
        assert found.major >= 1


def test_a_linker_nobody_knows(tmp_path: Path) -> None:
    answers = 'case "$*" in *dumpmachine*) echo x86_64-linux-gnu;; *) echo wild 0.5;; esac'
    (tmp_path / "cc").write_text(f"#!/bin/sh\n{answers}\n")
    (tmp_path / "cc").chmod(0o755)
    found = find(str(tmp_path / "cc")).linker([], tmp_path)
    assert (found.name, found.major, str(found)) == ("", 0, "the linker")
