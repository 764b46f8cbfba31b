"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.errors import PortabilityWarning, listed
from mblob.format.type_keys import LIBRARY, ROWS
from mblob.user_warnings import warn as warn


class CannotJoinError(BuildError):
    """Code that cannot join a finished library. The command that joins it adds what users can do
    instead."""


class NameTakenError(CannotJoinError):
    """The finished library has a name of the new code."""


class _Keyed(Protocol):
    @property
    def type_key(self) -> str: ...


def unknown_to_tvm(entries: Iterable[_Keyed]) -> list[str]:
    """The keys of packed modules that TVM does not know, so that it refuses their library."""
    return sorted({e.type_key for e in entries if e.type_key not in (LIBRARY, *ROWS)})


def warn_of_tvm(entries: Iterable[_Keyed]) -> None:
    """Warn of keys that TVM does not know, in a library whose other modules TVM opens."""
    if unknown := unknown_to_tvm(entries):
        warn(
            f"TVM cannot open the result: it refuses a library that has modules of kinds it does not know"
            f" ({listed(unknown, 6)}); mblob opens it",
            PortabilityWarning,
        )


def refused(error: Exception, what: str = "") -> BuildError:
    """The `BuildError` for an argument that other code refused; `what` begins the text."""
    made = BuildTypeError if isinstance(error, TypeError) else BuildError
    return made(f"{what}{what and ': '}{error}")


class NotCallable(Exception):
    """A function cannot have a packed function; the text says why, and what to do."""
