"""Shapes that functions take as such."""

from __future__ import annotations

from operator import index

from mblob.arguments import wrong_type
from mblob.errors import ArgumentError, also

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def _wrong_extent(extents: Any) -> ArgumentError:
    """The error for what is no sequence of int."""
    if isinstance(extents, (tuple, list)):
        for i, extent in enumerate(extents):
            if not hasattr(extent, "__index__"):
                return wrong_type("Shape", f"extents[{i}]", "int", extent)
    return wrong_type("Shape", "extents", "a sequence of int", extents)


class Shape(tuple):  # type: ignore[type-arg]
    """A shape, from any sequence of ints. Pass it where a Relax program or a function of the ffi
    dialect expects a shape, which is another type there than a tuple. In Python, a Shape is a
    tuple: `Shape([1, 2]) == (1, 2)`.

    Raises:
        TypeError: an extent is no int.
        OverflowError: an extent has more than 64 bits.
    """

    __slots__ = ()

    def __new__(cls, extents: Iterable[int] = ()) -> Shape:
        try:
            items = tuple(map(index, extents))
        except TypeError:
            raise _wrong_extent(extents) from None
        for extent in items:
            if not -(2**63) <= extent < 2**63:
                message = f"Shape: extents: {extent} has more than 64 bits"
                raise also(ArgumentError, OverflowError, ValueError)(message)
        return super().__new__(cls, items)

    def __repr__(self) -> str:
        return f"mblob.Shape({list(self)})"
