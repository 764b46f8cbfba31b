"""The words of prototypes, before anything is parsed: what is standard C, what may be a macro or a type."""

from __future__ import annotations

import re

from mblob import argument_types
from mblob.packager.conventions import without_attributes

# What compilers accept beside standard C, and what to write instead of what has no packed function.

# ISO C, 5.1.1.2: comments become a space before anything is parsed. Prototypes have no strings that
# look like one.
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_IN_C = re.compile(r'\bextern\s*"C"\s*(?:\{(.*)\}\s*$)?', re.DOTALL)
# What compilers have for a keyword, and what says nothing about a call.
_SPELLINGS = (
    (r"__restrict(__)?", "restrict"),
    (r"__(inline|const|volatile|signed)(__)?", r"\1"),
    (r"__extension__", " "),
)
_KEYWORDS = frozenset(
    ("auto", "char", "const", "double", "enum", "extern", "float", "inline", "int", "long", "register", "restrict",
     "return", "short", "signed", "sizeof", "static", "struct", "union", "unsigned", "void", "volatile", "_Alignas",
     "_Atomic", "_Bool", "_Complex", "_Noreturn", "__int128")
)  # fmt: skip
_KNOWN = (*argument_types.TYPEDEFS, *_KEYWORDS)
_QUALIFIERS = ("const", "volatile", "extern", "static", "inline")
_MACRO = r"\b(?:[A-Z]{2}[A-Z0-9]*|(?!\w*_t\b)\w*_\w*)\b"  # as most are called


def standard(text: str) -> str:
    """A text in the words of standard C, on one line, without attributes.

    Raises:
        BuildError: an attribute that a call depends on.
    """
    code = without_attributes(_COMMENT.sub(" ", text))
    code = _IN_C.sub(lambda found: found[1] or "", code)
    for spelling, word in _SPELLINGS:
        code = re.sub(rf"\b{spelling}(?!\w)", word, code)
    return " ".join(code.split()).rstrip("; ")


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
