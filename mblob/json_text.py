"""JSON of a file or of a caller, held to the limits of `csrc/src/base/json.h` before Python's
decoder sees it.

That decoder recurses, so the text decides how much stack it takes; it reads NaN, UTF-16 and half a
surrogate pair; and what it makes of a long number depends on the process. Here a text is read, or
refused, the same way everywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from mblob.texts import JSON_DIGITS, NESTING_LIMIT

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_LONG_NUMBER = rb"[0-9]{%d}" % (JSON_DIGITS + 1)
_SURROGATE = r"\\u[dD][89a-fA-F]"
_ESCAPE = r"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)"


class JsonError(ValueError):
    """A text that is refused; its words follow "... is no JSON: "."""


def parse(
    text: str | bytes, pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """The value of a JSON text. -0 is a float: no count and no offset is written so.

    Args:
        pairs_hook: makes a value of each object's pairs, a dict where it is None.

    Raises:
        JsonError: the text is no JSON, or beyond a limit.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise JsonError(f"it is not UTF-8 at byte {error.start} of the text") from None
    else:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise JsonError(f"half a surrogate pair at {_place(text, error.start)}") from None
    if text.startswith("\ufeff"):
        raise JsonError("it starts with a byte order mark")
    outside = _outside_strings(text)
    if _is_deep(outside):
        raise JsonError(f"nested too deep, over {NESTING_LIMIT} levels")
    if re.search(_LONG_NUMBER, outside):
        raise JsonError(f"a number has too many digits, over {JSON_DIGITS}")
    whole = _whole if b"-0" in outside else None
    try:
        return json.loads(
            text, object_pairs_hook=pairs_hook, parse_int=whole, parse_constant=_refuse
        )
    except json.JSONDecodeError as error:
        raise JsonError(_unexpected(text, error)) from None


def _outside_strings(text: str) -> bytes:
    """The parts of a text between its strings: brackets, numbers, words."""
    if "\\" in text:
        if ("\\ud" in text or "\\uD" in text) and re.search(_SURROGATE, text):
            half = next((found for found in re.finditer(_ESCAPE, text) if found[1]), None)
            if half is not None:
                raise JsonError(f"half a surrogate pair at {_place(text, half.start())}")
        text = re.sub(r"\\.", "", text, flags=re.DOTALL)
    return " ".join(text.split('"')[::2]).encode("ascii", "replace")


def _is_deep(outside: bytes) -> bool:
    """True if brackets nest beyond the limit. Each round takes away the innermost pairs of the
    whole text."""
    left = outside.translate(_BRACKETS, _OTHERS)
    if left.count(b"[") <= NESTING_LIMIT:
        return False
    for _ in range(NESTING_LIMIT):
        before, left = left, left.replace(b"[]", b"")
        if len(left) == len(before):
            break
    return b"[]" in left or left.count(b"[") > NESTING_LIMIT


def _whole(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _refuse(word: str) -> NoReturn:
    raise JsonError(f"{word} is no number of JSON")


def _unexpected(text: str, error: Any) -> str:
    at = _place(text, error.pos)
    if error.msg.startswith("Unterminated"):
        return f"a string without an end at {at}"
    found = text[error.pos : error.pos + 24]
    return f"unexpected {found!r} at {at}" if found.strip() else f"it ends too early, at {at}"


def _place(text: str, at: int) -> str:
    return f"byte {len(text[:at].encode('utf-8', 'surrogatepass'))} of the text"
