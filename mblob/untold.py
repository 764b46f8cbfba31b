"""Warnings that some code leaves out. The filters of `warnings` belong to the process; what is left
out here is left out by this thread, or this task, alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_untold: ContextVar[tuple[type[Warning], ...]] = ContextVar("mblob_untold", default=())


@contextmanager
def untold(category: type[Warning]) -> Iterator[None]:
    """A block in which the packager does not warn of a category."""
    token = _untold.set((*_untold.get(), category))
    try:
        yield
    finally:
        _untold.reset(token)


def is_untold(category: type[Warning]) -> bool:
    """Whether a block around leaves this warning out."""
    return issubclass(category, _untold.get())
