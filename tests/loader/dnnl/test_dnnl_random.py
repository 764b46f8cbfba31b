"""oneDNN with shapes, layouts, attributes and types drawn at random, against numpy.

`DNNL_SEEDS=500 pytest tests/loader/dnnl/test_dnnl_random.py` draws more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import (
    ACTIVATION_ATTRS,
    ACTIVATIONS,
    DATA,
    KERNEL,
    Graph,
    arrange,
)

pytestmark = pytest.mark.own_process

Random = np.random.Generator
SEEDS = int(os.environ.get("DNNL_SEEDS", "15"))


def some(random: Random, *shape: int) -> Any:
    return random.standard_normal(shape).astype("float32")


def pick(random: Random, low: int, high: int, count: int) -> list[int]:
    return [int(i) for i in random.integers(low, high + 1, count)]


def shuffled(random: Random, letters: str) -> str:
    return "".join(random.permutation(list(letters))) if random.random() < 0.4 else letters


def channels(random: Random, groups: int) -> int:
    return groups * int(
        random.choice([1, 2, 3, 5, 16] if groups > 1 else [1, 2, 3, 4, 5, 16, 17, 32])
    )


def convolution(random: Random, g: Graph) -> None:
    """Also with windows that lie in the padding alone, and deconvolutions that cut all that one
    point reaches."""
    axes = int(random.integers(1, 4))
    deconv = random.random() < 0.4
    groups, strides = int(random.choice([1, 1, 2, 3])), pick(random, 1, 3, axes)
    ins, outs = channels(random, groups), channels(random, groups)
    kernel, dilation = pick(random, 1, 3, axes), pick(random, 1, 2, axes)
    padding = pick(random, 0, 3 if random.random() < 0.3 else 1, 2 * axes)
    extents = pick(random, 6, 9, axes)
    if random.random() < 0.2:  # a small one, between wide paddings
        at = int(random.integers(0, axes))
        extents[at], dilation[at] = int(random.integers(1, 3)), int(random.integers(1, 5))
        padding[at] = padding[axes + at] = 0 if deconv else (kernel[at] - 1) * dilation[at]
    if deconv and random.random() < 0.8:  # else more than a point reaches is cut
        padding = [min(p, (k - 1) * d) for p, k, d in zip(padding, kernel * 2, dilation * 2)]
    x = some(random, int(random.integers(1, 4)), ins, *extents)
    extra = [int(random.integers(0, s)) for s in strides]
    if deconv:
        w = some(random, ins, outs // groups, *kernel)
        whole = [
            (e - 1) * s + (k - 1) * d + 1 for e, s, k, d in zip(extents, strides, kernel, dilation)
        ]
        padding = [
            p if f > padding[i % axes] + padding[i % axes + axes] else 0
            for i, (p, f) in enumerate(zip(padding, whole * 2))
        ]
        y = ref.transposed(x, w, strides, padding, dilation, groups, extra)
        letters = "IO" + KERNEL[axes][2:]
        name = f"deconv{axes}d"
    else:
        w = some(random, outs, ins // groups, *kernel)
        y = ref.convolve(x, w, strides, padding, dilation, groups)
        letters, name = KERNEL[axes], f"conv{axes}d"
    g.atol = 3e-5  # up to some hundred products, before an activation makes them small
    layouts = [shuffled(random, DATA[axes]) for _ in range(2)]
    weights = shuffled(random, letters)
    if ins % 8 == 0 and outs % 8 == 0 and random.random() < 0.5 and layouts[0] == DATA[axes]:
        layouts = [DATA[axes] + "8c"] * 2
    sent = [g.input(arrange(x, DATA[axes], layouts[0])), g.const(arrange(w, letters, weights))]
    y, suffix, attrs = fuse(random, g, y, sent, (1, -1, *[1] * axes), outs, DATA[axes], layouts[1])
    entry = g.kernel(
        f"dnnl.{name}{suffix}" if suffix else f"nn.conv{axes}d" + ("_transpose" if deconv else ""), sent, y.shape,
        strides=strides, padding=padding, dilation=dilation, groups=groups, data_layout=layouts[0],
        kernel_layout=weights, out_layout=layouts[1], output_padding=extra, out_dtype="", **attrs,
    )  # fmt: skip
    g.result(entry, y)


def fuse(
    random: Random,
    g: Graph,
    y: Any,
    sent: list[Any],
    channels: tuple[int, ...],
    count: int,
    letters: str,
    layout: str,
) -> tuple[Any, str, dict[str, Any]]:
    """Bias, sum and an activation behind the result `y`, or some of them; the result in its
    layout."""
    suffix, attrs = "", {}
    if random.random() < 0.6:
        bias = some(random, count)
        forms = [(count,), (count, *channels[2:]), (1, count, *channels[2:])]
        given = bias.reshape(forms[int(random.integers(0, 3))])
        sent.append(g.const(given) if random.random() < 0.7 else g.input(given))
        suffix, y = "_bias", y + bias.reshape(channels)
    if random.random() < 0.4:
        other = some(random, *y.shape)
        sent.append(g.input(arrange(other, letters, layout)))
        suffix, y = f"{suffix}_sum", y + other
    if random.random() < 0.5:
        activation = str(random.choice(list(ACTIVATIONS)))
        y, suffix = ACTIVATIONS[activation](y), f"{suffix}_{activation}"
        attrs = {**ACTIVATION_ATTRS.get(activation, {})}
    return arrange(y.astype("float32"), letters, layout), suffix, attrs


def dense(random: Random, g: Graph) -> None:
    rows, features, units = pick(random, 1, 70, 3)
    x, w = some(random, rows, features), some(random, units, features)
    weights = g.const(w) if random.random() < 0.7 else g.input(w)
    sent = [g.input(x), weights]
    y, suffix, attrs = fuse(random, g, x.astype("float64") @ w.T, sent, (1, -1), units, "NC", "NC")
    entry = g.kernel(
        f"dnnl.dense{suffix}" if suffix else "nn.dense", sent, y.shape, units=units, **attrs
    )
    g.result(entry, y)


def batch_matmul(random: Random, g: Graph) -> None:
    batch, m, k, n = pick(random, 1, 20, 4)
    a, b = some(random, batch if random.random() < 0.7 else 1, m, k), some(random, batch, k, n)
    flags = [bool(random.integers(0, 2)) for _ in range(2)]
    sent = [
        np.ascontiguousarray(v.transpose(0, 2, 1)) if flag else v for v, flag in zip((a, b), flags)
    ]
    y = a.astype("float64") @ b
    second = g.const(sent[1]) if random.random() < 0.5 else None
    entries = [g.input(sent[0]), second or g.input(sent[1])]
    entry = g.kernel(
        "nn.batch_matmul",
        entries,
        y.shape,
        transpose_a=flags[0],
        transpose_b=flags[1],
        out_dtype="",
    )
    g.result(entry, y.astype("float32"))


def pooling(random: Random, g: Graph) -> None:
    axes = int(random.integers(1, 4))
    kind, up, include = (
        str(random.choice(["max", "avg"])),
        bool(random.integers(0, 2)),
        bool(random.integers(0, 2)),
    )
    size, strides = pick(random, 2, 3, axes), pick(random, 1, 3, axes)
    padding, layout = pick(random, 0, 1, 2 * axes), shuffled(random, DATA[axes])
    dilation = pick(random, 1, 2, axes) if kind == "max" else [1] * axes
    x = some(random, *pick(random, 1, 9, 2), *pick(random, 7, 10, axes))
    if kind == "avg" or max(strides) > 2 or max(padding):
        # what a window counts that ends outside is not the same everywhere, nor is one that begins
        # there
        up = False
    y = ref.pool(x, kind, size, strides, padding, dilation, include, up)
    attrs = {"count_include_pad": include} if kind == "avg" else {}
    entry = g.kernel(
        f"nn.{kind}_pool{axes}d", [g.input(arrange(x, DATA[axes], layout))], arrange(y, DATA[axes], layout).shape,
        pool_size=size, strides=strides, padding=padding, dilation=dilation, layout=layout, out_layout="",
        ceil_mode=up, **attrs,
    )  # fmt: skip
    g.result(entry, arrange(y.astype("float32"), DATA[axes], layout))


def normalization(random: Random, g: Graph) -> None:
    rank = int(random.integers(1, 8))
    x = some(random, *pick(random, 1, 7 if rank < 5 else 3, rank))
    batch = bool(random.integers(0, 2))
    axis = int(random.integers(0, rank)) if batch or rank < 6 else rank - 1
    shape = [-1 if i == axis else 1 for i in range(rank)]
    scale, center = bool(random.random() < 0.8), bool(random.random() < 0.8)
    vectors = [
        np.abs(some(random, x.shape[axis])) + np.float32(0.3) for _ in range(4 if batch else 2)
    ]
    wide = x.astype("float64")
    mean = vectors[2].reshape(shape) if batch else wide.mean(axis, keepdims=True)
    variance = vectors[3].reshape(shape) if batch else wide.var(axis, keepdims=True)
    y = (wide - mean) / np.sqrt(variance + 1e-3)
    y = y * (vectors[0].reshape(shape) if scale else 1) + (
        vectors[1].reshape(shape) if center else 0
    )
    entry = g.kernel(
        "nn.batch_norm" if batch else "nn.layer_norm",
        [g.input(x), *(g.const(v) for v in vectors)],
        x.shape,
        axis=axis if random.random() < 0.5 else axis - rank,
        epsilon=1e-3,
        scale=scale,
        center=center,
    )
    g.atol = 1e-4
    g.result(entry, y.astype("float32"))


def softmax(random: Random, g: Graph) -> None:
    rank = int(random.integers(1, 6))
    x, axis = (
        some(random, *pick(random, 1, 8, rank)) * np.float32(9),
        int(random.integers(-rank, rank)),
    )
    wide = x.astype("float64")
    log = wide - np.log(np.exp(wide - wide.max()).sum(axis, keepdims=True)) - wide.max()
    name = str(random.choice(["nn.softmax", "nn.log_softmax"]))
    y = log if "log" in name else np.exp(log)
    g.result(g.kernel(name, [g.input(x)], x.shape, axis=axis), y.astype("float32"))


def binary(random: Random, g: Graph) -> None:
    rank = int(random.integers(1, 6))
    whole = pick(random, 1, 6, rank)
    shapes = [[d if random.random() < 0.7 else 1 for d in whole] for _ in range(2)]
    shapes[int(random.integers(0, 2))] = whole
    cut = int(random.integers(0, rank))
    a, b = some(random, *shapes[0]), some(random, *shapes[1][cut:])
    name, function = [
        ("add", np.add),
        ("multiply", np.multiply),
        ("subtract", np.subtract),
        ("maximum", np.maximum),
    ][int(random.integers(0, 4))]
    y = function(a, b)
    second = g.const(b) if random.random() < 0.5 else None
    g.result(g.kernel(name, [g.input(a), second or g.input(b)], y.shape), y)


def quantized(random: Random, g: Graph) -> None:
    """activation((op + bias) * o_scl) * act_scl + sum * sum_scl + dst_zp, rounded and cut to the
    type."""
    kind = str(random.choice(["conv2d", "dense"]))
    types = [str(random.choice(["uint8", "int8"])) for _ in range(3)]  # data, result, summand
    ins, outs = pick(random, 1, 20, 2)
    low = 0 if types[0] == "uint8" else -60
    axes = 2 if kind == "conv2d" else 0
    w = random.integers(-30, 30, (outs, ins, *pick(random, 1, 3, axes))).astype("int8")
    x = random.integers(low, 60, (2, ins, *[6] * axes)).astype(types[0])
    y = ref.convolve(x, w, [1, 1], [1] * 4, [1, 1]) if axes else x.astype("float64") @ w.T
    shape = (1, -1, *[1] * axes)
    sent, attrs = [g.input(x), g.const(w)], {}

    def add(name: str, value: Any) -> Any:
        array = np.asarray(value, "float32")
        if name:
            attrs[name] = len(sent)
        sent.append(g.const(array))
        return array.reshape(shape) if array.size > 1 else array

    if random.random() < 0.7:
        y = y + add("bias_idx", some(random, outs) * 100)
    y = y * add("o_scl_idx", np.abs(some(random, outs)) * 0.05 if random.random() < 0.5 else 0.02)
    positions = [str(len(sent) + i) for i in range(3)]
    scale = float(random.choice([1.0, 0.5]))
    for value in (scale, 0.0, 255.0):
        add("", value)
    y = np.clip(y, 0, 255) * scale
    attrs["activation"] = ["clip", *positions]
    if random.random() < 0.6:
        other = random.integers(-50 if types[2] == "int8" else 0, 100, y.shape).astype(types[2])
        attrs["sum_idx"] = len(sent)
        sent.append(g.input(other))
        y = y + other * add("sum_scl_idx", float(random.choice([0.25, 1.0])))
    if random.random() < 0.6:
        y = y + add("dst_zp_idx", -20 if types[1] == "int8" else 3)
    limits = np.iinfo(types[1])
    y = np.clip(np.rint(y), limits.min, limits.max).astype(types[1])
    if axes:
        attrs |= {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 1, "data_layout": "NCHW",
                  "kernel_layout": "OIHW", "out_layout": ""}  # fmt: skip
    g.rtol, g.atol = 0, 1.01 / max(1.0, float(abs(y.astype("int64")).max()))
    g.result(
        g.kernel(f"dnnl.qnn.{kind}", sent, y.shape, dtype=types[1], out_dtype="int32", **attrs), y
    )


def block(random: Random, g: Graph) -> None:
    """Convolutions, sums across them, a pool and a dense layer, so that values stay in oneDNN's own
    formats."""
    channels = int(random.choice([3, 8, 16]))
    x = some(random, 1, channels, 8, 8)
    value, entry = x.astype("float64"), g.input(x)
    attrs: dict[str, Any] = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 1,
                             "data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": ""}  # fmt: skip
    for _ in range(int(random.integers(1, 4))):
        w, b = some(random, channels, channels, 3, 3) * np.float32(0.2), some(random, channels)
        inner = ref.convolve(value, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1)
        sent = [entry, g.const(w), g.const(b)]
        if random.random() < 0.5:
            inner, sent = inner + value, [*sent, entry]
            entry = g.kernel("dnnl.conv2d_bias_sum_relu", sent, x.shape, **attrs)
        else:
            entry = g.kernel("dnnl.conv2d_bias_relu", sent, x.shape, **attrs)
        value = np.maximum(inner, 0)
        if random.random() < 0.3:
            g.result(entry, value.astype("float32"))
    if random.random() < 0.5:
        entry = g.kernel("add", [entry, g.const(np.float32(1.5))], x.shape)
        value = value + 1.5
    entry = g.kernel(
        "nn.global_avg_pool2d", [entry], (1, channels, 1, 1), layout="NCHW", out_layout=""
    )
    value = value.mean((2, 3), keepdims=True)
    entry = g.kernel("nn.batch_flatten", [entry], (1, channels))
    w = some(random, 5, channels)
    entry = g.kernel("nn.dense", [entry, g.const(w)], (1, 5), units=5)
    g.result(entry, (value.reshape(1, -1) @ w.T).astype("float32"))


DRAWN: dict[str, Callable[[Random, Graph], None]] = {
    f.__name__: f
    for f in (
        convolution,
        dense,
        batch_matmul,
        pooling,
        normalization,
        softmax,
        binary,
        quantized,
        block,
    )
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("operator", DRAWN)
def test_drawn(operator: str, onednn: str, tmp_path: Path) -> None:
    graphs = []
    for seed in range(SEEDS):
        g = Graph(f"{operator}_{seed}")
        DRAWN[operator](np.random.default_rng(seed), g)
        graphs.append(g)
    lib = ref.export([g.module() for g in graphs], tmp_path)
    wrong = []
    for g in graphs:
        try:
            g.check(lib)
            g.check(lib)
        except Exception as e:  # all of them are told, each with what was drawn
            wrong.append(f"{g.symbol}: {e}\n{g.nodes[-1]}")
    assert not wrong, f"{len(wrong)} of {len(graphs)}:\n" + "\n".join(wrong[:5])
