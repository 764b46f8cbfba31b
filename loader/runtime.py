"""The compiled modules, as the rest of the loader uses them."""

from __future__ import annotations

from mblob.loader import _native

TYPE_CHECKING = False  # importing `typing` takes longer than everything else here
if TYPE_CHECKING:
    from typing import Any


ffi = _native.ffi
lib = _native.lib


def address_of(pointer: Any) -> int:
    """The number of a C pointer: what `_call` takes."""
    return int(ffi.cast("uintptr_t", pointer))
