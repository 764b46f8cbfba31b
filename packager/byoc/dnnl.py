"""The code generator of oneDNN: regions as modules of the key dnnl_json, which TVM's runtime and
our plug-in run.

    mblob.partition_graph(graph, params, host, {"dnnl": mblob.byoc.dnnl.supported})
    mblob.byoc.relax.partition(mod, "dnnl")  # which takes more: `runs`, `plug_in_table`

Operators are those of Relay, by the attribute `op` (`mblob.packager.byoc.operators`), in float32:
nn.conv2d, nn.dense, nn.bias_add, add, multiply, nn.relu, tanh, sigmoid, nn.max_pool2d,
nn.avg_pool2d, nn.global_max_pool2d, nn.global_avg_pool2d, nn.softmax, nn.batch_norm (with one output). `nn.` may
be left out, and so may attributes with a default in Relay. A kernel that does more than one of
these says so: a conv2d or dense with a third input adds it as bias, with the attribute `activation`
("relu", "tanh", "sigmoid") it ends with that. What stands alone is fused in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import inf, prod
from typing import Any

from mblob.format.type_keys import DNNL_JSON
from mblob.module import Module
from mblob.packager.byoc.activations import FLOATS, number_of, users_of
from mblob.packager.byoc.json_graph import JsonGraph
from mblob.packager.byoc.operators import Composite, Operator, Region, Tensor
from mblob.packager.byoc.patterns import OpPattern, Pattern, is_op, register_pattern_table, wildcard
from mblob.packager.errors import BuildError

_ROOTS = ("conv2d", "dense")  # what others are fused with
_ACTIVATIONS = ("relu", "tanh", "sigmoid")
_RELAY = ("tanh", "sigmoid", "add", "multiply")  # all others begin with nn.
# What our plug-in has beside them, and TVM's runtime has not.
_PLUG_IN_ROOTS = (
    *_ROOTS, "conv1d", "conv3d", "conv1d_transpose", "conv2d_transpose", "conv3d_transpose", "matmul",
)  # fmt: skip
_PLUG_IN_ACTIVATIONS = (*_ACTIVATIONS, "clip", "hardswish", "silu", "gelu", "gelu_tanh", "mish")
_WITH_ALPHA = ("elu", "leaky_relu")  # as `linear` has, which does not follow them
_PLUG_IN = frozenset((
    "add", "subtract", "multiply", "divide", "maximum", "minimum",
    "nn.relu", "tanh", "sigmoid", "clip", "hardswish", "linear", "exp", "log", "sqrt", "abs",
    "negative", "round", "power", "nn.leaky_relu", "nn.prelu", "gelu", "gelu_tanh", "silu",
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense", "nn.matmul",
    "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose",
    "nn.max_pool1d", "nn.avg_pool1d", "nn.max_pool2d", "nn.avg_pool2d", "nn.max_pool3d",
    "nn.avg_pool3d", "nn.global_avg_pool2d", "image.resize2d", "mean", "sum", "max", "min",
    "nn.softmax", "nn.log_softmax", "nn.layer_norm", "reshape", "transpose", "concatenate",
    "strided_slice", "cast",
))  # fmt: skip
_MOST_AXES = 12  # of oneDNN's descriptors
_MOST_SOURCES = 1024  # of a concatenation, in the plug-in
_OWN_NUMBERS = ("clip", "linear", "fake_quantize", *_WITH_ALPHA)  # composites keep their attributes
# Beside layers, what can round its own result in one pass. Not clip and round: oneDNN has each only once.
_ROUND_ALONE = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "sigmoid", "tanh", "hardswish", "silu",
    "linear", "gelu", "gelu_tanh", "nn.relu", "exp", "sqrt", "abs",
)  # fmt: skip


def kind(operator: Operator) -> str:
    """The operator without `nn.` before it."""
    return operator.op.removeprefix("nn.")


# -- what is supported -----------------------------------------------------------------------------


def supported(operator: Operator) -> bool:
    """The predicate of oneDNN: whether it has the operator, for these shapes and types.

    Raises:
        BuildError: an attribute that is not what it must be.
    """
    check = _CHECKS.get(kind(operator))
    if check is None or len(operator.outputs) != 1:
        return False
    if any(t.dtype != "float32" or 0 in t.shape for t in (*operator.inputs, *operator.outputs)):
        return False
    return check(operator)


def runs(operator: Operator) -> bool:
    """The predicate of our plug-in: whether it takes an operator. It takes more than TVM's runtime:
    operands that are spread, images of another size, tensors put together. Weights are constants."""
    tensors = (*operator.inputs, *operator.outputs)
    if operator.op in ("quantize", "dequantize"):
        return _is_quantization(operator)
    return (
        operator.op in _PLUG_IN
        and len(operator.outputs) == 1
        and 0 < len(operator.inputs) <= _MOST_SOURCES
        and _have_types(operator)
        and all(0 not in t.shape for t in tensors)
        and all(len(t.shape) <= _MOST_AXES for t in tensors)
        and (operator.op != "power" or _has_one_exponent(operator))
        and len(operator.outputs[0].shape) > 0
    )


def _have_types(o: Operator) -> bool:
    """Floats of one type; layers may give float32 for float16 and bfloat16, as a cast may give any."""
    given, made = {t.dtype for t in o.inputs}, o.outputs[0].dtype
    if len(given) > 1 or not FLOATS.keys() >= given | {made}:
        return False
    layer = kind(o) in _PLUG_IN_ROOTS and made == "float32"
    return o.op == "cast" or layer or given == {made}


def _has_one_exponent(o: Operator) -> bool:
    return o.inputs[0].shape == o.outputs[0].shape and number_of(o.inputs[1]) is not None


def _is_quantization(o: Operator) -> bool:
    """Between float32 and 8 bits, with constants."""
    data, result = o.inputs[0], o.outputs[0]
    narrow = ("uint8", "int8")
    types = (data.dtype, result.dtype)
    return (
        all(t.is_constant for t in o.inputs[1:])
        and o.inputs[1].dtype == "float32"
        and 0 < len(data.shape) <= _MOST_AXES
        and (
            (o.op == "quantize" and types[0] == "float32" and types[1] in narrow)
            or (o.op == "dequantize" and types[0] in narrow and types[1] == "float32")
        )
    )


def _is_convolution(o: Operator) -> bool:
    layouts = (o.text("data_layout", "NCHW"), o.text("kernel_layout", "OIHW"))
    ranks = [len(t.shape) for t in o.inputs]
    return (
        layouts in (("NCHW", "OIHW"), ("NHWC", "HWIO"))
        and ranks[:2] == [4, 4]
        and _has_fused_parts(o, layouts[0])
    )


def _is_dense(o: Operator) -> bool:
    return [len(t.shape) for t in o.inputs[:2]] == [2, 2] and _has_fused_parts(o, "NC")


def _has_fused_parts(o: Operator, layout: str) -> bool:
    channels = o.outputs[0].shape[layout.index("C")]
    bias = len(o.inputs) < 3 or o.inputs[2].shape == (channels,)
    return 2 <= len(o.inputs) <= 3 and bias and o.text("activation", "relu") in _ACTIVATIONS


def _is_bias_add(o: Operator) -> bool:
    """Only behind the operator that it is fused with, which is in the same region then: no other
    way leads here."""
    if len(o.inputs) != 2 or o.inputs[1].producer is not None:
        return False
    root = o.inputs[0].producer
    if (
        root is None
        or kind(root) not in _ROOTS
        or len(root.inputs) != 2
        or "activation" in root.attrs
    ):
        return False
    data = o.inputs[0].shape
    axis = o.integer("axis", 1) % len(data)
    return supported(root) and axis == _channel_axis(root) and o.inputs[1].shape == (data[axis],)


def _channel_axis(root: Operator) -> int:
    return root.text("data_layout", "NCHW").index("C") if kind(root) == "conv2d" else 1


def _is_binary(o: Operator) -> bool:
    return len(o.inputs) == 2 and o.inputs[0].shape == o.inputs[1].shape == o.outputs[0].shape


def _is_elementwise(o: Operator) -> bool:
    return len(o.inputs) == 1 and o.inputs[0].shape == o.outputs[0].shape


def _is_pool(o: Operator) -> bool:
    return (
        len(o.inputs) == 1
        and len(o.inputs[0].shape) == 4
        and o.text("layout", "NCHW") in ("NCHW", "NHWC")
    )


def _is_softmax(o: Operator) -> bool:
    return _is_elementwise(o) and -len(o.inputs[0].shape) <= o.integer("axis", -1) < len(
        o.inputs[0].shape
    )


def _is_batch_norm(o: Operator) -> bool:
    if len(o.inputs) != 5 or len(o.inputs[0].shape) < 2:
        return False
    shape = o.inputs[0].shape
    axis = o.integer("axis", 1) % len(shape)
    return axis > 0 and all(t.shape == (shape[axis],) for t in o.inputs[1:])


_CHECKS: dict[str, Callable[[Operator], bool]] = {
    "conv2d": _is_convolution, "dense": _is_dense, "bias_add": _is_bias_add, "add": _is_binary,
    "multiply": _is_binary,
    "relu": _is_elementwise, "tanh": _is_elementwise, "sigmoid": _is_elementwise,
    "max_pool2d": _is_pool, "avg_pool2d": _is_pool, "global_max_pool2d": _is_pool, "global_avg_pool2d": _is_pool,
    "softmax": _is_softmax, "batch_norm": _is_batch_norm,
}  # fmt: skip


# -- attributes, as Relay has them -----------------------------------------------------------------


def _padding(o: Operator) -> tuple[int, ...]:
    """Top, left, bottom, right."""
    found = o.ints("padding", (0, 0))
    if len(found) not in (1, 2, 4):
        raise BuildError(
            f"graph: node {o.name!r} ({o.op}): padding: expected 1, 2 or 4 numbers, found {len(found)}"
        )
    return found if len(found) == 4 else (found * 2 if len(found) == 2 else found * 4)


def _attributes(o: Operator) -> dict[str, Any]:
    what = kind(o)
    if what == "conv2d":
        layout, kernel = o.text("data_layout", "NCHW"), o.text("kernel_layout", "OIHW")
        weights = o.inputs[1].shape
        return {
            "strides": o.ints("strides", (1, 1), 2), "padding": _padding(o),
            "dilation": o.ints("dilation", (1, 1), 2), "groups": o.integer("groups", 1),
            "channels": weights[kernel.index("O")],
            "kernel_size": (weights[kernel.index("H")], weights[kernel.index("W")]),
            "data_layout": layout, "kernel_layout": kernel, "out_layout": "", "out_dtype": "",
        }  # fmt: skip
    if what == "dense":
        return {"units": o.inputs[1].shape[0], "out_dtype": ""}
    if what.startswith("global_"):
        return {"layout": o.text("layout", "NCHW"), "out_layout": ""}
    if what.endswith("_pool2d"):
        made: dict[str, Any] = {
            "pool_size": o.ints("pool_size", None, 2),
            "strides": o.ints("strides", (1, 1), 2),
            "dilation": o.ints("dilation", (1, 1), 2),
            "padding": _padding(o),
            "layout": o.text("layout", "NCHW"),
            "out_layout": "",
            "ceil_mode": o.flag("ceil_mode"),
        }
        return (
            {**made, "count_include_pad": o.flag("count_include_pad")}
            if what == "avg_pool2d"
            else made
        )
    if what == "softmax":
        return {"axis": o.integer("axis", -1)}
    if what == "batch_norm":
        return {
            "axis": o.integer("axis", 1),
            "epsilon": o.number("epsilon", 1e-5),
            "center": o.flag("center", True),
            "scale": o.flag("scale", True),
        }
    if what in _CHECKS:
        return {}
    made = {name: _value(o, name) for name in o.attrs}
    if what.startswith("dnnl.qnn.") and "activation" in made:
        made["activation"] = o.text("activation").split(",")
    return made


def _value(o: Operator, name: str) -> Any:
    """An attribute as `JsonGraph.kernel` takes it."""
    text = o.text(name)
    if text in ("True", "False"):
        return o.flag(name)
    return o.ints(name) if text.startswith("[") else text


# -- what oneDNN computes at once ------------------------------------------------------------------


@register_pattern_table("dnnl", supported)
@register_pattern_table(DNNL_JSON, supported)
def pattern_table() -> list[tuple[str, Pattern]]:
    """Convolutions and dense layers with the bias, sum and activation behind them, by TVM's names.
    The longest come first."""
    return _layers(_ROOTS, _ACTIVATIONS, ("conv2d",), ("relu", ""))


def plug_in_table() -> list[tuple[str, Pattern]]:
    """The same, with what our plug-in has beside: other roots and activations, and `linear` (x *
    alpha + beta) as the last of all."""
    before = _layers(_PLUG_IN_ROOTS, _PLUG_IN_ACTIVATIONS)
    alone = [(f"dnnl.{root}", _layer(root, 2)) for root in _PLUG_IN_ROOTS]
    linear = [(f"{name}_linear", _op("linear")(p)) for name, p in (*before, *alone)]
    return [*linear, *_layers(_PLUG_IN_ROOTS, (*_PLUG_IN_ACTIVATIONS, *_WITH_ALPHA))]


def _layers(
    roots: Sequence[str],
    activations: Sequence[str],
    with_sums: Sequence[str] | None = None,
    behind_sums: Sequence[str] | None = None,
) -> list[tuple[str, Pattern]]:
    found = []
    for root, (bias, sum_), activation in product(
        roots, ((True, True), (True, False), (False, False)), (*activations, "")
    ):
        if sum_ and with_sums is not None and root not in with_sums:
            continue
        if sum_ and behind_sums is not None and activation not in behind_sums:
            continue
        pattern: Pattern = _layer(root, 2)
        if bias:
            pattern = _op("bias_add")(pattern, wildcard()) | _layer(root, 3)
        if sum_:
            pattern = _op("add")(pattern, wildcard()) | _op("add")(wildcard(), pattern)
        if activation:
            pattern = _op(activation)(pattern)
        if bias or activation:
            found.append((_name(root, bias, sum_, activation), pattern))
    return found


def _name(root: str, bias: bool, sum_: bool, activation: str) -> str:
    parts = ["bias"] * bias + ["sum"] * sum_ + [activation] * bool(activation)
    return "_".join([f"dnnl.{root}", *parts]) if parts else f"nn.{root}"


def _op(name: str) -> OpPattern:
    return is_op(f"nn.{name}", name)


def _layer(root: str, inputs: int) -> OpPattern:
    """A kernel that computes a layer and ends without an activation; the third input is the bias."""
    return _op(root).has_attr({"activation": None})(*(wildcard() for _ in range(inputs)))


# -- regions as JSON -------------------------------------------------------------------------------


def codegen(region: Region) -> Module:
    """The module of a region: a kernel for each composite of `pattern_table`, and one for each other
    operator.

    Raises:
        BuildError: a bias alone, whose convolution or dense layer is not in the region.
    """
    graph = JsonGraph(region)
    for o in region.calls:
        if isinstance(o, Composite):
            attrs = _attributes(o.operators[0])
            for behind in o.operators[1:]:
                attrs.update(behind.attrs if kind(behind) in _OWN_NUMBERS else {})
            graph.kernel(o.op, o.inputs, o.outputs, attrs)
        elif kind(o) == "bias_add":
            root = o.inputs[0].producer
            if root is None or root not in region.operators:
                raise BuildError(
                    f"dnnl: {o.name!r} (nn.bias_add) stands alone in {region.symbol}: its {o.inputs[0].name!r} is made"
                    " outside; let the predicate leave it to the host"
                )
            # The sum without bias is needed, too: both are computed.
            inputs = [*root.inputs, o.inputs[1]]
            graph.kernel(f"dnnl.{kind(root)}_bias", inputs, o.outputs, _attributes(root))
        else:
            graph.kernel(_word(o), o.inputs, o.outputs, _attributes(o))
    return graph.module(DNNL_JSON)


def _word(o: Operator) -> str:
    """The name of a kernel that is no composite."""
    if kind(o) in _ROOTS:
        return _name(kind(o), len(o.inputs) > 2, False, o.text("activation", ""))
    if kind(o) not in _CHECKS:
        return o.op
    return kind(o) if kind(o) in _RELAY else f"nn.{kind(o)}"


def fused_roundings(calls: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The kernels of a region, with what rounds their results to steps (`quantized.py`) as a part of them.

    Args:
        calls: kernels, in an order in which they can run.
        outputs: what others use of their results.
    """
    users, kept = users_of(calls), {id(t) for t in outputs}
    made = {id(o.outputs[0]): o for o in calls}
    left: list[Operator] = []
    behind: dict[int, Operator] = {}
    for o in calls:
        data = o.inputs[0] if o.op in ("fake_quantize", "quantize") else None
        before = made.get(id(data))
        alone = id(data) not in kept and len(users.get(id(data), ())) == 1
        if before is not None and alone and _rounds(before, o):
            behind[id(before)] = o
    fused = {id(o) for o in behind.values()}
    for o in calls:
        last = behind.get(id(o))
        if last is None:
            left += [o] if id(o) not in fused else []
            continue
        parts = [*o.operators] if isinstance(o, Composite) else [o]
        name = o.op if isinstance(o, Composite) else _word(o)
        left.append(Composite.of(name, [*parts, _rounding(last)]))
    return left


def _rounds(before: Operator, o: Operator) -> bool:
    """True if a kernel can round its own result: what oneDNN has fast loops for."""
    clips = "clip" in before.op or "round" in before.op  # oneDNN has each only once
    layer = before.op.startswith("dnnl.") or kind(before) in _PLUG_IN_ROOTS
    layer = layer and "matmul" not in before.op  # of two tensors: slow with more than one function
    if o.op == "quantize":
        scale = number_of(o.inputs[1])
        one = prod(o.inputs[2].shape) == 1 and o.inputs[2].is_constant
        return one and scale is not None and 0 < scale < inf and before.op in _ROUND_ALONE
    return not clips and (layer or before.op in _ROUND_ALONE)


def _rounding(o: Operator) -> Operator:
    if o.op == "fake_quantize":
        return o
    scale, zero = (float(t.numpy().reshape(-1)[0]) for t in o.inputs[1:])
    attrs = {"quantize_scale": repr(scale), "quantize_zero": repr(zero)}
    return Operator(o.name, "fake_quantize", "", attrs, o.inputs[:1], o.outputs)
