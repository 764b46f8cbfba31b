"""A code generator, and a model that it takes part in.

python fuse.py model.so            # elementwise operators go to the plug-in, which the library
carries
python fuse.py plain.so --plain    # every operator is a kernel in C
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import mblob

HERE = Path(__file__).resolve().parent
SIZE = 1000
# in a payload
OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "maximum": ">", "nn.relu": "r"}
MOST_VALUES = 64  # as plugin.c has it


# -- the code generator ----------------------------------------------------------------------------


def is_elementwise(operator: mblob.byoc.Operator) -> bool:
    """The predicate: operators of which each element of the result needs the same element of the
    inputs alone."""
    tensors = (*operator.inputs, *operator.outputs)
    one = operator.outputs[0]
    return (
        operator.op in OPERATORS
        and len(operator.outputs) == 1
        and all(t.dtype == "float32" and t.shape == one.shape for t in tensors)
        and int(np.prod(one.shape)) > 0
    )


@mblob.register_codegen("fuse")
def fuse(region: mblob.byoc.Region) -> mblob.Module:
    """The module of a region: its operators as text. The constants come with `__init_<symbol>`, not
    with the text."""
    number = {id(t): i for i, t in enumerate((*region.inputs, *region.constants))}
    if len(number) + len(region.operators) > MOST_VALUES:
        raise ValueError(
            f"{region.symbol}: more than {MOST_VALUES} values; let the predicate take fewer operators"
        )
    size = int(np.prod(region.outputs[0].shape))
    counts = f"{len(region.inputs)} {len(region.constants)} {len(region.outputs)} {len(region.operators)}"
    lines = ["fuse 1", region.symbol, f"{size} {counts}"]
    for operator in region.operators:
        first, last = operator.inputs[0], operator.inputs[-1]  # the same, if there is one
        lines.append(f"{OPERATORS[operator.op]} {number[id(first)]} {number[id(last)]}")
        number[id(operator.outputs[0])] = len(number)
    lines.append(" ".join(str(number[id(t)]) for t in region.outputs))
    return mblob.blob_module("fuse", "\n".join(lines).encode(), data=False)


# -- a model ---------------------------------------------------------------------------------------


def graph() -> mblob.GraphBuilder:
    """sum(relu(x * gain + offset)^2 + x), a node for each operator."""
    steps = np.arange(SIZE, dtype="float32")
    g = mblob.GraphBuilder()

    def call(op: str, *inputs: mblob.byoc.Value, size: int = SIZE) -> mblob.byoc.Value:
        # "op" is what the function computes: executors do not read it
        return g.call(op.removeprefix("nn."), inputs, (size,), attrs={"op": op})

    x = g.input("x", (SIZE,))
    gain, offset = g.param("gain", steps / SIZE), g.param("offset", 1 - steps / 500)
    positive = call("nn.relu", call("add", call("multiply", x, gain), offset))
    squared = call("multiply", positive, positive)
    g.output(call("sum", call("add", squared, x), size=1))
    return g


def model(plain: bool = False) -> mblob.Module:
    """The model; with `plain` nobody takes a part of it."""
    binary, unary = (
        "const float a[1000], const float b[1000], float y[1000]",
        "const float a[1000], float y[1000]",
    )
    functions = [
        f"void multiply({binary})",
        f"void add({binary})",
        f"void relu({unary})",
        "void sum(const float a[1000], float y[1])",
    ]
    kernels = mblob.csource_module(HERE / "kernels.c", functions=functions, packed="name")
    return mblob.partition_graph(graph(), None, kernels, {} if plain else {"fuse": is_elementwise})


def main() -> None:
    parser = argparse.ArgumentParser(description="pack the model")
    parser.add_argument("output", help="the library to write")
    parser.add_argument("--plain", action="store_true", help="every operator as a kernel")
    args = parser.parse_args()
    model(args.plain).export_library(args.output, carry=[] if args.plain else [HERE / "plugin.c"])


if __name__ == "__main__":
    main()
