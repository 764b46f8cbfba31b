"""The model in a library on data from files: what `mblob-pack run model.so data=x.npy` does."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Protocol

from mblob.cli.arrays import read_value, split_label, write_outputs
from mblob.cli.report import UsageError

if TYPE_CHECKING:
    from mblob.module import Module


class Model(Protocol):
    """What executors of all kinds have in common."""

    def inputs(self) -> list[str]:
        """What they take, as text: `data float32[1,8,8]`."""

    def set(self, name: str, value: Any) -> None:
        """Set an input."""

    def run(self, parallel: int | None) -> None:
        """Run once."""

    def outputs(self) -> list[tuple[str, Any]]:
        """Names and numpy arrays of what the last run gave."""


class GraphLike:
    """Graph and AOT executors."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor

    def inputs(self) -> list[str]:
        shapes, dtypes = self.executor.get_input_info()
        return [f"{name} {dtypes[name]}[{','.join(map(str, shape))}]" for name, shape in shapes.items()]

    def set(self, name: str, value: Any) -> None:
        self.executor.set_input(name, value)

    def run(self, parallel: int | None) -> None:
        if parallel is None:
            self.executor.run()
        else:
            self.executor.run(parallel=parallel)

    def outputs(self) -> list[tuple[str, Any]]:
        names = list(self.executor.get_output_info()[0])
        return [(name, self.executor.get_output(i).numpy().copy()) for i, name in enumerate(names)]


class Machine:
    """A Relay virtual machine; its model is the function "main"."""

    def __init__(self, module: Module) -> None:
        import mblob

        self.machine = mblob.vm.VirtualMachine(module, mblob.cpu(0))
        self.names = mblob.vm.Executable(module).get_function_params("main")
        self.values: dict[str, Any] = {}

    def inputs(self) -> list[str]:
        return self.names

    def set(self, name: str, value: Any) -> None:
        if name not in self.names:
            raise ValueError(f"main has no input {name!r}")
        self.values[name] = value

    def run(self, parallel: int | None) -> None:
        self.machine.invoke_stateful("main", **self.values)

    def outputs(self) -> list[tuple[str, Any]]:
        found = [self._array(value) for value in self.machine.get_outputs()]
        return [(f"out{i}", array) for i, array in enumerate(found)]

    @staticmethod
    def _array(value: Any) -> Any:
        if not hasattr(value, "numpy"):
            raise UsageError("the model gives tuples inside of tuples, which have no place in a .npz file")
        return value.numpy().copy()


def open_model(module: Module, file: str, name: str) -> Model:
    """The model in a library.

    Raises:
        UsageError: its root is none.
    """
    import mblob

    if module.type_key == "VMExecutable":
        return Machine(module)
    if module.type_key not in ("GraphExecutorFactory", "GraphRuntimeFactory", "AotExecutorFactory"):
        raise UsageError(
            f"{file}: its root is a module of type {module.type_key!r}, no model with inputs; name a function to call",
            hint="mblob-pack inspect FILE --functions lists the functions",
        )
    try:
        executor = module.get_function(name)(mblob.cpu(0))
    except AttributeError as error:
        raise UsageError(f"{file}: {error}", hint="--name NAME, as the model was called when it was built") from None
    if module.type_key == "AotExecutorFactory":
        return GraphLike(mblob.aot_executor.AotModule(executor))
    return GraphLike(mblob.graph_executor.GraphModule(executor))


def run_model(args: argparse.Namespace) -> int:
    """Set the inputs, run as often as asked, print what happened, write the outputs."""
    import mblob

    inputs = read_inputs(args.words)
    module = mblob.load_module(args.file)
    model = open_model(module, args.file, args.name)
    is_graph = module.type_key.startswith("Graph")
    if not is_graph and (args.profile or args.parallel is not None):
        raise UsageError("--profile and --parallel are for graph executors; this model does not tell its operators")
    set_inputs(model, inputs, args.file)
    seconds = measure(model, args.repeat, args.parallel)
    nodes = profile(module, args, inputs) if args.profile else []
    outputs = model.outputs()
    if args.output is not None:
        write_outputs(args.output, {f"out{i}": array for i, (_, array) in enumerate(outputs)})
    report = {
        "schema": "mblob/run/1",
        "file": args.file,
        "model": module.type_key,
        "runs": args.repeat,
        "seconds": seconds,
        "nodes": nodes,
        "outputs": [
            {"name": f"out{i}", "node": node, "dtype": str(array.dtype), "shape": list(array.shape)}
            for i, (node, array) in enumerate(outputs)
        ],
        "output_file": None if args.output is None else str(args.output),
    }
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print_report(report, outputs)
    return 0


def read_inputs(words: list[str]) -> dict[str, Any]:
    """The inputs that the command line gives, by name."""
    inputs: dict[str, Any] = {}
    for position, word in enumerate(words):
        label = split_label(word)
        if label is None:
            raise UsageError(f"argument {position}: a model takes inputs by name, NAME=x.npy; found {word!r}")
        if label[0] in inputs:
            raise UsageError(f"argument {position}: input {label[0]!r} is given twice")
        inputs[label[0]] = read_value(position, label[1])
    return inputs


def set_inputs(model: Model, inputs: dict[str, Any], file: str) -> None:
    """Set them; all that the model takes must be given.

    Raises:
        UsageError: one is missing, unknown, or of another dtype or shape.
    """
    wanted = model.inputs()
    missing = [text for text in wanted if text.split()[0] not in inputs]
    if missing:
        raise UsageError(f"{file}: the model takes {', '.join(wanted)}; not given: {', '.join(missing)}",
                         hint=" ".join(f"{text.split()[0]}=x.npy" for text in missing))  # fmt: skip
    for name, value in inputs.items():
        try:
            model.set(name, value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{file}: {error}; the model takes {', '.join(wanted)}") from error


def measure(model: Model, repeat: int, parallel: int | None) -> dict[str, float]:
    """Run a model `repeat` times; seconds of one run."""
    import statistics
    import time

    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        model.run(parallel)
        times.append(time.perf_counter() - start)
    return {"mean": statistics.fmean(times), "median": statistics.median(times), "min": min(times), "max": max(times)}


def profile(module: Module, args: argparse.Namespace, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """Time per operator of a graph, in order of the graph."""
    import mblob

    debug = mblob.graph_executor.GraphModuleDebug(module["debug_create"](args.name, mblob.cpu(0)))
    rows = debug.profile(args.repeat, **inputs)
    return [{"node": r.node, "name": r.name, "function": r.function, "seconds": r.seconds} for r in rows]


def print_report(report: dict[str, Any], outputs: list[tuple[str, Any]]) -> None:
    """What was run, how long it took, where the time went, and the outputs unless they went to a file."""
    runs, seconds = report["runs"], report["seconds"]
    if runs == 1:
        print(f"ran {report['model']} once: {milliseconds(seconds['mean'])}")
    else:
        words = ", ".join(f"{name} {milliseconds(value)}" for name, value in seconds.items())
        print(f"ran {report['model']} {runs} times: {words}")
    total = sum(row["seconds"] for row in report["nodes"]) or 1.0
    width = max((len(row["name"]) for row in report["nodes"]), default=0)
    for row in report["nodes"]:
        share = 100 * row["seconds"] / total
        time = milliseconds(row["seconds"])
        print(f"  {row['node']:>4}  {row['name']:<{width}}  {time:>12}  {share:5.1f} %  {row['function']}")
    for i, (node, array) in enumerate(outputs):
        shape = f"out{i} ({node}) = {array.dtype}{list(array.shape)}"
        values = f" in {report['output_file']}" if report["output_file"] else f" {str(array).replace(chr(10), ' ')}"
        print(shape + values)


def milliseconds(seconds: float) -> str:
    """A duration for people: `1.234 ms`."""
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-6 else f"{seconds * 1e9:.0f} ns"
