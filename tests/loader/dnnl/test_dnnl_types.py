"""oneDNN in half floats: values against numpy, also with the instructions of processors that have none."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats, python

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


def casts(kind: str) -> list[Graph]:
    """Every half becomes a float, and these floats become halves: what lies between two of them, too."""
    numbers = np.arange(1 << 16, dtype="uint16").view(TYPES[kind])
    floats = wide(numbers).astype("float32")
    finite = np.sort(floats[np.isfinite(floats)])
    middles = ((finite[1:].astype("float64") + finite[:-1]) / 2).astype("float32")
    largest = np.finfo("float32").max
    rest = [
        *middles,
        *np.nextafter(middles, largest),
        *np.nextafter(middles, -largest),
        largest,
        -largest,
    ]
    some = np.float32([*floats, *rest])
    found = []
    with np.errstate(over="ignore"):
        for name, given, made in (
            ("up", numbers, floats),
            ("down", some, some.astype(TYPES[kind])),
        ):
            g = Graph(f"{name}_{kind}")
            entry = g.kernel("cast", [g.input(given)], made.shape, dtype=str(made.dtype))
            found.append(g.result(entry, made))
    return found


def check_all(folder: str) -> None:
    cases = [
        graph_of(operator, kind, vectors)
        for operator, kind in itertools.product(OPERATORS, TYPES)
        for vectors in ((kind, "float32") if "norm" in operator else ("",))
    ]
    exact = [g for kind in TYPES for g in casts(kind)]
    lib = ref.export([g.module() for g in (*cases, *exact)], Path(folder))
    wrong = []
    for g in cases:
        try:
            g.check(lib)
        except Exception as e:
            wrong.append(f"{g.symbol}: {e}")
    assert not wrong, "\n".join(wrong)
    for g in exact:
        (found,) = g.run(lib)
        # instructions for bfloat16 take subnormal numbers as 0
        tiny = float(np.finfo("float32").tiny) if g.symbol == "down_bfloat16" else 0
        np.testing.assert_allclose(wide(found), wide(g.expected[0]), 0, tiny, err_msg=g.symbol)


@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "AVX512_CORE", "ALL"])
def test_half_floats_are_right_also_where_the_processor_computes_in_float32(
    isa: str, onednn: str, tmp_path: Path
) -> None:
    code = f"from tests.loader.dnnl.test_dnnl_types import check_all; check_all({str(tmp_path)!r})"
    done = python(code, ONEDNN_MAX_CPU_ISA=isa, DNNL_MAX_CPU_ISA=isa)
    assert not done.returncode, done.stderr[-6000:]


def test_what_is_no_float_is_not_cast(onednn: str, tmp_path: Path) -> None:
    g = Graph("whole")
    made = g.kernel("cast", [g.input(np.ones(3, "int8"))], (3,), dtype="float16")
    lib = ref.export([g.result(made, np.ones(3, "float16")).module()], tmp_path)
    with pytest.raises(mblob.MblobError, match=r"int8\[3\] cannot be cast to float16\[3\]"):
        g.run(lib)
