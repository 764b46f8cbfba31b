"""The single tensors that payloads hold: weights, parameters of graphs, constants. Views, nothing
is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mblob.bytes.wire import Cursor
from mblob.dtype import E4M3_FLOAT8, E5M2_FLOAT8, DataType
from mblob.format import grammar, safetensors
from mblob.format.grammar import (
    FFI_GRAMMARS,
    FFI_GRAMMARS_OF_0_21,
    GRAMMARS,
    Grammars,
    decode_payload,
)
from mblob.format.ndarray import PARAMS_MAGIC, ArrayRecord, read_param_pairs
from mblob.format.type_keys import EXECUTABLES, RELAY_EXECUTABLE, SAFETENSORS
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mblob.inspect.relax_program import Program

# Fields that hold arrays, and how they are read so that a name which is there twice stays twice.
_ARRAYS = {
    grammar.named_arrays: grammar.named_array_pairs,
    grammar.constants: grammar.constant_pairs,
}

# Type codes that mean different things in different releases, by what they are called today.
_CODES_OF_CLASSIC = {
    DataType(E4M3_FLOAT8, 8): DataType.parse("float8_e4m3fn"),
    DataType(E5M2_FLOAT8, 8): DataType.parse("float8_e5m2"),
}


class StoredTensor(NamedTuple):
    """A tensor inside a payload.

    Attributes:
        name: as stored, or `constant 3` for the constants of an executable, which have none.
        dtype, shape: elements, and how many of them per dimension.
        offset: of its first byte, counted from the first byte of the payload.
        data: its elements: compact, row-major, little endian; a view of the payload.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]
    offset: int
    data: memoryview


def tensors_of(key: str, payload: memoryview, grammars: Grammars = GRAMMARS) -> list[StoredTensor]:
    """The tensors of a payload in stored order; [] for a type key that has none. A name may be
    there twice.

    Args:
        grammars: those of the dialect.

    Raises:
        FormatError: the payload breaks the grammar of its key.
    """
    if key == SAFETENSORS:
        base, entries = safetensors.read(payload)
        return [
            StoredTensor(
                name=e.name,
                dtype=e.dtype,
                shape=e.shape,
                offset=base + e.begin,
                data=payload[base + e.begin : base + e.end],
            )
            for e in entries
        ]
    return stored_tensors(_pairs(key, payload, grammars), grammars)


def relax_program(code: memoryview, grammars: Grammars) -> Program:
    """A program of Relax.

    Raises:
        FormatError: "payload", "truncated".
    """
    from mblob.inspect.relax_program import Program
    from mblob.native import programs

    if grammars is FFI_GRAMMARS:
        return Program(code, programs.FFI)
    of_0_21 = grammars is FFI_GRAMMARS_OF_0_21
    return Program(code, programs.FFI_OF_0_21 if of_0_21 else programs.CLASSIC)


def placed(arrays: Iterable[tuple[str, ArrayRecord]], base: int) -> list[tuple[str, ArrayRecord]]:
    """Arrays of code that starts at `base` in its payload, by name, with offsets in the payload."""
    return [(name, array._replace(offset=array.offset + base)) for name, array in arrays]


def is_param_dict(payload: memoryview) -> bool:
    """True if a payload is a parameter dictionary, which keys of the user's may have."""
    return bytes(payload[:8]) == PARAMS_MAGIC.to_bytes(8, "little")


def stored_tensors(
    records: Iterable[tuple[str, ArrayRecord]], grammars: Grammars
) -> list[StoredTensor]:
    """Array records by name, with the element types that the dialect means."""
    meant = dtype_decoder(grammars)
    return [StoredTensor(name, meant(r.dtype), r.shape, r.offset, r.data) for name, r in records]


def dtype_decoder(grammars: Grammars) -> Callable[[DataType], DataType]:
    """The function that gives the element type that a dialect means by a stored one."""
    return of_classic if grammars is GRAMMARS else DataType.of_ffi


def of_classic(dtype: DataType) -> DataType:
    """The type for numbers that a library of the classic dialect stores."""
    known = _CODES_OF_CLASSIC.get(dtype._replace(lanes=1))
    return known._replace(lanes=dtype.lanes) if known else dtype


def _pairs(key: str, payload: memoryview, grammars: Grammars) -> list[tuple[str, ArrayRecord]]:
    cursor = Cursor(payload)
    fields = grammars.get(key)
    if fields is None and is_param_dict(payload):
        return read_param_pairs(payload)
    if key in EXECUTABLES:
        code = decode_payload(key, payload, grammars)["code"]
        base = len(payload) - len(code)
        if key == RELAY_EXECUTABLE:
            from mblob.inspect import relay_summary

            return placed(relay_summary.summarize(code)[1], base)
        return placed(relax_program(code, grammars).arrays(), base)
    if fields is None or callable(fields) or not any(read in _ARRAYS for _, read in fields):
        return []
    found: list[tuple[str, ArrayRecord]] = []
    for name, read in fields:
        if read in _ARRAYS:
            found += _ARRAYS[read](cursor, f"{key}.{name}")
        else:
            read(cursor, f"{key}.{name}")
    return found
