"""Named tensors inside payloads: safetensors files, parameter dictionaries, executor factories.

Everything is a read-only view into the mapped file.
"""

from __future__ import annotations

from collections.abc import Mapping

from mblob.format import grammar, safetensors
from mblob.format.ndarray import PARAMS_MAGIC, read_param_dict
from mblob.format.type_keys import SAFETENSORS
from mblob.loader import _call
from mblob.loader.tensor import Tensor, records_as_tensors


def tensors_of(
    key: str, payload: memoryview, grammars: grammar.Grammars = grammar.GRAMMARS
) -> Mapping[str, Tensor] | None:
    """The named tensors of a payload, None if its type key holds none.

    Args:
        grammars: those of the dialect.

    Raises:
        FormatError: it breaks its format.
    """
    if key == SAFETENSORS:
        return tensors_of_safetensors(payload)
    if payload.nbytes >= 8 and int.from_bytes(payload[:8], "little") == PARAMS_MAGIC:
        return records_as_tensors(read_param_dict(payload))
    params = grammar.decode_payload(key, payload, grammars).get("params")
    return records_as_tensors(params) if isinstance(params, dict) else None


def tensors_of_safetensors(data: memoryview) -> dict[str, Tensor]:
    """Tensors of a safetensors file in memory, in the order of their data.

    Elements of 4 and 6 bits (F4, F6_E2M3, F6_E3M2) are given as the bytes they are packed in:
    uint8, one dimension.

    Raises:
        FormatError: "payload": the header or a tensor does not fit.
    """
    offset, entries = safetensors.read(data)
    body = data[offset:]
    found = {}
    for entry in entries:
        dtype, shape = entry.layout
        found[entry.name] = _call.tensor_view(
            body[entry.begin : entry.end], shape, (dtype.code, dtype.bits, dtype.lanes)
        )
    return found
