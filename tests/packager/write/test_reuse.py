"""Packing over a library that is there: what stays the same is shared with the old file.

The kernel's part is played by a function that copies what the kernel would share, and refuses what
it refuses.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.errors import ChangedError
from mblob.packager.link import request
from mblob.packager.write import file_sink

BLOCK = 4096
SIZE = 3 << 20


class FileSystem:
    """Shares blocks, and notes how many bytes."""

    def __init__(self) -> None:
        self.shared: list[int] = []
        self.fails: int | None = None

    def ioctl(self, fd: int, number: int, raw: bytes) -> int:
        old, start, count, place = file_sink._RANGE.unpack(raw)
        assert number == file_sink.FICLONERANGE
        if self.fails is not None:
            raise OSError(self.fails, os.strerror(self.fails))
        if start % BLOCK or count % BLOCK or place % BLOCK or start + count > os.fstat(old).st_size:
            raise OSError(errno.EINVAL, "Invalid argument")
        self.shared.append(count)
        assert os.pwrite(fd, os.pread(old, count, start), place) == count
        return 0

    @property
    def total(self) -> int:
        """Bytes since the last question, without the trial."""
        total, self.shared = sum(self.shared[1:]), []
        return total


@pytest.fixture
def sharing(monkeypatch: pytest.MonkeyPatch) -> FileSystem:
    system = FileSystem()
    monkeypatch.setattr(file_sink.fcntl, "ioctl", system.ioctl)
    return system


def payloads(folder: Path, count: int = 3, size: int = SIZE) -> list[Path]:
    made = []
    for i in range(count):
        made.append(folder / f"p{i}")
        made[-1].write_bytes(random.Random(i).randbytes(size))
    return made


def payloads_and_a_largest(folder: Path) -> list[Path]:
    """The last one, which is written first, decides where the blob starts."""
    files = payloads(folder)
    with files[-1].open("ab") as file:
        file.write(bytes(16 * BLOCK))
    return files


def pack(output: Path, files: list[Any], **how: Any) -> bytes:
    root = mblob.csource_module("int f(int x) { return x + 1; }\n")
    for i, file in enumerate(files):
        root.import_module(mblob.blob_module(f"k{i}", file))
    root.export_library(output, **how)
    with mblob.open(output, verify="full"):
        return output.read_bytes()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "how", [{}, {"digest": "sha256"}, {"digest": "none"}, {"embed": "append"}], ids=str
)
def test_the_bytes_are_those_of_a_fresh_pack(
    tmp_path: Path, sharing: FileSystem, how: dict[str, Any]
) -> None:
    files = payloads(tmp_path)
    pack(tmp_path / "o.so", files, **how)
    overwrite(files[1], 1_000_000, b"changed")
    again = pack(tmp_path / "o.so", files, **how)
    total = sharing.total
    assert again == pack(tmp_path / "fresh.so", files, **how)
    # All but the step that the change is in, and the edges of payloads.
    assert 3 * SIZE - (1 << 20) < total < 3 * SIZE


def test_an_unchanged_library_is_shared_whole(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads(tmp_path)
    first = pack(tmp_path / "o.so", files)
    assert sharing.total == 0  # nothing was there
    assert pack(tmp_path / "o.so", files) == first
    assert sharing.total > 3 * SIZE - 8 * BLOCK


def test_a_payload_of_another_size_moves_the_rest(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads_and_a_largest(tmp_path)
    pack(tmp_path / "o.so", files)
    for more, least in ((100, SIZE - 4 * BLOCK), (BLOCK - 100, SIZE - 4 * BLOCK)):
        with files[1].open("ab") as file:
            file.write(os.urandom(more))
        again = pack(tmp_path / "o.so", files)
        assert sharing.total >= least
        assert again == pack(tmp_path / "fresh.so", files)


def test_whole_blocks_more_share_what_moved(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads_and_a_largest(tmp_path)
    pack(tmp_path / "o.so", files)
    with files[0].open("ab") as file:
        file.write(os.urandom(2 * BLOCK))
    again = pack(tmp_path / "o.so", files)
    # the step in which the old payload ends is written
    assert sharing.total > 3 * SIZE - (256 << 10) - 16 * BLOCK
    assert again == pack(tmp_path / "fresh.so", files)


def test_payloads_that_change_places_are_found(tmp_path: Path, sharing: FileSystem) -> None:
    a, b, c = payloads(tmp_path)
    pack(tmp_path / "o.so", [a, b, c])
    root = mblob.csource_module("int f(int x) { return x + 1; }\n")
    for key, file in (("k2", c), ("k1", b), ("new", a), ("k0", a)):
        root.import_module(mblob.blob_module(key, file))
    root.export_library(tmp_path / "o.so")
    with mblob.open(tmp_path / "o.so", verify="full") as lib:
        found = {entry.type_key: bytes(entry.view()) for entry in lib.entries}
    expected = {"k0": a, "k1": b, "k2": c, "new": a}
    assert {key: found[key] for key in expected} == {
        key: file.read_bytes() for key, file in expected.items()
    }


def test_holes_and_buffers_and_iterables(tmp_path: Path, sharing: FileSystem) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.seek(SIZE)
        file.write(b"end")

    def files() -> list[Any]:
        data = random.Random(7).randbytes(SIZE)
        return [hole, data, (data[i : i + 70_001] for i in range(0, SIZE, 70_001)), b""]

    first = pack(tmp_path / "o.so", files())
    assert pack(tmp_path / "o.so", files()) == first
    assert sharing.total > 2 * SIZE - 16 * BLOCK


def test_large_blobs_that_are_copied_while_compilers_run(
    tmp_path: Path, sharing: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "EARLY_COPY_SIZE", 1)
    files = payloads(tmp_path)
    first = pack(tmp_path / "o.so", files)
    assert pack(tmp_path / "o.so", files) == first
    assert sharing.total > 3 * SIZE - 8 * BLOCK


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EXDEV, errno.ENOTTY, errno.EINVAL])
def test_without_sharing_all_is_copied(tmp_path: Path, sharing: FileSystem, number: int) -> None:
    files = payloads(tmp_path, 1)
    first = pack(tmp_path / "o.so", files)
    sharing.fails = number
    assert pack(tmp_path / "o.so", files) == first


def fail_after_the_trial(sharing: FileSystem, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Blocks are shared once, then no more, with the error `number`."""
    real = sharing.ioctl

    def once(fd: int, request: int, raw: bytes) -> int:
        if sharing.shared:
            raise OSError(number, os.strerror(number))
        return real(fd, request, raw)

    monkeypatch.setattr(file_sink.fcntl, "ioctl", once)


def test_sharing_that_ends_midway_is_copied(
    tmp_path: Path, sharing: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = payloads(tmp_path)
    first = pack(tmp_path / "o.so", files)
    fail_after_the_trial(sharing, monkeypatch, errno.EINVAL)
    assert pack(tmp_path / "o.so", files) == first
    assert len(sharing.shared) == 1  # the trial


def test_no_room_while_sharing_leaves_the_old_file(
    tmp_path: Path, sharing: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = payloads(tmp_path)
    first = pack(tmp_path / "o.so", files)
    fail_after_the_trial(sharing, monkeypatch, errno.ENOSPC)
    overwrite(files[2], 5, b"changed")
    with pytest.raises(OSError, match="the output cannot be written: No space left") as caught:
        pack(tmp_path / "o.so", files)
    assert caught.value.filename == str(tmp_path / "o.so")
    assert (tmp_path / "o.so").read_bytes() == first
    assert {p.name for p in tmp_path.iterdir()} - {"TMPDIR"} == {"o.so", "p0", "p1", "p2"}


def test_an_old_file_that_changes_meanwhile_is_an_error(
    tmp_path: Path, sharing: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = payloads(tmp_path)
    pack(tmp_path / "o.so", files)
    real = sharing.ioctl

    def changes(fd: int, number: int, raw: bytes) -> int:
        overwrite(tmp_path / "o.so", (2 << 20) + 70_000, b"other")
        return real(fd, number, raw)

    monkeypatch.setattr(file_sink.fcntl, "ioctl", changes)
    with pytest.raises(
        ChangedError, match=r"o\.so: somebody wrote to it while it was packed again"
    ):
        pack(tmp_path / "o.so", files)


@pytest.mark.parametrize(
    "content", [b"", b"x" * (2 << 20), b"\x7fELF" + bytes(2 << 20)], ids=["0", "text", "ELF"]
)
def test_what_is_no_library_is_replaced(
    tmp_path: Path, sharing: FileSystem, content: bytes
) -> None:
    (tmp_path / "o.so").write_bytes(content)
    pack(tmp_path / "o.so", payloads(tmp_path, 1))
    assert sharing.shared == []


def test_a_damaged_old_library_does_no_harm(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads(tmp_path)
    first = pack(tmp_path / "o.so", files)
    rng = random.Random(1)
    for _ in range(4):
        for _ in range(200):
            overwrite(tmp_path / "o.so", rng.randrange(len(first)), rng.randbytes(3))
        assert pack(tmp_path / "o.so", files) == first


def test_it_can_be_switched_off(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads(tmp_path, 1)
    pack(tmp_path / "o.so", files)
    pack(tmp_path / "o.so", files, reuse=False)
    assert sharing.shared == []


def test_who_has_the_old_file_mapped_keeps_it(tmp_path: Path, sharing: FileSystem) -> None:
    files = payloads(tmp_path)
    pack(tmp_path / "o.so", files)
    held = mblob.load_module(tmp_path / "o.so")
    seen = [bytes(m.payload) for m in held.imported_modules]
    overwrite(files[0], 77, b"changed")
    pack(tmp_path / "o.so", files)
    assert [bytes(m.payload) for m in held.imported_modules] == seen


def test_swap_shares_what_stays(tmp_path: Path, sharing: FileSystem) -> None:
    """With the library it changes, whether that is replaced or not."""
    pack(tmp_path / "a.so", payloads(tmp_path))
    sharing.shared = []
    new = random.Random(9).randbytes(SIZE)
    mblob.swap(tmp_path / "a.so", {"k1": new}, tmp_path / "b.so")
    assert sharing.total > 2 * SIZE - 6 * BLOCK
    mblob.verify(tmp_path / "b.so")
    mblob.swap(tmp_path / "a.so", {"k1": new}, tmp_path / "c.so", reuse=False)
    assert sharing.shared == []
    assert (tmp_path / "b.so").read_bytes() == (tmp_path / "c.so").read_bytes()
    mblob.swap(tmp_path / "a.so", {"k1": new})
    assert sharing.total > 2 * SIZE - 6 * BLOCK
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def test_a_library_that_changes_while_it_is_swapped_is_an_error(
    tmp_path: Path, sharing: FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(tmp_path / "a.so", payloads(tmp_path))
    before = file_sink.SharingSink.finish

    def finish(sink: file_sink.SharingSink) -> None:
        os.utime(tmp_path / "a.so", (1, 1))
        before(sink)

    monkeypatch.setattr(file_sink.SharingSink, "finish", finish)
    with pytest.raises(ChangedError, match=r"a\.so: somebody wrote to it"):
        mblob.swap(tmp_path / "a.so", {"k1": b"new"}, tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()
