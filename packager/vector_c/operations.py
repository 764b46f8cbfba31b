"""Each operation on vectors becomes a call: the marks that say so are put on the tokens of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from packager.vector_c.helpers import COMPARISONS, Helpers, in_register
from packager.vector_c.tokens import Token
from packager.vector_c.types import Function, Known, Overloads, Pointer, Record, Type, common, lanes_named


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
        return self.type if isinstance(self.type, Type) and self.type.is_vector else None


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
        if not isinstance(t, Type):
            return
        source = operand.vector
        if not t.is_vector:
            if source is not None:
                self.refuse(operand.first, f"a vector of {source.lanes} lanes ({source}) where {t} is expected")
            return
        if isinstance(operand.type, (Pointer, Function)):
            self.refuse(operand.first, f"a pointer or function where {t} is expected")
        if source is None:
            if not isinstance(operand.type, Record):
                self._call(self.helpers.broadcast(t), (), operand, t)
        else:
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
        if isinstance(a.type, Record) or isinstance(b.type, Record):
            return result  # an error, or an operator of C++ that the source has
        if left is None and right is None:
            pointers = [o.type for o in (a, b) if isinstance(o.type, Pointer)]
            if op in ("+", "-") and len(pointers) == 1:
                result.type = pointers[0]
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
        if a.vector is None or isinstance(b.type, Record):
            if op == "=" and a.vector is None:
                self.convert(b, a.type)
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
        if op == "*" and isinstance(a.type, (Pointer, Function)):
            result.type = a.type.to if isinstance(a.type, Pointer) else a.type
        elif op == "&":
            result.type = Pointer(a.type)
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
                result.type = a.type or b.type  # one of them may be a null pointer
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
        if a.vector is not None and t is not None and not (isinstance(t, Type) and t.is_vector):
            self.refuse(first, f"{a.vector} is cast to what is no vector")
        if isinstance(t, Type) and t.is_vector:
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
        through = isinstance(a.type, Pointer)
        t = a.type.to if isinstance(a.type, Pointer) else a.type
        name = self.tokens[at].text
        if isinstance(t, Record):
            result.type = t.fields.get(name)
            return result
        if not isinstance(t, Type) or not t.is_vector:
            result.type = field_type if t is None else None
            return result
        lanes = lanes_named(name, t.lanes)
        if lanes is None or max(lanes) >= t.lanes:
            self.refuse(at, f"{t} has no {name!r}; its lanes are s0 to s{t.lanes - 1:x}")
        if len(lanes) == 1:
            self.tokens[at].out = f"lane[{lanes[0]}]"
            result.type = t.lane
        elif through:
            self.refuse(at, f"->{name}: several lanes of a pointer; write (*pointer).{name}")
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
        elif isinstance(a.type, Pointer):
            result.type = a.type.to
        return result

    # -- calls ------------------------------------------------------------------------------------------

    def call(self, callee: Operand, marks: Sequence[int], arguments: Sequence[Operand], declared: bool) -> Operand:
        """`callee(arguments)`; `marks` are its parentheses and commas.

        Args:
            declared: the callee is a name that the source declares, a type included.
        """
        result = Operand(callee.first, marks[-1])
        function = _called(callee.type, arguments)
        vectors = [a.vector for a in arguments if a.vector is not None]
        if function is not None and (
            not vectors or function.variadic or any(isinstance(t, Type) and t.is_vector for t in function.parameters)
        ):
            for argument, t in zip(arguments, function.parameters):
                self.convert(argument, t)
            result.type = function.result
            return result
        if not vectors or (function is None and (declared or not callee.name)):
            return result
        if not callee.name:
            if function is not None and all(isinstance(t, Type) for t in function.parameters):
                self.refuse(callee.first, "vectors for a function of numbers that is called through an expression")
            return result
        if callee.name in ("min", "max") and len(arguments) == 2:
            shared = self._shared(callee, vectors)
            for argument in arguments:
                self.convert(argument, shared)
            name = self.helpers.extreme("<" if callee.name == "min" else ">", shared)
            self._rename(callee.first, marks[-1], name, arguments, shared)
            result.type = shared
            return result
        return self._by_lane(callee, marks, arguments, self._shared(callee, vectors))

    def _shared(self, callee: Operand, vectors: Sequence[Type]) -> Type:
        """The type in which the arguments of a function of numbers meet."""
        shared = vectors[0]
        for t in vectors[1:]:
            if t.lanes != shared.lanes:
                self.refuse(callee.first, f"{callee.name}: vectors of {shared.lanes} and of {t.lanes} lanes")
            shared = common(shared, t)
        return shared

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


def _called(t: Known, arguments: Sequence[Operand]) -> Function | None:
    """The function that a call of something of type `t` calls; None if that is not known."""
    if isinstance(t, Pointer):
        t = t.to
    if isinstance(t, Overloads):
        given = [a.vector and a.vector.plain() for a in arguments]
        fitting = [f for f in t.functions if [p if isinstance(p, Type) and p.is_vector else None
                   for p in f.parameters[: len(given)]] == given]  # fmt: skip
        return fitting[0] if fitting else None
    return t if isinstance(t, Function) else None
