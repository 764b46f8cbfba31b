"""Parameters of a model, from the files that people have them in."""

from __future__ import annotations

import mmap
from pathlib import Path

from mblob.errors import MblobError
from mblob.format import safetensors
from mblob.format.ndarray import PARAMS_MAGIC, ArrayRecord, read_param_dict


def read_params(path: Path) -> dict[str, ArrayRecord]:
    """The arrays in a file by name, in its order; their bytes stay in the file's mapping.

    Args:
        path: a safetensors file, or one that `save_param_dict` wrote, TVM's or ours.

    Raises:
        OSError: it cannot be read.
        FormatError: it is neither, or damaged.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        data = (
            memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            if size
            else memoryview(b"")
        )
    try:
        if data[:8] == PARAMS_MAGIC.to_bytes(8, "little"):
            return read_param_dict(data)
        offset, entries = safetensors.read(data)
    except MblobError as exc:
        exc.prefix(str(path))
        raise
    return {
        e.name: ArrayRecord(e.dtype, e.shape, data[offset + e.begin : offset + e.end])
        for e in entries
    }
