"""The values of expressions: C text with its type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mblob.packager.compile.vector_c.types import Known, Type


@dataclass(eq=False)
class Value:
    """A part of an expression.

    Attributes:
        text: what is written for it.
        type: its type; None for a number or pointer that is no business of ours, a record for what
            only the compiler understands.
        line: of the statement, where it stands.
        is_simple: nothing outside binds tighter than what is inside.
        name: of a plain name, the name.
        picked: of several lanes, `v.xy`: the vector or the pointer to it, and their numbers. `text`
            is a copy of them.
        is_copy: a value that nothing else sees, which nobody means to write.
        element: of `(p + i)[2]` what stands before the bracket, and the number if it is one.
        taken: of the address of a copy, `&(a + b)`, the copy.
    """

    text: str
    type: Known = None
    line: int = 1
    is_simple: bool = True
    name: str = ""
    picked: tuple[Value, Sequence[int]] | None = None
    is_copy: bool = False
    element: tuple[Value, int | None] | None = None
    taken: Value | None = None

    @property
    def vector(self) -> Type | None:
        return self.type if isinstance(self.type, Type) and self.type.is_vector else None

    @property
    def operand(self) -> str:
        """Its text as an operand of any operator."""
        return self.text if self.is_simple else f"({self.text})"

    def become(self, text: str, t: Known) -> None:
        """Become a copy of type `t`, the call of a function."""
        self.text, self.type, self.is_simple, self.is_copy = text, t, True, True
