"""Who makes modules of regions, by key: global functions, as in TVM."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import mblob
from mblob.errors import did_you_mean
from mblob.format.type_keys import DNNL_JSON
from mblob.module import CODEGEN_PREFIXES, Module
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

    The function is a global function, `relay.ext.mykey` as in TVM and `mblob.codegen.mykey`. To
    register it under one of these names (`register_func`) is enough.

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
        if not override and _registered.get(key) is not codegen and _found(key) is not None:
            raise BuildError(
                f"register_codegen: {key!r} has a generator; pass override=True to replace it"
            )
        _register(key, codegen)
        return codegen

    return register


def _register(key: str, codegen: Codegen) -> None:
    for prefix in CODEGEN_PREFIXES:
        mblob.register_func(prefix + key, codegen, override=True)
    _registered[key] = codegen


def register_own(name: str) -> bool:
    """Register the code generator that comes with mblob under the name of a global function.

    Returns: whether there is one, which was not registered.
    """
    key = next((name[len(p) :] for p in CODEGEN_PREFIXES if name.startswith(p)), "")
    if key not in _OWN or key in _registered:
        return False
    _register(key, import_module(_OWN[key]).codegen)
    return True


def _found(key: str) -> Any:
    found = (mblob.get_global_func(prefix + key, allow_missing=True) for prefix in CODEGEN_PREFIXES)
    return next((function for function in found if function is not None), None)


def codegen_of(key: str) -> Codegen:
    """The generator of a key.

    Raises:
        BuildError: there is none.
    """
    found: Codegen | None = _found(key)
    if found is None:
        names = mblob.list_global_func_names()
        known = {n[len(p) :] for n in names for p in CODEGEN_PREFIXES if n.startswith(p)} | {*_OWN}
        raise BuildError(
            f"no code generator is registered for {key!r} (there are: {', '.join(sorted(known))}); register one with"
            f" @mblob.register_codegen({key!r}){did_you_mean(key, known)}"
        )
    return found
