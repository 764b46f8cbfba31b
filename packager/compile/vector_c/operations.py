"""Each operation on vectors becomes a call: the marks that say so are put on the tokens of its
operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mblob.packager.compile.vector_c.helpers import COMPARISONS
from mblob.packager.compile.vector_c.lanes import Lanes
from mblob.packager.compile.vector_c.operand import Operand
from mblob.packager.compile.vector_c.types import (
    Function,
    Known,
    Overloads,
    Pointer,
    Record,
    Type,
    common,
)

_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_INTEGERS_ONLY = ("~", *_INTEGERS, *(f"{op}=" for op in _INTEGERS))


@dataclass
class Operations(Lanes):
    """Rewrites operations in place."""

    _counter: int = field(default=0)

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

    # -- operators ---------------------------------------------------------------------------------

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
            self.refuse(
                at, f"{left} {op} {right}: vectors of {left.lanes} and of {right.lanes} lanes"
            )
        shared = common(left, right) if left and right else left or right
        assert shared is not None
        if op in ("&&", "||"):
            mask = shared.as_mask()
            for side in (a, b):
                self._to_mask(side, mask)
            op, shared = {"&&": "&", "||": "|"}[op], mask
        elif shared.mask and not (op in "&|^" and a.vector and b.vector):
            shared = shared.plain()
        self._check_operator(op, shared, at)
        for side in (a, b):
            self.convert(side, shared)
        self.tokens[at].out = ","
        result.type = shared.as_mask() if op in COMPARISONS else shared
        self._call(self.helpers.binary(op, shared), (a, b), result, result.type)
        return result

    def assign(self, op: str, a: Operand, at: int, b: Operand) -> Operand:
        """`a = b`, `a += b`, ..."""
        result = Operand(a.first, b.last, a.type)
        self._check_written(a, at)
        if a.vector is None or isinstance(b.type, Record):
            if op == "=" and a.vector is None:
                self.convert(b, a.type)
            return result
        self._check_operator(op, a.vector, at)
        if a.picked is not None:
            return self.write_lanes(op[:-1], a, at, b)
        self.convert(b, a.vector.plain())
        if op != "=":
            self.tokens[at].out = ","
            self.wrap(a, "&(")
            self._pass(b)
            self.wrap(result, f"{self.helpers.update(op[:-1], a.vector)}(")
        return result

    def _check_operator(self, op: str, t: Type, at: int) -> None:
        """Refuse what lanes of a type do not have."""
        if t.kind == "float" and op in _INTEGERS_ONLY:
            self.refuse(at, f"{t}: {op} is for vectors of integers")

    def _check_written(self, a: Operand, at: int) -> None:
        """Refuse to write to what is a copy; of several lanes the place is known."""
        if a.is_copy and a.picked is None:
            self.refuse(at, "this writes to a copy that nothing reads")

    def prefix(self, op: str, at: int, a: Operand) -> Operand:
        """`op a` for everything but casts."""
        result = Operand(at, a.last)
        if op in ("++", "--"):
            self._check_written(a, at)
        if op == "&" and a.picked is not None:
            self.refuse(at, "several lanes have no address")
        if (
            op == "*"
            and a.taken is not None
            and isinstance(a.type, Pointer)
            and isinstance(a.type.to, Type)
        ):
            return self._reinterpret(at, a, a.type.to)
        if op == "*" and a.element is not None and isinstance(a.type, Pointer):
            return self.lane_of_loaded(at, a)
        if op == "*" and isinstance(a.type, (Pointer, Function)):
            result.type = a.type.to if isinstance(a.type, Pointer) else a.type
        elif op == "&":
            result.type = Pointer(a.type)
            result.taken = (a, (at,)) if a.vector is not None and a.is_copy else None
        elif a.vector is None or op not in ("+", "-", "~", "!", "++", "--"):
            return result
        elif op in ("++", "--"):
            if a.picked is not None:
                return self.step_lanes(op[0], a, at, behind=False)
            self.drop(at, at)
            self.wrap(a, "&(")
            one = self.helpers.broadcast(a.vector)
            self.wrap(result, f"{self.helpers.update(op[0], a.vector)}(", f", {one}(1))")
            result.type = a.vector
        elif op == "+":
            self.drop(at, at)
            result.type = a.vector
        else:
            self._check_operator(op, a.vector, at)
            t = a.vector if op != "-" else a.vector.plain()
            self.drop(at, at)
            result.type = t.as_mask() if op == "!" else t
            self._call(self.helpers.unary(op, t), (a,), result, result.type)
        return result

    def _reinterpret(self, at: int, a: Operand, t: Type) -> Operand:
        """`*(T *)&(a + b)`, the star at `at`: the bits of a value, which is nowhere in memory."""
        assert a.taken is not None
        value, marks = a.taken
        result, source = Operand(at, a.last, t, is_copy=True), value.vector
        assert source is not None
        if source.lanes * source.bits != t.lanes * t.bits:
            self.refuse(
                at,
                f"the bits of {source} are {source.lanes * source.bits}, of {t} {t.lanes * t.bits}",
            )
        for mark in (at, *marks):
            self.drop(mark, mark)
        self._pass(value)
        before, after = self._made(self.helpers.reinterpret(source, t), t)
        self.wrap(result, before, after)
        return result

    def postfix(self, op: str, a: Operand, at: int) -> Operand:
        """`a++`, `a--`."""
        result = Operand(a.first, at, a.type)
        self._check_written(a, at)
        if a.picked is not None:
            return self.step_lanes(op[0], a, at, behind=True)
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
                self.refuse(
                    question,
                    f"a condition of {c.vector.lanes} lanes chooses among vectors of {shared.lanes}",
                )
            self.tokens[question].out = self.tokens[colon].out = ","
            self._call(self.helpers.select(shared, c.vector), (c, a, b), result, shared)
        return result

    # -- casts and constructors --------------------------------------------------------------------

    def cast(self, t: Known, first: int, last: int, a: Operand) -> Operand:
        """`(t)a`, the parentheses at tokens `first` and `last`."""
        result = Operand(first, a.last, t)
        if a.vector is not None and t is not None and not (isinstance(t, Type) and t.is_vector):
            self.refuse(first, f"{a.vector} is cast to what is no vector")
        if isinstance(t, Type) and t.is_vector:
            self.drop(first, last)
            self.convert(a, t, explicit=True)
            result.is_copy = True
        elif isinstance(t, Pointer) and isinstance(t.to, Type) and t.to.is_vector:
            # no pointer, but an element
            result.element = a.element if a.type == t.to.lane else None
            result.taken = (
                (a.taken[0], (*a.taken[1], *range(first, last + 1)))
                if a.taken is not None
                else None
            )
        return result

    def construct(
        self, t: Type, first: int, last: int, closing: int, items: Sequence[Operand]
    ) -> Operand:
        """`t(items)` and `(t)(items)`; the name, with parentheses if it has some, is tokens `first`
        to `last`."""
        result = Operand(first, closing, t, is_copy=True)
        self.drop(first, last)
        if len(items) == 1:
            self.convert(items[0], t, explicit=True)
            return result
        found = sum(item.vector.lanes if item.vector else 1 for item in items)
        if found != t.lanes:
            self.refuse(first, f"{t} is made of {found} lanes")
        self._rename(
            first, closing, self.helpers.construct(t, [item.vector for item in items]), items, t
        )
        return result

    def _rename(
        self, name: int, closing: int, function: str, arguments: Sequence[Operand], t: Type
    ) -> None:
        """Make a call that is written in the source one of a helper; its parentheses stay."""
        for argument in arguments:
            self._pass(argument)
        before, after = self._made(function, t)
        self.tokens[name].out = before[:-1]
        self.tokens[closing].after += after[1:]

    # -- calls -------------------------------------------------------------------------------------

    def call(
        self, callee: Operand, marks: Sequence[int], arguments: Sequence[Operand], declared: bool
    ) -> Operand:
        """`callee(arguments)`; `marks` are its parentheses and commas.

        Args:
            declared: the callee is a name that the source declares, a type included.
        """
        result = Operand(callee.first, marks[-1])
        function = _called(callee.type, arguments)
        vectors = [a.vector for a in arguments if a.vector is not None]
        if function is not None and (
            not vectors
            or function.variadic
            or any(isinstance(t, Type) and t.is_vector for t in function.parameters)
        ):
            for argument, t in zip(arguments, function.parameters):
                self.convert(argument, t)
            result.type = function.result
            return result
        if not vectors or (function is None and (declared or not callee.name)):
            return result
        if not callee.name:
            if function is not None and all(isinstance(t, Type) for t in function.parameters):
                self.refuse(
                    callee.first,
                    "vectors for a function of numbers that is called through an expression",
                )
            return result
        if callee.name in ("min", "max") and len(arguments) == 2:
            shared = self._shared(callee, vectors)
            for argument in arguments:
                self.convert(argument, shared)
            name = self.helpers.extreme("<" if callee.name == "min" else ">", shared)
            self._rename(callee.first, marks[-1], name, arguments, shared)
            result.type = shared
            return result
        return self._by_lane(callee, marks, arguments, self._shared(callee, vectors), function)

    def _shared(self, callee: Operand, vectors: Sequence[Type]) -> Type:
        """The type in which the arguments of a function of numbers meet."""
        shared = vectors[0]
        for t in vectors[1:]:
            if t.lanes != shared.lanes:
                self.refuse(
                    callee.first, f"{callee.name}: vectors of {shared.lanes} and of {t.lanes} lanes"
                )
            shared = common(shared, t)
        return shared.plain()

    def _by_lane(
        self, callee: Operand, marks: Sequence[int], arguments: Sequence[Operand], shared: Type,
        function: Function | None,
    ) -> Operand:  # fmt: skip
        """A function of numbers, such as expf, that gets vectors: called once for each lane.

        Its arguments and its result have the types it is declared with; without, all have the
        `shared` one.
        """
        self._counter += 1
        names = [f"mblob_{self._counter}_{i}" for i in range(len(arguments))]
        result, step = f"mblob_{self._counter}_r", f"mblob_{self._counter}_i"
        declared = [*function.parameters] if function is not None else []
        declared += [None] * (len(arguments) - len(declared))
        types = [_lanes_of(t, shared) for t in declared]
        made = _lanes_of(function.result if function is not None else None, shared)
        for argument, t in zip(arguments, types):
            self.convert(argument, t)
        vectors = [self.helpers.type(t) for t in types]
        name = self.tokens[callee.first]
        lanes = ", ".join(f"{name}.lane[{step}]" for name in names)
        body = f"{self.helpers.type(made)} {result}; for (int {step} = 0; {step} < {made.lanes}; ++{step})"
        call = f"{result}.lane[{step}] = {name.text}({lanes}); {result};"
        name.out = f"(__extension__ ({{ {vectors[0]} {names[0]} = "
        for mark, vector, variable in zip(marks[1:-1], vectors[1:], names[1:]):
            self.tokens[mark].out = f"); {vector} {variable} = ("
        self.tokens[marks[-1]].out = f"); {body} {call} }}))"
        return Operand(callee.first, marks[-1], made)


def _lanes_of(t: Known, shared: Type) -> Type:
    """A vector of numbers of type `t`, as wide as `shared`, which it is if that type is none we
    follow."""
    return Type(t.scalar, shared.lanes) if isinstance(t, Type) and not t.is_vector else shared


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
