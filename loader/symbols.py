"""Plain C functions of a library through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from mblob.errors import one_line
from mblob.module import Module


def c_function(
    address: int, restype: Any, argtypes: Sequence[Any] | None, owner: Module
) -> Callable[..., Any]:
    """The C function at `address` as a ctypes function, which keeps `owner` and so the library."""
    function: Any = ctypes.CFUNCTYPE(restype, *(argtypes or ()))(address)
    if argtypes is None:
        function.argtypes = None  # nothing declared: ctypes converts by what it is given
    function.mblob_module = owner
    return function  # type: ignore[no-any-return]


def no_symbol(module: Module, name: str) -> AttributeError:
    """The error about a C symbol that neither `module` nor a library it imports exports."""
    import difflib  # only errors need it, and it is slow to import

    names = [n for m in module.walk() for n in m._node.functions()]
    close = difflib.get_close_matches(name, names, 3)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return AttributeError(
        one_line(f"module {module.type_key!r} exports no C symbol {name!r}{hint}")
    )
