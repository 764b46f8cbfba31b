"""`tvm_ffi.registry`: global functions; `tvm_ffi.module`: libraries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import mblob
from mblob import Module, get_global_func


def register_global_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """`mblob.register_func`, which gives the registered function.

    As there, it is also a decorator: `@register_global_func("name")`, `@register_global_func`.
    """
    if not isinstance(func_name, str):
        return register_global_func(func_name.__name__, func_name)

    def register(function: Callable[..., Any]) -> Any:
        mblob.register_func(func_name, function, override)
        return get_global_func(func_name)

    return register if f is None else register(f)


def remove_global_func(name: str) -> None:
    """Remove a global function.

    Raises:
        NotFoundError: no such function.
    """
    mblob.remove_global_func(name)


def list_global_func_names() -> list[str]:
    """Names of all global functions."""
    return mblob.list_global_func_names()


def get_global_func_metadata(name: str) -> dict[str, Any]:
    """The metadata of a global function of a C++ library, such as "type_schema"; nothing of other
    functions.

    Raises:
        NotFoundError: no such function.
    """
    get_global_func(name)
    ask = get_global_func("ffi.GetGlobalFuncMetadata", allow_missing=True)
    return dict(json.loads((ask(name) if ask else "") or "{}"))


def load_module(path: str | os.PathLike[str], keep_module_alive: bool = True) -> Module:
    """`mblob.load_module`.

    Args:
        keep_module_alive: ignored. A library stays open while one of its modules, functions or
            tensors exists.
    """
    del keep_module_alive
    return mblob.load_module(path)


def system_lib(symbol_prefix: str = "") -> Module:
    """`mblob.system_lib`."""
    return mblob.system_lib(symbol_prefix)
