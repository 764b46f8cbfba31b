"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from mblob.errors import ArgumentTypeError, did_you_mean
from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.untold import warn as warn

F = TypeVar("F", bound=Callable[..., Any])


class CannotJoin(BuildError):
    """Code that cannot join a finished library. The command that joins it adds what users can do
    instead."""


def refused(error: Exception, what: str = "") -> BuildError:
    """What packing says of an argument that was refused below it; `what` begins the text."""
    made = BuildTypeError if isinstance(error, TypeError) else BuildError
    return made(f"{what}{what and ': '}{error}")


def suggesting(advice: str = "") -> Callable[[F], F]:
    """For a function: its error about an unknown keyword suggests the argument that was meant, or
    says `advice`."""

    def decorated(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            try:
                return function(*args, **named)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # of something that the function called
                code = function.__code__
                known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
                unknown = next((name for name in named if name not in known), None)
                if unknown is None:
                    raise
                close = did_you_mean(unknown, known) or advice
                raise ArgumentTypeError(
                    f"{function.__name__}: unknown argument {unknown!r}; expected {', '.join(known)}{close}"
                ) from None

        return call  # type: ignore[return-value]

    return decorated
