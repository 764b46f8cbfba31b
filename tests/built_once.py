"""Compiles once what many tests need: for all workers of a run, and for later runs until its
sources change.

Results lie in `build/tests/NAME-KEY` of the checkout, where KEY is a digest of every input: the
sources, the compiler and its version, the words of the command. `rm -r build/tests` is always
allowed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "tests"
_in_use: list[int] = []  # descriptors
C_SOURCES = (ROOT / "csrc", ROOT / "tests" / "c", ROOT / "tests" / "cxx", ROOT / "mblob")


@cache
def version_of(compiler: str) -> str:
    """The path of a compiler and the first line it says of itself; "" where there is none."""
    path = shutil.which(compiler)
    if path is None:
        return ""
    done = subprocess.run([path, "--version"], capture_output=True, text=True)
    return f"{path} {done.stdout.partition(chr(10))[0]}"


@cache
def digest_of_sources(folders: tuple[Path, ...]) -> str:
    """A digest of the C and C++ sources, headers, makefiles and data below `folders`."""
    found = hashlib.sha256()
    kinds = {".c", ".h", ".cpp", ".mk", ".map", ".in", ".cmake", ".bin", ".S"}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            relative = path.relative_to(ROOT)
            if (path.suffix in kinds or path.name == "Makefile") and "build" not in relative.parts:
                found.update(f"{relative}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def built_once(
    name: str, make: Callable[[Path], object], *words: object, sources: Iterable[Path] = C_SOURCES
) -> Path:
    """The folder that `make(folder)` filled, now or in an earlier run with the same inputs.

    Args:
        name: of the folder, without its key.
        make: fills an empty folder; it runs in one process at a time, and again after a failure.
        words: what the result depends on besides the sources: flags, compilers (their versions are
            looked up).
        sources: files of these folders are inputs.
    """
    text = [
        digest_of_sources(tuple(sources)),
        str(ROOT),
        *map(str, words),
        *map(version_of, map(str, words)),
    ]
    text += [
        os.environ.get(v, "") + version_of(os.environ.get(v) or d)
        for v, d in (("CC", "cc"), ("CXX", "c++"))
    ]
    text += [os.environ.get(v, "") for v in ("AR", "CFLAGS", "CPPFLAGS", "LDFLAGS")]
    key = hashlib.sha256("\0".join(text).encode()).hexdigest()[:16]
    folder = FOLDER / f"{name}-{key}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        used = os.open(FOLDER / f"{folder.name}.used", os.O_WRONLY | os.O_CREAT, 0o666)
        fcntl.flock(used, fcntl.LOCK_SH)
        _in_use.append(used)  # until this process ends
        if not (folder / "complete").exists():
            _remove_unused(name, folder)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (folder / "complete").touch()
    return folder


def _remove_unused(name: str, needed: Path) -> None:
    """Remove what was built of other inputs, unless a run uses it now."""
    for old in FOLDER.glob(f"{name}-{'?' * 16}"):
        mark = FOLDER / f"{old.name}.used"
        with mark.open("w") as file, suppress(BlockingIOError):
            if old != needed:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)
                mark.unlink()
