"""The folder of objects that are kept: damage, limits, other users, other processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.packager.compile import object_cache
from mblob.packager.errors import BuildError
from tests.packager.compile.caching import KERNEL, Tool, export, objects


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.sample(2)
@pytest.mark.parametrize("harm", [cut, flip, lambda p: p.write_bytes(b""), lambda p: (p.unlink(), p.mkdir())])
def test_damaged_objects_are_compiled_again(tmp_path: Path, folder: Path, harm: Callable[[Path], object]) -> None:
    tool = Tool(tmp_path, "cc")
    export(tool, tmp_path / "o.so")()
    good = (tmp_path / "o.so").read_bytes()
    for path in objects(folder):
        harm(path)
    assert tool.compiles(export(tool, tmp_path / "o.so")) > 0
    assert (tmp_path / "o.so").read_bytes() == good
    if all(p.is_file() for p in objects(folder)):
        export(tool, tmp_path / "o.so")()
    assert (tmp_path / "o.so").read_bytes() == good


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda p: p.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, folder: Path, make: Callable[[Path], object]) -> None:
    tool = Tool(tmp_path, "cc")
    export(tool, tmp_path / "o.so")()
    good = (tmp_path / "o.so").read_bytes()
    for path in objects(folder):
        path.unlink()
        make(path)
    assert tool.compiles(export(tool, tmp_path / "o.so")) > 0
    assert (tmp_path / "o.so").read_bytes() == good


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/full", "/dev/null/x"])
def test_a_folder_that_cannot_be_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("MBLOB_CACHE_DIR", place)
    mblob.csource_module(KERNEL).export_library(tmp_path / "o.so")
    assert (tmp_path / "o.so").exists()


def test_a_full_disk_is_no_error(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    real = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: full(self, to) if folder in self.parents else real(self, to))
    mblob.csource_module(KERNEL).export_library(tmp_path / "o.so")
    assert (tmp_path / "o.so").exists()
    assert objects(folder) == []


def test_objects_of_others_are_not_linked(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tool(tmp_path, "cc")
    export(tool, tmp_path / "o.so")()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert tool.compiles(export(tool, tmp_path / "o.so")) > 0


def test_it_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MBLOB_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert object_cache.object_cache() == object_cache.ObjectCache(tmp_path / "home/.cache/mblob/objects")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert object_cache.object_cache() == object_cache.ObjectCache(tmp_path / "xdg/mblob/objects")
    monkeypatch.setenv("MBLOB_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("MBLOB_CACHE_SIZE", "3M")
    assert object_cache.object_cache() == object_cache.ObjectCache(tmp_path / "own/objects", 3 << 20)
    monkeypatch.setenv("MBLOB_CACHE", "0")
    assert object_cache.object_cache() is None
    assert object_cache.object_cache(tmp_path) is not None
    assert object_cache.object_cache(False) is None


def test_what_is_no_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="cache: expected True, False or a folder, found int"):
        mblob.csource_module(KERNEL).export_library(tmp_path / "o.so", cache=3)
    monkeypatch.setenv("MBLOB_CACHE_SIZE", "much")
    with pytest.raises(BuildError, match="MBLOB_CACHE_SIZE='much': expected bytes"):
        mblob.csource_module(KERNEL).export_library(tmp_path / "o.so")


def test_it_does_not_grow_over_its_limit(tmp_path: Path) -> None:
    cache = object_cache.ObjectCache(tmp_path, 160_000)
    keys = [f"{i % 16:x}{i:063x}" for i in range(160)]
    for i, key in enumerate(keys):
        cache.put(key, bytes([i]) * 3000)
        for path in objects(tmp_path):
            if path.name != key[1:]:
                os.utime(path, (i, i) if path.name != keys[0][1:] else None)
        assert cache.get(keys[0]) is not None  # used all the time
    count, size = cache.size()
    assert 16 <= count < 160
    assert size <= 160_000
    cache.put("f" * 64, bytes(20_000))  # larger than its share
    assert cache.get("f" * 64) is None


def test_what_nobody_finished_is_removed(tmp_path: Path) -> None:
    cache = object_cache.ObjectCache(tmp_path)
    cache.put("ab", b"x")
    old, new = tmp_path / "a" / "new-old", tmp_path / "a" / "new-new"
    old.write_bytes(b"half")
    os.utime(old, (0, 0))
    new.write_bytes(b"half")
    cache.put("ac", b"y")
    assert not old.exists()
    assert new.exists()
    assert cache.size()[0] == 2


@pytest.mark.slow
def test_many_packs_at_once(tmp_path: Path, folder: Path) -> None:
    script = (
        "import ctypes, sys, mblob\n"
        "for i in range(4):\n"
        "    mblob.csource_module('int f(void) { return %d; }' % i).export_library(sys.argv[1])\n"
        "    assert mblob.load_module(sys.argv[1]).symbol('f', ctypes.c_int, [])() == i\n"
    )
    environment = {**os.environ, "MBLOB_CACHE_SIZE": "100K"}  # so that they remove from under each other
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / f"{i}.so")], env=environment) for i in range(4)
    ]
    assert [p.wait() for p in running] == [0] * 4
    assert not [p for p in objects(folder) if p.name.startswith("new-")]


def test_files_are_the_users_alone(tmp_path: Path, folder: Path) -> None:
    mblob.csource_module(KERNEL).export_library(tmp_path / "o.so")
    assert objects(folder)
    assert all(stat.S_IMODE(p.parent.stat().st_mode) == 0o700 for p in objects(folder))


def test_ccache_keeps_its_own(tmp_path: Path, folder: Path) -> None:
    launcher = tmp_path / "ccache"
    launcher.write_text(f'#!/bin/sh\necho "$CCACHE_BASEDIR $PWD $CCACHE_NOHASHDIR $*" >> {tmp_path}/log\nexec "$@"\n')
    launcher.chmod(0o755)
    mblob.csource_module(KERNEL).export_library(tmp_path / "o.so", cc=f"{launcher} cc")
    assert objects(folder) == []
    compiled = [line.split() for line in (tmp_path / "log").read_text().splitlines() if " -c " in line]
    assert compiled
    # Our temporary folder is no part of ccache's key.
    assert all(base == folder and flag == "1" for base, folder, flag, *_ in compiled)
