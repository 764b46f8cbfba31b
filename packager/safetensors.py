"""The header of a safetensors file, checked: https://github.com/huggingface/safetensors, "Format".

`u64 n`, n bytes of JSON `{name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__":
{...}}`, data.
"""

from __future__ import annotations

import json
from typing import Any

from packager.errors import BuildError

ALIGNMENT = 64  # of the tensor data in a packed library: a cache line, and what TVM's kernels assume
HEADER_LIMIT = 100_000_000  # the format's own bound

DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


def data_offset(head: memoryview | bytes, who: str) -> int:
    """Where the tensor data starts, from the first 8 bytes.

    Raises:
        BuildError: that cannot be a safetensors file.
    """
    if len(head) < 8:
        raise BuildError(f"{who}: {len(head)} bytes, a safetensors file has at least 8")
    size = int.from_bytes(head[:8], "little")
    if size > HEADER_LIMIT:
        raise BuildError(
            f"{who}: says its header has {size} bytes, at most {HEADER_LIMIT} are allowed; not safetensors?"
        )
    return 8 + size


def check_header(header: bytes, data_size: int, who: str) -> None:
    """Check that the header describes `data_size` bytes of data without gap or overlap.

    Raises:
        BuildError: it does not; the text names the tensor.
    """
    try:
        table = json.loads(header)
    except (ValueError, RecursionError) as exc:
        raise BuildError(f"{who}: its header is no JSON: {exc}") from None
    if not isinstance(table, dict):
        raise BuildError(f"{who}: its header is a JSON {type(table).__name__}, expected an object")
    ranges = sorted(_range(name, entry, who) for name, entry in table.items() if name != "__metadata__")
    at = 0
    for begin, end, name in ranges:
        if begin != at:
            raise BuildError(f"{who}: tensor {name!r} starts at byte {begin} of the data, expected {at}")
        at = end
    if at != data_size:
        raise BuildError(f"{who}: its tensors need {at} bytes of data, the file has {data_size}")


def _range(name: str, entry: Any, who: str) -> tuple[int, int, str]:
    def is_size(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63

    def fail(what: str) -> BuildError:
        return BuildError(f"{who}: tensor {name!r}: {what}")

    if not isinstance(entry, dict):
        raise fail("no object with dtype, shape and data_offsets")
    dtype, shape, offsets = (entry.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise fail(f"dtype {dtype!r} is not known; expected one of {', '.join(DTYPE_BITS)}")
    if not isinstance(shape, list) or not all(map(is_size, shape)):
        raise fail(f"shape {shape!r}, expected a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_size, offsets)):
        raise fail(f"data_offsets {offsets!r}, expected [begin, end]")
    bits = DTYPE_BITS[dtype]
    for extent in shape:
        bits *= extent
    begin, end = offsets
    if bits % 8 or end - begin != bits // 8:
        raise fail(f"data_offsets span {end - begin} bytes, {dtype} of shape {shape} has {bits / 8:g}")
    return begin, end, name
