"""The comment above a function of a source, which `help` shows behind the prototype."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

LONGEST = 2000  # characters that are kept
_COMMENT = r"/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*"
_QUOTED = r'"(?:\\.|[^"\\\n])*"?' + r"|'(?:\\.|[^'\\\n])*'?"
# Of C and C++: comments; directives; numbers whose digits ' parts; texts and characters. A mark that nothing
# ends ends with the line or the file, so that nothing is read twice.
_NO_CODE = re.compile(
    rf"{_COMMENT}|^[ \t]*\#(?:{_COMMENT}|{_QUOTED}|\\\n|[^\n])*|\b[0-9][\w.]*(?:\'[\w.]+)+"
    rf'|\b(?:u8|[uUL])?R"(?P<raw>[^()\\\s]{{0,16}})\(.*?(?:\)(?P=raw)"|\Z)|{_QUOTED}',
    re.DOTALL | re.MULTILINE,
)
_OUTSIDE = re.compile(r"\b([A-Za-z_]\w*)\s*\(|[(){};]")
_INSIDE = re.compile("[{}]")
# What may stand between the parameters of a function and its code, and what of it has brackets.
_BEHIND = re.compile(
    r"\s*(?:(?:const|noexcept|override|final|try|[A-Z_][A-Z0-9_]*|__\w+)\b\s*|\[\[.*?\]\]\s*|->[^;{]*)*"
)
_BEHIND_CALL = re.compile("__\\w+|[A-Z_][A-Z0-9_]*|alignas|decltype|noexcept|requires|throw")
_FORTRAN = re.compile(r"(?!\s*end\b)[^!'\"]*\b(?:subroutine|function)[ \t]+(\w+)", re.IGNORECASE)
_INTERFACE = re.compile(r"\s*(end\s*|abstract\s+)?interface\b", re.IGNORECASE)
_ELSE = re.compile(r"\s*#\s*(?:else|elif)")
# A macro on its own line that may define something else; the words behind it are a whole declaration.
_MACRO = re.compile(r"(?!__|_?[aA]lign)\w+\s*\([^()]*\)[^\S\n]*\n\s*(?:\w+[\s*&]+)+$")
_OF_FILE = re.compile(r"copyright|spdx-license|all rights reserved", re.IGNORECASE)
# Lines for tools.
_DIRECTIVE = re.compile(
    r"\s*(?:clang-format\b|NOLINT|NOSONAR|IWYU pragma|cppcheck-|coverity\[|[LG]COVR?_EXCL|@formatter:|\*?INDENT-O)"
)
_FORTRAN_DIRECTIVE = re.compile(r"\s*[!cC*]\w*\$")


def comments_of(text: str, *, is_fortran: bool) -> Mapping[str, str]:
    """By the functions that a source defines, without their namespaces or module: the comment that ends in
    the line above, without what marks it as one; "" where there is none, or several functions have the name,
    unless they are those of `#if` and `#else` with one comment.

    Args:
        is_fortran: the source is in Fortran; else in a language of C.
    """
    made: dict[str, str] = {}
    found = _of_fortran(text) if is_fortran else _of_c(text)
    for name, comment, is_other in found:
        lines = (line for line in comment.split("\n") if not _DIRECTIVE.match(line))
        comment = "\n".join(lines)
        comment = "".join(c if c.isprintable() or c == "\n" else " " for c in comment).strip()
        comment = "" if _OF_FILE.search(comment) else comment[:LONGEST]
        before = made.get(name, comment)
        if is_other:
            comment, before = comment or before, before or comment
        made[name] = comment if before == comment and (is_other or name not in made) else ""
    return made


# -- C ---------------------------------------------------------------------------------------------


def _of_c(text: str) -> Iterator[tuple[str, str, bool]]:
    """Functions, the comments above them, and whether `#else` stands between a function and the one in front
    of it."""
    code, comments = _without_comments(text)
    lines = text.split("\n")
    line = counted = last = 0
    for name, before, start, place in _functions(code):
        line += code.count("\n", counted, start)
        counted = start
        first, end = line, line + code.count("\n", start, place)
        # Behind a macro that is no part of the function.
        inner = [i + 1 for i in range(first, end) if i in comments]
        is_first = not before or "\n" in code[before:start]
        is_other = any(map(_ELSE.match, lines[last:first]))
        last = first
        is_unclear = not inner and _MACRO.match(code, start, place)
        comment = (
            "" if is_unclear or not is_first else _above(lines, comments, (inner or [first])[-1])
        )
        yield name, comment, is_other


def _without_comments(text: str) -> tuple[str, dict[int, tuple[int, str]]]:
    """Code with marks where it has texts, and with neither comments nor directives; and the comments, by the
    lines in which they end, with those in which they begin. A line that has code, too, has none."""
    spans = []

    def blank(found: re.Match[str]) -> str:
        first = found[0].lstrip()[:1]
        if first.isdigit():
            return found[0]
        if first == "/":
            spans.append(found.span())
        return re.sub(r"[^\n]", " " if first in "/#" else '"', found[0])

    code = _NO_CODE.sub(blank, text)
    is_blank = [not line.strip() for line in code.split("\n")]
    comments = {}
    line = counted = 0
    for start, end in spans:
        line += text.count("\n", counted, start)
        counted = start
        comment = text[start:end]
        last = line + comment.count("\n")
        if is_blank[line] and is_blank[last] and (line == last or comment.startswith("/*")):
            comments[last] = line, comment
    return code, comments


def _functions(code: str) -> Iterator[tuple[str, int, int, int]]:
    """The functions that are defined: name, the end of what stands in front, the start, and the place of the
    name."""
    calls: list[
        tuple[str | None, int, int]
    ] = []  # name(...) since `before`, each with its place and end
    before = at = body = depth = 0
    while found := (_INSIDE if body else _OUTSIDE).search(code, at):
        at = found.end()
        mark = code[at - 1]
        if body:
            # `#if` and `#else` may both open what one `}` closes
            is_end = mark == "}" and code[at - 2] == "\n"
            body = 0 if is_end else body + (1 if mark == "{" else -1)
            before = at
        elif mark == "(":
            if not depth:
                calls.append((found[1], found.start(), at))
            depth += 1
        elif mark == ")":
            if depth == 1:
                calls[-1] = (*calls[-1][:2], at)
            depth = max(depth - 1, 0)
        else:
            if mark == "{" and not depth and (named := _named(code, calls, before, at - 1)):
                head = code[before : named[1]]
                yield named[0], before, named[1] - len(head.lstrip()), named[1]
                body = 1
            calls, depth, before = [], 0, at


def _named(
    code: str, calls: list[tuple[str | None, int, int]], before: int, end: int
) -> tuple[str, int] | None:
    """The name of the function whose code starts at `end`, and its place; None if it is that of something
    else."""

    def reaches(i: int, end: int) -> bool:
        found = _BEHIND.match(code, calls[i][2], end)
        return found is not None and found.end() == end

    i = len(calls) - 1
    if i < 0 or not reaches(i, end):
        return None
    while i and _BEHIND_CALL.fullmatch(calls[i][0] or "") and reaches(i - 1, calls[i][1]):
        i -= 1
    name, start, _ = calls[i]
    head = code[before:start].rstrip()
    is_initializer = head.endswith((",", "=", ":")) and not head.endswith("::")
    return (name, start) if name and not is_initializer else None


def _above(lines: list[str], comments: Mapping[int, tuple[int, str]], line: int) -> str:
    """The text of the comment that ends above a line: one of `/*`, or lines of `//`."""
    while line and lines[line - 1].lstrip().startswith("#pragma"):
        line -= 1
    start, comment = comments.get(line - 1, (0, ""))
    if comment.startswith("/*"):
        body = comment[2:].removesuffix("*/").split("\n")
        return "\n".join(
            re.sub(r"^\s*\*(?!\*)\ ?|^[*!]+\ ?", "", one).rstrip("* \t\r") for one in body
        )
    made = []
    while comment.startswith("//"):
        made.append(re.sub(r"^//+[!<]?\ ?", "", comment).rstrip())
        start, comment = comments.get(start - 1, (0, ""))
    return "\n".join(reversed(made))


# -- Fortran ---------------------------------------------------------------------------------------


def _of_fortran(text: str) -> Iterator[tuple[str, str, bool]]:
    """Procedures, but for those that an interface declares, the comments above them, and False."""
    lines = text.split("\n")
    is_interface = False
    for i, line in enumerate(lines):
        if found := _INTERFACE.match(line):
            is_interface = not (found[1] or "").lower().startswith("end")
        elif not is_interface and (found := _FORTRAN.match(line)):
            yield found[1].lower(), _fortran_comment(lines, i), False


def _fortran_comment(lines: list[str], end: int) -> str:
    start = end
    while start and re.match(r"\s*!|[cC*](?:\s|\w*\$|$)", lines[start - 1]):
        start -= 1
    return "\n".join(
        re.sub(r"^\s*!+[<>]?\ ?|^[cC*]\ ?", "", line).rstrip()
        for line in lines[start:end]
        if not _FORTRAN_DIRECTIVE.match(line)
    )
