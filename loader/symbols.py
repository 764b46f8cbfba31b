"""Plain C functions of a library through ctypes."""

from __future__ import annotations

import ctypes
import difflib
from collections.abc import Callable, Sequence
from typing import Any

from loader.opened import OpenedNode
from mblob.module import Module


def c_function(module: Module, name: str, restype: Any, argtypes: Sequence[Any] | None) -> Callable[..., Any]:
    """The exported C symbol `name` of `module`, or of a library it imports, as a ctypes function.

    Raises:
        AttributeError: no such symbol.
    """
    for candidate in module.walk():
        node = candidate._node
        address = node.symbol_address(name) if isinstance(node, OpenedNode) else 0
        if address:
            return _function(address, restype, argtypes, candidate)
    names = [n for m in module.walk() for n in m._node.names()]
    close = difflib.get_close_matches(name, names, 3)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise AttributeError(f"module {module.type_key!r} exports no C symbol {name!r}{hint}")


def _function(address: int, restype: Any, argtypes: Sequence[Any] | None, owner: Module) -> Callable[..., Any]:
    function: Any = ctypes.CFUNCTYPE(restype, *(argtypes or ()))(address)
    if argtypes is None:
        function.argtypes = None  # nothing declared: ctypes converts by what it is given
    function.mblob_module = owner  # keeps the library loaded
    return function  # type: ignore[no-any-return]
