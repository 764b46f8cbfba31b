"""The outputs of a function of a program of Relay's virtual machine, which only its code tells: the arrays that it
returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from mblob.dtype import DataType
from mblob.format.grammar import decode_payload
from mblob.format.ndarray import array_of_view
from mblob.inspect.library import Library
from mblob.inspect.models import Model, Value
from mblob.named_tuple import NamedTuple
from mblob.native import programs


class _Array(NamedTuple):
    """An array of a register.

    Attributes:
        shape, dtype: None where the code does not tell it.
        numbers: of a constant of int64; None of others.
    """

    shape: tuple[int | str, ...] | None
    dtype: str | None
    numbers: tuple[int, ...] | None = None


# What a register holds: an array, a tuple, or what the code does not tell.
_Held = Union[_Array, "list[Any]", None]
_DEPTH = 100  # of calls
_NUMBERS = 64  # of a shape


def outputs_of(library: Library, model: Model, inputs: Sequence[Value]) -> tuple[Value, ...] | None:
    """The outputs, without shapes and types that the code does not tell; None if it does not tell how many there are.

    Args:
        inputs: of the model.
    """
    entry = library.entries[model.entry]
    code = decode_payload(entry.type_key, entry.view(), library.grammars)["code"]
    given = [_Array(value.shape, value.dtype) for value in inputs]
    found = _Walk(code).result_of(model.name, given)
    rows = found if isinstance(found, list) else [found]
    arrays = [row for row in rows if isinstance(row, _Array)]
    if len(arrays) < len(rows):
        return None
    return tuple(Value(None, array.shape, array.dtype) for array in arrays)


class _Walk:
    """Follows the one way through code that has no branches."""

    def __init__(self, code: memoryview) -> None:
        self._code, self._program = code, programs.read_relay(code)
        self._functions = self._program.functions[0 : self._program.function_count]

    def result_of(self, name: str, given: Sequence[_Held]) -> _Held:
        """The result of the function of that name."""
        wanted = name.encode()
        function = next(f for f in self._functions if programs.ffi.string(f.name) == wanted)
        return self._result(function, given, 0)

    def _result(self, function: Any, given: Sequence[_Held], depth: int) -> _Held:
        held = dict(enumerate(given))
        for name, fields, items in programs.relay_instructions(function):
            if name == "Ret":
                return held.get(fields["r"])
            if name in ("If", "Goto", "Fatal") or depth > _DEPTH:
                break
            if name == "Invoke":
                called = self._functions[fields["f"]]
                held[fields["d"]] = self._result(called, [held.get(i) for i in items], depth + 1)
            elif "d" in fields:
                held[fields["d"]] = self._made(name, fields, items, held)
        return None

    def _made(
        self, name: str, fields: dict[str, int], items: list[int], held: dict[int, _Held]
    ) -> _Held:
        """The value that an instruction makes."""
        source = held.get(fields.get("r", -1))
        if name in ("Move", "DeviceCopy"):
            return source
        if name in ("AllocTensor", "AllocTensorReg"):
            dtype = str(DataType(fields["t0"], fields["t1"], fields["t2"]))
            is_here = name == "AllocTensor"
            return _Array(tuple(items) if is_here else _shape(held.get(fields["rrr"])), dtype)
        if name == "ReshapeTensor":
            kept = source.dtype if isinstance(source, _Array) else None
            return _Array(_shape(held.get(fields["rr"])), kept)
        if name == "ShapeOf" and isinstance(source, _Array) and source.shape is not None:
            return _Array((len(source.shape),), "int64")
        if name == "AllocADT":
            return [held.get(i) for i in items]
        if name == "GetField" and isinstance(source, list) and fields["x"] < len(source):
            field: _Held = source[fields["x"]]
            return field
        if name == "LoadConst":
            return self._constant(fields["k"])
        return None

    def _constant(self, k: int) -> _Held:
        constant = self._program.constants[k]
        if constant.name:  # bound late
            return None
        end = programs.ffi.unpack(self._program.constant_places, k + 2)[-1]
        dtype, shape, data, _ = array_of_view(self._code, constant.view, end)
        numbers = None
        if str(dtype) == "int64" and len(data) <= 8 * _NUMBERS:
            words = (data[i : i + 8] for i in range(0, len(data), 8))
            numbers = tuple(int.from_bytes(word, "little", signed=True) for word in words)
        return _Array(shape, str(dtype), numbers)


def _shape(held: _Held) -> tuple[int, ...] | None:
    """The shape that an array of numbers is."""
    return held.numbers if isinstance(held, _Array) else None
