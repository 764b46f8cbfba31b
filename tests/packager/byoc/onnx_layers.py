"""Recurrent layers of ONNX, compiled with and without an engine, beside their equations in numpy.

`python onnx_layers.py FOLDER` writes FOLDER/told.json: name of a case -> the largest difference.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import mblob

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS, HIDDEN = 5, 8
CASES: list[tuple[str, str, int, int, bool, bool, int, dict[str, int]]] = [
    (kind, direction, steps, batch, has_bias, has_state, opset, {})
    for kind in GATES
    for direction, steps, batch, has_bias, has_state, opset in (
        ("forward", 1, 1, True, True, 16),
        ("reverse", 3, 2, True, False, 14),
        ("bidirectional", 4, 2, False, True, 11),
    )
] + [("GRU", "bidirectional", 3, 2, True, True, 14, {"linear_before_reset": 1})]
random = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return random.standard_normal(shape).astype("float32")


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def step(kind: str, given: Any, recurred: Any, h: Any, c: Any, again: Any) -> tuple[Any, Any]:
    """The next state. `again`: what the third gate of a GRU gets of a state."""
    if kind == "RNN":
        return np.tanh(given + recurred), c
    if kind == "LSTM":
        i, o, f, g = np.split(given + recurred, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (z, r, g), (rz, rr, _) = np.split(given, 3, 1), np.split(recurred, 3, 1)
    z, r = sigmoid(z + rz), sigmoid(r + rr)
    return (1 - z) * np.tanh(g + again(r)) + z * h, c


def computed(kind: str, attrs: Any, x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> list[Any]:
    """Y, Y_h, Y_c of one direction, in its order."""
    rows, width = [], GATES[kind] * HIDDEN
    for given in x:

        def again(gate: Any, h: Any = h) -> Any:
            if attrs:
                return gate * (h @ r[-HIDDEN:].T + b[-HIDDEN:])
            return (gate * h) @ r[-HIDDEN:].T + b[-HIDDEN:]

        recurred = h @ r.T + b[width:]
        h, c = step(kind, given @ w.T + b[:width], recurred, h, c, again)
        rows.append(h)
    return [np.stack(rows), h, c]


def off(folder: Path, case: Any) -> float:
    kind, direction, steps, batch, has_bias, has_state, opset, attrs = case
    count, width = 1 + (direction == "bidirectional"), GATES[kind] * HIDDEN
    x, w, r = (
        floats(steps, batch, INPUTS),
        floats(count, width, INPUTS),
        floats(count, width, HIDDEN),
    )
    b = floats(count, 2 * width) * has_bias
    states = [floats(count, batch, HIDDEN) * has_state for _ in range(1 + (kind == "LSTM"))]
    wanted = []
    for d in range(count):
        turn = -1 if direction == "reverse" or d else 1
        given = [s[d] for s in (*states, *states)][:2]
        y, *ends = computed(kind, attrs, x[::turn], w[d], r[d], b[d], *given)
        wanted.append([y[::turn], *ends])
    results = [np.stack(parts, axis) for parts, axis in zip(zip(*wanted), (1, 0, 0))]

    weights = {"w": w, "r": r, **({"b": b} if has_bias else {})}
    inputs = {"x": x, **({f"s{i}": s for i, s in enumerate(states)} if has_state else {})}
    names = ["x", "w", "r", "b" * has_bias, "", *[n for n in inputs if n != "x"]]
    outputs = ["y", "y_h", "y_c"][: 2 + (kind == "LSTM")]
    value = helper.make_tensor_value_info
    node = helper.make_node(kind, names, outputs, hidden_size=HIDDEN, direction=direction, **attrs)
    graph = helper.make_graph(
        [node], "layer", [value(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [value(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "layer.onnx")
    largest = 0.0
    for engine in ("dnnl", None):
        mod = mblob.byoc.relax.from_onnx(folder / "layer.onnx")
        mblob.byoc.relax.build(mod, "llvm", engine).export_library(folder / "layer.so")
        machine = mblob.relax.VirtualMachine(mblob.load_module(folder / "layer.so"), mblob.cpu())
        found = [t.numpy() for t in machine["main"](*inputs.values())]
        assert [a.shape for a in found] == [a.shape for a in results[: len(outputs)]]
        largest = max(largest, *(float(abs(a - b).max()) for a, b in zip(found, results)))
    return largest


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    made = {" ".join(map(str, case)): off(folder, case) for case in CASES}
    (folder / "told.json").write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
