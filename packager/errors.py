"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Iterable

from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.errors import PortabilityWarning, listed
from mblob.format.type_keys import ROWS
from mblob.user_warnings import warn as warn


class CannotJoinError(BuildError):
    """Code that cannot join a finished library. The command that joins it adds what users can do
    instead."""


class NameTakenError(CannotJoinError):
    """The finished library has a name of the new code."""


def warn_of_tvm(keys: Iterable[str]) -> None:
    """Warn of keys that TVM does not know, in a library whose other modules TVM opens."""
    unknown = sorted({key for key in keys if key not in ROWS})
    if unknown:
        warn(
            f"TVM cannot open the result: it refuses a library that has modules of kinds it does not know"
            f" ({listed(unknown, 6)}); mblob opens it",
            PortabilityWarning,
        )


def refused(error: Exception, what: str = "") -> BuildError:
    """The `BuildError` for an argument that other code refused; `what` begins the text."""
    made = BuildTypeError if isinstance(error, TypeError) else BuildError
    return made(f"{what}{what and ': '}{error}")
