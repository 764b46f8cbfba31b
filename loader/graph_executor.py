"""Graph executors: run a model that a graph describes, in the shape of
`tvm.contrib.graph_executor`.

    lib = mblob.load_module("resnet18.so")
    gm = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
    gm.set_input("data", x)
    gm.run()
    y = gm.get_output(0).numpy()
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, overload

from mblob.arguments import wrong_type
from mblob.benchmark import BenchmarkResult
from mblob.devices import Device
from mblob.errors import ArgumentValueError
from mblob.format.ndarray import save_param_dict
from mblob.loader.benchmark import (
    TimedModel,
    functions_of,
    given_inputs,
    unnamed_inputs,
)
from mblob.loader.global_functions import get_global_func
from mblob.loader.graph_dump import GraphDump
from mblob.loader.opened import remember
from mblob.loader.tensor import CPU, Tensor, array, as_tensor, devices_of, in_place, lent
from mblob.module import Module

Shapes = dict[str, tuple[int, ...]]
Types = dict[str, str]

__all__ = [
    "BenchmarkResult",
    "GraphModule",
    "GraphModuleDebug",
    "NodeTime",
    "create",
    "create_debug",
]


def _threads(parallel: int | None) -> tuple[int, ...]:
    """The number of threads as an argument of the executor's functions."""
    if parallel is None:
        return ()
    try:
        if not isinstance(parallel, bool):
            return (index(parallel),)
    except TypeError:
        pass
    expected = (
        "a number of threads (an input of this name is set with set_input('parallel', array))"
    )
    raise wrong_type("run", "parallel", expected, parallel)


class GraphModule(TimedModel):
    """A model with memory of its own, ready to run.

    The model runs one call at a time; other threads wait. `get_input` and `get_output` return views
    of the model's memory, which the next run overwrites.

    Args:
        module: the result of a factory's function, `lib["default"](mblob.cpu(0))`.
    """

    def __init__(self, module: Module) -> None:
        self._set_input, self._run, self._get_output, self._get_input = functions_of(
            "GraphModule", module, "set_input", "run", "get_output", "get_input"
        )
        self.module = module
        # Memory of the caller that the model uses, by ("input" or "output", position).
        self._bound: dict[tuple[str, int], Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle has the library, the device and no inputs: the model is created again."""
        return type(self), (self.module,)

    # -- inputs ------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        @overload
        def set_input(self, /, key: str | int, value: Any, **params: Any) -> None: ...
        @overload
        def set_input(self, /, **params: Any) -> None: ...

    def set_input(self, /, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy arrays into inputs: `set_input("data", x)`, `set_input(0, x)`,
        `set_input(**params)`.

        Args:
            key: name or position of one input; None if all are given by name.
            value: its array, of the dtype and shape that the model has.
            params: inputs by name. Give an input named `key` or `value` by its key.

        Raises:
            ValueError: no such input, or another dtype or shape; the text says what the model has.
            TypeError: an array without its key.
        """
        for name, given in given_inputs("set_input", key, value, params):
            self._set_one(name, given)

    def _set_one(self, key: str | int, value: Any) -> None:
        self._set_input(key, as_tensor(value, lists=True, what=f"set_input: input {key!r}: "))
        self._bound.pop(("input", self._input_index(key)), None)

    def _input_index(self, key: str | int) -> int:
        return self.get_input_index(key) if isinstance(key, str) else key

    def set_input_zero_copy(
        self, /, key: str | int | None = None, value: Any = None, **params: Any
    ) -> None:
        """Let the model read arrays where they are, from now on.

        Args:
            key: name or position of one input; None if all are given by name.
            value: its array, which the model keeps. What is written into it later is seen by `run`.
            params: arrays by name.

        Raises:
            ValueError: no such input, another dtype or shape, strides, or data that is not aligned
                enough (`mblob.empty` and `mblob.array` give aligned memory).
        """
        for name, given in given_inputs("set_input_zero_copy", key, value, params):
            tensor = in_place(given, f"set_input_zero_copy: input {name!r}: ")
            self.module["set_input_zero_copy"](name, tensor)
            self._bound["input", self._input_index(name)] = tensor

    def get_input(self, key: str | int, out: Any = None) -> Tensor:
        """A view of the input `key` (name or position); writable, unless `set_input_zero_copy` was
        given a read-only array.

        Args:
            out: an array that the input is copied to, and which is returned.

        Raises:
            ValueError: no such input, or `out` is read-only or has another dtype or shape.
        """
        found: Tensor = self._get_input(key)
        if out is not None:
            return in_place(out, f"get_input: input {key!r}: ").copyfrom(found)
        return lent(self._bound.get(("input", self._input_index(key))), found)

    def get_num_inputs(self) -> int:
        """Number of inputs, parameters among them."""
        return int(self.module["get_num_inputs"]())

    def get_input_index(self, name: str) -> int:
        """Position of the input `name`, or -1 if there is no such input."""
        return int(self.module["get_input_index"](name))

    def get_input_info(self) -> tuple[Shapes, Types]:
        """Shapes and dtypes of the inputs that are not parameters, by name."""
        return _info(self.module["get_input_info"]())

    # -- outputs -----------------------------------------------------------------------------------

    def get_output(self, index: str | int, out: Any = None) -> Tensor:
        """A view of an output, which the next run overwrites.

        Args:
            index: position or name of the output.
            out: an array that the output is copied to, and which is returned.

        Raises:
            ValueError: no such output, or `out` is read-only or has another dtype or shape.
        """
        if out is None:
            found: Tensor = self._get_output(index)
            return found
        tensor = in_place(out, f"get_output: output {index!r}: ")
        self._get_output(index, tensor)
        return tensor

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Let the model write an output into an array, from now on.

        Args:
            key: name or position of the output.
            value: the array, which the model keeps.

        Raises:
            ValueError: as `set_input_zero_copy`; or the array is read-only; or the output has the same
                bytes as an input, or as an output that is bound to other memory. Outputs of the same
                bytes that were bound before are bound again one after the other; `run` raises the
                error if one of them was left out.
        """
        tensor = in_place(value, f"set_output_zero_copy: output {key!r}: ")
        self.module["set_output_zero_copy"](key, tensor)
        self._bound["output", self._output_index(key)] = tensor

    def _output_index(self, key: str | int) -> int:
        if not isinstance(key, str):
            return key
        return int(self.module["get_output_index"](key))

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return int(self.module["get_num_outputs"]())

    def get_output_info(self) -> tuple[Shapes, Types]:
        """Shapes and dtypes of the outputs, named `NODE:POSITION`."""
        return _info(self.module["get_output_info"]())

    # -- running -----------------------------------------------------------------------------------

    if TYPE_CHECKING:

        @overload
        def run(self, /, *, parallel: int | None, **inputs: Any) -> None: ...
        @overload
        def run(self, /, **inputs: Any) -> None: ...

    def run(self, /, *unnamed: Any, parallel: int | None = None, **inputs: Any) -> None:
        """Set inputs given by name, then run the model.

        Args:
            parallel: number of threads for independent operators. 1: one operator after the other.
                0: as many threads as kernels use. None: the model measures its first runs, and uses
                several threads from then on if that is quicker. The result is the same in all
                cases, bit for bit: also a parallel loop in an operator has the same number of tasks.
            inputs: arrays by name. Set an input named `parallel` with `set_input("parallel", x)`.

        Raises:
            TypeError: `parallel` is no number.
            KernelError: an operator failed; the text names the node. The model can be used again.
        """
        if unnamed:
            raise unnamed_inputs(self.get_input_info()[0])
        if inputs:
            self._set_named(inputs)
        if parallel is None:
            self._run()
        else:
            self._run(*_threads(parallel))

    def run_from_inputs(self, /, device: Device = CPU, **inputs: Any) -> list[Tensor]:
        """Set inputs by name, run, and give copies of all outputs, on `device`."""
        pairs: list[Any] = []
        for name, value in inputs.items():
            pairs += [name, as_tensor(value, lists=True, what=f"run_from_inputs: input {name!r}: ")]
        result = self.module["run_from_inputs"](device, *pairs)
        return [result(i) for i in range(result())]

    def _run_once(self, parallel: int | None) -> Callable[[], object]:
        return self._run if parallel is None else partial(self._run, *_threads(parallel))

    def synchronize(self) -> None:
        """Wait until devices have finished the work of `run`. `numpy()` of an output waits by
        itself."""
        self.module["synchronize"]()

    _wait = synchronize

    # -- parameters --------------------------------------------------------------------------------

    def load_params(self, params_bytes: Any) -> None:
        """Set inputs from a parameter dictionary.

        Args:
            params_bytes: of `save_param_dict`, or arrays by name; names that are no inputs are
                skipped.

        Raises:
            FormatError: no parameter dictionary.
            ValueError: another dtype or shape.
        """
        self.module["load_params"](_param_bytes("load_params", params_bytes))

    def share_params(self, other: GraphModule, params_bytes: Any) -> None:
        """Use parameters of another model, without a copy.

        Args:
            other: the model that has the parameters.
            params_bytes: a parameter dictionary (`save_param_dict`, or arrays by name), which names
                the parameters to share. Its arrays are ignored.
        """
        self.module["share_params"](other.module, _param_bytes("share_params", params_bytes))


@dataclass(frozen=True)
class NodeTime:
    """When and where a node ran.

    Attributes:
        node: position of the node in the graph.
        name: name of the node.
        function: name of the function that the node calls.
        seconds: mean time of one run.
        start, end: seconds from the beginning of the last run. Nodes whose times overlap ran at the
            same time.
        thread: number of the thread in the last run; 0 is the thread that called.
        device: device of the node: "cpu:0", "opencl:0".
    """

    node: int
    name: str
    function: str
    seconds: float
    start: float
    end: float
    thread: int
    device: str


class GraphModuleDebug(GraphModule):
    """A model for debugging: `lib["debug_create"]("default", mblob.cpu(0))`, or `create_debug`.

    Args:
        module: as of `GraphModule`.
        device: where the model runs, or a list of devices.
        graph_json_str: its graph: what `lib["get_graph_json"]()` gives.
        dump_root: a folder. The graph is written there now, and the outputs and times of all nodes in
            each run. None: nothing is written or measured.

    Attributes:
        debug_datum: the nodes of the graph, `debug_datum.get_graph_nodes()`, and the table of times of
            the last run, `debug_datum.get_debug_result()`; None without a graph.
    """

    def __init__(
        self,
        module: Module,
        device: Device | Sequence[Device] = CPU,
        graph_json_str: str | Mapping[str, Any] | None = None,
        dump_root: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(module)
        self.debug_datum: GraphDump | None = None
        if dump_root is not None and graph_json_str is None:
            raise ArgumentValueError(
                "GraphModuleDebug: dump_root needs graph_json_str, the graph that is written there"
            )
        if graph_json_str is not None:
            devices = devices_of("GraphModuleDebug", device)
            self.debug_datum = GraphDump(graph_json_str, devices[0], dump_root)

    def run(
        self,
        /,
        number: int = 1,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        sort_by_time: bool = True,
        *,
        parallel: int | None = None,
        **inputs: Any,
    ) -> None:
        """Set inputs given by name, and run the model. If it has a `dump_root`, measure each node first,
        write the outputs and times of all nodes, and print a table of the times, as TVM does.

        Args:
            number, repeat, min_repeat_ms: as of `run_individual`.
            limit_zero_time_iterations, cooldown_interval_ms, repeats_to_cooldown: as of `benchmark`.
            sort_by_time: whether the table begins with the slowest node.
            parallel: as of `GraphModule.run`.
        """
        if self.debug_datum is None or self.debug_datum.path is None:
            super().run(parallel=parallel, **inputs)
            return
        self._set_named(inputs)
        times = self.run_individual(
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        ran = self.profile(parallel=parallel)
        self.debug_datum.write(self._copied_output, times, ran)
        self.debug_datum.display_debug_result(sort_by_time)

    def _copied_output(self, node: int, index: int) -> Tensor:
        """An output of a node right after the node ran: later ones may use its memory."""
        self.execute_node(node)
        return array(self.get_node_output(node, index))

    def exit(self) -> None:
        """Remove what was written to the folder `dump_root`, and the folder if nothing else is in it."""
        if self.debug_datum is not None:
            self.debug_datum.remove()

    def execute_node(self, node: str | int) -> None:
        """Run the nodes up to `node` (name or index) that did not run since the last `run`."""
        self.module["execute_node"](node)

    def get_node_output(self, node: str | int, index: int = 0) -> Tensor:
        """A view of output `index` of a node (by position or name); later nodes may write over it."""
        found: Tensor = self.module["get_node_output"](node, index)
        return found

    def debug_get_output(self, node: str | int, out: Any) -> Tensor:
        """Run from the beginning to this node and copy its first output to `out`."""
        tensor = in_place(out, f"debug_get_output: node {node!r}: ")
        self.module["debug_get_output"](node, tensor)
        return tensor

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Seconds of one run of each node alone: for each node, `repeat` means of `number` runs.

        The other parameters, `min_repeat_ms`, `limit_zero_time_iterations`, `cooldown_interval_ms`
        and `repeats_to_cooldown`, are those of `benchmark`.
        """
        data = self.module["run_individual"](
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        (nodes,) = struct.unpack_from("=q", data)
        return [
            list(struct.unpack_from(f"={repeat}d", data, 8 + 8 * repeat * i)) for i in range(nodes)
        ]

    def run_individual_node(
        self,
        index: str | int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """The time of one node alone. Its inputs are what the last run left in their memory.

        Args:
            index: position or name of the node.
            number, repeat, min_repeat_ms: as of `benchmark`.
            limit_zero_time_iterations: accepted for compatibility with TVM and ignored.
            cooldown_interval_ms, repeats_to_cooldown: as of `benchmark`.
        """
        data = self.module["run_individual_node"](
            index,
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        return BenchmarkResult(struct.unpack(f"={repeat}d", data))

    def profile(
        self, /, repeat: int = 1, *, parallel: int | None = None, **inputs: Any
    ) -> list[NodeTime]:
        """Times of each operator in `repeat` runs of the whole model. These runs wait for each
        operator of a device.

        Args:
            repeat: number of runs.
            parallel: as of `GraphModule.run`.
            inputs: set before, by name.
        """
        self._set_named(inputs)
        threads = _threads(parallel)
        return [NodeTime(**row) for row in json.loads(self.module["profile"](repeat, *threads))]


def create(
    graph_json: str | Mapping[str, Any], lib: Module, device: Device | Sequence[Device] = CPU
) -> GraphModule:
    """A model from its graph and the module with its kernels.

    Args:
        graph_json: the graph, as text or as what `json.dumps` takes.
        lib: the module whose functions the operators are.
        device: where the model runs; several for a graph over several devices.

    Raises:
        FormatError: the graph is wrong; the text names the node.
        KernelError: the kernels lack a function; the text names the node and what there is.
        IncompatibleError: no runtime for the device.
    """
    return GraphModule(_create("tvm.graph_executor.create", graph_json, lib, device))


def create_debug(
    graph_json: str | Mapping[str, Any],
    lib: Module,
    device: Device | Sequence[Device] = CPU,
    dump_root: str | os.PathLike[str] | None = None,
) -> GraphModuleDebug:
    """A model for debugging; `graph_json`, `lib`, `device` and errors as of `create`, `dump_root` as of
    `GraphModuleDebug`."""
    made = _create("tvm.graph_executor_debug.create", graph_json, lib, device)
    return GraphModuleDebug(made, device, graph_json, dump_root)


def _create(
    function: str,
    graph_json: str | Mapping[str, Any],
    lib: Module,
    device: Device | Sequence[Device],
) -> Module:
    if not isinstance(graph_json, (str, Mapping)):
        raise wrong_type("create", "graph_json", "JSON as text or a dictionary", graph_json)
    text = graph_json if isinstance(graph_json, str) else json.dumps(graph_json)
    devices = devices_of("create", device)
    made: Module = get_global_func(function)(text, lib, *devices)
    remember(made, None, function, (text, lib, *devices))
    return made


def _param_bytes(function: str, params: Any) -> bytes:
    if hasattr(params, "items"):
        return save_param_dict(params)
    try:
        return bytes(memoryview(params))
    except TypeError:
        expected = "the bytes of save_param_dict, or arrays by name"
        raise wrong_type(function, "params_bytes", expected, params) from None


def _info(found: Mapping[str, Any]) -> tuple[Shapes, Types]:
    return {name: tuple(shape) for name, shape in found["shape"].items()}, found["dtype"]
