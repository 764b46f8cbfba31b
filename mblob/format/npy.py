"""Files of one array, `.npy`:
https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Without numpy."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from mblob.dtype import DataType
from mblob.errors import ArgumentValueError, FormatError
from mblob.format.ndarray import NDIM_LIMIT, ArrayRecord, is_addressable

if TYPE_CHECKING:
    from typing import Literal

MAGIC = b"\x93NUMPY"
# bytes of text; numpy itself refuses to read more than 10,000 from strangers
HEADER_LIMIT = 1 << 16
_ALIGN = 64
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c"}  # by type code
_CODES = {kind: code for code, kind in _KINDS.items()}
_WIDTHS = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "c": (64, 128)}


def descr_of(dtype: DataType) -> str | None:
    """The name of an element type in a header; None for types that the format cannot hold
    (bfloat16, float8, ...)."""
    if str(dtype) == "bool":
        return "|b1"
    kind = _KINDS.get(dtype.code)
    if kind is None or dtype.lanes != 1 or dtype.bits not in _WIDTHS[kind]:
        return None
    return f"{'|' if dtype.bits == 8 else '<'}{kind}{dtype.bits // 8}"


def header(dtype: DataType, shape: tuple[int, ...]) -> bytes:
    """The header of a file, which stands before the elements. They are row-major and little endian.

    Raises:
        ValueError: the format has no such element type.
    """
    descr = descr_of(dtype)
    if descr is None:
        raise ArgumentValueError(f".npy cannot hold {dtype}")
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    size = len(MAGIC) + 4 + len(text) + 1
    return (
        MAGIC
        + b"\1\0"
        + (len(text) + 1 + -size % _ALIGN).to_bytes(2, "little")
        + (text + " " * (-size % _ALIGN) + "\n").encode()
    )


def read(data: memoryview, name: str) -> ArrayRecord:
    """The array of a file.

    Args:
        data: the whole file.
        name: how errors call it.

    Raises:
        FormatError: no `.npy` file, a damaged one, or one whose elements are no little-endian
            numbers.

    Returns:
        The array, row-major: its elements in `data`, but a copy of column-major ones.
    """

    import ast  # only those who read need it

    def fail(message: str) -> FormatError:
        return FormatError.about(name, message, code="npy")

    if bytes(data[:6]) != MAGIC or len(data) < 12:
        raise fail("no .npy file")
    width = 2 if data[6] == 1 else 4
    size, start = int.from_bytes(data[8 : 8 + width], "little"), 8 + width
    if size > min(len(data) - start, HEADER_LIMIT):
        raise fail(
            f"a header of {size} bytes, {len(data) - start} are left and {HEADER_LIMIT} the limit"
        )
    try:
        fields = ast.literal_eval(bytes(data[start : start + size]).decode("latin-1").strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise fail("its header is no dictionary of descr, fortran_order and shape") from None
    if (
        not isinstance(shape, tuple)
        or len(shape) > NDIM_LIMIT
        or not all(type(n) is int and n >= 0 for n in shape)
    ):
        raise fail(f"shape {shape!r:.80}, expected a tuple of at most {NDIM_LIMIT} sizes")
    dtype = _dtype_of(descr)
    if dtype is None:
        raise fail(
            f"elements {descr!r:.80}, expected little-endian numbers or bool; save the array anew as such"
        )
    item = max(dtype.bits // 8, 1)
    if not is_addressable(shape, item):
        raise fail(f"shape {shape!r:.80}, the elements have no addresses")
    expected = item * prod(shape)
    found = len(data) - start - size
    if found != expected:
        raise fail(f"{found} bytes of elements, {dtype} of shape {shape} has {expected}")
    elements = data[start + size :]
    sizes = [n for n in shape if n > 1]
    if fortran and len(sizes) > 1 and found:
        elements = _row_major(elements, sizes, item)
    return ArrayRecord(dtype, shape, elements, start + size)


def _row_major(data: memoryview, sizes: list[int], item: int) -> memoryview:
    """A copy of column-major elements, row-major.

    Args:
        data: elements of `item` bytes each, at least one.
        sizes: of each dimension.
    """
    made = memoryview(bytearray(data.nbytes))
    words = max(item // 8, 1)  # of an element
    form: Literal["B", "H", "I", "Q"] = ("B", "H", "I", "Q")[min(item, 8).bit_length() - 1]
    given, out = data.cast(form), made.cast(form)
    for i in range(words):
        _transpose(given[i::words], out[i::words], sizes)
    return made


def _transpose(given: memoryview, out: memoryview, sizes: list[int]) -> None:
    """Copy elements in column order to elements in row order, by the first or the last dimension."""
    if len(sizes) == 1:
        out[:] = given
        return
    first, last = sizes[0], sizes[-1]
    if first <= last:
        size = len(given) // first
        for i in range(first):
            _transpose(given[i::first], out[i * size : (i + 1) * size], sizes[1:])
        return
    size = len(given) // last
    for i in range(last):
        _transpose(given[i * size : (i + 1) * size], out[i::last], sizes[:-1])


def _dtype_of(descr: object) -> DataType | None:
    parts = re.fullmatch(r"([<|])([biufc])([0-9]{1,2})", descr) if isinstance(descr, str) else None
    if parts is None:
        return None
    kind, width = parts[2], int(parts[3])
    if kind == "b":
        return DataType.parse("bool") if width == 1 else None
    if 8 * width not in _WIDTHS[kind] or (parts[1] == "|") != (width == 1):
        return None
    return DataType(_CODES[kind], 8 * width)
