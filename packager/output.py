"""Output files: none of the inputs, written beside their place and renamed, so that a failure leaves
what was there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mblob.arguments import path as checked_path
from mblob.bytes.payload_source import OF_CALLER
from mblob.packager.errors import BuildError
from mblob.temporary import LEAST_SPACE, folder_beside, temporary_folder


def check_output(output: Path, inputs: Iterable[tuple[str, Path]]) -> None:
    """Refuse an output that is one of the inputs: by the name it has in the end, or by another link
    to the file.

    Raises:
        BuildError: naming the input.
    """
    if not output.exists():
        return
    for what, path in inputs:
        # a missing input is for those to report who read it
        if path.exists() and path.samefile(output):
            raise BuildError(
                f"{output}: the output is also {what} ({path}), which would be lost; name another output"
            )


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


@contextmanager
def workspace(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A folder for intermediate files: the caller's, which is kept, or a temporary one, which is
    removed."""
    if folder is not None:
        path = Path(checked_path(folder, "workspace_dir")).absolute()
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with temporary_folder() as made:
        try:
            yield made
        except OSError as exc:
            full = (
                exc.errno in (errno.ENOSPC, errno.EDQUOT)
                and shutil.disk_usage(made).free < LEAST_SPACE
            )
            if full and exc.filename is None:
                what = f"temporary files cannot be written: {exc.strerror}; set TMPDIR to a folder with more room"
                raise OSError(exc.errno, what, str(made.parent)) from exc
            raise
