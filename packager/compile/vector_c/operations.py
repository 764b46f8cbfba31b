"""Each operation on vectors becomes the call of a helper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from mblob.packager.compile.vector_c.helpers import COMPARISONS, in_register
from mblob.packager.compile.vector_c.types import (
    Function,
    Known,
    Overloads,
    Pointer,
    Record,
    Type,
    common,
    lanes_named,
)
from mblob.packager.compile.vector_c.values import Source, Text, Value

_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_INTEGERS_ONLY = ("~", *_INTEGERS, *(f"{op}=" for op in _INTEGERS))


class Operations(Source):
    """Makes values of values."""

    _counter = 0

    def _call(self, function: str, t: Type, *arguments: Text) -> Text:
        """The call of a helper that gives a `t`."""
        given = [[a.space, self._given(a)] if isinstance(a, Value) else a for a in arguments]
        if in_register(t):
            head = f"(__extension__ ({self.helpers.type(t)}){{.simd = {function}("
            return [head, *given, ")})"]
        return [function, "(", *given, ")"]

    def _made(self, first: int, function: str, t: Type, *arguments: Text) -> Value:
        """The value of the call of a helper, which begins at a token."""
        return self.value(first, self._call(function, t, *arguments), t, is_copy=True)

    def _plain(self, a: Value, *rest: Text) -> Value:
        """A value that begins with another, and is no operation of ours."""
        return Value(a.first, a.space, [a.text, *rest])

    def _given(self, value: Value) -> Text:
        """A value as helpers take it."""
        if value.vector is not None and in_register(value.vector):
            return ["(", value.text, ").simd"]
        return value.text

    def _listed(self, marks: Sequence[int], arguments: Sequence[Value]) -> Text:
        """Arguments as helpers take them, between parentheses and commas that stand at `marks`."""
        text: list[Text] = []
        for a, at in zip(arguments, marks):
            text += (self.mark(at, "," if text else ""), a.space, self._given(a))
        return [*text, self.mark(marks[-1], "")]

    # -- conversions -------------------------------------------------------------------------------

    def convert(self, value: Value, t: Known, explicit: bool = False) -> None:
        """Make a value a vector of type `t`: a scalar goes to all lanes, lanes of another type are
        converted.

        Args:
            explicit: by a cast. TVM writes one where it makes numbers of booleans, so that true is
                1 then; a mask that is assigned to the integers that it is in OpenCL keeps its -1.
        """
        source = value.vector
        if not isinstance(t, Type) or not (t.is_vector or source):
            return
        if source is not None and source.lanes != t.lanes:
            found = f"a vector of {source.lanes} lanes ({source})"
            self.refuse(value.first, f"{found} where {t} is expected")
        if isinstance(value.type, (Pointer, Function)):
            self.refuse(value.first, f"a pointer or function where {t} is expected")
        if source is None and not isinstance(value.type, Record):
            value.text = self._call(self.helpers.broadcast(t), t, value.text)
            value.is_copy = True
        elif source is not None:
            becomes_bool = explicit and source.mask and not t.mask
            if becomes_bool or source.scalar != t.scalar:
                value.text = self._call(self.helpers.convert(source, t), t, self._given(value))
                value.is_copy = True
        value.type = t

    def _to_mask(self, value: Value, mask: Type) -> None:
        """Make a value a mask of these lanes: true is what is not zero."""
        if value.vector is None:
            value.text = self._call(self.helpers.broadcast(mask), mask, ["0 != (", value.text, ")"])
        else:
            if not value.vector.mask:
                for t in (value.vector, value.vector.as_mask()):
                    made = self.helpers.unary("!", t)
                    value.text = self._call(made, t.as_mask(), self._given(value))
                    value.type = t.as_mask()
            self.convert(value, mask)
        value.type = mask

    def _meeting(self, vectors: Sequence[Type | None], at: int, what: str) -> Type:
        """The type in which vectors meet; None is a number."""
        found = [t for t in vectors if t is not None]
        shared = found[0]
        for t in found[1:]:
            if t.lanes != shared.lanes:
                lanes = f"vectors of {shared.lanes} and of {t.lanes} lanes"
                self.refuse(at, f"{what.format(shared, t)}: {lanes}")
            shared = common(shared, t)
        return shared

    # -- operators ---------------------------------------------------------------------------------

    def binary(self, op: str, a: Value, at: int, b: Value) -> Value:
        """`a op b`, the operator at token `at`."""
        result = self._plain(a, self.mark(at), b)
        if isinstance(a.type, Record) or isinstance(b.type, Record):
            return result  # an error, or an operator of C++ that the source has
        if a.vector is None and b.vector is None:
            pointers = [o.type for o in (a, b) if isinstance(o.type, Pointer)]
            if op in ("+", "-") and len(pointers) == 1:
                result.type = pointers[0]
            return result
        shared = self._meeting((a.vector, b.vector), at, f"{{}} {op} {{}}")
        if op in ("&&", "||"):
            shared = shared.as_mask()
            for side in (a, b):
                self._to_mask(side, shared)
            op = op[0]
        elif shared.mask and not (op in "&|^" and a.vector and b.vector):
            shared = shared.plain()
        self._check_operator(op, shared, at)
        for side in (a, b):
            self.convert(side, shared)
        t = shared.as_mask() if op in COMPARISONS else shared
        function = self.helpers.binary(op, shared)
        return self._made(a.first, function, t, self._given(a), self.mark(at, ","), b)

    def assign(self, op: str, a: Value, at: int, b: Value) -> Value:
        """`a = b`, `a += b`, ..."""
        result = self._plain(a, self.mark(at), b)
        result.type = a.type
        self._check_written(a, at)
        if a.vector is None or isinstance(b.type, Record):
            if op == "=" and a.vector is None:
                self.convert(b, a.type)
            return result
        self._check_operator(op, a.vector, at)
        if op == "=" and a.picked is None:
            self.convert(b, a.vector.plain())
            return result
        function, place, result.type = self._updated(op[:-1], a, at)
        self.convert(b, result.type.plain())
        result.text = [function, "(", place, self.mark(at, ","), b.space, self._given(b), ")"]
        return result

    def _check_operator(self, op: str, t: Type, at: int) -> None:
        """Refuse what lanes of a type do not have."""
        if t.kind == "float" and op in _INTEGERS_ONLY:
            self.refuse(at, f"{t}: {op} is for vectors of integers")

    def _check_written(self, a: Value, at: int) -> None:
        """Refuse to write to what is a copy; of several lanes the place is known."""
        if a.is_copy and a.picked is None:
            self.refuse(at, "this writes to a copy that nothing reads")

    def step(self, op: str, a: Value, at: int, behind: bool) -> Value:
        """`++a`, or `a++` if the operator at token `at` stands `behind`."""
        self._check_written(a, at)
        mark = self.mark(at, "")
        if a.vector is None:
            result = self._plain(a, self.mark(at)) if behind else self._prefixed(at, a)
            result.type = a.type
            return result
        function, place, part = self._updated(op[0], a, at, behind)
        one = f", {self.helpers.broadcast(part)}(1))"
        if behind:
            return self.value(a.first, [function, "(", place, mark, one], part)
        return self.value(at, [function, "(", a.space, place, one], part)

    def _updated(
        self, op: str, a: Value, at: int, behind: bool = False
    ) -> tuple[str, list[Text], Type]:
        """The helper that writes to a vector or to several lanes of one, at token `at`; the address
        that it takes, and the type of what is written."""
        if a.picked is None:
            assert a.vector is not None
            function = self.helpers.update(op, a.vector, behind=behind)
            return function, ["&(", a.text, ")"], a.vector
        whole, lanes, space = a.picked
        if len(set(lanes)) < len(lanes):
            self.refuse(at, "one lane is written twice")
        is_pointer = isinstance(whole.type, Pointer)
        t = whole.type.to if isinstance(whole.type, Pointer) else whole.type
        assert isinstance(t, Type)
        place: list[Text] = ["(" if is_pointer else "&(", whole.text, ")", space]
        return self.helpers.update(op, t, lanes, behind), place, Type(t.scalar, len(lanes))

    def _prefixed(self, at: int, a: Value) -> Value:
        return self.value(at, [self.raw(at, at + 1), a])

    def prefix(self, op: str, at: int, a: Value) -> Value:
        """`op a` for everything but casts."""
        if op in ("++", "--"):
            return self.step(op, a, at, behind=False)
        result = self._prefixed(at, a)
        if op == "&":
            if a.picked is not None:
                self.refuse(at, "several lanes have no address")
            result.type = Pointer(a.type)
            result.taken = a if a.vector is not None and a.is_copy else None
        elif op == "*":
            to = a.type.to if isinstance(a.type, Pointer) else None
            if isinstance(to, Type) and a.taken is not None:
                return self._reinterpreted(at, a.taken, to)
            if isinstance(to, Type) and a.element is not None:
                # `*(T *)(p + i)[2]`: TVM means a lane of what `*(T *)(p + i)` loads
                base, lane, opening = a.element
                if lane is None or lane >= to.lanes:
                    self._no_lane(opening, to, lane)
                loaded = self.value(at, ["(", self.raw(at, at + 1), base, ")"], to)
                return self._one(loaded, lane, self.gap(opening, opening + 3))
            result.type = a.type if isinstance(a.type, Function) else to
        elif a.vector is not None and op == "+":
            result.text, result.type = [a.space, a.text], a.vector
        elif a.vector is not None and op in ("-", "~", "!"):
            self._check_operator(op, a.vector, at)
            t = a.vector if op != "-" else a.vector.plain()
            made = t.as_mask() if op == "!" else t
            return self._made(at, self.helpers.unary(op, t), made, a)
        return result

    def _reinterpreted(self, at: int, a: Value, t: Type) -> Value:
        """`*(T *)&(a + b)`, the star at `at`: the bits of a value, which is nowhere in memory."""
        source = a.vector
        assert source is not None
        bits, wanted = source.lanes * source.bits, t.lanes * t.bits
        if bits != wanted:
            self.refuse(at, f"the bits of {source} are {bits}, of {t} {wanted}")
        return self._made(at, self.helpers.reinterpret(source, t), t, self.gap(at + 1, a.first), a)

    def conditional(self, c: Value, question: int, a: Value, colon: int, b: Value) -> Value:
        """`c ? a : b`: by lane if `c` is a vector; else C's own, which evaluates one side."""
        sides = [v for v in (a.vector, b.vector) if v is not None]
        if not sides and c.vector is not None:
            sides = [c.vector.plain()]
        shared = self._meeting(sides, question, "{} : {}") if sides else None
        for side in (a, b):
            self.convert(side, shared)
        if c.vector is None or shared is None:
            result = self._plain(c, self.mark(question), a, self.mark(colon), b)
            result.type = a.type or b.type  # one of them may be a null pointer
            return result
        if c.vector.lanes != shared.lanes:
            lanes = f"{c.vector.lanes} lanes chooses among vectors of {shared.lanes}"
            self.refuse(question, f"a condition of {lanes}")
        function = self.helpers.select(shared, c.vector)
        marks = [self.mark(at, ",") for at in (question, colon)]
        return self._made(c.first, function, shared, self._given(c), marks[0], a, marks[1], b)

    # -- casts and constructors --------------------------------------------------------------------

    def cast(self, t: Known, first: int, end: int, a: Value) -> Value:
        """`(t)a`, the parentheses at tokens `first` to `end`, which is behind."""
        if a.vector is not None and t is not None and not (isinstance(t, Type) and t.is_vector):
            self.refuse(first, f"{a.vector} is cast to what is no vector")
        if isinstance(t, Type) and t.is_vector:
            self.convert(a, t, explicit=True)
            return self.value(first, [self.gap(first + 1, end), a], t, is_copy=True)
        words = self.raw(first, end)
        result = self.value(first, [words, a], t)
        if isinstance(t, Pointer) and isinstance(t.to, Type) and t.to.is_vector:
            result.taken = a.taken
            if a.element is not None and a.type == t.to.lane:  # no pointer, but an element
                base, lane, opening = a.element
                result.element = self.value(first, [words, base]), lane, opening
        return result

    def construct(
        self, t: Type, first: int, marks: Sequence[int], items: Sequence[Value], inner: Text
    ) -> Value:
        """`t(items)` and `(t)(items)`, which begins at token `first`; the rest as of `call`."""
        space = self.gap(first + 1, marks[0])
        if len(items) == 1:
            self.convert(items[0], t, explicit=True)
            text: Text = [space, self.mark(marks[0]), inner, self.mark(marks[-1])]
            return self.value(first, text, t, is_copy=True)
        found = sum(item.vector.lanes if item.vector else 1 for item in items)
        if found != t.lanes:
            self.refuse(first, f"{t} is made of {found} lanes")
        function = self.helpers.construct(t, [item.vector for item in items])
        return self._made(first, function, t, space, self._listed(marks, items))

    # -- lanes -------------------------------------------------------------------------------------

    def _no_lane(self, at: int, t: Type, lane: int | None) -> NoReturn:
        self.refuse(at, f"{t} has no lane {lane}; its lanes are 0 to {t.lanes - 1}")

    def _one(self, whole: Value, lane: int, space: Text) -> Value:
        """A lane of a vector, or of the one that a pointer points to.

        Lanes have names, so that writing to one of a copy is the compiler's error; those of `half`
        have none.
        """
        t = whole.type.to if isinstance(whole.type, Pointer) else whole.type
        assert isinstance(t, Type)
        dot = "->" if isinstance(whole.type, Pointer) else "."
        name = f"{dot}lane[{lane}]" if t.scalar == "half" else f"{dot}s{lane:x}"
        result = self._plain(whole, space, name)
        result.type, result.is_copy = t.lane, whole.is_copy
        return result

    def member(self, a: Value, at: int, field_type: Known) -> Value:
        """`a.name` and `a->name`, the name at token `at`."""
        t = a.type.to if isinstance(a.type, Pointer) else a.type
        name = self.word(at)
        if not isinstance(t, Type) or not t.is_vector:
            result = self._plain(a, self.mark(at - 1), self.mark(at))
            result.type = t.fields.get(name) if isinstance(t, Record) else None
            if t is None:
                result.type = field_type
            return result
        lanes = lanes_named(name, t.lanes)
        if lanes is None or max(lanes) >= t.lanes:
            self.refuse(at, f"{t} has no {name!r}; its lanes are s0 to s{t.lanes - 1:x}")
        whole, lanes, space = self._of_picked(a, lanes, self.gap(at - 1, at + 1))
        if len(lanes) == 1:
            return self._one(whole, lanes[0], space)
        vector = whole
        if isinstance(whole.type, Pointer):
            vector = Value(whole.first, "", ["(*(", whole.text, "))"], whole.type.to)
        assert vector.vector is not None
        part = Type(t.scalar, len(lanes), t.mask)
        function = self.helpers.swizzle(vector.vector, lanes)
        made = self._made(a.first, function, part, self._given(vector), space)
        made.picked = whole, lanes, space
        return made

    @staticmethod
    def _of_picked(a: Value, lanes: Sequence[int], space: str) -> tuple[Value, Sequence[int], Text]:
        """Lanes of a value, as lanes of the vector that they are picked from."""
        if a.picked is None:
            return a, lanes, space
        whole, outer, before = a.picked
        return whole, [outer[i] for i in lanes], [before, space]

    def subscript(
        self, a: Value, opening: int, closing: int, lane: int | None, inner: Text
    ) -> Value:
        """`a[inner]`: an element, or a lane; `lane` is the number if nothing else stands there."""
        if a.vector is not None and lane is not None:
            if lane >= a.vector.lanes:
                self._no_lane(opening, a.vector, lane)
            whole, lanes, space = self._of_picked(a, [lane], self.gap(opening, closing + 1))
            return self._one(whole, lanes[0], space)
        between: Text = [self.mark(opening), inner, self.mark(closing)]
        if a.vector is not None:
            result = self._plain(a, ".lane", between)
            result.type, result.is_copy = a.vector.lane, a.is_copy
            return result
        result = self._plain(a, between)
        if isinstance(a.type, Pointer):
            result.type = a.type.to
            if lane is not None and self.word(a.first) == "(" and self.word(opening - 1) == ")":
                result.element = a, lane, opening
        return result

    # -- calls -------------------------------------------------------------------------------------

    def call(
        self, callee: Value, marks: Sequence[int], arguments: Sequence[Value], inner: Text,
        is_declared: bool,
    ) -> Value:  # fmt: skip
        """`callee(arguments)`; `marks` are its parentheses and commas, `inner` what stands between.

        Args:
            is_declared: the callee is a name that the source declares, a type included.
        """
        result = self._plain(callee, self.mark(marks[0]), inner, self.mark(marks[-1]))
        function = _called(callee.type, arguments)
        vectors = [a.vector for a in arguments if a.vector is not None]
        if function is not None and (not vectors or function.variadic or any(function.vectors)):
            for argument, t in zip(arguments, function.parameters):
                self.convert(argument, t)
            result.type = function.result
            return result
        if not vectors or (function is None and (is_declared or not callee.name)):
            return result
        if not callee.name:
            assert function is not None
            if all(isinstance(t, Type) for t in function.parameters):
                what = "vectors for a function of numbers that is called through an expression"
                self.refuse(callee.first, what)
            return result
        shared = self._meeting(vectors, callee.first, callee.name).plain()
        if callee.name in ("min", "max") and len(arguments) == 2:
            for argument in arguments:
                self.convert(argument, shared)
            name = self.helpers.extreme("<" if callee.name == "min" else ">", shared)
            return self._made(callee.first, name, shared, self._listed(marks, arguments))
        return self._by_lane(callee, marks, arguments, shared, function)

    def _by_lane(
        self, callee: Value, marks: Sequence[int], arguments: Sequence[Value], shared: Type,
        function: Function | None,
    ) -> Value:  # fmt: skip
        """A function of numbers, such as expf, that gets vectors: called once for each lane.

        Its arguments and its result have the types it is declared with; without, all have the
        `shared` one.
        """
        self._counter += 1
        prefix = f"mblob_{self._counter}"
        declared = [*function.parameters] if function is not None else []
        declared += [None] * (len(arguments) - len(declared))
        made = _lanes_of(function.result if function is not None else None, shared)
        text: list[Text] = ["(__extension__ ({"]
        names = [f"{prefix}_{i}" for i in range(len(arguments))]
        for name, argument, t, at in zip(names, arguments, declared, marks):
            self.convert(argument, _lanes_of(t, shared))
            vector = self.helpers.type(_lanes_of(t, shared))
            text += [f" {vector} {name} = ", self.mark(at, "("), argument, ");"]
        i, r = f"{prefix}_i", f"{prefix}_r"
        lanes = ", ".join(f"{name}.lane[{i}]" for name in names)
        loop = f"for (int {i} = 0; {i} < {made.lanes}; ++{i})"
        text += [
            self.mark(marks[-1], ""),
            f" {self.helpers.type(made)} {r}; {loop} {r}.lane[{i}] = {callee.name}({lanes}); {r}; }}))",
        ]
        return self.value(callee.first, text, made)


def _lanes_of(t: Known, shared: Type) -> Type:
    """A vector of numbers of type `t`, as wide as `shared`, which it is if that type is none we
    follow."""
    return Type(t.scalar, shared.lanes) if isinstance(t, Type) and not t.is_vector else shared


def _called(t: Known, arguments: Sequence[Value]) -> Function | None:
    """The function that a call of something of type `t` calls; None if that is not known."""
    if isinstance(t, Pointer):
        t = t.to
    if isinstance(t, Overloads):
        given = [a.vector and a.vector.plain() for a in arguments]
        return next((f for f in t.functions if f.vectors[: len(given)] == given), None)
    return t if isinstance(t, Function) else None
