"""`mblob.errors`, imported when the first of its names is used: most programs see no error, and its
classes take a tenth of the time to the first result."""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any

    from mblob import errors
else:

    class _Errors:
        def __getattr__(self, name: str) -> Any:
            from mblob import errors

            value = getattr(errors, name)
            setattr(self, name, value)
            return value

    errors = _Errors()

__all__ = ["errors"]
