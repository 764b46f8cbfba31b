"""A backend of your own for models of apache-tvm: python backend.py model.so

TVM finds the regions by two patterns of Relax, `fifty` writes each as a module, and backend.c, which the library
carries, runs them. TVM compiles the rest.
"""

import struct
import sys
from math import prod
from pathlib import Path

import tvm  # type: ignore[import-not-found,import-untyped,unused-ignore]
from tvm import relax
from tvm.relax.dpl import is_op, wildcard  # type: ignore[import-not-found,import-untyped,unused-ignore]

import mblob

MOST = 32  # values of a region, as backend.c has it
OPERATORS = {"add": "+", "multiply": "*", "nn.relu": "r"}


def fits(context: relax.transform.PatternCheckContext) -> bool:
    """The check of the patterns: backend.c takes float32 of one shape, and no constants."""
    made = context.matched_expr.ty
    operands = context.annotated_expr.values()
    return made.dtype == "float32" and all(
        isinstance(o, (relax.Var, relax.Call)) and str(o.ty) == str(made) for o in operands
    )


A, B = wildcard(), wildcard()
PATTERNS = [
    ("fifty.add_relu", is_op("relax.nn.relu")(is_op("relax.add")(A, B)), {"a": A, "b": B}, fits),
    ("fifty.multiply", is_op("relax.multiply")(A, B), {"a": A, "b": B}, fits),
]


@mblob.register_codegen("fifty")
def fifty(region: mblob.byoc.Region) -> mblob.Module:
    """The module of a region: `struct region` of backend.c."""
    number = {id(t): i for i, t in enumerate(region.inputs)}
    if len(number) + len(region.operators) > MOST or len(region.outputs) > MOST:
        raise ValueError(f"{region.symbol}: more than {MOST} values")
    steps = []
    for operator in region.operators:
        a, b = (number[id(t)] for t in (operator.inputs[0], operator.inputs[-1]))
        steps.append((ord(OPERATORS[operator.op]), a, b))
        number[id(operator.outputs[0])] = len(number)
    results = [number[id(t)] for t in region.outputs]
    elements = prod(region.outputs[0].shape)
    counts = (elements, len(region.inputs), len(steps), len(results))
    payload = struct.pack("64s4I", region.symbol.encode(), *counts)
    payload += struct.pack(f"{MOST}I", *results, *[0] * (MOST - len(results)))
    for step in steps + [(0, 0, 0)] * (MOST - len(steps)):
        payload += struct.pack("3I", *step)
    return mblob.blob_module("fifty", payload, data=False)


def model() -> tvm.IRModule:
    """softmax(relu(x + y) * x)"""
    builder, kind = relax.BlockBuilder(), relax.TensorType((4, 8), "float32")
    x, y = (relax.Var(name, kind) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            positive = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(x, y))))
            scaled = builder.emit(relax.op.multiply(positive, x))
            result = builder.emit_output(relax.op.nn.softmax(scaled))
        builder.emit_func_output(result)
    return builder.get()


if __name__ == "__main__":
    lib = mblob.byoc.relax.build(model(), "llvm", "fifty", patterns=PATTERNS, trace=print)
    lib.export_library(sys.argv[1], carry=[Path(__file__).with_name("backend.c")])
