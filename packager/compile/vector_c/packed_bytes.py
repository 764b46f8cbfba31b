"""Byte vectors gathered lane by lane, which TVM writes as if they were packed into one integer.

For lanes of 8 bits its generator prints `((0x000000ff << 0) & (x << 0))|((0x000000ff << 8) & (y <<
8))|...` without parentheses around it (codegen_c.cc, PrintVecElemLoadExpr). What is meant is
`int8_t4(x, y, ...)`.
"""

from __future__ import annotations

from mblob.packager.compile.vector_c.tokens import Token

_HEAD = ("(", "(", "0x000000ff", "<<", None, ")", "&", "(")


def unpack(tokens: list[Token]) -> list[Token]:
    """The tokens with each such chain as a constructor of as many lanes."""
    if not any(t.text == "0x000000ff" for t in tokens):
        return tokens
    texts = [t.text for t in tokens]
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        terms = _terms(texts, i)
        if len(terms) < 2:
            result.append(tokens[i])
            i += 1
            continue
        signed = not _is_unsigned(texts, terms[0])
        i = _construct(tokens, i, terms, "int8_t" if signed else "uint8_t", result)
    return result


def _terms(texts: list[str], at: int) -> list[tuple[int, int]]:
    """The start and end of each value of a chain that starts at `at`; [] if none starts there."""
    found: list[tuple[int, int]] = []
    while len(found) < 16:
        end = _term_end(texts, at, 8 * len(found))
        if end is None:
            break
        found.append((at + len(_HEAD), end))
        if texts[end + 4 : end + 5] != ["|"]:
            break
        at = end + 5
    return found


def _term_end(texts: list[str], at: int, shift: int) -> int | None:
    """The end of the value in the term at `at`, None if there is no term with this shift."""
    head = texts[at : at + len(_HEAD)]
    wanted = [str(shift) if part is None else part for part in _HEAD]
    if head != wanted:
        return None
    depth = 1
    for i in range(at + len(_HEAD), len(texts)):
        depth += {"(": 1, ")": -1}.get(texts[i], 0)
        if depth == 0:
            return i - 2 if texts[i - 2 : i + 2] == ["<<", str(shift), ")", ")"] else None
    return None


def _is_unsigned(texts: list[str], value: tuple[int, int]) -> bool:
    """True if the bytes come from an array of uint8_t: by the cast in the value, or by the array's
    declaration."""
    words = texts[value[0] : value[1]]
    for i, word in enumerate(words[:-1]):
        if word in ("uint8_t", "int8_t") and words[i + 1] == "*":
            return word == "uint8_t"
    name = next((w for w in words if w.isidentifier()), "")
    return any(texts[i : i + 3] == ["uint8_t", name, "["] for i in range(len(texts) - 2))


def _construct(
    tokens: list[Token], at: int, terms: list[tuple[int, int]], lane: str, result: list[Token]
) -> int:
    """Append a constructor of the terms to `result`; where the chain ends."""
    chain_end = terms[-1][1] + 4
    marks = {at: f"{lane}{len(terms)}", at + 1: "(", chain_end - 1: ")"}
    marks.update({end + 4: "," for _, end in terms[:-1]})
    values = {i for start, end in terms for i in range(start, end)}
    space = ""
    for i in range(at, chain_end):
        token = tokens[i]
        token.space, space = space + token.space, ""
        if i in marks:
            token.kind = "name" if i == at else "mark"
            token.text = token.out = marks[i]
            result.append(token)
        elif i in values:
            result.append(token)
        else:
            space = token.space  # it may hold line ends
    return chain_end
