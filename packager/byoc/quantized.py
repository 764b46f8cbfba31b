"""Quantized layers, as ONNX writes them (QDQ): `quantize`, `dequantize`, and a layer between them.

    y = quantize(relu(conv2d(dequantize(x), dequantize(w)) + bias))

A convolution or dense layer whose data and weights are dequantized is computed in int8, with the
scales behind it, if its zero points allow that. Weights of others are dequantized here. Sums of
products of integers are exact (on x86 without VNNI the plug-in has oneDNN sum them in float32, exact to
2^24); the result is rounded once, at its end, so that it may differ by one step from what float32 gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mblob.packager.byoc.activations import is_float, needed, users_of
from mblob.packager.byoc.operators import Operator, Tensor, constant_tensor

_LAYERS = {
    "nn.conv2d": "dnnl.qnn.conv2d",
    "nn.dense": "dnnl.qnn.dense",
    "nn.matmul": "dnnl.qnn.dense",
}


def quantized(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators, layers of integers among them as one; none dequantizes a constant."""
    users, kept = users_of(operators), {id(t) for t in outputs}
    for layer in operators:
        if layer.op in _LAYERS and len(layer.inputs) == 2:
            _as_integers(layer, users, kept)
    for o in operators:
        if o.op == "dequantize" and o.inputs[0].is_constant:
            _give_constant(o, _dequantized(o), users)
    for o in operators:
        if o.op == "transpose" and o.inputs[0].is_constant:
            _give_constant(o, o.inputs[0].numpy().transpose(o.ints("axes")), users)
        elif o.op == "reshape" and o.inputs[0].is_constant:
            _give_constant(o, o.inputs[0].numpy().reshape(o.outputs[0].shape), users)
        elif o.op == "nn.matmul" and o.inputs[1].is_constant and len(o.inputs[1].shape) == 2:
            o.op = "nn.dense"
            o.inputs = (o.inputs[0], constant_tensor("weights", o.inputs[1].numpy().T))
        elif o.op in ("quantize", "dequantize"):
            o.inputs = (o.inputs[0], *(_spread(o, t) for t in o.inputs[1:]))
    return needed(operators, outputs)


def _give_constant(o: Operator, array: Any, users: dict[int, list[Operator]]) -> None:
    """Let the users of an operator have its result as a constant. It stays for who needs its output."""
    result = o.outputs[0]
    made = constant_tensor(result.name, array)
    for user in users.get(id(result), ()):
        user.inputs = tuple(made if t is result else t for t in user.inputs)


def _dequantized(o: Operator) -> Any:
    import numpy as np

    data, scale, zero = (t.numpy() for t in o.inputs)
    spread = [-1 if i == _axis(o) else 1 for i in range(data.ndim)]
    scale, zero = (a.reshape(spread) if a.size > 1 else a.reshape(()) for a in (scale, zero))
    return ((data.astype(np.int64) - zero.astype(np.int64)) * scale).astype(np.float32)


def _axis(o: Operator) -> int:
    return o.integer("axis") % max(1, len(o.inputs[0].shape))


def _spread(o: Operator, tensor: Tensor) -> Tensor:
    """Scales or zero points as engines take them: float32, with the axes of the data."""
    import numpy as np

    array, rank = tensor.numpy().astype(np.float32), len(o.inputs[0].shape)
    return constant_tensor(
        tensor.name, array.reshape([array.size if i == _axis(o) else 1 for i in range(rank)])
    )


def _one(tensor: Tensor) -> Any:
    """The number of a constant of one; None if it has more."""
    return (
        tensor.numpy().reshape(-1)[0] if tensor.is_constant and tensor.numpy().size == 1 else None
    )


def _integers(layer: Operator) -> tuple[Any, Any] | None:
    """The integers of constant weights, the results first, and their scales: one, or one for each."""
    o, turned = layer.inputs[1].producer, layer.op == "nn.matmul"
    if o is not None and o.op == "transpose" and turned:
        turned = o.ints("axes") != (1, 0)
        o = o.inputs[0].producer
    if o is None or o.op != "dequantize" or not o.inputs[0].is_constant:
        return None
    weights, scale, zero = (t.numpy() for t in o.inputs)
    rank = 4 if layer.op == "nn.conv2d" else 2
    if weights.dtype.name != "int8" or weights.ndim != rank or zero.any():
        return None
    along = 1 if turned else 0
    if layer.op == "nn.conv2d" and layer.text("kernel_layout") != "OIHW":
        return None
    if scale.size > 1 and _axis(o) != along:
        return None
    return (weights.T if turned else weights), scale.reshape(-1)


def _as_integers(layer: Operator, users: dict[int, list[Operator]], kept: set[int]) -> None:
    """Make a layer, and what is behind it, one of integers."""
    import numpy as np

    data = layer.inputs[0].producer
    found = _integers(layer)
    if found is None or data is None or data.op != "dequantize" or len(layer.inputs[0].shape) < 2:
        return
    scale, zero = _one(data.inputs[1]), _one(data.inputs[2])
    if scale is None or zero is None or data.inputs[0].dtype not in ("uint8", "int8"):
        return
    padded = layer.op == "nn.conv2d" and any(layer.ints("padding", (0,)))
    if zero and padded:
        return  # what is added at the borders would be 0, and no zero point
    weights, scales = found
    count = weights.shape[0]
    factor = np.broadcast_to(float(scale) * scales.astype(np.float64), (count,))
    if not factor.astype(np.float32).all():
        return  # a bias is divided by it
    sums = weights.astype(np.int64).reshape(count, -1).sum(1)
    offset, last, relu = -float(zero) * sums, layer, False

    def behind() -> Operator | None:
        following = users.get(id(last.outputs[0]), ())
        return following[0] if id(last.outputs[0]) not in kept and len(following) == 1 else None

    user = behind()
    other = (
        [t for t in user.inputs if t is not last.outputs[0]] if user and user.op == "add" else []
    )
    bias = _bias(other[0], layer, count) if len(other) == 1 else None
    if user is not None and bias is not None:
        offset, last, user = offset + bias / factor, user, None
        user = behind()
    if user is not None and user.op == "nn.relu":
        relu, last, user = True, user, None
        user = behind()
    out_scale, out_zero = 1.0, 0.0
    if user is not None and user.op == "quantize" and user.inputs[0] is last.outputs[0]:
        parts = _one(user.inputs[1]), _one(user.inputs[2])
        if parts[0] is not None and parts[1] is not None:
            (out_scale, out_zero), last = map(float, parts), user
    numbers, largest = (offset, factor / (out_scale or np.nan)), np.finfo(np.float32).max
    if not all((np.abs(a) <= largest).all() for a in numbers):
        return
    given = [
        data.inputs[0], constant_tensor("weights", weights),
        constant_tensor("bias", offset.astype(np.float32)),
        constant_tensor("scales", (factor / out_scale).astype(np.float32)),
    ]  # fmt: skip
    attrs = {**layer.attrs, "bias_idx": "2", "o_scl_idx": "3"}
    if relu:
        attrs["activation"] = "relu,4,5,5"
        given += [constant_tensor("number", np.full(1, n, np.float32)) for n in (1, 0)]
    if out_zero:
        attrs["dst_zp_idx"] = str(len(given))
        given.append(constant_tensor("zero_point", np.full(1, out_zero, np.float32)))
    last.op, last.attrs, last.inputs = _LAYERS[layer.op], attrs, tuple(given)


def _bias(tensor: Tensor, layer: Operator, count: int) -> Any:
    """One number for each result of a layer, of a constant that is added to it; None: it is none."""
    import numpy as np

    if not is_float(tensor):
        return None
    rank = len(layer.outputs[0].shape)
    axis = 1 if layer.op == "nn.conv2d" else rank - 1
    wanted = [count if i == axis else 1 for i in range(rank)]
    padded = [1] * (rank - len(tensor.shape)) + [*tensor.shape]
    fits = padded == wanted and count > 1
    return tensor.numpy().astype(np.float64).reshape(-1) if fits else None
