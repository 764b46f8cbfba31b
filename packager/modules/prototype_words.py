"""Words of prototypes that cannot be parsed: what may be a macro or a type, and what to write instead."""

from __future__ import annotations

import re

from mblob import argument_types

_KEYWORDS = frozenset(
    ("auto", "char", "const", "double", "enum", "extern", "float", "inline", "int", "long", "register", "restrict",
     "return", "short", "signed", "sizeof", "static", "struct", "union", "unsigned", "void", "volatile", "_Alignas",
     "_Atomic", "_Bool", "_Complex", "_Noreturn", "__int128")
)  # fmt: skip
_KNOWN = (*argument_types.TYPEDEFS, *_KEYWORDS)
_QUALIFIERS = ("const", "volatile", "extern", "static", "inline")
_MACRO = r"\b(?:[A-Z]{2}[A-Z0-9]*|(?!\w*_t\b)\w*_\w*)\b"  # as most are called


def likely_macros(code: str) -> list[str]:
    """Words of a text that look as macros do, each once."""
    return [w for w in dict.fromkeys(re.findall(_MACRO, code)) if not _is_known(w)]


def _is_known(word: str) -> bool:
    return word in _KEYWORDS or word in argument_types.TYPEDEFS


def of_type(name: str, pointed: bool) -> str:
    meant = next((known for known in _KNOWN if _letters(known) == _letters(name)), None)
    if meant is not None:
        return f"unknown type {name!r}; did you mean {meant!r}?"
    instead = "void * if it is a struct" if pointed else "int for an enum, void * for a pointer"
    return f"unknown type {name!r}; write {instead}, or the type of the number that it stands for"


def _letters(word: str) -> list[str]:
    return sorted(word.lower().removesuffix("_t"))


def type_names(code: str) -> list[str]:
    """Unknown identifiers where only a type can stand, in front of a name or a `*`."""
    tokens = ["(", *re.findall(r"[A-Za-z_]\w*|\S", code), ""]
    found: list[str] = []
    for before, token, behind in zip(tokens, tokens[1:], tokens[2:]):
        if not re.match("[A-Za-z_]", token) or _is_known(token) or token in found:
            continue
        starts = before in ("(", ",", ";")
        named = behind == "*" or re.match("[A-Za-z_]", behind)
        if ((starts or before in _QUALIFIERS) and named) or (starts and behind in (",", ")")):
            found.append(token)
    return found
