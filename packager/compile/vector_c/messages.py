"""What compilers say about rewritten sources, in words of the source."""

from __future__ import annotations

import re

from mblob.packager.compile.vector_c.types import SCALARS

_LANES = "|".join(SCALARS)
_OURS = re.compile(rf"\bmblob_((?:{_LANES})(?:[2-9]|1[0-6])?)(?:_simd)?\b")
_TWICE = re.compile(r"'(\w+)' (?:\{aka '\1'\}|\(aka '\1'\))")
_COLUMN = re.compile(r"^(\S.*?:\d+):\d+:(?= )", re.MULTILINE)
_EXCERPT = re.compile(r"^\s(?!\s*from )")
_CARET = re.compile(r"^[ ~]*\^[ ~^]*$")


def in_words_of_the_source(output: str) -> str:
    """The output of a compiler without columns and excerpts, which are of the rewritten text, and
    with TVM's names.

    Lines and files are those of the source already.
    """
    lines = output.splitlines(keepends=True)
    # clang shows a line of text as it is, and marks it in the next.
    shown = [_CARET.match(line) is not None for line in [*lines[1:], ""]]
    kept = "".join(
        line for line, is_shown in zip(lines, shown) if not is_shown and not _EXCERPT.match(line)
    )
    return _TWICE.sub(r"'\1'", _OURS.sub(r"\1", _COLUMN.sub(r"\1:", kept)))
