"""The tokens of a source with the text that takes their place, and the values of expressions, each
with its text and its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Union

from mblob.packager.compile.vector_c.helpers import Helpers
from mblob.packager.compile.vector_c.names import Names
from mblob.packager.compile.vector_c.tokens import OPENING, Token, ends
from mblob.packager.compile.vector_c.types import Known, Type

# A text in parts. A value in it may still be converted.
Text = Union[str, "Value", Sequence["Text"]]


@dataclass(eq=False)
class Value:
    """A part of an expression.

    Attributes:
        first: its first token.
        space: what stands before it.
        text: what is written for it, behind that.
        type: its type; None if that is no business of ours.
        name: of a plain name, the name.
        picked: of several lanes, `v.xy`: the vector or the pointer to it, their numbers, and the
            space among the tokens that name them. `text` is a copy of them.
        is_copy: a value that nothing else sees, which nobody means to write.
        element: of `(p + i)[2]` what stands before the bracket, the number if it is one, and the
            bracket.
        taken: of the address of a copy, `&(a + b)`, the copy.
        is_braced: an expression in braces, which has no type of its own.
    """

    first: int
    space: str
    text: Text
    type: Known = None
    name: str = ""
    picked: tuple[Value, Sequence[int], Text] | None = None
    is_copy: bool = False
    element: tuple[Value, int | None, int] | None = None
    taken: Value | None = None
    is_braced: bool = False

    @property
    def vector(self) -> Type | None:
        return self.type if isinstance(self.type, Type) and self.type.is_vector else None


def joined(text: Text) -> str:
    """A text in one piece; parts may be nested to any depth."""
    found: list[str] = []
    waiting: list[Text] = [text]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, Value):
            waiting += (part.text, part.space)
        else:
            waiting += reversed(part)
    return "".join(found)


class Source:
    """The tokens of a source, and what is written for them.

    Args:
        tokens: of the source.
        tail: the space behind the last.
        refuse: raises an error at a token.
        helpers: where the functions to call come from.
        names: what names mean at the place that is read; kept up to date on the way.
    """

    def __init__(
        self, tokens: list[Token], tail: str, refuse: Callable[[int, str], NoReturn],
        helpers: Helpers, names: Names,
    ) -> None:  # fmt: skip
        self.refuse, self.helpers, self.names = refuse, helpers, names
        self.tokens = [*tokens, Token("end", text="", space=tail, start=0, out="")]
        self._words = [t.text for t in self.tokens]
        self._ends = ends(self.tokens)
        self._space = [t.space for t in self.tokens]
        self._out: list[Text] = [t.out for t in self.tokens]
        self._types: dict[int, Known] = {}  # of expressions, by their first token

    def written(self) -> str:
        """The text that the tokens now are."""
        return "".join(
            space + (out if isinstance(out, str) else joined(out))
            for space, out in zip(self._space, self._out)
        )

    # -- the tokens --------------------------------------------------------------------------------

    def word(self, at: int) -> str:
        """A token, "" behind the last."""
        return self._words[at] if at < len(self._words) else ""

    def is_name(self, at: int) -> bool:
        return at < len(self.tokens) and self.tokens[at].kind == "name"

    def past(self, at: int) -> int:
        """Past the bracket that opens at `at` and what it holds; past one token if none opens."""
        return self._ends.get(at, len(self.tokens) - 1 if self.word(at) in OPENING else at + 1)

    # -- what is written for them ------------------------------------------------------------------

    def mark(self, at: int, text: str | None = None) -> Text:
        """A token with the space before it, or `text` in its place; "" for token -1."""
        if at < 0:
            return ""
        return [self._space[at], self._out[at] if text is None else text]

    def raw(self, first: int, end: int) -> Text:
        """The text that is written for tokens, without the space before the first."""
        return [self._out[first], *map(self.mark, range(first + 1, end))]

    def gap(self, first: int, end: int) -> str:
        """The space before tokens that are left out."""
        return "".join(self._space[first:end])

    def put(self, first: int, end: int, text: Text) -> None:
        """Write a text for tokens and the space before them."""
        if end > first:
            self._out[first:end] = [text] + [""] * (end - first - 1)
            self._space[first:end] = [""] * (end - first)

    def value(self, first: int, text: Text, t: Known = None, is_copy: bool = False) -> Value:
        """A value that begins at a token."""
        return Value(first, self._space[first], text, t, is_copy=is_copy)
