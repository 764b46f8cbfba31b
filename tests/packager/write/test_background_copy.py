"""Blobs that are copied while compilers run."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.bytes.sink import listening
from mblob.packager.link import request
from mblob.packager.link.background_copy import BackgroundCopy
from mblob.packager.write.file_sink import PAGE
from tests.packager.write.test_copying import DATA, library, payload_of


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every payload is copied early; what happened to it."""
    monkeypatch.setattr(request, "EARLY_COPY_SIZE", 1)
    events: list[str] = []
    for name in ("result", "cancel"):
        real = getattr(BackgroundCopy, name)

        def noted(
            self: BackgroundCopy, name: str = name, real: Callable[[BackgroundCopy], Any] = real
        ) -> Any:
            events.append(name)
            return real(self)

        monkeypatch.setattr(BackgroundCopy, name, noted)
    return events


@pytest.mark.sample(1)
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("digest", ["crc32", "sha256", "none"])
def test_an_early_blob(
    tmp_path: Path, always: list[str], require: Callable[[str], str], linker: str, digest: str
) -> None:
    require(f"ld.{linker}")
    (tmp_path / "p").write_bytes(DATA)
    library(tmp_path / "p").export_library(
        tmp_path / "x.so", options=[f"-fuse-ld={linker}"], digest=digest
    )
    assert always == ([] if linker == "mold" else ["result"])
    assert payload_of(tmp_path / "x.so") == DATA
    assert ctypes.CDLL(str(tmp_path / "x.so")).f(4) == 5
    library(DATA).export_library(tmp_path / "y.so", options=[f"-fuse-ld={linker}"], digest=digest)
    assert (tmp_path / "x.so").read_bytes() == (tmp_path / "y.so").read_bytes()


@pytest.mark.sample(1)
@pytest.mark.parametrize("tool", [["strip"], ["objcopy", "--strip-debug"], ["strip", "-g"]])
def test_tools_take_a_library_whose_blob_came_early(
    tmp_path: Path, always: list[str], require: Callable[[str], str], tool: list[str]
) -> None:
    require(tool[0])
    library(DATA).export_library(tmp_path / "x.so")
    said = subprocess.run(
        ["readelf", "-aW", tmp_path / "x.so"], capture_output=True, text=True, check=True
    )
    assert "warning" not in (said.stdout + said.stderr).lower()
    subprocess.run([*tool, tmp_path / "x.so"], check=True)
    assert payload_of(tmp_path / "x.so") == DATA
    assert mblob.load_module(tmp_path / "x.so").imported_modules[0].payload == DATA


def test_a_library_that_does_not_fit_in_front_of_the_blob(
    tmp_path: Path, always: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundCopy, "offset", PAGE)
    told: list[int] = []
    with listening(told.append):
        library(DATA).export_library(tmp_path / "x.so")
    assert always == ["cancel"]
    assert payload_of(tmp_path / "x.so") == DATA
    assert sum(told) == (tmp_path / "x.so").stat().st_size - _around_blob(tmp_path / "x.so")


def _around_blob(path: Path) -> int:
    with mblob.open(path) as lib:
        return path.stat().st_size - int(lib.to_json()["blob"]["size"])


def test_a_linker_that_cannot_grow_gets_the_blob_anew(
    tmp_path: Path, always: list[str], require: Callable[[str], str]
) -> None:
    require("mold")
    # nobody says so in options=
    (tmp_path / "cc").write_text('#!/bin/sh\nexec gcc -fuse-ld=mold "$@"\n')
    (tmp_path / "cc").chmod(0o755)
    library(DATA).export_library(tmp_path / "x.so", cc=str(tmp_path / "cc"))
    assert always == ["cancel"]
    assert payload_of(tmp_path / "x.so") == DATA


def test_a_copy_starts_before_what_reads_prototypes_and_debug_information_is_there(
    tmp_path: Path,
) -> None:
    """In `mblob-pack build`, whose start is a part of what packing costs."""
    (tmp_path / "k.c").write_text("int f(int x) { return x; }\n")
    (tmp_path / "p").write_bytes(DATA)
    program = """if True:
        import sys
        from mblob.cli.main import main
        from mblob.packager.link import background_copy, request
        request.EARLY_COPY_SIZE, started = 0, background_copy.BackgroundCopy.__init__
        def starting(*args):
            print(*sys.modules)
            started(*args)
        background_copy.BackgroundCopy.__init__ = starting
        main(sys.argv[1:])"""
    words = [
        "build",
        "--kernel",
        "k.c",
        "--function",
        "int f(int x)",
        "--blob",
        "raw=p",
        "-o",
        "x.so",
    ]
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    there = set(done.stdout.split())
    assert "mblob.packager.link.background_copy" in there
    assert not {"pycparser", "elftools", "mblob.packager.link.read_back"} & there
    assert payload_of(tmp_path / "x.so") == DATA


@pytest.mark.parametrize("what", ["compile", "payload"])
def test_a_failure_beside_an_early_blob(tmp_path: Path, always: list[str], what: str) -> None:
    (tmp_path / "x.so").write_bytes(b"old")
    (tmp_path / "p").write_bytes(DATA)
    root = library(tmp_path / "p" if what == "compile" else "/proc/self/mem")
    if what == "compile":
        root.import_module(mblob.csource_module("int g( {\n"))
    else:
        root.import_module(mblob.blob_module("more", DATA))
    with pytest.raises(
        mblob.ToolchainError if what == "compile" else OSError, match=r"lib\d\.c|/proc/self/mem"
    ):
        root.export_library(tmp_path / "x.so")
    assert (tmp_path / "x.so").read_bytes() == b"old"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_an_iterable_waits_for_the_link(tmp_path: Path, always: list[str]) -> None:
    asked = []

    def pieces() -> Any:
        asked.append(1)
        yield DATA

    root = library(pieces())
    root.import_module(mblob.csource_module("int g( {\n"))
    with pytest.raises(mblob.ToolchainError):
        root.export_library(tmp_path / "x.so")
    assert (asked, always) == ([], [])  # it is still there for the next try


def test_without_a_thread_for_the_copy_nothing_stays_open(
    tmp_path: Path, always: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    module = library(DATA)
    gc.collect()  # what earlier tests left in circles
    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        module.export_library(tmp_path / "x.so")
    monkeypatch.undo()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [p.name for p in tmp_path.iterdir()] == ["TMPDIR"]


@pytest.mark.parametrize("early", [1, 1 << 30])
@pytest.mark.parametrize("more", [{}, {"system_lib": True}, {"fcompile": lambda *_, **__: None}])
def test_an_export_that_forgets_the_triple_fails_and_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: int, more: dict[str, Any]
) -> None:
    monkeypatch.setattr(request, "EARLY_COPY_SIZE", early)
    monkeypatch.setattr(request.Triple, "tell", lambda *_: None)
    name = tmp_path / ("x.a" if "system_lib" in more else "x.so")
    errors: list[BaseException] = []

    def export() -> None:
        try:
            library(DATA).export_library(name, **more)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=export, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert [type(error) for error in errors] in ([RuntimeError], [request.Cancelled])
    assert not name.exists()
