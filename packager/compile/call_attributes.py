"""Facts about functions that a source has, and debug information leaves out: attributes that say
how a function is called (gcc), arrays among the parameters, which are pointers there, and what
macros in prototypes stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mblob.named_tuple import NamedTuple
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


def array_types(own: str) -> dict[str, str]:
    """The typedefs of arrays in a text, which debug information of parameters leaves out, by their names
    and in their order.

    Args:
        own: as of `own_text`.
    """
    found: dict[str, str] = {}
    if not has_array_types(own):
        return found
    for declaration in _declarations(tokenize(own)[0]):
        words = [t.text for t in declaration]
        head = words[: words.index("[")] if "[" in words else words
        if words[:1] != ["typedef"] or "(" in head:
            continue
        is_array = words[-1] == "]" and head is not words
        if is_array or (len(words) > 2 and words[-2] in found):
            found[head[-1]] = "".join(f"{token.space}{token.text}" for token in declaration)
    return found


class WithoutCode(NamedTuple):
    """A function of which a compiler may make no code of its own.

    Attributes:
        words: that say so, such as "static" and "inline".
        caller: a function that calls it, "" if none can be told.
    """

    words: tuple[str, ...]
    caller: str


_WORDS_WITHOUT_CODE = ("template", "static", "inline", "constexpr", "consteval")
_SPELLINGS = {"__inline": "inline", "__inline__": "inline"}


def without_code(own: str, name: str) -> WithoutCode | None:
    """The function of a name that a text defines without code of its own; None if there is none.

    Args:
        own: as of `own_text`.
        name: with its namespaces or without.
    """
    *scopes, last = name.split("::")
    for tokens, around in _scoped_declarations(tokenize(own)[0]):
        head = [_SPELLINGS.get(t.text, t.text) for t in tokens]
        words = tuple(word for word in _WORDS_WITHOUT_CODE if word in head)
        is_one = (
            words
            and _declared_function(tokens)[0] == last
            and f"::{around}".endswith("::".join(["", *scopes]))
        )
        if is_one:
            return WithoutCode(words, _caller(tokens, last, around))
    return None


def _caller(tokens: list[Token], name: str, around: str) -> str:
    """A function that calls the one that tokens define; "" if none can be told."""
    texts = [token.text for token in tokens]
    at = next((i for i, pair in enumerate(zip(texts, texts[1:])) if pair == (name, "(")), 0)
    end = ends(tokens).get(at + 1, 0) - 1
    words = {*_WORDS_WITHOUT_CODE, *_SPELLINGS, "extern"}
    head = _joined(token for token in tokens[:at] if token.text not in words)
    parameters = _split(tokens[at + 2 : end])
    if parameters and [token.text for token in parameters[0]] == ["void"]:
        parameters = []
    names = [_name_of(parameter) for parameter in parameters]
    no_line = ATTRIBUTES.union(TYPEOF, ("[", "template", "consteval", "..."))
    if not at or end < at or not head or not all(names) or not no_line.isdisjoint(texts[:at]):
        return ""
    call = f"{name}({', '.join(names)})"
    told = f"call_{name}({', '.join(map(_joined, parameters)) or 'void'})"
    text = f"{head} {told} {{ {'' if head == 'void' else 'return '}{call}; }}"
    for scope in reversed(around.split("::") if around else ()):
        text = f"namespace {scope} {{ {text} }}"
    return text


def _joined(tokens: Iterable[Token]) -> str:
    return "".join(f"{' ' * bool(token.space)}{token.text}" for token in tokens).strip()


def _split(tokens: list[Token]) -> list[list[Token]]:
    """The parameters in a list, without default arguments."""
    made: list[list[Token]] = [[]] if tokens else []
    depth = 0
    is_default = False
    for token in tokens:
        depth += (token.text in "([{<") - (token.text in ")]}>")
        if token.text == "," and not depth:
            made.append([])
            is_default = False
            continue
        is_default = is_default or (token.text == "=" and not depth)
        if not is_default:
            made[-1].append(token)
    return made


def _name_of(parameter: list[Token]) -> str:
    """The name of a parameter, "" if it has none that can be told."""
    texts = [token.text for token in parameter]
    if "(" in texts:  # int (*name)(float)
        of_function = parameter[texts.index("(") + 1 : texts.index(")")] if ")" in texts else []
        return of_function[-1].text if of_function and of_function[-1].kind == "name" else ""
    at = (texts.index("[") if "[" in texts else len(texts)) - 1
    is_named = at > 0 and parameter[at].kind == "name" and parameter[at - 1].text != "::"
    return parameter[at].text if is_named else ""


def _declarations(tokens: list[Token]) -> Iterator[list[Token]]:
    """The declarations outside of functions and types, without what braces hold."""
    return (made for made, _ in _scoped_declarations(tokens))


def _scoped_declarations(tokens: list[Token]) -> Iterator[tuple[list[Token], str]]:
    """The same, each with the namespaces around it, but for inline ones."""
    made: list[Token] = []
    scopes: list[str] = []
    closed = ends(tokens)
    at = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "{":
            words = [t.text for t in made]
            if (words[:1] == ["extern"] and len(words) == 2) or "namespace" in words[:2]:
                scopes.append("".join(words[1:]) if words[0] == "namespace" else "")
                made = []  # what is in it is declared as outside
            else:
                at = closed.get(at, len(tokens))
                if ")" in words:
                    yield made, "::".join(filter(None, scopes))
                    made = []
                continue
        elif text in (";", "}"):
            yield made, "::".join(filter(None, scopes))
            made = []
            if text == "}" and scopes:
                scopes.pop()
        else:
            made.append(tokens[at])
        at += 1
    yield made, "::".join(filter(None, scopes))


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
