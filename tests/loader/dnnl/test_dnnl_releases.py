"""JSON as each release of TVM wrote it for oneDNN, with what it left out and what it named
otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import Graph, floats

pytestmark = pytest.mark.own_process

CONV_2D: dict[str, Any] = {
    "strides": [1, 1],
    "padding": [1, 1, 1, 1],
    "dilation": [1, 1],
    "groups": 1,
    "channels": 8,
    "kernel_size": [3, 3],
    "data_layout": "NCHW",
    "kernel_layout": "OIHW",
    "out_layout": "",
    "out_dtype": "",
}


def conv(x: Any, w: Any, groups: int = 1) -> Any:
    return ref.convolve(x, w, [1, 1], [1] * 4, [1, 1], groups)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def of_0_7() -> Graph:
    """conv2d alone and fused twice, depthwise, batch_norm of three outputs, add, dense: all that
    0.7 had."""
    g = Graph("ccompiler_0", json_symbol=False)
    x, w1, w2, b = floats(1, 4, 6, 6), floats(8, 4, 3, 3), floats(8, 1, 3, 3), floats(8, 1, 1)
    y = relu(conv(x, w1))
    entry = g.kernel("dnnl.conv2d_relu", [g.input(x), g.const(w1)], y.shape, **CONV_2D)
    y = relu(conv(y, w2, 8) + b)
    inputs = [entry, g.const(w2), g.const(b)]
    entry = g.kernel("dnnl.conv2d_bias_relu", inputs, y.shape, **{**CONV_2D, "groups": 8})
    gamma, beta, mean, variance = (
        floats(8),
        floats(8),
        floats(8),
        np.abs(floats(8)) + np.float32(0.5),
    )
    z = (y - mean.reshape(-1, 1, 1)) / np.sqrt(variance.reshape(-1, 1, 1) + 1e-5)
    z = z * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    inputs = [entry, *(g.const(v) for v in (gamma, beta, mean, variance))]
    normal = g.kernel(
        "nn.batch_norm", inputs, y.shape, (8,), (8,), axis=1, epsilon=1e-5, center=1, scale=1
    )
    total = g.kernel("add", [normal, entry], y.shape)
    g.result(g.kernel("nn.relu", [total], y.shape), relu(z + y).astype("float32"))
    x2, w3 = floats(3, 10), floats(5, 10)
    return g.result(
        g.kernel("nn.dense", [g.input(x2), g.const(w3)], (3, 5), units=5, out_dtype="float32"),
        x2 @ w3.T,
    )


def of_0_8() -> Graph:
    """Bias and sigmoid or tanh come; dense with a bias."""
    g = Graph("tvmgen_default_dnnl_main_0", json_symbol=False)
    x, w, b = floats(2, 4, 6, 6), floats(8, 4, 3, 3), floats(8, 1, 1)
    y = conv(x, w) + b
    image, weights, bias = g.input(x), g.const(w), g.const(b)
    g.result(
        g.kernel("dnnl.conv2d_bias", [image, weights, bias], y.shape, **CONV_2D),
        y.astype("float32"),
    )
    sigmoid = g.kernel("dnnl.conv2d_bias_sigmoid", [image, weights, bias], y.shape, **CONV_2D)
    g.result(sigmoid, ref.sigmoid(y).astype("float32"))
    x2, w2, b2 = floats(3, 10), floats(5, 10), floats(5)
    inputs = [g.input(x2), g.const(w2), g.const(b2)]
    entry = g.kernel("dnnl.dense_bias", inputs, (3, 5), units=5, out_dtype="")
    return g.result(entry, x2 @ w2.T + b2)


def of_0_9() -> Graph:
    """Pooling without dilation, transposed convolutions whose layout is called OIHW, element-wise
    operators."""
    g = Graph("tvmgen_default_dnnl_main_9", json_symbol=False)
    x = floats(1, 4, 6, 6)
    pooled = ref.pool(x, "avg", [2, 2], [2, 2], [0] * 4, [1, 1])
    attrs: dict[str, Any] = {
        "pool_size": [2, 2],
        "strides": [2, 2],
        "padding": [0] * 4,
        "layout": "NCHW",
    }
    image = g.input(x)
    entry = g.kernel(
        "nn.avg_pool2d", [image], pooled.shape, **attrs, ceil_mode=0, count_include_pad=0
    )
    w, b = floats(4, 6, 3, 3), floats(6, 1, 1)
    y = np.tanh(ref.transposed(pooled, w, [2, 2], [1] * 4, [1, 1]) + b)
    written = {**CONV_2D, "strides": [2, 2], "output_padding": [0, 0], "channels": 6}
    entry = g.kernel("dnnl.deconv2d_bias_tanh", [entry, g.const(w), g.const(b)], y.shape, **written)
    entry = g.kernel("abs", [entry], y.shape)
    entry = g.kernel("clip", [entry], y.shape, a_min=0.1, a_max=0.4)
    return g.result(entry, np.clip(abs(y), 0.1, 0.4).astype("float32"))


def of_0_11() -> Graph:
    """A sum, in a blocked layout that the network has been rewritten to; softmax."""
    g = Graph("tvmgen_default_dnnl_main_11", json_symbol=False)
    x, w, b = floats(1, 16, 6, 6), floats(16, 16, 3, 3), floats(16)
    y = conv(x, w) + b.reshape(-1, 1, 1) + x
    blocked = ref.arrange(x, "NCHW", "NCHW8c")
    image = g.input(blocked)
    inputs = [
        image,
        g.const(ref.arrange(w, "OIHW", "OIHW8i8o")),
        g.const(b.reshape(1, 2, 1, 1, 8)),
        image,
    ]
    layouts = {
        "data_layout": "NCHW8c",
        "kernel_layout": "OIHW8i8o",
        "out_layout": "NCHW8c",
        "channels": 16,
    }
    entry = g.kernel("dnnl.conv2d_bias_sum_relu", inputs, blocked.shape, **{**CONV_2D, **layouts})
    entry = g.kernel("nn.softmax", [entry], blocked.shape, axis=-1)
    e = np.exp(ref.arrange(relu(y), "NCHW", "NCHW8c"))
    return g.result(entry, (e / e.sum(-1, keepdims=True)).astype("float32"))


def of_0_14() -> Graph:
    """The symbol is in the JSON, and operators may come with all that was before."""
    g = of_0_8()
    g.json_symbol = True
    return g


RELEASES = {"0.7": of_0_7, "0.8": of_0_8, "0.9": of_0_9, "0.11": of_0_11, "0.14": of_0_14}


@pytest.mark.parametrize("release", RELEASES)
def test_release(release: str, onednn: str, tmp_path: Path) -> None:
    g = RELEASES[release]()
    g.check(ref.export([g.module()], tmp_path))
    assert ("symbol" in json.loads(g.text())) == (release == "0.14")


LEFT_OUT = ("kernel_layout", "data_layout", "out_layout", "dilation", "groups", "num_inputs")


@pytest.mark.parametrize("without", [*LEFT_OUT, "all"])
def test_defaults(without: str, onednn: str, tmp_path: Path) -> None:
    """What a generator leaves out is what Relay has as default."""
    g = of_0_8()
    graph = json.loads(g.text())
    for node in graph["nodes"]:
        if node["op"] == "kernel":
            for name in LEFT_OUT if without == "all" else (without,):
                node["attrs"].pop(name, None)
    g.check(ref.export([g.module(json.dumps(graph))], tmp_path))
