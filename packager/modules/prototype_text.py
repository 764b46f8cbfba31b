"""The text of prototypes: what compilers accept beside standard C, and what to write instead of what
has no packed function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from mblob import argument_types
from mblob.packager.conventions import without_attributes

if TYPE_CHECKING:
    from pycparser import c_ast

Parse = Callable[[Sequence[str], str], "list[c_ast.Node]"]  # types that are known, and the text

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
_OTHERS = (
    (r"#", "leave directives of the preprocessor out, and write what they stand for"),
    (r"\b(asm|__asm__)\b", "call the function by the name in asm(), which is its symbol, and leave asm() out"),
    (r"::|<|&|->|=|\b(template|noexcept|operator)\b",
     "write the function as C declares it: a pointer for a reference, and no namespaces, templates, default"
     " arguments or noexcept"),
)  # fmt: skip
_MACRO = r"\b(?:[A-Z]{2}[A-Z0-9]*|(?!\w*_t\b)\w*_\w*)\b"  # as most are called
_MACROS = 3  # in one text
_WORDS = 8  # of which some may be macros
STATIC = (
    "remove static in the source, or compile it with options='-Dstatic=' (-- -Dstatic=) if it has no static"
    " variables"
)
_EXAMPLE = "'void vadd(const float *a, const float *b, float *c, int64_t n)'"


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


def reason(code: str, where: str, parse: Parse) -> str:
    """What is wrong with a text that is no prototype, and what to write.

    Args:
        where: what the parser said.
        parse: raises what `where` was made of.
    """
    from pycparser import c_ast

    for pattern, remedy in _OTHERS:
        if re.search(pattern, code):
            return f"{code!r} is no C prototype (column {where}); {remedy}"
    words = [w for w in dict.fromkeys(re.findall(_MACRO, code)) if not _is_known(w)]
    # The fewest words that are macros, if what is left is C once its unknown types are types.
    for count in range(_MACROS + 1):
        for macros in combinations(words[:_WORDS], count):
            for left in _without(code, macros):
                types = _type_names(left)
                try:
                    nodes = parse(types, left)
                except Exception:  # its own
                    continue
                functions = [
                    n for n in nodes if isinstance(getattr(n, "type", None), c_ast.FuncDecl)
                ]
                if not functions or len(functions) < len(nodes) or _mixes(nodes, types):
                    continue
                said = [f"{' and '.join(map(repr, macros))}: leave macros out"] if macros else []
                if types:
                    behind = any(_points_to(n, types[0]) for n in functions)
                    said.append(_of_type(types[0], behind))
                return f"{code!r}: {'; '.join(said)}"
    return f"{code!r} is no C prototype (column {where}); expected one like {_EXAMPLE}"


def _is_known(word: str) -> bool:
    return word in _KEYWORDS or word in argument_types.TYPEDEFS


def _without(code: str, macros: Sequence[str]) -> Iterator[str]:
    """A text without macros; those with arguments stand for them, or for nothing."""
    if not macros:
        yield code
        return
    for pattern, kept in (
        (r"(?!\()", ""),
        (r"\(([^()]*)\)(?=\s*[\w*])", r"\1"),
        (r"\([^()]*\)", ""),
    ):
        made = code
        for macro in macros:
            made = re.sub(rf"\b{macro}\b\s*{pattern}", f"{kept} ", made)
        if made != code:
            yield made


def _mixes(nodes: Any, unknown: Sequence[str]) -> bool:
    """Whether an unknown type stands beside another type, as a macro does."""
    from pycparser import c_ast

    if isinstance(nodes, c_ast.IdentifierType):
        return len(nodes.names) > 1 and not set(unknown).isdisjoint(nodes.names)
    return any(_mixes(node, unknown) for node in nodes)


def _points_to(node: Any, name: str, pointed: bool = False) -> bool:
    """Whether there is a pointer to a type, or an array of it."""
    from pycparser import c_ast

    if isinstance(node, c_ast.IdentifierType):
        return pointed and name in node.names
    pointed = isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)) or (
        pointed and isinstance(node, c_ast.TypeDecl)
    )
    return any(_points_to(child, name, pointed) for child in node)


def _of_type(name: str, pointed: bool) -> str:
    meant = next((known for known in _KNOWN if _letters(known) == _letters(name)), None)
    if meant is not None:
        return f"unknown type {name!r}; did you mean {meant!r}?"
    instead = "void * if it is a struct" if pointed else "int for an enum, void * for a pointer"
    return f"unknown type {name!r}; write {instead}, or the type of the number that it stands for"


def _letters(word: str) -> list[str]:
    return sorted(word.lower().removesuffix("_t"))


def _type_names(code: str) -> list[str]:
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
