"""Marks on the tokens of operands, which make calls of helpers of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from mblob.packager.compile.vector_c.helpers import Helpers, in_register
from mblob.packager.compile.vector_c.operand import Operand
from mblob.packager.compile.vector_c.tokens import Token
from mblob.packager.compile.vector_c.types import Function, Known, Pointer, Record, Type


@dataclass
class Marks:
    """The state and the edits that all operations share.

    Attributes:
        tokens: all of the source.
        helpers: where the functions to call come from.
        refuse: raises an error at a token.
    """

    tokens: list[Token]
    helpers: Helpers
    refuse: Callable[[int, str], NoReturn]

    def wrap(self, operand: Operand, before: str, after: str = ")") -> None:
        """Put text around an operand, outside of what is there."""
        first, last = self.tokens[operand.first], self.tokens[operand.last]
        first.before = before + first.before
        last.after += after

    def drop(self, first: int, last: int) -> None:
        """Write nothing for tokens."""
        for token in self.tokens[first : last + 1]:
            token.out = ""

    def _call(self, function: str, arguments: Sequence[Operand], result: Operand, t: Type) -> None:
        """Make `result`, which spans the arguments, a call of a helper that gives a `t`."""
        for argument in arguments:
            self._pass(argument)
        before, after = self._made(function, t)
        self.wrap(result, before, after)
        result.is_copy = True

    def _pass(self, argument: Operand) -> None:
        """Make an operand the argument of a helper."""
        if argument.vector is not None and in_register(argument.vector):
            self.wrap(argument, "(", ").simd")

    def _made(self, function: str, t: Type) -> tuple[str, str]:
        """The text before and the text behind the arguments of a helper that gives a `t`."""
        if in_register(t):
            return f"(__extension__ ({self.helpers.type(t)}){{.simd = {function}(", ")})"
        return f"{function}(", ")"

    # -- conversions -------------------------------------------------------------------------------

    def convert(self, operand: Operand, t: Known, explicit: bool = False) -> None:
        """Make an operand a vector of type `t`: a scalar goes to all lanes, lanes of another type
        are converted.

        Args:
            explicit: by a cast. TVM writes one where it makes numbers of booleans, so that true is
                1 then; a mask that is assigned to the integers that it is in OpenCL keeps its -1.
        """
        if not isinstance(t, Type):
            return
        source = operand.vector
        if not t.is_vector:
            if source is not None:
                self.refuse(
                    operand.first,
                    f"a vector of {source.lanes} lanes ({source}) where {t} is expected",
                )
            return
        if isinstance(operand.type, (Pointer, Function)):
            self.refuse(operand.first, f"a pointer or function where {t} is expected")
        if source is None:
            if not isinstance(operand.type, Record):
                self._call(self.helpers.broadcast(t), (), operand, t)
        else:
            if source.lanes != t.lanes:
                self.refuse(
                    operand.first,
                    f"a vector of {source.lanes} lanes ({source}) where {t} is expected",
                )
            same = source.scalar == t.scalar
            if not same or (explicit and source.mask and not t.mask):
                if (
                    source.mask
                    and not t.mask
                    and not explicit
                    and t.kind == "int"
                    and t.bits == source.bits
                ):
                    return
                self._call(self.helpers.convert(source, t), (operand,), operand, t)
        operand.type = t
