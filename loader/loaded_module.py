"""Modules of a file that a loader written in Python opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mblob import errors
from mblob.loader.loaders import LoaderContext
from mblob.module import Module
from mblob.native.runtime import lib, text

if TYPE_CHECKING:
    from mblob.loader.loaders import Loader
    from mblob.loader.opened import OpenedNode


class LoadedModule:
    """The module that a Python loader returned for an entry of a file."""

    def __init__(self, loaded: Module, own_imports: Sequence[Module]) -> None:
        self._loaded = loaded
        self._own_imports = own_imports

    def find(self, name: str) -> Callable[..., Any] | None:
        """A function of the loaded module or of imports of its own, not of the file's."""
        found = self._loaded._find(name, False)
        for module in self._own_imports:
            found = found or module._find(name, True)
        return found

    def functions(self) -> Mapping[str, str]:
        return self._loaded._node.functions()

    def saved(self) -> memoryview | None:
        return self._loaded._node.saved()


def open_with_loader(node: OpenedNode, loader: Loader) -> LoadedModule:
    """Call a loader and hang the file's imports below what it returns.

    Raises:
        StateError: the loader raised; its exception is the cause.
        TypeError: it returned something else than a Module.
    """
    module = node.module
    index = int(lib.mblob_module_index(node.handle))
    where = f"module {index} ({node.type_key!r}) of {node.origin.path or 'a library from memory'}"
    imports = module.imported_modules
    dialect = text(lib.mblob_module_dialect(node.handle))
    context = LoaderContext(node.type_key, index, node.origin.path, dialect, imports)
    try:
        loaded = loader(node.payload(), context)
    except Exception as exc:
        raise errors.StateError(
            f"the loader of {where} failed: {type(exc).__name__}: {exc}"
        ) from exc
    if not isinstance(loaded, Module):
        raise errors.ArgumentTypeError(
            f"the loader of {where}: expected it to return a Module, found {type(loaded).__name__}"
        )
    own_imports = loaded.imported_modules
    _attach(loaded, imports)
    return LoadedModule(loaded, [m for m in own_imports if not any(m is i for i in imports)])


def _attach(loaded: Module, imports: Sequence[Module]) -> None:
    """Add to `loaded` the imports it does not reach yet; one of them may be `loaded` itself, or
    import it."""
    for child in imports:
        if any(m is child for m in loaded.walk()) or any(m is loaded for m in child.walk()):
            continue
        loaded.import_module(child)
