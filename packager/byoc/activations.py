"""Functions that engines compute at once, found where frontends write them out of operators of one
element: clip, hardswish, silu, gelu, elu, mish, layer norm, and `linear` (x * alpha + beta).

A gate is looked at as a product of tensors and numbers, what is in it as a polynomial of x: so the
order in which a frontend writes its steps does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose, pi, prod, sqrt
from typing import Optional

from mblob.packager.byoc.operators import Operator, Tensor, constant_tensor

Numbers = dict[int, float]  # of a polynomial, by their exponents
_MOST_STEPS = 4  # of a product or a polynomial that is looked at
_HIGHEST = 3  # exponent
# Types of numbers, and how far those that frontends write may be off: two of them were rounded.
FLOATS = {"float32": 1e-5, "float16": 2**-10, "bfloat16": 2**-7}
_GELU = {1: sqrt(0.5)}
_GELU_TANH = {1: sqrt(2 / pi), 3: 0.044715 * sqrt(2 / pi)}


def name_activations(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> None:
    """Give operators that are the end of such a function its name, and its data as their inputs."""
    for o in operators:
        found = _with_number(o, "minimum")
        inner = _with_number(found[0].producer, "maximum") if found else None
        if found and inner:
            _become(o, "clip", inner[0], a_min=inner[1], a_max=found[1])
    for o in operators:
        name = _gated(o)
        elu = _elu(o)
        if name is not None:
            _become(o, name[0], name[1])
        elif elu is not None:
            _become(o, "elu", elu[0], alpha=elu[1])
        else:
            _name_layer_norm(o)
    users, kept = users_of(needed(operators, outputs)), {id(t) for t in outputs}
    for o in operators:
        power = _with_number(o, "power")
        if line := _line(o):
            data, alpha, beta = line
            before = data.producer
            alone = len(users.get(id(data), ())) == 1 and id(data) not in kept
            if before is not None and before.op == "linear" and alone:
                beta += alpha * before.number("beta")
                alpha *= before.number("alpha")
                data = before.inputs[0]
            _become(o, "linear", data, alpha=alpha, beta=beta)
        elif power:
            _become(o, "pow", power[0], exponent=power[1])


def gelu_in(operators: Sequence[Operator]) -> list[Operator]:
    """Of operators, the last of which is their end, those that are a gelu; none if there is none."""
    found = _gated(operators[-1])
    inside = [o for o in operators if found and found[1] not in o.outputs]
    return needed(inside, operators[-1].outputs)


def _become(o: Operator, op: str, *inputs: Tensor, **attrs: float) -> None:
    o.op, o.inputs = op, inputs
    o.attrs = {name: repr(number) for name, number in attrs.items()}


# -- numbers ---------------------------------------------------------------------------------------


def is_float(tensor: Tensor) -> bool:
    """True for a constant of floats."""
    return tensor.is_constant and tensor.dtype in FLOATS


def number_of(tensor: Tensor) -> float | None:
    """The element of a constant of one."""
    if not is_float(tensor) or any(extent != 1 for extent in tensor.shape):
        return None
    return float(tensor.numpy().reshape(()))


def _with_number(o: Operator | None, op: str) -> tuple[Tensor, float] | None:
    """The data and the number of an operator of that name with one constant of one element."""
    if o is None or o.op != op or len(o.inputs) != 2 or not o.outputs:
        return None
    ways = [o.inputs] if op in ("subtract", "divide", "power") else [o.inputs, o.inputs[::-1]]
    for data, other in ways:
        number = number_of(other)
        if number is not None and data.shape == o.outputs[0].shape:
            return data, number
    return None


def _scaled(o: Operator | None) -> tuple[Tensor, float] | None:
    """The data and the factor of a product with, or a division by, a number."""
    found = _with_number(o, "divide")
    if found and found[1]:
        return found[0], 1 / found[1]
    if o is not None and o.op == "negative":
        return o.inputs[0], -1.0
    power = _with_number(o, "power")
    if power and power[1] == 1:
        return power
    return _with_number(o, "multiply")


def _line(o: Operator | None) -> tuple[Tensor, float, float] | None:
    """(data, alpha, beta) of one step of x * alpha + beta."""
    if o is not None and o.op == "linear":
        return o.inputs[0], o.number("alpha"), o.number("beta")
    if found := _scaled(o):
        return found[0], found[1], 0.0
    if found := _with_number(o, "add"):
        return found[0], 1.0, found[1]
    if found := _with_number(o, "subtract"):
        return found[0], 1.0, -found[1]
    return None


# -- products and polynomials ----------------------------------------------------------------------


def _products(tensor: Tensor, steps: int = _MOST_STEPS) -> Iterator[tuple[list[Tensor], float]]:
    """The ways to see a tensor as a product of tensors and a number."""
    yield [tensor], 1.0
    o = tensor.producer
    if o is None or not steps:
        return
    if scaled := _scaled(o):
        for tensors, number in _products(scaled[0], steps - 1):
            yield tensors, number * scaled[1]
    elif o.op == "multiply":
        for left, a in _products(o.inputs[0], steps - 2):
            for right, b in _products(o.inputs[1], steps - 2):
                yield [*left, *right], a * b


def _polynomial(tensor: Tensor, x: Tensor, steps: int = 2 * _MOST_STEPS) -> Numbers | None:
    """A tensor as a polynomial of another."""
    if tensor is x:
        return {1: 1.0}
    number = number_of(tensor)
    if number is not None:
        return {0: number}
    o = tensor.producer
    if o is None or not steps:
        return None
    if line := _line(o):
        inner = _polynomial(line[0], x, steps - 1)
        return inner and _sum({k: line[1] * v for k, v in inner.items()}, {0: line[2]})
    power = _with_number(o, "power")
    if power and power[1] in (2, 3):
        inner = _polynomial(power[0], x, steps - 1)
        squared = _product(inner, inner)
        return squared if power[1] == 2 else _product(squared, inner)
    if o.op not in ("add", "multiply") or len(o.inputs) != 2:
        return None
    left, right = (_polynomial(t, x, steps - 1) for t in o.inputs)
    if o.op == "multiply":
        return _product(left, right)
    return _sum(left, right) if left and right else None


def _sum(left: Numbers, right: Numbers) -> Numbers:
    return {k: left.get(k, 0) + right.get(k, 0) for k in left.keys() | right.keys()}


def _product(left: Numbers | None, right: Numbers | None) -> Numbers | None:
    if not left or not right or max(left) + max(right) > _HIGHEST:
        return None
    made: Numbers = {}
    for i, a in left.items():
        for j, b in right.items():
            made[i + j] = made.get(i + j, 0) + a * b
    return made


def _are(found: Numbers | None, wanted: Numbers, dtype: str) -> bool:
    return found is not None and all(
        isclose(found.get(k, 0), wanted.get(k, 0), rel_tol=FLOATS[dtype], abs_tol=1e-9)
        for k in found.keys() | wanted.keys()
    )


# -- gates -----------------------------------------------------------------------------------------

Named = Optional[tuple[str, Tensor]]


def _gated(o: Operator) -> Named:
    """The name and the data of x times a function of x."""
    if len(o.outputs) != 1 or o.op not in ("multiply", "divide"):
        return None
    for tensors, factor in _products(o.outputs[0]):
        if len(tensors) == 2:
            for x, gate in (tensors, tensors[::-1]):
                name = _gate(gate, factor, x) if x.shape == o.outputs[0].shape else None
                if name is not None:
                    return name, x
    return None


def _gate(gate: Tensor, factor: float, x: Tensor) -> str | None:
    o = gate.producer
    if o is None or not o.inputs or x.dtype not in FLOATS:
        return None
    inner = o.inputs[0]
    if o.op == "sigmoid":
        return "silu" if factor == 1 and _are(_polynomial(inner, x), {1: 1.0}, x.dtype) else None
    if o.op == "clip":
        moved = _polynomial(inner, x) or {}
        limits = [factor * o.number(name) for name in ("a_min", "a_max")]
        line = {k: factor * v for k, v in moved.items()}
        fits = limits[0] == 0 and isclose(limits[1], 1, rel_tol=FLOATS[x.dtype])
        return "hardswish" if fits and _are(line, {0: 0.5, 1: 1 / 6}, x.dtype) else None
    if o.op == "tanh":
        return "mish" if factor == 1 and _is_softplus(inner, x) else None
    moved_by_one = _with_number(o, "add")
    shape = moved_by_one[0].producer if moved_by_one and moved_by_one[1] == 1 else None
    if shape is None or factor != 0.5 or shape.op not in ("erf", "tanh"):
        return None
    wanted, name = (_GELU, "gelu") if shape.op == "erf" else (_GELU_TANH, "gelu_tanh")
    return name if _are(_polynomial(shape.inputs[0], x), wanted, x.dtype) else None


def _is_softplus(tensor: Tensor, x: Tensor) -> bool:
    """True for log(1 + exp(x))."""
    o = tensor.producer
    moved = _with_number(o.inputs[0].producer, "add") if o is not None and o.op == "log" else None
    power = moved[0].producer if moved and moved[1] == 1 else None
    return power is not None and power.op == "exp" and power.inputs[0] is x


def _elu(o: Operator) -> tuple[Tensor, float] | None:
    """The x and alpha of relu(x) - alpha * relu(1 - exp(x))."""
    if o.op != "add" or len(o.inputs) != 2:
        return None
    for positive, negative in (o.inputs, o.inputs[::-1]):
        relu, scaled = positive.producer, _scaled(negative.producer)
        other = scaled[0].producer if scaled else None
        if relu is None or other is None or not relu.op == other.op == "nn.relu":
            continue
        rest = other.inputs[0].producer
        if rest is None or rest.op != "subtract" or number_of(rest.inputs[0]) != 1:
            continue
        power = rest.inputs[1].producer
        if power is not None and power.op == "exp" and power.inputs[0] is relu.inputs[0]:
            return relu.inputs[0], -scaled[1] if scaled else 0.0
    return None


# -- layer norm ------------------------------------------------------------------------------------


def _name_layer_norm(o: Operator) -> None:
    """Make (x - mean) / sqrt(variance + epsilon), and a scale and a shift behind it, a layer norm."""
    axes = _normalized(o)
    if axes is not None:
        x, first, epsilon = axes
        o.op, o.inputs = "nn.layer_norm", (x,)
        o.attrs = {
            "axis": str(first), "epsilon": repr(epsilon), "center": "False", "scale": "False",
            **({"trailing": "True"} if first < len(x.shape) - 1 else {}),
        }  # fmt: skip
        return
    part = {"multiply": "scale", "add": "center"}.get(o.op)
    for data, other in (o.inputs, o.inputs[::-1]) if part and len(o.inputs) == 2 else ():
        norm = data.producer
        if norm is None or norm.op != "nn.layer_norm" or not is_float(other):
            continue
        extents = data.shape[norm.integer("axis") :]
        shape = other.shape[len(other.shape) - len(extents) :]
        if shape != extents or prod(other.shape) != prod(extents) or norm.flag("center"):
            continue
        if part == "scale" and norm.flag("scale"):
            continue
        scale = norm.inputs[1:2] or (_filled(other, 1.0),)
        o.op, o.attrs = "nn.layer_norm", {**norm.attrs, "scale": "True"}
        if part == "scale":
            o.inputs = (norm.inputs[0], other)
        else:
            o.attrs, o.inputs = {**o.attrs, "center": "True"}, (norm.inputs[0], *scale, other)
        return


def _filled(tensor: Tensor, number: float) -> Tensor:
    """A constant of the shape of another, of one number."""
    return constant_tensor("scale", tensor.numpy() * 0 + tensor.numpy().dtype.type(number))


def _normalized(o: Operator) -> tuple[Tensor, int, float] | None:
    """(x, first axis, epsilon) of what a layer norm is without scale and shift."""
    if o.op != "divide" or len(o.inputs) != 2:
        return None
    apart, root = o.inputs[0].producer, o.inputs[1].producer
    if apart is None or root is None or (apart.op, root.op) != ("subtract", "sqrt"):
        return None
    moved = _with_number(root.inputs[0].producer, "add")
    variance = moved[0].producer if moved else None
    x, mean = apart.inputs[0], apart.inputs[1].producer
    if moved is None or variance is None or mean is None:
        return None
    squared = variance.inputs[0].producer if variance.op == "mean" else None
    if (
        squared is None
        or mean.op != "mean"
        or mean.inputs[0] is not x
        or mean.attrs != variance.attrs
    ):
        return None
    if not _are(_polynomial(squared.outputs[0], o.inputs[0]), {2: 1.0}, "float32"):
        return None
    axes, rank = mean.ints("axis"), len(x.shape)
    if axes != tuple(range(rank - len(axes), rank)) or not mean.flag("keepdims"):
        return None
    return x, axes[0], moved[1]


# -- who uses what ---------------------------------------------------------------------------------


def users_of(operators: Sequence[Operator]) -> dict[int, list[Operator]]:
    """The operators that use a tensor, by its id; twice, if they use it twice."""
    found: dict[int, list[Operator]] = {}
    for o in operators:
        for tensor in o.inputs:
            found.setdefault(id(tensor), []).append(o)
    return found


def needed(operators: Sequence[Operator], outputs: Sequence[Tensor]) -> list[Operator]:
    """The operators that lead to an output."""
    wanted = {id(t) for t in outputs}
    kept = []
    for o in reversed(operators):
        if any(id(t) in wanted for t in o.outputs):
            kept.append(o)
            wanted.update(id(t) for t in o.inputs)
    return kept[::-1]
