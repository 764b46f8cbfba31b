"""Operators of Relax modules that TVM's own code generator for oneDNN does not have: products with any number of
axes, reductions, norms over several axes, and more functions of one element."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import Graph, floats

pytestmark = pytest.mark.own_process
CASES = ref.Cases()
X = floats(2, 6, 4, 3)


def product(symbol: str, left: Any, right: Any, name: str = "nn.matmul", **more: Any) -> None:
    """`constant`: the second factor is one. `bias`, `summand`: behind it. `of`: how its axes lie."""
    g = Graph(symbol)
    y = left.astype("float64") @ right
    inputs = [g.input(left), g.const(right) if more.get("constant") else g.input(right)]
    for part in ("bias", "summand"):
        if part in more:
            value = floats(*(y.shape[-1:] if part == "bias" else y.shape))
            inputs.append(g.const(value) if part == "bias" else g.input(value))
            y = y + value
    y = more.get("of", lambda x: x)(y)
    attrs = more.get("attrs", {})
    CASES.add(g.result(g.kernel(name, inputs, y.shape, **attrs), y.astype("float32")))


product("matmul", floats(5, 7), floats(7, 3))
product("matmul_4d", floats(2, 3, 5, 7), floats(2, 3, 7, 4))
product("matmul_spread", floats(2, 1, 5, 7), floats(3, 7, 4))
product("matmul_2d_second", floats(2, 3, 5, 7), floats(7, 4))
product("matmul_2d_first", floats(5, 7), floats(2, 3, 7, 4))
product("matmul_constant", floats(3, 5, 7), floats(3, 7, 4), constant=True)
product("matmul_bias", floats(3, 5, 7), floats(3, 7, 4), "dnnl.matmul_bias", bias=True)
product(
    "matmul_sum_gelu", floats(2, 3, 5, 7), floats(2, 3, 7, 4), "dnnl.matmul_bias_sum_gelu",
    bias=True, summand=True, of=ref.ACTIVATIONS["gelu"],
)  # fmt: skip
product(
    "matmul_linear", floats(2, 5, 7), floats(2, 7, 4), "dnnl.matmul_linear",
    of=lambda y: y * 0.25 + 1, attrs={"alpha": 0.25, "beta": 1},
)  # fmt: skip


def product_behind_layer() -> Graph:
    """The convolution chooses a format of blocks, in which a product is slow."""
    g = Graph("product_behind_layer")
    x, w, right = floats(1, 8, 6, 6), floats(16, 8, 3, 3), floats(1, 16, 6, 5)
    y = ref.convolve(x, w, [1, 1], [1] * 4, [1, 1])
    made = g.kernel("nn.conv2d", [g.input(x), g.const(w)], y.shape, **ref.CONVOLUTION)
    y = y @ right
    return g.result(g.kernel("nn.matmul", [made, g.input(right)], y.shape), y.astype("float32"))


CASES.add(product_behind_layer())


def attention() -> Graph:
    """The keys are a view of other axes, and nobody copies them but oneDNN."""
    g = Graph("attention")
    q, k, v = floats(2, 5, 3, 8), floats(2, 6, 3, 8), floats(2, 6, 3, 8)
    turned = [
        g.kernel("transpose", [g.input(t)], np.transpose(t, axes).shape, axes=axes)
        for t, axes in ((q, (0, 2, 1, 3)), (k, (0, 2, 3, 1)), (v, (0, 2, 1, 3)))
    ]
    scores = np.einsum("bqhd,bkhd->bhqk", q, k, dtype="float64") / 4
    e = np.exp(scores - scores.max(-1, keepdims=True))
    y = np.einsum("bhqk,bkhd->bhqd", e / e.sum(-1, keepdims=True), v)
    made = g.kernel("dnnl.matmul_linear", turned[:2], scores.shape, alpha=0.25, beta=0)
    made = g.kernel("nn.softmax", [made], scores.shape, axis=-1)
    made = g.kernel("nn.matmul", [made, turned[2]], y.shape)
    return g.result(made, y.astype("float32"))


CASES.add(attention())


def one(symbol: str, name: str, value: Any, wanted: Any, *more: Any, **attrs: Any) -> None:
    g = Graph(symbol)
    inputs = [g.input(value), *map(g.const, more)]
    CASES.add(g.result(g.kernel(name, inputs, wanted.shape, **attrs), wanted.astype("float32")))


one("elu", "elu", X, np.where(X > 0, X, 1.5 * np.expm1(X)), alpha=1.5)
one("gelu_tanh", "gelu_tanh", X,
    X / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X.astype("float64") ** 3))))  # fmt: skip
one("pow", "pow", np.abs(X) + np.float32(0.5), (np.abs(X) + 0.5) ** 1.5, exponent=1.5)
one("pow_of_negative", "pow", X, X**2, exponent=2)
for at, slope in ((1, floats(6)), (1, floats(1)), (-1, floats(3)), (0, floats(2))):
    spread = slope.reshape([-1 if i == at % 4 else 1 for i in range(4)])
    one(
        f"prelu_{at % 4}_{slope.size}",
        "nn.prelu",
        X,
        np.where(X > 0, X, X * spread),
        slope,
        axis=at,
    )
W = floats(6, 4, 3, 3)
for name, function, attrs in (
    ("elu", lambda y: np.where(y > 0, y, 0.5 * np.expm1(y)), {"alpha": 0.5}),
    ("leaky_relu", lambda y: np.where(y > 0, y, 0.1 * y), {"alpha": 0.1}),
    ("silu", lambda y: y * ref.sigmoid(y), {}),
    ("gelu_tanh", lambda y: y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3))), {}),
):
    data = floats(1, 4, 6, 6)
    made = function(ref.convolve(data, W, [1, 1], [1] * 4, [1, 1]))
    one(f"conv2d_{name}", f"dnnl.conv2d_{name}", data, made, W, **{**ref.CONVOLUTION, **attrs})

for kind, reduce in (("mean", np.mean), ("sum", np.sum), ("max", np.max), ("min", np.min)):
    for axes, keep in (((-1,), True), ((1,), False), ((0, 1, 2, 3), False), ((2, 3), False)):
        one(f"{kind}_{'_'.join(map(str, axes)).replace('-', 'm')}_{keep:d}", kind, X,
            np.asarray(reduce(X, axis=axes, keepdims=keep)), axis=axes)  # fmt: skip
one("mean_of_one", "mean", floats(2, 1, 3), np.zeros((2, 3)), axis=[1])
CASES["mean_of_one"].expected = [CASES["mean_of_one"].inputs[0].reshape(2, 3)]

for dtype in ("uint8", "int8"):
    limits = np.iinfo(dtype)
    scale, zero = (
        np.abs(floats(1, 6, 1, 1)) / 40 + np.float32(0.01),
        np.float32([3]).reshape(1, 1, 1, 1),
    )
    steps = np.clip(np.rint(X / scale) + 3, limits.min, limits.max).astype(dtype)
    g = Graph(f"quantize_{dtype}")
    inputs = [g.input(X), g.const(scale), g.const(zero)]
    CASES.add(g.result(g.kernel("quantize", inputs, X.shape, dtype=dtype), steps))
    one(
        f"dequantize_{dtype}",
        "dequantize",
        steps,
        (steps.astype("float32") - 3) * scale,
        scale,
        zero,
    )

graph = Graph("quantize_ties")  # an odd zero point, which is added behind the rounding to even
halves = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
operands = [graph.input(halves), graph.const(np.ones(1, "float32")), graph.const(np.float32([3]))]
CASES.add(graph.result(
    graph.kernel("quantize", operands, (6,), dtype="int8"), (np.rint(halves) + 3).astype("int8")
))  # fmt: skip

# ---- results rounded to steps ----

SCALE, ZERO = np.float32(0.13), 11


def steps_of(y: Any, low: int = -ZERO, high: int = 255 - ZERO) -> Any:
    return np.clip(np.rint(y.astype("float32") / SCALE), low, high)


def rounded(
    symbol: str, name: str, y: Any, *inputs: Any, dtype: str = "float32", **attrs: Any
) -> None:
    """One kernel whose result is rounded; of bytes, where `dtype` says so. The second input is a constant."""
    g = Graph(symbol, rtol=0, atol=1e-6)
    sent = [g.input(inputs[0]), *map(g.const, inputs[1:])]
    attrs["quantize_scale"] = repr(float(SCALE))
    if dtype == "float32":
        attrs |= {"quantize_min": -ZERO, "quantize_max": 255 - ZERO}
        wanted = (steps_of(y) * SCALE).astype("float32")
    else:
        attrs["quantize_zero"] = ZERO
        limits = np.iinfo(dtype)
        wanted = (steps_of(y, limits.min - ZERO, limits.max - ZERO) + ZERO).astype(dtype)
    CASES.add(g.result(g.kernel(name, sent, y.shape, dtype=dtype, **attrs), wanted))


BETWEEN = (
    np.rint(X * 50) + np.float32(0.3)
) * SCALE  # no tie, and steps on both sides of the limits
TIES = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]) * np.float32(2)
rounded("steps", "fake_quantize", BETWEEN, BETWEEN)
for dtype in ("float32", "uint8", "int8"):
    rounded(f"steps_relu_{dtype}", "nn.relu", np.maximum(BETWEEN, 0), BETWEEN, dtype=dtype)
    rounded(f"steps_tanh_{dtype}", "tanh", np.tanh(X), X, dtype=dtype)
    other = np.float32([1, 2, -3]) * SCALE
    rounded(f"steps_add_{dtype}", "add", BETWEEN + other, BETWEEN, other, dtype=dtype)
bits = np.random.default_rng(4).integers(-3, 4, (16, 6, 3, 3)).astype("float32")
layer = ref.convolve(np.rint(X * 4), bits, [1, 1], [1] * 4, [1, 1]).astype("float32")
rounded(
    "steps_conv2d",
    "dnnl.conv2d_relu",
    np.maximum(layer, 0),
    np.rint(X * 4),
    bits,
    **ref.CONVOLUTION,
)
rows = np.rint(X[..., 0, 0] * 9)
rounded("steps_dense", "nn.dense", rows @ bits[:, :, 0, 0].T, rows, bits[:, :, 0, 0].copy())


# Two channels behind a layer: a format of blocks, which has elements that nobody reads.
graph = Graph("steps_of_blocks", rtol=0, atol=1.01 / 255)
few = floats(2, 6, 3, 3)
behind = 1 / (1 + np.exp(-ref.convolve(X, few, [1, 1], [1] * 4, [1, 1])))
made = graph.kernel(
    "nn.conv2d", [graph.input(X), graph.const(few)], behind.shape, **ref.CONVOLUTION
)
made = graph.kernel(
    "sigmoid", [made], behind.shape, dtype="uint8", quantize_scale=repr(1 / 256), quantize_zero=3
)
CASES.add(graph.result(made, np.clip(np.rint(behind * 256) + 3, 0, 255).astype("uint8")))


def of_turned_blocks(symbol: str, dtype: str) -> None:
    """A layer's result, transposed: its blocks are of another axis than channels are."""
    g = Graph(symbol, rtol=0, atol=1e-6)
    x, w = np.rint(floats(2, 6, 7, 5) * 4), np.rint(floats(8, 6, 3, 3) * 2)
    y = ref.convolve(x, w, [1, 1], [1] * 4, [1, 1]).astype("float32")
    made = g.kernel("nn.conv2d", [g.input(x), g.const(w)], y.shape, **ref.CONVOLUTION)
    y = y.transpose(0, 2, 3, 1)
    made = g.kernel("transpose", [made], y.shape, axes=(0, 2, 3, 1))
    if dtype == "float32":
        limits = {"quantize_min": -ZERO, "quantize_max": 255 - ZERO}
        wanted = (steps_of(y) * SCALE).astype(dtype)
    else:
        limits = {"quantize_zero": ZERO}
        wanted = (steps_of(y) + ZERO).astype(dtype)
    made = g.kernel(
        "fake_quantize", [made], y.shape, dtype=dtype, quantize_scale=repr(float(SCALE)), **limits
    )
    CASES.add(g.result(made, wanted))


for dtype in ("float32", "uint8"):
    of_turned_blocks(f"steps_of_turned_blocks_{dtype}", dtype)


def with_zero(symbol: str, data: str, zero: int, dtype: str, groups: int = 1) -> None:
    """A layer of bytes with a zero point and padding: what lies at the borders is 0, not the zero point."""
    random = np.random.default_rng(9)
    info = np.iinfo(data)
    x = random.integers(info.min, info.max, (2, 8, 5, 6), endpoint=True).astype(data)
    w = random.integers(-30, 30, (8, 8 // groups, 3, 3)).astype("int8")
    wide = x.astype("float64") - zero
    parts = [
        ref.convolve(a, b, [1, 1], [1] * 4, [1, 1])
        for a, b in zip(np.split(wide, groups, 1), np.split(w, groups))
    ]
    y = np.concatenate(parts, 1) * np.float32(0.01)
    g = Graph(symbol, rtol=1e-6, atol=1e-6)
    sent = [g.input(x), g.const(w), g.const(np.float32([0.01])), g.const(np.int32([zero]))]
    attrs: dict[str, Any] = {**ref.CONVOLUTION, "groups": groups, "o_scl_idx": 2, "src_zp_idx": 3}
    if dtype == "uint8":
        sent.append(g.const(np.float32([100])))
        attrs["dst_zp_idx"] = 4
        y, g.atol = np.clip(np.rint(y + 100), 0, 255), 1.01 / 255
    entry = g.kernel("dnnl.qnn.conv2d", sent, y.shape, dtype=dtype, **attrs)
    CASES.add(g.result(entry, y.astype(dtype)))


for data, zero in (("uint8", 128), ("uint8", 3), ("int8", -7)):
    for dtype in ("float32", "uint8"):
        with_zero(f"zero_{data}_{zero}_{dtype}".replace("-", "m"), data, zero, dtype)
with_zero("zero_groups", "uint8", 100, "float32", groups=4)
with_zero("zero_depthwise", "uint8", 100, "float32", groups=8)

flat = X.reshape(2, 6, -1).astype("float64")
normal = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
gamma, beta = floats(4, 3), floats(4, 3)
one("layer_norm_two_axes", "nn.layer_norm", X, normal.reshape(X.shape) * gamma + beta, gamma, beta,
    axis=2, trailing=True, epsilon=1e-5, center=True, scale=True)  # fmt: skip
one("layer_norm_alone", "nn.layer_norm", X, normal.reshape(X.shape),
    axis=2, trailing=True, epsilon=1e-5, center=False, scale=False)  # fmt: skip


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export([g.module() for g in CASES.values()], tmp_path_factory.mktemp("relax"))


def test_a_product_behind_a_convolution_does_not_run_in_reference_code(lib: mblob.Module) -> None:
    case = CASES["product_behind_layer"]
    case.run(lib)
    module = next(
        m for m in lib.walk() if m.type_key == "dnnl_json" and m.implements_function(case.symbol)
    )
    told = json.loads(module["get_primitives"]())
    assert not [row for row in told if "ref" in row["implementation"]], told


@pytest.mark.parametrize("symbol", CASES)
def test_operator(symbol: str, lib: mblob.Module) -> None:
    CASES[symbol].check(lib)


# ---- what is wrong ----


def shape_of_result(*shape: int) -> Callable[[dict[str, Any]], Any]:
    return lambda node: node["attrs"].update(shape=[[shape]])


LIES: dict[str, tuple[str, Callable[[dict[str, Any]], Any], str]] = {
    "product": ("matmul_4d", shape_of_result(2, 3, 5, 5),
                r"operands float32\[2, 3, 5, 7\] and float32\[2, 3, 7, 4\] do not give float32\[2, 3, 5, 5\]"),
    "flat": ("matmul", shape_of_result(15), "an operand has 2 axes, and the result 1"),
    "slope": ("prelu_1_6", lambda node: node["attrs"].update(axis=[["2"]]),
              r"the slope is float32\[6\], and there are 4 channels"),
    "axis": ("mean_1_0", lambda node: node["attrs"].update(axis=[["4"]]),
             "the attribute axis is 4, and the data has 4 axes"),
    "reduced": ("mean_1_0", shape_of_result(2, 6, 4), "mean over these axes of .* does not make"),
    "many": ("mean_1_0", lambda node: node["attrs"].update(axis=[["1"] * 13]), "has 13 values"),
    "spread": ("quantize_int8", shape_of_result(2, 6, 4, 4), "input 0 is .* which cannot be spread to"),
    "two": ("quantize_int8", lambda node: node["inputs"].pop(), "it has 2 inputs, expected 3"),
    "exponent": ("pow", lambda node: node["attrs"].pop("exponent"), "exponent is missing"),
    "no step": ("steps", lambda node: node["attrs"].update(quantize_scale=[["-0.5"]]),
                "the attribute quantize_scale is -0.5, expected a positive number"),
    "no steps": ("steps", lambda node: node["attrs"].pop("quantize_scale"), "the attribute quantize_scale is missing"),
    "no limit": ("steps", lambda node: node["attrs"].pop("quantize_max"), "the attribute quantize_max is missing"),
    "no zero": ("steps_relu_int8", lambda node: node["attrs"].pop("quantize_zero"), "quantize_zero is missing"),
    "clipped twice": ("steps_conv2d", lambda node: node.update(name="dnnl.conv2d_clip") or node["attrs"].update(
        a_min=[["0"]], a_max=[["6"]]), "the same function is fused twice"),
    "zero of data": ("zero_groups", lambda node: node["attrs"].update(src_zp_idx=[["2"]]),
                     "the zero point of the data is 0.01, expected a byte, and data of bytes"),
    "no zero point": ("zero_groups", lambda node: node["attrs"].update(src_zp_idx=[["0"]]),
                      "the zero point of the data is not a constant"),
    "trailing": ("layer_norm_alone", lambda node: node["attrs"].update(trailing=[["2"]]),
                 "trailing is 2, expected 0 or 1"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_is_wrong_is_named(onednn: str, tmp_path: Any, lie: str) -> None:
    symbol, change, said = LIES[lie]
    case = CASES[symbol]
    graph = json.loads(case.text())
    change(graph["nodes"][-1])
    lib = ref.export([case.module(json.dumps(graph))], tmp_path)
    with pytest.raises(mblob.MblobError, match=said):
        case.run(lib)
