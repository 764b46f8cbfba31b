"""Where files that ship with mblob lie."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mblob.errors import ToolchainError


@cache
def include_dir() -> Path:
    """The folder of `dlpack/dlpack.h` and `tvm/runtime/*.h`.

    An installed package carries it as `mblob/csrc/include`, a checkout has it beside the package.

    Raises:
        ToolchainError: the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for root in (package, package.parent):
        found = root / "csrc" / "include"
        if (found / "tvm" / "runtime" / "c_runtime_api.h").is_file():
            return found
    raise ToolchainError(
        f"the C headers of mblob are missing: {package}/csrc/include/tvm/runtime; install mblob again"
    )
