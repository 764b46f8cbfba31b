"""`tvm.runtime.container`: values of the virtual machine, texts and shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mblob
from mblob import Shape as ShapeTuple
from mblob import vm

String = str


def ADT(tag: int, fields: Iterable[Any]) -> vm.ADT:
    """A constructor with fields, arrays and further ADTs: an argument of a Relay program."""
    return _adt("runtime.ADT", tag, *fields)


def tuple_object(fields: Iterable[Any] | None = None) -> vm.ADT:
    """A tuple: an argument of a Relay program."""
    return _adt("runtime.Tuple", *(fields or ()))


def _adt(function: str, *args: Any) -> vm.ADT:
    given = (arg.module if isinstance(arg, vm.ADT) else arg for arg in args)
    return vm.ADT(mblob.get_global_func(function)(*given))


__all__ = ["ADT", "ShapeTuple", "String", "tuple_object"]
