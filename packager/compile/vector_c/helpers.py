"""The C that rewritten sources stand on: vector types, and one inline function per operation that
is used.

A vector is a union of its lanes, named and numbered, and, where the width is a power of two, of
what the compiler computes with. Functions take and give the latter up to 16 bytes: such a union
crosses a call, even an inlined one, in pieces. A vector has exactly the size of its lanes and the
alignment of one, so `*(float5 *)p` and arrays mean what TVM means. Everything compiles as C and C++
under gcc and clang.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mblob.packager.compile.vector_c.types import Type

_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor", "<<": "shl",
    ">>": "shr", "<": "lt", ">": "gt", "<=": "le", ">=": "ge", "==": "eq", "!=": "ne",
}  # fmt: skip
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
_HEAD = "static __inline__ __attribute__((always_inline, unused)) "


def scalar(t: Type) -> str:
    """The C name of a lane type: a name of ours, because the source may include <stdint.h> later,
    or never."""
    return f"mblob_{t.scalar}"


# bytes: wider vectors in calls change the ABI with the instruction set, and compilers warn
_REGISTER = 16


def _has_simd(t: Type) -> bool:
    return t.lanes & (t.lanes - 1) == 0 and t.scalar != "half"


def in_register(t: Type) -> bool:
    """True if functions take and give the type as the compiler's vector, False if as the union."""
    return _has_simd(t) and t.lanes * t.bits // 8 <= _REGISTER


def _whole(t: Type, variable: str) -> str:
    return variable if in_register(t) else f"{variable}.simd"


def _lane(t: Type, variable: str, i: int | str = "i") -> str:
    return f"{variable}[{i}]" if in_register(t) else f"{variable}.lane[{i}]"


def _wraps(op: str, t: Type) -> bool:
    """True if an operation may overflow. It is then done on unsigned lanes, so that narrow lanes
    wrap as in C and numpy."""
    return op in ("+", "-", "*", "<<") and t.kind != "float"


def _count(op: str, t: Type, value: str) -> str:
    """The right operand: of a shift, what is left of it modulo the bits of a lane, as in OpenCL."""
    return f"({value} & {t.bits - 1})" if op in ("<<", ">>") else value


def _least(t: Type) -> str:
    """The least number of signed lanes."""
    return f"(-{2 ** (t.bits - 1) - 1}{'ll' if t.bits == 64 else ''} - 1)"


def _unsigned(t: Type) -> Type:
    return Type(f"uint{t.bits}_t", t.lanes)


class Helpers:
    """The definitions that a source needs. Each method answers the name to call, and remembers to
    define it."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._vectors: dict[str, Type] = {}
        self._functions: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self.uses_half = False

    def text(self) -> str:
        """The definitions, in an order that compiles."""
        parts = (*self._types.values(), *self._aliases.values(), *self._functions.values())
        return "".join(f"{part}\n" for part in parts)

    @property
    def vectors(self) -> list[Type]:
        """The vectors defined so far."""
        return [*self._vectors.values()]

    def alias(self, name: str, t: Type) -> None:
        """Give a type the name under which the source uses it."""
        target = self.type(t) if t.is_vector else self.scalar(t)
        self._aliases[name] = f"typedef {target} {name};"

    def scalar(self, t: Type) -> str:
        """The C name of a lane type."""
        self.uses_half = self.uses_half or t.scalar == "half"
        return scalar(t)

    def parameter(self, t: Type) -> str:
        """The C type in which functions take a lane: clang has no parameters of 16-bit floats."""
        return "float" if self.scalar(t) == "mblob_half" else scalar(t)

    def type(self, t: Type) -> str:
        """Its name; masks are plain integers."""
        t, name = t.plain(), t.name
        if name not in self._types:
            lane = self.scalar(t)
            members = [f"{lane} lane[{t.lanes}];"]
            lines = []
            if _has_simd(t):
                size = t.lanes * t.bits // 8
                attributes = f"vector_size({size}), aligned({t.bits // 8}), may_alias"
                lines.append(f"typedef {lane} {name}_simd __attribute__(({attributes}));")
                members.append(f"{name}_simd simd;")
            if t.scalar != "half":  # in C++ it may be a class, which no anonymous struct can hold
                names = ", ".join(f"s{i:x}" for i in range(t.lanes))
                members.append(f"__extension__ struct {{ {lane} {names}; }};")
                members.append(
                    f"__extension__ struct {{ {lane} {', '.join('xyzw'[: t.lanes])}; }};"
                )
            lines.append(
                f"typedef union {{ {' '.join(members)} }} __attribute__((may_alias)) {name};"
            )
            self._types[name] = "\n".join(lines)
            self._vectors[name] = t
        return name

    def simd(self, t: Type) -> str:
        """The compiler's vector of it, which may be none."""
        return f"{self.type(t)}_simd"

    def value(self, t: Type) -> str:
        """The C type in which functions take and give it."""
        name = self.type(t)
        return f"{name}_simd" if in_register(t) else name

    def _define(self, name: str, result: Type, parameters: str, lines: str) -> str:
        if name not in self._functions:
            made = self.value(result)
            self._functions[name] = (
                f"{_HEAD}{made} {name}({parameters}) {{ {made} r; {lines} return r; }}"
            )
        return name

    def _by_lane(self, t: Type, value: str) -> str:
        return f"for (int i = 0; i < {t.lanes}; ++i) {_lane(t, 'r')} = ({scalar(t)})({value});"

    def _operand(self, op: str, t: Type, variable: str) -> str:
        """An operand as the compiler computes with it: all lanes, or lane `i`."""
        simd, cast = _has_simd(t), ""
        if _wraps(op, t):
            cast = f"({self.simd(_unsigned(t)) if simd else f'mblob_uint{max(32, t.bits)}_t'})"
        return cast + (_whole(t, variable) if simd else _lane(t, variable))

    def _set(self, t: Type, result: Type, value: str) -> str:
        """The result is a value of operands of type `t`."""
        if _has_simd(t):
            return f"{_whole(result, 'r')} = ({self.simd(result)})({value});"
        return self._by_lane(result, value)

    def _of(self, t: Type, values: Sequence[str]) -> str:
        """The lanes are these values. A vector is set whole: of one set by lanes gcc 14 says that
        it is not."""
        cast = [f"({self.scalar(t)})({value})" for value in values]
        if _has_simd(t):
            return f"{_whole(t, 'r')} = ({self.simd(t)}){{{', '.join(cast)}}};"
        return " ".join(f"r.lane[{i}] = {value};" for i, value in enumerate(cast))

    # -- operators ---------------------------------------------------------------------------------

    def binary(self, op: str, t: Type) -> str:
        """`T f(T, T)`; of a comparison the result is the mask."""
        result = t.as_mask() if op in COMPARISONS else t
        name, v = f"{t.name}_{_NAMES[op]}", self.value(t)
        if op in ("/", "%") and t.kind != "float":
            return self._define(name, t, f"{v} a, {v} b", self._division(op, t))
        value = f"{self._operand(op, t, 'a')} {op} {_count(op, t, self._operand(op, t, 'b'))}"
        if op in COMPARISONS and not _has_simd(t):
            value = f"-({value})"
        body = self._set(t, result, value)
        return self._define(name, result, f"{v} a, {v} b", body)

    def _division(self, op: str, t: Type) -> str:
        """The body of / and % on integers, which no compiler may fold its own way and no processor
        may stop at.

        The least number / -1 wraps to itself, as - does; of zeros the quotient and the remainder
        are zero, as in numpy. Both come of dividing by 1 instead, and where the divisor is known
        nothing of it remains.
        """
        simd = _has_simd(t)
        a, b = self._operand(op, t, "a"), self._operand(op, t, "b")
        zero = f"({b} == 0)"
        odd = zero
        if t.kind == "int":
            odd = (
                f"({zero} | ({b} == -1))"
                if op == "%"
                else f"({zero} | (({b} == -1) & ({a} == {_least(t)})))"
            )
        if not simd:
            value = f"{odd} ? {'0' if op == '%' else f'{zero} ? 0 : {a}'} : {a} {op} {b}"
            return self._by_lane(t, value)
        # The masks are -1 and 0: with them the divisor's bits are cleared, and its lowest set.
        v = self.simd(t)
        body = f"{v} odd = ({v}){odd}, by = ({b} & ~odd) - odd;"
        keep = "" if op == "%" else f" & ~({v}){zero}"
        return f"{body} {_whole(t, 'r')} = ({a} {op} by){keep};"

    def update(self, op: str, t: Type, lanes: Sequence[int] = (), behind: bool = False) -> str:
        """`P f(T *, P)`: assignment to the lanes of these numbers, or to all; compound if there is an
        operator.

        The result is a union, whatever its size: as a statement the call must be nothing but a call.

        Args:
            behind: it is what the lanes were before, as of `v++`.
        """
        part = Type(t.scalar, len(lanes)) if lanes else t
        picked = self.swizzle(t, lanes) if lanes else t.name
        name, v = f"{picked}_{_NAMES.get(op, 'set')}_{'after' if behind else 'to'}", self.type(part)
        whole = _given(t, "a[0]")
        old = f"{picked}({whole})" if lanes else whole
        body = _kept(part, "n", f"{self.binary(op, part)}({old}, b)" if op else "b")
        if behind:
            body += f" {v} r; {_kept(part, 'r', old)}"
        stores = [f"a->lane[{lane}] = n.lane[{i}];" for i, lane in enumerate(lanes)]
        body += " ".join(stores or [f" {_kept(t, 'a[0]', _given(t, 'n'))}"])
        head = f"{_HEAD}{v} {name}({self.type(t)} *a, {self.value(part)} b)"
        self._functions[name] = f"{head} {{ {v} n; {body} return {'r' if behind else 'n'}; }}"
        return name

    def unary(self, op: str, t: Type) -> str:
        """`T f(T)` for - and ~; for ! the mask of the lanes that are zero."""
        result, value, name = t, f"{op}{self._operand(op, t, 'a')}", "neg" if op == "-" else "not"
        if op == "!":
            result, value, name = t.as_mask(), f"{self._operand(op, t, 'a')} == ", "is_zero"
            value = f"{value}({self.simd(t)}){{0}}" if _has_simd(t) else f"-({value}0)"
        body = self._set(t, result, value)
        return self._define(f"{t.name}_{name}", result, f"{self.value(t)} a", body)

    def select(self, t: Type, condition: Type) -> str:
        """`T f(C, T, T)`: of each lane the second argument where the first is not zero, else the
        third."""
        v, c = self.value(t), self.value(condition)
        if condition.mask and _has_simd(t) and _has_simd(condition) and condition.bits == t.bits:
            mask, bits = _whole(condition, "c"), self.simd(condition)
            chosen = f"({mask} & ({bits}){_whole(t, 'a')}) | (~{mask} & ({bits}){_whole(t, 'b')})"
            body = self._set(t, t, chosen)
        else:
            body = self._by_lane(t, f"{_lane(condition, 'c')} ? {_lane(t, 'a')} : {_lane(t, 'b')}")
        kind = "mask" if condition.mask else "value"
        return self._define(f"{t.name}_by_{kind}_{condition}", t, f"{c} c, {v} a, {v} b", body)

    def extreme(self, op: str, t: Type) -> str:
        """`T f(T, T)`: `a op b ? a : b` by lane, for min and max."""
        v, less, select = self.value(t), self.binary(op, t), self.select(t, t.as_mask())
        name = f"{t.name}_{'min' if op == '<' else 'max'}"
        return self._define(name, t, f"{v} a, {v} b", f"r = {select}({less}(a, b), a, b);")

    # -- making vectors ----------------------------------------------------------------------------

    def broadcast(self, t: Type) -> str:
        """`T f(scalar)`: every lane is it. In a mask every lane is -1 if it is not zero."""
        self.type(t)
        if t.mask:
            return self._define(f"{t.name}_flag", t, "int x", self._of(t, ["-(x != 0)"] * t.lanes))
        return self._define(
            f"{t.name}_all", t, f"{self.parameter(t)} x", self._of(t, ["x"] * t.lanes)
        )

    def construct(self, t: Type, items: Sequence[Type | None]) -> str:
        """`T f(items...)`: the lanes of all items in a row; None is a scalar."""
        parameters = [
            f"{self.value(item) if item else self.parameter(t)} x{i}"
            for i, item in enumerate(items)
        ]
        values: list[str] = []
        for i, item in enumerate(items):
            values += [_lane(item, f"x{i}", k) for k in range(item.lanes)] if item else [f"x{i}"]
        suffix = "of" if not any(items) else "from_" + "_".join(str(i) if i else "x" for i in items)
        return self._define(f"{t.name}_{suffix}", t, ", ".join(parameters), self._of(t, values))

    def convert(self, source: Type, t: Type) -> str:
        """`T f(S)`: each lane converted. Of a mask that becomes no mask, true is 1, as for TVM's
        bool."""
        as_bool = source.mask and not t.mask
        sign = "-" if as_bool else ""
        # gcc 12 fails ("internal compiler error: in convert_mode_scalar") where what became wider
        # in one piece than registers are is compared and chosen from.
        widens = (
            (source.kind, t.kind) == ("float", "float")
            and source.bits < t.bits
            and not in_register(t)
        )
        if _has_simd(source) and _has_simd(t) and not widens:
            lanes = f"{sign}{_whole(source, 'a')}"
            body = f"{_whole(t, 'r')} = __builtin_convertvector({lanes}, {self.simd(t)});"
        else:
            body = self._by_lane(t, f"{sign}{_lane(source, 'a')}")
        name = f"{t.name}_from_{'bool_' if as_bool else ''}{source}"
        return self._define(name, t, f"{self.value(source)} a", body)

    def reinterpret(self, source: Type, t: Type) -> str:
        """`T f(S)`: the same bits."""
        body = "__builtin_memcpy(&r, &a, sizeof r);"
        return self._define(f"{t.name}_bits_of_{source}", t, f"{self.value(source)} a", body)

    def swizzle(self, t: Type, lanes: Sequence[int]) -> str:
        """`T' f(T)`: the lanes of these numbers."""
        result = Type(t.scalar, len(lanes), t.mask)
        body = self._of(result, [_lane(t, "a", lane) for lane in lanes])
        return self._define(
            f"{t.name}_s{''.join(f'{i:x}' for i in lanes)}", result, f"{self.value(t)} a", body
        )


# -- operators for C++ -----------------------------------------------------------------------------

# What the rewriter understands it makes calls of helpers itself. What is left are operators on
# operands of which it cannot tell the type, in templates and containers; on vectors C++ finds
# these. They do nothing but call the same helpers.
_ANY_LANES = ("+", "-", "*", "/")
_INTEGER_LANES = ("%", "&", "|", "^", "<<", ">>")
_CXX_HEAD = "static inline __attribute__((always_inline, unused)) "


def with_operators(helpers: Helpers) -> str:
    """The definitions for C++: those of the helpers, and the operators on all their types."""
    lines: list[str] = []
    done = 0
    while done < len(helpers.vectors):  # comparing floats needs integers
        lines += _operators_on(helpers, helpers.vectors[done])
        done += 1
    return helpers.text() + "".join(f"{_CXX_HEAD}{line}\n" for line in lines)


def _operators_on(helpers: Helpers, t: Type) -> Iterator[str]:
    v, lane = t.name, helpers.parameter(t)
    reference, every = f"const {v} &", helpers.broadcast(t)
    yield f"{helpers.value(t)} {every}({reference}x) {{ return {_given(t, 'x')}; }}"
    x = f"{v} x; {_kept(t, 'x', f'{every}(s)')}"
    own = (*_ANY_LANES, *_INTEGER_LANES) if t.kind != "float" else _ANY_LANES
    for op in (*own, *COMPARISONS):
        result = t.as_mask() if op in COMPARISONS else t
        helpers.type(result)
        call = f"{helpers.binary(op, t)}({_given(t, 'a')}, {_given(t, 'b')})"
        yield f"{result.name} operator{op}({reference}a, {reference}b) {{ {_returned(result, call)} }}"
        yield f"{result.name} operator{op}({reference}a, {lane} s) {{ {x} return a {op} x; }}"
        yield f"{result.name} operator{op}({lane} s, {reference}b) {{ {x} return x {op} b; }}"
    for op in own:
        update = helpers.update(op, t)
        yield f"{v} &operator{op}=({v} &a, {reference}b) {{ {update}(&a, {_given(t, 'b')}); return a; }}"
        yield f"{v} &operator{op}=({v} &a, {lane} s) {{ {update}(&a, {every}(s)); return a; }}"
    for op in ("+", "-"):
        yield f"{v} &operator{op}{op}({v} &a) {{ {helpers.update(op, t)}(&a, {every}(1)); return a; }}"
        yield f"{v} operator{op}{op}({v} &a, int) {{ return {helpers.update(op, t, behind=True)}(&a, {every}(1)); }}"
    yield f"{v} operator+({reference}a) {{ return a; }}"
    for op in ("-", "!") if t.kind == "float" else ("-", "!", "~"):
        result = t.as_mask() if op == "!" else t
        helpers.type(result)
        call = f"{helpers.unary(op, t)}({_given(t, 'a')})"
        yield f"{result.name} operator{op}({reference}a) {{ {_returned(result, call)} }}"


def _given(t: Type, name: str) -> str:
    """A vector as helpers take it."""
    return f"{name}.simd" if in_register(t) else name


def _kept(t: Type, name: str, call: str) -> str:
    """A C statement that stores the result of a helper's call in the vector `name`."""
    return f"{_given(t, name)} = {call};"


def _returned(t: Type, call: str) -> str:
    return f"{t.name} r; {_kept(t, 'r', call)} return r;"
