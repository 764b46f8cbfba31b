"""Functions of Python that a machine keeps, where the garbage collector of Python sees them.

The machine gets a function that finds the Python function through a weak reference. The machine's
node has the strong one. So a cycle through a machine, such as an instrument that uses its machine,
is collected.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mblob.errors import StateError
from mblob.loader import _call
from mblob.module import Module


class KeptFunction:
    """A function that a node keeps.

    Args:
        function: a callable of Python.
    """

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def with_kept_functions(value: Any, kept: list[KeptFunction]) -> Any:
    """The value that a machine is given for `value`: the same, with other functions in place of
    those of Python, which are put into `kept`. Lists are no deeper than arguments may be."""
    if isinstance(value, list):
        return [with_kept_functions(item, kept) for item in value]
    is_packed = isinstance(value, _call.PackedFunction)
    function = _call.python_function(value) if is_packed else value
    of_others = isinstance(value, (type, Module)) or hasattr(value, "__chandle__")
    if of_others or not callable(function):
        return value
    kept.append(KeptFunction(function))
    return _late(weakref.ref(kept[-1]))


def _late(reference: weakref.ref[KeptFunction]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        kept = reference()
        if kept is None:
            raise StateError("the machine that a function of Python was given to is gone")
        return kept.function(*args)

    return call
