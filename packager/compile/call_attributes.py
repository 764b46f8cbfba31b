"""Attributes of C and C++ that say how a function is called, as a source has them: debug information of
gcc leaves them out."""

from __future__ import annotations

from collections.abc import Iterator

from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    TYPEOF,
    Token,
    past_brackets,
    tokenize,
)
from mblob.packager.conventions import WORD


def attributes(code: str) -> dict[str, str]:
    """By the names of functions that a preprocessed text declares, the attribute that says how each is
    called."""
    if not WORD.search(code):
        return {}
    found: dict[str, str] = {}
    for declaration in _declarations(tokenize(code)[0]):
        name, attribute = _told(declaration)
        if name and attribute:
            found[name] = attribute
    return found


def _declarations(tokens: list[Token]) -> Iterator[list[Token]]:
    """The declarations outside of functions and types, without what braces hold."""
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            words = [t.text for t in made]
            if (words[:1] == ["extern"] and len(words) == 2) or "namespace" in words[:2]:
                made = []  # what is in it is declared as outside
            else:
                at = past_brackets(tokens, at)
                if ")" in words:
                    yield made
                    made = []
                continue
        elif text in (";", "}"):
            yield made
            made = []
        else:
            made.append(tokens[at])
        at += 1
    yield made


def _told(tokens: list[Token]) -> tuple[str, str]:
    """The function that a declaration declares, and its attribute; "" without."""
    name = attribute = before = ""
    ends = _ends(tokens)
    inside = 0  # parentheses around the name: void (f)(int), void (*variable)(int)
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        behind = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if (text in ATTRIBUTES | TYPEOF and behind == "(") or text == behind == "[":
            end = past_brackets(tokens, at + (text != "["))
            words = (m[1] for t in tokens[at:end] if (m := WORD.fullmatch(t.text)))
            attribute = attribute or next(words, "")
            at = end
            continue
        if text == "(":
            end = ends.get(at, len(tokens) - 1) + 1
            is_called = end < len(tokens) and tokens[end].text == "("
            if is_called or (inside and not before):
                inside += 1
                before = ""
            else:
                name = name or before
                at = end
                continue
        elif text == ")":
            inside -= 1
        elif inside and text == "*":
            return "", ""
        else:
            before = text
        at += 1
    return ("" if tokens and tokens[0].text == "typedef" else name), attribute


def _ends(tokens: list[Token]) -> dict[int, int]:
    """Where each parenthesis that opens is closed."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.text == "(":
            opened.append(i)
        elif token.text == ")" and opened:
            found[opened.pop()] = i
    return found
