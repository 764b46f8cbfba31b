"""Many files in one folder, each whole or not there: written under another name and renamed, by the
open folder."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from mblob.bytes.sink import advance
from mblob.errors import listed
from mblob.interrupts import at_the_end
from mblob.packager.errors import BuildError
from mblob.temporary import temporary_folder

CHUNK = 1 << 18  # bytes written at a time


class FolderWriter:
    """Writes files into a folder, which is made if needed. Use it as a context manager.

    Everything is done through the descriptor of the folder, so a file costs few system calls
    however deep the folder is, and a folder that is renamed meanwhile stays the one that is written
    to.

    Args:
        folder: where to; a link to a folder is followed, links in it are not.
        kept: device and inode of a file that must not be replaced.
        replace: other files that are there are.

    Raises:
        OSError: the folder cannot be made or opened; it names the folder.
    """

    def __init__(
        self, folder: Path, kept: tuple[int, int] | None = None, *, replace: bool = True
    ) -> None:
        self._folder = folder
        self._kept = kept
        self._replace = replace
        self._temporary: Path | None = None  # where a file is written, relative to the folder
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._within = ExitStack()
        # behind the end of the temporary folder, which needs the descriptor
        at_the_end(self._close)

    def __enter__(self) -> FolderWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._within.close()
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _place(self) -> Path:
        """The file that is written before it gets its name: one for all, in a temporary folder in
        the folder."""
        if self._temporary is None:
            made = self._within.enter_context(temporary_folder(Path(), ".mblob.", self._fd))
            self._temporary = made / "new"
        return self._temporary

    def check(self, names: Iterable[str]) -> None:
        """Refuse what `write` would refuse for what is there, before anything is written.

        Args:
            names: of the files; asked for only if there is anything in the folder.

        Raises:
            BuildError: naming the files that may not be replaced.
            OSError: as of `write`.
        """
        # a file system may take upper and lower case for the same
        there = {name.casefold() for name in os.listdir(self._fd)}  # noqa: PTH208
        taken = []
        for name in names if there else ():
            if name.casefold() in there and self._there(name) is not None and not self._replace:
                taken.append(name)
        if taken:
            raise self._exist(taken)

    def write(self, name: str, pieces: Sequence[memoryview]) -> None:
        """Write one file; what is there is replaced when the new one is whole, and keeps its mode.

        Args:
            name: of the file, without a folder.
            pieces: bytes that follow each other in it.

        Raises:
            OSError: it cannot be written, or what is there is no regular file; it names the file.
        """
        found = self._there(name)
        if found is not None and not self._replace:
            raise self._exist([name])
        mode = None if found is None or stat.S_ISLNK(found.st_mode) else found.st_mode & 0o7777
        try:
            temporary = self._place()
            _write(self._fd, temporary, pieces, mode)
            os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError as error:
            raise self._failed(name, error.errno, error.strerror) from None

    def _there(self, name: str) -> os.stat_result | None:
        """The file or link of that name, None if there is none; others are refused."""
        try:
            found = os.lstat(name, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(name, error.errno, error.strerror) from None
        if (found.st_dev, found.st_ino) == self._kept:
            raise self._failed(name, errno.EEXIST, "it is the library, which would be lost")
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
            raise self._failed(name, code, "no regular file is there")
        return found

    def _failed(self, name: str, code: int | None, why: str | None) -> OSError:
        return OSError(code, f"the output cannot be written: {why}", str(self._folder / name))

    def _exist(self, names: Sequence[str]) -> BuildError:
        if len(names) == 1:
            return BuildError(f"{self._folder / names[0]} exists; force=True replaces it")
        return BuildError(
            f"{len(names)} files exist in {self._folder}: {listed(names)}; force=True replaces them"
        )


def _write(folder: int, path: Path, pieces: Sequence[memoryview], mode: int | None) -> None:
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, how, 0o666, dir_fd=folder)
    try:
        if sum(map(len, pieces)) <= CHUNK:
            pieces = [memoryview(b"".join(pieces))]
        for piece in pieces:
            for start in range(0, len(piece), CHUNK):
                step = piece[start : start + CHUNK]
                _write_all(fd, step)
                advance(len(step))
        if mode is not None:
            os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _write_all(fd: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]
