"""Object files, archives and tars of them, linked to a temporary library so that they can be opened.

The packager has the real linking; this is what `load_module("x.o")` and `load_module("x.tar")` need.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import mblob
from mblob.errors import FormatError, ToolchainError

OBJECT_SUFFIXES = (".o", ".obj", ".a")
SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cxx")  # TVM puts devc.c into its tars
_COMPILERS = ("c++", "g++", "clang++", "cc", "gcc", "clang")  # C++ first: objects may need its library


@contextmanager
def linked(path: str, shown: str) -> Iterator[str]:
    """A library made of the objects in `path`; it goes with the block.

    Args:
        shown: how errors call the file.

    Raises:
        FormatError: a tar without objects ("tar_empty"), or one whose member names leave it ("tar_path").
        ToolchainError: no compiler here, or it failed.
    """
    name = shown or "a file in memory"
    with tempfile.TemporaryDirectory(prefix="mblob-") as folder:
        inputs = _inputs(Path(path), name, Path(folder))
        library = str(Path(folder) / "linked.so")
        _link(inputs, library, name)
        yield library


@contextmanager
def temporary_file(data: memoryview) -> Iterator[str]:
    """The bytes as a file; it goes with the block."""
    with tempfile.TemporaryDirectory(prefix="mblob-") as folder:
        path = Path(folder) / "source"
        path.write_bytes(data)
        yield str(path)


def _inputs(path: Path, name: str, folder: Path) -> list[str]:
    with path.open("rb") as file:
        start = file.read(8)
    if start[:4] == b"\x7fELF":
        return [_placed(path, folder / "input.o")]
    if start == b"!<arch>\n":
        return ["-Wl,--whole-archive", _placed(path, folder / "input.a"), "-Wl,--no-whole-archive"]
    return _extract(path, name, folder)


def _placed(path: Path, target: Path) -> str:
    """The file under a name whose suffix tells the linker what it is."""
    target.symlink_to(path.resolve()) if not str(path).startswith("/proc/") else shutil.copyfile(path, target)
    return str(target)


def _extract(path: Path, name: str, folder: Path) -> list[str]:
    """Objects and sources of a tar, under names of our own."""
    inputs = []
    try:
        with tarfile.open(path) as tar:
            for i, member in enumerate(tar):
                parts = Path(member.name).parts
                if member.name.startswith("/") or ".." in parts or member.issym() or member.islnk() or member.isdev():
                    raise FormatError(
                        f"{name}: member {member.name!r} is a link or leaves the tar, expected plain files",
                        code="tar_path",
                    )
                suffix = Path(member.name).suffix.lower()
                if not member.isfile() or suffix not in OBJECT_SUFFIXES + SOURCE_SUFFIXES:
                    continue
                source = tar.extractfile(member)
                target = folder / f"{i}{suffix}"
                if source is not None:
                    with source, target.open("wb") as out:
                        shutil.copyfileobj(source, out)
                    # A C++ driver would take a .c file for C++.
                    inputs += ["-x", "c", str(target), "-x", "none"] if suffix == ".c" else [str(target)]
    except (tarfile.TarError, EOFError, OSError) as exc:
        raise FormatError(f"{name}: a damaged tar: {exc}", code="tar_damaged") from None
    if not inputs:
        raise FormatError(f"{name}: no object file in the tar, expected at least one *.o", code="tar_empty")
    return inputs


def _compiler() -> list[str]:
    named = os.environ.get("CXX") or os.environ.get("CC")
    if named:
        return shlex.split(named)
    found = next((tool for tool in _COMPILERS if shutil.which(tool)), None)
    if found is None:
        raise ToolchainError(f"no compiler to link objects with; looked for {', '.join(_COMPILERS)}; set CC")
    return [found]


def _headers() -> Path:
    """Folder of mblob's C headers: in the package, or beside it in a checkout."""
    package = Path(mblob.__file__).resolve().parent
    shipped = package / "csrc" / "include"
    return shipped if shipped.is_dir() else package.parent / "csrc" / "include"


def _link(inputs: Sequence[str], library: str, name: str) -> None:
    sources = any(Path(i).suffix in SOURCE_SUFFIXES for i in inputs)
    command = [
        *_compiler(), "-shared", "-fPIC", *(["-O2", f"-I{_headers()}"] if sources else []),
        "-o", library, *inputs, "-Wl,-Bsymbolic", "-Wl,-z,noexecstack", "-Wl,--as-needed", "-lm", "-lpthread",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as exc:
        raise ToolchainError(f"{name}: {command[0]} does not run: {exc}", command=command) from None
    if done.returncode:
        raise ToolchainError(
            f"{name}: {command[0]} could not link it (status {done.returncode})",
            command=command,
            output=done.stderr,
        )
