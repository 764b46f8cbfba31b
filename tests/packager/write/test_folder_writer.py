"""Files in a folder: each whole or not there, nothing else is left, nothing outside is touched."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mblob import temporary
from mblob.interrupts import DeferredSignals
from mblob.packager.edit.folder_writer import CHUNK, FolderWriter


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


PIECES = (memoryview(b"head"), memoryview(b"tail"))


def test_pieces_follow_each_other_and_large_ones_are_whole(tmp_path: Path) -> None:
    large = os.urandom(2 * CHUNK + 5)
    with FolderWriter(tmp_path / "new" / "folder") as folder:
        folder.write("a", PIECES)
        folder.write("b", (memoryview(b"x"), memoryview(large)))
        folder.write("empty", ())
    written = {p.name: p.read_bytes() for p in (tmp_path / "new" / "folder").iterdir()}
    assert written == {"a": b"headtail", "b": b"x" + large, "empty": b""}


def test_what_is_replaced_keeps_its_mode_and_links_are_not_followed(place: Path) -> None:
    (place / "precious").write_text("mine")
    (place / "old").write_text("old")
    (place / "old").chmod(0o640)
    (place / "link").symlink_to("precious")
    os.link(place / "precious", place / "hard")
    with FolderWriter(place) as folder:
        for name in ("old", "link", "hard"):
            folder.write(name, PIECES)
    assert (place / "precious").read_text() == "mine"
    assert stat.S_IMODE((place / "old").stat().st_mode) == 0o640
    for name in ("old", "link", "hard"):
        assert (place / name).read_text() == "headtail" and not (place / name).is_symlink()


@pytest.mark.parametrize("what", ["folder", "fifo", "kept"])
def test_what_must_not_be_replaced_is_an_error_that_names_it(place: Path, what: str) -> None:
    file = place / "file"
    if what == "folder":
        file.mkdir()
    elif what == "fifo":
        os.mkfifo(file)
    else:
        file.write_text("library")
    info = file.stat()
    kept = (info.st_dev, info.st_ino) if what == "kept" else None
    with (
        FolderWriter(place, kept) as folder,
        pytest.raises(OSError, match="cannot be written") as caught,
    ):
        folder.write("file", PIECES)
    assert caught.value.filename == str(file)
    assert [p.name for p in place.iterdir()] == ["file"]


def test_a_failure_in_the_middle_leaves_what_was_there(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a").write_text("old")
    real = os.write

    def full(fd: int, data: bytes) -> int:
        real(fd, bytes(data)[:2])
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught, FolderWriter(place) as folder:
        monkeypatch.setattr(os, "write", full)
        folder.write("a", PIECES)
    assert caught.value.filename == str(place / "a")
    assert [(p.name, p.read_text()) for p in place.iterdir()] == [("a", "old")]


def test_a_signal_between_creating_and_renaming_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), DeferredSignals(), FolderWriter(place) as folder:
        folder.write("a", PIECES)
    assert list(place.iterdir()) == []


def test_an_interrupt_while_the_folder_is_closed_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), DeferredSignals(), FolderWriter(place) as folder:
        monkeypatch.setattr(os, "rename", failing)
        with pytest.raises(OSError, match="cannot be written"):
            folder.write("a", PIECES)
        monkeypatch.setattr(temporary, "_remove", interrupted)
    assert list(place.iterdir()) == []


def test_files_are_written_where_proc_is_not_mounted(place: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from mblob.packager.edit.folder_writer import FolderWriter

        def without_proc(event, arguments):
            if arguments and str(arguments[0]).startswith("/proc"):
                raise FileNotFoundError(2, "No such file or directory", arguments[0])

        sys.addaudithook(without_proc)
        with FolderWriter(Path(sys.argv[1])) as folder:
            folder.write("a", (memoryview(b"a"),))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), place], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [p.read_bytes() for p in place.iterdir()] == [b"a"]


def test_the_folder_stays_the_one_that_was_opened(place: Path) -> None:
    with FolderWriter(place / "one") as folder:
        (place / "one").rename(place / "two")
        (place / "one").symlink_to(place)
        folder.write("a", PIECES)
    assert [p.name for p in (place / "two").iterdir()] == ["a"]
    assert not (place / "a").exists()
