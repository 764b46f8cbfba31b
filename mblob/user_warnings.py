"""Warnings of mblob, and those that some code leaves out. The filters of `warnings` belong to the
process; what is left out here is left out by this thread, or this task, alone."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mblob.errors import one_line

_suppressed: ContextVar[tuple[type[Warning], ...]] = ContextVar("mblob_untold", default=())


@contextmanager
def suppressed_warnings(category: type[Warning]) -> Iterator[None]:
    """A block in which the packager does not warn of a category."""
    token = _suppressed.set((*_suppressed.get(), category))
    try:
        yield
    finally:
        _suppressed.reset(token)


def is_suppressed(category: type[Warning]) -> bool:
    """True if an enclosing block leaves this warning out."""
    return issubclass(category, _suppressed.get())


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the line that called mblob, however deep below it this is called."""
    if is_suppressed(category):
        return
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] == "mblob"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(one_line(text), category, stacklevel=level)
