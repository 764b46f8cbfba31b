"""C text as tokens that keep what stands between them, so that every line stays where it is, and the
words among them, in the one list that every part of the rewriter reads."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

# A letter of an identifier by its number, in the ways of C and C++23. Compilers take all above
# ASCII for letters, too.
_NUMBERED = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\u\{[0-9A-Fa-f]+\}"
_LETTER = rf"[A-Za-z_$]|[^\x00-\x7f]|{_NUMBERED}"
_TOKEN = re.compile(
    rf"""(?P<space>(?:\s|\\\n|//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)+)
    |(?P<string>(?:u8|[uUL])?R"(?P<end>[^()\\\s]{{0,16}})\(.*?\)(?P=end)"|(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>(?:{_LETTER})(?:{_LETTER}|\d)*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
    |(?P<mark><:(?!:(?![:>]))|:>|<%|%>|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|\#\#|.)""",
    re.VERBOSE | re.DOTALL,
)
# Other spellings of brackets; in C++ `<::` is a `<` before `::`.
_DIGRAPHS = {"<:": "[", ":>": "]", "<%": "{", "%>": "}"}
_BY_NUMBER = re.compile(_NUMBERED)
_DIRECTIVE = re.compile(r"[ \t]*(?:#|%:)(?:[^\n\\]|\\.|\\\n)*", re.DOTALL)


NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Token:  # `dataclasses` takes 10 ms to import
    """A token, and what becomes of it.

    Attributes:
        kind: "name", "number", "string" or "mark".
        text: as written; brackets in their usual spelling, letters of names as themselves.
        space: what stands before it: blanks, comments, directives.
        start: its offset in the source.
        out: as it is written in the source.
    """

    __slots__ = ("kind", "out", "space", "start", "text")

    def __init__(self, kind: str, text: str, space: str, start: int, out: str) -> None:
        self.kind = kind
        self.text = text
        self.space = space
        self.start = start
        self.out = out


def tokenize(source: str) -> tuple[list[Token], str]:
    """The tokens of a source, and the space behind the last. Directives and line markers are
    space."""
    tokens: list[Token] = []
    space_from = at = 0
    line_start = True
    size = len(source)
    while at < size:
        if line_start and (directive := _DIRECTIVE.match(source, at)):
            at = directive.end()
            line_start = False
            continue
        found = _TOKEN.match(source, at)
        assert found is not None, "the last alternative takes any character"
        kind, text, start, at = found.lastgroup or "", found.group(), at, found.end()
        if kind == "space":
            line_start = "\n" in text
            continue
        usual = _usual(text) if kind == "name" and "\\" in text else _DIGRAPHS.get(text, text)
        tokens.append(Token(kind, usual, source[space_from:start], start, text))
        space_from = at
        line_start = False
    return tokens, source[space_from:]


def _usual(name: str) -> str:
    return _BY_NUMBER.sub(lambda letter: _letter(letter.group()), name)


def _letter(spelled: str) -> str:
    number = int(spelled[2:].strip("{}"), 16)
    return chr(number) if number <= sys.maxunicode else spelled  # which the compiler refuses


_MARKER = re.compile(r'^#(?:line)? *(\d+)(?: "((?:[^"\\]|\\.)*)")?.*$', re.MULTILINE)


def place(source: str, offset: int, file: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """`file:line` of an offset, as line markers count; `names` says what to call files of
    theirs."""
    line, start = 1, 0
    for marker in _MARKER.finditer(source, 0, offset):
        line, file, start = int(marker[1]), marker[2] or file, marker.end() + 1
    return f"{names.get(file, file)}:{line + source.count(chr(10), start, offset)}"


OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


def ends(tokens: Sequence[Token]) -> dict[int, int]:
    """By the tokens that are opening brackets, the tokens behind what closes them."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.text in OPENING:
            opened.append(at)
        elif token.text in CLOSING and opened:
            found[opened.pop()] = at + 1
    return found


# -- the words of C and C++ around types -----------------------------------------------------------

# What may stand among the specifiers of a declaration, or behind a star, without being a type.
QUALIFIERS = frozenset((
    "static", "extern", "inline", "register", "const", "volatile", "restrict", "__restrict", "__restrict__",
    "__inline", "__inline__", "__extension__", "_Noreturn", "_Thread_local", "__thread", "thread_local", "constexpr",
    "__const", "__volatile__", "__signed__", "friend", "virtual", "explicit", "mutable", "typename",
))  # fmt: skip
# Words that together name a type of C.
BASE_WORDS = frozenset((
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool", "_Complex",
))  # fmt: skip
# Types under one word whose lanes are none that we follow.
OTHER_TYPES = frozenset((
    "_Float16", "__fp16", "__int128", "wchar_t", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t",
    "__builtin_va_list", "va_list",
))  # fmt: skip
DEDUCED = frozenset(("auto", "__auto_type"))
# Something in parentheses follows these, and none of it matters here.
ATTRIBUTES = frozenset((
    "__attribute__", "__attribute", "__declspec", "_Alignas", "alignas", "__asm__", "asm", "__asm",
))  # fmt: skip
RECORDS = frozenset(("struct", "union", "enum", "class"))
TYPEOF = frozenset(("typeof", "__typeof__", "__typeof", "decltype", "_Atomic"))
SIZES = frozenset(("sizeof", "_Alignof", "alignof", "__alignof__", "__alignof"))
# A name behind one of these is no name that is being declared.
BEFORE_EXPRESSIONS = frozenset((
    "return", "else", "do", "case", "goto", "new", "delete", "throw", "operator", "co_return", "co_yield", "co_await",
    *SIZES,
))  # fmt: skip
# Attributes that make another type of a type.
STRANGERS = ("vector_size", "__vector_size__", "ext_vector_type", "mode", "__mode__")
