"""Checks of the arguments of public functions. An error says function, argument, expected,
found."""

from __future__ import annotations

import os
from _operator import index  # what `operator` hands on

from mblob import texts
from mblob.annotations import TYPE_CHECKING, Any
from mblob.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    also,
    one_line,
)

if TYPE_CHECKING:
    from mblob.errors import MblobError


EMPTY_NAME = "expected a name, found an empty one"


def wrong_type(
    function: str,
    argument: str,
    expected: str,
    value: Any,
    error: type[MblobError] = ArgumentTypeError,
) -> MblobError:
    """The error for a value of a type that the argument does not take.

    Args:
        error: its class; where libraries are packed, BuildTypeError.
    """
    found = texts.say(texts.EXPECTED, expected, type(value).__name__)
    return error(f"{function}: {argument}: {found}")


def name(function: str, argument: str, value: Any, *, empty: bool = False) -> str:
    """`value` if it is a name that C can have: text in UTF-8 without NUL, not empty unless `empty`.

    Raises:
        TypeError: it is no str.
        ValueError: it is empty, has a NUL in it, or is no Unicode text.
    """
    if not isinstance(value, str):
        raise wrong_type(function, argument, "str", value)
    if not value and not empty:
        raise ArgumentValueError(f"{function}: {argument}: {EMPTY_NAME}")
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
    try:
        text = os.fsdecode(value)
    except TypeError:
        found = texts.say(texts.EXPECTED, "a path", type(value).__name__)
        raise ArgumentTypeError(f"{who}{who and ': '}{found}") from None
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


def mapping(
    function: str,
    argument: str,
    value: Any,
    expected: str = "a dict of arrays by name",
    error: type[MblobError] = ArgumentTypeError,
) -> None:
    """Refuse what is no dictionary or the like.

    Raises:
        TypeError: it has no `items()`.
    """
    if not hasattr(value, "items"):
        raise wrong_type(function, argument, expected, value, error)


def items(
    function: str,
    argument: str,
    value: Any,
    expected: str,
    error: type[MblobError] = ArgumentTypeError,
) -> list[Any]:
    """The items of what is a list, or the like. A text and a path are one item each.

    Raises:
        TypeError: it is no list.
    """
    if isinstance(value, (str, bytes, os.PathLike)):
        found = texts.say(texts.EXPECTED, expected, repr(value))
        raise error(one_line(f"{function}: {argument}: {found}; write [{value!r}]"))
    if not hasattr(value, "__iter__"):
        raise wrong_type(function, argument, expected, value, error)
    return list(value)


def names(
    function: str,
    argument: str,
    value: Any,
    expected: str = "a list of names",
    error: type[MblobError] = ArgumentTypeError,
) -> list[str]:
    """The items of a list, each of which is a text, not an empty one.

    Raises:
        TypeError: it is no list, or has something else.
        ValueError: a text is empty.
    """
    found = items(function, argument, value, expected, error)
    for i, item in enumerate(found):
        if not isinstance(item, str):
            raise wrong_type(function, f"{argument}[{i}]", "str", item, error)
        if not item:
            empty = ArgumentValueError if error is ArgumentTypeError else error
            raise empty(f"{function}: {argument}[{i}]: {EMPTY_NAME}")
    return found


def amount(function: str, argument: str, value: Any) -> float:
    """`value` as a float, which is not negative.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative, or no finite number.
    """
    try:
        number = float(value if hasattr(value, "__float__") else index(value))
    except (TypeError, OverflowError):
        raise wrong_type(function, argument, "a number", value) from None
    if not 0 <= number < float("inf"):
        raise ArgumentValueError(
            f"{function}: {argument}: expected a number of at least 0, found {value}"
        )
    return number


def is_capsule(value: Any) -> bool:
    """True if a value is a capsule of Python, in which DLPack lends an array."""
    return type(value).__name__ == "PyCapsule"


def check_unmasked(value: Any) -> None:
    """Refuse a masked array of numpy, whose memory says nothing of its mask.

    Raises:
        TypeError: it is one; what to pass is said.
    """
    if hasattr(value, "filled") and hasattr(value, "mask"):
        raise ArgumentTypeError(texts.MASKED)


def no_numbers(element: Any, fmt: str | None = None, what: str = "") -> ArgumentError:
    """The error for an array whose elements are no numbers of mblob's.

    Args:
        element: its dtype, None where it has none.
        fmt: its format then.
        what: begins the text.
    """
    found = texts.say(texts.NO_NUMBERS, f"format {fmt!r}" if element is None else element)
    return also(ArgumentError, TypeError, ValueError)(f"{what}{found}")
