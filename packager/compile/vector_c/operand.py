"""Parts of an expression that is being rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
