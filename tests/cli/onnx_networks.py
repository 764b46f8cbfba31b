"""Models of ONNX: `python onnx_networks.py FOLDER` writes one with an open size, and some that cannot be imported."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: list[onnx.NodeProto],
    *weights: onnx.TensorProto,
    x: str = "x.1",
    size: int = 8,
    height: int | str = 0,
    opset: int = 14,
) -> bytes:
    made_height = "k" if height else size - 2
    values = {x: ["n", 3, height or size, size], "y": ["n", 4, made_height, size - 2]}
    given, made = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in values.items()
    )
    graph = helper.make_graph(nodes, "net", [given], [made], [*weights])
    data: bytes = helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)]
    ).SerializeToString()
    return data


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    random = np.random.default_rng(1)
    weights = numpy_helper.from_array(random.random((4, 3, 3, 3), "float32"), "w")
    axis = numpy_helper.from_array(np.array(1), "axis")
    small = model(
        [
            helper.make_node("Conv", ["x.1", "w"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("CumSum", ["r", "axis"], ["y"]),
        ], weights, axis,
    )  # fmt: skip
    (folder / "small.onnx").write_bytes(small)
    (folder / "model.onnx").write_bytes(
        model([helper.make_node("Conv", ["x", "w"], ["y"])], weights, x="x", size=32)
    )
    ends = [numpy_helper.from_array(np.array([i]), f"i{i}") for i in (-1, 0, 1)]
    computed = [  # [n, -1], and the shape from before
        helper.make_node("Conv", ["x.1", "w"], ["c"]), helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Slice", ["s", "i0", "i1"], ["b"]),
        helper.make_node("Concat", ["b", "i-1"], ["t"], axis=0),
        helper.make_node("Reshape", ["c", "t"], ["f"]), helper.make_node("Reshape", ["f", "s"], ["y"]),
    ]  # fmt: skip
    (folder / "shapes.onnx").write_bytes(model(computed, weights, *ends))
    moved = [  # the same by integers of 32 bits
        *computed[:2], helper.make_node("Cast", ["s"], ["s32"], to=TensorProto.INT32),
        helper.make_node("Slice", ["s32", "i0", "i1"], ["b32"]),
        helper.make_node("Cast", ["b32"], ["b"], to=TensorProto.INT64),
        helper.make_node("Cast", ["s32"], ["s64"], to=TensorProto.INT64), *computed[3:5],
        helper.make_node("Reshape", ["f", "s64"], ["y"]),
    ]  # fmt: skip
    (folder / "moved.onnx").write_bytes(model(moved, weights, *ends, height="h"))
    names = {"conv.weight": (4, 3, 3, 3), "power": (6,), "both": (6, 6), "two": ()}
    tensors = [numpy_helper.from_array(random.random(s, "float32"), n) for n, s in names.items()]
    kept = [  # "both" as it is, and turned, which packing computes
        helper.make_node("Conv", ["x.1", "conv.weight"], ["c"]), helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Pow", ["r", "power"], ["p"]), helper.make_node("Transpose", ["both"], ["t"]),
        helper.make_node("MatMul", ["p", "t"], ["m"]), helper.make_node("Pow", ["m", "both"], ["q"]),
        helper.make_node("Mul", ["q", "two"], ["y"]),
    ]  # fmt: skip
    (folder / "weights.onnx").write_bytes(model(kept, *tensors))
    numbers = {
        "s": np.float32(0.0213), "z": np.uint8(128), "ws": (random.random(4) / 50 + 0.01).astype("float32"),
        "wz": np.zeros(4, "int8"), "wq": random.integers(-90, 90, (4, 3, 3, 3)).astype("int8"), "t": np.float32(0.1),
    }  # fmt: skip
    steps = [
        helper.make_node("QuantizeLinear", ["x.1", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"], axis=0),
        helper.make_node("Conv", ["d", "w"], ["c"]), helper.make_node("QuantizeLinear", ["c", "t", "z"], ["o"]),
        helper.make_node("DequantizeLinear", ["o", "t", "z"], ["y"]),
    ]  # fmt: skip
    constants = [numpy_helper.from_array(np.asarray(a), n) for n, a in numbers.items()]
    quantized = model(steps, *constants, opset=19)  # the first that onnx.reference can run
    (folder / "quantized.onnx").write_bytes(quantized)
    (folder / "damaged.onnx").write_bytes(small[:-40])
    (folder / "empty.onnx").touch()
    unknown = model([helper.make_node("Unheard", ["x.1"], ["y"], domain="acme")])
    (folder / "unknown.onnx").write_bytes(unknown)
