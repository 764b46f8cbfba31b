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
_PARAMETERS = "abcdefghjklmnopq"
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

    def _define(self, name: str, result: Type, given: Sequence[Type | str], body: str) -> str:
        """Define a function that computes `r` of `a`, `b` and so on; their types are vectors or in C."""
        if name not in self._functions:
            types = [t if isinstance(t, str) else self.value(t) for t in given]
            parameters = ", ".join(f"{t} {name}" for t, name in zip(types, _PARAMETERS))
            v = self.value(result)
            self._functions[name] = f"{_HEAD}{v} {name}({parameters}) {{ {v} r; {body} return r; }}"
        return name

    def _each(
        self, name: str, result: Type, given: Sequence[Type], lane: str, simd: str | None = None
    ) -> str:
        """Define a function by an expression for every lane, `{a} + {b}`, or one for the whole, which
        is taken where all have the compiler's vectors."""
        whole = simd is not None and all(map(_has_simd, (result, *given)))
        part = _whole if whole else _lane
        operands = {name: part(t, name) for name, t in zip(_PARAMETERS, given)}
        value = (simd if simd is not None and whole else lane).format(**operands)
        made = f"{part(result, 'r')} = ({self.simd(result) if whole else scalar(result)})({value});"
        loop = "" if whole else f"for (int i = 0; i < {result.lanes}; ++i) "
        return self._define(name, result, given, loop + made)

    def _of(self, t: Type, values: Sequence[str]) -> str:
        """The lanes are these values. A vector is set whole: of one set by lanes gcc 14 says that
        it is not."""
        cast = [f"({self.scalar(t)})({value})" for value in values]
        if _has_simd(t):
            return f"{_whole(t, 'r')} = ({self.simd(t)}){{{', '.join(cast)}}};"
        return " ".join(f"r.lane[{i}] = {value};" for i, value in enumerate(cast))

    def _wrapping(self, op: str, t: Type) -> tuple[str, str]:
        """The casts before operands, for a lane and for the whole. What may overflow is done on
        unsigned lanes, so that narrow lanes wrap as in C and numpy."""
        if op not in ("+", "-", "*", "<<") or t.kind == "float":
            return "", ""
        unsigned = Type(f"uint{t.bits}_t", t.lanes)
        return f"(mblob_uint{max(32, t.bits)}_t)", f"({self.simd(unsigned)})" if _has_simd(
            t
        ) else ""

    # -- operators ---------------------------------------------------------------------------------

    def binary(self, op: str, t: Type) -> str:
        """`T f(T, T)`; of a comparison the result is the mask."""
        name, result = f"{t.name}_{_NAMES[op]}", t.as_mask() if op in COMPARISONS else t
        if op in ("/", "%") and t.kind != "float":
            return self._division(name, op, t)
        # of a shift what is left of the count modulo the bits of a lane, as in OpenCL
        count = f" & {t.bits - 1}" if op in ("<<", ">>") else ""
        lane, simd = (f"{c}{{a}} {op} ({c}{{b}}{count})" for c in self._wrapping(op, t))
        sign = "-" if op in COMPARISONS else ""
        return self._each(name, result, (t, t), f"{sign}({lane})", simd)

    def _division(self, name: str, op: str, t: Type) -> str:
        """/ and % on integers, which no compiler may fold its own way and no processor may stop at.

        The least number / -1 wraps to itself, as - does; of zeros the quotient and the remainder
        are zero, as in numpy. Both come of dividing by 1 instead, and where the divisor is known
        nothing of it remains.
        """
        least = f"(-{2 ** (t.bits - 1) - 1}{'ll' if t.bits == 64 else ''} - 1)"
        zero = odd = "({b} == 0)"
        if t.kind == "int":
            at_least = "" if op == "%" else f" & ({{a}} == {least})"
            odd = f"({zero} | (({{b}} == -1){at_least}))"
        if not _has_simd(t):
            instead = "0" if op == "%" else f"{zero} ? 0 : {{a}}"
            return self._each(name, t, (t, t), f"{odd} ? ({instead}) : {{a}} {op} {{b}}")
        # The masks are -1 and 0: with them the divisor's bits are cleared, and its lowest set.
        v = self.simd(t)
        keep = "" if op == "%" else f" & ~({v}){zero}"
        body = f"{v} odd = ({v}){odd}, by = ({{b}} & ~odd) - odd; {{r}} = ({{a}} {op} by){keep};"
        wholes = {name: _whole(t, name) for name in "abr"}
        return self._define(name, t, (t, t), body.format(**wholes))

    def put(self, t: Type, lanes: Sequence[int]) -> str:
        """`T' f(T *, T')`: assignment to the lanes of these numbers. It gives a union, whatever its
        size: as a statement the call must be nothing but a call."""
        part = Type(t.scalar, len(lanes))
        name, v = f"{t.name}_put_{''.join(f'{i:x}' for i in lanes)}", self.type(part)
        body = f"{v} r; {'r.simd' if in_register(part) else 'r'} = b;"
        body += "".join(f" a->lane[{lane}] = r.lane[{i}];" for i, lane in enumerate(lanes))
        head = f"{_HEAD}{v} {name}({self.type(t)} *a, {self.value(part)} b)"
        self._functions.setdefault(name, f"{head} {{ {body} return r; }}")
        return name

    def unary(self, op: str, t: Type) -> str:
        """`T f(T)` for - and ~; for ! the mask of the lanes that are zero."""
        if op == "!":
            zero = f"{{a}} == ({self.simd(t)}){{{{0}}}}"
            return self._each(f"{t.name}_is_zero", t.as_mask(), (t,), "-({a} == 0)", zero)
        lane, simd = (f"{op}{cast}{{a}}" for cast in self._wrapping(op, t))
        return self._each(f"{t.name}_{'neg' if op == '-' else 'not'}", t, (t,), lane, simd)

    def select(self, t: Type, condition: Type) -> str:
        """`T f(C, T, T)`: of each lane the second argument where the first is not zero, else the
        third."""
        bits, simd = self.simd(condition), None
        if condition.mask and condition.bits == t.bits:
            simd = f"({{a}} & ({bits}){{b}}) | (~{{a}} & ({bits}){{c}})"
        name = f"{t.name}_by_{'mask' if condition.mask else 'value'}_{condition}"
        return self._each(name, t, (condition, t, t), "{a} ? {b} : {c}", simd)

    def extreme(self, op: str, t: Type) -> str:
        """`T f(T, T)`: `a op b ? a : b` by lane, for min and max."""
        less, select = self.binary(op, t), self.select(t, t.as_mask())
        name = f"{t.name}_{'min' if op == '<' else 'max'}"
        return self._define(name, t, (t, t), f"r = {select}({less}(a, b), a, b);")

    # -- making vectors ----------------------------------------------------------------------------

    def broadcast(self, t: Type) -> str:
        """`T f(scalar)`: every lane is it. In a mask every lane is -1 if it is not zero."""
        self.type(t)
        name, lane, given = f"{t.name}_all", "a", self.parameter(t)
        if t.mask:
            name, lane, given = f"{t.name}_flag", "-(a != 0)", "int"
        return self._define(name, t, (given,), self._of(t, [lane] * t.lanes))

    def construct(self, t: Type, items: Sequence[Type | None]) -> str:
        """`T f(items...)`: the lanes of all items in a row; None is a scalar."""
        values: list[str] = []
        for name, item in zip(_PARAMETERS, items):
            values += [_lane(item, name, k) for k in range(item.lanes)] if item else [name]
        suffix = "of" if not any(items) else "from_" + "_".join(str(i) if i else "x" for i in items)
        given = [item or self.parameter(t) for item in items]
        return self._define(f"{t.name}_{suffix}", t, given, self._of(t, values))

    def convert(self, source: Type, t: Type) -> str:
        """`T f(S)`: each lane converted. Of a mask that becomes no mask, true is 1, as for TVM's
        bool."""
        as_bool = source.mask and not t.mask
        lane = "-{a}" if as_bool else "{a}"
        # gcc 12 fails ("internal compiler error: in convert_mode_scalar") where what became wider
        # in one piece than registers are is compared and chosen from.
        is_float = source.kind == t.kind == "float"
        widens = is_float and source.bits < t.bits and not in_register(t)
        simd = None if widens else f"__builtin_convertvector({lane}, {self.simd(t)})"
        name = f"{t.name}_from_{'bool_' if as_bool else ''}{source}"
        return self._each(name, t, (source,), lane, simd)

    def reinterpret(self, source: Type, t: Type) -> str:
        """`T f(S)`: the same bits."""
        body = "__builtin_memcpy(&r, &a, sizeof r);"
        return self._define(f"{t.name}_bits_of_{source}", t, (source,), body)

    def swizzle(self, t: Type, lanes: Sequence[int]) -> str:
        """`T' f(T)`: the lanes of these numbers."""
        result = Type(t.scalar, len(lanes), t.mask)
        body = self._of(result, [_lane(t, "a", lane) for lane in lanes])
        return self._define(f"{t.name}_s{''.join(f'{i:x}' for i in lanes)}", result, (t,), body)


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
        for given in (f"{reference}b", f"{lane} b"):
            yield f"{v} &operator{op}=({v} &a, {given}) {{ return a = a {op} b; }}"
    for op in ("++", "--"):
        yield f"{v} &operator{op}({v} &a) {{ return a {op[0]}= ({scalar(t)})1; }}"
        yield f"{v} operator{op}({v} &a, int) {{ {v} r = a; {op}a; return r; }}"
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
