"""The operators that TVM's DNNL code generator writes, all but convolutions
(test_dnnl_convolutions.py), on oneDNN, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, arrange, floats

pytestmark = pytest.mark.own_process

CASES = ref.Cases()


# ---- dense, batch_matmul ----


def dense(
    symbol: str,
    *,
    shape: tuple[int, ...] = (5, 24),
    units: int = 17,
    bias: tuple[int, ...] = (),
    total: bool = False,
    activation: str = "",
    weights: str = "const",
    packed: str = "",
) -> None:
    g = Graph(symbol)
    x, w = floats(*shape), floats(units, shape[-1])
    y = x.astype("float64") @ w.T
    written = arrange(w, "NC", packed) if packed else w
    inputs = [g.input(x), g.const(written) if weights == "const" else g.input(written)]
    if bias:
        b = floats(units)
        inputs.append(g.const(b.reshape(bias)))
        y = y + b
    if total:
        other = floats(*y.shape)
        inputs.append(g.input(other))
        y = y + other
    if activation:
        y = ref.ACTIVATIONS[activation](y)
    suffix = (
        ("_bias" if bias else "")
        + ("_sum" if total else "")
        + (f"_{activation}" if activation else "")
    )
    attrs: dict[str, Any] = {**ref.ACTIVATION_ATTRS.get(activation, {})}
    plain = "nn.contrib_dense_pack" if packed else "nn.dense"
    fused = f"dnnl.{'packed' if packed else ''}dense{suffix}"
    if packed:
        attrs["weight_layout"] = packed
    entry = g.kernel(
        fused if suffix else plain, inputs, y.shape, units=units, out_dtype="float32", **attrs
    )
    g.atol = 1e-5
    CASES.add(g.result(entry, y.astype("float32")))


dense("dense")
dense("dense_input_weights", weights="input", bias=(17,))
dense("dense_3d", shape=(2, 3, 24), bias=(1, 17))
dense("dense_bias_sum", bias=(17,), total=True)
dense("dense_packed", units=32, packed="NC16c16n", bias=(32,), activation="gelu")
for act in ("", *ref.ACTIVATIONS):
    dense(f"dense_bias_{act}", bias=(17,), activation=act)

for ta in (False, True):
    for tb in (False, True):
        for kind in ("input", "const"):
            graph = Graph(f"batch_matmul_{ta:d}{tb:d}_{kind}")
            a, b = floats(3, 4, 5), floats(3, 5, 6)
            second = b.transpose(0, 2, 1) if tb else b
            sent = np.ascontiguousarray(second)
            args = [
                graph.input(np.ascontiguousarray(a.transpose(0, 2, 1) if ta else a)),
                graph.const(sent) if kind == "const" else graph.input(sent),
            ]
            CASES.add(
                graph.result(
                    graph.kernel(
                        "nn.batch_matmul",
                        args,
                        (3, 4, 6),
                        out_dtype="",
                        transpose_a=ta,
                        transpose_b=tb,
                    ),
                    a @ b,
                )
            )

# ---- pooling ----


def pooling(
    symbol: str,
    name: str,
    axes: int = 2,
    *,
    layout: str = "",
    channels: int = 4,
    size: int = 3,
    stride: int = 2,
    pad: tuple[int, int] = (0, 1),
    dilation: int = 1,
    include: bool | None = None,
    up: bool = False,
) -> None:
    g = Graph(symbol)
    letters = ref.DATA[axes]
    x = floats(2, channels, *[8] * axes)
    kind = "max" if "max" in name else "avg"
    padding = [pad[0]] * axes + [pad[1]] * axes
    if "global" in name:
        y = ref.pool(x, kind, [8] * axes, [1] * axes, [0] * 2 * axes, [1] * axes)
        attrs: dict[str, Any] = {}
    elif "adaptive" in name:
        y = ref.pool(x, kind, [size] * axes, [size] * axes, [0] * 2 * axes, [1] * axes)
        attrs = {"output_size": [8 // size] * axes}
    else:
        y = ref.pool(
            x, kind, [size] * axes, [stride] * axes, padding, [dilation] * axes, bool(include), up
        )
        attrs = {
            "pool_size": [size] * axes,
            "strides": [stride] * axes,
            "padding": padding,
            "dilation": [dilation] * axes,
            "ceil_mode": up,
        }
    if include is not None:
        attrs["count_include_pad"] = include
    y = arrange(y.astype("float32"), letters, layout or letters)
    entry = g.kernel(
        name,
        [g.input(arrange(x, letters, layout or letters))],
        y.shape,
        layout=layout or letters,
        out_layout="",
        **attrs,
    )
    CASES.add(g.result(entry, y))


for n in (1, 2, 3):
    pooling(f"max_pool{n}d", f"nn.max_pool{n}d", n)
    pooling(f"avg_pool{n}d", f"nn.avg_pool{n}d", n, include=False)
pooling("avg_pool2d_include", "nn.avg_pool2d", include=True)
pooling("max_pool2d_ceil", "nn.max_pool2d", up=True, pad=(0, 0))
pooling("max_pool2d_dilated", "nn.max_pool2d", dilation=2, pad=(1, 1))
pooling("max_pool2d_nhwc", "nn.max_pool2d", layout="NHWC")
pooling("max_pool2d_blocked", "nn.max_pool2d", layout="NCHW8c", channels=16)
for n in (1, 2, 3):
    for kind in ("max", "avg"):
        pooling(f"global_{kind}_pool{n}d", f"nn.global_{kind}_pool{n}d", n)
        for to in (1, 2):
            pooling(
                f"adaptive_{kind}_pool{n}d_{to}", f"nn.adaptive_{kind}_pool{n}d", n, size=8 // to
            )
pooling("global_avg_pool2d_nhwc", "nn.global_avg_pool2d", layout="NHWC")

# ---- images of another size ----


def at(out: int, size: int, linear: bool) -> Any:
    """[out, size]: how much of each point is in each point of an axis that was resized."""
    weights = np.zeros((out, size))
    for i in range(out):
        place = (i + 0.5) * size / out - 0.5
        low = int(np.floor(place))
        part = place - low if linear else 0.0
        if not linear:
            low = i * size // out
        for index, weight in ((low, 1 - part), (low + 1, part)):
            weights[i, min(max(index, 0), size - 1)] += weight
    return weights


def resizing(
    symbol: str, sizes: tuple[int, ...], to: tuple[int, ...], linear: bool, layout: str
) -> None:
    g = Graph(symbol)
    x = floats(2, 3, *sizes)
    y = x.astype("float64")
    for axis, (size, out) in enumerate(zip(sizes, to), 2):
        y = np.moveaxis(np.tensordot(at(out, size, linear), y, (1, axis)), 0, axis)
    letters = "NCDHW" if len(sizes) == 3 else "NCHW" if len(sizes) == 2 else "NCW"
    given, wanted = (ref.arrange(value.astype("float32"), letters, layout) for value in (x, y))
    CASES.add(g.result(
        g.kernel(
            f"image.resize{len(sizes)}d", [g.input(given)], wanted.shape, layout=layout,
            method="linear" if linear else "nearest_neighbor",
            coordinate_transformation_mode="half_pixel" if linear else "asymmetric",
        ),
        wanted,
    ))  # fmt: skip


resizing("resize_nearest_1", (5,), (10,), False, "NCW")
resizing("resize_nearest_2", (4, 5), (12, 5), False, "NCHW")
resizing("resize_nearest_3", (2, 3, 4), (4, 3, 8), False, "NCDHW")
resizing("resize_nearest_nhwc", (4, 5), (8, 15), False, "NHWC")
resizing("resize_linear_2", (4, 5), (7, 9), True, "NCHW")
resizing("resize_linear_down", (8, 9), (4, 3), True, "NHWC")

# ---- operators of one shape ----


def simple(name: str, value: Any, compute: Any, symbol: str = "", **attrs: Any) -> None:
    g = Graph(symbol or "one_" + name.replace(".", "_"))
    CASES.add(
        g.result(
            g.kernel(name, [g.input(value)], value.shape, **attrs),
            compute(value.astype("float64")).astype("float32"),
        )
    )


X = floats(2, 6, 4, 3)
simple("abs", X, np.abs)
simple("exp", X, np.exp)
simple("log", np.abs(X) + np.float32(0.1), np.log)
simple("sqrt", np.abs(X), np.sqrt)
simple("round", X * 3, np.rint)
simple("nn.relu", X, ref.ACTIVATIONS["relu"])
for relay, relax in (("relu", "relu"), ("swish", "silu"), ("gelu", "gelu")):
    simple(relax, X, ref.ACTIVATIONS[relay], f"relax_{relax}")
simple("leaky_relu", X, lambda x: np.where(x < 0, 0.1 * x, x), "relax_leaky_relu", alpha=0.1)
simple("nn.leaky_relu", X, lambda x: np.where(x < 0, 0.1 * x, x), alpha=0.1)
simple("tanh", X, np.tanh)
simple("sigmoid", X, ref.sigmoid)
simple("clip", X, ref.ACTIVATIONS["clip"], a_min=-0.5, a_max=1.5)
simple("swish", X, ref.ACTIVATIONS["swish"])
simple("hardswish", X * 4, ref.ACTIVATIONS["hardswish"])
simple("linear", X, ref.ACTIVATIONS["linear"], alpha=1.5, beta=-0.25)
simple("mish", X, ref.ACTIVATIONS["mish"])
simple("gelu_erf", X, ref.ACTIVATIONS["gelu"])


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


for at in (-1, 1, 0):
    simple("nn.softmax", X, lambda x, at=at: softmax(x, at), f"softmax_{at + 1}", axis=at)
simple("nn.log_softmax", X, lambda x: np.log(softmax(x, -1)), axis=-1)


def batch_norm(symbol: str, axis: int, scale: bool = True, center: bool = True) -> None:
    g = Graph(symbol)
    c = X.shape[axis]
    gamma, beta, mean, variance = (
        floats(c),
        floats(c),
        floats(c),
        np.abs(floats(c)) + np.float32(0.5),
    )
    spread = [-1 if i == axis % 4 else 1 for i in range(4)]
    y = (X - mean.reshape(spread)) / np.sqrt(variance.reshape(spread) + 1e-5)
    y = y * gamma.reshape(spread) if scale else y
    y = y + beta.reshape(spread) if center else y
    inputs = [g.input(X), *(g.const(v) for v in (gamma, beta, mean, variance))]
    entry = g.kernel(
        "nn.batch_norm",
        inputs,
        X.shape,
        (c,),
        (c,),
        axis=axis,
        epsilon=1e-5,
        center=center,
        scale=scale,
    )
    CASES.add(g.result(entry, y.astype("float32")))


batch_norm("batch_norm", 1)
batch_norm("batch_norm_last", 3)
batch_norm("batch_norm_plain", 1, scale=False, center=False)

graph = Graph("layer_norm")
gamma, beta = floats(24), floats(24)
x3 = floats(2, 5, 24)
spread = (x3 - x3.mean(-1, keepdims=True)) / np.sqrt(x3.var(-1, keepdims=True) + 1e-5)
CASES.add(
    graph.result(
        graph.kernel(
            "nn.layer_norm",
            [graph.input(x3), graph.const(gamma), graph.const(beta)],
            x3.shape,
            axis=-1,
            epsilon=1e-5,
            center=True,
            scale=True,
        ),
        spread * gamma + beta,
    )
)

PAIRS = {
    "same": ((2, 3, 4), (2, 3, 4)),
    "row": ((2, 3, 4), (4,)),
    "column": ((2, 3, 4), (3, 1)),
    "scalar": ((2, 3, 4), ()),
    "first": ((4,), (2, 3, 4)),
    "both": ((2, 1, 4), (3, 1)),
}
FUNCTIONS = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
for operator, function in FUNCTIONS.items():
    for pair, (one, two) in PAIRS.items():
        graph = Graph(f"{operator}_{pair}")
        a, b = np.asarray(floats(*one)), np.asarray(floats(*two) if two else np.float32(2.5))
        value = function(a, b)
        CASES.add(
            graph.result(
                graph.kernel(operator, [graph.input(a), graph.const(b)], value.shape), value
            )
        )

# ---- quantized ----


def quantized(
    symbol: str, kind: str, *, per_channel: bool, total: bool, out: str = "uint8"
) -> None:
    """activation((op + bias) * o_scl) * act_scl + sum * sum_scl + dst_zp, rounded and cut to the
    type."""
    g = Graph(symbol, atol=1.01, rtol=0)
    w = RANDOM_INTS.integers(-20, 20, (16, 8, 3, 3) if kind == "conv2d" else (16, 24)).astype(
        "int8"
    )
    x = RANDOM_INTS.integers(0, 60, (1, 8, 6, 6) if kind == "conv2d" else (4, 24)).astype("uint8")
    shape = (1, -1, 1, 1) if kind == "conv2d" else (1, -1)
    y = (
        ref.convolve(x, w, [1, 1], [1] * 4, [1, 1])
        if kind == "conv2d"
        else x.astype("float64") @ w.T
    )
    bias = (floats(16) * 100).astype("float32")
    scale = (np.abs(floats(16)) * 0.05 if per_channel else np.array(0.02)).astype("float32")
    y = (
        np.clip(
            (y + bias.reshape(shape)) * (scale.reshape(shape) if per_channel else scale), 0, 255
        )
        * 0.5
    )
    inputs = [g.input(x), g.const(w), g.const(bias.reshape(-1, 1, 1) if kind == "conv2d" else bias)]
    attrs = {"bias_idx": 2, "o_scl_idx": 3, "dst_zp_idx": 4, "activation": ["clip", 5, 6, 7]}
    inputs.append(g.const(scale.reshape(-1, 1, 1) if per_channel and kind == "conv2d" else scale))
    inputs.append(g.const(np.array(3, "float32")))
    inputs += [g.const(np.array(v, "float32")) for v in (0.5, 0.0, 255.0)]
    if total:
        other = RANDOM_INTS.integers(0, 50, y.shape).astype(out)
        inputs += [g.input(other), g.const(np.array(0.25, "float32"))]
        attrs |= {"sum_idx": 8, "sum_scl_idx": 9}
        y = y + other * 0.25
    limits = np.iinfo(out)
    y = np.clip(np.rint(y + 3), limits.min, limits.max).astype(out)
    if kind == "conv2d":
        attrs |= CONVOLUTION
    entry = g.kernel(f"dnnl.qnn.{kind}", inputs, y.shape, dtype=out, out_dtype="int32", **attrs)
    g.atol = 1.01 / max(1.0, float(abs(y.astype("int64")).max()))
    CASES.add(g.result(entry, y))


RANDOM_INTS = np.random.default_rng(3)
for operator in ("conv2d", "dense"):
    for per in (False, True):
        for plus in (False, True):
            quantized(f"qnn_{operator}_{per:d}{plus:d}", operator, per_channel=per, total=plus)
quantized("qnn_conv2d_int8", "conv2d", per_channel=True, total=False, out="int8")


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export([g.module() for g in CASES.values()], tmp_path_factory.mktemp("operators"))


@pytest.mark.parametrize("symbol", CASES)
def test_operator(symbol: str, lib: mblob.Module) -> None:
    CASES[symbol].check(lib)


def test_library_has_all(lib: mblob.Module, tmp_path: Path) -> None:
    names = [c["get_symbol"]() for m in lib.imported_modules for c in m.imported_modules]
    assert sorted(names) == sorted(CASES)
