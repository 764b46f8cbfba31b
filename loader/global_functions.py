"""Functions by global name: Python functions that kernels can call, and the ones libraries
registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from mblob import arguments
from mblob.errors import ArgumentValueError, NotFoundError, also, one_line
from mblob.loader import _call, node_registry
from mblob.loader.loaders import loader_key, register_loader
from mblob.module import CODEGEN_PREFIXES
from mblob.native.runtime import address_of, ffi, last_error, lib

F = TypeVar("F", bound=Callable[..., Any])


@overload
def register_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(name: F) -> F: ...
@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...


def register_func(
    name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Register a Python function under a global name, for kernels and for `get_global_func`.

    `register_func("name", f)`, or as a decorator: `@register_func("name")`, `@register_func`. Names
    of the form `runtime.module.loadbinary_KEY` and `ffi.Module.load_from_bytes.KEY` register a
    loader of the type key KEY, which is called as `register_loader` says.

    Args:
        override: replace a function of that name; otherwise that is an error.

    Raises:
        ValueError: the name is taken, or is not a valid name in C.
    """
    if not isinstance(name, str):
        if not callable(name) or not hasattr(name, "__name__"):
            raise arguments.wrong_type(
                "register_func", "name", "str, or a function with a name", name
            )
        return register_func(name.__name__, name)
    arguments.name("register_func", "name", name)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise arguments.wrong_type("register_func", "f", "a callable", function)
        key = loader_key(name)
        if key is not None:
            register_loader(key, function)
            return function
        status = node_registry.register_global(name, function, bool(override))
        if status == lib.MBLOB_E_ARGUMENT:
            raise ArgumentValueError(
                one_line(
                    f"register_func: {name!r} is registered already; override=True replaces it"
                )
            )
        if status:
            raise last_error()
        return function

    return register if f is None else register(f)


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> _call.PackedFunction: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> _call.PackedFunction | None: ...


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered under `name`, a PackedFunction.

    Args:
        allow_missing: return None instead of an error.

    Raises:
        NotFoundError: no such function. It is also a ValueError.
    """
    arguments.name("get_global_func", "name", name)
    out = ffi.new("mblob_function **")
    status = lib.mblob_get_global(name.encode(), out)
    if status == lib.MBLOB_E_NOT_FOUND:
        if name.startswith(CODEGEN_PREFIXES):
            from mblob import byoc  # registers those that come with mblob when they are asked for

            if byoc.codegens.register_own(name):
                return get_global_func(name)
        if allow_missing:
            return None
        raise also(NotFoundError, ValueError)(  # which is what TVM raises
            f"no global function {name!r}; register it with mblob.register_func({name!r})"
        )
    if status:
        raise last_error()
    return _call.PackedFunction(address_of(out[0]), name, None)


def packed_function(callable: Callable[..., Any], name: str = "") -> _call.PackedFunction:
    """A PackedFunction that calls a Python function. Arguments and the result pass as those of a
    callback do.

    Args:
        name: what errors call it; by default the function's own name.

    Raises:
        TypeError: `callable` is none.
    """
    shown = name or getattr(callable, "__name__", type(callable).__name__)
    return _call.PackedFunction(_call.callback(callable), shown, None, of_python=True)


def remove_global_func(name: str) -> None:
    """Remove the global function `name`, of `register_func` or of a library.

    Raises:
        NotFoundError: no such function.
    """
    get_global_func(name)
    get_global_func("mblob.GlobalRemove")(name)


def list_global_func_names() -> list[str]:
    """Names of the global functions of this process."""
    names: list[str] = get_global_func("mblob.GlobalNames")()
    return sorted(names)
