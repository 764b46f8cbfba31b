"""Tars: what looks at one, loads it and converts it reads the same members, and refuses the same."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.built_once import built_once

SOURCE = "int answer(void *args, int *codes, int n, void *result, int *code, void *resource) { return 0; }"


@pytest.fixture(scope="module")
def content() -> bytes:
    """A tar of one object."""

    def make(folder: Path) -> None:
        mblob.csource_module(SOURCE).export_library(folder / "m.tar", index=False)

    return (built_once("tar", make, SOURCE) / "m.tar").read_bytes()


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **more: object) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), "target"
    for field, value in more.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512)


def refusals(path: Path) -> list[str]:
    """What each of the three says."""
    found = []
    for use in (
        lambda: mblob.open(path).close(),
        lambda: mblob.load_module(path),
        lambda: mblob.convert(path, path.with_suffix(".out.so"), dialect="ffi"),
    ):
        with pytest.raises(mblob.FormatError) as caught:
            use()
        found.append(caught.value.code)
    return found


HOSTILE = {
    "a name that leads out": ("tar_path", lambda obj: member("../a.o", obj)),
    "an absolute name": ("tar_path", lambda obj: member("/tmp/a.o", obj)),
    "a link": ("tar_path", lambda _: member("a.o", kind=tarfile.SYMTYPE)),
    "a hard link": ("tar_path", lambda _: member("a.o", kind=tarfile.LNKTYPE)),
    "a device": ("tar_path", lambda _: member("a.o", kind=tarfile.CHRTYPE)),
    "a name twice": ("archive", lambda obj: member("a.o", obj) + member("./a.o", obj)),
    "an archive in it": ("archive", lambda obj: member("a.a", b"!<arch>\n")),
    "a pax size": (
        "archive",
        lambda obj: member("a.o", obj, pax_headers={"size": str(1 << 40)}),
    ),
    "holes": (
        "archive",
        lambda obj: member(
            "a.o", obj, pax_headers={"GNU.sparse.map": "0,10", "GNU.sparse.size": "99"}
        ),
    ),
    "another tar behind it": ("archive", lambda obj: bytes(1024) + member("b.o", obj)),
    "a damaged header": ("archive", lambda obj: b"x" * 512 + member("b.o", obj)),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_looking_loading_and_converting_refuse_the_same_tars(
    content: bytes, tmp_path: Path, how: str
) -> None:
    code, make = HOSTILE[how]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        first = tar.next()
        assert first is not None
        start, size = first.offset_data, first.size
    obj = content[start : start + size]
    path = tmp_path / "m.tar"
    path.write_bytes(member("first.o", obj) + make(obj) + bytes(1024))
    assert refusals(path) == [code] * 3


STREAMS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", STREAMS)
def test_all_streams_of_a_compressed_tar_are_read(
    content: bytes, tmp_path: Path, kind: str
) -> None:
    pack: Callable[[bytes], bytes] = STREAMS[kind]
    path = tmp_path / "m.tar.packed"
    path.write_bytes(pack(content[:700]) + pack(content[700:]) + bytes(8))
    with mblob.open(path) as library:
        assert library.functions == ["answer"]
    assert mblob.load_module(path).implements_function("answer")
    mblob.convert(path, tmp_path / "m.so", dialect="ffi")


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("what", ["cut", "followed"])
def test_a_compressed_tar_that_is_cut_or_followed_by_something_is_refused(
    content: bytes, tmp_path: Path, kind: str, what: str
) -> None:
    whole = STREAMS[kind](content[:700]) + STREAMS[kind](content[700:])
    path = tmp_path / "m.tar.packed"
    path.write_bytes(whole[:-5] if what == "cut" else whole + b"more")
    assert refusals(path) == ["archive"] * 3


def test_an_archive_in_a_tar_that_is_written_is_taken_apart(content: bytes, tmp_path: Path) -> None:
    name = b"x.o/".ljust(16)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        first = tar.next()
        assert first is not None
        obj = content[first.offset_data :][: first.size]
    header = name + b"0".ljust(12) + b"0     0     644     " + str(len(obj)).ljust(10).encode()
    archive = tmp_path / "x.a"
    archive.write_bytes(b"!<arch>\n" + header + b"`\n" + obj + b"\n" * (len(obj) % 2))
    mblob.static_library(archive).export_library(tmp_path / "x.tar")
    with mblob.open(tmp_path / "x.tar") as library:
        assert "answer" in library.functions
    assert mblob.load_module(tmp_path / "x.tar").implements_function("answer")
