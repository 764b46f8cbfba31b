"""Errors that only the build side raises."""

from __future__ import annotations

from mblob.errors import MblobError


class BuildError(MblobError, ValueError):
    """What was asked for cannot be built as asked: a wrong argument, prototype, key or manifest."""

    exit_code = 2
