"""Graphs as TVM's DNNL code generator writes them, and what they compute, in numpy."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import mblob
from tests.loader import payloads

Array = Any
Entry = list[int]
ROOT = Path(__file__).resolve().parents[3]
DATA = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
KERNEL = {1: "OIW", 2: "OIHW", 3: "OIDHW"}
RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype("float32")


def attributes(**values: Any) -> dict[str, Any]:
    """Every attribute is an array of one array of texts."""

    def text(v: Any) -> str:
        return str(int(v)) if isinstance(v, bool) else str(v)

    return {
        k: [[text(i) for i in v] if isinstance(v, (list, tuple)) else [text(v)]]
        for k, v in values.items()
    }


@dataclass
class Graph:
    """One dnnl_json module with the arrays of a call."""

    symbol: str
    nodes: list[dict[str, Any]] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    heads: list[Entry] = field(default_factory=list)
    expected: list[Array] = field(default_factory=list)
    rtol: float = 1e-5
    atol: float = 1e-5
    json_symbol: bool = True

    def _add(
        self, op: str, name: str, shapes: Sequence[Sequence[int]], dtype: str, **more: Any
    ) -> Entry:
        attrs = {
            "shape": [[list(s) for s in shapes]],
            "dtype": [[dtype] * len(shapes)],
            **more.pop("attrs", {}),
        }
        self.nodes.append({"op": op, "name": name, "attrs": attrs, **more})
        return [len(self.nodes) - 1, 0, 0]

    def input(self, value: Array) -> Entry:
        self.inputs.append(value)
        return self._add(
            "input", f"{self.symbol}_i{len(self.inputs)}", [value.shape], str(value.dtype)
        )

    def const(self, value: Any) -> Entry:
        array = np.asarray(value)
        name = f"{self.symbol}_const_{len(self.constants)}"
        self.constants[name] = array
        return self._add("const", name, [array.shape], str(array.dtype))

    def kernel(
        self,
        name: str,
        inputs: list[Entry],
        *shapes: Sequence[int],
        dtype: str = "float32",
        **attrs: Any,
    ) -> Entry:
        written = {
            "num_inputs": str(len(inputs)),
            "num_outputs": str(len(shapes)),
            **attributes(**attrs),
        }
        return self._add("kernel", name, shapes, dtype, inputs=inputs, attrs=written)

    def result(self, entry: Entry, value: Array) -> Graph:
        self.heads.append(entry)
        self.expected.append(value)
        return self

    def text(self, **changes: Any) -> str:
        sizes = [len(n["attrs"]["shape"][0]) for n in self.nodes]
        whole = {
            **({"symbol": self.symbol} if self.json_symbol else {}),
            "nodes": self.nodes,
            "arg_nodes": [i for i, n in enumerate(self.nodes) if n["op"] != "kernel"],
            "heads": self.heads,
            "node_row_ptr": list(itertools.accumulate([0, *sizes])),
        }
        return json.dumps({**whole, **changes})

    def module(
        self, text: str | None = None, constants: Mapping[str, Array] | None = None
    ) -> mblob.Module:
        """const_loader over dnnl_json, as TVM exports it."""
        given = self.constants if constants is None else constants
        loader = mblob.blob_module(
            "const_loader", payloads.const_loader(given, {self.symbol: list(given)})
        )
        payload = (
            payloads.text(self.symbol)
            + payloads.text(text or self.text())
            + payloads.texts(self.constants)
        )
        loader.import_module(
            mblob.blob_module("dnnl_json", payload)
        )  # json_module() would refuse some of the tests' lies
        return loader

    def run(self, lib: mblob.Module) -> list[Array]:
        out = [np.full(e.shape, 77, e.dtype) for e in self.expected]
        passed = [mblob.array(a) if a.dtype.name == "bfloat16" else a for a in (*self.inputs, *out)]
        lib[self.symbol](*passed)  # numpy gives no buffers of bfloat16
        return [t if isinstance(t, np.ndarray) else t.numpy() for t in passed[len(self.inputs) :]]

    def check(self, lib: mblob.Module) -> None:
        for found, wanted in zip(self.run(lib), self.expected):
            np.testing.assert_allclose(
                found.astype("float64"),
                wanted.astype("float64"),
                rtol=self.rtol,
                atol=self.atol * max(1.0, abs(wanted).max()),
            )


class Cases(dict[str, Graph]):
    """Graphs of a test file by their symbols."""

    def add(self, graph: Graph) -> None:
        assert graph.symbol not in self
        self[graph.symbol] = graph


def export(modules: Sequence[mblob.Module], folder: Path) -> mblob.Module:
    """All of them in one library, opened."""
    host = mblob.csource_module(f"int unused_{len(modules)};")
    for m in modules:
        host.import_module(m)
    with warnings.catch_warnings():
        # each graph has a const_loader of its own
        warnings.simplefilter("ignore", mblob.HiddenNameWarning)
        host.export_library(str(folder / "dnnl.so"))
    return mblob.load_module(folder / "dnnl.so")


# ---- what operators compute: data in N C and spatial axes, weights in O I and spatial axes ----


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    axes = len(strides)
    x, w = x.astype("float64"), w.astype("float64")
    x = np.pad(x, [(0, 0), (0, 0), *((padding[i], padding[axes + i]) for i in range(axes))])
    reach = [(w.shape[2 + i] - 1) * dilation[i] + 1 for i in range(axes)]
    extents = [(x.shape[2 + i] - reach[i]) // strides[i] + 1 for i in range(axes)]
    out = np.zeros((x.shape[0], w.shape[0], *extents))
    outs, ins = w.shape[0] // groups, w.shape[1]
    for at in itertools.product(*(range(k) for k in w.shape[2:])):
        part = tuple(
            slice(
                at[i] * dilation[i],
                at[i] * dilation[i] + (extents[i] - 1) * strides[i] + 1,
                strides[i],
            )
            for i in range(axes)
        )
        for g in range(groups):
            data = x[(slice(None), slice(g * ins, (g + 1) * ins), *part)]
            weight = w[(slice(g * outs, (g + 1) * outs), slice(None), *at)]
            out[:, g * outs : (g + 1) * outs] += np.einsum("nc...,oc->no...", data, weight)
    return out


def transposed(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    output_padding: Sequence[int] = (0, 0, 0),
) -> Array:
    """`w` in I, O / groups and spatial axes."""
    axes = len(strides)
    x, w = x.astype("float64"), w.astype("float64")
    outs, ins = w.shape[1], w.shape[0] // groups
    reach = [(w.shape[2 + i] - 1) * dilation[i] + 1 for i in range(axes)]
    whole = [(x.shape[2 + i] - 1) * strides[i] + reach[i] + output_padding[i] for i in range(axes)]
    out = np.zeros((x.shape[0], outs * groups, *whole))
    for at in itertools.product(*(range(k) for k in w.shape[2:])):
        part = tuple(
            slice(
                at[i] * dilation[i],
                at[i] * dilation[i] + (x.shape[2 + i] - 1) * strides[i] + 1,
                strides[i],
            )
            for i in range(axes)
        )
        for g in range(groups):
            weight = w[(slice(g * ins, (g + 1) * ins), slice(None), *at)]
            out[(slice(None), slice(g * outs, (g + 1) * outs), *part)] += np.einsum(
                "nc...,co->no...", x[:, g * ins : (g + 1) * ins], weight
            )
    cut = tuple(slice(padding[i], whole[i] - padding[axes + i]) for i in range(axes))
    return out[(slice(None), slice(None), *cut)]


def pool(
    x: Array,
    kind: str,
    size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    include: bool = False,
    up: bool = False,
) -> Array:
    axes = len(size)
    reach = [(size[i] - 1) * dilation[i] + 1 for i in range(axes)]
    room = [x.shape[2 + i] + padding[i] + padding[axes + i] - reach[i] for i in range(axes)]
    extents = [(r + (s - 1 if up else 0)) // s + 1 for r, s in zip(room, strides)]
    out = np.zeros((*x.shape[:2], *extents))
    for at in itertools.product(*(range(e) for e in extents)):
        picked = x.astype("float64")
        for i in range(axes):
            begin = at[i] * strides[i] - padding[i]
            inside = [
                p for p in range(begin, begin + reach[i], dilation[i]) if 0 <= p < x.shape[2 + i]
            ]
            picked = picked.take(inside, axis=2 + i)
        over = tuple(range(2, 2 + axes))
        if kind == "max":
            out[(slice(None), slice(None), *at)] = picked.max(axis=over)
        else:
            count = math.prod(size) if include else math.prod(picked.shape[2:])
            out[(slice(None), slice(None), *at)] = picked.sum(axis=over) / count
    return out


def erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "clip": lambda x: np.clip(x, -0.5, 1.5),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "swish": lambda x: x * sigmoid(x),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "linear": lambda x: 1.5 * x - 0.25,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
}


# The attributes of those that have numbers.
ACTIVATION_ATTRS: dict[str, dict[str, float]] = {
    "clip": {"a_min": -0.5, "a_max": 1.5},
    "linear": {"alpha": 1.5, "beta": -0.25},
}


def arrange(value: Array, letters: str, layout: str) -> Array:
    """An array with axes `letters` in a layout such as NHWC or NCHW16c; blocks are filled with
    zeros."""
    outer = "".join(c for c in layout if c.isupper())
    blocks: list[tuple[int, str]] = []
    digits = ""
    for c in layout[len(outer) :]:
        if c.isdigit():
            digits += c
        else:
            blocks.append((int(digits), c.upper()))
            digits = ""
    out = value.transpose([letters.index(c) for c in outer])
    axes = list(outer)
    for _, letter in blocks:
        axis = axes.index(letter)
        if letter not in [a.upper() for a in axes if a.islower()]:
            whole = math.prod(b for b, other in blocks if other == letter)
            extra = -out.shape[axis] % whole
            out = np.pad(out, [(0, extra if i == axis else 0) for i in range(out.ndim)])
            steps = out.shape[axis] // whole
            parts = [b for b, other in blocks if other == letter]
            out = out.reshape(*out.shape[:axis], steps, *parts, *out.shape[axis + 1 :])
            axes[axis : axis + 1] = [letter, *(letter.lower() for _ in parts)]
    order = [axes.index(c) for c in outer]
    used: dict[str, int] = {}
    for _, letter in blocks:
        places = [i for i, a in enumerate(axes) if a == letter.lower()]
        order.append(places[used.get(letter, 0)])
        used[letter] = used.get(letter, 0) + 1
    return np.ascontiguousarray(out.transpose(order))


CONVOLUTION: dict[str, Any] = {  # a small one: 3x3, of plain layouts, as large as its input
    "strides": [1, 1],
    "padding": [1, 1, 1, 1],
    "dilation": [1, 1],
    "groups": 1,
    "data_layout": "NCHW",
    "kernel_layout": "OIHW",
    "out_layout": "",
}


def small_convolution(symbol: str, **changes: Any) -> Graph:
    """A small convolution with a bias and a relu; `changes` are attributes, None removes one."""
    g = Graph(symbol)
    x, w, b = floats(1, 4, 6, 6), floats(8, 4, 3, 3), floats(8)
    y = np.maximum(convolve(x, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1), 0)
    attrs: dict[str, Any] = {**CONVOLUTION, **changes}
    entry = g.kernel(
        "dnnl.conv2d_bias_relu",
        [g.input(x), g.const(w), g.const(b)],
        y.shape,
        **{k: v for k, v in attrs.items() if v is not None},
    )
    return g.result(entry, y.astype("float32"))


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
