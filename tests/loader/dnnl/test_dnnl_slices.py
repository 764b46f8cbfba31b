"""Parts of tensors on oneDNN, against numpy: where they are looked at in place, and where they are copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Array, Entry, Graph, floats

pytestmark = pytest.mark.own_process

CASES = ref.Cases()
Part = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def taken(g: Graph, entry: Entry, value: Array, part: Part) -> tuple[Entry, Array]:
    """A slice of axes, from `begin`, `counts` elements, each `strides` from the one before."""
    axes, begin, counts, strides = part
    index = [slice(None)] * value.ndim
    for axis, first, count, step in zip(axes, begin, counts, strides):
        index[axis] = slice(first, first + (count - 1) * step + 1, step)
    found = np.ascontiguousarray(value[tuple(index)])
    attrs: dict[str, Any] = {"axes": axes, "begin": begin}
    if any(step != 1 for step in strides):
        attrs["strides"] = strides
    return g.kernel("strided_slice", [entry], found.shape, **attrs), found


def convolved(g: Graph, entry: Entry, value: Array, channels: int) -> tuple[Entry, Array]:
    w = floats(channels, value.shape[1], 3, 3) * 0.2
    y = ref.convolve(value, w, [1, 1], [1] * 4, [1, 1]).astype("float32")
    return g.kernel("nn.conv2d", [entry, g.const(w)], y.shape, **CONVOLUTION), y


SHAPES: dict[str, tuple[tuple[int, ...], Part]] = {
    "begin": ((4, 6), ((0,), (0,), (2,), (1,))),
    "end": ((4, 6), ((0,), (3,), (1,), (1,))),
    "columns": ((4, 6), ((1,), (2,), (3,), (1,))),
    "one_element": ((4, 6), ((0, 1), (2, 3), (1, 1), (1, 1))),
    "one_row": ((4, 6, 5), ((0, 1), (2, 1), (1, 4), (1, 1))),
    "steps": ((4, 6), ((0, 1), (1, 0), (2, 3), (2, 2))),
    "steps_of_one": ((4, 6), ((0,), (1,), (1,), (7,))),
    "steps_of_one_column": ((4, 6), ((1,), (2,), (1,), (7,))),
    "all": ((4, 6), ((), (), (), ())),
    "vector": ((9,), ((0,), (2,), (3,), (3,))),
    "many_axes": ((2, 1, 3, 2, 1, 4), ((2, 5), (1, 1), (2, 2), (1, 2))),
}
for name, (shape, part) in SHAPES.items():
    graph = Graph(f"slice_{name}")
    data = floats(*shape)
    CASES.add(graph.result(*taken(graph, graph.input(data), data, part)))
    graph = Graph(f"constant_{name}")
    data = floats(*shape)
    entry, y = taken(graph, graph.const(data), data, part)
    x = floats(*y.shape)
    made = graph.kernel("add", [graph.input(x), entry], y.shape)
    CASES.add(graph.result(made, x + y))


def layers(symbol: str, batch: int, channels: int, part: Part, outputs: bool = False) -> None:
    """A convolution, a part of its result, a convolution, and the sum of that and a part."""
    g = Graph(symbol, atol=1e-4, rtol=1e-4)
    x = floats(batch, 3, 6, 6)
    whole, y = convolved(g, g.input(x), x, channels)
    cut, z = taken(g, whole, y, part)
    after, u = convolved(g, cut, z, z.shape[1])
    total = g.kernel("add", [after, cut], u.shape)
    gate = g.kernel("nn.relu", [cut], z.shape)
    g.result(total, u + z)
    g.result(gate, np.maximum(z, 0))
    if outputs:
        g.result(cut, z)
        g.result(whole, y)
    CASES.add(g)


for count in (1, 2):
    layers(f"blocks_first_{count}", count, 32, ((1,), (0,), (16,), (1,)))
    layers(f"blocks_second_{count}", count, 32, ((1,), (16,), (16,), (1,)), True)
    layers(f"blocks_last_{count}", count, 34, ((1,), (32,), (2,), (1,)))
    layers(f"part_of_a_block_{count}", count, 32, ((1,), (0,), (4,), (1,)))
    layers(f"between_blocks_{count}", count, 32, ((1,), (8,), (16,), (1,)), True)
    layers(f"rows_{count}", count, 32, ((2,), (1,), (4,), (1,)))
    layers(f"focus_{count}", count, 16, ((2, 3), (1, 0), (3, 3), (2, 2)))
layers("images", 3, 32, ((0,), (1,), (2,), (1,)), True)
layers("blocks_of_an_image", 3, 32, ((0, 1), (2, 16), (1, 16), (1, 1)))


def chained(symbol: str) -> None:
    """A part of a part, in another shape, as an output; and a sum that must not be made in the data."""
    g = Graph(symbol, atol=1e-4, rtol=1e-4)
    x = floats(1, 3, 6, 6)
    whole, y = convolved(g, g.input(x), x, 64)
    half, a = taken(g, whole, y, ((1,), (32,), (32,), (1,)))
    quarter, b = taken(g, half, a, ((1,), (16,), (16,), (1,)))
    row = g.kernel("reshape", [quarter], (16, 36), newshape=[16, 36])
    first, c = taken(g, row, b.reshape(16, 36), ((0,), (3,), (1,), (1,)))
    summed, d = convolved(g, quarter, b, 16)
    w = floats(16, 16, 3, 3) * 0.2
    d = (ref.convolve(d, w, [1, 1], [1] * 4, [1, 1]) + b).astype("float32")
    bias = g.const(np.zeros(16, "float32"))
    summed = g.kernel(
        "dnnl.conv2d_bias_sum", [summed, g.const(w), bias, quarter], d.shape, **CONVOLUTION
    )
    g.result(first, c).result(summed, d).result(half, a)
    CASES.add(g)


chained("chained")


def reduced(symbol: str, name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Sums whose axes are not the last ones."""
    g = Graph(symbol)
    x = floats(*shape)
    y = getattr(np, name)(x, axes, keepdims=True)
    CASES.add(g.result(g.kernel(name, [g.input(x)], y.shape, axis=list(axes), keepdims=True), y))


for kind in ("sum", "mean", "max", "min"):
    reduced(f"{kind}_first", kind, (5, 4, 3), (0,))
    reduced(f"{kind}_middle", kind, (2, 40, 3, 33), (1,))
    reduced(f"{kind}_two", kind, (2, 5, 3, 7), (0, 2))
    reduced(f"{kind}_of_one", kind, (2, 1, 3, 7), (1, 3))


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export([g.module() for g in CASES.values()], tmp_path_factory.mktemp("slices"))


@pytest.mark.parametrize("symbol", CASES)
def test_parts_are_those_of_numpy(symbol: str, lib: mblob.Module) -> None:
    CASES[symbol].check(lib)
    CASES[symbol].check(lib)


# ---- damage ----


def lie(shape: tuple[int, ...], **attrs: Any) -> Callable[[str], mblob.Module]:
    def make(symbol: str) -> mblob.Module:
        g = Graph(symbol)
        x = floats(4, 6)
        entry = g.kernel("strided_slice", [g.input(x)], shape, **attrs)
        return g.result(entry, floats(*shape)).module()

    return make


LIES = {
    "behind": (lie((2, 6), axes=[0], begin=[3]), "do not make float32"),
    "far": (lie((1, 6), axes=[0], begin=[2147483647]), "do not make float32"),
    "steps": (lie((2, 6), axes=[0], begin=[0], strides=[4]), "do not make float32"),
    "huge_steps": (
        lie((3, 6), axes=[0], begin=[1], strides=[2147483647]), "do not make float32",
    ),
    "rank": (lie((2,), axes=[0], begin=[0]), "do not make float32"),
    "axis": (lie((2, 6), axes=[2], begin=[0]), "names axis 2 of 2 axes"),
    "twice": (lie((2, 6), axes=[0, 0], begin=[0, 0]), "names axis 0 of 2 twice"),
    "axes": (lie((2, 6), axes=[0, 1, 0], begin=[0, 0, 0]), "names 3 axes of 2"),
    "counts": (lie((2, 6), axes=[0], begin=[0, 0]), "begin has 2 values, expected 1"),
    "negative": (lie((2, 6), axes=[0], begin=[-1]), "begin is -1, expected 0 to"),
    "no_step": (lie((2, 6), axes=[0], begin=[0], strides=[0]), "strides is 0, expected 1 to"),
    "no_begin": (lie((2, 6), axes=[0]), "the attribute begin is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_parts_that_are_not_in_the_data_are_refused(
    name: str, onednn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make, text = LIES[name]
    lib = ref.export([make(name)], tmp_path_factory.mktemp("lies"))
    with pytest.raises(mblob.MblobError, match=text):
        lib[name](floats(4, 6), floats(2, 6))
