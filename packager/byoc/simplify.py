"""Operators of a region that an engine computes at once, found in the arithmetic that frontends write.

A batch norm is a subtraction, division, product and sum for each channel: `fold_channels` makes them
weights and bias of the layer in front. `activations.py` finds what is written out of operators of one
element. `untangled` is for engines that are slow at transposed convolutions.
Sums are made in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mblob.packager.byoc.activations import FLOATS, is_float, name_activations, needed, users_of
from mblob.packager.byoc.operators import Open, Operator, Tensor, constant_tensor

_TRANSPOSED = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
_LAYERS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", *_TRANSPOSED, "nn.dense")
_OF_ONE_ELEMENT = (
    "nn.relu", "nn.leaky_relu", "sigmoid", "tanh", "clip", "hardswish", "silu", "gelu", "gelu_tanh",
    "elu", "mish", "linear", "exp", "log", "sqrt", "abs",
)  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply", "divide")


def simplified(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators of a region, with as few of them as these rules make.

    Args:
        operators: in an order in which they can run; they are changed.
        outputs: what others use of them.
    """
    fold_channels(operators, outputs)
    name_activations(operators, outputs)
    return needed(operators, outputs)


# -- weights ---------------------------------------------------------------------------------------


def fold_channels(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> None:
    """Make arithmetic with one constant for each channel, behind a layer of constant weights, part
    of its weights and bias."""
    users = users_of(operators)
    kept = {id(t) for t in outputs}
    for layer in operators:
        if layer.op in _LAYERS and len(layer.inputs) == 2 and is_float(layer.inputs[1]):
            followers = [*_followers(layer, users, kept)]
            if followers:
                _fold(layer, followers)


def _channels(layer: Operator) -> tuple[int, int]:
    """The axes of the channels: of the result, and of the weights."""
    if layer.op == "nn.dense":
        return -1, 0
    return layer.text("data_layout").index("C"), layer.text("kernel_layout").index("O")


def _followers(
    layer: Operator, users: dict[int, list[Operator]], kept: set[int]
) -> Iterator[tuple[Operator, Any]]:
    """The operators behind a layer that can be folded, each with its constant as a vector."""
    import numpy as np

    axis, along = _channels(layer)
    if layer.op in _TRANSPOSED and layer.integer("groups", 1) != 1:
        return
    result = layer.outputs[0]
    wanted = [1] * len(result.shape)
    wanted[axis] = layer.inputs[1].shape[along]
    while id(result) not in kept and len(users.get(id(result), ())) == 1:
        (user,) = users[id(result)]
        if user.op not in _ARITHMETIC or user.outputs[0].shape != result.shape:
            return
        first, second = user.inputs
        other = second if first is result else first
        if not is_float(other) or (first is not result and user.op in ("subtract", "divide")):
            return
        number = other.numpy().astype(np.float64)
        shape = [1] * (len(wanted) - number.ndim) + list(number.shape)
        if number.size != 1 and shape != wanted:
            return
        if not np.isfinite(number).all() or (user.op == "divide" and not number.all()):
            return
        yield user, np.broadcast_to(number.reshape(-1), wanted[axis])
        result = user.outputs[0]


def _fold(layer: Operator, followers: Sequence[tuple[Operator, Any]]) -> None:
    import numpy as np

    _, along = _channels(layer)
    weights = layer.inputs[1].numpy().astype(np.float64)
    spread = [-1 if axis == along else 1 for axis in range(weights.ndim)]
    bias = np.zeros(weights.shape[along])
    for user, number in followers:
        if user.op in ("add", "subtract"):
            bias = bias + (number if user.op == "add" else -number)
        else:
            factor = number if user.op == "multiply" else 1 / number
            weights, bias = weights * factor.reshape(spread), bias * factor
    kind = layer.inputs[1].numpy().dtype
    with np.errstate(over="ignore"):
        rounded = [weights.astype(kind), bias.astype(kind)]
    if kind.itemsize < 4 and not (
        _keeps(weights, rounded[0], along) and _keeps(bias[None], rounded[1], 0)
    ):
        return
    last = followers[-1][0]
    layer.name, layer.outputs = last.name, last.outputs
    layer.outputs[0].producer = layer
    name = layer.inputs[1].name
    made = [constant_tensor(name, rounded[0])]
    if any(user.op in ("add", "subtract") for user, _ in followers):
        made.append(constant_tensor(f"{name}.bias", rounded[1]))
    layer.inputs = (layer.inputs[0], *made)
    for user, _ in followers:
        user.outputs = ()  # nobody needs it


def _keeps(numbers: Any, rounded: Any, along: int) -> bool:
    """True if float16 or bfloat16 changed numbers by less than it rounds the largest of each channel: a
    small one may be subnormal, and none infinite."""
    import numpy as np

    others = tuple(axis for axis in range(numbers.ndim) if axis != along)
    largest = np.abs(numbers).max(others, keepdims=True)
    apart = np.abs(rounded.astype(np.float64) - numbers)
    return bool((apart <= FLOATS[str(rounded.dtype)] * largest).all())


# -- transposed convolutions -----------------------------------------------------------------------


def untangled(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators, with a convolution of 1x1 and a change of shape in place of a transposed
    convolution whose kernel is its stride: each element of the data makes a tile of the result.

    Operators of one element that follow come before the change of shape, where engines fuse them.
    """
    users, kept = users_of(operators), {id(t) for t in outputs}
    behind: dict[int, Sequence[Operator]] = {}
    for layer in operators:
        if not _makes_tiles(layer):
            continue
        chain = [layer]
        while id(chain[-1].outputs[0]) not in kept:
            following = users.get(id(chain[-1].outputs[0]), ())
            if len(following) != 1 or following[0].op not in _OF_ONE_ELEMENT:
                break
            chain.append(following[0])
        behind[id(chain[-1])] = _untangle(chain)
    return [made for o in operators for made in (o, *behind.get(id(o), ()))]


def _makes_tiles(o: Operator) -> bool:
    if o.op != "nn.conv2d_transpose" or not o.inputs[1].is_constant:
        return False
    layouts = (o.text("data_layout"), o.text("kernel_layout"))
    if layouts != ("NCHW", "IOHW") or o.integer("groups", 1) != 1:
        return False
    kernel, image, result = (t.shape[2:] for t in (o.inputs[1], o.inputs[0], o.outputs[0]))
    return (
        not any(isinstance(extent, Open) for extent in o.inputs[0].shape)
        and o.ints("strides", (1, 1), 2) == kernel != (1, 1)
        and not any(o.ints("padding", (0,)))
        and o.ints("dilation", (1, 1), 2) == (1, 1)
        and result == tuple(a * b for a, b in zip(image, kernel))  # no output_padding
    )


def _untangle(chain: Sequence[Operator]) -> list[Operator]:
    """Make the first operator a convolution whose channels are the elements of a tile; what puts
    the tiles behind the last.

    Channels of a pixel lie side by side meanwhile, so that rows of tiles are copied as they are.
    """
    import numpy as np

    layer, result = chain[0], chain[-1].outputs[0]
    weights = layer.inputs[1].numpy()
    inputs, channels, height, width = weights.shape
    batch, _, rows, columns = layer.inputs[0].shape
    size = height * width * channels
    by_tile = weights.transpose(2, 3, 1, 0).reshape(size, inputs, 1, 1)
    bias = [constant_tensor(t.name, np.tile(t.numpy(), height * width)) for t in layer.inputs[2:]]
    layer.inputs = (layer.inputs[0], constant_tensor(layer.inputs[1].name, by_tile), *bias)
    layer.op = "nn.conv2d"
    layer.attrs = {**layer.attrs, "strides": "[1, 1]", "kernel_layout": "OIHW"}
    data = Tensor(f"{layer.name}.tiles", (batch, size, rows, columns), result.dtype, None, layer)
    layer.outputs = (data,)
    for o in chain[1:]:
        o.inputs = (data,)
        data = Tensor(f"{o.name}.tiles", data.shape, data.dtype, None, o)
        o.outputs = (data,)
    made: list[Operator] = []
    for axes, shape in (
        ((0, 2, 3, 1), (batch, rows, columns, size)),
        ((), (batch, rows, columns, height, width, channels)),
        ((0, 1, 3, 2, 4, 5), (batch, rows, height, columns, width, channels)),
        ((), (batch, rows * height, columns * width, channels)),
        ((0, 3, 1, 2), result.shape),
    ):
        op, attrs = ("transpose", {"axes": str([*axes])}) if axes else ("reshape", {})
        out = Tensor(f"{result.name}.{len(made)}", shape, result.dtype)
        if len(made) == 4:
            out = result
        out.producer = Operator(out.name, op, op, attrs, (data,), (out,))
        made.append(out.producer)
        data = out
    return made
