"""Which vector names a source gives a meaning of its own: they are left alone in all of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mblob.packager.compile.vector_c.keywords import BEFORE_EXPRESSIONS, DEDUCED, QUALIFIERS
from mblob.packager.compile.vector_c.tokens import Token
from mblob.packager.compile.vector_c.types import WORD

# Before a type these may stand; any other word or bracket in front makes the name that of a thing.
_BEFORE_TYPES = QUALIFIERS | DEDUCED | BEFORE_EXPRESSIONS | {"typedef", "_Atomic"}
_TAGS = ("struct", "union", "enum", "class", "using", "namespace")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def own_names(source: str, tokens: Sequence[Token]) -> set[str]:
    """Names of vectors, and `half`, that the source declares or defines itself."""
    found = {name for name in _DEFINE.findall(source) if _is_candidate(name)}
    for i, token in enumerate(tokens):
        if token.kind == "name" and token.text not in found and _is_candidate(token.text):
            before = tokens[i - 1] if i else None
            after = tokens[i + 1] if i + 1 < len(tokens) else None
            if _is_thing(before, after):
                found.add(token.text)
    return found


def _is_candidate(name: str) -> bool:
    return name == "half" or WORD.fullmatch(name) is not None


def _is_thing(before: Token | None, after: Token | None) -> bool:
    """Whether a name between two tokens is declared or used as something else than a type."""
    following = after.text if after is not None else ";"
    if before is not None and before.text == "->" and following == "{":
        return False  # what a function of C++ gives
    if before is not None and before.text in (*_TAGS, ".", "->", "goto", "#", "::"):
        return True
    if after is not None and after.kind == "name":
        return following in ("__attribute__", "__attribute", "__asm__", "asm")
    if following in ("*", ">", "&", "&&", "::", "..."):
        return False
    if following == ":" and before is not None and before.text in ("(", ","):
        return False  # a choice of _Generic
    names_it = before is not None and (
        (before.kind == "name" and before.text not in _BEFORE_TYPES)
        or before.text in ("*", "}", "&")
    )
    if following == "(":  # a constructor, or a function of this name
        return (
            names_it and before is not None and before.kind == "name" and not before.text.isupper()
        )
    if following in (")", ",", "["):
        return names_it
    return True
