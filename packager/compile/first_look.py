"""A look at a source before it is compiled. Most sources have nothing of what needs more: names of vectors, which
`vector_c` rewrites, and what debug information leaves out of functions, which `call_attributes` reads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

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
    if not looking:
        return False
    if "[" in text and has_arrays(text):
        return True
    return any(map(has_array_types, _own_headers(node, text, (*options, *node.options))))


def _own_headers(node: SourceNode, text: str, options: Sequence[str]) -> Iterator[str]:
    """The texts of the headers that a source includes by `"NAME"`, and that these include."""
    folders = [Path(option[2:]) for option in options if option.startswith("-I")]
    left = [(node.code.parent if isinstance(node.code, Path) else Path(), text)]
    seen: set[Path] = set()
    while left:
        folder, text = left.pop()
        for name in _INCLUDE.findall(text):
            path = next((p for p in (f / name for f in (folder, *folders)) if p.is_file()), None)
            if path is not None and path not in seen:
                seen.add(path)
                found = path.read_text("utf-8", "surrogateescape")
                left.append((path.parent, found))
                yield found


def has_arrays(source: str) -> bool:
    """True if a source may define functions with arrays among their parameters, by itself or by its macros;
    what it includes does not count."""
    if has_array_types(source):
        return True
    directives = _DIRECTIVE.findall(source) if "#" in source or "%:" in source else []
    code = _DIRECTIVE.sub("", source) if directives else source
    is_nested = "extern" in source or "namespace" in source  # braces around functions
    is_nested |= any(text.count("{") != text.count("}") for text in directives)
    makers = _array_macros(directives)
    return _defines_with_arrays(code, is_nested, makers) or any(
        _defines_with_arrays(text, True, ()) for text in directives if "[" in text
    )


def _defines_with_arrays(code: str, is_nested: bool, makers: Collection[str]) -> bool:
    """True if there may be a function whose parameters have brackets.

    Args:
        is_nested: it may be in braces.
        makers: names of macros that make brackets.
    """
    parentheses = braces = after = 0
    is_array = False
    for found in _BRACKET.finditer(code):
        if found[0] == "(":
            is_array = is_array and parentheses > 0
            parentheses += 1
        elif found[0] == ")":
            parentheses -= 1
            ends = is_array and parentheses == 0 and not braces
            if ends and _IN_MACRO.match(code, found.end()):
                return True
        elif found[0] == "[":
            is_array = is_array or parentheses > 0
        elif found[0] == "{":
            is_at_top = is_nested or not braces
            if is_at_top and (is_array or _has_one(makers, code[after : found.start()])):
                return True
            braces, parentheses, after = braces + 1, 0, found.end()
        elif found[0] == "}":
            braces, after = max(braces - 1, 0), found.end()
    return False


def _has_one(names: Collection[str], code: str) -> bool:
    return bool(names) and any(word in names for word in _WORD.findall(code))


_INCLUDE = re.compile(r'^[ \t]*(?:#|%:)[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEPTH = 16  # of macros in macros
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:)(?:[^\n\\]|\\(?s:.))*", re.MULTILINE)
_DEFINITION = re.compile(r"\s*(?:#|%:)\s*define\s+(\w+)(.*)", re.DOTALL)
# What may be a macro where a function has its body, or stand in front of it.
_IN_MACRO = re.compile(r"\s*(?!__attribute|__asm|asm\b|const\b|noexcept\b)[A-Za-z_]")


def _array_macros(directives: Sequence[str]) -> set[str]:
    """The names of macros that have brackets, by themselves or by another one."""
    known = [found.groups() for text in directives if (found := _DEFINITION.match(text))]
    names = {name for name, text in known if "[" in text}
    users = (
        {name: words for name, text in known if (words := set(_WORD.findall(text)))}
        if names
        else {}
    )
    left = names
    for _ in range(_DEPTH):
        left = {name for name, words in users.items() if name not in names and words & left}
        names = names | left
    return names


def has_array_types(source: str) -> bool:
    """True if a source may have typedefs of arrays: gcc forgets the const of `const row *`."""
    for statement in source.split(";")[:-1] if "typedef" in source else ():
        text = statement[statement.rfind("typedef") :] if "typedef" in statement else ""
        if text.rstrip().endswith("]") and not set("{}()").intersection(text.partition("[")[0]):
            return True
    return False
