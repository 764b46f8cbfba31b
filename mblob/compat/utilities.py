"""Functions of `tvm.runtime` and `tvm.testing`, and temporary folders of `tvm.contrib.utils`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mblob
from mblob import Module, Tensor
from mblob.temporary import write_whole


def load_static_library(path: str | os.PathLike[str], func_names: Sequence[str]) -> Module:
    """`mblob.static_library`: an object file or an archive, to be imported and exported.

    Args:
        func_names: names of its packed functions.
    """
    return mblob.static_library(path, func_names)


def enabled(target: str) -> bool:
    """True if this process can run code for a target: "llvm", "opencl", "graph_executor", ..."""
    return bool(mblob.get_global_func("runtime.RuntimeEnabled")(target))


def num_threads() -> int:
    """The number of threads of a parallel loop."""
    return int(mblob.get_global_func("runtime.NumThreads")())


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write named arrays to a file, as `mblob.save_param_dict` gives them. A failure leaves the file
    that was there.

    Raises:
        OSError: `path` cannot be written.
    """
    write_whole(path, mblob.save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Named arrays of a file that `save_param_dict_to_file` wrote.

    Raises:
        FormatError: the file is no parameter dictionary.
    """
    return mblob.load_param_dict(Path(path).read_bytes())


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """`numpy.testing.assert_allclose`, with TVM's tolerances.

    Raises:
        AssertionError: the arrays differ.
    """
    from numpy import testing

    testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


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
