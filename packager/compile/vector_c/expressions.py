"""Expressions, by operator precedence.

Nothing recurses: a method that reads a part of an expression is a generator, and yields those that
read the parts of its part (`_run`). So no nesting is too deep.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Generator
from typing import Any

from mblob.named_tuple import NamedTuple
from mblob.packager.compile.vector_c.declarations import Declarations
from mblob.packager.compile.vector_c.names import NameMeaning, Scope
from mblob.packager.compile.vector_c.operations import Operations
from mblob.packager.compile.vector_c.tokens import SIZES, TYPEOF
from mblob.packager.compile.vector_c.types import Known, Pointer, Record, Type
from mblob.packager.compile.vector_c.values import Text, Value

_BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, ">": 10, "<=": 10, ">=": 10,
    "==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_CONDITIONAL, _ASSIGNMENT = 3, 2
_PREFIX = ("+", "-", "~", "!", "*", "&", "++", "--", "&&")
_BEFORE = (*_PREFIX, "__extension__", "return", "const", "volatile")
_BEHIND = ("(", "[", ".", "->", "++", "--", "::")
_CLOSING = (")", "]", "}")
_ENDS = (*_CLOSING, ";", "")
_CASTS = ("static_cast", "const_cast", "reinterpret_cast", "dynamic_cast")
# Of these the arguments are no values.
_UNREAD = (
    "__builtin_offsetof", "offsetof", "__builtin_types_compatible_p", "__builtin_va_start", "__builtin_va_end",
    "va_start", "va_end", "noexcept",
)  # fmt: skip
_VA_ARG = ("__builtin_va_arg", "va_arg")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*")

Reading = Generator["Reading", Any, Any]


class _Cast(NamedTuple):
    """A cast that waits for its operand: its tokens, and its type."""

    first: int
    end: int
    type: Known


class _Items(NamedTuple):
    """The contents of brackets: the values between commas, all text, and the brackets and commas."""

    values: list[Value]
    text: Text
    marks: list[int]


class Expressions(Declarations, Operations):
    """Reads expressions and rewrites those on vectors. `_at` is the token that is read next."""

    _at = 0

    @abstractmethod
    def block(self, opening: int, scope: Scope) -> tuple[Known, int]:
        """Read statements in braces that stand in an expression; the type of the last one, and
        where they end."""

    def type_of(self, at: int) -> Known:
        """The type of the expression that begins at a token; it is rewritten once, however often it
        is asked for."""
        if at not in self._types:
            value, _ = self.read(at, ())
            self._types[at] = value.type if value is not None else None
        return self._types[at]

    def read(
        self, at: int, stops: tuple[str, ...], braces: Known = None
    ) -> tuple[Value | None, int]:
        """Read from token `at` to a token of `stops` outside of brackets, or to a bracket that
        closes.

        Args:
            braces: what an expression in braces initializes.

        Returns:
            the expression behind the last comma, None if there is none, and the index of the stop.
        """
        outer, self._at = self._at, at
        found = _run(self._items(stops, braces))
        end, self._at = self._at, outer
        self.put(at, end, found.text)
        return (found.values[-1] if found.values else None), end

    def read_value(self, at: int, t: Known, stops: tuple[str, ...]) -> tuple[Value | None, int]:
        """Read what something of type `t` is given, and convert it."""
        value, end = self.read(at, stops, braces=t)
        if value is not None and not value.is_braced:
            self.convert(value, t)
        return value, end

    def _items(self, stops: tuple[str, ...] = (), braces: Known = None) -> Reading:
        """Read what commas separate, to a stop or to what closes. What is no expression is left as
        it is: a macro, or C++ that we need not understand."""
        values: list[Value] = []
        text: list[Text] = []
        marks: list[int] = []
        is_begun = False
        while (word := self.word(self._at)) not in stops and word not in _ENDS:
            at = self._at
            if word == ",":
                marks.append(at)
                is_begun = False
            elif word == "{":
                value = yield self._braces(at, at, braces)
                values.append(value)
                text.append(value)
                continue
            else:
                value = yield self._expression(0)
                if self._at > at:
                    if is_begun:
                        values.pop()
                    values.append(value)
                    text.append(value)
                    is_begun = True
                    continue
            text.append(self.mark(at))
            self._at += 1
        return _Items(values, text, marks)

    def _bracketed(self) -> Reading:
        """Read brackets with what they hold. Where nothing closes them the last mark is -1, and they
        hold no values."""
        opening = self._at
        self._at += 1
        found = yield self._items()
        closing = self._at if self.word(self._at) in _CLOSING else -1
        self._at += closing >= 0
        values = found.values if closing >= 0 else []
        return _Items(values, found.text, [opening, *found.marks, closing])

    def _expression(self, least: int) -> Reading:
        """Read operators that bind at least so tightly, with their operands."""
        value = yield self._operand()
        while True:
            at, word = self._at, self.word(self._at)
            level = _ASSIGNMENT if word in _ASSIGNMENTS else _BINARY.get(word, 0)
            if word == "?" and least <= _CONDITIONAL:
                self._at += 1
                chosen = yield self._expression(0)
                if self.word(self._at) != ":":
                    return self._incomplete(value, self.mark(at), chosen)
                colon = self._at
                self._at += 1
                other = yield self._expression(_CONDITIONAL)
                if value.text and chosen.text and other.text:
                    value = self.conditional(value, at, chosen, colon, other)
                else:
                    marks = self.mark(at), self.mark(colon)
                    value = self._incomplete(value, marks[0], chosen, marks[1], other)
            elif level and level >= least:
                self._at += 1
                right = yield self._expression(level + (level != _ASSIGNMENT))
                make = self.assign if level == _ASSIGNMENT else self.binary
                if value.text and right.text:
                    value = make(word, value, at, right)
                else:
                    value = self._incomplete(value, self.mark(at), right)
            else:
                return value

    def _incomplete(self, value: Value, *rest: Text) -> Value:
        """Text that begins with a value and is no expression: nothing is made of it."""
        made = self._plain(value, *rest)
        made.type = Record()
        return made

    # -- operands ----------------------------------------------------------------------------------

    def _operand(self) -> Reading:
        """Read an operand with what stands before and behind it."""
        before: list[_Cast | int] = []
        while True:
            at, word = self._at, self.word(self._at)
            if word == "(" and self.word(at + 1) != "{":
                found = self.in_parentheses(at)
                if found is None or self.word(found[1] + 1) == "{":
                    value = yield self._parenthesis(found, before)
                    break
                before.append(_Cast(at, found[1] + 1, found[0]))
                self._at = found[1] + 1
            elif word in _BEFORE or (word in SIZES and self._sized(at) is None):
                before.append(at)
                self._at += 1
            else:
                primary = self._primary(at, word)
                value = primary if isinstance(primary, Value) else (yield primary)
                break
        if self.word(self._at) in _BEHIND and value.text:
            value = yield self._behind(value)
        for part in reversed(before):
            if isinstance(part, _Cast):
                value = self.cast(part.type, part.first, part.end, value)
            elif self.word(part) in _PREFIX and value.text:
                value = self.prefix(self.word(part), part, value)
            else:
                t = None if self.word(part) in SIZES else value.type
                value = self.value(part, [self.raw(part, part + 1), value], t)
        return value

    def _sized(self, at: int) -> int | None:
        """Past `sizeof(type)`; None if an expression follows."""
        found = self.in_parentheses(at + 1) if self.word(at + 1) == "(" else None
        return found[1] + 1 if found is not None and self.word(found[1] + 1) != "{" else None

    def _skipped(self, at: int, end: int, t: Known = None) -> Value:
        """Tokens that are left as they are; of none the text is ""."""
        self._at = end
        return self.value(at, self.raw(at, end), t) if end > at else Value(at, "", "", t)

    def _parenthesis(self, cast: tuple[Known, int] | None, before: list[_Cast | int]) -> Reading:
        """Read braces behind a cast, or a group; behind a cast to a vector it may hold lanes."""
        at = self._at
        if cast is not None:
            return (yield self._braces(at, cast[1] + 1, cast[0]))
        found = yield self._bracketed()
        last = before[-1] if before else None
        if isinstance(last, _Cast) and len(found.values) > 1:
            t = last.type
            if isinstance(t, Type) and t.is_vector:
                before.pop()
                return self.construct(t, last.first, found.marks, found.values, found.text)
        made = self.value(at, [self.raw(at, at + 1), found.text, self.mark(found.marks[-1])])
        if self.word(found.marks[-1]) == "":
            return self._incomplete(made)
        if found.values:
            v = found.values[-1]
            made.type, made.picked, made.is_copy, made.taken = v.type, v.picked, v.is_copy, v.taken
        return made

    def _primary(self, at: int, word: str) -> Value | Reading:
        """Read what has nothing before or behind it."""
        following = self.word(at + 1)
        if self.tokens[at].kind in ("number", "string"):
            is_text = word[-1] == '"'
            end = at + 1
            while is_text and self.tokens[end].kind == "string":
                end += 1
            return self._skipped(at, end, Pointer(None) if is_text else None)
        if word == "(":  # ({ statements })
            t, end = self.block(at + 1, Scope("block"))
            return self._skipped(at, min(end + 1, len(self.tokens) - 1), t)
        if word == "[":
            return self._lambda(at)
        if not self.is_name(at):
            return self._skipped(at, at)
        if word in SIZES:
            return self._skipped(at, self._sized(at) or at + 1)
        if following == "(" and (word in _UNREAD or word in TYPEOF):
            return self._skipped(at, self.past(at + 1))
        if following == "(" and word in _VA_ARG:
            return self._skipped(at, self.past(at + 1), self._argument_type(at + 1))
        if word == "_Generic" and following == "(":
            return self._generic(at)
        if word in _CASTS and following == "<":
            found = self.type_name(at + 2)
            if found is not None and self.word(found[1]) == ">" and self.word(found[1] + 1) == "(":
                return self._cxx_cast(at, found[1] + 1, found[0])
        if word in self.names.templates and following == "<":
            return self._skipped(at, self.past_template(at + 1))
        t = self.names.type_named(word)
        if isinstance(t, Type) and t.is_vector and following == "(":
            return self._constructed(at, t)
        made = self._skipped(at, at + 1, self.names.variable(word))
        made.name = word
        return made

    def _behind(self, value: Value) -> Reading:
        """Read calls, subscripts, members and steps behind an operand."""
        while True:
            at, word = self._at, self.word(self._at)
            if word in ("(", "["):
                found = yield self._bracketed()
                if word == "(":
                    is_declared = self.names.is_variable(value.name) or self.names.is_type(
                        value.name
                    )
                    value = self.call(value, found.marks, found.values, found.text, is_declared)
                else:
                    closing = found.marks[-1]
                    number = _NUMBER.fullmatch(self.word(at + 1)) if closing == at + 2 else None
                    lane = None
                    if number is not None:
                        lane = int(number[1], 8 if re.fullmatch("0[0-7]+", number[1]) else 0)
                    value = self.subscript(value, at, closing, lane, found.text)
            elif word in (".", "->") and self.is_name(at + 1):
                self._at += 2
                value = self.member(value, at + 1, self.names.fields.get(self.word(at + 1)))
            elif word in ("++", "--"):
                self._at += 1
                value = self.step(word, value, at, behind=True)
            elif word == "::":
                end = at + 1 + (self.word(at + 1) != "")
                if self.word(end) == "<" and self.word(past := self.past_template(end)) == "(":
                    end = past
                value = self._plain(value, self.mark(at), self._skipped(at + 1, end))
            else:
                break
        return value

    # -- what begins with a word or a bracket of its own -------------------------------------------

    def _argument_type(self, opening: int) -> Known:
        """Of `va_arg(list, type)` the type."""
        at = opening + 1
        while self.word(at) not in (",", ")", ";", ""):
            at = self.past(at)
        found = self.type_name(at + 1) if self.word(at) == "," else None
        return found[0] if found is not None else None

    def _constructed(self, at: int, t: Type) -> Reading:
        self._at += 1
        found = yield self._bracketed()
        if not found.values:
            return self._skipped(at, self._at, t)
        return self.construct(t, at, found.marks, found.values, found.text)

    def _generic(self, at: int) -> Reading:
        """Read `_Generic(value, type: value, ...)`; its type is that of the choice for the type of
        the first."""
        self._at += 2
        about = yield self._expression(_ASSIGNMENT)
        parts: list[Text] = [self.raw(at, at + 1), self.mark(at + 1), about]
        chosen: list[Known] = []
        default: Known = None
        while self.word(self._at) == ",":
            found = self.type_name(self._at + 1)
            t, colon = found if found is not None else (None, self._at + 2)
            if self.word(colon) != ":":
                break
            parts += map(self.mark, range(self._at, colon + 1))
            self._at = colon + 1
            value = yield self._expression(_ASSIGNMENT)
            parts.append(value)
            if found is None:
                default = value.type
            elif t is not None and t == about.type:
                chosen.append(value.type)
        rest = yield self._items()
        closing = self._at
        self._at += self.word(closing) == ")"
        parts += [rest.text, self.mark(closing) if self._at > closing else ""]
        return self.value(at, parts, chosen[0] if chosen else default)

    def _cxx_cast(self, at: int, opening: int, t: Known) -> Reading:
        """Read `static_cast<T>(value)`, of which only this makes another vector."""
        self._at = opening
        found = yield self._bracketed()
        is_static = self.word(at) == "static_cast" and found.values != []
        if isinstance(t, Type) and t.is_vector and is_static:
            return self.construct(t, at, found.marks, found.values, found.text)
        marks = self.mark(opening), self.mark(found.marks[-1])
        return self.value(at, [self.raw(at, opening), marks[0], found.text, marks[1]], t)

    def _lambda(self, at: int) -> Value:
        """A function of C++ without name: its body is read as statements."""
        scope = Scope("function")
        end = self.past(at)
        if self.word(end) == "(":
            function = self.parameters(end, None)
            end = self.past(end)
            if function is not None:
                scope.names = {name: NameMeaning(t) for name, t in function[0].names.items()}
        while self.word(end) not in ("{", ";", ")", ",", ""):
            result = self.type_name(end + 1) if self.word(end) == "->" else None
            if result is not None:
                scope.result, end = result
            else:
                end = self.past(end)
        if self.word(end) == "{":
            _, end = self.block(end, scope)
        return self._skipped(at, end)

    def _braces(self, first: int, opening: int, t: Known) -> Reading:
        """Read what initializes a `t`, in braces, and before them the cast that begins at
        `first`."""
        parts: list[Text] = [self.raw(first, opening + 1)]
        self._at = opening + 1
        commas = 0
        while (word := self.word(at := self._at)) not in _ENDS:
            expected, is_designated = _item(t, commas), False
            while word in (".", "["):
                end = at + 2 if word == "." else self.past(at)
                if self.word(end) not in ("=", ".", "["):
                    break
                inside = t if not is_designated else expected
                expected = _member(inside, self.word(at + 1) if word == "." else "")
                is_designated = True
                end += self.word(end) == "="
                parts += map(self.mark, range(at, end))
                self._at = at = end
                word = self.word(at)
            if word == "{":
                parts.append((yield self._braces(at, at, expected)))
            elif word != ",":
                value = yield self._expression(_ASSIGNMENT)
                # A number in braces is a lane, unless it is said to be a member: braces may be left
                # out.
                if value.vector is not None or is_designated:
                    self.convert(value, expected)
                parts.append(value)
            if self._at == at or self.word(self._at) == ",":
                commas += self.word(self._at) == ","
                parts.append(self.mark(self._at))
                self._at += 1
        if self.word(self._at) in _CLOSING:
            parts.append(self.mark(self._at))
            self._at += 1
        made = self.value(first, parts, t)
        made.is_braced = first == opening
        return made


def _item(t: Known, i: int) -> Known:
    """The type of item `i` in braces that initialize a `t`."""
    if isinstance(t, Record):
        return [*t.fields.values(), *([None] * (i + 1))][i]
    return t.to if isinstance(t, Pointer) else None


def _member(t: Known, name: str) -> Known:
    """The type of a member, or of an element if it has no name."""
    if isinstance(t, Record) and name:
        return t.fields.get(name)
    return t.to if isinstance(t, Pointer) and not name else None


def _run(reading: Reading) -> Any:
    """The result of a generator, with those run that it waits for."""
    waiting: list[Reading] = [reading]
    result: Any = None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as done:
            waiting.pop()
            result = done.value
    return result
