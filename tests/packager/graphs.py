"""Graphs over a few exact operators on int32[4], in C for the host and in Python for regions."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import mblob
from mblob.packager.byoc import Operator, Region

SHAPE = (4,)
KERNELS_C = """#include <stdint.h>
void add(const int32_t a[4], const int32_t b[4], int32_t c[4]) {
  for (int i = 0; i < 4; i++) c[i] = (int32_t)((uint32_t)a[i] + (uint32_t)b[i]);
}
void mix(const int32_t a[4], const int32_t b[4], int32_t c[4]) {
  for (int i = 0; i < 4; i++) c[i] = (int32_t)((uint32_t)a[i] * 3u) ^ b[3 - i];
}
void turn(const int32_t a[4], int32_t c[4]) {
  for (int i = 0; i < 4; i++) c[i] = a[(i + 1) % 4];
}
void split(const int32_t a[4], int32_t low[4], int32_t high[4]) {
  for (int i = 0; i < 4; i++) { low[i] = a[i] & 0xffff; high[i] = a[i] >> 16; }
}
void bump(const int32_t a[4], int32_t c[4]) {
  for (int i = 0; i < 4; i++) c[i] = (int32_t)((uint32_t)a[i] + 1u);
}
"""
PROTOTYPES = [
    "void add(const int32_t a[4], const int32_t b[4], int32_t c[4])",
    "void mix(const int32_t a[4], const int32_t b[4], int32_t c[4])",
    "void turn(const int32_t a[4], int32_t c[4])",
    "void split(const int32_t a[4], int32_t low[4], int32_t high[4])",
    "void bump(const int32_t a[4], int32_t c[4])",
]
ARITY = {"add": (2, 1), "mix": (2, 1), "turn": (1, 1), "split": (1, 2), "bump": (1, 1)}
PYTHON: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "mix": lambda a, b: (a * np.int32(3)) ^ b[::-1],
    "turn": lambda a: np.roll(a, -1),
    "split": lambda a: (a & 0xFFFF, a >> 16),
    "bump": lambda a: a + np.int32(1),
    "__nop": lambda a: a.copy(),
}


def host() -> mblob.Module:
    return mblob.csource_module(KERNELS_C, functions=PROTOTYPES)


class Builder:
    """Writes a graph's JSON, one node at a time; values are [node, output]."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.rows = [0]
        self.storage: list[int] = []

    def input(self, name: str) -> list[int]:
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        return self._outputs(1)[0]

    def call(
        self,
        function: str,
        *inputs: list[int],
        name: str = "",
        share: list[int] | None = None,
        **attrs: str,
    ) -> Any:
        """Add a call; its outputs.

        Args:
            share: a value whose memory the first output lies in.
        """
        outputs = ARITY.get(function, (0, 1))[1]
        self.nodes.append({
            "op": "tvm_op", "name": name or f"{function}{len(self.nodes)}",
            "inputs": [[n, o, 0] for n, o in inputs],
            "attrs": {"func_name": function, "num_inputs": str(len(inputs)), "num_outputs": str(outputs),
                      "flatten_data": "0", **attrs},
        })  # fmt: skip
        made = self._outputs(outputs)
        if share is not None:
            self.storage[self.rows[made[0][0]]] = self.storage[self.rows[share[0]] + share[1]]
        return made if outputs > 1 else made[0]

    def _outputs(self, count: int) -> list[list[int]]:
        self.rows.append(self.rows[-1] + count)
        self.storage += range(len(self.storage), len(self.storage) + count)
        return [[len(self.nodes) - 1, k] for k in range(count)]

    def json(self, *heads: Sequence[int], **more: Any) -> dict[str, Any]:
        count = self.rows[-1]
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, n in enumerate(self.nodes) if n["op"] == "null"],
            "heads": [[n, o, 0] for n, o in heads],
            "node_row_ptr": self.rows,
            "attrs": {
                "dltype": ["list_str", ["int32"] * count],
                "shape": ["list_shape", [list(SHAPE)] * count],
                "storage_id": ["list_int", self.storage],
            },
            **more,
        }


def random_graph(seed: int, size: int) -> tuple[dict[str, Any], list[str]]:
    """A graph of `size` calls with shared inputs, results used many times or never, and several
    heads; its inputs."""
    rng = random.Random(seed)
    b = Builder()
    inputs = [f"in{i}" for i in range(rng.randint(1, 3))]
    values = [b.input(name) for name in inputs]
    for _ in range(size):
        function = rng.choice(("add", "mix", "turn", "split", "__nop", "add", "mix"))
        if function == "__nop":
            source = rng.choice(values)
            values.append(b.call(function, source, share=source))
            continue
        recent = values[-6:] if rng.random() < 0.7 else values
        made = b.call(function, *(rng.choice(recent) for _ in range(ARITY[function][0])))
        values += made if function == "split" else [made]
    heads = [values[-1], *(rng.choice(values) for _ in range(rng.randint(0, 3)))]
    return b.json(*heads), inputs


# -- a code generator and its runtime --------------------------------------------------------------


def interpret_codegen(region: Region) -> mblob.Module:
    """The region as JSON that the interpreter below runs."""
    number = {id(t): i for i, t in enumerate((*region.inputs, *region.constants))}
    steps = []
    for operator in region.operators:
        inputs = [number[id(t)] for t in operator.inputs]
        for t in operator.outputs:
            number[id(t)] = len(number)
        steps.append([operator.op, inputs, [number[id(t)] for t in operator.outputs]])
    made = {
        "symbol": region.symbol,
        "inputs": len(region.inputs),
        "constants": len(region.constants),
        "steps": steps,
        "outputs": [number[id(t)] for t in region.outputs],
    }
    return mblob.blob_module(region.key, json.dumps(made).encode(), data=False)


def interpreter(log: list[str] | None = None) -> Callable[[memoryview, Any], mblob.Module]:
    """A loader for what `interpret_codegen` makes; `log` gets the symbols as they are called."""

    def load(payload: memoryview, ctx: Any) -> mblob.Module:
        graph = json.loads(bytes(payload))
        constants: list[Any] = []

        def init(arrays: Sequence[Any]) -> int:
            constants[:] = [a.numpy().copy() for a in arrays]
            return 0

        def run(*arrays: Any) -> None:
            if log is not None:
                log.append(graph["symbol"])
            assert len(constants) == graph["constants"]
            assert len(arrays) == graph["inputs"] + len(graph["outputs"])
            values = dict(
                enumerate([*(np.array(a.numpy()) for a in arrays[: graph["inputs"]]), *constants])
            )
            with np.errstate(over="ignore"):
                for op, inputs, outputs in graph["steps"]:
                    made = PYTHON[op](*(values[i] for i in inputs))
                    values.update(zip(outputs, made if isinstance(made, tuple) else (made,)))
            for array, value in zip(arrays[graph["inputs"] :], graph["outputs"]):
                array.numpy()[...] = values[value]

        functions = {graph["symbol"]: run, f"__init_{graph['symbol']}": init}
        return mblob.Module(ctx.type_key, functions=functions, payload=payload)

    return load


def run_model(
    module: mblob.Module,
    path: Any,
    inputs: Mapping[str, Any],
    log: list[str] | None = None,
    runs: int = 1,
) -> list[Any]:
    """Pack a model, open it, run it: its results."""
    module.export_library(path)
    loader = interpreter(log)
    opened = mblob.load_module(path, loaders={"one": loader, "two": loader})
    model = mblob.graph_executor.GraphModule(opened["default"](mblob.cpu(0)))
    for name, value in inputs.items():
        model.set_input(name, value)
    for _ in range(runs):
        model.run()
    return [model.get_output(i).numpy().copy() for i in range(model.get_num_outputs())]


def takes(*functions: str) -> Callable[[Operator], bool]:
    return lambda operator: operator.function in functions
