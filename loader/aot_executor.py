"""Models that TVM compiled ahead of time, in the shape of `tvm.runtime.executor.aot_executor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from mblob.errors import ArgumentValueError
from mblob.loader.benchmark import TimedModel, functions_of, given_inputs, unnamed_inputs
from mblob.loader.tensor import Tensor, as_tensor, in_place, lent
from mblob.module import Module

A = TypeVar("A")


@dataclass(frozen=True)
class CallTime:
    """Time of a function of a model.

    Attributes:
        function: the called function.
        count: number of calls in all runs together.
        seconds: mean per run, all calls together.
    """

    function: str
    count: int
    seconds: float


class AotModule(TimedModel):
    """A model with its inputs and outputs: `AotModule(mod["default"](mblob.cpu(0)))`.

    One thread at a time may use a model. Executors of one factory are independent.

    Attributes:
        module: the executor's own module; its functions have TVM's names.
    """

    def __init__(self, module: Module) -> None:
        self._set_input, self._run, self._get_output, self._get_input = functions_of(
            "AotModule", module, "set_input", "run", "get_output", "get_input"
        )
        self.module = module
        self._kept: dict[tuple[str, int], Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the library, the device and no inputs: the model is created again."""
        return type(self), (self.module,)

    if TYPE_CHECKING:

        @overload
        def set_input(self, /, key: str | int, value: Any, **params: Any) -> None: ...
        @overload
        def set_input(self, /, **params: Any) -> None: ...

    def set_input(self, /, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy arrays into inputs.

        An array that `set_input_zero_copy` lent is left as it is; the input has memory of its own
        again.

        Args:
            key: name or position of one input; None if all are given by name.
            value: its array.
            params: inputs by name.

        Raises:
            ValueError: no such input, or another shape or dtype than the model takes.
            TypeError: an array without its key.
        """
        for name, array in given_inputs("set_input", key, value, params):
            self._set_one(name, array)

    def _set_one(self, key: str | int, value: Any) -> None:
        self._set_input(key, as_tensor(value, lists=True, what=f"set_input: input {key!r}: "))
        self._kept.pop(("input", self._index("input", key)), None)

    def set_input_zero_copy(
        self, /, key: str | int | None = None, value: Any = None, **params: Any
    ) -> None:
        """Let the model read the input `key` (name or position) from the array `value`, from now
        on, and inputs by name from those in `params`. Arrays must be aligned to 64 bytes
        (`mblob.empty`).
        """
        for name, array in given_inputs("set_input_zero_copy", key, value, params):
            tensor = in_place(array, f"set_input_zero_copy: input {name!r}: ")
            self.module["set_input_zero_copy"](name, tensor)
            self._kept["input", self._index("input", name)] = tensor

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Let the model write its output `key` (name or position) into the array `value`; it must
        be aligned to 64 bytes (`mblob.empty`).
        """
        tensor = in_place(value, f"set_output_zero_copy: output {key!r}: ")
        self.module["set_output_zero_copy"](key, tensor)
        self._kept["output", self._index("output", key)] = tensor

    def run(self, /, *unnamed: NoReturn, **inputs: Any) -> None:
        """Run the model, after setting inputs by name."""
        if unnamed:
            raise unnamed_inputs(self.get_input_info()[0])
        if inputs:
            self._set_named(inputs)
        self._run()

    def _run_once(self, parallel: int | None) -> Callable[[], object]:
        if parallel is not None:
            raise ArgumentValueError(
                "benchmark: parallel is for graph executors; this model is compiled as a whole"
            )
        run: Callable[[], object] = self._run
        return run

    def profile(self, /, repeat: int = 1, **inputs: Any) -> list[CallTime]:
        """Time of the model's functions in `repeat` runs; `inputs` are set before, by name.

        The first row is the model's entry function. Functions that it calls through the runtime
        (external libraries, functions of the process) have rows, too, and their time is also in the
        first row. Kernels that the compiled code calls directly have no rows.
        """
        self._set_named(inputs)
        return [CallTime(**row) for row in json.loads(self.module["profile"](repeat))]

    if TYPE_CHECKING:

        @overload
        def get_input(self, index: str | int) -> Tensor: ...
        @overload
        def get_input(self, index: str | int, out: A) -> A: ...

    def get_input(self, index: str | int, out: Any = None) -> Any:
        """A view of the input `index` (name or position). It is read-only if `set_input_zero_copy`
        was given a read-only array. With `out`, copy the input to `out` and return `out`.
        """
        found = self._get(self._get_input, index, out)
        return (
            found
            if out is not None
            else lent(self._kept.get(("input", self._index("input", index))), found)
        )

    if TYPE_CHECKING:

        @overload
        def get_output(self, index: str | int) -> Tensor: ...
        @overload
        def get_output(self, index: str | int, out: A) -> A: ...

    def get_output(self, index: str | int, out: Any = None) -> Any:
        """A view of the output `index` (name or position), which the next run overwrites. With
        `out`, copy the output to `out` and return `out`.
        """
        return self._get(self._get_output, index, out)

    def get_num_inputs(self) -> int:
        """Number of inputs."""
        return int(self.module["get_num_inputs"]())

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return int(self.module["get_num_outputs"]())

    def get_input_index(self, name: str) -> int:
        """Position of the input `name`."""
        return self._index("input", name)

    def get_input_name(self, index: int) -> str:
        """Name of the input at position `index`."""
        return str(self.module["get_input_name"](index))

    def get_input_info(self) -> tuple[dict[str, list[int]], dict[str, str]]:
        """Shapes and dtypes of the inputs, by name."""
        return _info(self.module["get_input_info"]())

    def get_output_info(self) -> tuple[dict[str, list[int]], dict[str, str]]:
        """Shapes and dtypes of the outputs, by name."""
        return _info(self.module["get_output_info"]())

    def _index(self, kind: str, key: str | int) -> int:
        return int(self.module[f"get_{kind}_index"](key))

    @staticmethod
    def _get(function: Any, index: str | int, out: Any) -> Any:
        if out is None:
            return function(index)
        function(index, out)
        return out


def _info(found: Any) -> tuple[dict[str, list[int]], dict[str, str]]:
    return {name: list(shape) for name, shape in found["shape"].items()}, found["dtype"]
