"""Declarations as C writes them, read into types: `float4 (*table[2])(float4 *, int)`.

Reading changes nothing, so that it may also be tried: where no declaration stands the answer is
None. Nothing recurses but lists of parameters within lists of parameters, to a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mblob.packager.compile.vector_c.scope import Names
from mblob.packager.compile.vector_c.specifiers import SpecifierReader, Specifiers
from mblob.packager.compile.vector_c.tokens import (
    ATTRIBUTES,
    BEFORE_EXPRESSIONS,
    QUALIFIERS,
    RECORDS,
    Token,
    past_brackets,
)
from mblob.packager.compile.vector_c.types import Function, Known, Pointer

_DEEPEST = 64  # lists of parameters within each other; C asks compilers for 12 declarators
_BEHIND_FUNCTIONS = ("const", "volatile", "noexcept", "override", "final", "throw", "&", "&&")


@dataclass
class Parameters:
    """The parameters between the parentheses of a function.

    Attributes:
        names: those that have one.
        variadic: more may follow.
        defaults: of C++, where the values begin that parameters have.
        plain: every parameter is one word, as where their types are declared behind the
            parentheses.
        end: the token behind the parentheses.
        result, has_result: what stands behind `->`.
    """

    types: list[Known] = field(default_factory=list)
    names: dict[str, Known] = field(default_factory=dict)
    variadic: bool = False
    defaults: list[tuple[int, Known]] = field(default_factory=list)
    plain: bool = True
    end: int = 0
    result: Known = None
    has_result: bool = False


@dataclass
class _Level:
    """The part of a declarator outside of its innermost parentheses, or inside of one pair."""

    pointers: int = 0
    suffixes: list[Parameters | None] = field(default_factory=list)  # None is an array


@dataclass
class Declarator:
    """A name with its type.

    Attributes:
        name: "" where none is declared.
        type: its type.
        end: the token behind.
        bounds: the opening brackets of arrays.
        parameters: if a function is declared, its own.
    """

    name: str
    type: Known
    end: int
    bounds: list[int]
    parameters: Parameters | None


class Declarations:
    """Reads declarations.

    Args:
        tokens: of the source.
        names: what names mean at the place that is read.
        type_of: the type of the expression at a token.
    """

    def __init__(self, tokens: list[Token], names: Names, type_of: Callable[[int], Known]) -> None:
        self._tokens = tokens
        self._names = names
        self._type_of = type_of
        self._specifiers = SpecifierReader(tokens, names, self._typeof)
        self._depth = 0

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].kind == "name"

    def specifiers(self, at: int, guess: bool = True) -> Specifiers | None:
        """As of `SpecifierReader.read`."""
        return self._specifiers.read(at, guess)

    def past_template(self, opening: int) -> int:
        """As of `SpecifierReader.past_template`."""
        return self._specifiers.past_template(opening)

    def _typeof(self, opening: int) -> Known:
        found = self.type_name(opening + 1)
        if found is not None and self._text(found[1]) == ")":
            return found[0]
        return self._type_of(opening + 1)

    # -- declarators -------------------------------------------------------------------------------

    def declarator(self, at: int, base: Known) -> Declarator | None:
        """Read `(*name[2])(float4)` behind specifiers; the name may be missing."""
        levels = [_Level()]
        bounds: list[int] = []
        made = Specifiers(base, at)
        while True:
            at = self._pointers(at, levels[-1], made)
            if self._text(at) != "(" or not self._groups(at):
                break
            levels.append(_Level())
            at += 1
        name = ""
        if self._is_name(at) and self._text(at) not in RECORDS:
            name, at = self._declared_name(at)
        for inner in range(len(levels) - 1, -1, -1):
            at = self._suffixes(at, levels[inner], bounds, made)
            if inner:
                if self._text(at) != ")":
                    return None
                at += 1
        nearest = next(
            (level for level in reversed(levels) if level.suffixes or level.pointers), levels[0]
        )
        own = nearest.suffixes[0] if nearest.suffixes else None
        return Declarator(name, _derived(made.type, levels), at, bounds, own)

    def _declared_name(self, at: int) -> tuple[str, int]:
        """The name, without what a class has before it; `operator` with its marks."""
        name = self._text(at)
        while self._text(at + 1) == "::" and self._is_name(at + 2):
            at += 2
            name = self._text(at)
        at += 1
        if name == "operator":
            while at < len(self._tokens) and self._text(at) != "(":
                at += 1
            if self._text(at + 1) == ")" and self._text(at + 2) == "(":
                at += 2
        return name, at

    def _pointers(self, at: int, level: _Level, made: Specifiers) -> int:
        """Past stars, references and qualifiers before a name."""
        while True:
            text = self._text(at)
            if text == "*":
                level.pointers += 1
            elif text in ATTRIBUTES and self._text(at + 1) == "(":
                at = self._specifiers.attribute(at, made)
                continue
            elif self._is_name(at) and self._text(at + 1) == "::" and self._text(at + 2) == "*":
                at += 1  # a pointer to a member
            elif text not in ("&", "&&", "...") and text not in QUALIFIERS:
                return at
            at += 1

    def _groups(self, opening: int) -> bool:
        """True if parentheses before a name hold a declarator, not parameters."""
        text = self._text(opening + 1)
        if self._is_name(opening + 1) and self._text(opening + 2) == "::":
            return True
        if text in ATTRIBUTES:
            return True
        if self._is_name(opening + 1):
            return text not in QUALIFIERS and text not in RECORDS and not self._names.is_type(text)
        return text in ("*", "&", "&&", "(", "[", "^")

    def _suffixes(self, at: int, level: _Level, bounds: list[int], made: Specifiers) -> int:
        """Past brackets of arrays, parameters and attributes behind a name."""
        while True:
            text = self._text(at)
            if text == "[":
                bounds.append(at)
                level.suffixes.append(None)
                at = past_brackets(self._tokens, at)
            elif text == "(":
                found = self.parameters(at)
                if found is None:
                    return at
                level.suffixes.append(found)
                at = self._behind_parameters(found)
            elif text in ATTRIBUTES and self._text(at + 1) == "(":
                at = self._specifiers.attribute(at, made)
            else:
                return at

    def _behind_parameters(self, found: Parameters) -> int:
        """Past what C++ writes behind them: qualifiers, and a result."""
        at = found.end
        while self._text(at) in _BEHIND_FUNCTIONS:
            at += 1
            if self._text(at) == "(":
                at = past_brackets(self._tokens, at)
        if self._text(at) == "->":
            result = self.type_name(at + 1)
            if result is not None:
                found.result, at = result
                found.has_result = True
        return at

    def parameters(self, opening: int) -> Parameters | None:
        """The parameters of a function, None if the parentheses hold something else."""
        if self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._parameters(opening + 1)
        finally:
            self._depth -= 1

    def _parameters(self, at: int) -> Parameters | None:
        made = Parameters()
        if self._text(at) == ")":
            made.end, made.variadic = at + 1, True
            return made
        if self._text(at) == "void" and self._text(at + 1) == ")":
            made.end, made.plain = at + 2, False
            return made
        while True:
            if self._text(at) == "...":
                made.variadic = True
                at += 1
            else:
                end = self._parameter(at, made)
                if end is None:
                    return None
                at = end
            if self._text(at) == ")":
                made.end = at + 1
                return made
            if self._text(at) != ",":
                return None
            at += 1

    def _parameter(self, at: int, made: Parameters) -> int | None:
        """Read one; where it ends."""
        found = self.specifiers(at)
        if found is None:
            if not (self._outside() and self._is_name(at) and self._text(at + 1) in (",", ")")):
                return None
            if self._names.variable_known(self._text(at)):
                return None
            # a type that nothing declares, or a name whose type comes later
            found = Specifiers(None, at + 1)
        else:
            made.plain = False
        if found.has_body:  # a struct that is declared for this function only
            found.end, found.type = past_brackets(self._tokens, found.end), None
        declared = self.declarator(found.end, found.type)
        if declared is None:
            return None
        made.types.append(declared.type)
        if declared.name:
            made.names[declared.name] = declared.type
        at = declared.end
        if self._text(at) == "=":
            made.defaults.append((at + 1, declared.type))
            while at < len(self._tokens) and self._text(at) not in (",", ")", ";"):
                at = past_brackets(self._tokens, at)
        return at

    def _outside(self) -> bool:
        """Outside of functions parentheses behind a name hold parameters, whatever names they
        hold."""
        return self._names.scopes[-1].kind in ("file", "record")

    # -- names of types ----------------------------------------------------------------------------

    def type_name(self, at: int) -> tuple[Known, int] | None:
        """The type that stands alone, as in casts and behind sizeof, and the token behind; None if
        none does."""
        found = self.specifiers(at, guess=False)
        if found is None:
            return None
        if found.has_body:
            found.end = past_brackets(self._tokens, found.end)
        declared = self.declarator(found.end, found.type)
        if declared is None or declared.name:
            return None
        return declared.type, declared.end

    def in_parentheses(self, opening: int) -> tuple[Known, int] | None:
        """The type between parentheses, as of a cast, and the closing one; None if they hold
        something else."""
        found = self.type_name(opening + 1)
        if found is not None and self._text(found[1]) == ")" and not isinstance(found[0], Function):
            return found
        return self._unknown_in_parentheses(opening)

    def _unknown_in_parentheses(self, opening: int) -> tuple[Known, int] | None:
        """`(name *)`, or `(name)` before an operand: a cast to a type that nothing here
        declares."""
        at = opening + 1
        text = self._text(at)
        if not self._is_name(at) or self._names.variable_known(text) or self._names.is_type(text):
            return None
        if text in BEFORE_EXPRESSIONS or text in QUALIFIERS:
            return None
        at = self._specifiers.past_qualified(at)
        level = _Level()
        at = self._pointers(at, level, Specifiers(None, at))
        if self._text(at) != ")":
            return None
        after = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        if not level.pointers and (after is None or after.kind == "mark"):
            return None
        return _derived(None, [level]), at


def _derived(t: Known, levels: list[_Level]) -> Known:
    """The type of a declarator's name, from the outside of its parentheses to the inside."""
    for level in levels:
        for _ in range(level.pointers):
            t = Pointer(t)
        for suffix in reversed(level.suffixes):
            if suffix is None:
                t = Pointer(t)
            else:
                result = suffix.result if suffix.has_result else t
                t = Function(result, suffix.types, suffix.variadic or suffix.plain)
    return t
