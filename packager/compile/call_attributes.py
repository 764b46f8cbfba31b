"""Facts about functions that a source has, and debug information leaves out: attributes that say
how a function is called (gcc), arrays among the parameters, which are pointers there, and what
macros in prototypes stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mblob.packager.compile.first_look import has_array_types
from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    TYPEOF,
    Token,
    ends,
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
        name, attribute = _declared_function(declaration)
        if name and attribute:
            found[name] = attribute
    return found


def own_text(preprocessed: str) -> str:
    """A preprocessed text without what headers of the system have."""
    kept: list[str] = []
    own: set[str] = set()  # files
    is_own = True
    for line in preprocessed.splitlines():
        if line.startswith("# "):  # # 12 "stdio.h" 1 3 4: 3 says that it is of the system
            name, _, flags = line.rpartition('"')
            name = name.partition('"')[2]
            if "3" not in flags.split():
                own.add(name)
            is_own = (
                name in own
            )  # also where a macro of the system stands for something, such as bool
        elif is_own:
            kept.append(line)
    return "\n".join(kept)


_PROTOTYPE = "#pragma mblob prototype"


def with_prototypes(source: Path, texts: Iterable[str]) -> str:
    """A source with prototypes behind it, each behind a line that preprocessors keep."""
    quotes = "<>" if '"' in str(source) else '""'  # nothing in them is escaped
    include = f"#include {quotes[0]}{source}{quotes[1]}"
    return "\n".join([include, *(f"{_PROTOTYPE}\n{text}" for text in texts), ""])


def split_prototypes(preprocessed: str) -> list[str]:
    """The preprocessed text of a source, and those of the prototypes behind it."""
    source, *texts = preprocessed.split(_PROTOTYPE)
    lines = (text.splitlines() for text in texts)
    return [source, *("\n".join(x for x in each if not x.startswith("#")) for each in lines)]


def declared_name(name: str, prototype: str) -> str:
    """The function that a preprocessed prototype declares, "" if it declares none.

    Args:
        name: as it was before, with namespaces.
    """
    declared = _declared_function(tokenize(prototype)[0])[0]
    return name if name.endswith(f"::{declared}") else declared


def array_parameters(own: str) -> dict[str, str]:
    """By the names of functions that a text declares with arrays among their parameters, the
    declarations. Of several the last counts, which is the definition.

    Args:
        own: as of `own_text`.
    """
    found: dict[str, str] = {}
    arrays = {"[", *array_types(own)}
    for declaration in _declarations(tokenize(own)[0]):
        words = [token.text for token in declaration]
        if ")" in words and "=" not in words and not arrays.isdisjoint(words):
            name = _declared_function(declaration)[0]
            if name:
                found[name] = "".join(f"{token.space}{token.text}" for token in declaration)
    return found


def enums(own: str) -> tuple[str, ...]:
    """The enums of a text, `enum name {...}`, without those of C++ whose enumerators have a scope.

    Args:
        own: as of `own_text`.
    """
    if "enum" not in own:
        return ()
    tokens = tokenize(own)[0]
    closed = ends(tokens)
    found: list[str] = []
    at = 0
    while at < len(tokens):
        words = [t.text for t in tokens[at : at + 3]]
        end = at + 1
        if words[0] == "enum" and "{" in words[1:]:
            end = closed.get(at + words.index("{"), len(tokens))
            found.append(" ".join(t.text for t in tokens[at:end]))
        at = end
    return tuple(found)


def array_types(own: str) -> tuple[str, ...]:
    """The typedefs of arrays in a text, which debug information of parameters leaves out.

    Args:
        own: as of `own_text`.
    """
    if not has_array_types(own):
        return ()
    declared = ([t.text for t in found] for found in _declarations(tokenize(own)[0]))
    return tuple(
        words[words.index("[") - 1]
        for words in declared
        if words[:1] == ["typedef"] and words[-1] == "]" and "[" in words
    )


def _declarations(tokens: list[Token]) -> Iterator[list[Token]]:
    """The declarations outside of functions and types, without what braces hold."""
    made: list[Token] = []
    closed = ends(tokens)
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            words = [t.text for t in made]
            if (words[:1] == ["extern"] and len(words) == 2) or "namespace" in words[:2]:
                made = []  # what is in it is declared as outside
            else:
                at = closed.get(at, len(tokens))
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


def _declared_function(tokens: list[Token]) -> tuple[str, str]:
    """The function that a declaration declares, and its attribute; "" without."""
    name = attribute = before = ""
    closed = ends(tokens)
    inside = 0  # parentheses around the name: void (f)(int), void (*variable)(int)
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        behind = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if (text in ATTRIBUTES | TYPEOF and behind == "(") or text == behind == "[":
            end = closed.get(at + (text != "["), len(tokens))
            words = (m[1] for t in tokens[at:end] if (m := WORD.fullmatch(t.text)))
            attribute = attribute or next(words, "")
            at = end
            continue
        if text == "(":
            end = closed.get(at, len(tokens))
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
