"""Output files: written beside their place and renamed, so that a failure leaves what was there."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path



@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to instead of `path`: same name, in a temporary folder beside it.

    When the block ends and wrote the file, the file takes the place of `path`, and the mode of what was there;
    when the block fails, whatever the reason, `path` stays as it was. Nothing else is left behind either way.

    Raises:
        OSError: `path` cannot be written; it names `path`.
    """
    # A symbolic link is written through, as linkers do.
    real = Path(os.path.realpath(path))
    if real.exists() and not real.is_file():
        code = errno.EISDIR if real.is_dir() else errno.EINVAL
        raise OSError(code, "the output is not a regular file", str(path))
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{real.name[:100]}.", dir=real.parent))
    except OSError as exc:
        raise OSError(exc.errno, f"the output cannot be written: {exc.strerror}", str(path)) from None
    try:
        temporary = folder / real.name
        try:
            yield temporary
            if temporary.exists():
                if real.exists():
                    temporary.chmod(real.stat().st_mode & 0o7777)
                temporary.replace(real)
        except OSError as exc:
            # A full disk is reported by write(), which does not know what it writes to.
            if exc.errno is not None and exc.filename in (None, str(temporary)):
                raise OSError(exc.errno, f"the output cannot be written: {exc.strerror}", str(path)) from exc
            raise
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder of ours, even when another signal arrives meanwhile."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def workspace(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A folder for intermediate files: the caller's, which is kept, or a temporary one, which is removed."""
    if folder is not None:
        path = Path(folder).absolute()
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    # Not TemporaryDirectory: its finalizer keeps state at interpreter exit that an interrupt can trip over.
    path = Path(tempfile.mkdtemp(prefix="mblob-"))
    try:
        yield path
    finally:
        _remove(path)
