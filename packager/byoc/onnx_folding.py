"""Values that a model of ONNX computes of shapes and constants, computed when the shapes are known: TVM's frontend
takes no reshape to a shape, and no padding, that the network computes. Where a size is open, its place in the
shape of a reshape says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

_LARGEST = 4096  # elements of a value that is computed here
_OF_SHAPES = ("Shape", "Size")
_MOVES = ("Cast", "Concat", "Gather", "Identity", "Slice", "Squeeze", "Unsqueeze")
_STAND_IN = 1 << 30  # for open sizes that are moved, also as int32; no other size is that large
_QUANTIZED = ("QuantizeLinear", "DequantizeLinear")  # engines compute with the integers
_SIZES = ("int32", "int64", "bool")  # types of shapes, and of what is computed of them
_RANDOM = (
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli",
    "Multinomial", "Dropout",
)  # fmt: skip


def fold_shapes(
    onnx: Any,
    model: Any,
    shapes: Mapping[str, Sequence[int | str]],
    *,
    keep_weights: bool = False,
) -> None:
    """Put constants in place of small values that follow from constants and the shapes of the inputs.

    Args:
        onnx: the package.
        model: changed in place.
        shapes: of the inputs.
        keep_weights: nothing takes the place of what follows from weights, which may be replaced later.
            Integers and numbers are no weights.
    """
    graph = model.graph
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer if _is_small(t.dims)}
    weights = {n for n, array in values.items() if keep_weights and _is_weight(array)}
    folded: dict[str, Any] = {}
    while found := _computed(onnx, model, _known(inferred(onnx, model, shapes)), values, weights):
        values.update(found)
        folded.update(found)
        left = [node for node in graph.node if not (node.output and node.output[0] in found)]
        del graph.node[:]
        graph.node.extend(left)
        made = [onnx.numpy_helper.from_array(array, name) for name, array in found.items()]
        graph.initializer.extend(made)
    while _open_reshapes(onnx, model, inferred(onnx, model, shapes), values):
        pass
    used = {name for node in graph.node for name in node.input}
    if not any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute):
        kept = [t for t in graph.initializer if t.name not in folded or t.name in used]
        del graph.initializer[:]
        graph.initializer.extend(kept)


def _is_small(shape: Sequence[int]) -> bool:
    return prod(shape) <= _LARGEST


def _is_weight(array: Any) -> bool:
    return array.size > 1 and array.dtype not in _SIZES


def _known(shapes: Mapping[str, Sequence[int | str]]) -> dict[str, Sequence[int]]:
    """The shapes without open sizes."""
    return {
        name: [s for s in sizes if isinstance(s, int)]
        for name, sizes in shapes.items()
        if all(isinstance(size, int) for size in sizes)
    }


def _open_reshapes(
    onnx: Any, model: Any, shapes: Mapping[str, Sequence[int | str]], values: Mapping[str, Any]
) -> bool:
    """Put constants in place of shapes of reshapes that are computed of open sizes: 0 for one that the data has in the
    same place, -1 for at most one other.

    Returns:
        True if there were any: more shapes may be known now.
    """
    import numpy as np

    graph, known, stand_ins = model.graph, dict(values), dict[str, int]()
    of_open: set[str] = set()  # values
    made = []
    for node in graph.node:
        names = [name for name in node.input if name]
        if node.domain or len(node.output) != 1:
            continue
        if node.op_type == "Shape" and all(shapes.get(names[0], [""])):
            ends = {a.name: a.i for a in node.attribute}
            for size in shapes[names[0]]:
                if isinstance(size, str):
                    stand_ins.setdefault(size, _STAND_IN + len(stand_ins))
            sizes = [stand_ins.get(str(size), size) for size in shapes[names[0]]]
            array = np.array(sizes[ends.get("start", 0) : ends.get("end")], "int64")
        elif node.op_type == "Constant" or (
            node.op_type in _MOVES and of_open.intersection(names) and known.keys() >= {*names}
        ):
            array = _run(onnx, model, node, {name: known[name] for name in names})
        else:
            plain = not any(a.i for a in node.attribute)  # allowzero
            if node.op_type == "Reshape" and plain and names[1] in of_open:
                given = [stand_ins.get(str(size), size) for size in shapes.get(names[0], ())]
                row = [int(size) for size in known[names[1]]]
                row = [
                    size if size < _STAND_IN else 0 if [size] == given[i : i + 1] else -1
                    for i, size in enumerate(row)
                ]
                if row.count(-1) < 2:
                    made.append((node, row))
            continue
        if array is not None and _is_small(array.shape):
            known[node.output[0]] = array
            if node.op_type != "Constant":
                of_open.add(node.output[0])
    for node, row in made:
        node.input[1] = f"{node.output[0]}:shape"
        array = np.array(row, "int64")
        graph.initializer.append(onnx.numpy_helper.from_array(array, node.input[1]))
    return bool(made)


def inferred(
    onnx: Any, model: Any, shapes: Mapping[str, Sequence[int | str]]
) -> dict[str, Sequence[int | str]]:
    """The shapes that are known of values, by the rules of ONNX. An open size is its name, or "" if it has none."""
    light = onnx.ModelProto()  # without the weights, which may be gigabytes
    light.ir_version = max(model.ir_version, 4)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = "shapes"
    graph.node.extend(model.graph.node)
    weights = {t.name: t for t in model.graph.initializer}
    graph.initializer.extend(t for t in weights.values() if _is_small(t.dims))
    make = onnx.helper.make_tensor_value_info
    graph.input.extend(
        make(v.name, v.type.tensor_type.elem_type, shapes[v.name]) if v.name in shapes else v
        for v in model.graph.input
        if v.name not in weights
    )
    graph.input.extend(
        make(t.name, t.data_type, t.dims) for t in weights.values() if not _is_small(t.dims)
    )
    graph.output.extend(
        make(v.name, v.type.tensor_type.elem_type, None) for v in model.graph.output
    )
    try:
        done = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except Exception:  # such as for a domain that the model does not import
        done = graph
    found: dict[str, Sequence[int | str]] = {}
    for value in (*done.value_info, *done.input, *done.output):
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            found[value.name] = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param
                for d in kind.shape.dim
            ]
    return found


def _computed(
    onnx: Any,
    model: Any,
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Any],
    weights: Iterable[str],
) -> dict[str, Any]:
    """The values of nodes whose inputs are known, or whose input's shape is.

    Args:
        values: what is known already.
        weights: of which no other weights are computed.
    """
    import numpy as np

    known, found, of_weights = dict(values), {}, {*weights}
    results = {value.name for value in model.graph.output}
    for node in model.graph.node:
        names = [name for name in node.input if name]
        is_shape = node.op_type in _OF_SHAPES and names and names[0] in shapes
        if not is_shape and not all(name in known for name in names):
            continue
        if (
            node.domain
            or node.op_type in (*_RANDOM, *_QUANTIZED)
            or results.intersection(node.output)
        ):
            continue
        if len(node.output) != 1 or any(a.HasField("g") or a.graphs for a in node.attribute):
            continue
        out = node.output[0]
        if node.op_type == "Constant":
            array = _run(onnx, model, node, {})
        elif is_shape:  # of which the elements do not matter
            data = np.broadcast_to(np.float32(0), shapes[names[0]])
            array = _run(onnx, model, node, {names[0]: data})
        elif out in shapes and _is_small(shapes[out]):
            array = _run(onnx, model, node, {name: known[name] for name in names})
        else:
            continue
        if array is None or not _is_small(array.shape):
            continue
        known[out] = array
        if not of_weights.isdisjoint(names) and not is_shape and array.dtype not in _SIZES:
            of_weights.add(out)
        elif node.op_type != "Constant":
            found[out] = array
    return found


def _run(onnx: Any, model: Any, node: Any, inputs: Mapping[str, Any]) -> Any:
    """The result of a node as ONNX defines it; None if its package cannot tell."""
    from onnx.reference import ReferenceEvaluator

    graph = onnx.GraphProto(name="one")
    graph.node.append(node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in inputs)
    graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    try:
        (array,) = ReferenceEvaluator(graph, opsets=opsets).run(None, dict(inputs))
    except Exception:
        return None
    return array
