"""Relax's operators as code generators know them (`mblob.packager.byoc.operators`).

The names are Relay's, as in graphs: `relax.nn.conv2d` is `nn.conv2d`, and a `relax.matmul` with
constant weights is `nn.dense`, whose weights are the constant transposed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from random import Random
from typing import Any, NamedTuple, Optional

from mblob.packager.byoc.operators import STAND_IN, Open, Operator, Tensor, constant_tensor


def type_of(expression: Any) -> Any:
    """The type of a Relax expression: `ty` in TVM 0.27, `struct_info` before."""
    return expression.ty if hasattr(expression, "ty") else expression.struct_info


def numbers_of(fields: Any) -> list[int] | None:
    """The numbers of a tuple of them; None if one is not known."""
    try:
        return [int(getattr(field, "value", field)) for field in fields.fields]
    except (TypeError, ValueError):
        return None


class Reader:
    """Makes the tensors of the expressions of a function, one for each, and operators over them.

    Args:
        extents: what variables of TVM's shapes are, if tensors may have extents that only a call
            tells.
        inner: all variables are in `extents`, or come by `bind`.
    """

    def __init__(self, extents: dict[Any, int] | None = None, inner: bool = False) -> None:
        self._made: dict[Any, Tensor] = {}  # TVM compares variables by their object
        self._extents, self._inner = extents, inner

    def tensor(self, expression: Any) -> Tensor | None:
        """The tensor of an expression; None if it is no tensor, or one of a shape that is not known."""
        if expression in self._made:
            return self._made[expression]
        kind = type_of(expression)
        values = getattr(getattr(kind, "shape", None), "values", None)
        extents = [self.extent(value) for value in values] if values is not None else [None]
        if None in extents:
            return None
        if type(expression).__name__ in ("Constant", "GenericConst"):
            array = expression.value if hasattr(expression, "value") else expression.data
            made = constant_tensor("constant", array.numpy())
        else:
            name = getattr(expression, "name_hint", "value")
            made = Tensor(name, tuple(e for e in extents if e is not None), str(kind.dtype))
        self._made[expression] = made
        return made

    def extent(self, value: Any) -> int | None:
        """An extent: a number, a variable, or a computation; None if it is none that engines know."""
        kind = type(value).__name__
        if kind == "IntImm":
            return int(value.value)
        if self._extents is None:
            return None
        if kind in ("Var", "SizeVar"):
            if value not in self._extents and not self._inner:
                self._extents[value] = _open(value.name, self._extents)
            return self._extents.get(value)
        if kind not in _COMPUTED:
            return None
        sign, compute = _COMPUTED[kind]
        parts = [self.extent(part) for part in (value.a, value.b)]
        if parts[0] is None or parts[1] is None or (kind.startswith("Floor") and parts[1] == 0):
            return None
        texts = [part.text if isinstance(part, Open) else str(part) for part in parts]
        made = compute(parts[0], parts[1])
        return Open(made, " ".join((*texts, sign))) if made >= STAND_IN else None

    def bind(self, variable: Any, tensor: Tensor | None) -> None:
        """Let a variable stand for a tensor that is there, and those in its shape for its extents."""
        if tensor is None:
            return
        self._made[variable] = tensor
        values = getattr(getattr(type_of(variable), "shape", None), "values", None) or ()
        self.bind_extents(values, tensor.shape)

    def bind_extents(self, values: Sequence[Any], extents: Sequence[int | None]) -> None:
        """Let variables of a shape stand for extents that are there."""
        for value, extent in zip(values, extents):
            is_variable = type(value).__name__ in ("Var", "SizeVar")
            if self._extents is not None and is_variable and extent is not None:
                self._extents.setdefault(value, extent)

    def inner(self) -> Reader:
        """The reader of a function that is called, whose variables are its own."""
        return Reader(None if self._extents is None else {}, inner=True)

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
        if self._extents is None and op in _WITH_WEIGHTS and not inputs[1].is_constant:
            return None
        texts = {name: str(value) for name, value in attrs.items()}
        operator = Operator(out.name, op, op, texts, tuple(inputs), (out,))
        if result is not None:
            out.producer = operator
        return operator


_WITH_WEIGHTS = tuple(
    f"nn.conv{axes}d{kind}" for axes in (1, 2, 3) for kind in ("", "_transpose")
)  # of which engines of users get those with constants

_COMPUTED: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "Add": ("+", lambda a, b: a + b), "Sub": ("-", lambda a, b: a - b),
    "Mul": ("*", lambda a, b: a * b), "FloorDiv": ("/", lambda a, b: a // b),
    "Min": ("<", min), "Max": (">", max),
}  # fmt: skip


def _open(name: str, others: Mapping[Any, int]) -> Open:
    """A variable of TVM, with a name of its own."""
    used = {extent.text for extent in others.values() if isinstance(extent, Open)}
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "n"
    word = word if word[0].isalpha() or word[0] == "_" else f"n{word}"
    free = next(w for w in (word, *(f"{word}_{i}" for i in range(len(used) + 1))) if w not in used)
    # Large, and such that no small computation with two of them gives a third.
    return Open((1 << 80) + Random(free).getrandbits(79), free)


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
    if hasattr(attribute, "__len__"):
        return [int(i) for i in attribute]
    return attribute if isinstance(attribute, float) else int(attribute)


def _layer(op: str) -> Make:
    """A convolution with constant weights."""
    names = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout")
    make = _plain(op, *names)

    def checked(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        same = call.attrs.out_layout in ("", call.attrs.data_layout)
        return make(call, inputs, out) if same else None

    return checked


def _pool(op: str) -> Make:
    names = ("pool_size", "strides", "padding", "dilation", "ceil_mode", "layout")
    make = _plain(op, *names, "count_include_pad")

    def checked(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        attrs = call.attrs
        counted = "avg" in op and attrs.count_include_pad and attrs.ceil_mode
        if attrs.out_layout not in ("", attrs.layout) or (
            counted and _reaches_out(call, inputs, out)
        ):
            return None
        return make(call, inputs, out)

    return checked


def _reaches_out(call: Any, inputs: Sequence[Tensor], out: Tensor) -> bool:
    """True if the last window ends behind the padding, which engines count and TVM does not."""
    attrs, axes = call.attrs, len(call.attrs.pool_size)
    first = str(attrs.layout).index("W") - axes + 1
    if any(isinstance(extent, Open) for extent in out.shape):
        return True
    for i in range(axes):
        room = inputs[0].shape[first + i] + int(attrs.padding[i]) + int(attrs.padding[axes + i])
        reach = (int(attrs.pool_size[i]) - 1) * int(attrs.dilation[i]) + 1
        if (out.shape[first + i] - 1) * int(attrs.strides[i]) + reach > room:
            return True
    return False


def _matmul(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    data, weights = inputs
    if min(len(data.shape), len(weights.shape)) < 2:
        return None
    if not weights.is_constant or len(weights.shape) != 2:
        return "nn.matmul", {}, inputs
    return "nn.dense", {}, (data, constant_tensor(weights.name, weights.numpy().T))


def _reshape(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    return ("reshape", {}, inputs) if prod(inputs[0].shape) == prod(out.shape) else None


def _transpose(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    axes = call.attrs.axes
    order = range(len(out.shape))[::-1] if axes is None else axes
    return "transpose", {"axes": [int(axis) for axis in order]}, inputs


def _slice(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    """Of axes whose extents are known."""
    lists = [numbers_of(fields) for fields in call.args[1:]]
    axes, begin, end, steps = lists if len(lists) == 4 else [None] * 4
    if axes is None or begin is None or end is None or steps is None:
        return None
    shape = [*inputs[0].shape]
    first: list[int] = []
    for axis, at, behind, step in zip(axes, begin, end, steps):
        extent = shape[axis]
        if isinstance(extent, Open) or step < 1:
            return None
        at, behind = (min(max(i + extent if i < 0 else i, 0), extent) for i in (at, behind))
        first.append(at)
        shape[axis] = -(-(behind - at) // step)
        if step > 1 < shape[axis] and shape[axis] * step > extent:
            return None  # oneDNN takes it for elements that overlap
    attrs = {"axes": [a % len(shape) for a in axes], "begin": first, "strides": steps}
    return ("strided_slice", attrs, inputs) if tuple(shape) == out.shape else None


def _reduction(op: str) -> Make:
    def make(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
        """The mean over an image is a global pooling."""
        rank, given = len(inputs[0].shape), call.attrs.axis
        axes = sorted(int(axis) % rank for axis in (range(rank) if given is None else given))
        keep = bool(call.attrs.keepdims)
        if op == "mean" and rank == 4 and axes == [2, 3] and keep:
            return "nn.global_avg_pool2d", {"layout": "NCHW"}, inputs
        return (op, {"axis": axes, "keepdims": keep}, inputs) if axes else None

    return make


def _layer_norm(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    """Over the last axes: `trailing`, if there are more than one."""
    rank, attrs = len(out.shape), call.attrs
    axes = sorted(int(axis) % rank for axis in attrs.axes)
    if axes != [*range(rank - len(axes), rank)]:
        return None
    made = _plain("nn.layer_norm", "epsilon", "center", "scale")(call, inputs, out)
    assert made is not None
    made[1].update(axis=axes[0], **({"trailing": True} if len(axes) > 1 else {}))
    return made


def _clip(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    limits = [getattr(limit, "value", None) for limit in call.args[1:]]
    low, high = (getattr(limit, "value", limit) for limit in limits)
    if low is None or high is None:
        return None
    return "clip", {"a_min": float(low), "a_max": float(high)}, inputs


def _resize(call: Any, inputs: Sequence[Tensor], out: Tensor) -> Made:
    """The ways of oneDNN alone: see `csrc/plugins/dnnl/operators/op_resize.c`."""
    attrs = call.attrs
    whole = all(a and b % a == 0 for a, b in zip(inputs[0].shape, out.shape))
    way = (attrs.method, attrs.coordinate_transformation_mode)
    rounding = str(attrs.rounding_method)
    nearest = way == ("nearest_neighbor", "asymmetric") and rounding in ("", "floor")
    nearest |= way == ("nearest_neighbor", "half_pixel") and rounding.startswith("round")
    if not (nearest and whole) and way != ("linear", "half_pixel"):
        return None
    return _plain("image.resize2d", "method", "coordinate_transformation_mode", "layout")(
        call, inputs, out
    )


RULES: dict[str, Rule] = {
    "relax.nn.conv1d": Rule(_layer("nn.conv1d"), 2, 2),
    "relax.nn.conv2d": Rule(_layer("nn.conv2d"), 2, 2),
    "relax.nn.conv3d": Rule(_layer("nn.conv3d"), 2, 2),
    "relax.nn.conv1d_transpose": Rule(_layer("nn.conv1d_transpose"), 2, 2),
    "relax.nn.conv2d_transpose": Rule(_layer("nn.conv2d_transpose"), 2, 2),
    "relax.nn.conv3d_transpose": Rule(_layer("nn.conv3d_transpose"), 2, 2),
    "relax.matmul": Rule(_matmul, 2, 2),
    **{f"relax.{op}": Rule(_plain(op), 2, 2) for op in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "power",
    )},
    **{f"relax.{op}": Rule(_plain(op)) for op in (
        "sigmoid", "tanh", "exp", "sqrt", "log", "abs", "negative", "erf", "round",
    )},
    "relax.nn.relu": Rule(_plain("nn.relu")),
    "relax.nn.leakyrelu": Rule(_plain("nn.leaky_relu", "alpha")),
    "relax.quantize": Rule(_plain("quantize", "axis"), 3, 3),
    "relax.dequantize": Rule(_plain("dequantize", "axis"), 3, 3),
    "relax.nn.prelu": Rule(_plain("nn.prelu", "axis"), 2, 2),
    **{f"relax.nn.{op}": Rule(_plain(op)) for op in ("gelu", "gelu_tanh", "silu")},
    **{f"relax.nn.{op}": Rule(_plain(f"nn.{op}", "axis")) for op in ("softmax", "log_softmax")},
    "relax.nn.layer_norm": Rule(_layer_norm, 3, 3),
    **{f"relax.nn.{op}": Rule(_pool(f"nn.{op}")) for op in (
        "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    )},
    **{f"relax.{op}": Rule(_reduction(op)) for op in ("mean", "sum", "max", "min")},
    "relax.clip": Rule(_clip, 3),
    "relax.astype": Rule(_plain("cast")),
    "relax.reshape": Rule(_reshape, 2),
    **{f"relax.{op}": Rule(_reshape) for op in ("squeeze", "expand_dims", "flatten")},
    "relax.permute_dims": Rule(_transpose),
    "relax.strided_slice": Rule(_slice, 5),
    "relax.concat": Rule(_plain("concatenate", "axis")),
    "relax.image.resize2d": Rule(_resize, 2),
}  # fmt: skip
