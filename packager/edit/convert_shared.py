"""`convert` of a finished library that has functions: its code stays, and adapters to the other
dialect join it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mblob.format.exported_functions import FFI_PREFIX
from mblob.inspect.library import Library
from mblob.module import Module
from mblob.packager.errors import BuildError, CannotJoinError
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.join.join import finished_code, join
from mblob.packager.modules.nodes import HostNode
from mblob.packager.write.dialects import DIALECTS, Dialect

# What only code of one dialect has; what else it has for the runtime is the same in both.
_OWN = {
    "classic": {"TVMFuncCall", "TVMAPISetLastError", "TVMBackendGetFuncFromEnv"},
    "ffi": {
        *(name for name in SLOTS if name.startswith("TVMFFI")),
        "TVMFFIStringFromByteArray",
        "TVMFFIBytesFromByteArray",
    },
}


def convert_shared(
    path: Path,
    tree: Callable[[HostNode], Module],
    file_name: str | os.PathLike[str],
    dialect: Dialect,
    work: Path,
    how: Mapping[str, Any],
) -> None:
    """Write `file_name`: the library `path` with other modules, in the other dialect.

    Args:
        tree: makes the tree of these modules, with the node of the finished code.

    Raises:
        As of `mblob.packager.edit.convert.convert`.
    """
    _check(path, file_name, how)
    with Library(path) as library:
        adapted = {f.symbol for f in library.host_functions if f.abi != "plain"}
    try:
        join(
            path,
            tree(finished_code(path, work, how, needs_runtime=True)),
            file_name,
            dialect,
            work,
            how,
            hidden=lambda name: _is_hidden(name, dialect),
            replaced=adapted,
        )
    except CannotJoinError as error:
        raise BuildError(f"{error}; convert the objects that it was linked from") from None


def _check(path: Path, file_name: str | os.PathLike[str], how: Mapping[str, Any]) -> None:
    for name in ("fcompile", "fpack_imports", "system_lib"):
        if how.get(name):
            raise BuildError(
                f"{path}: a finished library, to which adapters are added without {name}=; leave it out, or convert the"
                " objects that it was linked from"
            )
    if Path(file_name).suffix in (".tar", ".o", ".a"):
        raise BuildError(
            f"{path}: a finished library has no objects to put into {file_name}; name a .so, or convert the objects"
            " that it was linked from"
        )


def _is_hidden(name: str, target: Dialect) -> bool:
    """True if a name must be hidden from loaders of the target dialect, which would take it for
    something else."""
    (other,) = (d for d in DIALECTS.values() if d is not target)
    if name in SLOTS or name in _OWN["ffi"]:  # functions of ours that the code calls by name
        return True
    if name.startswith("__TVM"):
        return name[2:] in _OWN[other.name]
    if name in (other.context, other.entry):
        return True
    return not target.is_ffi and name.startswith(FFI_PREFIX)
