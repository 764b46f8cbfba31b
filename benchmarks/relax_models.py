"""Relax programs for the benchmark, compiled by the apache-tvm of the worker that imports this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm.te as te
from tvm import relax
from tvm.script import relax as script

ADDS = 1000  # of the chain
OPAQUE = 8  # the pattern of an operator that is not fused with others
CPU = {"kind": "llvm", "mcpu": "x86-64-v2"}


def _add() -> Any:
    a, b = (te.placeholder((4,), name=name) for name in "ab")
    c = te.compute((4,), lambda i: a[i] + b[i], name="c")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", "add")
    return function.with_attr("op_pattern", OPAQUE)


def chain() -> Any:
    """y = x + x, y + x, ...: each add is a call of its own."""
    builder = relax.BlockBuilder()
    add = builder.add_func(_add(), "add")
    four = script.Tensor((4,), "float32")
    x = relax.Var("x", four)
    with builder.function("main", [x]):
        y: Any = x
        for _ in range(ADDS):
            y = builder.emit(relax.call_tir(add, [y, x], four))
        builder.emit_func_output(y)
    return builder.get()


def empty() -> Any:
    """Anything, given back. The add is not called: a library without kernels cannot be exported."""
    builder = relax.BlockBuilder()
    builder.add_func(_add(), "add")
    x = relax.Var("x", relax.AnyType())
    with builder.function("main", [x]):
        builder.emit_func_output(x)
    return builder.get()


def _weight(*shape: int) -> Any:
    return relax.const((np.random.default_rng(5).standard_normal(shape) / 4).astype("float32"))


def _dense(x: Any, inputs: int, outputs: int) -> Any:
    return relax.op.add(relax.op.matmul(x, _weight(inputs, outputs)), _weight(outputs))


def _model(shape: tuple[int, ...], layers: Any) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", script.Tensor(shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(layers(x)))
    return builder.get()


def mlp() -> Any:
    return _model((2, 32), lambda x: _dense(relax.op.nn.relu(_dense(x, 32, 64)), 64, 10))


def cnn() -> Any:
    nn = relax.op.nn

    def layers(x: Any) -> Any:
        for inputs, outputs in ((3, 4), (4, 4)):
            bias = relax.op.reshape(_weight(outputs), (1, outputs, 1, 1))
            x = nn.relu(relax.op.add(nn.conv2d(x, _weight(outputs, inputs, 3, 3), padding=1), bias))
        return nn.softmax(_dense(relax.op.reshape(x, (1, 256)), 256, 10))

    return _model((1, 3, 8, 8), layers)


INPUTS = {"chain": (4,), "compiled": (4,), "empty": (4,), "mlp": (2, 32), "cnn": (1, 3, 8, 8)}


def write(folder: str) -> None:
    """Each as NAME.so; "compiled" is the chain in compiled mode."""
    programs = {"chain": chain, "compiled": chain, "empty": empty, "mlp": mlp, "cnn": cnn}
    for name, make in programs.items():
        mode = "compiled" if name == "compiled" else "bytecode"
        built = relax.build(make(), tvm.target.Target(CPU), exec_mode=mode)
        built.export_library(str(Path(folder) / f"relax_{name}.so"))
