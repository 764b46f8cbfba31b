"""Warnings of the build side, and the errors that it raises."""

from __future__ import annotations

import sys
import warnings

from mblob.errors import BuildError as BuildError
from mblob.errors import BuildTypeError as BuildTypeError
from mblob.errors import one_line
from mblob.untold import is_untold


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
