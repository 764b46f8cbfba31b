"""Quantized layers, as ONNX writes them (QDQ): `quantize`, `dequantize`, and operators between them.

    y = quantize(relu(conv2d(dequantize(x), dequantize(w)) + bias))

A convolution or dense layer whose data and weights are dequantized is computed in int8, with the
scales behind it. Weights of others are dequantized here. Sums of products of integers are exact (on
x86 without VNNI the plug-in has oneDNN sum them in float32, exact to 2^24); the result is rounded
once, at its end, so that it may differ by one step from what float32 gives.

What is quantized and dequantized again is rounded to steps, and stays float32: `fake_quantize`, with
attributes

    quantize_scale              the size of a step
    quantize_min, quantize_max  the first and last step, 0 for the zero point

An operator that is rounded has these attributes itself. So has one whose result is quantized, with
`quantize_zero` in place of the limits (`fused_roundings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mblob.packager.byoc.activations import is_float, needed, users_of
from mblob.packager.byoc.operators import Operator, Tensor, constant_tensor

_KERNELS = {"nn.conv1d": "OIW", "nn.conv2d": "OIHW"}
_NARROW = {"uint8": (0, 255), "int8": (-128, 127)}
_STEPS = (1e-30, 1e30)  # sizes of steps of which all are numbers of float32
_MOVES = (
    "reshape", "transpose", "strided_slice", "concatenate", "nn.relu", "maximum", "minimum",
    "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d",
)  # fmt: skip
_LAYERS = {
    "nn.conv1d": "dnnl.qnn.conv1d",
    "nn.conv2d": "dnnl.qnn.conv2d",
    "nn.dense": "dnnl.qnn.dense",
    "nn.matmul": "dnnl.qnn.dense",
}


def quantized(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators, layers of integers among them as one; none dequantizes a constant."""
    users, kept = users_of(operators), {id(t) for t in outputs}
    factors: dict[int, Any] = {}
    for o in operators:
        if o.op == "quantize":
            _leave_limits(o, users, kept)
    for layer in operators:
        if layer.op in _LAYERS and len(layer.inputs) == 2:
            _as_integers(layer, users, kept, factors)
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
    left = _rounded(needed(operators, outputs), outputs)
    users = users_of(left)
    for o in left:
        if id(o) in factors:
            _give_bytes(o, factors[id(o)], users, kept)
    for o in left:
        if o.op in ("quantize", "dequantize"):
            o.inputs = (o.inputs[0], *(_spread(o, t) for t in o.inputs[1:]))
    return needed(left, outputs)


def _leave_limits(o: Operator, users: dict[int, list[Operator]], kept: set[int]) -> None:
    """Quantize what a clip or relu is of, if the first and the last step are no wider than its limits."""
    import numpy as np

    before = o.inputs[0].producer
    scale, zero = _one(o.inputs[1]), _one(o.inputs[2])
    if before is None or before.op not in ("clip", "nn.relu") or len(before.inputs) != 1:
        return
    alone = id(o.inputs[0]) not in kept and users.get(id(o.inputs[0])) == [o]
    if not alone or scale is None or zero is None or not _STEPS[0] < scale < _STEPS[1]:
        return
    low, high = _NARROW[o.outputs[0].dtype]
    limits = [0.0, np.inf]
    if before.op == "clip":
        limits = [before.number(name) for name in ("a_min", "a_max")]
    first, last = np.rint(np.array(limits, np.float32) / scale)
    if first <= low - int(zero) and high - int(zero) <= last:
        o.inputs = (before.inputs[0], *o.inputs[1:])
        of_data = users[id(before.inputs[0])]
        of_data[:] = [o if user is before else user for user in of_data]


# -- rounding to steps -----------------------------------------------------------------------------


def _rounded(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators with one `fake_quantize` in place of a quantize and what dequantizes its result, unless its data
    is of these steps already."""
    users, kept = users_of(operators), {id(t) for t in outputs}
    made: list[Operator] = []
    rounded: set[int] = set()
    for o in operators:
        if o.op == "dequantize" and id(o.outputs[0]) in rounded:
            continue
        back = [d.outputs[0] for d in users.get(id(o.outputs[0]), ()) if _goes_back(o, d)]
        if not back:
            made.append(o)
            continue
        steps, data = _steps(o), o.inputs[0]
        if not _has_steps(data, steps):
            new = Tensor(f"{o.name}.steps", data.shape, data.dtype)
            data = next((t for t in back if id(t) in kept), new)
            data.producer = Operator(
                f"{o.name}.steps", "fake_quantize", "", steps, o.inputs[:1], (data,)
            )
            made.append(data.producer)
            rounded.add(id(data))
            o.inputs = (data, *o.inputs[1:])
        for result in back:
            for user in users.get(id(result), ()):
                user.inputs = tuple(data if t is result else t for t in user.inputs)
        made.append(o)
    return needed(made, outputs)


def _steps(o: Operator) -> dict[str, str]:
    low, high = _NARROW[o.outputs[0].dtype]
    zero = int(_one(o.inputs[2]))
    limits = {"quantize_min": str(low - zero), "quantize_max": str(high - zero)}
    return {"quantize_scale": repr(float(_one(o.inputs[1]))), **limits}


def _goes_back(o: Operator, d: Operator) -> bool:
    """True if an operator dequantizes what another quantized, with the same numbers."""
    if o.op != "quantize" or d.op != "dequantize":
        return False
    numbers = [_one(t) for t in (*o.inputs[1:], *d.inputs[1:])]
    if None in numbers or numbers[:2] != numbers[2:] or d.inputs[0] is not o.outputs[0]:
        return False
    return bool(_STEPS[0] < numbers[0] < _STEPS[1])


def _has_steps(data: Tensor, steps: Mapping[str, str]) -> bool:
    """True if all elements of float32 data are of these steps."""
    waiting, seen = [data], {id(data)}
    while waiting:
        o = waiting.pop().producer
        if o is None or (o.op != "fake_quantize" and o.op not in _MOVES):
            return False
        if o.op == "fake_quantize" and dict(o.attrs) != steps:
            return False
        if o.op != "fake_quantize":
            waiting += [t for t in o.inputs if id(t) not in seen]
            seen.update(map(id, o.inputs))
    return True


def _give_bytes(
    layer: Operator, factor: Any, users: Mapping[int, Sequence[Operator]], kept: set[int]
) -> None:
    """Let a layer of integers quantize its result, if that is all that is done with it."""
    import numpy as np

    following = users.get(id(layer.outputs[0]), ())
    if id(layer.outputs[0]) in kept or len(following) != 1 or following[0].op != "quantize":
        return
    (o,) = following
    scale, zero = _one(o.inputs[1]), _one(o.inputs[2])
    if scale is None or zero is None or not _is_finite(factor / (float(scale) or np.nan)):
        return
    scales = constant_tensor("scales", (factor / float(scale)).astype(np.float32))
    position = int(layer.attrs["o_scl_idx"])
    given = [scales if i == position else t for i, t in enumerate(layer.inputs)]
    attrs = dict(layer.attrs)
    if zero:
        attrs["dst_zp_idx"] = str(len(given))
        given.append(constant_tensor("zero_point", np.full(1, zero, np.float32)))
    o.op, o.attrs, o.inputs = layer.op, attrs, tuple(given)


def _is_finite(numbers: Any) -> bool:
    """True if these are numbers of float32."""
    import numpy as np

    return bool((np.abs(numbers) <= np.finfo(np.float32).max).all())


# -- layers ----------------------------------------------------------------------------------------


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
    """The integers of constant weights as int8, the results first, and their scales: one, or one for each."""
    import numpy as np

    o, turned = layer.inputs[1].producer, layer.op == "nn.matmul"
    if o is not None and o.op == "transpose" and turned:
        turned = o.ints("axes") != (1, 0)
        o = o.inputs[0].producer
    if o is None or o.op != "dequantize" or not o.inputs[0].is_constant:
        return None
    weights, scale, zero = (t.numpy() for t in o.inputs)
    layout = _KERNELS.get(layer.op, "")
    rank = len(layout) or 2
    if weights.dtype.name not in _NARROW or weights.ndim != rank or {*zero.flat} - {zero.flat[0]}:
        return None
    weights = weights.astype(np.int16) - int(zero.flat[0])  # such as 128 for uint8
    if weights.min() < -128 or weights.max() > 127:
        return None
    weights = weights.astype(np.int8)
    along = 1 if turned else 0
    if layout and layer.text("kernel_layout") != layout:
        return None
    if scale.size > 1 and _axis(o) != along:
        return None
    return (weights.T if turned else weights), scale.reshape(-1)


def _as_integers(
    layer: Operator, users: dict[int, list[Operator]], kept: set[int], factors: dict[int, Any]
) -> None:
    """Make a layer, and what is behind it, one of integers. `factors` gets what each result is multiplied by."""
    import numpy as np

    data = layer.inputs[0].producer
    found = _integers(layer)
    if found is None or data is None or data.op != "dequantize" or len(layer.inputs[0].shape) < 2:
        return
    scale, zero = _one(data.inputs[1]), _one(data.inputs[2])
    if scale is None or zero is None or data.inputs[0].dtype not in _NARROW:
        return
    padded = layer.op in _KERNELS and any(layer.ints("padding", (0,)))
    weights, scales = found
    count = weights.shape[0]
    factor = np.broadcast_to(float(scale) * scales.astype(np.float64), (count,))
    if not factor.astype(np.float32).all():
        return  # a bias is divided by it
    sums = weights.astype(np.int64).reshape(count, -1).sum(1)
    # At the borders a zero point stands for 0, so that its part of a sum is no constant.
    offset, last, relu = (0.0 if padded else -float(zero)) * sums, layer, False

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
        relu, last = True, user
    if not (_is_finite(offset) and _is_finite(factor)):
        return
    given = [
        data.inputs[0], constant_tensor("weights", weights),
        constant_tensor("bias", offset.astype(np.float32)),
        constant_tensor("scales", factor.astype(np.float32)),
    ]  # fmt: skip
    attrs = {**layer.attrs, "bias_idx": "2", "o_scl_idx": "3"}
    if relu:
        attrs["activation"] = "relu,4,5,5"
        given += [constant_tensor("number", np.full(1, n, np.float32)) for n in (1, 0)]
    if zero and padded:
        attrs["src_zp_idx"] = str(len(given))
        given.append(constant_tensor("zero_point", np.full(1, zero, np.float32)))
    factors[id(last)] = factor
    last.op, last.attrs, last.inputs = _LAYERS[layer.op], attrs, tuple(given)


def _bias(tensor: Tensor, layer: Operator, count: int) -> Any:
    """One number for each result of a layer, of a constant that is added to it; None: it is none."""
    import numpy as np

    if not is_float(tensor):
        return None
    rank = len(layer.outputs[0].shape)
    axis = 1 if layer.op in _KERNELS else rank - 1
    wanted = [count if i == axis else 1 for i in range(rank)]
    padded = [1] * (rank - len(tensor.shape)) + [*tensor.shape]
    fits = padded == wanted and count > 1
    return tensor.numpy().astype(np.float64).reshape(-1) if fits else None
