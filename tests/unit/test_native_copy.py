"""The compiled loops: the checksum of zlib, and copies from file to file."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from mblob.bytes import _copy
from mblob.bytes.sink import STEP

DATA = random.Random(3).randbytes(9 * STEP + 777)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 65, 127, 128, 4096, 4097, STEP, len(DATA)])
@pytest.mark.parametrize("start", [0, 1, 0xFFFFFFFF, 0x12345678])
def test_the_checksum_is_that_of_zlib(size: int, start: int) -> None:
    for at in (0, 1, 7):
        data = memoryview(DATA)[at : at + size]
        assert _copy.crc32(data, start) == zlib.crc32(data, start)
    assert _copy.crc32(DATA) == zlib.crc32(DATA)


def test_what_is_no_buffer_has_no_checksum() -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        _copy.crc32("text")
    with pytest.raises(BufferError):
        _copy.crc32(memoryview(DATA)[::2])


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    (tmp_path / "in").write_bytes(DATA)
    with (
        (tmp_path / "in").open("rb", buffering=0) as source,
        (tmp_path / "out").open("w+b", buffering=0) as out,
    ):
        yield source, out


def written(file: BinaryIO) -> bytes:
    return os.pread(file.fileno(), 1 << 30, 0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("head", [0, 41, 2 * STEP - 1, 2 * STEP])
@pytest.mark.parametrize("offset", [0, 5])
def test_bytes_arrive_with_their_checksum(
    files: tuple[BinaryIO, BinaryIO], offset: int, head: int, threads: int
) -> None:
    source, out = files
    out.write(bytes(head))
    done, crc = 0, 7
    while done < len(DATA) - offset:  # a call ends after some time, so that signals are seen
        copied, crc = _copy.copy(
            source.fileno(), offset + done, out.fileno(), len(DATA) - offset - done, crc, threads
        )
        assert copied > 0
        done += copied
    assert (done, crc) == (len(DATA) - offset, zlib.crc32(DATA[offset:], 7))
    assert written(out) == bytes(head) + DATA[offset:]
    assert out.tell() == head + done
    assert source.tell() == 0


def test_no_more_is_copied_than_wanted_and_none_summed_without_a_checksum(
    files: tuple[BinaryIO, BinaryIO],
) -> None:
    source, out = files
    assert _copy.copy(source.fileno(), 0, out.fileno(), STEP + 1, None, 1) == (STEP + 1, None)
    assert written(out) == DATA[: STEP + 1]
    assert _copy.copy(source.fileno(), 0, out.fileno(), 0, 9, 1) == (0, 9)


def test_a_file_that_ends_and_one_that_cannot_be_read_give_fewer_bytes(
    files: tuple[BinaryIO, BinaryIO],
) -> None:
    source, out = files
    assert _copy.copy(source.fileno(), len(DATA) - 10, out.fileno(), 1 << 60, 0, 1)[0] == 10
    assert _copy.copy(source.fileno(), 1 << 40, out.fileno(), 10, 5, 1) == (0, 5)
    folder = os.open("/", os.O_RDONLY)
    try:
        assert _copy.copy(folder, 0, out.fileno(), 10, None, 1) == (0, None)
    finally:
        os.close(folder)


def test_what_cannot_be_written_is_an_error(files: tuple[BinaryIO, BinaryIO]) -> None:
    source, _ = files
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError) as caught:
        _copy.copy(source.fileno(), 0, full.fileno(), len(DATA), 0, 2)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as caught:
        _copy.copy(source.fileno(), 0, source.fileno(), len(DATA), 0, 1)
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("wrong", [(-1, 1), (0, -1), (1 << 62, 1 << 62)])
def test_places_that_make_no_sense_are_refused(
    files: tuple[BinaryIO, BinaryIO], wrong: tuple[int, int]
) -> None:
    source, out = files
    with pytest.raises(ValueError, match="copy: "):
        _copy.copy(source.fileno(), wrong[0], out.fileno(), wrong[1], None, 1)


def test_what_is_reserved_does_not_show(files: tuple[BinaryIO, BinaryIO]) -> None:
    source, out = files
    _copy.reserve(out.fileno(), 5, len(DATA))
    assert out.tell() == 0
    assert os.fstat(out.fileno()).st_size == 0
    _copy.copy(source.fileno(), 0, out.fileno(), len(DATA), None, 2)
    assert written(out) == DATA


def test_blocks_are_reserved_where_that_is_worth_it(files: tuple[BinaryIO, BinaryIO]) -> None:
    _, out = files
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", out.name], capture_output=True, text=True, check=True
    ).stdout
    _copy.reserve(out.fileno(), 0, 1 << 20)
    blocks = os.fstat(out.fileno()).st_blocks * 512
    assert blocks >= 1 << 20 if kind.strip() == "ext2/ext3" else blocks == 0
    # what does not fit takes nothing: other programs may be in need of the little that there is
    if blocks:
        system = os.statvfs(out.name)
        with pytest.raises(OSError) as caught:
            _copy.reserve(out.fileno(), 0, (system.f_bfree + (1 << 24)) * system.f_bsize)
        assert caught.value.errno == errno.ENOSPC
        assert os.fstat(out.fileno()).st_blocks * 512 == blocks


@pytest.mark.parametrize("place", [(-1, 1), (0, -1), (0, 0), (1 << 62, 1)])
def test_what_cannot_be_reserved_is_left_to_writing(
    files: tuple[BinaryIO, BinaryIO], place: tuple[int, int]
) -> None:
    source, out = files
    for file in (source.fileno(), out.fileno(), -1):
        _copy.reserve(file, *place)
    assert os.fstat(out.fileno()).st_size == 0
