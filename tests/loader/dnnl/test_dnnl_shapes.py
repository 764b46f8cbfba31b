"""Operators that compute nothing in oneDNN's regions: reshapes, transpositions, concatenations;
views where they can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, floats

pytestmark = pytest.mark.own_process

CASES: dict[str, Graph] = {}


def case(symbol: str) -> Graph:
    assert symbol not in CASES
    CASES[symbol] = Graph(symbol)
    return CASES[symbol]


def convolved(g: Graph, entry: list[int], x: Any, outputs: int = 16) -> tuple[list[int], Any]:
    """A convolution, whose result oneDNN keeps in a format of its own when it can."""
    w = floats(outputs, x.shape[1], 3, 3) * np.float32(0.2)
    y = ref.convolve(x, w, [1, 1], [1] * 4, [1, 1])
    return g.kernel("nn.conv2d", [entry, g.const(w)], y.shape, **CONVOLUTION), y


# ---- the same bytes ----

RESHAPES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "reshape": ((4, 48), {"newshape": [4, -1], "allowzero": False}),
    "contrib_reverse_reshape": ((2, 96), {"newshape": [-1, 96]}),
    "nn.batch_flatten": ((2, 96), {}),
    "flatten": ((192,), {}),
    "squeeze": ((2, 16, 6), {"axis": [2]}),
    "expand_dims": ((2, 16, 1, 6, 1), {"axis": 4, "num_newaxis": 1}),
    "copy": ((2, 16, 1, 6), {}),
    "reshape_like": ((32, 6), {}),
}
X = floats(2, 16, 1, 6)
for name, (shape, attrs) in RESHAPES.items():
    more = [X.reshape(shape)] if name == "reshape_like" else []
    for kind in ("input", "const", "middle", "last"):
        g = case(f"{name.replace('.', '_')}_{kind}")
        entry = g.const(X) if kind == "const" else g.input(X)
        value = X.astype("float64")
        if kind in ("middle", "last"):
            entry, value = convolved(g, entry, value)
        entry = g.kernel(name, [entry, *(g.input(m) for m in more)], shape, **attrs)
        value = value.reshape(shape)
        if kind == "middle":
            entry, value = g.kernel("nn.relu", [entry], shape), np.maximum(value, 0)
        g.result(entry, value.astype("float32"))

g = case("dropout")
entry = g.kernel(
    "nn.dropout", [g.kernel("nn.relu", [g.input(X)], X.shape)], X.shape, X.shape, rate=0.5
)
g.result(g.kernel("tanh", [entry], X.shape), np.tanh(np.maximum(X, 0)))

g = case("reshapes_of_one_value")  # each of them an output, and the value itself
relu = g.kernel("nn.relu", [g.input(X)], X.shape)
flat = g.kernel("reshape", [relu], (192,))
again = g.kernel("expand_dims", [flat], (192, 1))
for entry, to in ((flat, (192,)), (again, (192, 1)), (relu, X.shape), (again, (192, 1))):
    g.result(entry, np.maximum(X, 0).reshape(to))


def summed(symbol: str, later: bool) -> None:
    """A convolution is added to a copy of a value; where that is read `later`, it must not be added
    in place."""
    g = case(symbol)
    x = floats(1, 16, 6, 6)
    entry, value = convolved(g, g.input(x), x)
    other = g.kernel("copy", [entry], x.shape)
    w, b = floats(16, 16, 3, 3) * np.float32(0.2), floats(16)
    inputs = [g.input(x), g.const(w), g.const(b), other]
    total = g.kernel("dnnl.conv2d_bias_sum", inputs, x.shape, **CONVOLUTION)
    y = ref.convolve(x, w, [1, 1], [1] * 4, [1, 1]) + b.reshape(-1, 1, 1) + value
    g.result(g.kernel("nn.relu", [total], x.shape), np.maximum(y, 0).astype("float32"))
    if later:
        g.result(g.kernel("tanh", [entry], x.shape), np.tanh(value).astype("float32"))


summed("sum_with_copy", False)
summed("sum_with_copy_read_later", True)

# ---- other orders of axes ----

for axes in ([0, 2, 3, 1], [3, 1, 0, 2], [-1, 0, 1, 2], None, []):
    for kind in ("input", "const", "middle", "last"):
        g = case(
            f"transpose_{'_'.join(map(str, axes)) if axes else axes is None}_{kind}".replace(
                "-", "m"
            )
        )
        data = floats(2, 16, 5, 6)
        entry, value = (g.const(data) if kind == "const" else g.input(data)), data.astype("float64")
        if kind in ("middle", "last"):
            entry, value = convolved(g, entry, value)
        value = value.transpose(axes or None)
        written = {"axes": "" if axes is None else axes}
        entry = g.kernel(
            "permute_dims" if kind == "last" else "transpose", [entry], value.shape, **written
        )
        if kind == "middle":
            entry, value = g.kernel("exp", [entry], value.shape), np.exp(value)
            entry = g.kernel("nn.batch_flatten", [entry], (len(value), value[0].size))
            value = value.reshape(len(value), -1)
        g.result(entry, value.astype("float32"))

g = case("transposed_weights")
data, w = floats(5, 8), floats(8, 7)
turned = g.kernel("transpose", [g.const(w)], (7, 8), axes=[1, 0])
g.result(g.kernel("nn.dense", [g.input(data), turned], (5, 7), units=7, out_dtype=""), data @ w)

# ---- one behind another ----

for axis in (0, 1, 2, -1):
    for count in (1, 2, 5, 40):
        g = case(f"concatenate_{axis % 9}_{count}")
        parts = [
            floats(*[2 + (i % 3) if k == axis % 3 else 4 for k in range(3)]) for i in range(count)
        ]
        entries = [g.const(p) if i % 2 else g.input(p) for i, p in enumerate(parts)]
        value = np.concatenate(parts, axis)
        named = "concat" if count == 5 else "concatenate"
        g.result(g.kernel(named, entries, value.shape, axis=axis), value)

g = case("concatenate_of_convolutions")  # as in networks with branches
x = floats(1, 16, 6, 6)
image = g.input(x)
branches = [convolved(g, image, x, outputs) for outputs in (16, 32, 8)]
value = np.concatenate([v for _, v in branches], 1)
joined = g.kernel("concatenate", [e for e, _ in branches], value.shape, axis=1)
joined, value = convolved(g, joined, value)
g.atol = 1e-5
g.result(joined, value.astype("float32"))

g = case("concatenate_twice_the_same")
entry = g.input(X)
g.result(g.kernel("concatenate", [entry, entry], (4, 16, 1, 6), axis=0), np.concatenate([X, X]))

g = case("concatenate_ints")
a, b = np.arange(12, dtype="int8").reshape(3, 4), np.arange(8, dtype="int8").reshape(2, 4)
joined = g.kernel("concatenate", [g.input(a), g.input(b)], (5, 4), dtype="int8", axis=0)
g.result(joined, np.concatenate([a, b]))


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export([g.module() for g in CASES.values()], tmp_path_factory.mktemp("shapes"))


@pytest.mark.parametrize("symbol", CASES)
def test_shape(symbol: str, lib: mblob.Module) -> None:
    CASES[symbol].check(lib)
    CASES[symbol].check(lib)


# ---- errors ----


def lie(
    name: str, shape: tuple[int, ...], *others: tuple[int, ...], **attrs: Any
) -> Callable[[str], Graph]:
    def make(symbol: str) -> Graph:
        g = Graph(symbol)
        inputs = [g.input(floats(2, 3, 4)), *(g.input(floats(*o)) for o in others)]
        return g.result(g.kernel(name, inputs, shape, **attrs), floats(*shape))

    return make


LIES: dict[str, tuple[Callable[[str], Graph], str]] = {
    "size": (
        lie("reshape", (5, 5)),
        r"the data is float32\[2, 3, 4\], which cannot be looked at as float32\[5, 5\]",
    ),
    "axes": (
        lie("transpose", (4, 3, 2), axes=[0, 0, 1]),
        "the attribute axes does not name each of 3 axes once",
    ),
    "axes_high": (
        lie("transpose", (4, 3, 2), axes=[0, 1, 3]),
        "the attribute axes does not name each",
    ),
    "axes_few": (
        lie("transpose", (4, 3, 2), axes=[0, 1]),
        "the attribute axes has 2 values, expected 3",
    ),
    "order": (lie("transpose", (2, 3, 4)), r"do not make float32\[2, 3, 4\]"),
    "axis": (
        lie("concatenate", (4, 3, 4), (2, 3, 4), axis=3),
        "the attribute axis is 3, and the data has 3 axes",
    ),
    "no_axis": (lie("concatenate", (4, 3, 4), (2, 3, 4)), "the attribute axis is missing"),
    "long": (
        lie("concatenate", (5, 3, 4), (2, 3, 4), axis=0),
        r"input 1 is float32\[2, 3, 4\], which does not fit",
    ),
    "short": (
        lie("concatenate", (3, 3, 4), (2, 3, 4), axis=0),
        "input 1 is .*, which does not fit axis 0",
    ),
    "other": (
        lie("concatenate", (4, 3, 4), (2, 3, 5), axis=0),
        r"input 1 is float32\[2, 3, 5\], which does not fit",
    ),
    "many": (
        lie("concatenate", (2050, 3, 4), *[(2, 3, 4)] * 1024, axis=0),
        "it has 1025 inputs, expected 1 to 1024",
    ),
    "mask": (
        lambda s: (g := Graph(s)).result(
            [g.kernel("nn.dropout", [g.input(X)], X.shape, X.shape, rate=0.5)[0], 1, 0], X
        ),
        "output 1 of node 1 `nn.dropout` is read, and never computed",
    ),
    "way": (
        lie(
            "image.resize1d",
            (2, 3, 8),
            layout="NCW",
            method="cubic",
            coordinate_transformation_mode="half_pixel",
        ),
        "oneDNN does not resize by method `cubic`, coordinates `half_pixel`",
    ),
    "factor": (
        lie(
            "image.resize1d",
            (2, 3, 6),
            layout="NCW",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
        ),
        "data and result differ in more than whole factors of 1 to 3 spatial axes",
    ),
    "channels": (
        lie(
            "image.resize1d",
            (2, 6, 4),
            layout="NCW",
            method="linear",
            coordinate_transformation_mode="half_pixel",
        ),
        "data and result differ in more than whole factors",
    ),
    "windows": (
        lambda s: (g := Graph(s)).result(
            g.kernel(
                "nn.adaptive_avg_pool1d",
                [g.input(floats(1, 2, 7))],
                (1, 2, 3),
                output_size=[3],
                layout="NCW",
            ),
            floats(1, 2, 3),
        ),
        "spatial axis 0 goes from 7 to 3: oneDNN has windows of one size only",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_lies(name: str, onednn: str, tmp_path: Path) -> None:
    g = LIES[name][0](name)
    lib = ref.export([g.module()], tmp_path)
    with pytest.raises(mblob.MblobError, match=LIES[name][1]) as caught:
        g.run(lib)
    assert "\n" not in str(caught.value)
    assert json.loads(g.text())["symbol"] == name
