"""Whether a source is worth a closer look."""

from __future__ import annotations

import re

from packager.vector_c.types import WORD

_HALF = re.compile(r"\bhalf\b")


def mentions(source: str) -> bool:
    """Whether a source has a word that names a vector type, or `half`: a quick look that may be wrong."""
    return WORD.search(source) is not None or _HALF.search(source) is not None
