"""Words of C types as types of ctypes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

from mblob import argument_types
from mblob.loader.c_arguments import LONG_DOUBLE, Number
from mblob.native.runtime import ffi


def number_of(words: Sequence[str]) -> Number | None:
    """The type of numbers that words of C name."""
    if len(words) == 1 and words[0] in argument_types.KINDS:
        word = argument_types.ALIASES.get(*words, *words)
        size = argument_types.SIZES.get(word) or ffi.sizeof(word)
        return Number(argument_types.KINDS[word], size)
    rest = sorted(word for word in words if word not in ("int", "signed", "unsigned"))
    complex_words = {"complex", "_Complex"}
    if complex_words.intersection(rest):
        words_of_part = [word for word in rest if word not in (*complex_words, "std")]
        part = number_of(words_of_part or ["double"])
        return Number("complex", 2 * part.size) if part and part.kind == "float" else None
    if rest == ["double", "long"]:
        return Number("float", LONG_DOUBLE)
    if rest == ["char"]:
        return Number("char" if words == ["char"] else _sign(words), 1)
    size = {"": "int", "short": "short", "long": "long", "long long": "long long"}.get(
        " ".join(rest)
    )
    return Number(_sign(words), ffi.sizeof(size)) if words and size else None


def _sign(words: Sequence[str]) -> str:
    return "uint" if "unsigned" in words else "int"


def result_of(text: str, *, by_callback: bool = False) -> tuple[bool, Any]:
    """True if ctypes has the type of a result, and that type.

    Args:
        by_callback: of what a function of Python returns to C.
    """
    stars = text.count("*")
    words = [w for w in re.findall(r"\w+", text) if w not in ("const", "volatile", "restrict")]
    number = number_of(words)
    if stars:
        const = bool(re.search(r"\bconst\b", text.partition("*")[0]))
        return True, pointer_result(number if stars == 1 else None, const)
    if words == ["void"]:
        return True, None
    found = number and (number.ctype if by_callback else number.passed)
    return found is not None, found


def pointer_result(target: Number | None, const: bool) -> Any:
    if target is None or target.ctype is None:
        return ctypes.c_void_p
    if target.kind == "char":  # of what is not const the caller needs the address, to free it
        return ctypes.c_char_p if const else ctypes.POINTER(ctypes.c_char)
    return ctypes.POINTER(target.ctype)
