"""Lanes of vectors, one or several at once, to read and to write."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mblob.packager.compile.vector_c.marks import Marks
from mblob.packager.compile.vector_c.operand import Operand, Picked
from mblob.packager.compile.vector_c.types import Known, Pointer, Record, Type, lanes_named

_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*")


@dataclass
class Lanes(Marks):
    """Rewrites members and subscripts in place, and what writes to several lanes."""

    def member(self, a: Operand, at: int, field_type: Known) -> Operand:
        """`a.name` and `a->name`, the name at token `at`."""
        result = Operand(a.first, at)
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
        whole = a.type
        if a.picked is not None:
            lanes, whole = [a.picked.lanes[i] for i in lanes], self._unread(a.picked)
        if len(lanes) == 1:
            self._one(result, whole, lanes[0], at - 1)
            result.is_copy = a.is_copy and a.picked is None
            return result
        self.drop(at - 1, at)
        changed = [self.tokens[i] for i in (a.first, a.last, at)]
        result.picked = Picked(
            whole, lanes, [(token, token.before, token.after) for token in changed]
        )
        vector = Operand(a.first, a.last, whole)
        if isinstance(whole, Pointer):
            self.wrap(vector, "(*(", "))")
            vector.type = whole.to
        assert vector.vector is not None
        result.type = Type(t.scalar, len(lanes), t.mask)
        self._call(self.helpers.swizzle(vector.vector, lanes), (vector,), result, result.type)
        return result

    def _one(self, result: Operand, whole: Known, lane: int, at: int) -> None:
        """Make `result` a lane of the vector before token `at`, or of the one it points to; all
        behind is dropped.

        Lanes have names, so that writing to one of a copy is the compiler's error; those of `half`
        have none.
        """
        t = whole.to if isinstance(whole, Pointer) else whole
        assert isinstance(t, Type)
        self.drop(at, result.last)
        name = f"lane[{lane}]" if t.scalar == "half" else f"s{lane:x}"
        self.tokens[at].out = ("->" if isinstance(whole, Pointer) else ".") + name
        result.type = t.lane

    def subscript(self, a: Operand, opening: int, closing: int) -> Operand:
        """`a[...]`: an element, or a lane."""
        result = Operand(a.first, closing)
        lane = self._number(opening, closing)
        if a.vector is not None and lane is not None:
            if lane >= a.vector.lanes:
                self.refuse(
                    opening,
                    f"{a.vector} has no lane {lane}; its lanes are 0 to {a.vector.lanes - 1}",
                )
            whole = a.type
            if a.picked is not None:
                lane, whole = a.picked.lanes[lane], self._unread(a.picked)
            self._one(result, whole, lane, opening)
            result.is_copy = a.is_copy and a.picked is None
        elif a.vector is not None:
            self.tokens[opening].before = ".lane" + self.tokens[opening].before
            result.type, result.is_copy = a.vector.lane, a.is_copy
        elif isinstance(a.type, Pointer):
            result.type = a.type.to
            is_group = self.tokens[a.first].text == "(" and self.tokens[a.last].text == ")"
            result.element = opening if is_group and lane is not None else None
        return result

    def _number(self, opening: int, closing: int) -> int | None:
        """The number that stands alone between brackets."""
        found = _NUMBER.fullmatch(self.tokens[opening + 1].text) if closing == opening + 2 else None
        if found is None:
            return None
        return int(found[1], 8 if re.fullmatch("0[0-7]+", found[1]) else 0)

    def lane_of_loaded(self, at: int, a: Operand) -> Operand:
        """`*(T *)(p + i)[2]`, the star at `at`: TVM means a lane of what `*(T *)(p + i)` loads."""
        assert isinstance(a.type, Pointer)
        assert isinstance(a.type.to, Type)
        assert a.element is not None
        result = Operand(at, a.last)
        lane = self._number(a.element, a.last)
        if lane is None or lane >= a.type.to.lanes:
            self.refuse(
                a.element,
                f"{a.type.to} has no lane {lane}; its lanes are 0 to {a.type.to.lanes - 1}",
            )
        self._one(result, a.type.to, lane, a.element)
        self.wrap(Operand(at, a.element - 1), "(")
        return result

    # -- several at once ---------------------------------------------------------------------------

    @staticmethod
    def _unread(picked: Picked) -> Known:
        """Take back the call that reads lanes; the type of what they are lanes of."""
        for token, before, after in picked.unread:
            token.before, token.after = before, after
        return picked.type

    def write_lanes(self, op: str, a: Operand, at: int, b: Operand) -> Operand:
        """`v.xy = b`, or `v.xy op= b`, the operator at token `at`."""
        t, place = self._place(a, at)
        part = Type(t.scalar, len(place.lanes))
        self.convert(b, part)
        self.tokens[at].out = ","
        self._pass(b)
        result = Operand(a.first, b.last, part)
        self.wrap(result, f"{self.helpers.update_lanes(op, t, place.lanes)}(")
        return result

    def step_lanes(self, op: str, a: Operand, at: int, behind: bool) -> Operand:
        """`++v.xy`, or `v.xy++` if the operator stands `behind`."""
        t, place = self._place(a, at)
        part = Type(t.scalar, len(place.lanes))
        result = Operand(min(at, a.first), max(at, a.last), part)
        self.drop(at, at)
        if behind:
            self.wrap(result, f"{self.helpers.postfix_lanes(op, t, place.lanes)}(")
        else:
            one = self.helpers.broadcast(part)
            self.wrap(result, f"{self.helpers.update_lanes(op, t, place.lanes)}(", f", {one}(1))")
        return result

    def _place(self, a: Operand, at: int) -> tuple[Type, Picked]:
        """Make an operand the address of the vector of its lanes, which are written at token
        `at`."""
        place = a.picked
        assert place is not None
        if len(set(place.lanes)) < len(place.lanes):
            self.refuse(at, "one lane is written twice")
        whole = self._unread(place)
        t = whole.to if isinstance(whole, Pointer) else whole
        assert isinstance(t, Type)
        self.wrap(Operand(a.first, a.last), "(" if isinstance(whole, Pointer) else "&(")
        return t, place
