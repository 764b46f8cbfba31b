"""Byte vectors gathered lane by lane, which TVM writes as if they were packed into one integer.

For lanes of 8 bits its generator prints `((0x000000ff << 0) & (x << 0))|((0x000000ff << 8) & (y <<
8))|...` without parentheses around it (codegen_c.cc, PrintVecElemLoadExpr). What is meant is
`int8_t4(x, y, ...)`.
"""

from __future__ import annotations

import re

_HEAD = r"\(\s*\(\s*0x000000ff\s*<<\s*{}\s*\)\s*&\s*\("
_TAIL = r"\s*<<\s*{}\s*\)\s*\)$"
_FIRST, _OR = re.compile(_HEAD.format(0)), re.compile(r"\s*\|\s*")
_PARENTHESIS = re.compile(r"[()]")
_POINTER = re.compile(r"\b(u?int8_t)\s*\*")
_WORD = re.compile(r"[^\W\d]\w*")


def unpack(source: str) -> str:
    """The source with each such chain as a constructor of as many lanes. Every line stays."""
    parts: list[str] = []
    at = 0
    for first in _FIRST.finditer(source):
        if first.start() < at:
            continue  # in a chain
        values: list[str] = []
        start = end = first.start()
        while (found := _term(source, start, 8 * len(values))) is not None and len(values) < 16:
            value, end = found
            values.append(value)
            behind = _OR.match(source, end)
            if behind is None:
                break
            start = behind.end()
        if len(values) > 1:
            made = f"{_lane(source, values[0])}{len(values)}({', '.join(values)})"
            lines = source.count("\n", first.start(), end) - made.count("\n")
            parts += (source[at : first.start()], made, "\n" * lines)
            at = end
    return "".join((*parts, source[at:]))


def _term(source: str, at: int, shift: int) -> tuple[str, int] | None:
    """The value of the term with a shift that begins at `at`, and the end of the term; None if there
    is none."""
    head = re.compile(_HEAD.format(shift)).match(source, at)
    if head is None:
        return None
    depth = 2
    for found in _PARENTHESIS.finditer(source, head.end()):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            value = source[head.end() : found.end()]
            tail = re.search(_TAIL.format(shift), value)
            return (value[: tail.start()], found.end()) if tail is not None else None
    return None


def _lane(source: str, value: str) -> str:
    """The type of the bytes: by the cast in the value, or by the declaration of the array."""
    cast = _POINTER.search(value)
    if cast is not None:
        return cast[1]
    name = _WORD.search(value)
    array = name and re.search(rf"\buint8_t\s+{re.escape(name[0])}\s*\[", source)
    return "uint8_t" if array else "int8_t"
