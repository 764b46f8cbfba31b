"""Expressions: operator precedence over a stack of brackets, so that no nesting is too deep."""

from __future__ import annotations

from dataclasses import dataclass, field

from packager.vector_c.operations import Operand, Operations
from packager.vector_c.scope import Known, Names
from packager.vector_c.types import Type

_BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, ">": 10, "<=": 10, ">=": 10,
    "==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_PREFIX = ("+", "-", "~", "!", "*", "&", "++", "--", "&&")
_UNARY, _CONDITIONAL, _ASSIGNMENT = 14, 3, 2
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_UNEVALUATED = ("sizeof", "_Alignof", "alignof", "__alignof__", "decltype", "typeof", "__typeof__", "__typeof")
_QUALIFIERS = ("const", "volatile", "restrict", "__restrict", "__restrict__", "struct", "union", "enum", "signed")


@dataclass
class Operator:
    """An operator that waits for its right operand.

    Attributes:
        kind: "binary", "prefix", "cast", "?" or "?:".
        text: as written; of a cast "".
        at: its token; of a cast the opening parenthesis.
        end: of a cast the closing parenthesis, of "?:" the colon.
        type: what a cast casts to.
    """

    kind: str
    text: str
    at: int
    end: int = 0
    type: Known = None

    @property
    def precedence(self) -> int:
        if self.kind in ("prefix", "cast"):
            return _UNARY
        if self.kind == "binary":
            return _BINARY.get(self.text, _ASSIGNMENT)
        return _CONDITIONAL


@dataclass
class Frame:
    """An open bracket, or the whole expression.

    Attributes:
        kind: "top", "group", "call", "index", "construct" or "braces".
        opening: its token.
        callee: what is called or indexed.
        type: of a constructor, and of braces behind a cast.
        operands, operators: what is not yet reduced.
        items, commas: what stood before the commas.
    """

    kind: str
    opening: int
    callee: Operand | None = None
    type: Known = None
    operands: list[Operand] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    items: list[Operand] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)
    wants_operand: bool = True


class Expressions:
    """Reads expressions and rewrites those on vectors.

    Args:
        operations: does the rewriting.
        names: what names mean where the expression stands.
    """

    def __init__(self, operations: Operations, names: Names) -> None:
        self._do = operations
        self._tokens = operations.tokens
        self._names = names

    def read(self, at: int, stops: tuple[str, ...]) -> tuple[Operand | None, int]:
        """Read from token `at` to a token of `stops` outside of brackets.

        Returns:
            the expression, None if there is none, and the index of the stop; past the end where the text ends first.
        """
        frames = [Frame("top", at)]
        while at < len(self._tokens):
            text = self._tokens[at].text
            frame = frames[-1]
            if frame.kind == "top" and text in stops and not (text == ":" and self._open_question(frame)):
                break
            if frame.kind == "top" and text in (")", "]", "}"):
                break
            at = self._operand(frames, at) if frame.wants_operand else self._operator(frames, at)
        while len(frames) > 1:  # a bracket that nothing closes is the compiler's to report
            frames.pop()
        return self._reduced(frames[0]), at

    @staticmethod
    def _open_question(frame: Frame) -> bool:
        return any(o.kind == "?" for o in frame.operators)

    # -- where an operand may begin ---------------------------------------------------------------------

    def _operand(self, frames: list[Frame], at: int) -> int:
        token, frame = self._tokens[at], frames[-1]
        text = token.text
        if token.kind == "name":
            return self._name(frames, at)
        if token.kind in ("number", "string"):
            return self._push(frame, Operand(at, at), at + 1)
        if text == "(":
            found = self._cast(at)
            if found is None:
                frames.append(Frame("group", at))
                return at + 1
            t, closing = found
            if self._text(closing + 1) == "{":
                frames.append(Frame("braces", closing + 1, type=t, callee=Operand(at, closing)))
                return closing + 2
            frame.operators.append(Operator("cast", "", at, closing, t))
            return closing + 1
        if text in ("{", "["):
            frames.append(Frame("braces" if text == "{" else "group", at))
            return at + 1
        if text in _PREFIX:
            frame.operators.append(Operator("prefix", text, at))
            return at + 1
        return self._separator(frames, at)

    def _name(self, frames: list[Frame], at: int) -> int:
        text, frame = self._tokens[at].text, frames[-1]
        if text in ("__extension__", "return", "const", "volatile"):
            return at + 1
        if text in _UNEVALUATED and self._text(at + 1) == "(":
            closing = self._matching(at + 1)
            return self._push(frame, Operand(at, closing), closing + 1)
        if text == "sizeof":  # of an expression without brackets
            frame.operators.append(Operator("prefix", text, at))
            return at + 1
        t = self._names.type_named(text) if not self._names.variable_known(text) else None
        if t is not None and t.is_vector and self._text(at + 1) == "(":
            frames.append(Frame("construct", at, type=t, callee=Operand(at, at)))
            return at + 2
        return self._push(frame, Operand(at, at, self._names.variable(text), text), at + 1)

    @staticmethod
    def _push(frame: Frame, operand: Operand, at: int) -> int:
        frame.operands.append(operand)
        frame.wants_operand = False
        return at

    # -- where an operator may stand --------------------------------------------------------------------

    def _operator(self, frames: list[Frame], at: int) -> int:
        token, frame = self._tokens[at], frames[-1]
        text, last = token.text, frame.operands[-1]
        if text in ("(", "["):
            frames.append(Frame("call" if text == "(" else "index", at, callee=frame.operands.pop()))
            return at + 1
        if text in (".", "->") and self._tokens[min(at + 1, len(self._tokens) - 1)].kind == "name":
            member = self._names.fields.get(self._text(at + 1))
            frame.operands[-1] = self._do.member(last, at + 1, member)
            return at + 2
        if text in ("++", "--"):
            frame.operands[-1] = self._do.postfix(text, last, at)
            return at + 1
        if text in _BINARY:
            self._reduce(frame, _BINARY[text])
            frame.operators.append(Operator("binary", text, at))
        elif text in _ASSIGNMENTS:
            self._reduce(frame, _ASSIGNMENT + 1)
            frame.operators.append(Operator("binary", text, at))
        elif text == "?":
            self._reduce(frame, _CONDITIONAL + 1)
            frame.operators.append(Operator("?", text, at))
        elif text == ":" and self._open_question(frame):
            while frame.operators[-1].kind != "?":
                self._apply(frame)
            question = frame.operators[-1]
            question.kind, question.end = "?:", at
        elif text == "::":
            frame.operands[-1] = Operand(last.first, min(at + 1, len(self._tokens) - 1))
            return at + 2
        elif token.kind == "string" and self._tokens[last.last].kind == "string":
            last.last = at
            return at + 1
        else:
            return self._separator(frames, at)
        frame.wants_operand = True
        return at + 1

    # -- brackets and separators ------------------------------------------------------------------------

    def _separator(self, frames: list[Frame], at: int) -> int:
        """A token that ends what stands before it."""
        frame, text = frames[-1], self._tokens[at].text
        operand = self._reduced(frame)
        if text in (")", "]", "}"):
            if frame.kind != "top":
                self._close(frames, at, operand)
            return at + 1
        if text == "," and frame.kind != "top":
            if operand is not None:
                frame.items.append(operand)
            frame.commas.append(at)
            return at + 1
        if text in (",", ";", ":") or self._tokens[at].kind == "mark":
            return at + 1
        return at  # two operands in a row: a macro, or C++ that we need not understand

    def _close(self, frames: list[Frame], at: int, operand: Operand | None) -> None:
        frame = frames.pop()
        if operand is not None:
            frame.items.append(operand)
        outer = frames[-1]
        made = Operand(frame.opening, at)
        if frame.kind == "group":
            made = self._group(frame, outer, at)
        elif frame.kind == "index" and frame.callee is not None:
            made = self._do.subscript(frame.callee, frame.opening, at)
        elif frame.kind == "construct" and isinstance(frame.type, Type):
            made = self._do.construct(frame.type, frame.opening, frame.opening, at, frame.items)
        elif frame.kind == "call" and frame.callee is not None:
            signature = self._names.functions.get(frame.callee.name)
            marks = [frame.opening, *frame.commas, at]
            made = self._do.call(frame.callee, signature, marks, frame.items)
        elif frame.callee is not None:  # braces behind a cast
            made = Operand(frame.callee.first, at, frame.type)
        self._push(outer, made, at)

    def _group(self, frame: Frame, outer: Frame, at: int) -> Operand:
        """Parentheses; behind a cast to a vector they may hold its lanes."""
        cast = outer.operators[-1] if outer.operators and outer.wants_operand else None
        t = cast.type if cast is not None and cast.kind == "cast" and cast.end + 1 == frame.opening else None
        if cast is not None and t is not None and t.is_vector and len(frame.items) > 1:
            outer.operators.pop()
            return self._do.construct(t, cast.at, cast.end, at, frame.items)
        made = Operand(frame.opening, at)
        if frame.items and len(frame.items) == len(frame.commas) + 1:
            made.type, made.picked = frame.items[-1].type, frame.items[-1].picked
        return made

    # -- reduction --------------------------------------------------------------------------------------

    def _reduced(self, frame: Frame) -> Operand | None:
        """Everything of a frame since the last comma, as one operand; the frame is ready for the next."""
        if frame.wants_operand and frame.operators:  # an operator without operand: not ours
            frame.operators.clear()
            frame.operands.clear()
        while frame.operators:
            if frame.operators[-1].kind == "?":
                frame.operators.clear()
                break
            self._apply(frame)
        operand = frame.operands[-1] if frame.operands else None
        frame.operands.clear()
        frame.wants_operand = True
        return operand

    def _reduce(self, frame: Frame, precedence: int) -> None:
        """Apply the operators that bind at least as tightly."""
        while frame.operators and frame.operators[-1].kind != "?" and frame.operators[-1].precedence >= precedence:
            self._apply(frame)

    def _apply(self, frame: Frame) -> None:
        operator = frame.operators.pop()
        b = frame.operands.pop()
        if operator.kind == "cast":
            made = self._do.cast(operator.type, operator.at, operator.end, b)
        elif operator.kind == "prefix":
            made = self._do.prefix(operator.text, operator.at, b)
        else:
            a = frame.operands.pop()
            if operator.kind == "?:":
                made = self._do.conditional(frame.operands.pop(), operator.at, a, operator.end, b)
            elif operator.text in _ASSIGNMENTS:
                made = self._do.assign(operator.text, a, operator.at, b)
            else:
                made = self._do.binary(operator.text, a, operator.at, b)
        frame.operands.append(made)

    # -- looking ahead ----------------------------------------------------------------------------------

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _matching(self, opening: int) -> int:
        """The bracket that closes the one at `opening`; the last token if none does."""
        depth = 0
        for i in range(opening, len(self._tokens)):
            text = self._tokens[i].text
            depth += (text in _CLOSING) - (text in _CLOSING.values())
            if depth == 0:
                return i
        return len(self._tokens) - 1

    def _cast(self, opening: int) -> tuple[Known, int] | None:
        """The type between parentheses and the closing one, None if what they hold is no type."""
        at, found, certain, words = opening + 1, None, False, 0
        while at < len(self._tokens) and self._tokens[at].kind == "name":
            text = self._tokens[at].text
            if text in _QUALIFIERS:
                certain = True
            else:
                words += 1
                certain = certain or self._names.is_type(text)
                found = found or self._names.type_named(text)
                if self._names.variable_known(text):
                    return None
            at += 1
        if words == 0:
            return None
        stars = 0
        while self._text(at) == "*" or self._text(at) in _QUALIFIERS:
            stars += self._text(at) == "*"
            at += 1
        if self._text(at) != ")":
            return None
        after = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        if not certain and not stars and (after is None or after.kind == "mark"):
            return None  # (name) before an operator: an expression in parentheses
        if words > 1:  # unsigned int, long long: no lane type that we follow
            found = None
        return (found.pointer(stars) if found is not None else None), at
