"""The arrays in programs of Relay and Relax, which C reads as DLTensors."""

from __future__ import annotations

from math import prod
from typing import Any

from mblob.dtype import DataType
from mblob.format.ndarray import ArrayRecord


def stored_array(code: memoryview, view: Any, end: int) -> ArrayRecord:
    """A constant of a program.

    Args:
        view: its `DLTensor`.
        end: where it ends in the code.
    """
    dtype = stored_dtype(view.dtype)
    shape = tuple(int(view.shape[i]) for i in range(view.ndim))
    offset = end - (dtype.bits + 7) // 8 * prod(shape)
    return ArrayRecord(dtype, shape, code[offset:end], offset)


def stored_dtype(stored: Any) -> DataType:
    """An element type, with the numbers that a program has."""
    return DataType(stored.code, stored.bits, stored.lanes)
