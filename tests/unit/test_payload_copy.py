"""Copying payloads: the same bytes and digests in the loop and on a thread, from files, buffers,
iterables; holes."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mblob.bytes import payload_copy
from mblob.bytes.digest import Crc32, crc32_of_zeros, hasher
from mblob.bytes.payload_copy import HANDED, LARGE, Copier
from mblob.bytes.payload_source import BytesPayload, FilePayload, IterPayload, Payload
from mblob.bytes.sink import STEP, BytesSink

DATA = random.Random(7).randbytes(LARGE + HANDED + 12345)
SIZES = (0, 1, STEP - 1, STEP, STEP + 1, HANDED, HANDED + STEP + 1, len(DATA))


class RecordingSink(BytesSink):
    """Starts somewhere in a step, as a blob behind a header does, and notes what it is asked."""

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.start = start
        self.ends: list[int] = []
        self.skipped = 0
        self.expected: list[int] = []
        self.threads: list[int] = []

    @property
    def room(self) -> int:
        return STEP - (self.start + len(self.data)) % STEP

    def write(self, data: memoryview | bytes, /) -> None:
        super().write(data)
        self.ends.append(self.start + len(self.data))

    def expect(self, count: int, /) -> None:
        self.expected.append(count)

    def take(self, fd: int, offset: int, count: int, crc: Crc32 | None, threads: int, /) -> int:
        self.threads.append(threads)
        return 0

    def skip(self, count: int, /) -> None:
        self.data += bytes(count)
        self.skipped += count


def copy(payload: Payload, algorithm: int, start: int = 0) -> tuple[RecordingSink, int, bytes]:
    sink = RecordingSink(start)
    with Copier(sink, algorithm) as copier:
        size, value = copier.copy(payload)
    return sink, size, value


@pytest.fixture(params=["auto", "thread", "loop"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests are taken where the copier wants it, on another thread, or in its loop."""
    if request.param == "thread":
        hash_beside(monkeypatch)
    elif request.param == "loop":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


def hash_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(payload_copy, "IS_FAST", False)
    monkeypatch.setattr(payload_copy, "LARGE", 0)


def expected(data: bytes, algorithm: int) -> bytes:
    return [b"", zlib.crc32(data).to_bytes(4, "little"), hashlib.sha256(data).digest()][algorithm]


@pytest.mark.usefixtures("hashing")
@pytest.mark.parametrize("algorithm", [0, 1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_files_buffers_and_iterables_give_the_same(
    tmp_path: Path, size: int, algorithm: int
) -> None:
    data = DATA[:size]
    (tmp_path / "p").write_bytes(data)
    pieces = (data[at : at + 100_003] for at in range(0, size, 100_003))
    for payload in (FilePayload(tmp_path / "p"), BytesPayload(data), IterPayload(pieces)):
        sink, copied, value = copy(payload, algorithm, 41)
        assert copied == size
        assert sink.data == data
        assert value == expected(data, algorithm)


@pytest.mark.usefixtures("hashing")
def test_pieces_of_files_and_buffers_end_where_steps_of_the_output_do(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(DATA)
    for payload in (FilePayload(tmp_path / "p"), BytesPayload(DATA)):
        sink, _, _ = copy(payload, 1, 41)
        assert len(sink.ends) > 1
        assert all(end % STEP == 0 for end in sink.ends[:-1])


@pytest.mark.usefixtures("hashing")
def test_an_iterable_may_fill_one_buffer_again_and_again() -> None:
    def pieces() -> Iterator[bytearray]:
        buffer = bytearray(HANDED)
        for i in range(20):
            buffer[:] = bytes([i]) * HANDED
            yield buffer

    wanted = b"".join(bytes([i]) * HANDED for i in range(20))
    sink, _, value = copy(IterPayload(pieces()), 2)
    assert sink.data == wanted
    assert value == hashlib.sha256(wanted).digest()


def test_several_payloads_have_digests_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_beside(monkeypatch)
    with Copier(BytesSink(), 1) as copier:
        for data in (DATA, b"", DATA[:100], DATA[::-1]):
            assert copier.copy(BytesPayload(data)) == (len(data), expected(data, 1))


def test_what_goes_wrong_on_the_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Crc32, data: object) -> None:
        raise MemoryError("no room to hash")

    hash_beside(monkeypatch)
    monkeypatch.setattr(Crc32, "update", broken)
    with pytest.raises(MemoryError, match="no room to hash"):
        copy(BytesPayload(DATA), 1)


def test_a_sink_that_fails_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_beside(monkeypatch)

    class Full(BytesSink):
        def write(self, data: memoryview | bytes, /) -> None:
            raise OSError(errno.ENOSPC, "full")

    copier = Copier(Full(), 1)
    with pytest.raises(OSError, match="full"), copier:
        copier.copy(BytesPayload(DATA))
    assert copier._beside is not None
    assert not any(t.name.startswith("mblob-digest") for t in threading.enumerate())


@pytest.mark.parametrize("count", [0, 1, 2, 255, 4096, (1 << 20) + 3])
@pytest.mark.parametrize("crc", [0, 1, 0xFFFFFFFF, 0x12345678])
def test_the_checksum_of_zeros_is_zlibs(crc: int, count: int) -> None:
    assert crc32_of_zeros(crc, count) == zlib.crc32(bytes(count), crc)


def test_the_checksum_of_five_gib_of_zeros_is_that_of_its_parts() -> None:
    whole = crc32_of_zeros(7, 5 << 30)
    assert whole == crc32_of_zeros(crc32_of_zeros(7, (2 << 30) + 1), (3 << 30) - 1)


@pytest.fixture
def sparse(tmp_path: Path) -> tuple[Path, bytes]:
    """A file with holes at its start, in the middle and at its end."""
    data = bytearray(8 << 20)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(len(data))
        for at in (1 << 20, 5 << 20):
            file.seek(at)
            file.write(b"data" * 1000)
            data[at : at + 4000] = b"data" * 1000
    return tmp_path / "sparse", bytes(data)


@pytest.mark.usefixtures("hashing")
@pytest.mark.parametrize("algorithm", [0, 1, 2])
def test_holes_stay_holes(sparse: tuple[Path, bytes], algorithm: int) -> None:
    path, data = sparse
    sink, size, value = copy(FilePayload(path), algorithm)
    assert (size, value) == (len(data), expected(data, algorithm))
    assert sink.data == data
    if path.stat().st_blocks * 512 < len(data):  # the file system of this machine knows holes
        assert sink.skipped > 4 << 20


def test_a_file_system_that_does_not_tell_its_holes(
    sparse: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no such thing")

    monkeypatch.setattr(os, "lseek", refuse)
    sink, _, value = copy(FilePayload(sparse[0]), 1)
    assert (sink.data, sink.skipped, value) == (sparse[1], 0, expected(sparse[1], 1))


def test_every_hasher_takes_zeros() -> None:
    for algorithm in (0, 1, 2):
        value = hasher(algorithm)
        value.update(b"x")
        value.zeros((1 << 20) + 5)
        value.update(b"y")
        assert value.digest() == expected(b"x" + bytes((1 << 20) + 5) + b"y", algorithm)


@pytest.mark.parametrize(("processors", "threads"), [(2, 2), (1, 1)])
def test_a_sink_may_use_two_threads_for_a_large_file_where_there_are_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, threads: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(payload_copy, "SHARED", len(DATA))
    for size, allowed in ((len(DATA), threads), (len(DATA) - 1, 1)):
        (tmp_path / "p").write_bytes(DATA[:size])
        sink, _, _ = copy(FilePayload(tmp_path / "p"), 0)
        assert sink.threads == [allowed]


def test_a_sink_is_told_how_much_is_written_but_not_of_holes_and_unknown_sizes(
    tmp_path: Path,
) -> None:
    with (tmp_path / "p").open("wb") as file:
        file.write(DATA[: 1 << 20])
        file.seek(2 << 20)
        file.write(DATA[: 1 << 20])
    sink, _, _ = copy(FilePayload(tmp_path / "p"), 0)
    assert sink.expected == ([1 << 20, 1 << 20] if sink.skipped else [3 << 20])
    assert copy(BytesPayload(DATA), 0)[0].expected == [len(DATA)]
    (tmp_path / "p").write_bytes(b"")
    for unknown in (tmp_path / "p", Path("/proc/version")):
        sink, _, _ = copy(FilePayload(unknown), 0)
        assert (sink.expected, sink.threads) == ([0], [1])
