"""The comment above a function of a source, which `help` shows behind the prototype."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

LONGEST = 2000  # characters that are kept
# Of C and C++: comments, and texts and characters, which may hold what looks like one.
_NO_CODE = re.compile(
    r'/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*\#(?:\\\n|[^\n])*',
    re.DOTALL | re.MULTILINE,
)
# What may stand between the parameters of a function and its code.
_BEHIND = re.compile(
    r"\s*(?:(?:const|noexcept|override|final|try|[A-Z_][A-Z0-9_]*|__\w+)\b\s*|\[\[.*?\]\]\s*|->[^;{]*)*"
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_FORTRAN = re.compile(
    r"^(?!\s*end\b)[^!'\"\n]*\b(?:subroutine|function)[ \t]+(\w+)", re.IGNORECASE | re.MULTILINE
)
_OF_FILE = re.compile(r"copyright|spdx-license|all rights reserved", re.IGNORECASE)


@lru_cache(maxsize=4)
def comments_of(text: str, *, is_fortran: bool) -> Mapping[str, str]:
    """By the functions that a source defines, without their namespaces or module: the comment that ends in
    the line above, without what marks it as one. Where several have one name, the first one's.

    Args:
        is_fortran: the source is in Fortran; else in a language of C.
    """
    made: dict[str, str] = {}
    lines = text.split("\n")
    for name, at in _of_fortran(text) if is_fortran else _of_c(text):
        while at and lines[at - 1].lstrip().startswith("#pragma"):
            at -= 1
        comment = _fortran_comment(lines[:at]) if is_fortran else _c_comment(lines[:at])
        comment = "".join(c if c.isprintable() or c == "\n" else " " for c in comment).strip()
        made.setdefault(name, "" if _OF_FILE.search(comment) else comment[:LONGEST])
    return made


def _of_c(text: str) -> Iterator[tuple[str, int]]:
    """Functions, and how many lines stand above each."""
    code = _NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    at = 0
    while found := _CALL.search(code, at):
        at = _past(code, found.end(), "()")
        behind = _BEHIND.match(code, at)
        end = behind.end() if behind else at
        if code[end : end + 1] != "{":
            at = found.end()
            continue
        start = max(code.rfind(c, 0, found.start()) for c in ";{}") + 1
        start = found.start() - len(code[start : found.start()].lstrip())
        yield found[1], code.count("\n", 0, start)
        at = _past(code, end + 1, "{}")


def _past(code: str, at: int, pair: str) -> int:
    """Where the brackets end in which `at` lies; those of parameters at a semicolon at the latest."""
    depth = 1
    for found in re.compile(f"[{re.escape(pair)}{';' if pair == '()' else ''}]").finditer(code, at):
        depth += 1 if found[0] == pair[0] else -1
        if not depth or found[0] == ";":
            return found.end()
    return len(code)


def _of_fortran(text: str) -> Iterator[tuple[str, int]]:
    for found in _FORTRAN.finditer(text):
        yield found[1].lower(), text.count("\n", 0, found.start())


def _c_comment(above: list[str]) -> str:
    if not above:
        return ""
    if above[-1].strip().startswith("//"):
        start = len(above)
        while start and above[start - 1].strip().startswith("//"):
            start -= 1
        return "\n".join(re.sub(r"^\s*//+[!<]?\ ?", "", line).rstrip() for line in above[start:])
    if not above[-1].rstrip().endswith("*/"):
        return ""
    start = len(above) - 1
    while start and "/*" not in above[start]:
        start -= 1
    head, _, body = "\n".join(above[start:]).rstrip().removesuffix("*/").partition("/*")
    if head.strip():
        return ""
    return "\n".join(
        re.sub(r"^\s*\*(?!\*)\ ?|^[*!]+\ ?", "", line).rstrip("* \t") for line in body.split("\n")
    )


def _fortran_comment(above: list[str]) -> str:
    start = len(above)
    while start and re.match(r"\s*!|[cC*](?:\s|$)", above[start - 1]):
        start -= 1
    return "\n".join(
        re.sub(r"^\s*!+[<>]?\ ?|^[cC*]\ ?", "", line).rstrip() for line in above[start:]
    )
