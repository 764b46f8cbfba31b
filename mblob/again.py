"""Modules that are not where their functions are: made ones that are asked before they are packed,
and opened libraries that are written once more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shutil import copy
from typing import Any
from weakref import WeakKeyDictionary

import mblob
from mblob.module import LIBRARY, Module
from mblob.node import to_write
from mblob.temporary import folder_beside, temporary_folder
from mblob.untold import untold

# By the module that was made: what its tree was, and the loaded copy of it.
_copies: WeakKeyDictionary[Module, tuple[list[Module], Module]] = WeakKeyDictionary()


def linked(module: Module) -> Module:
    """A loaded copy of a module that constructors made. There is one copy as long as the tree stays
    as it is.

    Raises:
        BuildError, ToolchainError, OSError: as of `export_library`.
    """
    tree = [*module.walk()][1:]
    known = _copies.get(module)
    if known is not None and known[0] == tree:
        return known[1]
    with temporary_folder() as folder, untold(mblob.PortabilityWarning):  # TVM never sees the copy
        path = folder / "lib.so"
        mblob.export_library(module, path)
        file = path.open("rb")
    with file:  # which has no name any more, so no pickle names it
        copy = mblob.load_module(file)
    _copies[module] = tree, copy
    return copy


def write_opened(
    module: Module, file_name: str | os.PathLike[str], options: Mapping[str, Any]
) -> bool:
    """Write the tree of an opened library to another file: the code as it is, with the payloads that
    the modules have.

    Args:
        options: of `export_library`.

    Returns:
        False: it is not the tree of one file, or an option asks for more. Nothing is written.
    """
    defaults: Any = mblob.export_library.__kwdefaults__
    # An option without a value, such as cc=None, asks for nothing. One that is off when it has no
    # value, such as index=False, does. Of the rest, a copy has only `reuse`.
    if any(v or defaults.get(k, True) for k, v in options.items() if k != "reuse"):
        return False
    modules = list(module.walk())
    paths = {m._node.path for m in modules if m.type_key == LIBRARY}
    path = paths.pop() if len(paths) == 1 else ""
    if not path:
        return False
    with mblob.open(path) as library:
        order = _walk(library)
        entries = [library.entries[i] for i in order]
        if [e.type_key for e in entries] != [m.type_key for m in modules]:
            return False
        held = [(e.index, to_write(m)) for e, m in zip(entries, modules) if m.type_key != LIBRARY]
        changed = [(i, p) for i, p in held if p != library.entries[i].view()]
        changes: dict[int | str, memoryview] = dict(changed or held[:1])
    if changes:
        mblob.swap(path, changes, output=file_name, reuse=options.get("reuse", True))
        return True

    output = Path(file_name)
    with folder_beside(output) as folder:
        Path(copy(path, folder)).replace(output)
    return True


def _walk(library: Any) -> list[int]:
    """Indices of the modules of a file in the order of `Module.walk`."""
    found: list[int] = []
    stack = [0] if library.entries else []
    while stack:
        index = stack.pop()
        if index not in found:
            found.append(index)
            stack.extend(reversed(library.entries[index].imports))
    return found
