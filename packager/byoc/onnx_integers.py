"""Operators of ONNX that compute with integers, in the words of those that TVM's frontend and engines know.

    QLinearConv, QLinearMatMul, QGemm, QLinearAdd, ...  operators of floats between DequantizeLinear and QuantizeLinear
    ConvInteger, MatMulInteger                          products of integers, as floats (sums are exact up to 2^24)
    DynamicQuantizeLinear in front of these             rounding to as many steps, which the data tells
    QuantizeLinear of a constant                        a constant

Definitions: https://onnx.ai/onnx/operators/, and the contrib operators of ONNX Runtime for the domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
# Operators of floats, with how many quantized inputs; all have the scale and the zero point of the result behind them.
_LINEAR = {
    "QLinearConv": ("Conv", 2), "QLinearMatMul": ("MatMul", 2), "QLinearAdd": ("Add", 2), "QLinearMul": ("Mul", 2),
    "QLinearSigmoid": ("Sigmoid", 1), "QLinearLeakyRelu": ("LeakyRelu", 1), "QLinearSoftmax": ("Softmax", 1),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", 1), "QLinearAveragePool": ("AveragePool", 1),
}  # fmt: skip
_OWN_ATTRIBUTES = ("channels_last", "opset")  # of com.microsoft; 0, and that of Softmax
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_AXES = 13  # the first opset whose DequantizeLinear has an axis
_LARGEST = 255  # of uint8
_BYTES = ("uint8", "int8")
_LEAST = 1e-30  # of a step: what is all zeros has none


def in_plain_operators(
    onnx: Any,
    model: Any,
    shapes: Mapping[str, Sequence[int | str]],
    *,
    keep_weights: bool = False,
) -> None:
    """Put other operators in place of those for integers, where all that they need is known.

    Args:
        onnx: the package.
        model: changed in place.
        shapes: of the values of the graph, as far as they are known.
        keep_weights: nothing takes the place of what follows from weights.
    """
    if not any(_is_of_integers(node) for node in model.graph.node):
        return
    writer = _Writer(onnx, model, shapes, keep_weights)
    for node in model.graph.node:
        writer.translate(node)
    del model.graph.node[:]
    model.graph.node.extend(writer.nodes)


def _is_of_integers(node: Any) -> bool:
    named = (
        *_LINEAR, *_PRODUCTS, "QLinearConcat", "QGemm", "DynamicQuantizeLinear", "QuantizeLinear",
    )  # fmt: skip
    return node.op_type in named and node.domain in _DOMAINS


class _Writer:
    """The nodes of a graph, one after the other."""

    def __init__(
        self, onnx: Any, model: Any, shapes: Mapping[str, Sequence[int | str]], keep_weights: bool
    ) -> None:
        self.nodes: list[Any] = []
        self._onnx, self._graph = onnx, model.graph
        opsets = [entry.version for entry in model.opset_import if entry.domain in _DOMAINS[:2]]
        self._opset = max(opsets, default=0)
        self._sizes = {name: [*shape] for name, shape in shapes.items()}
        self._sizes.update({t.name: [*t.dims] for t in model.graph.initializer})
        self._users: dict[str, list[Any]] = {value.name: [None] for value in model.graph.output}
        for node in model.graph.node:
            for name in node.input:
                self._users.setdefault(name, []).append(node)
        self._keeps_weights = keep_weights
        self._known = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
                self._known[node.output[0]] = node.attribute[0].t
        self._centered: dict[
            str, str
        ] = {}  # data of bytes: the same as floats, without its zero point
        self._steps: dict[str, str] = {}  # scales: the same with as many axes as the data

    def translate(self, node: Any) -> None:
        """Add a node, or those that stand for it."""
        attributes = {a.name: self._onnx.helper.get_attribute_value(a) for a in node.attribute}
        plain = not attributes.pop("channels_last", 0)
        done = False
        if _is_of_integers(node) and plain:
            self._prefix = f"{node.output[0]}:"
            if node.op_type in _PRODUCTS:
                done = self._product(node, attributes)
            elif node.op_type == "DynamicQuantizeLinear":
                done = self._dynamic(node)
            elif node.op_type == "QuantizeLinear":
                done = not self._keeps_weights and self._of_constant(node, attributes)
            else:
                done = self._linear(node, attributes)
        if not done:
            if node.op_type == "Mul":
                node.input[:] = [self._steps.get(name, name) for name in node.input]
            self.nodes.append(node)

    # -- pieces ------------------------------------------------------------------------------------

    def _add(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"{self._prefix}{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(op, inputs, [name], **attributes))
        return name

    def _constant(self, array: Any) -> str:
        name = f"{self._prefix}{len(self._graph.initializer)}:constant"
        self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def _number(self, value: float) -> str:
        import numpy as np

        return self._constant(np.array(value, "float32"))

    def _count(self, name: str) -> int | None:
        """The elements of a value; None if that is not known."""
        sizes = self._sizes.get(name)
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            return None
        count = 1
        for size in sizes:
            count *= int(size)
        return count

    def _floats(self, name: str) -> str:
        return self._add("Cast", name, to=self._onnx.TensorProto.FLOAT)

    def _along(self, name: str, rank: int, axis: int) -> str:
        """A vector with the axes of data."""
        import numpy as np

        if self._count(name) == 1:
            return name
        shape = [-1 if i == axis else 1 for i in range(rank)]
        return self._add("Reshape", name, self._constant(np.array(shape, "int64")))

    def _back(self, name: str, scale: str, zero: str, axis: int) -> str:
        """DequantizeLinear. `axis`: of a scale that has more than one number."""
        if self._count(scale) == 1 or self._opset >= _AXES:
            more: dict[str, Any] = {} if self._count(scale) == 1 else {"axis": axis}
            return self._add("DequantizeLinear", name, scale, *filter(None, [zero]), **more)
        rank, whole = len(self._sizes[name]), self._floats(name)
        if zero:
            whole = self._add("Sub", whole, self._along(self._floats(zero), rank, axis))
        return self._add("Mul", whole, self._along(scale, rank, axis))

    # -- operators between bytes -------------------------------------------------------------------

    def _linear(self, node: Any, attributes: dict[str, Any]) -> bool:
        names = [*node.input]
        if node.op_type == "QLinearConcat":
            (scale, zero), rest, op = names[:2], names[2:], "Concat"
            groups = [rest[i : i + 3] for i in range(0, len(rest), 3)]
            bias = ""
        else:
            op, count = ("Gemm", 2) if node.op_type == "QGemm" else _LINEAR[node.op_type]
            groups = [names[3 * i : 3 * i + 3] for i in range(count)]
            rest = names[3 * count :]
            bias = rest.pop(0) if op == "Gemm" and len(rest) > 1 else ""
            scale, zero = ([*rest, "", ""])[:2]
            bias = rest[2] if op == "Conv" and len(rest) > 2 else bias
        if not scale or not all(len(group) == 3 and self._count(group[1]) for group in groups):
            return False
        old = attributes.get("opset", self._opset) < _AXES
        if op == "Softmax" and old != (self._opset < _AXES):
            return False  # of axes that Softmax of this opset does not have
        weights = {"Conv": 0, "Gemm": 0 if attributes.get("transB") else 1}
        axis = weights.get(op, max(1, len(self._sizes.get(groups[-1][0], ())) - 1))
        given = [self._back(name, at, zero_of, axis) for name, at, zero_of in groups]
        if bias:
            factor = self._add("Mul", groups[0][1], groups[1][1])
            given.append(self._add("Mul", self._floats(bias), factor))
        own = {k: v for k, v in attributes.items() if k not in _OWN_ATTRIBUTES}
        made = self._add(op, *given, **own)
        self._add("QuantizeLinear", made, scale, *filter(None, [zero]), out=node.output[0])
        return True

    def _of_constant(self, node: Any, attributes: dict[str, Any]) -> bool:
        """Quantize a constant, such as weights, to 8 bits."""
        import numpy as np

        arrays = [self._known.get(name) for name in node.input]
        if (
            len(arrays) != 3
            or any(array is None for array in arrays)
            or attributes.get("block_size")
        ):
            return False
        data, scale, zero = map(self._onnx.numpy_helper.to_array, arrays)
        if data.dtype != "float32" or scale.dtype != "float32" or zero.dtype not in _BYTES:
            return False
        if scale.size > 1:
            spread = [1] * data.ndim
            spread[attributes.get("axis", 1)] = -1
            scale, zero = scale.reshape(spread), zero.reshape(spread)
        limits = np.iinfo(zero.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.rint(data / scale) + zero.astype("float32")
        if not np.isfinite(steps).all():
            return False
        made = np.clip(steps, limits.min, limits.max).astype(zero.dtype)
        tensor = self._onnx.numpy_helper.from_array(made, node.output[0])
        self._graph.initializer.append(tensor)
        return True

    # -- products of integers ----------------------------------------------------------------------

    def _has_known_weights(self, node: Any) -> bool:
        """True if a product's second factor, and its zero point, have shapes that are known and plain."""
        _, weights, _, zero = ([*node.input, "", ""])[:4]
        known = not zero or (self._count(zero) is not None and len(self._sizes[zero]) < 2)
        return known and bool(self._sizes.get(weights))

    def _product(self, node: Any, attributes: dict[str, Any]) -> bool:
        data, weights, zero, other = ([*node.input, "", ""])[:4]
        if not self._has_known_weights(node) or (
            zero and data not in self._centered and self._count(zero) != 1
        ):
            return False
        a = self._centered.get(data) or self._floats(data)
        if zero and data not in self._centered:
            a = self._add("Sub", a, self._floats(zero))
        b, rank = self._floats(weights), len(self._sizes[weights])
        if other:
            axis = 0 if node.op_type == "ConvInteger" else rank - 1
            b = self._add("Sub", b, self._along(self._floats(other), rank, axis))
        users, float_type = self._users.get(node.output[0], []), self._onnx.TensorProto.FLOAT
        as_floats = all(
            user is not None and user.op_type == "Cast" and user.attribute[0].i == float_type
            for user in users
        )
        made = self._add(
            _PRODUCTS[node.op_type], a, b, out=node.output[0] if as_floats else "", **attributes
        )
        if not as_floats:
            self._add("Cast", made, out=node.output[0], to=self._onnx.TensorProto.INT32)
        return True

    def _dynamic(self, node: Any) -> bool:
        (data, (result, scale, zero)) = node.input[0], node.output
        users = [*self._users.get(result, []), *self._users.get(zero, [])]
        if not self._sizes.get(data) or not all(
            user is not None
            and user.op_type in _PRODUCTS
            and [*user.input[:1], *user.input[2:3]] == [result, zero]
            and self._has_known_weights(user)
            for user in users
        ):
            return False
        highest = self._add("Relu", self._add("ReduceMax", data, keepdims=1))
        lowest = self._add("Relu", self._add("Neg", self._add("ReduceMin", data, keepdims=1)))
        limits = [self._number(0), self._number(_LARGEST)]
        step = self._add("Div", self._add("Add", highest, lowest), limits[1])
        step = self._add("Clip", step, self._number(_LEAST))
        middle = self._add("Round", self._add("Clip", self._add("Div", lowest, step), *limits))
        moved = self._add("Add", self._add("Round", self._add("Div", data, step)), middle)
        self._centered[result] = self._add("Sub", self._add("Clip", moved, *limits), middle)
        scaled, rank = self._users.get(scale, []), len(self._sizes[data])
        if all(user is not None and self._keeps_rank(user, rank) for user in scaled):
            self._steps[scale] = step
            return True
        import numpy as np

        self._add("Reshape", step, self._constant(np.zeros(0, "int64")), out=scale)
        return True

    def _keeps_rank(self, node: Any, rank: int) -> bool:
        """True for a product, and what multiplies by it, if a scale with as many axes as the data changes no shape."""
        if node.op_type != "Mul":
            return False
        if len(self._sizes.get(node.output[0], ())) >= rank:
            return True
        users = self._users.get(node.output[0], [])
        return all(
            user is not None
            and user.op_type == "Mul"
            and len(self._sizes.get(user.output[0], ())) >= rank
            for user in users
        )
