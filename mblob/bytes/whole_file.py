"""A file that is written whole or not at all: beside its place, then renamed, so that a failure
leaves what was there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mblob.arguments import path as checked_path
from mblob.bytes.payload_source import OF_CALLER
from mblob.temporary import folder_beside


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
