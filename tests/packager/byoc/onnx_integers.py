"""Operators of ONNX that compute with integers, compiled with and without an engine, beside what they stand for.

`python onnx_integers.py FOLDER` writes FOLDER/told.json: case -> the largest difference, in steps of its result.
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
from onnx.reference import ReferenceEvaluator

import mblob

SHAPE = (2, 4, 6, 6)
MICROSOFT = "com.microsoft"
random = np.random.default_rng(3)


def one(op: str, inputs: list[Any], opset: int, **attributes: Any) -> Any:
    """The result of an operator of floats."""
    names = [f"i{i}" for i in range(len(inputs))]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)], "one",
        [value(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, inputs)], [value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return ReferenceEvaluator(made).run(None, dict(zip(names, inputs)))[0]


class Model:
    """A network whose outputs are the cases."""

    def __init__(self, opset: int) -> None:
        self.opset, self.nodes, self.constants = opset, list[Any](), list[Any]()
        self.wanted: dict[str, Any] = {}
        self.x = (random.standard_normal(SHAPE) * 2).astype("float32")
        self.bytes: dict[
            str, tuple[str, Any, float, int]
        ] = {}  # name -> (scale, zero), and the numbers

    def constant(self, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def node(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"v{len(self.nodes)}"
        domain = (
            MICROSOFT if op in ("QGemm", "QLinearConcat") or op.startswith(OF_MICROSOFT) else ""
        )
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **attributes))
        return out

    def data(self, scale: float, zero: int, dtype: str, of: str = "x") -> tuple[list[str], Any]:
        """The network's input in bytes: the words for an operator, and the numbers that they stand for."""
        words = [self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))]
        limits = np.iinfo(dtype)
        x = self.x if of == "x" else self.x.reshape(-1, 6)
        steps = np.clip(np.rint(x / np.float32(scale)) + zero, limits.min, limits.max) - zero
        return [self.node("QuantizeLinear", of, *words), *words], (
            steps * np.float32(scale)
        ).astype("float32")

    def weights(
        self, *shape: int, axis: int | None = None, dtype: str = "int8", zero: int = 0
    ) -> tuple[list[str], Any]:
        limits = np.iinfo(dtype)
        whole = random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
        count = 1 if axis is None else shape[axis]
        scale = (random.random(count) / 99 + 0.002).astype("float32")
        zeros = np.full(count, zero, dtype)
        spread = [1] * len(shape)
        if axis is not None:
            spread[axis] = count
        numbers = (whole.astype("float32") - zero) * scale.reshape(spread)
        if axis is None:
            scale, zeros = scale.reshape(()), zeros.reshape(())
        return [self.constant(whole), self.constant(scale), self.constant(zeros)], numbers

    def rounded(
        self,
        case: str,
        op: str,
        words: list[str],
        y: Any,
        *more: str,
        first: bool = False,
        **attributes: Any,
    ) -> None:
        """A case whose result is in bytes, with the scale and zero point of uint8 for it."""
        scale, zero = np.float32(max(float(np.abs(y).max()), 1e-3) / 100), 117
        result = [self.constant(scale), self.constant(np.uint8(zero))]
        names = [*result, *words] if first else [*words, *result, *more]
        self.node(op, *names, out=case, **attributes)
        self.wanted[case] = np.clip(np.rint(y / scale) + zero, 0, 255).astype("uint8")

    def save(self, path: Path) -> None:
        kinds = {case: helper.np_dtype_to_tensor_dtype(y.dtype) for case, y in self.wanted.items()}
        graph = helper.make_graph(
            self.nodes, "cases", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(case, kind, self.wanted[case].shape) for case, kind in kinds.items()],
            self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


OF_MICROSOFT = (
    "QLinearAdd",
    "QLinearMul",
    "QLinearSig",
    "QLinearLeaky",
    "QLinearSoft",
    "QLinearGlobal",
    "QLinearAver",
)


def cases(opset: int) -> Model:
    m = Model(opset)
    (u, fu), (s, fs) = m.data(0.03, 131, "uint8"), m.data(0.021, -5, "int8")
    flat = m.node("Reshape", "x", m.constant(np.array([-1, 6])))
    rows, frows = m.data(0.03, 131, "uint8", flat)
    for case, axis, zero, dtype in (
        ("conv", None, 0, "int8"),
        ("conv_channels", 0, 0, "int8"),
        ("conv_uint8", None, 128, "uint8"),
    ):
        w, fw = m.weights(8, 2, 3, 3, axis=axis, zero=zero, dtype=dtype)
        scale = np.float32(0.03) * numpy_helper.to_array(
            next(c for c in m.constants if c.name == w[1])
        )
        whole = random.integers(-900, 900, 8).astype("int32")
        attributes = {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]}
        y = one("Conv", [fu, fw, (whole * scale).astype("float32")], opset, **attributes)
        m.rounded(case, "QLinearConv", [*u, *w], y, m.constant(whole), **attributes)
    for case, axis in (("matmul", None), ("matmul_columns", 1)):
        w, fw = m.weights(6, 5, axis=axis)
        m.rounded(case, "QLinearMatMul", [*rows, *w], frows @ fw)
    w, fw = m.weights(5, 6)
    m.rounded(
        "gemm", "QGemm", [*rows, *w, m.constant(np.zeros(5, "int32"))], frows @ fw.T, transB=1
    )
    m.rounded("add", "QLinearAdd", [*u, *s], fu + fs)
    m.rounded("mul", "QLinearMul", [*u, *s], fu * fs)
    m.rounded("sigmoid", "QLinearSigmoid", u, 1 / (1 + np.exp(-fu)))
    m.rounded("leaky", "QLinearLeakyRelu", s, np.where(fs > 0, fs, fs * 0.2), alpha=0.2)
    m.rounded(
        "softmax",
        "QLinearSoftmax",
        rows,
        one("Softmax", [frows], opset, axis=1),
        axis=1,
        opset=opset,
    )
    m.rounded(
        "average", "QLinearGlobalAveragePool", u, fu.mean((2, 3), keepdims=True), channels_last=0
    )
    pool: dict[str, Any] = {"kernel_shape": [2, 3], "strides": [2, 2]}
    m.rounded("pool", "QLinearAveragePool", u, one("AveragePool", [fu], opset, **pool), **pool)
    m.rounded("concat", "QLinearConcat", [*u, *s], np.concatenate([fu, fs], 1), first=True, axis=1)

    def integers(
        case: str,
        op: str,
        data: list[str],
        x: Any,
        w: list[str],
        fw: Any,
        floats: bool,
        **more: Any,
    ) -> None:
        unit = [
            numpy_helper.to_array(next(c for c in m.constants if c.name == words[1]))
            for words in (data, w)
        ]
        whole = np.rint(x / unit[0]).astype("float32"), np.rint(fw / unit[1]).astype("float32")
        y = one(op.removesuffix("Integer"), [*whole], opset, **more)
        result = m.node(op, data[0], w[0], data[2], w[2], out="" if floats else case, **more)
        if floats:
            m.node("Cast", result, out=case, to=TensorProto.FLOAT)
        m.wanted[case] = y.astype("float32" if floats else "int32")

    w, fw = m.weights(6, 4, 3, 3)
    integers("conv_integer", "ConvInteger", u, fu, w, fw, True, pads=[1, 1, 1, 1])
    w, fw = m.weights(6, 5, zero=-3)
    integers("matmul_integer", "MatMulInteger", rows, frows, w, fw, False)

    # Weights that the network quantizes itself, of a layer of one axis.
    steps = (0.03, 131, "uint8"), (0.02, 0, "int8")
    row = m.node("Reshape", "x", m.constant(np.array([2, 4, 36])))
    whole = m.x.reshape(2, 4, 36), random.standard_normal((8, 4, 5)).astype("float32")
    numbers, words = [], []
    for (scale, zero, dtype), array, name in zip(steps, whole, (row, m.constant(whole[1]))):
        limits, size = np.iinfo(dtype), np.float32(scale)
        numbers.append(np.clip(np.rint(array / size), limits.min - zero, limits.max - zero) * size)
        parts = m.constant(size), m.constant(np.array(zero, dtype))
        words.append(m.node("DequantizeLinear", m.node("QuantizeLinear", name, *parts), *parts))
    y = one("Conv", [a.astype("float32") for a in numbers], opset, pads=[2, 2])
    scale = np.float32(np.abs(y).max() / 100)
    result = m.constant(scale), m.constant(np.uint8(117))
    m.node("QuantizeLinear", m.node("Conv", *words, pads=[2, 2]), *result, out="conv1d")
    m.wanted["conv1d"] = np.clip(np.rint(y / scale) + 117, 0, 255).astype("uint8")

    w, fw = m.weights(6, 5)
    for case, data, x in (
        ("dynamic", flat, m.x.reshape(-1, 6)),
        ("dynamic_zeros", m.node("Mul", flat, m.constant(np.float32(0))), m.x.reshape(-1, 6) * 0),
    ):
        names = [f"{case}:{part}" for part in ("bytes", "scale", "zero")]
        m.nodes.append(helper.make_node("DynamicQuantizeLinear", [data], names))
        made = m.node(
            "Cast", m.node("MatMulInteger", names[0], w[0], names[2], w[2]), to=TensorProto.FLOAT
        )
        m.node("Mul", made, m.node("Mul", names[1], w[1]), out=case)
        low, high = min(float(x.min()), 0), max(float(x.max()), 0)
        scale = np.float32(high - low) / np.float32(255)
        zero = np.rint(np.clip(-low / (scale or 1), 0, 255))
        steps = np.clip(np.rint(x / (scale or 1)) + zero, 0, 255) - zero
        m.wanted[case] = (steps * scale @ fw).astype("float32")
    return m


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    told: dict[str, float] = {}
    for opset in (12, 17):
        m = cases(opset)
        m.save(folder / "cases.onnx")
        for engine in ("dnnl", None):
            mod = mblob.byoc.relax.from_onnx(folder / "cases.onnx")
            regions: list[str] = []
            lib = mblob.byoc.relax.build(mod, "llvm", engine, trace=regions.append)
            lib.export_library(folder / "cases.so")
            assert engine is None or "1 dnnl.qnn.conv1d" in " ".join(regions), regions
            machine = mblob.relax.VirtualMachine(
                mblob.load_module(folder / "cases.so"), mblob.cpu()
            )
            for (case, wanted), tensor in zip(m.wanted.items(), machine["main"](m.x)):
                found = tensor.numpy()
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), case
                unit = (
                    1.0 if wanted.dtype == "uint8" else 1e-5 * max(float(np.abs(wanted).max()), 1)
                )
                told[f"{case} {opset} {engine}"] = (
                    float(np.abs(found.astype("float64") - wanted).max()) / unit
                )
    (folder / "told.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
