"""Each operation on vectors becomes the call of a helper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from mblob.packager.compile.vector_c.helpers import COMPARISONS, Helpers, in_register
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
from mblob.packager.compile.vector_c.values import Value

_INTEGERS = ("%", "&", "|", "^", "<<", ">>")
_INTEGERS_ONLY = ("~", *_INTEGERS, *(f"{op}=" for op in _INTEGERS))


class Operations:
    """Makes values of values.

    Args:
        refuse: raises an error at a line of the statement that is read.
        helpers: where the functions to call come from.
    """

    def __init__(self, refuse: Callable[[int, str], NoReturn], helpers: Helpers) -> None:
        self.refuse = refuse
        self.helpers = helpers
        self.counter = 0
        self.touched = False  # since somebody asked, by an operation on vectors

    def _call(self, function: str, t: Type, *arguments: Value | str) -> str:
        """The call of a helper that gives a `t`."""
        given = ", ".join(a if isinstance(a, str) else self._given(a) for a in arguments)
        if in_register(t):
            return f"(__extension__ ({self.helpers.type(t)}){{.simd = {function}({given})}})"
        return f"{function}({given})"

    def _made(self, line: int, function: str, t: Type, *arguments: Value) -> Value:
        return Value(self._call(function, t, *arguments), t, line, is_copy=True)

    @staticmethod
    def _given(value: Value) -> str:
        """A value as helpers take it."""
        is_register = value.vector is not None and in_register(value.vector)
        return f"{value.operand}.simd" if is_register else value.text

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
        self.touched = True
        if source is not None and source.lanes != t.lanes:
            found = f"a vector of {source.lanes} lanes ({source})"
            self.refuse(value.line, f"{found} where {t} is expected")
        if isinstance(value.type, (Pointer, Function)):
            self.refuse(value.line, f"a pointer or function where {t} is expected")
        if source is None and not isinstance(value.type, Record):
            value.become(self._call(self.helpers.broadcast(t), t, value.text), t)
        elif source is not None:
            becomes_bool = explicit and source.mask and not t.mask
            if becomes_bool or source.scalar != t.scalar:
                value.become(self._call(self.helpers.convert(source, t), t, value), t)
        value.type = t

    def _to_mask(self, value: Value, mask: Type) -> None:
        """Make a value a mask of these lanes: true is what is not zero."""
        if value.vector is None:
            text = f"0 != {value.operand}"
            value.become(self._call(self.helpers.broadcast(mask), mask, text), mask)
            return
        if not value.vector.mask:
            for t in (value.vector, value.vector.as_mask()):
                value.become(
                    self._call(self.helpers.unary("!", t), t.as_mask(), value), t.as_mask()
                )
        self.convert(value, mask)

    def _meeting(self, vectors: Sequence[Type | None], line: int, what: str) -> Type:
        """The type in which vectors meet; None is a number."""
        found = [t for t in vectors if t is not None]
        shared = found[0]
        for t in found[1:]:
            if t.lanes != shared.lanes:
                lanes = f"vectors of {shared.lanes} and of {t.lanes} lanes"
                self.refuse(line, f"{what.format(shared, t)}: {lanes}")
            shared = common(shared, t)
        return shared

    # -- operators ---------------------------------------------------------------------------------

    def binary(self, op: str, a: Value, b: Value, line: int) -> Value:
        """`a op b`."""
        result = Value(f"{a.operand} {op} {b.operand}", None, line, is_simple=False)
        if isinstance(a.type, Record) or isinstance(b.type, Record):
            result.type = Record()
            return result  # an error, or an operator of C++ that the source has
        if a.vector is None and b.vector is None:
            pointers = [o.type for o in (a, b) if isinstance(o.type, Pointer)]
            if op in ("+", "-") and len(pointers) == 1:
                result.type = pointers[0]
            return result
        shared = self._meeting((a.vector, b.vector), line, f"{{}} {op} {{}}")
        if op in ("&&", "||"):
            shared = shared.as_mask()
            for side in (a, b):
                self._to_mask(side, shared)
            op = op[0]
        elif shared.mask and not (op in "&|^" and a.vector and b.vector):
            shared = shared.plain()
        self._check_operator(op, shared, line)
        for side in (a, b):
            self.convert(side, shared)
        t = shared.as_mask() if op in COMPARISONS else shared
        return self._made(line, self.helpers.binary(op, shared), t, a, b)

    def assign(self, op: str, a: Value, b: Value, line: int) -> Value:
        """`a = b`, `a += b`, ..."""
        self._check_written(a, line)
        if a.vector is None or isinstance(b.type, Record):
            if op == "=" and a.vector is None:
                self.convert(b, a.type)
            return Value(f"{a.operand} {op} {b.operand}", a.type, line, is_simple=False)
        self._check_operator(op, a.vector, line)
        self.convert(b, a.vector.plain())
        if op != "=":
            return self._changed(a, line, lambda old: self.binary(op[:-1], old, b, line))
        if a.picked is None:
            return Value(f"{a.operand} = {b.operand}", a.type, line, is_simple=False)
        t, lanes, place = self._place(a, line)
        return Value(f"{self.helpers.put(t, lanes)}({place}, {self._given(b)})", b.type, line)

    def _changed(
        self, a: Value, line: int, change: Callable[[Value], Value], behind: bool = False
    ) -> Value:
        """Give a vector, or several of its lanes, the value that `change` makes of the old one.

        The place is found once. The value of it all is the new one, or the old one for `behind`.
        """
        t, lanes, address = self._place(a, line)
        self.counter += 1
        name = f"mblob_{self.counter}"
        old = Value(f"(*{name})", t, line)
        if a.picked is not None:
            old = self._several(old, lanes, line)
        assert old.vector is not None
        part, kept = old.vector, f"{name}_old"
        before = f" {self.helpers.type(part)} {kept} = {old.text};" if behind else ""
        new = change(old)
        self.convert(new, part.plain())
        stored = f"*{name} = {new.text};"
        if a.picked is not None:
            stored = f"{self.helpers.put(t, lanes)}({name}, {self._given(new)});"
        text = f"{self.helpers.type(t)} *{name} = {address};{before} {stored}{f' {kept};' * behind}"
        return Value(f"(__extension__ ({{ {text} }}))", part, line)

    def _check_operator(self, op: str, t: Type, line: int) -> None:
        """Refuse what lanes of a type do not have."""
        if t.kind == "float" and op in _INTEGERS_ONLY:
            self.refuse(line, f"{t}: {op} is for vectors of integers")

    def _check_written(self, a: Value, line: int) -> None:
        """Refuse to write to what is a copy; of several lanes the place is known."""
        if a.is_copy and a.picked is None:
            self.refuse(line, "this writes to a copy that nothing reads")

    def step(self, op: str, a: Value, line: int, behind: bool) -> Value:
        """`++a`, or `a++` if the operator stands `behind`."""
        self._check_written(a, line)
        if a.vector is None:
            text = f"{a.operand}{op}" if behind else f"{op}{a.operand}"
            return Value(text, a.type, line, is_simple=behind)
        one = Value("1", None, line)
        return self._changed(a, line, lambda old: self.binary(op[0], old, one, line), behind)

    def prefix(self, op: str, a: Value, line: int) -> Value:
        """`op a` for everything but casts."""
        space = " " if a.operand[:1] in "+-&" else ""
        result = Value(f"{op}{space}{a.operand}", None, line, is_simple=False)
        if op == "&":
            if a.picked is not None:
                self.refuse(line, "several lanes have no address")
            result.type = Pointer(a.type)
            result.taken = a if a.vector is not None and a.is_copy else None
        elif op == "*":
            to = a.type.to if isinstance(a.type, Pointer) else None
            if isinstance(to, Type) and a.taken is not None:
                return self._reinterpreted(a.taken, to, line)
            if isinstance(to, Type) and a.element is not None:
                # `*(T *)(p + i)[2]`: TVM means a lane of what `*(T *)(p + i)` loads
                base, lane = a.element
                if lane is None or lane >= to.lanes:
                    self._no_lane(line, to, lane)
                return self._one(Value(f"(*{base.operand})", to, line), lane)
            known = to if isinstance(a.type, Pointer) else self.unknown(a)
            result.type = a.type if isinstance(a.type, Function) else known
        elif a.vector is not None and op == "+":
            return Value(a.text, a.vector, line, a.is_simple)
        elif a.vector is not None and op in ("-", "~", "!"):
            self._check_operator(op, a.vector, line)
            t = a.vector if op != "-" else a.vector.plain()
            made = t.as_mask() if op == "!" else t
            return self._made(line, self.helpers.unary(op, t), made, a)
        else:
            result.type = self.unknown(a)
        return result

    @staticmethod
    def unknown(a: Value) -> Known:
        """The type of what is made of a value of which only the compiler knows the type."""
        return a.type if isinstance(a.type, Record) else None

    def _reinterpreted(self, a: Value, t: Type, line: int) -> Value:
        """`*(T *)&(a + b)`: the bits of a value, which is nowhere in memory."""
        source = a.vector
        assert source is not None
        bits, wanted = source.lanes * source.bits, t.lanes * t.bits
        if bits != wanted:
            self.refuse(line, f"the bits of {source} are {bits}, of {t} {wanted}")
        return self._made(line, self.helpers.reinterpret(source, t), t, a)

    def conditional(self, c: Value, a: Value, b: Value, line: int) -> Value:
        """`c ? a : b`: by lane if `c` is a vector; else C's own, which evaluates one side."""
        sides = [v for v in (a.vector, b.vector) if v is not None]
        if not sides and c.vector is not None:
            sides = [c.vector.plain()]
        shared = self._meeting(sides, line, "{} : {}") if sides else None
        for side in (a, b):
            self.convert(side, shared)
        if c.vector is None or shared is None:
            text = f"{c.operand} ? {a.operand} : {b.operand}"
            # one of them may be a null pointer
            return Value(text, a.type or b.type, line, is_simple=False)
        if c.vector.lanes != shared.lanes:
            lanes = f"{c.vector.lanes} lanes chooses among vectors of {shared.lanes}"
            self.refuse(line, f"a condition of {lanes}")
        return self._made(line, self.helpers.select(shared, c.vector), shared, c, a, b)

    # -- casts and constructors --------------------------------------------------------------------

    def cast(self, t: Known, name: str, a: Value, line: int) -> Value:
        """`(name)a`, the name that of type `t`."""
        if a.vector is not None and t is not None and not (isinstance(t, Type) and t.is_vector):
            self.refuse(line, f"{a.vector} is cast to what is no vector")
        if isinstance(t, Type) and t.is_vector:
            self.convert(a, t, explicit=True)
            return Value(a.text, t, line, a.is_simple, is_copy=True)
        result = Value(f"({name}){a.operand}", t, line, is_simple=False)
        if isinstance(t, Pointer) and isinstance(t.to, Type) and t.to.is_vector:
            result.taken = a.taken
            if a.element is not None and a.type == t.to.lane:  # no pointer, but an element
                base, lane = a.element
                result.element = Value(f"(({name}){base.operand})"), lane
        return result

    def construct(self, t: Type, items: Sequence[Value], line: int) -> Value:
        """`t(items)` and `(t)(items)`."""
        if len(items) == 1:
            self.convert(items[0], t, explicit=True)
            return Value(items[0].text, t, line, items[0].is_simple, is_copy=True)
        found = sum(item.vector.lanes if item.vector else 1 for item in items)
        if found != t.lanes:
            self.refuse(line, f"{t} is made of {found} lanes")
        return self._made(line, self.helpers.construct(t, [i.vector for i in items]), t, *items)

    # -- lanes -------------------------------------------------------------------------------------

    def _no_lane(self, line: int, t: Type, lane: int | None) -> NoReturn:
        self.refuse(line, f"{t} has no lane {lane}; its lanes are 0 to {t.lanes - 1}")

    def _one(self, whole: Value, lane: int) -> Value:
        """A lane of a vector, or of the one that a pointer points to.

        Lanes have names, so that writing to one of a copy is the compiler's error; those of `half`
        have none.
        """
        t = whole.type.to if isinstance(whole.type, Pointer) else whole.type
        assert isinstance(t, Type)
        self.touched = True
        dot = "->" if isinstance(whole.type, Pointer) else "."
        name = f"{dot}lane[{lane}]" if t.scalar == "half" else f"{dot}s{lane:x}"
        return Value(whole.operand + name, t.lane, whole.line, is_copy=whole.is_copy)

    def member(self, a: Value, dot: str, name: str, unknown: Known, line: int) -> Value:
        """`a.name` and `a->name`."""
        t = a.type.to if isinstance(a.type, Pointer) else a.type
        if not isinstance(t, Type) or not t.is_vector:
            known = t.fields.get(name, unknown) if isinstance(t, Record) else unknown
            return Value(f"{a.operand}{dot}{name}", known, line)
        lanes = lanes_named(name, t.lanes)
        if lanes is None or max(lanes) >= t.lanes:
            self.refuse(line, f"{t} has no {name!r}; its lanes are s0 to s{t.lanes - 1:x}")
        whole, lanes = self._of_picked(a, lanes)
        if len(lanes) == 1:
            return self._one(whole, lanes[0])
        made = self._several(whole, lanes, line)
        made.picked = whole, lanes
        return made

    def _several(self, whole: Value, lanes: Sequence[int], line: int) -> Value:
        """A copy of lanes of a vector, or of the one that a pointer points to."""
        if isinstance(whole.type, Pointer):
            whole = Value(f"(*{whole.operand})", whole.type.to)
        t = whole.vector
        assert t is not None
        part = Type(t.scalar, len(lanes), t.mask)
        return self._made(line, self.helpers.swizzle(t, lanes), part, whole)

    @staticmethod
    def _of_picked(a: Value, lanes: Sequence[int]) -> tuple[Value, Sequence[int]]:
        """Lanes of a value, as lanes of the vector that they are picked from."""
        if a.picked is None:
            return a, lanes
        whole, outer = a.picked
        return whole, [outer[i] for i in lanes]

    def subscript(self, a: Value, lane: int | None, inner: str, line: int) -> Value:
        """`a[inner]`: an element, or a lane; `lane` is the number if nothing else stands there."""
        if a.vector is not None and lane is not None:
            if lane >= a.vector.lanes:
                self._no_lane(line, a.vector, lane)
            whole, lanes = self._of_picked(a, [lane])
            return self._one(whole, lanes[0])
        if a.vector is not None:
            text = f"{a.operand}.lane[{inner}]"
            return Value(text, a.vector.lane, line, is_copy=a.is_copy)
        result = Value(f"{a.operand}[{inner}]", self.unknown(a), line)
        if isinstance(a.type, Pointer):
            result.type = a.type.to
            if lane is not None and not a.is_simple:
                result.element = a, lane
        return result

    def _place(self, a: Value, line: int) -> tuple[Type, Sequence[int], str]:
        """Of a vector or several lanes, which are written: the vector, the lanes, its address."""
        whole, lanes = a.picked or (a, ())
        if len(set(lanes)) < len(lanes):
            self.refuse(line, "one lane is written twice")
        is_pointer = isinstance(whole.type, Pointer)
        t = whole.type.to if isinstance(whole.type, Pointer) else whole.type
        assert isinstance(t, Type)
        return t, lanes, whole.text if is_pointer else f"&{whole.operand}"

    # -- calls -------------------------------------------------------------------------------------

    def call(
        self, callee: Value, arguments: Sequence[Value], is_declared: bool, line: int
    ) -> Value:
        """`callee(arguments)`.

        Args:
            is_declared: the callee is a name that the source declares, a type included.
        """
        function = _called(callee.type, arguments)
        vectors = [a.vector for a in arguments if a.vector is not None]
        known: Known = function.result if function is not None else self.unknown(callee)
        if function is not None and (not vectors or function.variadic or any(function.vectors)):
            for argument, t in zip(arguments, function.parameters):
                self.convert(argument, t)
        elif vectors and callee.name and (function is not None or not is_declared):
            shared = self._meeting(vectors, line, callee.name).plain()
            if callee.name in ("min", "max") and len(arguments) == 2:
                for argument in arguments:
                    self.convert(argument, shared)
                name = self.helpers.extreme("<" if callee.name == "min" else ">", shared)
                return self._made(line, name, shared, *arguments)
            return self._by_lane(callee, arguments, shared, function)
        elif vectors and function is not None:
            if all(isinstance(t, Type) for t in function.parameters):
                what = "vectors for a function of numbers that is called through an expression"
                self.refuse(callee.line, what)
            known = None
        text = f"{callee.operand}({', '.join(a.text for a in arguments)})"
        return Value(text, known, line)

    def _by_lane(
        self, callee: Value, arguments: Sequence[Value], shared: Type, function: Function | None
    ) -> Value:
        """A function of numbers, such as expf, that gets vectors: called once for each lane.

        Its arguments and its result have the types it is declared with; without, all have the
        `shared` one.
        """
        self.counter += 1
        prefix = f"mblob_{self.counter}"
        declared = [*function.parameters] if function is not None else []
        declared += [None] * (len(arguments) - len(declared))
        made = _lanes_of(function.result if function is not None else None, shared)
        text, names = "", [f"{prefix}_{i}" for i in range(len(arguments))]
        for name, argument, t in zip(names, arguments, declared):
            self.convert(argument, _lanes_of(t, shared))
            text += f" {self.helpers.type(_lanes_of(t, shared))} {name} = {argument.text};"
        i, r = f"{prefix}_i", f"{prefix}_r"
        lanes = ", ".join(f"{name}.lane[{i}]" for name in names)
        text += f" {self.helpers.type(made)} {r}; for (int {i} = 0; {i} < {made.lanes}; ++{i})"
        text += f" {r}.lane[{i}] = {callee.name}({lanes}); {r};"
        return Value(f"(__extension__ ({{{text} }}))", made, callee.line)


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
