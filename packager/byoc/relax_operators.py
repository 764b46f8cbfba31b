"""Relax's operators as code generators know them (`mblob.packager.byoc.operators`).

The names are Relay's, as in graphs: `relax.nn.conv2d` is `nn.conv2d`, and a `relax.matmul` with
constant weights is `nn.dense`, whose weights are the constant transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Optional

from mblob.packager.byoc.operators import Operator, Tensor
from mblob.packager.byoc.simplify import constant_tensor


def type_of(expression: Any) -> Any:
    """The type of a Relax expression: `ty` in TVM 0.27, `struct_info` before."""
    return expression.ty if hasattr(expression, "ty") else expression.struct_info


class Reader:
    """Makes the tensors of the expressions of a function, one for each, and operators over them."""

    def __init__(self) -> None:
        self._made: dict[Any, Tensor] = {}  # TVM compares variables by their object

    def tensor(self, expression: Any) -> Tensor | None:
        """The tensor of an expression; None if it is no tensor, or one of a shape that is not known."""
        if expression in self._made:
            return self._made[expression]
        kind = type_of(expression)
        extents = getattr(getattr(kind, "shape", None), "values", None)
        if extents is None or not all(hasattr(extent, "value") for extent in extents):
            return None
        if type(expression).__name__ in ("Constant", "GenericConst"):
            array = expression.value if hasattr(expression, "value") else expression.data
            made = constant_tensor("constant", array.numpy())
        else:
            name = getattr(expression, "name_hint", "value")
            made = Tensor(name, tuple(int(extent.value) for extent in extents), str(kind.dtype))
        self._made[expression] = made
        return made

    def bind(self, variable: Any, tensor: Tensor | None) -> None:
        """Let a variable stand for a tensor that is there."""
        if tensor is not None:
            self._made[variable] = tensor

    def operator(self, call: Any, result: Any = None) -> Operator | None:
        """A call as code generators see it; None if they have no word for it.

        Args:
            call: of an operator of Relax.
            result: the variable that it is bound to; None: only to look at.
        """
        rule = RULES.get(getattr(call.op, "name", ""))
        out = self.tensor(call if result is None else result)
        if rule is None or out is None:
            return None
        given = [a for arg in call.args[: rule.tensors] for a in getattr(arg, "fields", (arg,))]
        tensors = [t for t in map(self.tensor, given) if t is not None]
        made = rule.make(call, tensors, out) if len(tensors) == len(given) else None
        if made is None:
            return None
        op, attrs, inputs = made
        texts = {name: str(value) for name, value in attrs.items()}
        operator = Operator(out.name, op, op, texts, tuple(inputs), (out,))
        if result is not None:
            out.producer = operator
        return operator


# -- one function for each kind of operator --------------------------------------------------------

Made = Optional[tuple[str, dict[str, Any], Sequence[Tensor]]]  # operator, attributes, inputs
Make = Callable[[Any, Sequence[Tensor], Tensor], Made]


class Rule(NamedTuple):
    """The reading of an operator of Relax.

    Attributes:
        make: gets the call, its tensors, and the result; None: there is no word for it.
        arguments: of the call.
        tensors: how many of them are tensors, or a tuple of tensors; they come first.
    """

    make: Make
    arguments: int = 1
    tensors: int = 1


def _plain(op: str, *names: str) -> Make:
    """An operator whose attributes are those of Relax, by name."""

    def make(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        return op, {name: _value(getattr(call.attrs, name)) for name in names}, inputs

    return make


def _value(attribute: Any) -> Any:
    if isinstance(attribute, (str, bool)):
        return attribute
    return [int(i) for i in attribute] if hasattr(attribute, "__len__") else int(attribute)


def _layer(op: str) -> Make:
    """A convolution with constant weights."""
    names = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout")
    make = _plain(op, *names)

    def checked(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        same = call.attrs.out_layout in ("", call.attrs.data_layout)
        return make(call, inputs, out) if same and inputs[1].is_constant else None

    return checked


def _pool(op: str) -> Make:
    names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")
    make = _plain(op, *names, "count_include_pad")

    def checked(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        return make(call, inputs, out) if call.attrs.out_layout in ("", call.attrs.layout) else None

    return checked


def _matmul(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    data, weights = inputs
    if not weights.is_constant or len(weights.shape) != 2 or len(data.shape) < 2:
        return None
    return "nn.dense", {}, (data, constant_tensor(weights.name, weights.numpy().T))


def _reshape(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    return ("reshape", {}, inputs) if prod(inputs[0].shape) == prod(out.shape) else None


def _transpose(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    axes = call.attrs.axes
    order = range(len(out.shape))[::-1] if axes is None else axes
    return "transpose", {"axes": [int(axis) for axis in order]}, inputs


def _mean(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    """The mean over an image is a global pooling."""
    axes = sorted(int(axis) % len(inputs[0].shape) for axis in call.attrs.axis or ())
    if len(inputs[0].shape) != 4 or axes != [2, 3] or not call.attrs.keepdims:
        return None
    return "nn.global_avg_pool2d", {"layout": "NCHW"}, inputs


def _clip(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    limits = [getattr(limit, "value", None) for limit in call.args[1:]]
    low, high = (getattr(limit, "value", limit) for limit in limits)
    if low is None or high is None:
        return None
    return "clip", {"a_min": float(low), "a_max": float(high)}, inputs


def _resize(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    """The ways of oneDNN alone: see `csrc/plugins/dnnl/op_resize.c`."""
    attrs = call.attrs
    whole = all(a and b % a == 0 for a, b in zip(inputs[0].shape, out.shape))
    way = (attrs.method, attrs.coordinate_transformation_mode)
    nearest = way in (("nearest_neighbor", "asymmetric"), ("nearest_neighbor", "half_pixel"))
    if not (nearest and whole) and way != ("linear", "half_pixel"):
        return None
    return _plain("image.resize2d", "method", "coordinate_transformation_mode", "layout")(
        call, inputs, out
    )


RULES: dict[str, Rule] = {
    "relax.nn.conv1d": Rule(_layer("nn.conv1d"), 2, 2),
    "relax.nn.conv2d": Rule(_layer("nn.conv2d"), 2, 2),
    "relax.nn.conv2d_transpose": Rule(_layer("nn.conv2d_transpose"), 2, 2),
    "relax.matmul": Rule(_matmul, 2, 2),
    **{f"relax.{op}": Rule(_plain(op), 2, 2) for op in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum",
    )},
    **{f"relax.{op}": Rule(_plain(op)) for op in ("sigmoid", "tanh", "exp", "sqrt", "log", "abs")},
    "relax.nn.relu": Rule(_plain("nn.relu")),
    "relax.nn.softmax": Rule(_plain("nn.softmax", "axis")),
    "relax.nn.max_pool2d": Rule(_pool("nn.max_pool2d")),
    "relax.nn.avg_pool2d": Rule(_pool("nn.avg_pool2d")),
    "relax.mean": Rule(_mean),
    "relax.clip": Rule(_clip, 3),
    "relax.reshape": Rule(_reshape, 2),
    "relax.permute_dims": Rule(_transpose),
    "relax.concat": Rule(_plain("concatenate", "axis")),
    "relax.image.resize2d": Rule(_resize, 2),
}  # fmt: skip
