"""`convert`: a library of one dialect written anew in the other: payloads re-expressed, functions
adapted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.arguments import items
from mblob.errors import one_of
from mblob.format.exported_functions import FFI_PREFIX
from mblob.inspect.library import Library
from mblob.module import Module
from mblob.packager.errors import BuildError, BuildTypeError, CannotJoinError
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.join.join import check_machine, finished_code, join
from mblob.packager.link.export import export_library
from mblob.packager.link.relink import read
from mblob.packager.modules.nodes import HostNode
from mblob.packager.path_arguments import check_output, checked_path, existing_file, workspace
from mblob.packager.write.dialects import DIALECTS
from mblob.packager.write.dialects import Dialect as DialectFormat

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mblob.typed import BuildOptions, Dialect

# What only code of one dialect has; what else it has for the runtime is the same in both.
_OWN = {
    "classic": {"TVMFuncCall", "TVMAPISetLastError", "TVMBackendGetFuncFromEnv"},
    "ffi": {
        *(name for name in SLOTS if name.startswith("TVMFFI")),
        "TVMFFIStringFromByteArray",
        "TVMFFIBytesFromByteArray",
    },
}


def convert(
    file: str | os.PathLike[str],
    file_name: str | os.PathLike[str],
    *,
    dialect: Dialect,
    objects: Sequence[str | os.PathLike[str]] = (),
    **export_options: Unpack[BuildOptions],
) -> None:
    """Write a library of one dialect in the other.

    The import tree stays. Payloads are written in the other dialect's grammar, with new digests.
    Functions keep their names and get adapters to the other calling convention. Objects of host
    code are linked again. The code of a finished shared library stays in its place, unless
    `objects` has the objects that it was linked from.

    Args:
        file: a shared library, or the objects of one: `.tar`, `.o`, `.a`.
        file_name: the library to write, `.so` or `.tar`.
        dialect: "classic" or "ffi": what to write.
        objects: objects, archives and sources of the host code of `file`.
        export_options: of `export_library`: index, digest, embed, cc, target, options, ...

    Raises:
        BuildError: the library has that dialect already, or it has a module or function that the
            other dialect cannot have.
        FormatError, DigestError: the file is damaged, or is no model library.
        IncompatibleError: it is for another machine than the compiler.
        ToolchainError, OSError: as of `export_library`.
    """
    if dialect not in tuple(DIALECTS):
        raise BuildError(f"dialect: {one_of(DIALECTS, dialect)}")
    path = existing_file(Path(checked_path(file, "convert: file")), "convert: file")
    output_path = Path(checked_path(file_name, "convert: file_name"))
    given = items("convert", "objects", objects, "a list of paths", BuildTypeError)
    given = [Path(checked_path(p, "convert: objects")) for p in given]
    given = [existing_file(p, "convert: objects") for p in given]
    if output_path.suffix in (".o", ".a"):
        raise BuildError(
            f"{file_name}: convert writes a shared library (.so), or .tar for the objects of one"
        )
    check_output(output_path, [("the input", path), *(("an object", p) for p in given)])
    with workspace(None) as work:
        found = read(path, work)
        for extra in given:
            found.add_file(extra, str(extra), work)
        found.check(dialect, str(path))
        if found.machine is not None:
            check_machine(found.machine, str(path), work, export_options)
        if found.functions and not given:
            _convert_shared(
                path, found.tree_with, file_name, DIALECTS[dialect], work, export_options
            )
            return
        found.expose_forms(work)
        export_library(found.tree(), file_name, dialect=dialect, **export_options)


def _convert_shared(
    path: Path,
    tree: Callable[[HostNode], Module],
    file_name: str | os.PathLike[str],
    dialect: DialectFormat,
    work: Path,
    export_options: Mapping[str, Any],
) -> None:
    """Write a finished library that has functions: its code stays, and adapters to the other dialect
    join it. `tree` makes the tree of its new modules, with the node of the finished code."""
    _check_shared(path, file_name, export_options)
    with Library(path) as library:
        adapted = {f.symbol for f in library.host_functions if f.abi != "plain"}
    try:
        join(
            path,
            tree(finished_code(path, work, export_options, needs_runtime=True)),
            file_name,
            dialect,
            work,
            export_options,
            hidden=lambda name: _is_hidden(name, dialect),
            replaced=adapted,
        )
    except CannotJoinError as error:
        raise BuildError(f"{error}; convert the objects that it was linked from") from None


def _check_shared(
    path: Path, file_name: str | os.PathLike[str], export_options: Mapping[str, Any]
) -> None:
    for name in ("fcompile", "fpack_imports", "system_lib"):
        if export_options.get(name):
            raise BuildError(
                f"{path}: a finished library, to which adapters are added without {name}=; leave it out, or convert the"
                " objects that it was linked from"
            )
    if Path(file_name).suffix in (".tar", ".o", ".a"):
        raise BuildError(
            f"{path}: a finished library has no objects to put into {file_name}; name a .so, or convert the objects"
            " that it was linked from"
        )


def _is_hidden(name: str, target: DialectFormat) -> bool:
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
