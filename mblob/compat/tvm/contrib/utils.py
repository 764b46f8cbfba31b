"""`tvm.contrib.utils`: temporary folders."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory


class TempDirectory:
    """A folder that is removed with this object, or by `remove`.

    Attributes:
        path, temp_dir: its path.
    """

    def __init__(self) -> None:
        self._folder = TemporaryDirectory()
        self.path = self.temp_dir = self._folder.name

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.path, name)  # noqa: PTH118

    def __truediv__(self, name: str) -> Path:
        return Path(self.path, name)

    def listdir(self) -> list[str]:
        """Names of the files in the folder."""
        return os.listdir(self.path)  # noqa: PTH208

    def remove(self) -> None:
        """Remove the folder and all files in it."""
        self._folder.cleanup()

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


tempdir = TempDirectory

__all__ = ["TempDirectory", "tempdir"]
