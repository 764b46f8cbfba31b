"""Random programs over vectors, as C and as what numpy says they leave in their variables.

A program is made statement by statement: each is written as C and done in numpy at once, so that
the generator always knows every value. What C leaves undefined (numbers too big for an integer,
overflow of scalars) is not generated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.vector_c.features import DTYPES

Array = Any  # of numpy, one element per lane
FLOATS = ("half", "float", "double")
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def bits(scalar: str) -> int:
    return 8 * np.dtype(DTYPES[scalar]).itemsize


def meet(a: str, b: str) -> str:
    """The lane type of `a op b`: floats before integers, then the wider, then the unsigned one."""
    return max(a, b, key=lambda t: (t in FLOATS, bits(t), t.startswith("u")))


def divided(op: str, a: int, b: int, info: Any) -> int:
    """`a / b` or `a % b` on one lane, as docs/vectors.md says."""
    if b == 0:
        return 0
    whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    exact = whole if op == "/" else a - whole * b
    return int((exact - info.min) % 2**info.bits + info.min)


def applied(op: str, a: Array, b: Array) -> Array:
    """`a op b` on two arrays of one dtype."""
    with np.errstate(all="ignore"):
        if op in ("<<", ">>"):
            count = b & (8 * a.dtype.itemsize - 1)
            return np.left_shift(a, count) if op == "<<" else np.right_shift(a, count)
        if op in ("/", "%") and a.dtype.kind != "f":
            return np.array(
                [divided(op, int(x), int(y), np.iinfo(a.dtype)) for x, y in zip(a, b)], a.dtype
            )
        done = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "&": np.bitwise_and,
                "|": np.bitwise_or, "^": np.bitwise_xor}[op]  # fmt: skip
        return done(a, b)


@dataclass
class Value:
    """An expression.

    Attributes:
        text: as C.
        scalar: its lane type.
        lanes: its value.
        mask: what a comparison gives; `lanes` are booleans.
    """

    text: str
    scalar: str
    lanes: Array
    mask: bool = False


class Program:
    """One function `void NAME(T *in, T *out, int one)`, which leaves every variable in memory
    behind each statement.

    Args:
        scalar, n: the main type; others of the same width come along.
        name: of the function.
    """

    def __init__(self, chance: random.Random, scalar: str, n: int, name: str) -> None:
        self._random = chance
        self.scalar, self.n, self.name = scalar, n, name
        self.others = chance.sample([t for t in DTYPES if t != scalar], 2)
        self.vector = f"{scalar}{n}"
        count = 4
        low = 0 if scalar.startswith("u") else -9
        self.input = np.array([chance.randint(low, 20) for _ in range(count * n)], DTYPES[scalar])
        parts = self.input.reshape(count, n)
        # Every lvalue below is one variable of the model.
        self.places: dict[str, Array] = {}
        self._forms: list[list[str]] = []
        self._same: dict[str, int] = {}
        groups = [
            ["v", "*pv", "(*(&v))", "pv[0]"], ["rows[1]", "*(rows + 1)", "(*prows)[1]", "(*(rows + one))"],
            ["s.m", "ps->m", "(*ps).m", "(&s)->m"],
            ["*(T *)(buffer + N)", "((T *)buffer)[1]", "((T *)(buffer + (N)))[0]"],
        ]  # fmt: skip
        for texts, part in zip(groups, parts):
            self._forms.append([t.replace("T", self.vector).replace("N", str(n)) for t in texts])
            self.places[texts[0]] = part.copy()
        self._values = list(self.places.values())
        self._busy: set[int] = set()
        self.statements: list[list[str]] = []
        expected = []
        for _ in range(chance.randint(5, 8)):
            self.statements.append(self._statement(2))
            expected.append(np.concatenate(self._values))
        self.expected = np.array(expected)

    # -- the text ----------------------------------------------------------------------------------

    def source(self) -> str:
        v, t, n = self.vector, self.scalar, self.n
        stored = (
            f"  *({v}*)out = v; (({v}*)out)[1] = rows[1]; *({v}*)(out + ({2 * n})) = s.m;"
            f" *({v}*)(out + {3 * n}) = *({v}*)(buffer + {n}); out += {4 * n};\n"
        )
        body = "".join("  " + "\n  ".join(lines) + "\n" + stored for lines in self.statements)
        return f"""struct s_{self.name} {{ {t} before; {v} m; {t} behind; {v} (*f)({v}, {v}); }};
typedef {v} (*function_{self.name})({v}, {v});
static {v} add_{self.name}({v} a, const {v} b) {{ return a + b; }}
static {v} apply_{self.name}(struct s_{self.name} *s, function_{self.name} f, {v} a) {{ return f(a, 1) + s->f(a, a); }}
PUBLIC void {self.name}({t} *in, {t} *out, int one) {{
  {t} buffer[{2 * n}];
  {v} v = *({v}*)in, *pv = &v, rows[2] = {{v, *({v}*)(in + {n})}}, (*prows)[2] = &rows;
  struct s_{self.name} s, *ps = &s;
  {v} (*f)({v}, {v}) = add_{self.name};
  s.m = (({v}*)in)[2]; s.f = one ? f : 0; s.before = s.behind = 0;
  *({v}*)(buffer + {n}) = *({v}*)(in + {3 * n});
  (void)pv; (void)prows; (void)ps;
{body}}}
"""

    # -- statements --------------------------------------------------------------------------------

    def _place(self) -> tuple[int, str]:
        i = self._random.randrange(len(self._forms))
        return i, self._random.choice(self._forms[i])

    def _statement(self, depth: int) -> list[str]:
        kinds = [
            self._assign,
            self._assign,
            self._compound,
            self._lane,
            self._step,
            self._comma,
            self._fresh,
        ]
        if depth:
            kinds += [self._if, self._loop]
        self._busy = set()
        return self._random.choice(kinds)(depth)

    def _assign(self, depth: int) -> list[str]:
        value = self._converted(self._expression(2))
        i, place = self._place()
        self._values[i] = value.lanes
        return [f"{place} = {value.text};"]

    def _fresh(self, depth: int) -> list[str]:
        """Small numbers again: without them floats end as no number at all."""
        i, place = self._place()
        low = self._random.randint(0, 9)
        self._values[i] = np.arange(low, low + self.n).astype(DTYPES[self.scalar])
        return [f"{place} = {self.vector}({', '.join(str(low + k) for k in range(self.n))});"]

    def _compound(self, depth: int) -> list[str]:
        i, place = self._place()
        self._busy = {i}
        op = self._random.choice(self._operators(self.scalar))
        value = self._converted(self._expression(2))
        self._values[i] = applied(op, self._values[i], value.lanes)
        return [f"{place} {op}= {value.text};"]

    def _lane(self, depth: int) -> list[str]:
        i, place = self._place()
        j, source = self._place()
        k, m = self._random.randrange(self.n), self._random.randrange(self.n)
        left, right = self._lane_of(place, k), self._lane_of(source, m)
        self._values[i] = self._values[i].copy()
        self._values[i][k] = self._values[j][m]
        return [f"{left} = {right};"]

    def _lane_of(self, place: str, k: int) -> str:
        forms = [f"({place}).s{k:x}", f"({place})[{k}]"] + [
            f"({place}).{c}" for c in "xyzw"[k : k + 1]
        ]
        if not place.startswith("*"):
            forms.append(f"{place}.s{k:X}")
        return self._random.choice(forms)

    def _step(self, depth: int) -> list[str]:
        """`v++` and the like, with what they give."""
        i, place = self._place()
        j, target = self._place()
        op = self._random.choice("+-")
        before = self._values[i]
        after = applied(op, before, np.ones_like(before))
        self._values[i] = after
        if i == j:
            return [self._random.choice([f"{op}{op}({place});", f"({place}){op}{op};"])]
        behind = self._random.random() < 0.5
        self._values[j] = before if behind else after
        return [f"{target} = ({place}){op}{op};" if behind else f"{target} = {op}{op}({place});"]

    def _comma(self, depth: int) -> list[str]:
        i, place = self._place()
        first = self._converted(self._expression(2))
        self._values[i] = first.lanes
        second = self._converted(self._expression(2))
        j, target = self._place()
        self._values[j] = second.lanes
        return [f"{target} = ({place} = {first.text}, {second.text});"]

    def _if(self, depth: int) -> list[str]:
        """A branch that is taken, and one that is not: of the other nothing stays."""
        kept = [x.copy() for x in self._values]
        dead = self._statement(depth - 1)
        self._values = kept
        taken = self._statement(depth - 1)
        if self._random.random() < 0.5:
            return ["if (one) {", *taken, "} else {", *dead, "}"]
        return ["if (one > 1) {", *dead, "} else {", *taken, "}"]

    def _loop(self, depth: int) -> list[str]:
        i, place = self._place()
        op = self._random.choice(self._operators(self.scalar))
        times = self._random.randint(1, 3)
        self._busy = {i}
        value = self._converted(self._expression(2))
        for _ in range(times):
            self._values[i] = applied(op, self._values[i], value.lanes)
        name = f"i{self._random.randrange(10**6)}"
        step = self._random.choice(
            [f"{place} = {place} {op} ({value.text})", f"{place} {op}= {value.text}"]
        )
        return [f"for (int {name} = 0; {name} < {times}; ++{name}) {step};"]

    # -- expressions -------------------------------------------------------------------------------

    def _operators(self, scalar: str) -> str | list[str]:
        return "+-*/" if scalar in FLOATS else [*"+-*/%&|^", "<<", ">>"]

    def _converted(self, value: Value) -> Value:
        """Of the main type: as C converts in assignments, or by a cast."""
        if value.mask or value.scalar != self.scalar:
            return self._cast(value, self.scalar)
        return value

    def _cast(self, value: Value, scalar: str) -> Value:
        name = f"{scalar}{self.n}"
        if value.mask:
            return Value(f"(({name})({value.text}))", scalar, value.lanes.astype(DTYPES[scalar]))
        if not _can_convert(value.scalar, scalar, value.lanes):
            return self._cast(
                Value(f"({value.text} > {value.text})", "", np.zeros(self.n, bool), True), scalar
            )
        with np.errstate(all="ignore"):
            lanes = value.lanes.astype(DTYPES[scalar])
        form = self._random.choice([f"(({name})({value.text}))", f"{name}({value.text})"])
        return Value(form, scalar, lanes)

    def _expression(self, depth: int) -> Value:
        if not depth:
            return self._leaf()
        kinds = [self._binary] * 4 + [self._unary, self._choose, self._choose, self._scalar_choice, self._construct,
                 self._other, self._call, self._extreme, self._leaf]  # fmt: skip
        return self._random.choice(kinds)(depth - 1)

    def _leaf(self, depth: int = 0) -> Value:
        n, v = self.n, self.vector
        kind = self._random.randrange(5)
        free = [i for i in range(len(self._forms)) if i not in self._busy]
        i = self._random.choice(free)
        place = self._random.choice(self._forms[i])
        if kind < 3:
            return Value(
                f"({place})" if place.startswith("*") else place, self.scalar, self._values[i]
            )
        k = self._random.randrange(n)
        if kind == 3:
            text = self._random.choice(
                [f"(({v}){self._lane_of(place, k)})", f"{v}({self._lane_of(place, k)})"]
            )
            return Value(text, self.scalar, np.full(n, self._values[i][k]))
        low = self._random.randint(0, 5)
        lanes = np.arange(low, low + n).astype(DTYPES[self.scalar])
        text = ", ".join(f"({low})+(1*{j})" for j in range(n))
        return Value(self._random.choice([f"(({v})({text}))", f"{v}({text})"]), self.scalar, lanes)

    def _binary(self, depth: int) -> Value:
        a, b = self._number(self._expression(depth)), self._number(self._expression(depth))
        scalar = meet(a.scalar, b.scalar)
        if not all(_can_convert(x.scalar, scalar, x.lanes) for x in (a, b)):
            return a
        op = self._random.choice(self._operators(scalar))
        with np.errstate(all="ignore"):
            left, right = (x.lanes.astype(DTYPES[scalar]) for x in (a, b))
        if self._random.random() < 0.2:  # a number instead of a vector
            number = self._random.randint(1, 7)
            return Value(f"({a.text} {op} {number})", a.scalar,
                         applied(op, a.lanes, np.full(self.n, number, a.lanes.dtype))) \
                if op in self._operators(a.scalar) else a  # fmt: skip
        return Value(f"({a.text} {op} {b.text})", scalar, applied(op, left, right))

    def _number(self, value: Value) -> Value:
        return self._cast(value, self.scalar) if value.mask else value

    def _unary(self, depth: int) -> Value:
        a = self._number(self._expression(depth))
        op = self._random.choice("+-" if a.scalar in FLOATS else "+-~")
        lanes = {"+": a.lanes, "-": np.negative(a.lanes)}.get(op)
        return Value(f"({op}{a.text})", a.scalar, np.invert(a.lanes) if lanes is None else lanes)

    def _condition(self, depth: int) -> Value:
        a, b = self._number(self._expression(depth)), self._number(self._expression(depth))
        scalar = meet(a.scalar, b.scalar)
        if not all(_can_convert(x.scalar, scalar, x.lanes) for x in (a, b)):
            b, scalar = a, a.scalar
        op = self._random.choice([*COMPARISONS])
        with np.errstate(all="ignore"):
            left, right = (x.lanes.astype(DTYPES[scalar]) for x in (a, b))
        made = Value(f"({a.text} {op} {b.text})", scalar, COMPARISONS[op](left, right), True)
        if depth and self._random.random() < 0.3:
            other = self._condition(depth - 1)
            joint = self._random.choice(["&&", "||"])
            lanes = made.lanes & other.lanes if joint == "&&" else made.lanes | other.lanes
            made = Value(f"({made.text} {joint} {other.text})", scalar, lanes, True)
        if self._random.random() < 0.2:
            made = Value(f"(!{made.text})", scalar, ~made.lanes, True)
        return made

    def _choose(self, depth: int) -> Value:
        c, a, b = self._condition(depth), *(self._number(self._expression(depth)) for _ in range(2))
        return self._chosen(c.text, c.lanes, a, b)

    def _scalar_choice(self, depth: int) -> Value:
        a, b = (self._number(self._expression(depth)) for _ in range(2))
        text, taken = self._random.choice(
            [("one", True), ("one > 1", False), ("!one", False), ("one == 1", True)]
        )
        return self._chosen(text, np.full(self.n, taken), a, b)

    def _chosen(self, condition: str, lanes: Array, a: Value, b: Value) -> Value:
        scalar = meet(a.scalar, b.scalar)
        if not all(_can_convert(x.scalar, scalar, x.lanes) for x in (a, b)):
            b, scalar = a, a.scalar
        with np.errstate(all="ignore"):
            left, right = (x.lanes.astype(DTYPES[scalar]) for x in (a, b))
        text = f"({condition} ? {a.text} : {b.text})"
        return Value(text, scalar, np.where(lanes, left, right))

    def _construct(self, depth: int) -> Value:
        """From numbers and vectors in a row: `T(a.s10, x, b.lo)`."""
        a = self._converted(self._expression(depth))
        parts, lanes = [], []
        while len(lanes) < self.n:
            width = self._random.randint(1, self.n - len(lanes))
            picked = [self._random.randrange(self.n) for _ in range(width)]
            parts.append(f"({a.text}).s{''.join(f'{k:x}' for k in picked)}")
            lanes += [a.lanes[k] for k in picked]
            if len(parts) > 6:
                break
        lanes += [a.lanes[0]] * (self.n - len(lanes))
        parts += [f"({a.text}).s0"] * (self.n - sum(p.rpartition(".s")[2].__len__() for p in parts))
        joined = ", ".join(parts)
        text = f"{self.vector}({joined})" if len(parts) == 1 or self._random.random() < 0.5 \
            else f"(({self.vector})({joined}))"  # fmt: skip
        return Value(text, self.scalar, np.array(lanes, DTYPES[self.scalar]))

    def _other(self, depth: int) -> Value:
        """The same lanes in another type."""
        return self._cast(self._expression(depth), self._random.choice(self.others))

    def _call(self, depth: int) -> Value:
        a, b = (self._converted(self._expression(depth)) for _ in range(2))
        if self._random.random() < 0.2:
            lanes = applied(
                "+", applied("+", a.lanes, np.ones_like(a.lanes)), applied("+", a.lanes, a.lanes)
            )
            return Value(f"apply_{self.name}(ps, f, {a.text})", self.scalar, lanes)
        callee = self._random.choice(
            [f"add_{self.name}", "f", "(*f)", "s.f", "ps->f", f"((function_{self.name})f)"]
        )
        return Value(f"{callee}({a.text}, {b.text})", self.scalar, applied("+", a.lanes, b.lanes))

    def _extreme(self, depth: int) -> Value:
        a, b = (self._converted(self._expression(depth)) for _ in range(2))
        which = self._random.choice(["min", "max"])
        first = a.lanes < b.lanes if which == "min" else a.lanes > b.lanes
        return Value(f"{which}({a.text}, {b.text})", self.scalar, np.where(first, a.lanes, b.lanes))


def _can_convert(source: str, target: str, lanes: Array) -> bool:
    """Whether C defines the conversion, and numpy rounds it once."""
    if source in FLOATS and target not in FLOATS:
        info = np.iinfo(DTYPES[target])
        low, high = (max(info.min, -(2**30)), min(info.max, 2**30))
        wide = lanes.astype(np.float64)
        return bool(np.isfinite(wide).all() and (wide >= low).all() and (wide <= high).all())
    return not (target == "half" and source not in FLOATS and bits(source) > 16)
