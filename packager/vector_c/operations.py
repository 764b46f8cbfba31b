"""Each operation on vectors becomes a call: the marks that say so are put on the tokens of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from packager.vector_c.helpers import COMPARISONS, Helpers, in_register
from packager.vector_c.scope import Known, Signature
from packager.vector_c.tokens import Token
from packager.vector_c.types import Type, common

_SWIZZLES = {
    "lo": lambda n: range((n + 1) // 2), "hi": lambda n: range((n + 1) // 2, 2 * ((n + 1) // 2)),
    "even": lambda n: range(0, n, 2), "odd": lambda n: range(1, n, 2),
}  # fmt: skip


@dataclass
class Operand:
    """A part of an expression.

    Attributes:
        first, last: indices of its tokens.
        type: its type; None if that is no business of ours.
        name: of a plain name, the name.
        picked: several lanes of a vector, `v.xy`: a copy of them.
    """

    first: int
    last: int
    type: Known = None
    name: str = ""
    picked: bool = False

    @property
    def vector(self) -> Type | None:
        return self.type if self.type is not None and self.type.is_vector else None


@dataclass
class Operations:
    """Rewrites operations in place.

    Attributes:
        tokens: all of the source.
        helpers: where the functions to call come from.
        refuse: raises an error at a token.
    """

    tokens: list[Token]
    helpers: Helpers
    refuse: Callable[[int, str], NoReturn]
    _counter: int = field(default=0)

    def wrap(self, operand: Operand, before: str, after: str = ")") -> None:
        """Put text around an operand, outside of what is there."""
        first, last = self.tokens[operand.first], self.tokens[operand.last]
        first.before = before + first.before
        last.after += after

    def drop(self, first: int, last: int) -> None:
        """Write nothing for tokens."""
        for token in self.tokens[first : last + 1]:
            token.out = ""

    def _call(self, function: str, arguments: Sequence[Operand], result: Operand, t: Type) -> None:
        """Make `result`, which spans the arguments, a call of a helper that gives a `t`."""
        for argument in arguments:
            self._pass(argument)
        before, after = self._made(function, t)
        self.wrap(result, before, after)

    def _pass(self, argument: Operand) -> None:
        """Make an operand the argument of a helper."""
        if argument.vector is not None and in_register(argument.vector):
            self.wrap(argument, "(", ").simd")

    def _made(self, function: str, t: Type) -> tuple[str, str]:
        """What stands before and behind the arguments of a helper that gives a `t`."""
        if in_register(t):
            return f"(__extension__ ({self.helpers.type(t)}){{.simd = {function}(", ")})"
        return f"{function}(", ")"

    # -- conversions ------------------------------------------------------------------------------------

    def convert(self, operand: Operand, t: Known, explicit: bool = False) -> None:
        """Make an operand a vector of type `t`: a scalar goes to all lanes, lanes of another type are converted.

        Args:
            explicit: by a cast. TVM writes one where it makes numbers of booleans, so that true is 1 then; a mask that
                is assigned to the integers that it is in OpenCL keeps its -1.
        """
        if t is None or not t.is_vector:
            return
        source = operand.type
        if source is None or source.lanes == 1:
            if source is None or not source.pointers:
                self._call(self.helpers.broadcast(t), (), operand, t)
        elif source.is_vector:
            if source.lanes != t.lanes:
                self.refuse(operand.first, f"a vector of {source.lanes} lanes ({source}) where {t} is expected")
            same = source.scalar == t.scalar
            if not same or (explicit and source.mask and not t.mask):
                if source.mask and not t.mask and not explicit and t.kind == "int" and t.bits == source.bits:
                    return
                self._call(self.helpers.convert(source, t), (operand,), operand, t)
        operand.type = t

    def _to_mask(self, operand: Operand, mask: Type) -> None:
        """Make an operand a mask of these lanes: true is what is not zero."""
        if operand.vector is None:
            self.wrap(operand, "0 != (")
            self._call(self.helpers.broadcast(mask), (), operand, mask)
        else:
            if not operand.vector.mask:
                for t in (operand.vector, operand.vector.as_mask()):
                    self._call(self.helpers.unary("!", t), (operand,), operand, t.as_mask())
                    operand.type = t.as_mask()
            self.convert(operand, mask)
        operand.type = mask

    # -- operators --------------------------------------------------------------------------------------

    def binary(self, op: str, a: Operand, at: int, b: Operand) -> Operand:
        """`a op b`, the operator at token `at`."""
        result = Operand(a.first, b.last)
        left, right = a.vector, b.vector
        if left is None and right is None:
            if op in ("+", "-") and (pointer := next((o.type for o in (a, b) if o.type and o.type.pointers), None)):
                result.type = pointer
            return result
        if left is not None and right is not None and left.lanes != right.lanes:
            self.refuse(at, f"{left} {op} {right}: vectors of {left.lanes} and of {right.lanes} lanes")
        shared = common(left, right) if left and right else left or right
        assert shared is not None
        if op in ("&&", "||"):
            mask = shared.as_mask()
            for side in (a, b):
                self._to_mask(side, mask)
            op, shared = {"&&": "&", "||": "|"}[op], mask
        elif shared.mask and not (op in "&|^" and a.vector and b.vector):
            shared = shared.plain()
        if op in ("%", "&", "|", "^", "<<", ">>") and shared.kind == "float":
            self.refuse(at, f"{shared}: {op} is for vectors of integers")
        for side in (a, b):
            self.convert(side, shared)
        self.tokens[at].out = ","
        result.type = shared.as_mask() if op in COMPARISONS else shared
        self._call(self.helpers.binary(op, shared), (a, b), result, result.type)
        return result

    def assign(self, op: str, a: Operand, at: int, b: Operand) -> Operand:
        """`a = b`, `a += b`, ..."""
        result = Operand(a.first, b.last, a.type)
        if a.vector is None:
            return result
        self._check_written(a, at)
        self.convert(b, a.vector.plain())
        if op != "=":
            if op[:-1] in ("%", "&", "|", "^", "<<", ">>") and a.vector.kind == "float":
                self.refuse(at, f"{a.vector}: {op} is for vectors of integers")
            self.tokens[at].out = ","
            self.wrap(a, "&(")
            self._pass(b)
            self.wrap(result, f"{self.helpers.update(op[:-1], a.vector)}(")
        return result

    def prefix(self, op: str, at: int, a: Operand) -> Operand:
        """`op a` for everything but casts."""
        result = Operand(at, a.last)
        if op in ("++", "--", "&"):
            self._check_written(a, at)
        if op == "*" and a.type is not None and a.type.pointers:
            result.type = a.type.pointer(-1)
        elif op == "&" and a.type is not None:
            result.type = a.type.pointer()
        elif a.vector is None or op not in ("+", "-", "~", "!", "++", "--"):
            return result
        elif op in ("++", "--"):
            self.drop(at, at)
            self.wrap(a, "&(")
            one = self.helpers.broadcast(a.vector)
            self.wrap(result, f"{self.helpers.update(op[0], a.vector)}(", f", {one}(1))")
            result.type = a.vector
        elif op == "+":
            self.drop(at, at)
            result.type = a.vector
        else:
            if op == "~" and a.vector.kind == "float":
                self.refuse(at, f"{a.vector}: ~ is for vectors of integers")
            t = a.vector if op != "-" else a.vector.plain()
            self.drop(at, at)
            result.type = t.as_mask() if op == "!" else t
            self._call(self.helpers.unary(op, t), (a,), result, result.type)
        return result

    def postfix(self, op: str, a: Operand, at: int) -> Operand:
        """`a++`, `a--`."""
        result = Operand(a.first, at, a.type)
        self._check_written(a, at)
        if a.vector is not None:
            self.drop(at, at)
            self.wrap(result, f"{self.helpers.postfix(op[0], a.vector)}(&(", "))")
        return result

    def conditional(self, c: Operand, question: int, a: Operand, colon: int, b: Operand) -> Operand:
        """`c ? a : b`: by lane if `c` is a vector; else C's own, which evaluates one side."""
        result = Operand(c.first, b.last)
        left, right = a.vector, b.vector
        if left is None and right is None:
            if c.vector is None:
                result.type = a.type if a.type == b.type else None
                return result
            left = Type(c.vector.scalar, c.vector.lanes)
        shared = common(left, right) if left and right else left or right
        assert shared is not None
        for side in (a, b):
            self.convert(side, shared)
        result.type = shared
        if c.vector is not None:
            if c.vector.lanes != shared.lanes:
                self.refuse(question, f"a condition of {c.vector.lanes} lanes chooses among vectors of {shared.lanes}")
            self.tokens[question].out = self.tokens[colon].out = ","
            self._call(self.helpers.select(shared, c.vector), (c, a, b), result, shared)
        return result

    # -- casts and constructors -------------------------------------------------------------------------

    def cast(self, t: Known, first: int, last: int, a: Operand) -> Operand:
        """`(t)a`, the parentheses at tokens `first` and `last`."""
        result = Operand(first, a.last, t)
        if t is not None and t.is_vector:
            self.drop(first, last)
            self.convert(a, t, explicit=True)
        return result

    def construct(self, t: Type, first: int, last: int, closing: int, items: Sequence[Operand]) -> Operand:
        """`t(items)` and `(t)(items)`; the name, with parentheses if it has some, is tokens `first` to `last`."""
        result = Operand(first, closing, t)
        self.drop(first, last)
        if len(items) == 1:
            self.convert(items[0], t, explicit=True)
            return result
        found = sum(item.vector.lanes if item.vector else 1 for item in items)
        if found != t.lanes:
            self.refuse(first, f"{t} is made of {found} lanes")
        self._rename(first, closing, self.helpers.construct(t, [item.vector for item in items]), items, t)
        return result

    def _rename(self, name: int, closing: int, function: str, arguments: Sequence[Operand], t: Type) -> None:
        """Make a call that is written in the source one of a helper; its parentheses stay."""
        for argument in arguments:
            self._pass(argument)
        before, after = self._made(function, t)
        self.tokens[name].out = before[:-1]
        self.tokens[closing].after += after[1:]

    # -- parts ------------------------------------------------------------------------------------------

    def member(self, a: Operand, at: int, field_type: Known) -> Operand:
        """`a.name` and `a->name`, the name at token `at`."""
        result = Operand(a.first, at)
        t = a.type
        if t is None or t.lanes == 1 or t.pointers > 1:
            result.type = field_type
            return result
        token = self.tokens[at]
        lanes = _lanes_named(token.text, t.lanes)
        if lanes is None or max(lanes) >= t.lanes:
            self.refuse(at, f"{t.pointer(-t.pointers)} has no {token.text!r}; its lanes are s0 to s{t.lanes - 1:x}")
        if len(lanes) == 1:
            token.out = f"lane[{lanes[0]}]"
            result.type = t.lane
        elif t.pointers:
            self.refuse(at, f"->{token.text}: several lanes of a pointer; write (*pointer).{token.text}")
        else:
            self.drop(at - 1, at)
            result.type = Type(t.scalar, len(lanes))
            self._call(self.helpers.swizzle(t, lanes), (a,), result, result.type)
            result.picked = True
        return result

    def _check_written(self, a: Operand, at: int) -> None:
        """Refuse to write to a copy."""
        if a.picked:
            self.refuse(at, "several lanes can be read at once, not written; write one after the other")

    def subscript(self, a: Operand, opening: int, closing: int) -> Operand:
        """`a[...]`: an element, or a lane."""
        result = Operand(a.first, closing)
        if a.vector is not None:
            self.tokens[opening].before = ".lane" + self.tokens[opening].before
            result.type = a.vector.lane
        elif a.type is not None and a.type.pointers:
            result.type = a.type.pointer(-1)
        return result

    # -- calls ------------------------------------------------------------------------------------------

    def call(
        self, callee: Operand, signature: Signature | None, marks: Sequence[int], arguments: Sequence[Operand]
    ) -> Operand:
        """`callee(arguments)`; `marks` are its parentheses and commas."""
        result = Operand(callee.first, marks[-1])
        parameters = signature.parameters if signature is not None else []
        vectors = [a.vector for a in arguments if a.vector is not None]
        if signature is not None and (not vectors or any(t is not None and t.is_vector for t in parameters)):
            for argument, t in zip(arguments, parameters):
                self.convert(argument, t)
            result.type = signature.result
            return result
        if not vectors or not callee.name:
            return result
        if callee.name in ("min", "max") and len(arguments) == 2:
            shared = vectors[0] if len(vectors) == 1 else common(*vectors)
            for argument in arguments:
                self.convert(argument, shared)
            function = self.helpers.extreme("<" if callee.name == "min" else ">", shared)
            self._rename(callee.first, marks[-1], function, arguments, shared)
            result.type = shared
            return result
        return self._by_lane(callee, marks, arguments, vectors[0])

    def _by_lane(self, callee: Operand, marks: Sequence[int], arguments: Sequence[Operand], t: Type) -> Operand:
        """A function of numbers, such as expf, that gets vectors: called once for each lane."""
        self._counter += 1
        names = [f"mblob_{self._counter}_{i}" for i in range(len(arguments))]
        result, step = f"mblob_{self._counter}_r", f"mblob_{self._counter}_i"
        v = self.helpers.type(t)
        for argument in arguments:
            self.convert(argument, t.plain())
        function = self.tokens[callee.first]
        lanes = ", ".join(f"{name}.lane[{step}]" for name in names)
        body = f"{v} {result}; for (int {step} = 0; {step} < {t.lanes}; ++{step})"
        call = f"{result}.lane[{step}] = {function.text}({lanes}); {result};"
        function.out = f"(__extension__ ({{ {v} {names[0]} = "
        for mark, name in zip(marks[1:-1], names[1:]):
            self.tokens[mark].out = f"); {v} {name} = ("
        self.tokens[marks[-1]].out = f"); {body} {call} }}))"
        return Operand(callee.first, marks[-1], t.plain())


def _lanes_named(name: str, width: int) -> Sequence[int] | None:
    """The lanes that a member name means, None if it means none."""
    if name in _SWIZZLES:
        return list(_SWIZZLES[name](width))
    if name[:1] in "sS" and len(name) > 1 and all(c in "0123456789abcdefABCDEF" for c in name[1:]):
        return [int(c, 16) for c in name[1:]]
    if name and all(c in "xyzw" for c in name):
        return ["xyzw".index(c) for c in name]
    return None
