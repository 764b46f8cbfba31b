"""oneDNN in half floats: values against numpy where this processor has them, else an error that
names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats

pytestmark = pytest.mark.own_process

TYPES: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
BITS = {"bfloat16": 8, "float16": 11}  # of a mantissa

OPERATORS = (
    "convolution",
    "dense",
    "pool",
    "softmax",
    "batch_norm",
    "layer_norm",
    "eltwise",
    "binary",
    "concatenate",
    "batch_matmul",
    "chain",
)


def half(value: Any, kind: str) -> Any:
    return np.asarray(value).astype(TYPES[kind])


def wide(value: Any) -> Any:
    return value.astype("float64")


def convolution(g: Graph, kind: str, entry: Any, x: Any) -> tuple[Any, Any]:
    w, b = half(floats(16, x.shape[1], 3, 3) * np.float32(0.1), kind), half(floats(16), kind)
    y = np.maximum(
        ref.convolve(wide(x), wide(w), [1, 1], [1] * 4, [1, 1]) + wide(b).reshape(-1, 1, 1), 0
    )
    inputs = [entry, g.const(w), g.const(b)]
    return g.kernel("dnnl.conv2d_bias_relu", inputs, y.shape, dtype=kind, **CONVOLUTION), y


def graph_of(operator: str, kind: str, vectors: str = "") -> Graph:
    """`vectors`: the type of what a normalization multiplies and adds."""
    g = Graph(f"{operator}_{kind}_{vectors}", rtol=0, atol=2.0 ** (2 - BITS[kind]))
    x = half(floats(2, 8, 6, 6), kind)
    entry, y = g.input(x), wide(x)
    attrs: dict[str, Any] = {}
    if operator in ("convolution", "chain"):
        entry, y = convolution(g, kind, entry, x)
        if operator == "chain":
            entry, y = convolution(g, kind, entry, y)
            y = y.reshape(2, -1)
            entry = g.kernel("nn.batch_flatten", [entry], y.shape, dtype=kind)
        return g.result(entry, half(y, kind))
    inputs = [entry]
    name = {
        "dense": "nn.dense", "pool": "nn.avg_pool2d", "softmax": "nn.softmax", "eltwise": "tanh", "binary": "multiply",
        "batch_norm": "nn.batch_norm", "layer_norm": "nn.layer_norm", "batch_matmul": "nn.batch_matmul",
        "concatenate": "concatenate",
    }[operator]  # fmt: skip
    if operator == "dense":
        w = half(floats(5, 6), kind)
        inputs.append(g.const(w))
        y, attrs = y @ wide(w).T, {"units": 5}
    elif operator == "pool":
        y = ref.pool(y, "avg", [2, 2], [2, 2], [0] * 4, [1, 1])
        attrs = {
            "pool_size": [2, 2],
            "strides": [2, 2],
            "padding": [0] * 4,
            "layout": "NCHW",
            "count_include_pad": 0,
        }
    elif operator == "softmax":
        y, attrs = np.exp(y) / np.exp(y).sum(1, keepdims=True), {"axis": 1}
    elif operator == "eltwise":
        y = np.tanh(y)
    elif operator == "binary":
        other = half(floats(6), kind)
        inputs.append(g.input(other))
        y = y * wide(other)
    elif operator == "concatenate":
        inputs.append(entry)
        y, attrs = np.concatenate([y, y], 1), {"axis": 1}
    elif operator == "batch_matmul":
        a, b = half(floats(2, 3, 4), kind), half(floats(2, 4, 5), kind)
        g.inputs.clear()
        g.nodes.clear()
        inputs = [g.input(a), g.input(b)]
        y, attrs = wide(a) @ wide(b), {"transpose_a": 0, "transpose_b": 0}
    else:
        batch = operator == "batch_norm"
        count = 8 if batch else 6
        some = [np.abs(floats(count)) + np.float32(0.5) for _ in range(4 if batch else 2)]
        given = [v.astype(TYPES.get(vectors, np.float32)) for v in some]
        gamma, beta, *stats = (
            [wide(v).reshape(-1, 1, 1) for v in given] if batch else [wide(v) for v in given]
        )
        mean, variance = stats if batch else (y.mean(-1, keepdims=True), y.var(-1, keepdims=True))
        y = (y - mean) / np.sqrt(variance + 1e-5) * gamma + beta
        inputs += [g.const(v) for v in given]
        attrs = {"axis": 1 if batch else -1, "epsilon": 1e-5, "center": 1, "scale": 1}
    return g.result(g.kernel(name, inputs, y.shape, dtype=kind, **attrs), half(y, kind))


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_half_floats(operator: str, kind: str, onednn: str, tmp_path: Path) -> None:
    """Whether oneDNN has them is its own matter; that it is told which, and that nothing is
    computed then, is ours."""
    for vectors in (kind, "float32") if "norm" in operator else ("",):
        g = graph_of(operator, kind, vectors)
        lib = ref.export([g.module()], tmp_path)
        try:
            g.check(lib)
        except mblob.MblobError as e:
            text = str(e)
            assert (
                "on this processor does not do this" in text
                or "cannot bring a tensor into the format" in text
            )
            assert f"dnnl_json {g.symbol}, node" in text
            assert kind in text
