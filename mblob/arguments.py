"""What public functions check of their arguments, and say when one is wrong: function, argument,
expected, found."""

from __future__ import annotations

import os
from _operator import index  # what `operator` hands on

from mblob import texts
from mblob.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, one_line

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any


def wrong_type(function: str, argument: str, expected: str, value: Any) -> ArgumentError:
    """The error for a value of a type that the argument does not take."""
    return ArgumentTypeError(
        f"{function}: {argument}: {texts.say(texts.EXPECTED, expected, type(value).__name__)}"
    )


def name(function: str, argument: str, value: Any, *, empty: bool = False) -> str:
    """`value` if it is a name that C can have: text in UTF-8 without NUL, not empty unless `empty`.

    Raises:
        TypeError: it is no str.
        ValueError: it is empty, has a NUL in it, or is no Unicode text.
    """
    if not isinstance(value, str):
        raise wrong_type(function, argument, "str", value)
    if not value and not empty:
        raise ArgumentValueError(f"{function}: {argument}: expected a name, found an empty one")
    if "\0" in value:
        raise ArgumentValueError(one_line(f"{function}: {argument}: {value!r} has a NUL in it"))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ArgumentValueError(
            one_line(f"{function}: {argument}: {value!r} is no Unicode text")
        ) from None
    return value


def path(value: str | bytes | os.PathLike[Any], who: str = "") -> str:
    """`value` as a path that a file can have.

    Args:
        who: whose argument it is.

    Raises:
        TypeError: it is no path.
        ValueError: it has a NUL in it, or is no Unicode text.
    """
    text = os.fsdecode(value)
    why = "has a NUL in it" if "\0" in text else None
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        why = "is no Unicode text"
    if why is not None:
        raise ArgumentValueError(one_line(f"{who}{who and ': '}the path {text!r} {why}"))
    return text


def whole(function: str, argument: str, value: Any, least: int = 0, most: int = 2**31 - 1) -> int:
    """`value` as an int of least..most; anything with `__index__` is taken, numpy's integers too.

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of range.
    """
    try:
        number = index(value)
    except TypeError:
        raise wrong_type(function, argument, "int", value) from None
    if not least <= number <= most:
        raise ArgumentValueError(
            f"{function}: {argument}: expected {least} to {most}, found {number}"
        )
    return number


def check_unmasked(value: Any) -> None:
    """Refuse a masked array of numpy, whose memory says nothing of its mask.

    Raises:
        TypeError: it is one; what to pass is said.
    """
    if hasattr(value, "filled") and hasattr(value, "mask"):
        raise ArgumentTypeError(texts.MASKED)


def no_numbers(element: Any, fmt: str | None = None) -> ArgumentError:
    """The error for an array whose elements are no numbers of mblob's: its dtype, or where it has
    none its format."""
    return ArgumentTypeError(
        texts.say(texts.NO_NUMBERS, f"format {fmt!r}" if element is None else element)
    )
