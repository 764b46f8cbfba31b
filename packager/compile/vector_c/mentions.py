"""Whether a source is worth a closer look."""

from __future__ import annotations

import re

from mblob.packager.compile.vector_c.words import WORD

_MAYBE = re.compile(r"[a-z](?:[2-9]|1[0-6])\b|\bhalf\b")  # each name of a vector ends like this
_HALF = re.compile(r"\bhalf\b")
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


def mentions(source: str) -> bool:
    """Whether a source has a word that may name a vector type, or `half`, in its code.

    Most sources have no such word at all; words in comments and texts, and names that the source
    itself declares, do not count. Macros do.
    """
    if _MAYBE.search(source) is None or not _mentioned(source):
        return False
    from mblob.packager.compile.vector_c.own_names import own_names
    from mblob.packager.compile.vector_c.tokens import tokenize

    tokens, tail = tokenize(source)
    own = own_names(source, tokens)
    if any(t.kind == "name" and t.text not in own and _mentioned(t.text) for t in tokens):
        return True
    spaces = (*(t.space for t in tokens), tail)
    return any(
        _mentioned(line) for space in spaces if "#" in space for line in _DIRECTIVE.findall(space)
    )


def _mentioned(text: str) -> bool:
    return WORD.search(text) is not None or _HALF.search(text) is not None
