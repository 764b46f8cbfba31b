"""Output files, which are none of the inputs, and folders for intermediate files."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mblob.packager.errors import BuildError
from mblob.packager.path_arguments import checked_path
from mblob.temporary import LEAST_SPACE, temporary_folder


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
