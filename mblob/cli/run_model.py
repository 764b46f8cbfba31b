"""The model in a library on data from files: what `mblob-pack run model.so data=x.npy` does."""

from __future__ import annotations

import argparse
import json
import time
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mblob.benchmark import measure
from mblob.cli.arrays import (
    copied,
    devices_of,
    read_value,
    split_label,
    values_text,
    write_outputs,
)
from mblob.cli.layout import load
from mblob.cli.progress import remarks
from mblob.cli.report import PROGRAM, UsageError, one_line
from mblob.cli.run_profile import (
    Row,
    primitives_timed,
    print_profile,
    times_text,
    with_primitives,
    write_profile,
)
from mblob.errors import MblobError
from mblob.format.type_keys import AOT_FACTORY, GRAPHS, RELAX_EXECUTABLES, RELAY_EXECUTABLE
from mblob.inspect.library import open_library

if TYPE_CHECKING:
    from mblob.devices import Device
    from mblob.module import Module

DEFAULT = "default"  # the name that TVM gives to models
MISSING = 4  # inputs that a hint names


class Model(Protocol):
    """The common interface of executors of all kinds.

    Attributes:
        is_graph: it tells which operators wait for others.
        parts: the sentences about the rows of a profile, with "{}" for what shows one; () if each is a part of a run.
    """

    is_graph: bool = False
    parts: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """The inputs that they must be given."""

    def inputs(self) -> dict[str, str]:
        """The same, each as text, for errors: `data float32[1,8,8]`."""

    def has_input(self, name: str) -> bool:
        """True if an input of that name can be set; parameters can, too."""

    def set(self, name: str, value: Any) -> None:
        """Set an input."""

    def run(self, parallel: int | None) -> None:
        """Run once."""

    def outputs(self) -> list[tuple[str, Any]]:
        """Names and numpy arrays of what the last run gave."""

    def profile(self, repeat: int, parallel: int | None) -> list[Row]:
        """Profile `repeat` runs; the rows of the profile."""

    def is_tuple(self, name: str) -> bool:
        """True of an input that is a tuple, as of all parameters of a program."""
        return False

    def how_to_give(self, missing: list[str]) -> str:
        """The hint about inputs that were not given."""
        files = [f"{name}={name}.npy" for name in missing][:MISSING]
        more = " ..." if len(missing) > MISSING else ""
        return f"name the file of each: {' '.join(files)}{more}"

    def whole_time(self, rows: list[Row]) -> float:
        """Seconds that shares are of."""
        return sum(row.seconds for row in rows) or 1.0


class Executor(Model):
    """The common parts of executors of graphs and those of models compiled ahead of time."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor

    def names(self) -> list[str]:
        return list(self.executor.get_input_info()[0])

    def inputs(self) -> dict[str, str]:
        shapes, dtypes = self.executor.get_input_info()
        return {
            name: f"{name} {dtypes[name]}[{','.join(map(str, shape))}]"
            for name, shape in shapes.items()
        }

    def set(self, name: str, value: Any) -> None:
        import mblob

        if (
            self.executor.get_input_info()[1].get(name) == "bfloat16"
            and getattr(value, "dtype", None) == "uint16"
        ):
            value = mblob.array(value).view("bfloat16")  # numpy files have no such type
        self.executor.set_input(name, value)

    def outputs(self) -> list[tuple[str, Any]]:
        names = list(self.executor.get_output_info()[0])
        return [(name, copied(self.executor.get_output(i))) for i, name in enumerate(names)]


class Graph(Executor):
    """A graph executor; one that was made to be profiled is a debug executor."""

    is_graph = True

    def has_input(self, name: str) -> bool:
        return bool(self.executor.get_input_index(name) >= 0)

    def run(self, parallel: int | None) -> None:
        self.executor.run(parallel=parallel)
        self.executor.synchronize()  # devices may have only begun

    def profile(self, repeat: int, parallel: int | None) -> list[Row]:
        return [
            Row(r.node, r.name, r.function, repeat, r.seconds, r.start, r.end, r.thread, r.device)
            for r in self.executor.profile(repeat, parallel=parallel)
        ]


class AotModel(Executor):
    """A model compiled ahead of time: one function."""

    parts = (
        "the first {} is all of the model: kernels that its code calls itself cannot be told apart",
        "further {}s, if any, are functions that it called through the runtime, parts of the first",
    )

    def has_input(self, name: str) -> bool:
        try:
            self.executor.get_input_index(name)
        except ValueError:
            return False
        return True

    def run(self, parallel: int | None) -> None:
        self.executor.run()

    def profile(self, repeat: int, parallel: int | None) -> list[Row]:
        rows = self.executor.profile(repeat)
        return [Row(i, r.function, r.function, r.count, r.seconds) for i, r in enumerate(rows)]

    def whole_time(self, rows: list[Row]) -> float:
        return rows[0].seconds or 1.0 if rows else 1.0


class Program(Model):
    """A function of a program of a virtual machine."""

    machine: Any
    function: str
    parameters: list[str]

    def names(self) -> list[str]:
        return self.parameters

    def inputs(self) -> dict[str, str]:
        return {name: name for name in self.parameters}  # Relay's do not tell types and shapes

    def has_input(self, name: str) -> bool:
        return name in self.parameters

    def run(self, parallel: int | None) -> None:
        self.machine.invoke_stateful(self.function)

    def _results(self) -> list[Any]:
        """The outputs of the last run, the fields of a tuple."""
        raise NotImplementedError

    def outputs(self) -> list[tuple[str, Any]]:
        found = [self._array(value) for value in self._results()]
        return [(f"out{i}", array) for i, array in enumerate(found)]

    def profile(self, repeat: int, parallel: int | None) -> list[Row]:
        rows = self.machine.profile(func_name=self.function, repeat=repeat)
        return [
            Row(
                r.instruction,
                f"{r.function}[{r.instruction}] {r.opcode}",
                r.kernel,
                r.count,
                r.seconds,
            )
            for r in rows
        ]

    @staticmethod
    def _array(value: Any) -> Any:
        if not hasattr(value, "numpy"):
            raise UsageError(
                "the model gives tuples inside of tuples, which have no place in a .npz file"
            )
        return copied(value)


class RelayProgram(Program):
    """Of Relay's."""

    def __init__(self, module: Module, function: str, devices: list[Device]) -> None:
        import mblob

        self.function = function
        self.parameters = mblob.vm.Executable(module).get_function_params(function)
        self.machine = mblob.vm.VirtualMachine(module, devices)

    def set(self, name: str, value: Any) -> None:
        self.machine.set_one_input(self.function, name, value)

    def _results(self) -> list[Any]:
        return list(self.machine.get_outputs())


class RelaxProgram(Program):
    """Of Relax's, whose code tells types and shapes."""

    def __init__(self, module: Module, function: str, devices: list[Device], file: str) -> None:
        import mblob

        self.function, self.file, self.more = function, file, " --replace" if module.tensors else ""
        self.machine = mblob.relax.VirtualMachine(module, devices)
        self.parameters = self.machine.get_function_params(function)
        self.packed = int(self.machine.module["get_param_inputs"](function))

    def names(self) -> list[str]:
        return self.parameters[: len(self.parameters) - self.packed]

    @cached_property
    def types(self) -> dict[str | None, str]:
        """The types of the parameters, as far as the program tells them."""
        with open_library(self.file) as library:
            inputs = next((m.inputs for m in library.models if m.name == self.function), None)
        return {value.name: value.type_text for value in inputs or ()}

    def is_tuple(self, name: str) -> bool:
        return self.types.get(name, "").startswith("Tuple")

    def how_to_give(self, missing: list[str]) -> str:
        files, how = super().how_to_give(missing), packing(self.file, self.more)
        if self.packed and all(map(self.types.get, missing)):  # calls check them: no parameters
            return files
        front = "" if any(map(self.is_tuple, missing)) else f"{files}; parameters of the model: "
        return front + how

    def inputs(self) -> dict[str, str]:
        return {name: f"{name} {self.types.get(name, '')}".rstrip() for name in self.names()}

    def set(self, name: str, value: Any) -> None:
        self.machine.module["set_one_input"](self.function, name, value)

    def _results(self) -> list[Any]:
        found = self.machine.get_outputs(self.function)
        return list(found) if type(found) is tuple else [found]

    @staticmethod
    def _array(value: Any) -> Any:
        import numpy as np

        if isinstance(value, (bool, int, float)):
            return np.asarray(value)
        if isinstance(value, tuple) and all(isinstance(extent, int) for extent in value):
            return np.asarray(value, "int64")  # a Shape
        return Program._array(value)


def open_model(
    module: Module, file: str, name: str, profiled: bool, devices: list[Device]
) -> Model:
    """The model in a library; `profiled`: one that `profile` can be asked of.

    Raises:
        UsageError: its root is none, or has none of that name.
    """
    import mblob

    if module.type_key in (RELAY_EXECUTABLE, *RELAX_EXECUTABLES):
        function = _function_of(module, file, name)
        if module.type_key == RELAY_EXECUTABLE:
            return RelayProgram(module, function, devices)
        return RelaxProgram(module, function, devices, file)
    if not is_model(module):
        call = f"{PROGRAM} run {file} {name} ARG..., without --name, calls the function"
        raise UsageError(
            f"{file}: its root is a module of type {module.type_key!r}, no model with inputs; name a function to call",
            hint=call
            if name in module
            else f"{PROGRAM} inspect FILE --functions lists the functions",
        )
    try:
        create = module.get_function(name)
    except AttributeError as error:
        hint = "--name NAME, as the model was called when it was built"
        raise UsageError(f"{file}: {error}", hint=hint) from None
    if module.type_key == AOT_FACTORY:
        return AotModel(mblob.aot_executor.AotModule(create(*devices)))
    if profiled:
        return Graph(mblob.graph_executor.GraphModuleDebug(module["debug_create"](name, *devices)))
    return Graph(mblob.graph_executor.GraphModule(create(*devices)))


def _function_of(module: Module, file: str, name: str) -> str:
    """The function of a program that --name means: without it `main`, or the only one that there is.

    Raises:
        UsageError: there is no such function; the hint names one.
    """
    known = str(module["get_function_names"]()).splitlines()
    wanted = "main" if name == DEFAULT else name
    if name == DEFAULT and wanted not in known and len(known) == 1:
        return known[0]
    if wanted in known:
        return wanted
    near = get_close_matches(wanted, known, n=1) or [n for n in known if not n.startswith("_")]
    raise UsageError(
        f"{file}: no function {wanted!r}; there are: {', '.join(known) or 'none'}",
        hint=f"--name {near[0]}" if near else "",
    )


def is_model(module: Module) -> bool:
    """True if the root of a library is a model, which takes inputs by name."""
    return module.type_key in (*GRAPHS, AOT_FACTORY, RELAY_EXECUTABLE, *RELAX_EXECUTABLES)


def run_model(args: argparse.Namespace) -> int:
    """Set the inputs, run as often as asked, print what happened, write the outputs."""
    import mblob

    inputs = read_inputs(args.words)
    import_loader()
    begin = time.perf_counter()
    with remarks(quiet=False):
        module = load(args)
        model = open_model(
            module, args.file, args.name, args.profile, devices_of(args.device) or [mblob.cpu(0)]
        )
    if args.parallel is not None and not model.is_graph:
        raise UsageError(
            "--parallel is for graph executors; this model does not tell which operators wait for others"
        )
    loaded = time.perf_counter()
    set_inputs(model, inputs, args.file)
    ready = time.perf_counter()
    seconds = measure_runs(model, args)
    rows: list[Row] = []
    if args.profile:
        with primitives_timed(module) as primitives:
            rows = model.profile(args.repeat, args.parallel)
        rows = with_primitives(rows, primitives, args.repeat)
    finished = time.perf_counter()
    outputs = model.outputs()
    around = {
        "load": loaded - begin,
        "inputs": ready - loaded,
        "outputs": time.perf_counter() - finished,
    }
    if args.output is not None:
        write_outputs(args.output, {f"out{i}": array for i, (_, array) in enumerate(outputs)})
    report = {
        "schema": "mblob/run/1",
        "file": args.file,
        "model": module.type_key,
        "runs": args.repeat,
        "seconds": seconds,
        "around": around,
        "nodes": [row.to_json() for row in rows],
        "outputs": [
            {"name": f"out{i}", "node": node, "dtype": str(array.dtype), "shape": list(array.shape)}
            for i, (node, array) in enumerate(outputs)
        ],
        "output_file": None if args.output is None else str(args.output),
    }
    if args.html is not None:
        write_profile(args, report, model)
    if args.json:
        print(json.dumps(report, indent=2))
        return 0
    print_times(report)
    if args.profile:
        print_profile(report, model)
    print_outputs(report, outputs)
    return 0


def import_loader() -> None:
    """Import what opening a model needs: Python's time for that is not the library's."""
    for name in ("load", "call_hooks", "graph_executor", "aot_executor", "vm"):
        import_module(f"mblob.loader.{name}")


def read_inputs(words: list[str]) -> dict[str, Any]:
    """The inputs that the command line gives, by name."""
    inputs: dict[str, Any] = {}
    for position, word in enumerate(words):
        label = split_label(word)
        if label is None:
            raise UsageError(
                f"argument {position}: a model takes inputs by name, NAME=x.npy; found {word!r}"
            )
        if label[0] in inputs:
            raise UsageError(f"argument {position}: input {label[0]!r} is given twice")
        inputs[label[0]] = read_value(position, *label)
    return inputs


def set_inputs(model: Model, inputs: dict[str, Any], file: str) -> None:
    """Set them; all that the model takes must be given.

    Raises:
        UsageError: one is unknown, missing, or of another dtype or shape.
    """
    names = model.names()

    def takes() -> str:
        return f"the model takes {', '.join(model.inputs().values()) or 'no inputs'}"

    for name in inputs:
        if not model.has_input(name):
            near = get_close_matches(name, names, n=1)
            raise UsageError(
                f"{file}: no input {name!r}; {takes()}",
                hint=f"did you mean {near[0]!r}?" if near else "",
            )
    missing = [name for name in names if name not in inputs]
    if missing:
        texts = model.inputs()
        left = ", ".join(texts[name] for name in missing)
        raise UsageError(f"{file}: {takes()}; not given: {left}", hint=model.how_to_give(missing))
    for name, value in inputs.items():
        if model.is_tuple(name):
            found = f"{file}: {name!r} is a tuple, no array"
            raise UsageError(f"{found}; {takes()}", hint=packing(file))
        try:
            model.set(name, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"{file}: {error}; {takes()}") from error


def packing(file: str, more: str = "") -> str:
    """The command that packs parameters of a Relax program: the file beside it of its name, if any."""
    beside = (Path(file).with_suffix(suffix) for suffix in (".safetensors", ".npz", ".params"))
    found = next((str(path) for path in beside if path.is_file()), "")
    command = f"{PROGRAM} add {file} --params {found or 'PARAMS.npz'}{more} -o OUT.so packs them"
    return command if found else f"{command}; it also takes .safetensors"


def measure_runs(model: Model, args: argparse.Namespace) -> dict[str, float]:
    """Run a model as often as asked, and not once more; seconds of one run.

    Raises:
        UsageError: what inputs are only tells when the model runs: one does not fit.
    """
    try:
        times = measure("run", lambda: model.run(args.parallel), args.repeat, 1, warm_up=False)
    except ValueError as error:
        if isinstance(error, MblobError):
            raise
        raise UsageError(f"{args.file}: {error}") from error
    return {"mean": times.mean, "median": times.median, "min": times.min, "max": times.max}


def print_times(report: dict[str, Any]) -> None:
    """Print the name of the model that was run, and its times."""
    runs = report["runs"]
    times = "once" if runs == 1 else f"{runs} times"
    print(f"ran {report['model']} {times}: {times_text(report)}")


def print_outputs(report: dict[str, Any], outputs: list[tuple[str, Any]]) -> None:
    """The outputs, their values unless they went to a file."""
    for i, (node, array) in enumerate(outputs):
        shape = f"out{i} ({one_line(node)}) = {array.dtype}{list(array.shape)}"
        values = f" in {report['output_file']}" if report["output_file"] else values_text(array)
        print(shape + values)
