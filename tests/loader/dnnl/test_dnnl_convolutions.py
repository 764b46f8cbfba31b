"""Convolutions and transposed ones with what TVM's DNNL code generator fuses behind them, on
oneDNN, against numpy."""

from __future__ import annotations

from typing import Any

import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import Graph, arrange, floats

pytestmark = pytest.mark.own_process

CASES = ref.Cases()


def each(value: int | tuple[int, ...], axes: int) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value] * axes


def convolution(
    symbol: str,
    axes: int = 2,
    *,
    name: str = "",
    data: tuple[int, int] = (2, 8),
    extent: int | tuple[int, ...] = 9,
    outputs: int = 16,
    kernel: int | tuple[int, ...] = 3,
    stride: int = 1,
    pad: tuple[int | tuple[int, ...], int | tuple[int, ...]] = (1, 1),
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    layout: str = "",
    kernel_layout: str = "",
    out_layout: str = "",
    bias: tuple[int, ...] = (),
    total: bool = False,
    activation: str = "",
    weights: str = "const",
) -> None:
    """A case: `bias` is its shape, `total` adds another tensor, `activation` follows. Tuples are
    for each axis."""
    letters, wletters = ref.DATA[axes], ref.KERNEL[axes]
    layout = layout or letters
    padding, dilated = each(pad[0], axes) + each(pad[1], axes), each(dilation, axes)
    g = Graph(symbol)
    x = floats(*data, *each(extent, axes))
    w = floats(outputs, data[1] // groups, *each(kernel, axes))
    grouped = w.reshape(groups, outputs // groups, *w.shape[1:]) if "G" in kernel_layout else w
    written = arrange(
        grouped, ("G" if "G" in kernel_layout else "") + wletters, kernel_layout or wletters
    )
    y = ref.convolve(x, w, [stride] * axes, padding, dilated, groups)
    inputs = [
        g.input(arrange(x, letters, layout)),
        g.const(written) if weights == "const" else g.input(written),
    ]
    attrs: dict[str, Any] = {}
    if bias:
        b = floats(outputs)
        inputs.append(g.const(b.reshape(bias)))
        y = y + b.reshape(-1, *[1] * axes)
    if total:
        other = floats(*y.shape)
        inputs.append(g.input(arrange(other, letters, out_layout or layout)))
        y = y + other
    attrs = {**attrs, **ref.ACTIVATION_ATTRS.get(activation, {})}
    if activation:
        y = ref.ACTIVATIONS[activation](y)
    y = arrange(y.astype("float32"), letters, out_layout or layout)
    suffix = (
        ("_bias" if bias else "")
        + ("_sum" if total else "")
        + (f"_{activation}" if activation else "")
    )
    entry = g.kernel(
        name or (f"dnnl.conv{axes}d{suffix}" if suffix else f"nn.conv{axes}d"),
        inputs,
        y.shape,
        strides=[stride] * axes,
        padding=padding,
        dilation=dilated,
        groups=groups,
        channels="",
        kernel_size="",
        data_layout=layout,
        kernel_layout=kernel_layout or wletters,
        out_layout=out_layout,
        out_dtype="",
        **attrs,
    )
    g.atol = 1e-5
    CASES.add(g.result(entry, y))


for n in (1, 2, 3):
    convolution(f"conv{n}d", n)
    convolution(f"conv{n}d_input_weights", n, weights="input")
    for act in ("", *ref.ACTIVATIONS):
        convolution(f"conv{n}d_bias_{act}", n, bias=(16, *[1] * n), activation=act)
    for act in ref.ACTIVATIONS:
        convolution(f"conv{n}d_{act}", n, activation=act)
    convolution(f"conv{n}d_groups", n, groups=4, bias=(16,))
    convolution(f"conv{n}d_depthwise", n, groups=8, outputs=8)
    convolution(f"conv{n}d_strided", n, stride=2, pad=(0, 1), dilation=2, kernel=2)
convolution("conv2d_bias_sum", bias=(16, 1, 1), total=True)
convolution("conv2d_bias_sum_relu", bias=(1, 16, 1, 1), total=True, activation="relu")
convolution("conv2d_nhwc", layout="NHWC", kernel_layout="HWIO", bias=(16,))
convolution(
    "conv2d_nhwc_sum",
    layout="NHWC",
    kernel_layout="HWIO",
    bias=(16,),
    total=True,
    activation="relu",
)
convolution("conv2d_nhwc_groups", layout="NHWC", kernel_layout="HWIO", groups=2)
convolution("conv2d_out_layout", layout="NCHW", out_layout="NHWC", bias=(16,))
for symbol, more in {
    "column": {"kernel": (5, 1), "pad": ((2, 0), (1, 0)), "dilation": (2, 1)},
    "column_sum": {"kernel": (5, 1), "pad": ((0, 0), (0, 0)), "bias": (16, 1, 1), "total": True},
    "column_padded": {"kernel": 3, "pad": (1, 1), "groups": 4, "bias": (16,), "activation": "relu"},
    "column_strided": {"kernel": (3, 1), "pad": ((1, 0), (1, 0)), "stride": 2, "weights": "input"},
    "column_nhwc": {"layout": "NHWC", "kernel_layout": "HWIO"},
}.items():
    convolution(f"conv2d_{symbol}", extent=(19, 1), **more)  # type: ignore[arg-type]
convolution("conv2d_ohwi", layout="NHWC", kernel_layout="OHWI")
convolution("conv2d_goihw", groups=4, kernel_layout="GOIHW")
convolution(
    "conv2d_blocked",
    data=(1, 32),
    outputs=32,
    layout="NCHW16c",
    kernel_layout="OIHW16i16o",
    bias=(32,),
    activation="relu",
)
convolution(
    "conv2d_blocked8",
    data=(1, 16),
    outputs=16,
    layout="NCHW8c",
    kernel_layout="OIHW8i8o",
    total=True,
    bias=(16,),
)
convolution(
    "conv2d_blocked_first",
    data=(1, 3),
    outputs=16,
    layout="NCHW",
    out_layout="NCHW8c",
    kernel_layout="OHWI8o",
)
convolution("conv2d_rounded", data=(1, 16), outputs=20, out_layout="NCHW", kernel_layout="OHWI16o")
convolution("conv2d_rounded_both", data=(1, 3), outputs=20, kernel_layout="OIHW16i16o")
convolution(
    "conv2d_depthwise_blocked",
    data=(1, 16),
    outputs=16,
    groups=16,
    kernel_layout="GOIHW8g",
    layout="NCHW8c",
)
convolution("conv3d_ndhwc", 3, layout="NDHWC", kernel_layout="DHWIO", extent=5)
convolution("conv1d_nwc", 1, layout="NWC", kernel_layout="WIO")

# Sums where a window has no data under it: oneDNN 2.6.3 ends the process or computes them wrong
# when they are fused.
for form in ((), (16,)):
    for act in ("", *ref.ACTIVATIONS):
        named = f"{act}_{len(form)}"
        convolution(
            f"empty_row_{named}",
            data=(2, 16),
            extent=8,
            kernel=(1, 3),
            bias=form,
            total=True,
            activation=act,
        )
        convolution(
            f"empty_plane_{named}",
            3,
            data=(2, 3),
            extent=(8, 6, 6),
            kernel=(1, 1, 3),
            pad=((1, 0, 0), (1, 1, 0)),
            bias=form,
            total=True,
            activation=act,
        )
convolution("empty_at_the_end", kernel=1, pad=(0, (2, 0)), total=True, activation="relu")
convolution("empty_by_stride", kernel=2, stride=3, pad=((3, 0), 1), total=True, activation="tanh")
convolution(
    "empty_between", extent=(2, 8), dilation=(4, 1), kernel=(2, 3), pad=((4, 1), (4, 1)), total=True
)
convolution("empty_1d", 1, kernel=1, total=True, activation="relu")
convolution("empty_groups", groups=4, kernel=1, bias=(16,), total=True, activation="relu")
convolution(
    "empty_blocked",
    data=(1, 16),
    layout="NCHW8c",
    kernel_layout="OIHW8i8o",
    kernel=1,
    bias=(16,),
    total=True,
    activation="clip",
)
convolution(
    "empty_nhwc",
    layout="NHWC",
    kernel_layout="HWIO",
    kernel=1,
    bias=(16,),
    total=True,
    activation="relu",
)


def transposed(
    symbol: str,
    axes: int = 2,
    *,
    name: str = "",
    kernel_layout: str = "",
    layout: str = "",
    groups: int = 1,
    stride: int = 2,
    extra: int = 0,
    bias: bool = False,
    activation: str = "",
    old: bool = False,
    ins: int = 8,
    outs: int = 12,
) -> None:
    letters = ref.DATA[axes]
    wletters = "IO" + letters[2:]
    g = Graph(symbol, json_symbol=not old)
    x, w = floats(1, ins, *[5] * axes), floats(ins, outs // groups, *[3] * axes)
    y = ref.transposed(x, w, [stride] * axes, [1] * 2 * axes, [1] * axes, groups, [extra] * axes)
    inputs = [
        g.input(arrange(x, letters, layout or letters)),
        g.const(arrange(w, wletters, kernel_layout or wletters) if not old else w),
    ]
    if bias:
        b = floats(outs)
        inputs.append(g.const(b.reshape(outs, *[1] * axes)))
        y = y + b.reshape(-1, *[1] * axes)
    if activation:
        y = ref.ACTIVATIONS[activation](y)
    y = arrange(y.astype("float32"), letters, layout or letters)
    suffix = ("_bias" if bias else "") + (f"_{activation}" if activation else "")
    entry = g.kernel(
        f"dnnl.deconv{axes}d{suffix}" if suffix else f"nn.conv{axes}d_transpose",
        inputs,
        y.shape,
        strides=[stride] * axes,
        padding=[1] * 2 * axes,
        dilation=[1] * axes,
        output_padding=[extra] * axes,
        groups=groups,
        channels=outs,
        kernel_size=[3] * axes,
        data_layout=layout or letters,
        kernel_layout="OI" + letters[2:] if old else kernel_layout or wletters,
        out_layout="",
        out_dtype="",
    )
    g.atol = 1e-5
    CASES.add(g.result(entry, y))


for n in (1, 2, 3):
    transposed(f"deconv{n}d", n)
    transposed(f"deconv{n}d_groups", n, groups=4)
    for act in ("", "relu", "tanh", "gelu"):
        transposed(f"deconv{n}d_bias_{act}", n, bias=True, activation=act)
transposed("deconv2d_output_padding", extra=1)
transposed("deconv2d_oihw", kernel_layout="OIHW")
transposed("deconv2d_nhwc", layout="NHWC", kernel_layout="HWOI")
transposed("deconv2d_old", old=True)
transposed("deconv2d_old_square", old=True, ins=8, outs=8)


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export([g.module() for g in CASES.values()], tmp_path_factory.mktemp("convolutions"))


@pytest.mark.parametrize("symbol", CASES)
def test_convolution(symbol: str, lib: mblob.Module) -> None:
    CASES[symbol].check(lib)


def test_calls_repeat(lib: mblob.Module) -> None:
    graph = CASES["conv2d_bias_sum_relu"]
    first = graph.run(lib)[0]
    assert all((first == graph.run(lib)[0]).all() for _ in range(3))
