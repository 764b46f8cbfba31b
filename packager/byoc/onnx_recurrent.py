"""Recurrent layers of ONNX models (LSTM, GRU, RNN), written out step by step: TVM's frontend has none of them.

The layers have a known number of steps, the activations that ONNX gives them by default, and no peepholes, clips or
lengths of single sequences. Others stay as they are. Equations, names and orders of gates are those of the
operators in ONNX (https://onnx.ai/onnx/operators/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST_STEPS = 512  # of a layer, in all directions
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULT = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_OLDEST_OPSET = 10  # in which Slice has inputs


def unroll(onnx: Any, model: Any, shapes: Mapping[str, Sequence[int | str]]) -> None:
    """Put the operators of each step in place of recurrent layers.

    Args:
        onnx: the package.
        model: changed in place.
        shapes: of the values of the graph, as far as they are known.
    """
    opset = max((entry.version for entry in model.opset_import if not entry.domain), default=0)
    if opset < _OLDEST_OPSET:
        return
    shapes = {**shapes, **{tensor.name: [*tensor.dims] for tensor in model.graph.initializer}}
    nodes = []
    for node in model.graph.node:
        layer = _Layer(onnx, model.graph, node) if node.op_type in _GATES else None
        nodes += layer.steps(shapes) if layer is not None and layer.is_plain(shapes) else [node]
    if len(nodes) != len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(nodes)


class _Layer:
    """A recurrent layer, and the nodes and constants that are written for it."""

    def __init__(self, onnx: Any, graph: Any, node: Any) -> None:
        self._onnx, self._graph, self._node = onnx, graph, node
        self._made: list[Any] = []
        self._known: set[str] = set()  # constants
        self._kind = node.op_type
        self._attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self._prefix = f"{next(filter(None, node.output), 'recurrent')}:"
        both = self._attributes.get("direction", b"forward")
        self._directions = [b"forward", b"reverse"] if both == b"bidirectional" else [both]

    def _input(self, number: int) -> str:
        return self._node.input[number] if len(self._node.input) > number else ""

    def is_plain(self, shapes: Mapping[str, Sequence[int | str]]) -> bool:
        """True if `steps` knows all of the layer."""
        shape = shapes.get(self._input(0), ())
        size = self._attributes.get("hidden_size", 0)
        begins = [self._input(5), *([self._input(6)] if self._kind == "LSTM" else [])]
        known = len(shape) == 3 and all(isinstance(shape[i], int) for i in (0, 2))
        known = known and (isinstance(shape[1], int) or all(begins))
        names = [name.decode() for name in self._attributes.get("activations", ())]
        return (
            known
            and 0 < int(shape[0]) * len(self._directions) <= _MOST_STEPS
            and names in ([], _DEFAULT[self._kind] * len(self._directions))
            and not {"clip", "activation_alpha", "activation_beta"} & {*self._attributes}
            and not self._attributes.get("layout") and not self._attributes.get("input_forget")
            and not self._input(4) and not self._input(7)
            and [*shapes.get(self._input(2), ())] == [len(self._directions), _GATES[self._kind] * size, size]
        )  # fmt: skip

    def _add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self._prefix}{len(self._made)}"
        self._made.append(self._onnx.helper.make_node(op, inputs, [name], **attributes))
        return name

    def _numbers(self, *numbers: int) -> str:
        import numpy as np

        name = f"{self._prefix}{','.join(map(str, numbers))}:numbers"
        if name not in self._known:
            self._known.add(name)
            array = np.array(numbers, "int64")
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def _one(self, data: str, index: int, *shape: int) -> str:
        """A part of the first axis, which is gone: the rest has this shape."""
        return self._add("Reshape", self._part(data, index, index + 1, 0), self._numbers(*shape))

    def _part(self, data: str, begin: int, end: int, axis: int) -> str:
        return self._add("Slice", data, *(self._numbers(n) for n in (begin, end, axis)))

    def _gate(self, data: str, number: int, axis: int = 1) -> str:
        size = self._attributes["hidden_size"]
        return self._part(data, number * size, (number + 1) * size, axis)

    def steps(self, shapes: Mapping[str, Sequence[int | str]]) -> list[Any]:
        """The nodes in place of the layer."""
        length, batch, inputs = shapes[self._input(0)]
        size = self._attributes["hidden_size"]
        row, state = self._numbers(1, 1, -1, size), self._numbers(1, -1, size)
        sequences: list[str] = []
        ends: list[list[str]] = []
        for number, direction in enumerate(self._directions):
            order = range(int(length))[:: -1 if direction == b"reverse" else 1]
            made, states = self._along(number, order, batch, int(inputs))
            sequences.append(
                self._joined([self._add("Reshape", made[t], row) for t in range(int(length))], 0)
            )
            ends.append([self._add("Reshape", last, state) for last in states])
        results = [self._joined(sequences, 1), *(self._joined(parts, 0) for parts in zip(*ends))]
        for result, name in zip(results, self._node.output):
            if name:
                self._made.append(self._onnx.helper.make_node("Identity", [result], [name]))
        return self._made

    def _joined(self, parts: Sequence[str], axis: int) -> str:
        return parts[0] if len(parts) == 1 else self._add("Concat", *parts, axis=axis)

    def _along(
        self, number: int, order: Sequence[int], batch: int | str, inputs: int
    ) -> tuple[dict[int, str], list[str]]:
        """The results of a direction by their steps, and its last states."""
        size = self._attributes["hidden_size"]
        width = _GATES[self._kind] * size
        weights, recurrence = (
            self._add("Transpose", self._one(self._input(i), number, width, n), perm=[1, 0])
            for i, n in ((1, inputs), (2, size))
        )
        given, biases = self._add("MatMul", self._input(0), weights), ["", ""]
        if self._input(3):
            bias = self._one(self._input(3), number, 2 * width)
            biases = [self._part(bias, i * width, (i + 1) * width, 0) for i in range(2)]
            given = self._add("Add", given, biases[0])
        states = [self._start(5 + i, number, batch) for i in range(1 + (self._kind == "LSTM"))]
        made = {}
        for t in order:
            states = getattr(self, f"_{self._kind.lower()}")(
                self._one(given, t, -1, width), states, recurrence, biases[1]
            )
            made[t] = states[0]
        return made, states

    def _start(self, place: int, number: int, batch: int | str) -> str:
        import numpy as np

        if self._input(place):
            return self._one(self._input(place), number, -1, self._attributes["hidden_size"])
        name = f"{self._prefix}zeros {place} {number}"
        array = np.zeros((int(batch), self._attributes["hidden_size"]), "float32")
        self._graph.initializer.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def _recurred(self, state: str, recurrence: str, bias: str) -> str:
        product = self._add("MatMul", state, recurrence)
        return self._add("Add", product, bias) if bias else product

    def _lstm(self, given: str, states: list[str], recurrence: str, bias: str) -> list[str]:
        """i o f c: two states."""
        summed = self._add("Add", given, self._recurred(states[0], recurrence, bias))
        i, o, f = (self._add("Sigmoid", self._gate(summed, k)) for k in range(3))
        fresh = self._add("Mul", i, self._add("Tanh", self._gate(summed, 3)))
        cell = self._add("Add", self._add("Mul", f, states[1]), fresh)
        return [self._add("Mul", o, self._add("Tanh", cell)), cell]

    def _gru(self, given: str, states: list[str], recurrence: str, bias: str) -> list[str]:
        """z r h."""
        (state,) = states
        recurred = self._recurred(state, recurrence, bias)
        z, r = (
            self._add("Sigmoid", self._add("Add", self._gate(given, k), self._gate(recurred, k)))
            for k in range(2)
        )
        if self._attributes.get("linear_before_reset"):
            inner = self._add("Mul", r, self._gate(recurred, 2))
        else:
            reset = self._add("MatMul", self._add("Mul", r, state), self._gate(recurrence, 2))
            inner = self._add("Add", reset, self._gate(bias, 2, 0)) if bias else reset
        fresh = self._add("Tanh", self._add("Add", self._gate(given, 2), inner))
        apart = self._add("Mul", z, self._add("Sub", state, fresh))  # (1 - z) * fresh + z * state
        return [self._add("Add", fresh, apart)]

    def _rnn(self, given: str, states: list[str], recurrence: str, bias: str) -> list[str]:
        recurred = self._recurred(states[0], recurrence, bias)
        return [self._add("Tanh", self._add("Add", given, recurred))]
