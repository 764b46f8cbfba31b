"""Named tensors inside payloads: safetensors files, parameter dictionaries, executor factories.

Everything is a read-only view into the mapped file. The safetensors layout (https://github.com/huggingface/safetensors):
u64 size of a JSON header, the header {name: {dtype, shape, data_offsets}}, the data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loader import _call
from loader.tensor import Tensor, records_as_tensors
from mblob import grammar
from mblob.dtype import DataType
from mblob.errors import FormatError
from mblob.ndarray import PARAMS_MAGIC, read_param_dict

HEADER_LIMIT = 100_000_000  # bytes, the format's own limit
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool",
}  # fmt: skip


def tensors_of(key: str, payload: memoryview) -> Mapping[str, Tensor] | None:
    """The named tensors of a payload, None if its type key holds none.

    Raises:
        FormatError: it breaks its format.
    """
    if key == "safetensors":
        return safetensors(payload)
    if payload.nbytes >= 8 and int.from_bytes(payload[:8], "little") == PARAMS_MAGIC:
        return records_as_tensors(read_param_dict(payload))
    params = grammar.decode_payload(key, payload).get("params")
    return records_as_tensors(params) if isinstance(params, dict) else None


def _fail(message: str, offset: int | None = None) -> FormatError:
    return FormatError(f"safetensors: {message}", code="safetensors", offset=offset)


def safetensors(data: memoryview) -> dict[str, Tensor]:
    """Tensors of a safetensors file in memory, in the order of their data.

    Raises:
        FormatError: "safetensors": the header or a tensor does not fit.
    """
    if data.nbytes < 8:
        raise _fail(f"{data.nbytes} bytes, expected at least 8", 0)
    size = int.from_bytes(data[:8], "little")
    if size > min(data.nbytes - 8, HEADER_LIMIT):
        raise _fail(f"a header of {size} bytes, {data.nbytes - 8} are left and {HEADER_LIMIT} are allowed", 0)
    try:
        header = json.loads(bytes(data[8 : 8 + size]))
    except (ValueError, RecursionError) as exc:
        raise _fail(f"the header is no JSON: {exc}", 8) from None
    if not isinstance(header, dict):
        raise _fail("the header is no JSON object", 8)
    body = data[8 + size :]
    items = [_item(name, value, body.nbytes) for name, value in header.items() if name != "__metadata__"]
    items.sort(key=lambda item: item[1])
    end = 0
    for name, start, stop, _, _ in items:
        if start != end:
            raise _fail(f"tensor {name!r} starts at {start} of the data, expected {end}: a gap or an overlap")
        end = stop
    if end != body.nbytes:
        raise _fail(f"{body.nbytes - end} bytes follow the last tensor")
    return {
        name: _call.tensor_view(body[start:stop], shape, (dtype.code, dtype.bits, dtype.lanes))
        for name, start, stop, dtype, shape in items
    }


def _item(name: str, value: Any, limit: int) -> tuple[str, int, int, DataType, tuple[int, ...]]:
    """One entry of the header: name, start, stop, dtype, shape; all checked."""
    if not isinstance(value, dict):
        raise _fail(f"tensor {name!r}: expected an object, found {type(value).__name__}")
    kind: Any
    shape: Any
    offsets: Any
    kind, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if kind not in DTYPES:
        raise _fail(f"tensor {name!r}: dtype {kind!r}, expected one of {', '.join(DTYPES)}")
    if not _counts(shape) or len(shape) > 64:
        raise _fail(f"tensor {name!r}: shape {shape!r} is no list of sizes")
    if not _counts(offsets) or len(offsets) != 2:
        raise _fail(f"tensor {name!r}: data_offsets {offsets!r} is no pair of offsets")
    start, stop = offsets
    if start > stop or stop > limit:
        raise _fail(f"tensor {name!r}: data_offsets {offsets!r} lie outside {limit} bytes of data")
    dtype = DataType.parse(DTYPES[kind])
    expected = (dtype.bits + 7) // 8
    for extent in shape:
        expected *= extent
    if stop - start != expected:
        raise _fail(f"tensor {name!r}: {stop - start} bytes, {dtype} of shape {shape} has {expected}")
    return name, start, stop, dtype, tuple(shape)


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)
