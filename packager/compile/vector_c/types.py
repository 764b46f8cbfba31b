"""The types that matter to the rewriter: OpenCL-like vectors, their lanes, and what C derives from
both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from mblob.packager.compile.vector_c.words import ALIASES, NAME, SCALARS

_PARTS = {
    "lo": lambda n: range((n + 1) // 2), "hi": lambda n: range((n + 1) // 2, 2 * ((n + 1) // 2)),
    "even": lambda n: range(0, n, 2), "odd": lambda n: range(1, n, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """A number or a vector.

    Attributes:
        scalar: the lane type, a key of SCALARS.
        lanes: 1 for a number.
        mask: what a comparison gives: lanes of -1 and 0. Lanes are signed integers as wide as what
            was compared.
    """

    scalar: str
    lanes: int = 1
    mask: bool = False

    @property
    def is_vector(self) -> bool:
        return self.lanes > 1

    @property
    def name(self) -> str:
        """The C name of the vector in the text that we add."""
        return f"mblob_{self.scalar}{self.lanes}"

    @property
    def lane(self) -> Type:
        return Type(self.scalar)

    @property
    def kind(self) -> str:
        return SCALARS[self.scalar][0]

    @property
    def bits(self) -> int:
        return SCALARS[self.scalar][1]

    def as_mask(self) -> Type:
        """The type of the result of comparing such vectors."""
        return Type(f"int{self.bits}_t", self.lanes, mask=True)

    def plain(self) -> Type:
        """The same lanes as a vector of integers."""
        return Type(self.scalar, self.lanes) if self.mask else self

    def __str__(self) -> str:
        return f"{self.scalar}{self.lanes if self.lanes > 1 else ''}"


# Derived types are compared by identity: C nests them as deep as a source likes.


@dataclass(eq=False)
class Pointer:
    """A pointer or an array; `to` is what it points to, None if that is no business of ours."""

    to: Known


@dataclass(eq=False)
class Function:
    """A function.

    Attributes:
        result: its result.
        parameters: in order; None for types that are no business of ours.
        variadic: takes more, or was declared without a prototype.
        names: of the parameters that have one.
        defaults: of C++, where the values begin that parameters have.
        plain: every parameter is one word, as where their types are declared behind the parentheses.
    """

    result: Known
    parameters: list[Known] = field(default_factory=list)
    variadic: bool = False
    names: dict[str, Known] = field(default_factory=dict)
    defaults: list[tuple[int, Known]] = field(default_factory=list)
    plain: bool = True

    @property
    def vectors(self) -> list[Type | None]:
        """The parameters that are vectors, None for others."""
        return [p if isinstance(p, Type) and p.is_vector else None for p in self.parameters]


@dataclass(eq=False)
class Overloads:
    """Functions of one name, of C++."""

    functions: list[Function]


@dataclass(eq=False)
class Record:
    """A struct, union or class with its members."""

    fields: dict[str, Known] = field(default_factory=dict)


Known = Union[Type, Pointer, Function, Overloads, Record, None]


def has_vectors(t: Known) -> bool:
    """True if a type is made of vectors, other than by members of a record."""
    waiting: list[Known] = [t]
    while waiting:
        t = waiting.pop()
        if isinstance(t, Type) and t.is_vector:
            return True
        if isinstance(t, Pointer):
            waiting.append(t.to)
        elif isinstance(t, Function):
            waiting += (t.result, *t.parameters)
        elif isinstance(t, Overloads):
            waiting += t.functions
    return False


def vector_named(name: str) -> Type | None:
    """The vector that a name means, None if it means none: "float4", "int32_t8", "int16" (16 lanes
    of 32 bits)."""
    found = re.fullmatch(NAME, name)
    return Type(ALIASES.get(found[1], found[1]), int(found[2])) if found else None


def common(a: Type, b: Type) -> Type:
    """The type in which two vectors of one width meet, by the ranks of C: floats, then width, then
    unsigned."""

    def rank(t: Type) -> tuple[bool, int, bool]:
        return t.kind == "float", t.bits, t.kind == "uint"

    if a.mask != b.mask:
        return b if a.mask else a
    return a if rank(a) >= rank(b) else b


def word_type(words: list[str]) -> Type | None:
    """The lane type that words of C mean, where its width is the same on all targets we have; else
    None."""
    if words in (["float"], ["double"]):
        return Type(words[0])
    rest = [w for w in words if w not in ("signed", "int")]
    unsigned = "u" if "unsigned" in rest else ""
    rest = [w for w in rest if w != "unsigned"]
    widths = {(): 32, ("short",): 16, ("long", "long"): 64}
    if tuple(rest) in widths and words != []:
        return Type(f"{unsigned}int{widths[tuple(rest)]}_t")
    if rest == ["char"] and len(words) > 1:
        return Type(f"{unsigned}int8_t")
    return None


def lanes_named(name: str, width: int) -> Sequence[int] | None:
    """The lanes that a member name means, None if it means none."""
    if name in _PARTS:
        return list(_PARTS[name](width))
    if name[:1] in "sS" and len(name) > 1 and all(c in "0123456789abcdefABCDEF" for c in name[1:]):
        return [int(c, 16) for c in name[1:]]
    if name and all(c in "xyzw" for c in name):
        return ["xyzw".index(c) for c in name]
    return None
