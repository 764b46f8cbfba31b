"""The results of dnnl_json modules, in numpy: a second reading of the JSON, against which generated
ones are checked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import mblob
from mblob.bytes.wire import Cursor

ELEMENTWISE = {
    "relu": lambda v: np.maximum(v, 0),
    "tanh": np.tanh,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
}


def windows(x: Any, size: tuple[int, int], a: dict[str, Any], fill: float) -> Any:
    """[N, C, rows, columns, size0, size1] of a padded NCHW array."""
    strides, dilation = ints(a, "strides"), ints(a, "dilation")
    top, left, bottom, right = ints(a, "padding")
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    reach = [(s - 1) * d + 1 for s, d in zip(size, dilation)]
    found = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    return found[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]


def ints(a: dict[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(text) for text in a[name][0])


def conv2d(a: dict[str, Any], x: Any, w: Any) -> Any:
    last = a["data_layout"] == [["NHWC"]]
    if last:
        x = x.transpose(0, 3, 1, 2)
    if a["kernel_layout"] == [["HWIO"]]:
        w = w.transpose(3, 2, 0, 1)
    (groups,) = ints(a, "groups")
    assert ints(a, "channels") == (w.shape[0],)
    assert ints(a, "kernel_size") == w.shape[2:]
    parts = zip(np.split(windows(x, w.shape[2:], a, 0), groups, 1), np.split(w, groups))
    y = np.concatenate(
        [np.einsum("ncrsij,kcij->nkrs", part, weights) for part, weights in parts], 1
    )
    return y.transpose(0, 2, 3, 1) if last else y


def pool(kind: str, a: dict[str, Any], x: Any) -> Any:
    assert a["layout"] == [["NCHW"]]
    if kind.startswith("global_"):
        return (x.max if "max" in kind else x.mean)((2, 3), keepdims=True)
    assert a["ceil_mode"] == [["0"]]
    found = windows(x, ints(a, "pool_size"), a, -np.inf if "max" in kind else 0)  # type: ignore[arg-type]
    if "max" in kind:
        return found.max((4, 5))
    if a["count_include_pad"] == [["1"]]:
        return found.mean((4, 5))
    return found.sum((4, 5)) / windows(np.ones_like(x), ints(a, "pool_size"), a, 0).sum((4, 5))  # type: ignore[arg-type]


def run_kernel(name: str, a: dict[str, Any], inputs: list[Any]) -> Any:
    """One node."""
    kind, *fused = (
        re.sub("^(nn|dnnl)[.]", "", name).split("_") if name.startswith("dnnl.") else (name[3:],)
    )
    if kind in ("conv2d", "dense"):
        x, w, *more = inputs
        y = conv2d(a, x, w) if kind == "conv2d" else x @ w.T
        for part in fused:
            if part == "bias":
                bias = more.pop(0)
                y = y + (
                    bias[:, None, None]
                    if kind == "conv2d" and a["data_layout"] == [["NCHW"]]
                    else bias
                )
            elif part == "sum":
                y = y + more.pop(0)
            else:
                y = ELEMENTWISE[part](y)
        assert not more
        return y
    if name in ("add", "multiply"):
        return inputs[0] + inputs[1] if name == "add" else inputs[0] * inputs[1]
    kind = name.removeprefix("nn.")
    if kind in ELEMENTWISE:
        return ELEMENTWISE[kind](inputs[0])
    if "pool2d" in kind:
        return pool(kind, a, inputs[0])
    if kind == "softmax":
        (axis,) = ints(a, "axis")
        e = np.exp(inputs[0] - inputs[0].max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)
    assert kind == "batch_norm", name
    (axis,) = ints(a, "axis")
    shape = [-1 if i == axis % inputs[0].ndim else 1 for i in range(inputs[0].ndim)]
    x, gamma, beta, mean, variance = (
        v if i == 0 else v.reshape(shape) for i, v in enumerate(inputs)
    )
    y = (x - mean) / np.sqrt(variance + float(a["epsilon"][0][0]))
    y = y * gamma if a["scale"] == [["1"]] else y
    return y + beta if a["center"] == [["1"]] else y


def load(payload: memoryview, ctx: Any) -> mblob.Module:
    """A loader of dnnl_json."""
    cursor = Cursor(payload)
    symbol = bytes(cursor.string("symbol")).decode()
    graph = json.loads(bytes(cursor.string("json")))
    names = [bytes(cursor.string("name")).decode() for _ in range(cursor.count("names", 8))]
    constants: dict[str, Any] = {}

    def init(arrays: Sequence[Any]) -> int:
        constants.update(zip(names, (a.numpy().copy() for a in arrays)))
        assert len(arrays) == len(names)
        return 0

    def run(*arrays: Any) -> None:
        given = [np.array(a.numpy()) for a in arrays]
        values: list[list[Any]] = []
        for node in graph["nodes"]:
            if node["op"] == "input":
                values.append([given.pop(0)])
            elif node["op"] == "const":
                values.append([constants[node["name"]]])
            else:
                inputs = [values[n][o] for n, o, _ in node["inputs"]]
                values.append([run_kernel(node["name"], node["attrs"], inputs).astype("float32")])
            assert list(values[-1][0].shape) == node["attrs"]["shape"][0][0], node
        for array, (n, o, _) in zip(arrays[-len(graph["heads"]) :], graph["heads"]):
            array.numpy()[...] = values[n][o]

    return mblob.Module(
        ctx.type_key, functions={symbol: run, f"__init_{symbol}": init}, payload=payload
    )
