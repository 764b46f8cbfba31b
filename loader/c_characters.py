"""Texts of numpy and ctypes as arrays of characters."""

from __future__ import annotations

import ctypes
from typing import Any

from mblob import errors, texts


def as_text(value: str, *, in_array: bool = False) -> bytes:
    """A text of C.

    Args:
        in_array: a NUL does not end it.
    """
    if "\0" in value and not in_array:
        raise errors.ArgumentValueError(
            "the str has a NUL inside, where its C text would end; pass bytes"
        )
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise errors.ArgumentValueError(texts.say(texts.SURROGATES, "pass bytes")) from None


def char_view(value: Any) -> Any:
    """A numpy array of texts as one of their characters, with one more dimension; anything else as it is."""
    is_array = getattr(getattr(value, "dtype", None), "kind", "") == "S"
    if not is_array or isinstance(value, bytes):  # numpy.bytes_ is one, with a NUL behind it
        return value
    return value.reshape((*value.shape, 1)).view("uint8")


def characters(given: Any, how: tuple[bool, bool], place: str) -> Any:
    """The characters of a numpy array of texts, with one more dimension; of a buffer of ctypes; or of a
    list of texts.

    Args:
        how: whether they are only read, and whether blanks end them in place of NUL. Where they are
            written, the blanks are put into the array itself.
        place: what errors begin with.

    Raises:
        ArgumentTypeError: a list with something else than texts.
    """
    import numpy as np

    is_const, is_padded = how
    if isinstance(given, (list, tuple)):
        given = np.array(
            [_encoded(item, f"{place}: item {i}") for i, item in enumerate(given)], "S"
        )
    if isinstance(given, ctypes.Array) and is_padded and is_const:
        return given.value if given._type_ is ctypes.c_char else bytes(given)
    is_array = isinstance(given, np.ndarray)
    found = char_view(given) if is_array else np.frombuffer(given, "uint8")
    if not is_padded:
        return found
    if isinstance(given, ctypes.Array):  # a text of C ends at the first NUL
        is_behind = np.logical_or.accumulate(found == 0)
    else:
        is_behind = np.logical_and.accumulate(found[..., ::-1] == 0, -1)[..., ::-1]
    if is_const:
        return np.where(is_behind, np.uint8(ord(" ")), found)
    if found.flags.writeable:
        found[is_behind] = ord(" ")
    return found


def _encoded(item: Any, place: str) -> bytes:
    if isinstance(item, bytes):
        return item
    if not isinstance(item, str):
        found = "None" if item is None else type(item).__name__
        raise errors.ArgumentTypeError(f"{place}: {texts.say(texts.EXPECTED, 'a text', found)}")
    try:
        return as_text(item)
    except errors.MblobError as exc:
        exc.prefix(place)
        raise
