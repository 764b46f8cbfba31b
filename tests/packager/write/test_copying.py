"""Blobs on their way into a file: by reference and otherwise, inputs that change meanwhile,
build-ids."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes import native_copy
from mblob.bytes.digest import Crc32
from mblob.bytes.sink import STEP
from mblob.errors import ToolchainError
from mblob.format.blob_plan import BLOB_ALIGN
from mblob.packager.write import blob_stream, elf_patch, grow
from mblob.packager.write.file_sink import PAGE, FileSink

DATA = bytes(range(251)) * 20_000
REAL_COPY = os.copy_file_range


def library(payload: Any) -> mblob.Module:
    root = mblob.csource_module("int f(int x) { return x + 1; }\n")
    root.import_module(mblob.blob_module("raw", payload))
    return root


def payload_of(path: Path) -> bytes:
    with mblob.open(path) as lib:
        lib.verify("full")
        return bytes(lib.entries[1].view())


def weights(path: Path, size: int = 2 << 20) -> Path:
    """A safetensors file whose data starts at a multiple of 64 bytes, so that it may lie at whole
    pages."""
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    header += b" " * (-(8 + len(header)) % 64)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(range(256)) * (size // 256))
    return path


@pytest.fixture(params=["compiled", "plain"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The loop that copies is compiled, or that of a checkout that is not built."""
    assert native_copy.copy is not None
    if request.param == "plain":
        monkeypatch.setattr(native_copy, "copy", None)
    return str(request.param)


# -- copy_file_range -------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that each copy_file_range copied."""
    counts: list[int] = []

    def counted(*args: Any) -> int:
        counts.append(REAL_COPY(*args))
        return counts[-1]

    monkeypatch.setattr(os, "copy_file_range", counted)
    return counts


def test_large_weights_are_copied_by_reference(tmp_path: Path, taken: list[int]) -> None:
    path = weights(tmp_path / "w.safetensors")
    root = mblob.csource_module("int f;")
    root.import_module(mblob.safetensors_module(path))
    root.export_library(tmp_path / "x.so", digest="none")
    assert sum(taken) == path.stat().st_size
    with mblob.open(tmp_path / "x.so") as lib:
        offset = lib.to_json()["entries"][1]["offset"]
        assert offset % BLOB_ALIGN == 0
        assert lib.entries[1].view() == path.read_bytes()
    taken.clear()
    root.export_library(tmp_path / "x.so")  # with digests all bytes are seen
    assert taken == []
    assert payload_of(tmp_path / "x.so") == path.read_bytes()


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "code", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM]
)
def test_without_copy_file_range_it_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, loop: str
) -> None:
    calls = []

    def refuse(*args: Any) -> int:
        calls.append(args)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "copy_file_range", refuse)
    root = mblob.csource_module("int f;")
    root.import_module(mblob.safetensors_module(weights(tmp_path / "w.safetensors")))
    root.export_library(tmp_path / "x.so", digest="none")
    assert len(calls) == 1  # it is not asked again and again
    assert payload_of(tmp_path / "x.so") == (tmp_path / "w.safetensors").read_bytes()


@pytest.mark.parametrize("most", [1, 5000, 70_000, 1 << 20])
def test_copies_that_are_shorter_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(
        os, "copy_file_range", lambda src, dst, count, at: REAL_COPY(src, dst, min(count, most), at)
    )
    root = mblob.csource_module("int f;")
    root.import_module(mblob.safetensors_module(weights(tmp_path / "w.safetensors")))
    root.export_library(tmp_path / "x.so", digest="none")
    assert payload_of(tmp_path / "x.so") == (tmp_path / "w.safetensors").read_bytes()


def test_a_file_system_whose_copy_file_range_copies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    root = mblob.csource_module("int f;")
    root.import_module(mblob.safetensors_module(weights(tmp_path / "w.safetensors")))
    root.export_library(tmp_path / "x.so", digest="none")
    assert payload_of(tmp_path / "x.so") == (tmp_path / "w.safetensors").read_bytes()


@pytest.mark.sample(6)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("call", ["copy_file_range", "write", "copy", "reserve"])
def test_no_room_is_an_error_of_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    real = os.write
    fault = OSError(code, os.strerror(code))

    def full(*args: Any) -> int:
        if call == "write" and len(args[1]) < STEP:
            return real(*args)
        raise fault

    (tmp_path / "x.so").write_bytes(b"old")
    root = mblob.csource_module("int f;")
    root.import_module(mblob.safetensors_module(weights(tmp_path / "w.safetensors")))
    how = {
        "copy_file_range": {"digest": "none"},
        "write": {"digest": "sha256"},
        "copy": {},
        "reserve": {},
    }[call]
    monkeypatch.setattr(os if hasattr(os, call) else native_copy, call, full)
    with pytest.raises(OSError, match="the output cannot be written") as caught:
        root.export_library(tmp_path / "x.so", **how)
    monkeypatch.undo()
    assert (caught.value.errno, caught.value.filename) == (code, str(tmp_path / "x.so"))
    assert (tmp_path / "x.so").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["TMPDIR", "w.safetensors", "x.so"]


def test_a_payload_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        OSError, match=r"the payload cannot be read: Input/output error.*/proc/self/mem"
    ):
        library("/proc/self/mem").export_library(tmp_path / "x.so")


def test_a_file_that_may_not_grow_so_far_is_an_error_of_the_output(tmp_path: Path) -> None:
    """The kernel's own word, met in the middle of a payload."""
    (tmp_path / "p").write_bytes(DATA)
    (tmp_path / "x.so").write_bytes(b"old")
    program = (
        "import resource, sys, mblob\n"
        "root = mblob.csource_module('int f;'); root.import_module(mblob.blob_module('raw', sys.argv[1]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))\n"
        "root.export_library(sys.argv[2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "p", tmp_path / "x.so"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "the output cannot be written" in done.stderr
    assert done.returncode == 1
    assert (tmp_path / "x.so").read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["TMPDIR", "p", "x.so"]


def test_a_sink_refers_to_whole_pages_only(tmp_path: Path, taken: list[int], loop: str) -> None:
    (tmp_path / "in").write_bytes(DATA)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as file:
        file.seek(PAGE)
        sink = FileSink(file.fileno())
        assert sink.take(source.fileno(), PAGE, 100, None, 1) == 100
        found = [
            sink.take(source.fileno(), 2 * PAGE, 100, None, 1),
            sink.take(source.fileno(), 1, 50, None, 1),
        ]
        assert found == ([100, 50] if loop == "compiled" else [0, 0])
        sink.skip(PAGE - sink.size)
        crc = Crc32()
        assert sink.take(source.fileno(), 0, PAGE, crc, 1) == (PAGE if loop == "compiled" else 0)
        assert crc.value == (zlib.crc32(DATA[:PAGE]) if loop == "compiled" else 0)
        sink.write(b"end")
    assert taken == [100]
    wanted = bytes(PAGE) + DATA[PAGE:][:100]
    wanted += DATA[2 * PAGE :][:100] + DATA[1:51] if loop == "compiled" else b""
    wanted += bytes(-len(wanted) % PAGE) + (DATA[:PAGE] if loop == "compiled" else b"") + b"end"
    assert sink.size == len(wanted) - PAGE
    assert (tmp_path / "out").read_bytes() == wanted


def test_writes_are_short_and_end_at_whole_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    real = os.write

    def some(fd: int, data: memoryview) -> int:
        lengths.append(len(data))
        return real(fd, data[: len(data) // 2 + 1])  # as a signal or a quota may make it

    with (tmp_path / "out").open("wb") as file:
        file.seek(41)
        monkeypatch.setattr(os, "write", some)
        FileSink(file.fileno()).write(DATA)
        monkeypatch.undo()
    assert (tmp_path / "out").read_bytes()[41:] == DATA
    assert max(lengths) <= STEP
    assert lengths[0] == STEP - 41


# -- inputs that change ----------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize("digest", ["crc32", "none"])
@pytest.mark.parametrize("change", ["grows", "shrinks", "is written", "is replaced"])
def test_a_payload_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, digest: str, loop: str
) -> None:
    path = tmp_path / "p"
    path.write_bytes(DATA)
    (tmp_path / "x.so").write_bytes(b"old")
    real, compiled = FileSink.write, native_copy.copy

    def written(self: FileSink, data: Any) -> None:
        real(self, data)
        if len(data) >= 100_000:
            meanwhile()

    def copied(*args: Any) -> tuple[int, int | None]:
        assert compiled is not None
        found = compiled(*args[:3], min(args[3], 200_000), *args[4:])
        meanwhile()
        return found

    def meanwhile() -> None:
        if not path.exists():
            return
        if change == "is replaced":
            path.unlink()
        elif change == "shrinks":
            os.truncate(path, 300_000)
        else:
            with path.open("r+b") as file:
                file.seek(0, os.SEEK_END if change == "grows" else os.SEEK_SET)
                file.write(b"more")
            os.utime(path, ns=(1, 1))

    monkeypatch.setattr(FileSink, "write", written)
    if loop == "compiled":
        monkeypatch.setattr(native_copy, "copy", copied)
    if change == "is replaced":  # the file that was opened is whole, and nobody writes to it
        library(path).export_library(tmp_path / "x.so", digest=digest)
        monkeypatch.undo()
        assert payload_of(tmp_path / "x.so") == DATA
        return
    with pytest.raises(
        mblob.MblobError, match=r"/p: changed while it was read: .*pack again when nobody does"
    ):
        library(path).export_library(tmp_path / "x.so", digest=digest)
    assert (tmp_path / "x.so").read_bytes() == b"old"


# -- build-ids -------------------------------------------------------------------------------------


def build_id(path: Path) -> bytes:
    elf = ElfFile(memoryview(path.read_bytes()), path.name)
    return next(desc for owner, kind, desc, _ in elf.notes() if owner == b"GNU" and kind == 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("digest", ["crc32", "sha256", "none"])
@pytest.mark.parametrize("at", [0, 1_234_567, len(DATA) - 1])
def test_a_byte_of_the_payload_changes_the_build_id(
    tmp_path: Path, at: int, digest: str, index: bool
) -> None:
    found = set()
    for flip in (0, 1, 0):
        data = bytearray(DATA)
        data[at] ^= flip
        root = mblob.csource_module("int f;")
        root.import_module(mblob.device_module("opencl", "__kernel void k() {}"))
        root.import_module(mblob.const_loader_module({"c": memoryview(data)}, {}))
        root.export_library(
            tmp_path / "x.so", digest=digest, index=index, options=["-Wl,--build-id=sha1"]
        )
        found.add(build_id(tmp_path / "x.so"))
    assert len(found) == 2


def test_of_a_large_blob_without_digests_a_changed_mib_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_stream, "WHOLE", 1 << 20)
    size, found = 6 << 20, set()
    for at in (None, 0, 1_500_000, 3 << 20, size - (1 << 20)):
        data = bytearray(size)
        if at is not None:
            data[at : at + (1 << 20)] = b"x" * (1 << 20)
        library(data).export_library(
            tmp_path / "x.so", digest="none", options=["-Wl,--build-id=sha1"]
        )
        found.add(build_id(tmp_path / "x.so"))
    assert len(found) == 5


def test_the_place_of_a_blob_follows_the_rules_of_segments(tmp_path: Path) -> None:
    """Offset and address agree modulo the alignment that the segment asks for, or no loader maps
    it."""
    library(DATA).export_library(tmp_path / "x.so")
    elf = ElfFile(memoryview((tmp_path / "x.so").read_bytes()), "x.so")
    for s in elf.segments:
        if s.p_type == 1:
            assert (s.p_offset - s.p_vaddr) % s.p_align == 0
    with pytest.raises(ToolchainError, match="did not place the packed modules"):
        grow.segment_to_grow(
            elf_patch.Stub(b"", elf, next(s for s in elf.dynsym if s.name == "f"), None)
        )
