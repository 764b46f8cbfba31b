"""NDArray records and parameter dictionaries: docs/format.md, section 3.2 (TVM's own layout, all
releases).

Nothing here needs numpy: an array is a data type, a shape, and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from mblob.arguments import check_unmasked, is_capsule, mapping, names, no_numbers
from mblob.bytes.payload_source import as_bytes_view
from mblob.bytes.wire import Cursor, encode_strings, encode_u64
from mblob.dtype import DataType
from mblob.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from mblob.named_tuple import NamedTuple

NDARRAY_MAGIC = 0xDD5E40F096B4A13F
PARAMS_MAGIC = 0xF7E58D4F05049CB7
NDIM_LIMIT = 64  # dimensions; TVM has no limit, numpy's is 64


class ArrayRecord(NamedTuple):
    """One stored array.

    Attributes:
        dtype: element type.
        shape: elements per dimension.
        data: compact row-major little-endian elements, a view into what it was read from.
        offset: offset of `data` in the blob or dictionary it was read from.
    """

    dtype: DataType
    shape: tuple[int, ...]
    data: memoryview
    offset: int = 0


def array_of_view(code: memoryview, view: Any, end: int) -> ArrayRecord:
    """An array in a program of Relay or Relax.

    Args:
        view: the `DLTensor` by which C reads it.
        end: where it ends in the code.
    """
    dtype = DataType(view.dtype.code, view.dtype.bits, view.dtype.lanes)
    shape = tuple(int(view.shape[i]) for i in range(view.ndim))
    offset = end - (dtype.bits + 7) // 8 * prod(shape)
    return ArrayRecord(dtype, shape, code[offset:end], offset)


def is_addressable(shape: Sequence[int], item: int) -> bool:
    """True if the addresses of elements of `item` bytes fit into 63 bits. Of an array without
    elements, the other dimensions count: numpy refuses what has no addresses."""
    return item * prod(max(extent, 1) for extent in shape) < 1 << 63


def read_ndarray(cursor: Cursor, what: str = "array") -> ArrayRecord:
    """Read one record; the cursor ends behind it.

    Raises:
        FormatError: "payload" or "truncated".
    """
    start = cursor.pos
    if cursor.u64(f"{what}.magic") != NDARRAY_MAGIC:
        raise cursor.fail(f"{what}: no array record here (wrong magic)", at=start)
    cursor.skip(8, f"{what}.reserved")
    device = cursor.i32(f"{what}.device_type")
    cursor.skip(4, f"{what}.device_id")
    if device != 1:
        raise cursor.fail(f"{what}: stored for device type {device}, expected 1 (cpu)", at=start)
    ndim = cursor.i32(f"{what}.ndim")
    if not 0 <= ndim <= NDIM_LIMIT:
        raise cursor.fail(f"{what}: {ndim} dimensions, expected 0 to {NDIM_LIMIT}", at=start)
    dtype = DataType.from_bytes(cursor.take(4, f"{what}.dtype"))
    if dtype.lanes != 1:
        raise cursor.fail(f"{what}: {dtype.lanes} lanes in an element, expected 1", at=start)
    if not dtype.is_possible:
        raise cursor.fail(
            f"{what}: no element type has the code {dtype.code} and {dtype.bits} bits", at=start
        )
    shape = tuple(cursor.i64(f"{what}.shape[{i}]") for i in range(ndim))
    declared = cursor.u64(f"{what}.byte_count")
    # Lanes are left out and bits rounded up to bytes, as TVM's writer does.
    item = (dtype.bits + 7) // 8
    if any(extent < 0 for extent in shape):
        raise cursor.fail(f"{what}: negative dimension in shape {shape}", at=start)
    if not is_addressable(shape, item):
        raise cursor.fail(f"{what}: shape {shape}, the elements have no addresses", at=start)
    expected = item * prod(shape)
    if declared != expected:
        raise cursor.fail(
            f"{what}: {declared} bytes of data, {dtype} of shape {shape} has {expected}", at=start
        )
    offset = cursor.skip(declared, f"{what}.data")
    return ArrayRecord(dtype, shape, cursor.data[offset : offset + declared], offset)


def encode_ndarray(dtype: DataType, shape: tuple[int, ...], data: Any) -> bytes:
    """The record of one array.

    Args:
        data: compact row-major elements, bytes-like.

    Raises:
        ValueError: the bytes do not match dtype and shape.
    """
    raw = as_bytes_view(data)
    return encode_header(dtype, shape, raw.nbytes) + bytes(raw)


def encode_header(dtype: DataType, shape: tuple[int, ...], size: int) -> bytes:
    """The header of a record, which stands before its `size` bytes of elements.

    Raises:
        ValueError: the size does not match dtype and shape.
    """
    expected = (dtype.bits + 7) // 8
    for extent in shape:
        expected *= extent
    if size != expected:
        raise ArgumentValueError(
            f"array: {size} bytes of data, {dtype} of shape {shape} has {expected}"
        )
    head = encode_u64(NDARRAY_MAGIC) + bytes(8) + (1).to_bytes(4, "little") + bytes(4)
    head += len(shape).to_bytes(4, "little") + dtype.to_bytes()
    head += b"".join(extent.to_bytes(8, "little", signed=True) for extent in shape)
    return head + encode_u64(size)


def _without_letter(element: str) -> DataType | None:
    """bfloat16 and float8, for which the buffer protocol has no letter; None for other types."""
    has_none = element == "bfloat16" or element.startswith(
        ("float8_", "e4m3_float8", "e5m2_float8")
    )
    return DataType.parse(element) if has_none and "x" not in element else None


def as_record(value: Any) -> ArrayRecord:
    """Dtype, shape and bytes of anything with the buffer protocol or `__dlpack__` (numpy arrays,
    tensors), or of a DLPack capsule.

    Raises:
        TypeError: not a buffer of numbers.
        ValueError: DLPack's description cannot be.
    """
    if isinstance(value, ArrayRecord):
        return value
    check_unmasked(value)
    element = getattr(value, "dtype", None)
    dtype = _without_letter(str(element)) if hasattr(value, "view") else None
    try:
        view = memoryview(value.view(f"uint{dtype.bits}") if dtype else value)
    except BufferError as exc:  # a tensor's, which says what is wrong with it
        raise ArgumentTypeError(str(exc)) from None
    except TypeError:
        if hasattr(value, "__dlpack__") or is_capsule(value):
            from mblob.format import dlpack  # with ctypes

            return ArrayRecord(*dlpack.read(value))
        how = "; make it an array with numpy.asarray(x)" if isinstance(value, (list, tuple)) else ""
        raise ArgumentTypeError(
            f"expected an array with the buffer protocol, found {type(value).__name__}{how}"
        ) from None
    except ValueError as exc:
        if element is None:  # of a buffer that was released or closed
            raise ArgumentTypeError(f"{type(value).__name__} gives no numbers: {exc}") from None
        raise no_numbers(element) from None  # numpy's
    try:
        dtype = dtype or DataType.from_format(view.format, view.itemsize)
    except TypeError:
        raise no_numbers(element, view.format) from None
    data = as_bytes_view(view) if view.c_contiguous else memoryview(view.tobytes())
    return ArrayRecord(dtype, tuple(view.shape or ()), data)


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Serialize named arrays as TVM's `save_param_dict` does (and `load_params` reads).

    Args:
        params: name -> numpy array, tensor, or anything with the buffer protocol or `__dlpack__`, or a DLPack
            capsule. Names are written sorted, so that the same content gives the same bytes.

    Raises:
        TypeError: a value is not an array, or a name is no text.
        ValueError: a name is not Unicode text.
    """
    mapping("save_param_dict", "params", params)
    keys = sorted(names("save_param_dict", "params", params))
    out = [encode_u64(PARAMS_MAGIC), bytes(8), encode_strings(keys), encode_u64(len(keys))]
    for key in keys:
        try:
            record = as_record(params[key])
        except ArgumentError as error:
            error.prefix(f"save_param_dict: params[{key!r}]")
            raise
        out.append(encode_ndarray(*record[:3]))
    return b"".join(out)


def read_param_dict(data: Any) -> dict[str, ArrayRecord]:
    """Named arrays of a serialized dictionary, as views into `data`.

    Raises:
        FormatError: it is no parameter dictionary, or a damaged one.
    """
    return dict(read_param_pairs(data))


def read_param_pairs(data: Any) -> list[tuple[str, ArrayRecord]]:
    """The same as names and arrays in stored order: a name may be there twice."""
    cursor = Cursor(as_bytes_view(data))
    if cursor.left < 8 or cursor.u64("params.magic") != PARAMS_MAGIC:
        raise cursor.fail("not a parameter dictionary (wrong magic)", at=0)
    cursor.skip(8, "params.reserved")
    names = [
        bytes(cursor.string("params.name")).decode(errors="replace")
        for _ in range(cursor.count("params.names", 8))
    ]
    start = cursor.pos
    count = cursor.u64("params.count")
    if count != len(names):
        raise cursor.fail(f"params: {len(names)} names, {count} arrays", at=start)
    params = [(name, read_ndarray(cursor, f"params[{name!r}]")) for name in names]
    if cursor.left:
        raise cursor.fail(f"params: {cursor.left} bytes follow the last array")
    return params
