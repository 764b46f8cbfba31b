"""Objects that were compiled before, kept in a folder by the key of what made them.

The folder serves any number of processes at a time and may vanish, be damaged, full or read-only at any moment:
whatever is wrong with it, an object is not found there, or not kept.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from mblob.arguments import path as checked_path
from mblob.packager.errors import BuildError

Setting = Union[bool, str, "os.PathLike[str]"]

MAGIC = b"mblob object 1\r\n"
HEAD = len(MAGIC) + 32  # bytes in front of an object: magic, SHA-256 of what follows
SHARES = 16  # subfolders, each with its share of the limit: what is added is paid for by looking at one of them
LIMIT = 512 << 20  # bytes of all objects
KEPT_HALF_WRITTEN = 3600  # seconds after which a file that nobody finished is removed
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class ObjectCache:
    """A folder of objects.

    Attributes:
        folder: made when the first object is kept.
        limit: bytes that all objects may have; those that were not used for longest make room.
    """

    folder: Path
    limit: int = LIMIT

    def get(self, key: str) -> bytes | None:
        """The object of a key; None if there is none that is whole and this user's own."""
        path = self._place(key)
        try:
            # A pipe or a device in its place must not be waited for.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                status = os.fstat(file.fileno())
                # Whoever writes an object writes code that the library will run.
                mine = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
                if not mine or status.st_size > self.limit:
                    return None
                content = file.read(status.st_size)
        except OSError:
            return None
        data = content[HEAD:]
        if content[:HEAD] != _head(data):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        return data

    def put(self, key: str, data: bytes) -> None:
        """Keep an object, if that is possible."""
        if HEAD + len(data) > self.limit // SHARES:
            return
        path = self._place(key)
        temporary = path.parent / f"{_TEMPORARY}{os.urandom(8).hex()}"
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                with temporary.open("xb") as file:
                    file.write(_head(data))
                    file.write(data)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            _make_room(path.parent, self.limit // SHARES)
        except OSError:
            pass

    def _place(self, key: str) -> Path:
        return self.folder / key[:1] / key[1:]

    def size(self) -> tuple[int, int]:
        """How many objects there are, and their bytes."""
        files = [f for share in _entries(self.folder) for f in _entries(Path(share.path)) if _is_object(f)]
        return len(files), sum(_status(f)[1] for f in files)


_TEMPORARY = "new-"


def _head(data: bytes) -> bytes:
    import hashlib

    return MAGIC + hashlib.sha256(data).digest()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _is_object(entry: os.DirEntry[str]) -> bool:
    return not entry.name.startswith(_TEMPORARY)


def _status(entry: os.DirEntry[str]) -> tuple[float, int]:
    """When a file was used last, and its bytes; 0 if another process has just removed it."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0, 0
    return status.st_mtime, status.st_size


def _make_room(folder: Path, limit: int) -> None:
    """Remove what was used longest ago until the rest has at most `limit` bytes, and what nobody finished."""
    oldest_first = sorted((*_status(entry), Path(entry.path)) for entry in _entries(folder) if _is_object(entry))
    total = sum(size for _, size, _ in oldest_first)
    for _, size, path in oldest_first:
        if total <= limit:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
    for entry in _entries(folder):
        if not _is_object(entry) and _status(entry)[0] < time.time() - KEPT_HALF_WRITTEN:
            with suppress(OSError):
                Path(entry.path).unlink()


# -- which one ------------------------------------------------------------------------------------------


def object_cache(setting: Setting = True) -> ObjectCache | None:
    """The cache that a caller and the environment ask for, None for none.

    Args:
        setting: False for none; a folder; True for the one of the environment: `$MBLOB_CACHE_DIR`, else
            `$XDG_CACHE_HOME/mblob`, else `~/.cache/mblob`, and none with `MBLOB_CACHE=0`.

    Raises:
        TypeError: none of these. BuildError: `MBLOB_CACHE_SIZE` is no size.
    """
    if not isinstance(setting, (bool, str, os.PathLike)):
        raise TypeError(f"cache: expected True, False or a folder, found {type(setting).__name__}")
    if setting is False or (setting is True and os.environ.get("MBLOB_CACHE") == "0"):
        return None
    folder = _folder() if setting is True else Path(checked_path(setting, "cache")).absolute()
    return None if folder is None else ObjectCache(folder / "objects", _limit())


def _folder() -> Path | None:
    """None without a home."""
    own, xdg = os.environ.get("MBLOB_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own).absolute()
    if xdg and Path(xdg).is_absolute():  # others are to be ignored, says the XDG specification
        return Path(xdg) / "mblob"
    try:
        return Path.home() / ".cache" / "mblob"
    except RuntimeError:
        return None


def _limit() -> int:
    text = os.environ.get("MBLOB_CACHE_SIZE") or str(LIMIT)
    match = re.fullmatch(r"(\d{1,15})([KMG]?)", text)
    if match is None:
        raise BuildError(f"MBLOB_CACHE_SIZE={text!r}: expected bytes, or a number with K, M or G behind it")
    return int(match[1]) * _UNITS[match[2]]
