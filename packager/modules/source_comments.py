"""The comment above a function of a source, which `help` shows behind the prototype."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mblob.format.functions_table import split
from mblob.named_tuple import NamedTuple

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
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|endif)")
_NAMESPACE = re.compile(r"\bnamespace\b|\bextern\s*\"")
_NO_DECLARATION = re.compile(r"\b(?:typedef|return|using|friend|else|case|goto)\b|=")
_INVOCATION = re.compile(r"\s*\w+\s*\(([^;{)]*)")
_LONGEST_INVOCATION = 8  # lines
# A macro on its own line that may define something else; the words behind it are a whole declaration.
_MACRO = re.compile(r"(?!__|_?[aA]lign)\w+\s*\([^()]*\)[^\S\n]*\n\s*(?:\w+[\s*&]+)+$")
_OF_FILE = re.compile(r"copyright|spdx-license|all rights reserved", re.IGNORECASE)
# Lines for tools.
_DIRECTIVE = re.compile(
    r"\s*(?:clang-format\b|NOLINT|NOSONAR|IWYU pragma|cppcheck-|coverity\[|[LG]COVR?_EXCL|@formatter:|\*?INDENT-O)"
)
_FORTRAN_DIRECTIVE = re.compile(r"\s*[!cC*]\w*\$")


class _Function(NamedTuple):
    """A function that is defined or declared.

    Attributes:
        line: of its name, from 1.
        start: the line in which it begins, from 0.
        is_first: nothing that may have the comment stands in front of it.
        parameters: in C; None if that is not known.
    """

    name: str
    is_defined: bool
    line: int
    start: int
    is_first: bool = True
    parameters: str | None = None


class Comments:
    """The comments above the functions of a source.

    Args:
        text: the source.
        is_fortran: it is in Fortran; else in a language of C.
    """

    def __init__(self, text: str, *, is_fortran: bool) -> None:
        self._lines = text.split("\n")
        self._is_fortran = is_fortran
        self._comments: Mapping[int, tuple[int, str]] = {}  # of C, by the line in which each ends
        self._code: Sequence[str] = ()
        self._has_conditions = False
        self._defined: dict[str, list[_Function]] = {}
        self._declared: dict[str, list[_Function]] = {}
        if is_fortran:
            self._has_conditions = any(map(_CONDITION.match, self._lines))
            found = _procedures(self._lines)
        else:
            code, self._comments, conditions = _without_comments(text)
            self._code, self._has_conditions = code.split("\n"), bool(conditions)
            found = _functions_of_c(code, self._comments, conditions)
        for function in found:
            of_name = self._defined if function.is_defined else self._declared
            of_name.setdefault(function.name, []).append(function)

    def of(self, name: str, line: int = 0) -> str | None:
        """The comment that ends in the line above the definition of a function; if there is none, the one
        above a declaration in the source that no `#if` leaves out. It is without what marks it as a comment;
        "" without one, or where several functions have the name. None: the source does not define it.

        Args:
            name: without its namespaces or module.
            line: of the definition, from 1; 0: not known.
        """
        found = self._defined.get(name, [])
        if line:
            there = [f for f in found if f.line == line] or self._made_by_macro(name, line)
            found = there or ([] if self._has_conditions else found)
        if not found:
            return None
        if len(found) > 1:
            return ""
        comment = self._above(found[0])
        if not comment:
            declared = (f for f in self._declared.get(name, ()) if _may_be_same(f, found[0]))
            others = {other for f in declared if (other := self._above(f))}
            comment = others.pop() if len(others) == 1 else ""
        return comment

    def _made_by_macro(self, name: str, line: int) -> list[_Function]:
        """The function that a macro makes in a line, or whose name is there in another way that is not read."""
        code = "\n".join(self._code[line - 1 : line - 1 + _LONGEST_INVOCATION])
        invocation = _INVOCATION.match(code)
        words = re.findall(r"\w+", invocation[1]) if invocation else ()
        is_there = re.search(rf"\b{re.escape(name)}\s*\(", code.partition("\n")[0])
        is_made = is_there or any(word in name for word in words)
        return [_Function(name, True, line, line - 1)] if is_made else []

    def _above(self, function: _Function) -> str:
        if not function.is_first:
            return ""
        comment = (
            _fortran_comment(self._lines, function.start)
            if self._is_fortran
            else _c_comment(self._lines, self._comments, function.start)
        )
        lines = (line for line in comment.split("\n") if not _DIRECTIVE.match(line))
        comment = "\n".join(lines)
        comment = "".join(c if c.isprintable() or c == "\n" else " " for c in comment).strip()
        return "" if _OF_FILE.search(comment) else comment[:LONGEST]


def _may_be_same(declared: _Function, defined: _Function) -> bool:
    """True if a declaration may be that of a function, and not of another of C++ that has its name: the
    parameters have the same types, with or without names."""
    if declared.parameters is None or defined.parameters is None:
        return True
    both = [split(parameters) for parameters in (declared.parameters, defined.parameters)]
    return len(both[0]) == len(both[1]) and all(
        not _spellings(a).isdisjoint(_spellings(b)) for a, b in zip(*both)
    )


def _spellings(parameter: str) -> set[str]:
    """The words of a parameter, with the last one, which may be its name, and without."""
    words = re.findall(r"\w+|[*&]", parameter)
    names = [i for i, word in enumerate(words) if word.isidentifier()]
    unnamed = words[: names[-1]] + words[names[-1] + 1 :] if names else []
    return {" ".join(words), " ".join(unnamed)} - {""}


# -- C ---------------------------------------------------------------------------------------------


def _functions_of_c(
    code: str, comments: Mapping[int, tuple[int, str]], conditions: Sequence[tuple[int, int]]
) -> Iterator[_Function]:
    """The functions of a text, of which see `_without_comments`; no declarations that an `#if` may leave
    out."""
    line = counted = depth = at = 0
    for named, before, end in _functions(code):
        while at < len(conditions) and conditions[at][0] < end:
            depth += conditions[at][1]
            at += 1
        is_defined = code[end] == "{"
        if depth > 0 and not is_defined:
            continue
        head = code[before : named.start]
        start = named.start - len(head.lstrip())
        line += code.count("\n", counted, start)
        counted = start
        of_name = line + code.count("\n", start, named.start)
        # Behind a macro that is no part of the function.
        inner = [i + 1 for i in range(line, of_name) if i in comments]
        is_unclear = not inner and _MACRO.match(code, start, named.start)
        is_first = not is_unclear and (not before or "\n" in code[before:start])
        first = (inner or [line])[-1]
        parameters = code[named.parameters : named.end - 1]
        yield _Function(named.name, is_defined, of_name + 1, first, is_first, parameters)


def _without_comments(
    text: str,
) -> tuple[str, dict[int, tuple[int, str]], list[tuple[int, int]]]:
    """Code with marks where it has texts, and with neither comments nor directives; the comments, by the
    lines in which they end, with those in which they begin, none of a line that has code, too; and the places
    of `#if`, with 1, and of `#endif`, with -1."""
    spans = []
    conditions = []

    def blank(found: re.Match[str]) -> str:
        first = found[0].lstrip()[:1]
        if first.isdigit():
            return found[0]
        if first == "/":
            spans.append(found.span())
        if condition := _CONDITION.match(found[0]):
            conditions.append((found.start(), 1 if condition[1] == "if" else -1))
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
    return code, comments, conditions


class _Call(NamedTuple):
    """A name, "" without, and what stands in parentheses behind it: where the name, that and what follows
    start."""

    name: str
    start: int
    parameters: int
    end: int


def _functions(code: str) -> Iterator[tuple[_Call, int, int]]:
    """The functions that are defined, and those that are declared outside of classes: name and parameters,
    the end of what stands in front, and the place of the `{` or `;` behind."""
    calls: list[_Call] = []  # since `before`
    before = at = body = depth = 0
    classes = 0  # braces around that are none of a namespace, with all in them
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
                calls.append(_Call(found[1] or "", found.start(), at, at))
            depth += 1
        elif mark == ")":
            if depth == 1:
                calls[-1] = calls[-1]._replace(end=at)
            depth = max(depth - 1, 0)
        else:
            named = None if depth or mark == "}" else _named(code, calls, before, at - 1)
            if named and (mark == "{" or not classes):
                yield named, before, at - 1
            if mark == "{" and named:
                body = 1
            elif mark == "{" and (classes or not _NAMESPACE.search(code, before, at)):
                classes += 1
            elif mark == "}" and classes:
                classes -= 1
            calls, depth, before = [], 0, at


def _named(code: str, calls: Sequence[_Call], before: int, end: int) -> _Call | None:
    """The function whose code starts, or whose declaration ends, at `end`; None if that is something else."""

    def reaches(i: int, end: int) -> bool:
        found = _BEHIND.match(code, calls[i].end, end)
        return found is not None and found.end() == end

    i = len(calls) - 1
    if i < 0 or not reaches(i, end):
        return None
    while i and _BEHIND_CALL.fullmatch(calls[i].name) and reaches(i - 1, calls[i].start):
        i -= 1
    head = code[before : calls[i].start].strip()
    is_initializer = head.endswith((",", "=", ":")) and not head.endswith("::")
    is_declared = code[end] == "{" or (head and not _NO_DECLARATION.search(head))
    return calls[i] if calls[i].name and is_declared and not is_initializer else None


def _c_comment(lines: Sequence[str], comments: Mapping[int, tuple[int, str]], line: int) -> str:
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


def _procedures(lines: Sequence[str]) -> Iterator[_Function]:
    """Procedures, but for those that an interface declares."""
    is_interface = False
    for i, line in enumerate(lines):
        if found := _INTERFACE.match(line):
            is_interface = not (found[1] or "").lower().startswith("end")
        elif not is_interface and (found := _FORTRAN.match(line)):
            yield _Function(found[1].lower(), True, i + 1, i)


def _fortran_comment(lines: Sequence[str], end: int) -> str:
    start = end
    while start and re.match(r"\s*!|[cC*](?:\s|\w*\$|$)", lines[start - 1]):
        start -= 1
    return "\n".join(
        re.sub(r"^\s*!+[<>]?\ ?|^[cC*]\ ?", "", line).rstrip()
        for line in lines[start:end]
        if not _FORTRAN_DIRECTIVE.match(line)
    )
