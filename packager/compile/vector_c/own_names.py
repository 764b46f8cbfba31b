"""Names of vectors that are not rewritten: those that a source gives a meaning of its own, which are
left alone in all of it, and those in macros and headers, where no preprocessor has run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mblob.packager.compile.vector_c.tokens import (
    BEFORE_EXPRESSIONS,
    DEDUCED,
    QUALIFIERS,
    Token,
    place,
    tokenize,
)
from mblob.packager.compile.vector_c.words import WORD, names_vectors

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
            if _is_not_a_type(before, after):
                found.add(token.text)
    return found


def _is_candidate(name: str) -> bool:
    return name == "half" or re.fullmatch(WORD, name) is not None


def _is_not_a_type(before: Token | None, after: Token | None) -> bool:
    """True if a name between two tokens is declared or used as something else than a type."""
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


_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


def mentions(source: str) -> bool:
    """True if a source has a word that may name a vector type, or `half`, in its code.

    Most sources have no such word at all; words in comments and texts, and names that the source
    itself declares, do not count. Macros do.
    """
    if not names_vectors(source):
        return False
    tokens, tail = tokenize(source)
    own = own_names(source, tokens)
    if any(t.kind == "name" and t.text not in own and names_vectors(t.text) for t in tokens):
        return True
    spaces = (*(t.space for t in tokens), tail)
    return any(
        names_vectors(line)
        for space in spaces
        if "#" in space
        for line in _DIRECTIVE.findall(space)
    )


# -- what hides them from a rewriter without a preprocessor ----------------------------------------

_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE | re.DOTALL
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|//.*", re.DOTALL)
_LARGEST = 16 << 20  # bytes of a header


def hidden_vectors(source: str, file: str, folder: Path | None) -> str | None:
    """The macro or header that hides vector types from the rewriter, with its line; None without.

    Args:
        folder: where the source lies, None if it is a text.
    """
    tokens, tail = tokenize(source)
    spaces = [(t.start - len(t.space), t.space) for t in tokens]
    spaces.append((len(source) - len(tail), tail))
    own = own_names(source, tokens)
    for start, space in spaces:
        if "#" not in space:
            continue
        for found in _MACRO.finditer(space):
            for word in re.finditer(WORD, _COMMENT.sub(" ", found[2])):
                if word[0] not in own and found[1] not in own:
                    return f"{place(source, start + found.start(1), file)}: macro {found[1]} uses {word[0]}"
        for found in _INCLUDE.finditer(space):
            if folder is not None and _uses_vectors(folder / found[1]):
                return f'{place(source, start + found.start(1), file)}: header "{found[1]}" uses vector types'
    return None


def _uses_vectors(header: Path) -> bool:
    try:
        if header.stat().st_size > _LARGEST:
            return False
        text = header.read_text("utf-8", "surrogateescape")
    except OSError:
        return False  # a header elsewhere, or none: the compiler's to find
    if not mentions(text):
        return False
    tokens, _ = tokenize(text)
    own = own_names(text, tokens)
    in_code = any(
        t.kind == "name" and t.text not in own and re.fullmatch(WORD, t.text) for t in tokens
    )
    return in_code or hidden_vectors(text, header.name, None) is not None
