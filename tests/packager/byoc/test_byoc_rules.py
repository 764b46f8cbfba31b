"""Rules by which operators of a region become those that engines compute at once, on regions made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mblob
from mblob.packager.byoc.operators import Operator, Tensor, constant_tensor
from mblob.packager.byoc.quantized import quantized
from mblob.packager.byoc.simplify import simplified, untangled


class Region:
    """Operators that are made one after the other."""

    def __init__(self, *shape: int) -> None:
        self.x = Tensor("x", shape, "float32")
        self.operators: list[Operator] = []

    def __call__(
        self, op: str, *inputs: Tensor, shape: tuple[int, ...] = (), **attrs: str
    ) -> Tensor:
        out = Tensor(f"t{len(self.operators)}", shape or inputs[0].shape, "float32")
        made = Operator(out.name, op, op, attrs, inputs, (out,))
        out.producer = made
        self.operators.append(made)
        return out

    def ops(self, *outputs: Tensor) -> list[str]:
        return [o.op for o in simplified(self.operators, outputs)]


def number(value: float) -> Tensor:
    return constant_tensor("c", np.float32(value).reshape(()))


def dense(region: Region) -> Tensor:
    return region(
        "nn.dense", region.x, constant_tensor("w", np.ones((3, 4), np.float32)), shape=(2, 3)
    )


def channels(*values: float) -> Tensor:
    return constant_tensor("v", np.array(values, np.float32))


def test_arithmetic_with_channels_is_folded_in_its_order() -> None:
    region = Region(2, 4)
    moved = region("add", channels(1, 2, 3), dense(region), shape=(2, 3))
    scaled = region("divide", region("multiply", moved, number(2)), channels(1, 4, 8))
    out = region("subtract", scaled, number(1))
    (layer,) = simplified(region.operators, [out])
    assert layer.outputs == (out,) and layer.op == "nn.dense"
    assert layer.inputs[1].numpy().tolist() == [[2.0] * 4, [0.5] * 4, [0.25] * 4]
    assert layer.inputs[2].numpy().tolist() == [1.0, 0.0, -0.25]


@pytest.mark.parametrize(
    "why", ["used twice", "returned", "zero", "infinite", "spread", "reversed", "integers"]
)
def test_arithmetic_is_not_folded_where_it_would_be_seen(why: str) -> None:
    region = Region(2, 4)
    layer = dense(region)
    outputs = []
    if why == "spread":
        outputs.append(region("add", layer, constant_tensor("v", np.ones((2, 1), np.float32))))
    elif why == "integers":
        outputs.append(region("add", layer, constant_tensor("v", np.ones(3, np.int32))))
    elif why == "reversed":
        outputs.append(region("subtract", channels(1, 1, 1), layer, shape=(2, 3)))
    else:
        by = {"zero": 0.0, "infinite": float("inf")}.get(why, 2.0)
        outputs.append(region("divide", layer, channels(1, by, 1)))
    if why == "used twice":
        outputs.append(region("tanh", layer))
    if why == "returned":
        outputs.append(layer)
    left = simplified(region.operators, outputs)
    assert left[0].op == "nn.dense" and len(left[0].inputs) == 2 and len(left) > 1


def test_a_power_of_one_is_a_line_and_other_powers_have_the_shape_of_their_data() -> None:
    region = Region(5)
    assert region.ops(region("power", region.x, number(1))) == ["linear"]
    region = Region(5)
    assert region.ops(region("power", region.x, number(2))) == ["pow"]
    two = constant_tensor("c", np.full((1, 1), 2, np.float32))
    spread = region("power", region.x, two, shape=(1, 5))
    assert not mblob.byoc.dnnl.runs(region.operators[-1]) and spread.shape == (1, 5)


def test_lines_are_put_together_unless_somebody_needs_what_is_between() -> None:
    region = Region(5)
    half = region("divide", region.x, number(2))
    out = region("subtract", region("multiply", number(3), half, shape=(5,)), number(1))
    (line,) = simplified(region.operators, [out])
    assert line.op == "linear" and (line.number("alpha"), line.number("beta")) == (1.5, -1.0)
    region = Region(5)
    half = region("multiply", region.x, number(0.5))
    assert region.ops(half, region("add", half, number(1))) == ["linear", "linear"]
    region = Region(5)
    assert region.ops(region("divide", region.x, number(0))) == ["divide"]
    region = Region(5)
    assert region.ops(region("subtract", number(1), region.x)) == ["subtract"]


@pytest.mark.parametrize("three, high, factor", [(3, 6, 6), (2, 6, 6), (3, 5, 6), (3, 6, 5)])
def test_a_hardswish_has_these_numbers_and_no_others(
    three: float, high: float, factor: float
) -> None:
    region = Region(5)
    low = region("maximum", region("add", region.x, number(three)), number(0))
    gate = region("minimum", low, number(high))
    out = region("divide", region("multiply", region.x, gate), number(factor))
    found = region.ops(out)
    if (three, high, factor) == (3, 6, 6):
        assert found == ["hardswish"]
    else:
        assert found == ["linear", "clip", "multiply", "linear"]


@pytest.mark.parametrize("factor, folded", [(0.3, True), (1e-7, False), (1e6, False)])
def test_weights_in_halves_are_scaled_unless_that_loses_more_than_a_rounding(
    factor: float, folded: bool
) -> None:
    region = Region(2, 4)
    out = region("multiply", dense(region), channels(1, factor, 1))
    layer = region.operators[0]
    weights = layer.inputs[1].numpy().astype("float16")
    weights[:, 0] = 6e-8  # beside large ones it may become 0
    layer.inputs = (layer.inputs[0], constant_tensor("w", weights))
    found = simplified(region.operators, [out])
    assert len(found) == (1 if folded else 2) and found[0].inputs[1].dtype == "float16"
    assert np.isfinite(found[0].inputs[1].numpy()).all()


@pytest.mark.parametrize("factor, found", [(1, ["silu"]), (2, ["linear", "sigmoid", "multiply"])])
def test_a_silu_may_have_a_factor_of_one(factor: float, found: list[str]) -> None:
    region = Region(5)
    gate = region("sigmoid", region("multiply", region.x, number(factor)))
    assert region.ops(region("multiply", region.x, gate)) == found


def test_a_gate_of_another_value_is_no_hardswish() -> None:
    region = Region(5)
    other = Tensor("y", (5,), "float32")
    gate = region("clip", region("add", region.x, number(3)), a_min="0", a_max="6")
    out = region("divide", region("multiply", other, gate), number(6))
    assert region.ops(out) == ["linear", "clip", "multiply", "linear"]


# -- transposed convolutions -----------------------------------------------------------------------


def transposed(region: Region, shape: tuple[int, ...], bias: bool = True, **attrs: str) -> Tensor:
    """A transposed convolution of 4 to 3 channels; the kernel is 2x3, as are its strides."""
    rng = np.random.default_rng(3)
    given = [constant_tensor("w", rng.standard_normal((4, 3, 2, 3)).astype("float32"))]
    given += [channels(1, 2, 3)] * bias
    attrs = {
        "strides": "[2, 3]", "padding": "[0, 0, 0, 0]", "dilation": "[1, 1]", "groups": "1",
        "data_layout": "NCHW", "kernel_layout": "IOHW", **attrs,
    }  # fmt: skip
    return region("nn.conv2d_transpose", region.x, *given, shape=shape, **attrs)


def computed(operators: list[Operator], x: np.ndarray, out: Tensor) -> np.ndarray:
    """What operators of 1x1, relu and shape give."""
    known = {id(operators[0].inputs[0]): x}
    for o in operators:
        data = known[id(o.inputs[0])]
        if o.op == "nn.conv2d":
            assert (o.text("strides"), o.text("kernel_layout")) == ("[1, 1]", "OIHW")
            made = np.einsum("oi,nihw->nohw", o.inputs[1].numpy()[:, :, 0, 0], data)
            made = made + sum(t.numpy().reshape(1, -1, 1, 1) for t in o.inputs[2:])
        elif o.op == "transpose":
            made = data.transpose(o.ints("axes"))
        elif o.op == "reshape":
            made = data.reshape(o.outputs[0].shape)
        else:
            made = np.tanh(data) if o.op == "tanh" else np.maximum(data, 0)
        assert made.shape == o.outputs[0].shape and o.outputs[0].producer is o
        known[id(o.outputs[0])] = made
    return known[id(out)]


@pytest.mark.parametrize("bias", [True, False])
def test_a_transposed_convolution_that_makes_tiles_becomes_one_of_1x1(bias: bool) -> None:
    region = Region(2, 4, 3, 5)
    out = region("tanh", region("nn.relu", transposed(region, (2, 3, 6, 15), bias)))
    weights = region.operators[0].inputs[1].numpy()
    x = np.random.default_rng(4).standard_normal(region.x.shape).astype("float32")
    found = untangled(region.operators, [out])
    assert [o.op for o in found[:3]] == ["nn.conv2d", "nn.relu", "tanh"]  # fused, not behind
    tiles = np.einsum("nihw,iokl->nohkwl", x, weights).reshape(out.shape)
    if bias:
        tiles = tiles + np.array([1, 2, 3]).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(
        computed(found, x, out), np.tanh(np.maximum(tiles, 0)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "shape, attrs",
    [
        ((2, 3, 6, 10), {"strides": "[2, 2]"}),
        ((2, 3, 4, 15), {"padding": "[1, 0, 1, 0]"}),
        ((2, 3, 7, 15), {}),  # output_padding
        ((2, 3, 7, 18), {"dilation": "[2, 2]"}),
        ((2, 6, 6, 15), {"groups": "2"}),
        ((2, 6, 15, 3), {"data_layout": "NHWC"}),
    ],
)
def test_transposed_convolutions_whose_tiles_overlap_or_have_gaps_stay(
    shape: tuple[int, ...], attrs: dict[str, str]
) -> None:
    region = Region(2, 4, 3, 5)
    out = transposed(region, shape, **attrs)
    assert untangled(region.operators, [out]) == region.operators
    assert region.operators[0].op == "nn.conv2d_transpose"


def test_a_result_that_is_needed_between_is_made_before_the_activation() -> None:
    region = Region(2, 4, 3, 5)
    between = transposed(region, (2, 3, 6, 15))
    out = region("nn.relu", between)
    found = untangled(region.operators, [between, out])
    assert found[-1].inputs == (between,) and found[-2].outputs == (between,)


# -- quantized layers ------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["zero points", "not constant", "axis", "used twice"])
def test_layers_whose_zero_points_or_scales_do_not_allow_it_are_computed_in_float32(
    why: str,
) -> None:
    region = Region(1, 2, 4, 4)
    region.x.dtype = "uint8"

    def back(x: Tensor, scale: Any, zero: Any, axis: int) -> Tensor:
        parts = [constant_tensor("s", np.float32(scale)), constant_tensor("z", zero)]
        return region("dequantize", x, *parts, axis=str(axis))

    data = back(region.x, 0.5, np.uint8(3), 1)
    scale, axis = ([0.1, 0.2], 1) if why == "axis" else ([0.1, 0.2, 0.3], 0)
    zero = np.int8([0, 1, 0]) if why == "zero points" else np.zeros(len(scale), "int8")
    whole = Tensor("w", (3, 2, 1, 1), "int8")
    if why != "not constant":
        whole = constant_tensor("w", np.ones((3, 2, 1, 1), "int8"))
    conv = region(
        "nn.conv2d", data, back(whole, scale, zero, axis), shape=(1, 3, 4, 4),
        padding="[0, 0, 0, 0]", kernel_layout="OIHW", data_layout="NCHW",
    )  # fmt: skip
    out = region("nn.relu", conv)
    left = quantized(region.operators, [out, conv] if why == "used twice" else [out])
    names = [o.op for o in left]
    if why == "used twice":
        assert names == ["dnnl.qnn.conv2d", "nn.relu"]  # without what others need, too
    else:
        assert names == [
            "dequantize",
            *["dequantize"] * (why == "not constant"),
            "nn.conv2d",
            "nn.relu",
        ]


@pytest.mark.parametrize(
    ("limits", "zero", "left"),
    [
        ((0.0, 6.0), 0, ["quantize"]),  # as quantizers choose steps for relu6
        ((-1.0, 6.1), 0, ["quantize"]),
        ((0.0, 6.0), 1, ["clip", "quantize"]),  # step -1 is below 0
        ((0.0, 5.9), 0, ["clip", "quantize"]),
        ((0.1, 6.0), 0, ["clip", "quantize"]),
        ((), 0, ["quantize"]),
        ((), 3, ["nn.relu", "quantize"]),
        ((float("nan"), 6.0), 0, ["clip", "quantize"]),
    ],
)
def test_limits_that_quantizing_has_anyway_are_left_out(
    limits: tuple[float, ...], zero: int, left: list[str]
) -> None:
    attrs = {name: repr(limit) for name, limit in zip(("a_min", "a_max"), limits)}
    for also_needed in (False, True):
        region = Region(2, 4)
        data = region("clip" if limits else "nn.relu", region.x, **attrs)
        out = region(
            "quantize", data, number(6 / 255), constant_tensor("z", np.uint8([zero])), axis="0"
        )
        out.dtype = "uint8"
        found = quantized(region.operators, [out, data] if also_needed else [out])
        assert len(found) == 2 if also_needed else [o.op for o in found] == left
        x = region.x if len(left) == 1 and not also_needed else data
        assert found[-1].inputs[0] is x


def test_a_constant_that_is_also_needed_outside_stays_an_output() -> None:
    region = Region(2, 4)
    parts = [constant_tensor("s", np.float32([0.1])), constant_tensor("z", np.int8([0]))]
    whole = constant_tensor("w", np.ones((4, 3), "int8"))
    weights = region("dequantize", whole, *parts, axis="0")
    turned = region("transpose", weights, shape=(3, 4), axes="[1, 0]")
    out = region("nn.matmul", region.x, weights, shape=(2, 3))
    left = quantized(region.operators, [weights, turned, out])
    assert [o.outputs[0] for o in left] == [weights, turned, out]
    assert left[2].op == "nn.dense" and not weights.is_constant


@pytest.mark.parametrize("scale", [0.0, 1e-40, 1e38, float("inf"), float("nan"), 0.5])
def test_a_layer_whose_scales_or_bias_are_no_numbers_in_integers_is_computed_in_float32(
    scale: float,
) -> None:
    region = Region(2, 4)
    region.x.dtype = "uint8"
    zero, ones = constant_tensor("z", np.uint8([9])), np.ones((3, 4), "int8")
    data = region("dequantize", region.x, constant_tensor("s", np.float32([2])), zero, axis="0")
    scales = [
        constant_tensor("s", np.float32([1, scale, 1])),
        constant_tensor("z", np.zeros(3, "int8")),
    ]
    weights = region("dequantize", constant_tensor("w", ones), *scales, axis="0")
    layer = region("nn.dense", data, weights, shape=(2, 3))
    out = region("quantize", region("add", layer, channels(1, 2, 3)), number(0.1), zero, axis="0")
    names = [o.op for o in quantized(region.operators, [out])]
    of_integers = {0.5: ["dnnl.qnn.dense"], 1e38: ["dnnl.qnn.dense", "quantize"]}
    assert names == of_integers.get(scale, ["dequantize", "nn.dense", "add", "quantize"])
