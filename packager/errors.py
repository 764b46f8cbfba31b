"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.user_warnings import warn as warn


class CannotJoinError(BuildError):
    """Code that cannot join a finished library. The command that joins it adds what users can do
    instead."""


class NameTakenError(CannotJoinError):
    """The finished library has a name of the new code."""


def refused(error: Exception, what: str = "") -> BuildError:
    """The `BuildError` for an argument that other code refused; `what` begins the text."""
    made = BuildTypeError if isinstance(error, TypeError) else BuildError
    return made(f"{what}{what and ': '}{error}")
