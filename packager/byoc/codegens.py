"""Who makes modules of regions, by key."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from mblob.format.type_keys import DNNL_JSON
from mblob.module import Module
from mblob.packager.byoc.operators import Region
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import check_key

Codegen = Callable[[Region], Module]
C = TypeVar("C", bound=Codegen)

_registered: dict[str, Codegen] = {}
_OWN = dict.fromkeys(("dnnl", DNNL_JSON), "mblob.packager.byoc.dnnl")  # come with mblob


def register_codegen(key: str, *, override: bool = False) -> Callable[[C], C]:
    """Register the code generator of a key: a decorator, `@register_codegen("mykey")`.

    The function is called with a `Region` and gives a module that has a function `region.symbol`,
    or whose runtime has it: `mblob.json_module`, `mblob.blob_module`, `mblob.csource_module`, ...
    An exception of the function ends the partition; the message has the key and the symbol.

    Args:
        override: replace one that is registered.

    Raises:
        BuildError: an invalid key, or one that has a generator.
    """
    check_key(key, "register_codegen")

    def register(codegen: C) -> C:
        if not callable(codegen):
            raise BuildTypeError(
                f"register_codegen: expected a function, found {type(codegen).__name__}"
            )
        if not override and key in _registered and _registered[key] is not codegen:
            raise BuildError(
                f"register_codegen: {key!r} has a generator; pass override=True to replace it"
            )
        _registered[key] = codegen
        return codegen

    return register


def codegen_of(key: str) -> Codegen:
    """The generator of a key.

    Raises:
        BuildError: there is none.
    """
    if key not in _registered and key in _OWN:
        found: Any = import_module(_OWN[key])
        _registered.setdefault(key, found.codegen)
    if key not in _registered:
        known = ", ".join(sorted({*_registered, *_OWN}))
        raise BuildError(
            f"no code generator is registered for {key!r} (there are: {known}); register one with"
            f" @mblob.register_codegen({key!r})"
        )
    return _registered[key]
