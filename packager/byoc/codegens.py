"""The code generators, which make modules of regions, by key: global functions, as in TVM."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

import mblob
from mblob.argument_types import TABLE
from mblob.errors import did_you_mean
from mblob.format.type_keys import DNNL_JSON
from mblob.module import CODEGEN_PREFIXES, Module
from mblob.packager.byoc.json_graph import region_json
from mblob.packager.byoc.operators import Region
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.host_modules import csource_module
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
    register it under one of these names (`register_func`) is enough. A function of C or C++ that is
    registered so is called with the region as JSON, and its constants (docs/byoc.md).

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
    """The generator of a key, as it was registered.

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


def generated(codegen: Codegen, region: Region) -> Any:
    """The result of a code generator for a region.

    A generator that is not written in Python is called with the text of `region_json`, and then
    each constant as a tensor. It gives a module, or the text of a C source, which defines a plain
    function.

    Raises:
        BuildError: a source for a type that C does not have. What the generator raises.
    """
    if getattr(codegen, "_takes_objects", True):
        return codegen(region)
    constants = {name: tensor.constant for name, tensor in region.named_constants.items()}
    values = mblob.load_param_dict(mblob.save_param_dict(constants))
    made: Any = cast(Any, codegen)(region_json(region), *(values[name] for name in constants))
    return csource_module(made, "c", [_prototype(region)]) if isinstance(made, str) else made


def _prototype(region: Region) -> str:
    """The plain C function of a region."""
    words = []
    for letter, const, tensors in (("i", "const ", region.inputs), ("o", "", region.outputs)):
        for i, tensor in enumerate(tensors):
            if tensor.dtype not in _C:
                raise BuildError(
                    f"{tensor.name}: {tensor.dtype} has no type in C; return a module, and no source"
                )
            extents = "".join(f"[{n}]" for n in tensor.shape) if all(tensor.shape) else ""
            words.append(f"{const}{_C[tensor.dtype]} {letter}{i}{extents or '[]'}")
    return f"void {region.symbol}({', '.join(words)})"


_C = {row.word: row.c for row in TABLE}
