"""`benchmark` of executors: one list of parameters for all of them, TVM's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from mblob.arguments import wrong_type
from mblob.benchmark import BenchmarkResult, measure
from mblob.devices import Device
from mblob.errors import ArgumentTypeError, ArgumentValueError, NotFoundError, listed
from mblob.format.type_keys import EXECUTABLES, EXECUTORS, GRAPHS, RELAY_EXECUTABLE
from mblob.loader.tensor import empty
from mblob.module import Module, checked_module
from mblob.typed import Function


@dataclass(frozen=True)
class BenchmarkRun:
    """The run that `benchmark` shall time: its parameters of these names."""

    func_name: str | None
    args: Sequence[Any]
    inputs: Mapping[str, Any]
    end_to_end: bool
    parallel: int | None


def check_nothing_given(what: str, method: str) -> None:
    """Raise if an executor got by `method` what a pickle of it does not have; "" is no method.

    Raises:
        TypeError: says how the parameters get to other processes.
    """
    if method:
        raise ArgumentTypeError(
            f"a {what} with the parameters of {method} cannot be pickled; pack them into the library, or pickle the"
            f" library and call {method} where it is unpickled"
        )


class Benchmarked:
    """An executor that can be timed; it says what a run is."""

    def _timed_run(self, asked: BenchmarkRun) -> Callable[[], object]:
        """Take the inputs, and give what one run calls; with `end_to_end` it copies them in and all
        outputs out."""
        raise NotImplementedError

    def _wait(self) -> None:
        """Wait for what runs only began."""

    def benchmark(
        self,
        /,
        device: Device | None = None,
        *args: Any,
        func_name: str | None = None,
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        parallel: int | None = None,
        **inputs: Any,
    ) -> BenchmarkResult:
        """Time runs.

        Args:
            device: accepted for compatibility with TVM; the model runs on its own device.
            args: inputs of a function of a virtual machine; for other executors, `func_name`.
            func_name: "run", or a function of a virtual machine: "main" by default, or the only one of a
                Relax program.
            repeat, number: number of measurements, and of runs per measurement.
            min_repeat_ms: repeat the runs of a measurement until it takes this long.
            limit_zero_time_iterations: accepted for compatibility with TVM and ignored: no run has
                a measured time of zero here.
            end_to_end: include copying the inputs in and all outputs out.
            cooldown_interval_ms: pause after every `repeats_to_cooldown` measurements.
            parallel: as for `GraphModule.run`; for graph executors only.
            inputs: inputs by name, which stay set. Without any, the present inputs are used. Set an
                input that has the name of a parameter with `set_input` before.

        Raises:
            ValueError: fewer than one measurement or run, no such function or input, or one that
                does not fit.
        """
        del device, limit_zero_time_iterations
        once = self._timed_run(BenchmarkRun(func_name, args, inputs, end_to_end, parallel))
        return measure(
            "benchmark",
            once,
            repeat,
            number,
            min_repeat_ms or 0,
            finish=self._wait,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )


def unnamed_inputs(known: Iterable[str]) -> ArgumentTypeError:
    """The error for an input without its name.

    Args:
        known: names of the inputs.
    """
    names = list(known)
    example = names[0] if names and names[0].isidentifier() else "NAME"
    return ArgumentTypeError(
        f"run: inputs are given by name: run({example}=x); the model has: {listed(names)}"
    )


def given_inputs(
    method: str, key: str | int | None, value: Any, params: Mapping[str, Any]
) -> list[tuple[str | int, Any]]:
    """The inputs that a method was given: one by its key, the others by name.

    Raises:
        TypeError: an array without its key.
    """
    if key is not None:
        try:
            isinstance(key, str) or index(key)
        except TypeError:
            expected = (
                f"a name or a position (an input of this name is set with {method}('key', array))"
            )
            raise wrong_type(method, "key", expected, key) from None
        return [(key, value), *params.items()]
    if value is not None:
        raise ArgumentTypeError(
            f"{method}: the array has no key: expected {method}(NAME_OR_POSITION, array); None is for inputs by name"
        )
    return [*params.items()]


def functions_of(who: str, module: Module, *names: str) -> list[Function]:
    """The functions of an executor.

    Raises:
        TypeError: the module is none.
    """
    try:
        return [checked_module(who, "module", module)[name] for name in names]
    except NotFoundError:
        expected = "the executor that a model's function gives, as lib['default'](mblob.cpu(0))"
        raise ArgumentTypeError(
            f"{who}: module: expected {expected}, found a module {module.type_key!r}{how_to_run(module)}"
        ) from None


def how_to_run(found: Module) -> str:
    """The end of an error about a module that a class does not run: what to write for the model in it."""
    model = next((m for m in found.walk() if m.type_key in EXECUTORS), None)
    if model is None:
        return "; it has no model: call its functions, as lib.NAME(...)"
    lib = "lib"
    if model in found.imported_modules:
        lib += f".imported_modules[{found.imported_modules.index(model)}]"
    if model.type_key in EXECUTABLES:
        room = "vm" if model.type_key == RELAY_EXECUTABLE else "relax"
        return f"; run it with mblob.{room}.VirtualMachine({lib}, mblob.cpu(0))"
    name = next(iter(model._node.functions()), "default")
    of_graph = (
        "graph_executor.GraphModule" if model.type_key in GRAPHS else "aot_executor.AotModule"
    )
    return f"; run it with mblob.{of_graph}(lib[{name!r}](mblob.cpu(0)))"


class TimedModel(Benchmarked):
    """One with inputs and outputs of its own and one function, `run`.

    Attributes:
        module: the executor's own module; its functions have TVM's names.
    """

    module: Module

    def get_input_info(self) -> Any:
        raise NotImplementedError

    def get_output_info(self) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: str) -> Function:
        """A function of the module, by name."""
        return self.module[key]

    def __contains__(self, key: object) -> bool:
        return key in self.module

    def __iter__(self) -> Iterator[str]:
        """Names of the module's functions."""
        return iter(self.module)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.module)

    def __repr__(self) -> str:
        try:
            inputs, outputs = _described(self.get_input_info()), _described(self.get_output_info())
        except Exception as error:  # a repr says what it can
            return f"<mblob.{type(self).__name__}: {type(error).__name__}>"
        return f"<mblob.{type(self).__name__}: inputs {inputs}; outputs {outputs}>"

    def _set_one(self, key: str | int, value: Any) -> None:
        """Copy an array into the input `key`."""
        raise NotImplementedError

    def _set_named(self, inputs: Mapping[str, Any]) -> None:
        for name, value in inputs.items():
            self._set_one(name, value)

    def get_num_outputs(self) -> int:
        raise NotImplementedError

    def get_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _run_once(self, parallel: int | None) -> Callable[[], object]:
        """A function that runs the model, with the inputs that `set_input` set."""
        raise NotImplementedError

    def _timed_run(self, asked: BenchmarkRun) -> Callable[[], object]:
        given = [*asked.args, *([asked.func_name] if asked.func_name is not None else [])]
        if given not in ([], ["run"]):
            raise ArgumentValueError(
                f"benchmark: expected func_name 'run', found {', '.join(map(repr, given))}"
            )
        run = self._run_once(asked.parallel)
        self._set_named(asked.inputs)
        if not asked.end_to_end:
            return run
        outputs = [self.get_output(i) for i in range(self.get_num_outputs())]
        copies = [empty(t.shape, t.dtype) for t in outputs]
        del outputs  # views would keep what the model might let go

        def once() -> None:
            self._set_named(asked.inputs)
            run()
            for i, tensor in enumerate(copies):
                self.get_output(i, tensor)

        return once


def _described(info: tuple[Mapping[str, Sequence[int]], Mapping[str, str]]) -> str:
    """Names, types and shapes: `data float32[1, 3]`."""
    shapes, types = info
    return listed((f"{name} {types[name]}{list(shape)}" for name, shape in shapes.items()), 6)
