"""Functions of ctypes as arguments: their types are those of the parameter, or a call would give them
wrong numbers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mblob import errors, texts
from mblob.format.functions_table import FUNCTION, parameter, split
from mblob.loader import _call
from mblob.loader.c_arguments import (
    ADDRESSES,
    FunctionPointer,
    Pointer,
    PointerOfCtypes,
    Reference,
    is_buffer,
    number_in,
)
from mblob.loader.c_words import result_of

_WITHOUT_NUMBER = (*ADDRESSES, ctypes.Structure, ctypes.Union, ctypes.Array)
_UNKNOWN: Any = object()  # such as a struct, whose type in Python nothing tells


def check_function(declared: str, given: Any) -> None:
    """Compare an argument with the types of a pointer to a function.

    Args:
        declared: the parameter in C.
        given: a function of ctypes, or what it is given in place of one. Addresses have no types.

    Raises:
        ArgumentTypeError: it is no such function.
    """
    if isinstance(given, FunctionPointer):
        wrong = mismatch(declared, given)
    elif isinstance(given, ctypes.c_void_p):
        wrong = ""
    elif isinstance(given, (PointerOfCtypes, Reference)) or is_buffer(given):
        wrong = texts.say(texts.NO_FUNCTION, declared)
    else:
        wrong = not_of_ctypes(declared, given)
    if wrong:
        raise errors.ArgumentTypeError(wrong)


def mismatch(declared: str, given: Any) -> str:
    """The difference between a pointer to a function and the types of a function of ctypes, "" if there is
    none, as far as both tell.

    Args:
        declared: in C, with or without the name of the parameter.
    """
    argtypes = given.argtypes
    return "" if argtypes is None else _mismatch(declared, given.restype, tuple(argtypes))


def not_of_ctypes(declared: str, given: Any) -> str:
    """The error for a function that is none of ctypes, with the types to declare it with."""
    found = texts.say(
        texts.EXPECTED, "a function of ctypes.CFUNCTYPE, or an address", type(given).__name__
    )
    if isinstance(given, _call.PackedFunction):
        return f"{found}; of a C function pass lib.symbol({given.__name__!r})"
    known = _types(declared)
    if not callable(given) or known is None or known[2] or _UNKNOWN in (known[0], *known[1]):
        return found
    return f"{found}; pass {_shown(*known[:2])}(f), and keep it as long as C may call it"


@lru_cache(64)
def _mismatch(declared: str, restype: Any, argtypes: tuple[Any, ...]) -> str:
    known = _types(declared)
    if known is None:
        return ""
    result, expected, has_more = known
    is_count = len(argtypes) >= len(expected) if has_more else len(argtypes) == len(expected)
    if is_count and all(map(_fits, (result, *expected), (restype, *argtypes))):
        return ""
    is_known = not has_more and _UNKNOWN not in (result, *expected)
    remedy = f"; declare it as {_shown(result, expected)}" if is_known else ""
    return texts.say(texts.EXPECTED, declared, _shown(restype, argtypes)) + remedy


def _types(declared: str) -> tuple[Any, list[Any], bool] | None:
    """Types of the result and of the parameters, and whether more may follow; None of what is not read."""
    head = re.search(FUNCTION, declared)
    if head is None or "(" in declared[: head.start()] or not declared.endswith(")"):
        return None
    inside = declared[head.end() : -1]
    listed = split(inside)
    has_more = not inside.strip() or "..." in map(str.strip, listed)  # `int (*)()` takes anything
    return (
        _type(declared[: head.start()]),
        [_type_of_parameter(text) for text in listed if text.strip() != "..."],
        has_more,
    )


def _type(text: str) -> Any:
    ok, found = result_of(text, by_callback=True)
    return found if ok else _UNKNOWN


def _type_of_parameter(text: str) -> Any:
    p = parameter(text)
    if not p.pointer:
        return _type(" ".join(p.words))
    const = "const " if re.match(r"\W*const\b", text) else ""
    return _type(f"{const}{' '.join(p.words)} {'**' if p.indirect else '*'}")


def _fits(expected: Any, given: Any) -> bool:
    """True if a type of the caller's may stand for one of the parameter's."""
    is_type = isinstance(given, type) and hasattr(given, "from_param")
    if expected is _UNKNOWN or not (given is None or is_type or isinstance(given, Pointer)):
        return True
    if expected is None or given is None:
        return expected is given
    if issubclass(expected, ADDRESSES):
        if isinstance(given, Pointer):
            return True
        return issubclass(given, ADDRESSES) and not _differ(_pointed(expected), _pointed(given))
    if isinstance(given, Pointer) or issubclass(given, _WITHOUT_NUMBER):
        return False
    return not _differ(expected, given)


def _pointed(pointer: Any) -> Any:
    """The type that a pointer points at, None if it does not say."""
    if issubclass(pointer, ctypes.c_char_p):
        return ctypes.c_char
    return pointer._type_ if issubclass(pointer, PointerOfCtypes) else None


def _differ(expected: Any, given: Any) -> bool:
    """True if two types are those of other numbers; what is no number is not compared."""
    wanted, found = (number_in(t) if t is not None else None for t in (expected, given))
    return wanted is not None and found is not None and not wanted.takes(found)


def _shown(result: Any, parameters: Sequence[Any]) -> str:
    return f"CFUNCTYPE({', '.join(map(_name, (result, *parameters)))})"


def _name(found: Any) -> str:
    target = getattr(found, "_type_", None)
    if isinstance(target, type) and issubclass(found, PointerOfCtypes):
        return f"POINTER({_name(target)})"
    return "None" if found is None else getattr(found, "__name__", "c_void_p")
