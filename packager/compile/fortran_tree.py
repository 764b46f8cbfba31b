"""Facts about the dummy arguments of procedures, from gfortran's print of what it read
(-fdump-fortran-original): whether they have VALUE, their intents, the bounds of arrays, and the
lengths of texts.

The format may change between its releases: what is not understood is not there.

    Namespace: A-H: (REAL 4) I-N: (INTEGER 4) O-Z: (REAL 4)
    procedure name = scale
      symtree: 'x'           || symbol: 'x'
        type spec : (REAL 8)
        attributes: (VARIABLE  DIMENSION DUMMY(INOUT))
        Array spec:(1 [0] AS_EXPLICIT 1 scale:n )
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Union

from mblob.named_tuple import NamedTuple

# A number, the name of another dummy argument, or an operator with its operands, of which "size" has the name of
# an array and one of its dimensions, 0 of all; "*" is the upper bound of assumed size and the length of a text that
# the caller decides, None what is none of these.
Expression = Union[int, str, "tuple[str, Expression, Expression]", None]


class Dummy(NamedTuple):
    """A dummy argument.

    Attributes:
        intent: "in", "out", "inout", or "" without.
        is_value, is_optional: it has VALUE, OPTIONAL.
        is_pointer: it is a POINTER or ALLOCATABLE.
        bounds: of an array, the lower and the upper one of each dimension.
        is_assumed_shape: the caller tells the bounds, in a descriptor.
        is_contiguous: it is CONTIGUOUS.
        length: of a text, or of each text in an array.
    """

    intent: str = ""
    is_value: bool = False
    is_pointer: bool = False
    bounds: tuple[tuple[Expression, Expression], ...] = ()
    is_optional: bool = False
    length: Expression = None
    is_assumed_shape: bool = False
    is_contiguous: bool = False


# As debug information calls what a function with a text as its result writes to.
RESULT = "__result"
DEPTH = 32  # of an expression in the bounds of an array

_LINE = re.compile(
    r"( *)(Namespace:|procedure name = |symtree: |type spec :|attributes: |Array spec:)(.*)"
)
_SYMBOL = re.compile(r"\|\| symbol: '(\w+)'")
_ATTRIBUTES = re.compile(r"\((.*\bDUMMY(?:\((\w+)\))?.*)\)")
_IS_RESULT = re.compile(r"\(VARIABLE +(?:\w+ +)*RESULT\b.*\)")
_ARRAY = re.compile(r"\((\d+) \[0\] AS_\w+ (.*)\)")
_ABSENT = r"\(arg not-present\)"
_SIZE = re.compile(rf"size\[+\(\((\w+):(\w+)\(FULL\)\) \((?:(\d+)|{_ABSENT})\) \({_ABSENT}\)\)\]+")
_TEXT = re.compile(r"\(CHARACTER (.*)\)")


def read(text: str) -> dict[str, dict[str, Dummy]]:
    """By the names of procedures, with those of their modules in front, their dummy arguments."""
    made: dict[str, dict[str, Dummy]] = {}
    scopes: list[tuple[int, str]] = []
    place = of = symbol = spec = ""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        indent, what, rest = len(found[1]), found[2], found[3].strip()
        if what == "Namespace:":
            scopes = [scope for scope in scopes if scope[0] < indent]
            place = symbol = ""
        elif what.startswith("procedure"):
            scopes.append((indent, rest))
            place = "::".join(name for _, name in scopes)
        elif what == "symtree: ":
            named = _SYMBOL.search(rest)
            symbol = named[1] if named and place else ""
            of = place
        elif not symbol:
            continue
        elif what == "type spec :":
            spec = rest
        elif what == "attributes: ":
            name = place.rpartition("::")[2]
            attributes = _ATTRIBUTES.fullmatch(rest)
            is_own = symbol == name and "FUNCTION" in rest
            if is_own or _IS_RESULT.fullmatch(rest):
                made.setdefault(place, {})[RESULT] = Dummy("out", length=_length(spec, name))
                symbol = RESULT
                continue
            if attributes is None and re.match(r"\(PROCEDURE .*\bDIMENSION FUNCTION\b", rest):
                of, symbol = f"{place}::{symbol}", RESULT  # in the scope of a module
                made.setdefault(of, {}).setdefault(RESULT, Dummy("out"))
                continue
            if attributes is None:
                symbol = ""
                continue
            words = attributes[1].split()
            is_pointer = "POINTER" in words or "ALLOCATABLE" in words
            dummy = Dummy(
                (attributes[2] or "").lower(), "VALUE" in words, is_pointer,
                is_optional="OPTIONAL" in words, length=_length(spec, name),
                is_contiguous="CONTIGUOUS" in words,
            )  # fmt: skip
            made.setdefault(place, {})[symbol] = dummy
        else:
            known = made.get(of, {})
            if symbol in known:
                bounds = _bounds(rest, of.rpartition("::")[2])
                assumed = "AS_ASSUMED_SHAPE" in rest
                known[symbol] = known[symbol]._replace(bounds=bounds, is_assumed_shape=assumed)
    return made


def _tokens(text: str) -> Iterator[str]:
    text = _SIZE.sub(lambda size: f"{size[1]}:{size[2]}:{size[3] or 0}", text)
    return iter(re.findall(r"[()]|[^\s()]+", text))


def _length(spec: str, procedure: str) -> Expression:
    found = _TEXT.fullmatch(spec)
    tokens = _tokens(found[1] if found else "")
    try:
        read = _expression(next(tokens), tokens, procedure, DEPTH)
    except (StopIteration, ValueError):
        return None
    return "*" if found and found[1].startswith("() ") else read


def _bounds(spec: str, procedure: str) -> tuple[tuple[Expression, Expression], ...]:
    found = _ARRAY.fullmatch(spec)
    if found is None:
        return ()
    rank = int(found[1])
    tokens = _tokens(found[2])
    try:
        read = [_expression(token, tokens, procedure, DEPTH) for token in tokens]
    except (StopIteration, ValueError):
        read = []
    if len(read) != 2 * rank:
        return ((None, None),) * rank
    bounds = [*zip(read[::2], read[1::2])]
    if "AS_ASSUMED_SIZE" in spec:
        bounds[-1] = (bounds[-1][0], "*")
    return tuple(bounds)


def _expression(token: str, tokens: Iterator[str], procedure: str, depth: int) -> Expression:
    """One expression, in front of whose operands its operator stands: `(- (parens scale:n) 1)`.

    Raises:
        StopIteration, ValueError: it is none, or deeper than `depth`.
    """
    if re.fullmatch(r"-?\d{1,18}(?:_\d+)?", token):
        return int(token.partition("_")[0])
    if not depth:
        raise ValueError(token)
    if token != "(":
        scope, colon, name = token.partition(":")
        if re.fullmatch(r"\w+:\w+:\d+", token):
            name, _, dimension = name.partition(":")
            return ("size", name, int(dimension)) if scope == procedure else None
        if not re.fullmatch(r"\w+:\w+", token):
            raise ValueError(token)
        return name if colon and scope == procedure else None
    operator = next(tokens)
    if operator == ")":
        return None
    operands: list[Expression] = []
    while (token := next(tokens)) != ")":
        operands.append(_expression(token, tokens, procedure, depth - 1))
    if operator == "parens" and len(operands) == 1:
        return operands[0]
    return (operator, *operands) if len(operands) == 2 else None  # type: ignore[return-value]


_MISTAKE = re.compile(
    r"^(\S[^\n]*:\d+:\d+):\n\n(?:[^\n]*\|[^\n]*\n)+((?:Fatal )?Error: )", re.MULTILINE
)
_NO_MODULE = re.compile(r"Cannot open module file \W(\w+)\.mod\W for reading[^\n]*")


_TREE = re.compile(r"^Namespace:.*?(?=^\S+:\d+:\d+:$|\Z)", re.MULTILINE | re.DOTALL)


def with_places(output: str) -> str:
    """The output of gfortran, with the place of each mistake in the line that tells it, and without
    what it read."""
    output = _MISTAKE.sub(r"\1: \2", _TREE.sub("", output))
    return _NO_MODULE.sub(
        r"Cannot open module file \1.mod; give the source of module \1 before this one", output
    )
