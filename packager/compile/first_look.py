"""A look at a source before it is compiled. Most sources have nothing of what needs more: names of vectors, which
`vector_c` rewrites, and what debug information leaves out of functions, which `call_attributes` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mblob.packager import conventions
from mblob.packager.compile.vector_c.words import names_vectors
from mblob.packager.modules.nodes import SourceNode

_BRACKET = re.compile(r"[][(){}]")
_MAYBE_VECTOR = re.compile(
    r"[a-z](?:[2-9]|1[0-6])\b|\bhalf\b"
)  # each name of a vector ends like this


def may_name_vectors(source: str) -> bool:
    """True if a source has a word that may name a vector type, or `half`: in its code, a comment or
    a text."""
    return _MAYBE_VECTOR.search(source) is not None and names_vectors(source)


def may_tell(node: SourceNode, options: Sequence[str], looking: bool) -> bool:
    """True if a source may say more of its functions than debug information.

    Args:
        looking: prototypes are made of what it says.
    """
    text = node.text()
    if conventions.may_tell(text, (*options, *node.options)):
        return True
    return looking and "[" in text and has_arrays(text)


def has_arrays(source: str) -> bool:
    """True if a source may define functions with arrays among their parameters; what it includes
    does not count."""
    if has_array_types(source):
        return True
    is_nested = "extern" in source or "namespace" in source  # braces around functions
    parentheses = braces = 0
    is_array = False
    for found in _BRACKET.finditer(source):
        if found[0] == "(":
            is_array = is_array and parentheses > 0
            parentheses += 1
        elif found[0] == ")":
            parentheses -= 1
        elif found[0] == "[":
            is_array = is_array or parentheses > 0
        elif found[0] == "{":
            if is_array and (is_nested or not braces):
                return True
            braces, parentheses = braces + 1, 0
        elif found[0] == "}":
            braces -= 1
    return False


def has_array_types(source: str) -> bool:
    """True if a source may have typedefs of arrays: gcc forgets the const of `const row *`."""
    for statement in source.split(";")[:-1] if "typedef" in source else ():
        text = statement.rstrip()
        if text.endswith("]") and "typedef" in text[max(map(text.rfind, "{}()")) + 1 :]:
            return True
    return False
