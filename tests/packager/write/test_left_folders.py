"""Temporary folders that a killed run left are removed by the next run, and no others are."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mblob
from mblob import temporary
from mblob.packager.edit.folder_writer import FolderWriter
from mblob.temporary import MODE, temporary_folder
from tests.packager.write.test_interrupted import SCRIPT

NAME = "mblob-0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def local(tmp_path: Path) -> None:
    """Tests that see a left folder removed ask for this."""
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        if not temporary._is_local(fd):
            pytest.skip(
                f"{tmp_path} may be on several machines (9p, virtiofs, NFS), where left folders stay"
            )
    finally:
        os.close(fd)


def left(place: Path, name: str = NAME, mode: int = MODE) -> Path:
    """A folder as a killed run leaves it, with something in it that must not be followed."""
    folder = place / name
    folder.mkdir()
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "x.o").write_bytes(b"x")
    (folder / "link").symlink_to(place)
    folder.chmod(mode)
    return folder


def run(place: Path) -> None:
    with temporary_folder(place):
        pass


def python(
    code: str, *arguments: object, **environment: object
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    env = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.slow
@pytest.mark.usefixtures("local")
def test_what_builds_killed_at_any_step_left_the_next_build_removes(
    tmp_path: Path, root: Path
) -> None:
    out, tmp = tmp_path / "out", tmp_path / "tmp"
    out.mkdir()
    tmp.mkdir()
    folders = set()
    for at in (1, 2, 3, 5, 9, 1000):
        environment = {**os.environ, "PYTHONPATH": str(root), "TMPDIR": str(tmp)}
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(int(signal.SIGKILL)),
            str(at),
            str(out),
            "alone",
        ]
        done = subprocess.run(command, env=environment, capture_output=True)
        assert done.returncode == (0 if at == 1000 else -signal.SIGKILL), done.stderr
        here = {p for place in (out, tmp) for p in place.iterdir()} - {out / "x.so"}
        assert not here & folders, "the run before left it"
        folders |= here
    assert {p.parent for p in folders} == {out, tmp}
    assert [p.name for p in out.iterdir()] == ["x.so"] and list(tmp.iterdir()) == []


@pytest.mark.usefixtures("local")
def test_what_a_killed_extract_and_a_killed_load_left_goes_too(place: Path) -> None:
    code = """
        import os, sys
        from pathlib import Path
        from mblob.packager.edit.folder_writer import FolderWriter
        os.rename = lambda *a, **k: os.kill(os.getpid(), 9)
        FolderWriter(Path(sys.argv[1])).write("a", (memoryview(b"a"),))
    """
    assert python(code, place).returncode == -signal.SIGKILL
    assert len(list(place.iterdir())) == 1
    with FolderWriter(place) as folder:
        folder.write("b", ())
    (place / "b").unlink()
    assert list(place.iterdir()) == []
    code = """
        import os
        from mblob.loader import link_object
        with link_object.temporary_file(memoryview(b"a")):
            os.kill(os.getpid(), 9)
    """
    assert python(code, TMPDIR=place).returncode == -signal.SIGKILL
    assert len(list(place.iterdir())) == 1
    run(place)
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("local")
def test_a_folder_that_inherited_the_set_group_id_bit_is_removed_too(place: Path) -> None:
    place.chmod(0o2755)
    (place / NAME).mkdir(MODE)
    assert (place / NAME).stat().st_mode & stat.S_ISGID
    run(place)
    assert list(place.iterdir()) == []


def test_a_folder_in_use_stays(place: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from mblob.temporary import temporary_folder
        with temporary_folder(Path(sys.argv[1])):
            pass
    """
    with temporary_folder(place) as ours:
        (ours / "x.o").touch()
        done = python(code, place)
        assert done.returncode == 0, done.stderr
        run(place)
        assert (ours / "x.o").exists()
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("local")
def test_a_compiler_that_outlives_its_build_keeps_no_folder(place: Path) -> None:
    code = """
        import os, subprocess, sys
        from pathlib import Path
        from mblob.temporary import temporary_folder
        with temporary_folder(Path(sys.argv[1])):
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            child = subprocess.Popen(["sleep", "300"], close_fds=False, **quiet)
            print(child.pid, flush=True)
            os.kill(os.getpid(), 9)
    """
    child = int(python(code, place).stdout)
    try:
        assert len(list(place.iterdir())) == 1
        run(place)
        assert list(place.iterdir()) == []
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("name", [NAME, ".x.npz.0123456789abcdef"])
def test_only_what_is_certainly_ours_is_removed(
    tmp_path: Path, place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    theirs = left(elsewhere)
    (place / name[:-1]).mkdir(MODE)
    (place / (name[:-1] + "0")).mkdir(0o700)
    left(place, name[:-1] + "1", 0o755)
    (place / (name[:-1] + "2")).symlink_to(theirs)
    (place / (name[:-1] + "3")).touch(MODE)
    before = sorted(place.iterdir())
    ours = left(place, name)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        run(place)
    assert ours.exists(), "another user's"
    with monkeypatch.context() as patch:
        patch.setattr(temporary, "_LOCAL", set())
        run(place)
    assert ours.exists(), "on a file system of several machines"
    run(place)
    assert sorted(place.iterdir()) == before
    assert (theirs / "deep" / "er" / "x.o").exists()


@pytest.mark.usefixtures("local")
def test_a_folder_that_another_run_takes_for_a_left_one_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, taken = temporary._opened, []

    def late(folder: Path, at: int | None) -> int:
        if not taken:  # the other run comes between mkdir and the lock
            taken.append(folder)
            temporary._remove_left(folder)
            assert not folder.exists()
        return opened(folder, at)

    monkeypatch.setattr(temporary, "_opened", late)
    with temporary_folder(place) as folder:
        assert taken == [folder] and folder.is_dir()
        temporary._remove_left(folder)
        assert folder.is_dir()


def test_without_locks_no_folder_is_marked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with temporary_folder(place) as folder:
        monkeypatch.undo()
        run(place)
        assert folder.is_dir()
    assert list(place.iterdir()) == []


def test_a_build_lists_each_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    listed = []
    real = os.listdir

    def listing(place: Path = Path()) -> list[str]:
        listed.append(Path(place))
        return real(place)

    monkeypatch.setattr(os, "listdir", listing)
    root = mblob.csource_module("int f;")
    root.import_module(mblob.blob_module("raw", b"x"))
    root.export_library(tmp_path / "out" / "x.so")
    assert sorted(p for p in listed if tmp_path in p.parents) == [
        tmp_path / "out",
        tmp_path / "tmp",
    ]
