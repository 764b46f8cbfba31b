"""Streams of the classic dialect, put together byte by byte as docs/format.md, section 2, says.
Nothing of it is mblob's own writer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mblob

LIB_KEY, TREE_KEY = b"_lib", b"_import_tree"


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def string(raw: bytes) -> bytes:
    return u64(len(raw)) + raw


def strings(*values: bytes) -> bytes:
    return u64(len(values)) + b"".join(map(string, values))


def array(*values: float) -> bytes:
    """An NDArray of float32 with one dimension."""
    head = u64(0xDD5E40F096B4A13F, 0) + struct.pack("<iiiBBHq", 1, 0, 1, 2, 32, 1, len(values))
    return head + struct.pack(f"<q{len(values)}f", 4 * len(values), *values)


def item(key: bytes, payload: bytes = b"") -> bytes:
    return string(key) + payload


LIB = item(LIB_KEY)


def tree(*imports: Sequence[int]) -> bytes:
    """The last item of TVM 0.7 and later: what each module imports."""
    rows = [sum(map(len, imports[:i])) for i in range(len(imports) + 1)]
    child = [c for row in imports for c in row]
    return item(TREE_KEY, u64(len(rows), *rows) + u64(len(child), *child))


def blob(*items: bytes) -> bytes:
    body = u64(len(items)) + b"".join(items)
    return u64(len(body)) + body


SOURCE = """
#include <stdint.h>
__attribute__((visibility("default"))) extern const unsigned char __tvm_dev_mblob[];
const unsigned char __tvm_dev_mblob[%d] = {%s};
__attribute__((visibility("default"))) void *__tvm_module_ctx;
__attribute__((visibility("default"))) int give(void *args, int *codes, int n, int64_t *ret, int *code) {
  *ret = 42;
  *code = 0;
  return 0;
}
"""


def library(cc: Callable[..., Path], path: Path, *items: bytes) -> Path:
    """A library with these items in its stream, and a packed function `give` that returns 42."""
    data = blob(*items)
    return cc(SOURCE % (len(data), ",".join(map(str, data))), path, "-Wl,-Bsymbolic")


def counter(payload: memoryview, ctx: Any) -> mblob.Module:
    """A loader of modules that count, and save what they have counted."""
    state = [int.from_bytes(payload, "little")]

    def count(step: int) -> int:
        state[0] += step
        return state[0]

    return mblob.Module("acme", functions={"count": count}, save=lambda: u64(state[0]))
