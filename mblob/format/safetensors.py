"""The one reader of safetensors headers: https://github.com/huggingface/safetensors, "Format".

`u64 n`, n bytes of a JSON object `{name: {"dtype", "shape", "data_offsets": [begin, end]},
"__metadata__": {...}}`, data. `csrc/src/format/safetensors.c` reads the same files and refuses the
same ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from mblob import json_text
from mblob.arguments import EMPTY_NAME
from mblob.dtype import OF_SAFETENSORS, DataType
from mblob.errors import ArgumentValueError, FormatError
from mblob.format.ndarray import NDIM_LIMIT, is_addressable
from mblob.named_tuple import NamedTuple

# of the tensor data in a packed library: a cache line, and what TVM's kernels assume
ALIGNMENT = 64
# Metadata: a JSON list of the names of all tensors, in the order in which a program takes them.
PARAMETERS = "mblob.params"
HEADER_LIMIT = 100_000_000  # bytes of JSON, the format's own limit

DTYPES = {name: DataType.parse(text) for name, text in OF_SAFETENSORS.items()}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
METADATA = "__metadata__"  # the one member of a header that is no tensor
_BYTE = DataType.parse("uint8")
_NUL = "a name with a NUL"


class TensorEntry(NamedTuple):
    """One tensor of a file.

    Attributes:
        name: as in the header.
        dtype, shape: elements, and how many of them per dimension.
        begin, end: its bytes in the data, which starts behind the header.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def layout(self) -> tuple[DataType, tuple[int, ...]]:
        """Element type and shape of an array over the bytes: the tensor's own, but packed elements
        of 4 or 6 bits, which have no address of their own, are seen as one row of bytes (uint8)."""
        if self.dtype.bits in (4, 6):
            return _BYTE, (self.end - self.begin,)
        return self.dtype, self.shape


def data_offset(start: memoryview | bytes, size: int) -> int:
    """The offset of the data of a file, in bytes.

    Args:
        start: at least the first 8 bytes of the file.
        size: bytes of the file.

    Raises:
        FormatError: "payload": that is no safetensors file, or a cut one.
    """
    if size < 8:
        raise _fail(f"{size} bytes, its header's size alone has 8", 0)
    header = int.from_bytes(start[:8], "little")
    if header > min(size - 8, HEADER_LIMIT):
        raise _fail(
            f"a header of {header} bytes, {size - 8} are left and {HEADER_LIMIT} the limit", 0
        )
    return 8 + header


def read(data: memoryview) -> tuple[int, list[TensorEntry]]:
    """Offset of the data of a file in memory, and its tensors in the order of their data.

    Raises:
        FormatError: "payload": a rule of the format is broken; the text names the tensor.
    """
    try:
        offset = data_offset(data, data.nbytes)
    except FormatError:
        if data.nbytes > 8 and data[8] != ord("{"):  # something else: its "size" tells nothing
            raise _fail("not a safetensors file, whose header begins with {", 8) from None
        raise
    header, size = bytes(data[8:offset]), data.nbytes - offset
    try:
        root = json_text.parse(header, _Object)
    except json_text.JsonError as exc:
        raise _fail(f"the header is no JSON: {exc}", 8) from None
    if not isinstance(root, _Object):
        raise _fail("the header is no JSON object", 8)
    members = _members(root, "the header")
    metadata = members.pop(METADATA, _Object())
    if not isinstance(metadata, _Object) or not all(
        isinstance(value, str) for _, value in metadata
    ):
        raise _fail("__metadata__ is no object of texts", 8)
    entries = [_entry(name, value, size) for name, value in members.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise _fail(
                f"tensor {entry.name!r}: starts at byte {entry.begin} of the data, expected {at}"
            )
        at = entry.end
    if at != size:
        raise _fail(f"its tensors need {at} bytes of data, the file has {size}")
    return offset, entries


def is_ordered(data: memoryview) -> bool:
    """True if a file that `read` accepts says that its tensors are the parameters of a program."""
    return _order_text(data) is not None


def order_of(data: memoryview) -> list[str] | None:
    """The order of the parameters of a program in a file that `read` accepts; None if it says none.

    Raises:
        FormatError: "payload": it is no list of texts.
    """
    text = _order_text(data)
    if text is None:
        return None
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _fail(f"{PARAMETERS} in its metadata is no list of names", 8)
    return names


def _order_text(data: memoryview) -> str | None:
    header = bytes(data[8 : data_offset(data, data.nbytes)])
    if PARAMETERS.encode() not in header:  # most have none, and long headers
        return None
    root = json_text.parse(header, dict)
    text: str | None = root.get(METADATA, {}).get(PARAMETERS)
    return text


def dtype_name(dtype: DataType) -> str | None:
    """The name of an element type in the format, None if the format does not have the type."""
    return _NAMES.get(dtype)


def encode_header(
    tensors: Sequence[tuple[str, DataType, tuple[int, ...], int]],
    order: Sequence[str] | None = None,
) -> bytes:
    """The header of a file, before the data of its tensors, which follow each other without gaps.

    Args:
        tensors: name, element type, shape and bytes of each, in the order of their data. Names are
            there once.
        order: the tensors are parameters of a program, which takes them in this order.

    Raises:
        ValueError: a name or an element type that the format does not have.
    """
    members: dict[str, Any] = {}
    if order is not None:
        members[METADATA] = {PARAMETERS: json.dumps(list(order), ensure_ascii=False)}
    at = 0
    for name, dtype, shape, size in tensors:
        kind = dtype_name(dtype)
        if kind is None:
            raise ArgumentValueError(f"tensor {name!r}: .safetensors cannot hold {dtype}")
        if name == METADATA:
            raise ArgumentValueError(
                f"tensor {name!r}: .safetensors has this name for what is no tensor; choose another"
            )
        if "\0" in name:
            raise ArgumentValueError(f"tensor {name!r}: {_NUL}; choose another")
        if not name:
            raise ArgumentValueError(f"tensor {name!r}: {EMPTY_NAME}")
        members[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def encode(
    tensors: Iterable[tuple[str, DataType, tuple[int, ...], memoryview]],
    order: Sequence[str] | None = None,
) -> tuple[memoryview, ...]:
    """A file of tensors (name, element type, shape, bytes): its header, then their bytes. The format
    has no gaps: tensors of a multiple of 64 bytes come first, so that as many as possible begin at
    one; then the widest elements, so that all are aligned to their elements.

    Raises:
        ValueError: a name or an element type that the format does not have.
    """
    ordered = sorted(tensors, key=lambda t: (t[3].nbytes % ALIGNMENT != 0, -t[1].bits, t[0]))
    head = encode_header(
        [(name, dtype, shape, data.nbytes) for name, dtype, shape, data in ordered], order
    )
    return memoryview(head), *(data for *_, data in ordered)


class _Object(list[tuple[str, Any]]):
    """A JSON object as its pairs: the format allows each name once, which a dict could not tell."""


def _members(pairs: _Object, what: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _fail(f"{what} has a name twice", 8)
    return found


def _entry(name: str, value: Any, limit: int) -> TensorEntry:
    """One member of the header, checked against `limit` bytes of data."""

    def fail(message: str) -> FormatError:
        return _fail(f"tensor {name!r}: {message}")

    if "\0" in name:
        raise fail(_NUL)
    if not isinstance(value, _Object):
        raise fail(f"expected an object, found {type(value).__name__}")
    fields = _members(value, f"tensor {name!r}")
    kind, shape, offsets = (
        fields.get("dtype"),
        _counts(fields.get("shape")),
        _counts(fields.get("data_offsets")),
    )
    if not isinstance(kind, str) or kind not in DTYPES:
        raise fail(f"dtype {kind!r}, expected one of {', '.join(DTYPES)}")
    if shape is None or len(shape) > NDIM_LIMIT:
        raise fail(
            f"shape {_shown(fields, 'shape')}, expected a list of at most {NDIM_LIMIT} sizes"
        )
    if offsets is None or len(offsets) != 2:
        raise fail(f"data_offsets {_shown(fields, 'data_offsets')}, expected [begin, end]")
    begin, end = offsets
    if begin > end or end > limit:
        raise fail(f"data_offsets {offsets!r} lie outside {limit} bytes of data")
    dtype = DTYPES[kind]
    bits = _bits_needed(dtype, shape)
    if bits is None or bits != 8 * (end - begin):
        expected = (
            "no addresses (more than 2^64 bits)"
            if bits is None
            else f"{bits} bits"
            if bits % 8
            else f"{bits // 8}"
        )
        raise fail(f"{end - begin} bytes, {kind} of shape {shape} has {expected}")
    return TensorEntry(name, dtype, tuple(shape), begin, end)


def _bits_needed(dtype: DataType, shape: list[int]) -> int | None:
    """Bits of all elements, None where they have no addresses."""
    bits = 8 if dtype.bits == 1 else dtype.bits  # a bool takes a byte
    return bits * prod(shape) if is_addressable(shape, (bits + 7) // 8) else None


def _counts(value: Any) -> list[int] | None:
    """`value` if it is a list of whole numbers from 0 to 2^63 - 1."""
    return (
        value
        if type(value) is list and all(type(n) is int and 0 <= n < 1 << 63 for n in value)
        else None
    )


def _shown(fields: dict[str, Any], key: str) -> str:
    return f"{fields.get(key)!r:.80}"


def _fail(message: str, offset: int | None = None) -> FormatError:
    return FormatError(f"safetensors: {message}", code="payload", offset=offset)
