"""The parts of an expression while it is rewritten: operands, waiting operators, open brackets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mblob.packager.compile.vector_c.tokens import Token
from mblob.packager.compile.vector_c.types import Known, Type


@dataclass
class Picked:
    """Several lanes of a vector: a copy of them to read, a place to write.

    Attributes:
        type: of the vector, or of the pointer to it.
        lanes: their numbers in it.
        unread: tokens that became a call to read them, as they were before: token, `before`,
            `after`.
    """

    type: Known
    lanes: Sequence[int]
    unread: list[tuple[Token, str, str]]


@dataclass
class Operand:
    """A part of an expression.

    Attributes:
        first, last: indices of its tokens.
        type: its type; None if that is no business of ours.
        name: of a plain name, the name.
        picked: what `v.xy` stands for.
        is_copy: a value that nothing else sees, which nobody means to write.
        element: of `(p + i)[2]` the opening bracket.
        taken: of the address of a copy, `&(a + b)`, what marks it: its `&`, and the cast behind
            which it stands.
    """

    first: int
    last: int
    type: Known = None
    name: str = ""
    picked: Picked | None = None
    is_copy: bool = False
    element: int | None = None
    taken: tuple[Operand, tuple[int, ...]] | None = None

    @property
    def vector(self) -> Type | None:
        return self.type if isinstance(self.type, Type) and self.type.is_vector else None


# -- while the expression is read ------------------------------------------------------------------

BINARY = {
    "*": 13, "/": 13, "%": 13, "+": 12, "-": 12, "<<": 11, ">>": 11, "<": 10, ">": 10, "<=": 10, ">=": 10,
    "==": 9, "!=": 9, "&": 8, "^": 7, "|": 6, "&&": 5, "||": 4,
}  # fmt: skip
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
PREFIX = ("+", "-", "~", "!", "*", "&", "++", "--", "&&")
UNARY, CONDITIONAL, ASSIGNMENT = 14, 3, 2


@dataclass
class Operator:
    """An operator that waits for its right operand.

    Attributes:
        kind: "binary", "prefix", "cast", "?" or "?:".
        text: as written; of a cast "".
        at: its token; of a cast the opening parenthesis.
        end: of a cast the closing parenthesis, of "?:" the colon.
        type: what a cast casts to.
    """

    kind: str
    text: str
    at: int
    end: int = 0
    type: Known = None

    @property
    def precedence(self) -> int:
        if self.kind in ("prefix", "cast"):
            return UNARY
        if self.kind == "binary":
            return BINARY.get(self.text, ASSIGNMENT)
        return CONDITIONAL


@dataclass
class Frame:
    """An open bracket, or the whole expression.

    Attributes:
        kind: "top", "group", "call", "index", "construct", "braces", "generic" or "cast" (of C++).
        opening: its token.
        callee: what is called or indexed; of a constructor or a cast, the tokens of its name.
        type: of a constructor, of a cast, and of what braces initialize.
        operands, operators: what is not yet reduced.
        items, commas: what stood before the commas.
        designated: in braces, the type of the member that was named.
        choices: of _Generic, its types.
    """

    kind: str
    opening: int
    callee: Operand | None = None
    type: Known = None
    operands: list[Operand] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    items: list[Operand] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)
    wants_operand: bool = True
    designated: Known = None
    choices: list[Known] = field(default_factory=list)

    @property
    def has_question(self) -> bool:
        return any(o.kind == "?" for o in self.operators)
