"""Pointers that functions return, and that callbacks get."""

from __future__ import annotations

from ctypes import c_void_p


class Handle(c_void_p):
    """A pointer (`ctypes.c_void_p`) that is passed on as a pointer, and is also equal to the int of its
    address.

    Attributes:
        value: the address; None for a null pointer.
    """

    def __index__(self) -> int:
        return self.value or 0

    def __int__(self) -> int:
        return self.value or 0

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, c_void_p):
            return self.value == other.value
        return int(self) == other

    def __hash__(self) -> int:
        return hash(int(self))

    def __repr__(self) -> str:
        return f"mblob.Handle({int(self):#x})"
