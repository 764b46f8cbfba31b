"""Expressions: operator precedence over a stack of brackets, so that no nesting is too deep."""

from __future__ import annotations

from collections.abc import Callable

from mblob.packager.compile.vector_c.declarators import Declarations
from mblob.packager.compile.vector_c.operand import (
    ASSIGNMENT,
    ASSIGNMENTS,
    BINARY,
    CONDITIONAL,
    PREFIX,
    Frame,
    Operand,
    Operator,
)
from mblob.packager.compile.vector_c.operations import Operations
from mblob.packager.compile.vector_c.scope import Names, Scope
from mblob.packager.compile.vector_c.tokens import SIZES, TYPEOF, past_brackets
from mblob.packager.compile.vector_c.types import Known, Pointer, Record, Type

_CASTS = ("static_cast", "const_cast", "reinterpret_cast", "dynamic_cast")
# Of these the arguments are no values.
_UNREAD = (
    "__builtin_offsetof", "offsetof", "__builtin_types_compatible_p", "__builtin_va_start", "__builtin_va_end",
    "va_start", "va_end", "noexcept",
)  # fmt: skip
_VA_ARG = ("__builtin_va_arg", "va_arg")
Block = Callable[[int, Scope], "tuple[Known, int]"]


class Expressions:
    """Reads expressions and rewrites those on vectors.

    Args:
        operations: does the rewriting.
        names: what names mean where the expression stands.
        block: reads statements in braces, of an expression.
    """

    def __init__(self, operations: Operations, names: Names, block: Block) -> None:
        self._do = operations
        self._tokens = operations.tokens
        self._names = names
        self._block = block
        self._types: dict[int, Known] = {}
        self.declarations = Declarations(operations.tokens, names, self._type_of)

    def _type_of(self, at: int) -> Known:
        """The type of the expression that begins at a token; it is rewritten once, however often it
        is asked for."""
        if at not in self._types:
            value, _ = self.read(at, ())
            self._types[at] = value.type if value is not None else None
        return self._types[at]

    def read(
        self, at: int, stops: tuple[str, ...], braces: Known = None
    ) -> tuple[Operand | None, int]:
        """Read from token `at` to a token of `stops` outside of brackets.

        Args:
            braces: what an expression in braces initializes.

        Returns:
            the expression, None if there is none, and the index of the stop; past the end where the
            text ends first.
        """
        frames = [Frame("top", at, type=Pointer(braces))]
        while at < len(self._tokens):
            text = self._tokens[at].text
            frame = frames[-1]
            if frame.kind == "top" and text in stops and not (text == ":" and frame.has_question):
                break
            if frame.kind == "top" and text in (")", "]", "}"):
                break
            at = self._operand(frames, at) if frame.wants_operand else self._operator(frames, at)
        while len(frames) > 1:  # a bracket that nothing closes is the compiler's to report
            frames.pop()
        return self._reduced(frames[0]), at

    def read_value(self, at: int, t: Known, stops: tuple[str, ...]) -> tuple[Operand | None, int]:
        """Read what something of type `t` is given, and convert it."""
        value, end = self.read(at, stops, braces=t)
        if value is not None and self._tokens[value.first].text != "{":
            self._do.convert(value, t)
        return value, end

    # -- where an operand may begin ----------------------------------------------------------------

    def _operand(self, frames: list[Frame], at: int) -> int:
        token, frame = self._tokens[at], frames[-1]
        text = token.text
        if token.kind == "name":
            return self._name(frames, at)
        if token.kind in ("number", "string"):
            return self._push(
                frame, Operand(at, at, Pointer(None) if text[-1] == '"' else None), at + 1
            )
        if text == "(":
            return self._parenthesis(frames, at)
        if frame.kind == "braces" and text in (".", "["):
            return self._designator(frame, at)
        if text == "[":
            return self._lambda(frame, at)
        if text == "{":
            frames.append(Frame("braces", at, type=self._item_type(frame)))
            return at + 1
        if text in PREFIX:
            frame.operators.append(Operator("prefix", text, at))
            return at + 1
        return self._separator(frames, at)

    def _parenthesis(self, frames: list[Frame], at: int) -> int:
        """A parenthesis that opens a cast, statements, or a group."""
        frame = frames[-1]
        if self._text(at + 1) == "{":
            t, end = self._block(at + 1, Scope("block"))
            return self._push(frame, Operand(at, min(end, len(self._tokens) - 1), t), end + 1)
        found = self.declarations.in_parentheses(at)
        if found is None:
            frames.append(Frame("group", at))
            return at + 1
        t, closing = found
        if self._text(closing + 1) == "{":
            frames.append(Frame("braces", closing + 1, type=t, callee=Operand(at, closing)))
            return closing + 2
        frame.operators.append(Operator("cast", "", at, closing, t))
        return closing + 1

    def _name(self, frames: list[Frame], at: int) -> int:
        text, frame, following = self._tokens[at].text, frames[-1], self._text(at + 1)
        if text in ("__extension__", "return", "const", "volatile"):
            return at + 1
        if text in SIZES:
            found = self.declarations.in_parentheses(at + 1) if following == "(" else None
            if found is not None and self._text(found[1] + 1) != "{":
                return self._push(frame, Operand(at, found[1]), found[1] + 1)
            frame.operators.append(Operator("prefix", text, at))  # of an expression
            return at + 1
        if following == "(" and (text in _UNREAD or text in TYPEOF):
            return self._unread(frame, at, None)
        if following == "(" and text in _VA_ARG:
            return self._unread(frame, at, self._argument_type(at + 1))
        if text == "_Generic" and following == "(":
            frames.append(Frame("generic", at + 1, callee=Operand(at, at)))
            return at + 2
        if frame.kind == "generic" and frame.items and (end := self._choice(frame, at)) is not None:
            return end
        if text in _CASTS and following == "<":
            found = self.declarations.type_name(at + 2)
            if (
                found is not None
                and self._text(found[1]) == ">"
                and self._text(found[1] + 1) == "("
            ):
                frames.append(
                    Frame("cast", found[1] + 1, callee=Operand(at, found[1]), type=found[0])
                )
                return found[1] + 2
        if text in self._names.templates and following == "<":
            end = self.declarations.past_template(at + 1)
            return self._push(frame, Operand(at, end - 1), end)
        t = self._names.type_named(text) if not self._names.variable_known(text) else None
        if isinstance(t, Type) and t.is_vector and following == "(":
            frames.append(Frame("construct", at + 1, type=t, callee=Operand(at, at)))
            return at + 2
        return self._push(frame, Operand(at, at, self._names.variable(text), text), at + 1)

    def _unread(self, frame: Frame, at: int, t: Known) -> int:
        end = past_brackets(self._tokens, at + 1)
        return self._push(frame, Operand(at, end - 1, t), end)

    def _argument_type(self, opening: int) -> Known:
        """Of `va_arg(list, type)` the type."""
        at = opening + 1
        while self._text(at) not in (",", ")", ";", ""):
            at = past_brackets(self._tokens, at)
        found = self.declarations.type_name(at + 1) if self._text(at) == "," else None
        return found[0] if found is not None else None

    def _choice(self, frame: Frame, at: int) -> int | None:
        """Past `type:` or `default:` of a _Generic; None if neither stands here."""
        if self._text(at) == "default" and self._text(at + 1) == ":":
            frame.choices.append(None)
            return at + 2
        found = self.declarations.type_name(at)
        if found is None or self._text(found[1]) != ":":
            return None
        frame.choices.append(found[0])
        return found[1] + 1

    def _designator(self, frame: Frame, at: int) -> int:
        """Past `.name =` or `[n] =` in braces."""
        if self._text(at) == "." and isinstance(frame.type, Record):
            frame.designated = frame.type.fields.get(self._text(at + 1))
        elif self._text(at) == "[" and isinstance(frame.type, Pointer):
            frame.designated = frame.type.to
        at = at + 2 if self._text(at) == "." else past_brackets(self._tokens, at)
        return at + (self._text(at) == "=")

    def _lambda(self, frame: Frame, at: int) -> int:
        """A function of C++ without name: its body is read as statements."""
        scope = Scope("function")
        end = past_brackets(self._tokens, at)
        if self._text(end) == "(":
            found = self.declarations.parameters(end)
            end = past_brackets(self._tokens, end)
            if found is not None:
                scope.names = found.names
        while self._text(end) not in ("{", ";", ")", ",", ""):
            if (
                self._text(end) == "->"
                and (result := self.declarations.type_name(end + 1)) is not None
            ):
                scope.result, end = result
            else:
                end = past_brackets(self._tokens, end)
        if self._text(end) == "{":
            _, end = self._block(end, scope)
        return self._push(frame, Operand(at, min(end, len(self._tokens)) - 1), end)

    @staticmethod
    def _push(frame: Frame, operand: Operand, at: int) -> int:
        frame.operands.append(operand)
        frame.wants_operand = False
        return at

    # -- where an operator may stand ---------------------------------------------------------------

    def _operator(self, frames: list[Frame], at: int) -> int:
        token, frame = self._tokens[at], frames[-1]
        text, last = token.text, frame.operands[-1]
        if text in ("(", "["):
            frames.append(
                Frame("call" if text == "(" else "index", at, callee=frame.operands.pop())
            )
            return at + 1
        if text in (".", "->") and self._tokens[min(at + 1, len(self._tokens) - 1)].kind == "name":
            frame.operands[-1] = self._do.member(
                last, at + 1, self._names.fields.get(self._text(at + 1))
            )
            return at + 2
        if text in ("++", "--"):
            frame.operands[-1] = self._do.postfix(text, last, at)
            return at + 1
        if text in BINARY:
            self._reduce(frame, BINARY[text])
            frame.operators.append(Operator("binary", text, at))
        elif text in ASSIGNMENTS:
            self._reduce(frame, ASSIGNMENT + 1)
            frame.operators.append(Operator("binary", text, at))
        elif text == "?":
            self._reduce(frame, CONDITIONAL + 1)
            frame.operators.append(Operator("?", text, at))
        elif text == ":" and frame.has_question:
            while frame.operators[-1].kind != "?":
                self._apply(frame)
            question = frame.operators[-1]
            question.kind, question.end = "?:", at
        elif text == "::":
            end = min(at + 2, len(self._tokens))
            if (
                self._text(end) == "<"
                and self._text(behind := self.declarations.past_template(end)) == "("
            ):
                end = behind
            frame.operands[-1] = Operand(last.first, end - 1)
            return end
        elif token.kind == "string" and self._tokens[last.last].kind == "string":
            last.last = at
            return at + 1
        else:
            return self._separator(frames, at)
        frame.wants_operand = True
        return at + 1

    # -- brackets and separators -------------------------------------------------------------------

    def _separator(self, frames: list[Frame], at: int) -> int:
        """A token that ends what stands before it."""
        frame, text = frames[-1], self._tokens[at].text
        operand = self._reduced(frame)
        if text in (")", "]", "}"):
            if frame.kind != "top":
                self._close(frames, at, operand)
            return at + 1
        if text == "," and frame.kind != "top":
            self._item(frame, operand)
            frame.commas.append(at)
            return at + 1
        if text in (",", ";", ":") or self._tokens[at].kind == "mark":
            return at + 1
        return at  # two operands in a row: a macro, or C++ that we need not understand

    def _item(self, frame: Frame, operand: Operand | None) -> None:
        """Take in what stands before a comma or the end."""
        if operand is None:
            return
        if frame.kind == "braces" and self._tokens[operand.first].text != "{":
            expected = self._item_type(frame)
            # A number in braces is a lane, unless it is said to be a member: braces may be left
            # out.
            if operand.vector is not None or frame.designated is not None:
                self._do.convert(operand, expected)
            frame.designated = None
        frame.items.append(operand)

    @staticmethod
    def _item_type(frame: Frame) -> Known:
        """The type of what stands next in braces."""
        if frame.designated is not None:
            return frame.designated
        if isinstance(frame.type, Pointer):
            return frame.type.to
        if isinstance(frame.type, Record) and len(frame.commas) < len(frame.type.fields):
            return [*frame.type.fields.values()][len(frame.commas)]
        return None

    def _close(self, frames: list[Frame], at: int, operand: Operand | None) -> None:
        frame = frames.pop()
        self._item(frame, operand)
        outer = frames[-1]
        made = Operand(frame.opening, at)
        callee = frame.callee
        if frame.kind == "group":
            made = self._group(frame, outer, at)
        elif frame.kind == "index" and callee is not None:
            made = self._do.subscript(callee, frame.opening, at)
        elif frame.kind == "construct" and callee is not None and isinstance(frame.type, Type):
            made = self._do.construct(frame.type, callee.first, callee.last, at, frame.items)
        elif frame.kind == "cast" and callee is not None:
            made = self._cxx_cast(frame, callee, at)
        elif frame.kind == "generic" and callee is not None:
            made = Operand(callee.first, at, self._chosen(frame))
        elif frame.kind == "call" and callee is not None:
            declared = self._names.variable_known(callee.name) or self._names.is_type(callee.name)
            made = self._do.call(callee, [frame.opening, *frame.commas, at], frame.items, declared)
        elif callee is not None:  # braces behind a cast
            made = Operand(callee.first, at, frame.type)
        self._push(outer, made, at)

    def _group(self, frame: Frame, outer: Frame, at: int) -> Operand:
        """Parentheses; behind a cast to a vector they may hold its lanes."""
        cast = outer.operators[-1] if outer.operators and outer.wants_operand else None
        t = (
            cast.type
            if cast is not None and cast.kind == "cast" and cast.end + 1 == frame.opening
            else None
        )
        if cast is not None and isinstance(t, Type) and t.is_vector and len(frame.items) > 1:
            outer.operators.pop()
            return self._do.construct(t, cast.at, cast.end, at, frame.items)
        made = Operand(frame.opening, at)
        if frame.items and len(frame.items) == len(frame.commas) + 1:
            last = frame.items[-1]
            made.type, made.picked, made.is_copy, made.taken = (
                last.type,
                last.picked,
                last.is_copy,
                last.taken,
            )
        return made

    def _cxx_cast(self, frame: Frame, callee: Operand, at: int) -> Operand:
        """`static_cast<T>(value)`."""
        t = frame.type
        if isinstance(t, Type) and t.is_vector and self._text(callee.first) == "static_cast":
            return self._do.construct(t, callee.first, callee.last, at, frame.items)
        return Operand(callee.first, at, t)

    @staticmethod
    def _chosen(frame: Frame) -> Known:
        """The type of a _Generic: of the choice for the type of what it is about."""
        if len(frame.items) != len(frame.choices) + 1:
            return None
        about = frame.items[0].type
        chosen = [
            item.type
            for t, item in zip(frame.choices, frame.items[1:])
            if t is not None and t == about
        ]
        default = [item.type for t, item in zip(frame.choices, frame.items[1:]) if t is None]
        return next(iter([*chosen, *default]), None)

    # -- reduction ---------------------------------------------------------------------------------

    def _reduced(self, frame: Frame) -> Operand | None:
        """Everything of a frame since the last comma, as one operand; the frame is ready for the
        next."""
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
        while (
            frame.operators
            and frame.operators[-1].kind != "?"
            and frame.operators[-1].precedence >= precedence
        ):
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
            elif operator.text in ASSIGNMENTS:
                made = self._do.assign(operator.text, a, operator.at, b)
            else:
                made = self._do.binary(operator.text, a, operator.at, b)
        frame.operands.append(made)

    def _text(self, at: int) -> str:
        return self._tokens[at].text if at < len(self._tokens) else ""
