"""Folders for temporary files, and files that are written there and then renamed. A folder that a killed run
left behind is removed by the next run.

A process that uses a folder holds its lock (`flock`), which ends with the process however that
ends. Name, owner and mode say that a folder is ours. The mode has the sticky bit, which nobody else
gives to a folder that only its owner can enter; it is there from the moment at which the folder is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from mblob.arguments import path as checked_path
from mblob.errors import OF_CALLER
from mblob.interrupts import at_the_end

MODE = stat.S_ISVTX | 0o700
_NAME = re.compile(r"(?:\..*[.-]|mblob-)[0-9a-f]{16}", re.DOTALL)
_TRIES = 200  # of removing a folder
LEAST_SPACE = 64 << 10  # bytes: what failed with less left in its folder failed for that
# File systems of one machine, by the f_type of statfs(2): ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS,
# F2FS, bcachefs, ramfs, JFS. Whoever can use a folder there sees its lock; on NFS a lock may be
# known to one machine alone.
_LOCAL = {
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1, 0xF2F52010, 0xCA451A4E, 0x858458F6, 0x3153464A,
}  # fmt: skip

# Device and inode of the folders that were looked through since the outermost block began.
_cleared: ContextVar[set[tuple[int, int]] | None] = ContextVar("mblob_cleared", default=None)


@contextmanager
def temporary_folder(
    parent: Path | None = None, prefix: str = "mblob-", at: int | None = None
) -> Iterator[Path]:
    """A new folder, which is gone when the block ends, at whatever moment a signal arrives.

    It has its name before it exists, and is removed once more at the end of what makes it: an
    exception that a signal raises may come before the first statement of a function that removes
    it. (Nor is it a TemporaryDirectory, whose finalizer keeps state at interpreter exit that an
    interrupt can trip over.)

    Folders that killed runs left in `parent` go first. `parent` is listed once, however many such
    blocks nest.

    Args:
        parent: where; by default the place of temporary files.
        prefix: of its name, starts and ends with `.`; or `mblob-`.
        at: descriptor of the folder that `parent`, and the path that is given, are relative to
            (`dir_fd`). It stays open until the folder is gone.

    Raises:
        OSError: it cannot be made.
    """
    place = _place_of_temporary_files() if parent is None else parent
    known = _cleared.get()
    _cleared.set(set() if known is None else known)
    try:
        _clear(place, at)
        folder = place / (prefix + os.urandom(8).hex())
        lock = _Lock(at)
        at_the_end(partial(_remove, folder, lock))
        try:
            lock.make(folder)
            yield folder
        finally:
            _remove(folder, lock)
    finally:
        _cleared.set(known)


def folder_beside(path: Path) -> AbstractContextManager[Path]:
    """A temporary folder for what takes the place of `path` when it is whole."""
    return temporary_folder(path.parent, f".{os.fsdecode(os.fsencode(path.name)[:100])}.")


def is_temporary(folder: Path) -> bool:
    """True if a folder has the name of one of these: who made it has its lock, and alone writes to it."""
    return _NAME.fullmatch(folder.name) is not None


def _place_of_temporary_files() -> Path:
    """The folder that `tempfile.gettempdir` finds, without its trial file, which signals leave
    behind."""
    named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    for place in (*named, "/tmp", "/var/tmp"):
        if place and Path(place).is_dir() and os.access(place, os.W_OK | os.X_OK):
            return Path(place).absolute()
    return Path.cwd()


# -- the folder of this process --------------------------------------------------------------------


class _Lock:
    """A folder and the descriptor that holds its lock. Programs that this process starts do not
    inherit it."""

    def __init__(self, at: int | None) -> None:
        self._fd = -1
        self.at = at
        self.is_over = False  # the folder was removed; `at` may be another folder by now

    def make(self, folder: Path) -> None:
        """Make the folder and lock it.

        Between the two another run may take the folder for one that was left. It removes the
        folder, in which there is nothing yet, and here the folder is made again.
        """
        while True:
            os.mkdir(folder, MODE, dir_fd=self.at)
            with suppress(FileNotFoundError):
                self._fd = _opened(folder, self.at)
                try:
                    fcntl.flock(self._fd, fcntl.LOCK_EX)
                except (
                    OSError
                ):  # there are no locks here: let nobody take the folder for one that was left
                    os.fchmod(self._fd, 0o700)
                os.lstat(folder, dir_fd=self.at)
                return
            self.free()

    def free(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _opened(folder: Path, at: int | None) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)


def _remove(folder: Path, lock: _Lock) -> None:
    """Remove a folder of this process, if it is there."""
    for attempt in range(0 if lock.is_over else _TRIES):
        with suppress(OSError):
            try:
                fd = _opened(folder, lock.at)
            except FileNotFoundError:
                break
            try:
                if attempt:
                    time.sleep(0.01)  # a compiler that was just ended may have written another file
                _empty(fd)
            finally:
                os.close(fd)
            os.rmdir(folder, dir_fd=lock.at)
    lock.is_over = True
    lock.free()


# -- folders of others -----------------------------------------------------------------------------


def _clear(place: Path, at: int | None) -> None:
    """Remove the folders that killed runs left in `place`, unless that was just done."""
    done = _cleared.get()
    with suppress(OSError):
        info = os.stat(place, dir_fd=at)
        key = (info.st_dev, info.st_ino)
        if done is None or key in done:
            return
        done.add(key)
        for name in _names(place, at):
            if name[0] in ".m" and _NAME.fullmatch(name):
                _remove_left(place / name, at)


def _names(place: Path, at: int | None) -> list[str]:
    if at is None:
        return os.listdir(place)  # noqa: PTH208  (half the time of iterdir)
    fd = _opened(place, at)
    try:
        return os.listdir(fd)  # noqa: PTH208
    finally:
        os.close(fd)


def _remove_left(folder: Path, at: int | None = None) -> None:
    """Remove a folder that was left, if it is certain that it is one, and that nobody uses it."""
    with suppress(OSError):
        if not _is_ours(os.lstat(folder, dir_fd=at)):
            return
        fd = _opened(folder, at)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_ours(os.fstat(fd)) and _is_local(fd):
                _empty(fd)
                os.rmdir(folder, dir_fd=at)
        finally:
            os.close(fd)


def _is_ours(info: os.stat_result) -> bool:
    inherited = stat.S_ISGID  # from the folder that it is in
    return info.st_mode & ~inherited == stat.S_IFDIR | MODE and info.st_uid == os.geteuid()


def _is_local(fd: int) -> bool:
    """True if the file system is one of this machine, so that no other can use what is in it."""
    import ctypes

    answer = ctypes.create_string_buffer(512)  # larger than any struct statfs
    try:
        failed = ctypes.CDLL(None).fstatfs(fd, answer)
    except AttributeError:
        return False
    return not failed and ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF in _LOCAL


def _empty(fd: int) -> None:
    """Remove what can be removed of what is in an open folder. Links are removed, never
    followed."""
    for _, folders, files, at in os.fwalk(".", topdown=False, dir_fd=fd):
        for name in files:
            with suppress(OSError):
                os.unlink(name, dir_fd=at)
        for name in folders:
            with suppress(OSError):
                try:
                    os.rmdir(name, dir_fd=at)
                except NotADirectoryError:
                    os.unlink(name, dir_fd=at)


# -- files that are written whole or not at all ----------------------------------------------------


@contextmanager
def replacing(path: str | os.PathLike[str], *, through_links: bool = True) -> Iterator[Path]:
    """A path to write to instead of `path`: same name, in a temporary folder beside it.

    When the block ends and wrote the file, the file takes the place of `path`, and the mode of what
    was there; when the block fails, whatever the reason, `path` stays as it was. Nothing else is
    left behind either way.

    Args:
        through_links: what a symbolic link at `path` names is replaced, as linkers do; else the
            link itself.

    Raises:
        OSError: `path` cannot be written; it names `path`.
        ValueError: no file can have that path.
    """
    checked_path(path)
    real = Path(os.path.realpath(path) if through_links else path)
    if through_links and real.is_symlink():  # it leads to itself, or is one of too many
        raise OSError(
            errno.ELOOP, f"the output cannot be written: {os.strerror(errno.ELOOP)}", str(path)
        )
    if real.exists() and not real.is_file():
        if real.is_dir():
            raise OSError(errno.EISDIR, "the output is a folder, not a regular file", str(path))
        raise OSError(errno.EINVAL, "the output is not a regular file", str(path))
    with _beside(real, str(path)) as folder:
        temporary = folder / real.name
        try:
            yield temporary
            if temporary.exists():
                if real.exists() and not real.is_symlink():
                    temporary.chmod(real.stat().st_mode & 0o7777)
                temporary.replace(real)
        except OSError as exc:
            # A full disk is reported by write(), which does not know what it writes to.
            known = exc.filename not in (None, str(temporary)) or hasattr(exc, OF_CALLER)
            if exc.errno is not None and not known:
                raise OSError(
                    exc.errno, f"the output cannot be written: {exc.strerror}", str(path)
                ) from exc
            raise


def check_may_replace(path: str | os.PathLike[str], old: str | os.PathLike[str]) -> None:
    """Refuse to replace a file that nobody may write by what is made of it. A rename needs only the folder to be
    writable, and a superuser may write everything: so the mode tells.

    Args:
        path: of the new file.
        old: the file that it is made of.

    Raises:
        PermissionError: they are the same file, which is read-only.
    """
    try:
        is_read_only = Path(path).samefile(old) and not Path(path).stat().st_mode & 0o222
    except OSError:  # one of them does not exist
        return
    if is_read_only:
        text = "is read-only, so it is not replaced; name another output, or make it writable (chmod u+w)"
        raise PermissionError(errno.EACCES, text, str(path))


@contextmanager
def _beside(real: Path, output: str) -> Iterator[Path]:
    """A temporary folder beside an output.

    Args:
        output: how errors call the output.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(folder_beside(real))
        except OSError as exc:
            why = f"the output cannot be written: {exc.strerror}"
            if exc.errno == errno.ENOENT and not real.parent.exists():
                why = f"the output's folder {str(real.parent)!r} does not exist; create it first"
            raise OSError(exc.errno, why, output) from None
        yield folder


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file.

    Raises:
        OSError, ValueError: as of `replacing`.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data)
