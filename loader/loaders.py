"""Loaders written in Python: who opens modules of which type key."""

from __future__ import annotations

from _collections_abc import Callable, Mapping

from mblob import arguments
from mblob.annotations import TYPE_CHECKING, Any, overload
from mblob.loader import callbacks
from mblob.module import Module

if TYPE_CHECKING:
    from typing import TypeVar

    from mblob.inspect.payload_layouts import Measure

    F = TypeVar("F", bound=Callable[..., Any])

Loader = Callable[..., Any]


_GLOBAL_NAMES = ("runtime.module.loadbinary_", "ffi.Module.load_from_bytes.")


class LoaderContext:
    """Facts for a loader about the module that it opens.

    Attributes:
        type_key: of the module.
        index: of the module in its file.
        path: of the file, "" when it came from memory.
        dialect: "classic" or "ffi".
        imports: the modules it imports.
    """

    __slots__ = ("dialect", "imports", "index", "path", "type_key")

    def __init__(
        self, type_key: str, index: int, path: str, dialect: str, imports: list[Module]
    ) -> None:
        self.type_key = type_key
        self.index = index
        self.path = path
        self.dialect = dialect
        self.imports = imports


_registered: dict[str, Loader] = {}


@overload
def register_loader(
    key: str, fn: F, *, layout: str | None = None, measure: Measure | None = None
) -> F: ...
@overload
def register_loader(
    key: str, fn: None = None, *, layout: str | None = None, measure: Measure | None = None
) -> Callable[[F], F]: ...


def register_loader(
    key: str, fn: Loader | None = None, *, layout: str | None = None, measure: Measure | None = None
) -> Any:
    """Register the loader of a type key, for libraries that are open and for all later ones.

    `register_loader("my_key")(fn)`, as a decorator, or `register_loader("my_key", fn)`. A loader is
    called as `fn(payload, ctx)` (a read-only memoryview and a LoaderContext) on the first use of a
    function of a module, once for each module, and returns a Module. The last registered loader is
    used.

    A library that TVM up to 0.20 wrote, or that was packed with `index=False`, does not say where a
    payload ends. The loader says it, by `layout` or by `measure`. Without both, such a library opens
    only if the module is the last one. Without `fn`, `layout` and `measure` also count for a loader
    that is registered elsewhere, and for stubs (`missing="stub"`).

    Args:
        layout: the form of a payload, such as "string,u64,strings" (docs/format.md, "Layouts").
        measure: called as `measure(view)` with all bytes from the start of a payload on. Returns
            the size of the payload. It must not open or register anything.
    """
    from mblob.inspect.payload_layouts import PayloadLayout, checked_layout, layout_of_loader
    from mblob.inspect.payload_layouts import register as register_layout

    arguments.name("register_loader", "key", key)
    said = checked_layout("register_loader", layout, measure)

    def register(function: Loader) -> Loader:
        if not callable(function):
            raise arguments.wrong_type("register_loader", "fn", "a callable", function)
        own = said if said != PayloadLayout() else layout_of_loader(function, "register_loader")
        _registered[key] = function
        register_layout(key, own)
        callbacks.announce(key, own)
        return function

    if fn is not None:
        return register(fn)
    if said != PayloadLayout():
        register_layout(key, said)
        callbacks.announce_layout(key, said)
    return register


def find_loader(key: str, overrides: Mapping[str, Loader]) -> Loader | None:
    """The Python loader of a type key: given with the open, or registered. Entry points are not
    looked at."""
    return overrides.get(key) or _registered.get(key)


def fallback_loader(key: str) -> Loader:
    """The loader that `load_entry_point` found."""
    from mblob.inspect.payload_layouts import installed_loader

    found = installed_loader(key)
    assert found is not None
    loader: Loader = found[0]
    return loader


def load_entry_point(key: str) -> bool:
    """Take the loader that an installed distribution offers for `key`, for modules that nothing
    else opens.

    Returns:
        Whether there is one.

    Raises:
        StateError: there is one and it cannot be imported.
        TypeError: it is no function.
    """
    from mblob.inspect.payload_layouts import installed_loader

    found = installed_loader(key)
    if found is not None:
        callbacks.announce_fallback(key, found[1])
    return found is not None


def loader_key(name: str) -> str | None:
    """The type key if `name` is one under which TVM registers loaders, else None."""
    for prefix in _GLOBAL_NAMES:
        if name.startswith(prefix) and len(name) > len(prefix):
            return name[len(prefix) :]
    return None
