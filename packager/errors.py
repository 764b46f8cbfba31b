"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from mblob.errors import ArgumentError, one_line
from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.untold import is_untold

T = TypeVar("T")


def refused(error: Exception, what: str = "") -> BuildError:
    """What packing says of an argument that was refused below it; `what` begins the text."""
    made = BuildTypeError if isinstance(error, TypeError) else BuildError
    return made(f"{what}{what and ': '}{error}")


def checked(check: Callable[..., T], *args: Any) -> T:
    """What a check of `mblob.arguments` gives.

    Raises:
        BuildError: it refuses the argument.
    """
    try:
        return check(*args)
    except ArgumentError as error:
        raise refused(error) from None


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the line that called mblob, however deep below it this is called."""
    if is_untold(category):
        return
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] == "mblob"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(one_line(text), category, stacklevel=level)
