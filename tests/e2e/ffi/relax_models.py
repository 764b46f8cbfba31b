"""Models that apache-tvm compiles, with what its own machine gives: `python relax_models.py FOLDER`
writes NAME.MODE.so and NAME.npz (arguments a0, a1, ...; results r0, ...)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

MODELS: dict[str, Callable[[Any], Any]] = {}
RANDOM = np.random.default_rng(5)


def model(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    MODELS[make.__name__] = make
    return make


def real(*shape: int) -> Any:
    return (RANDOM.standard_normal(shape) / 4).astype("float32")


class Builder:
    """A function `main` under construction: `op` are TVM's operators, `weight` makes a constant."""

    def __init__(self) -> None:
        from tvm import relax, tirx
        from tvm.script import relax as script

        self.relax, self.op, self.nn = relax, relax.op, relax.op.nn
        self.tensor, self.symbol = script.Tensor, lambda name: tirx.Var(name, "int64")
        self.block = relax.BlockBuilder()
        self.params: list[Any] = []
        self.given: list[Any] = []

    def input(self, value: Any, shape: Sequence[Any] | None = None) -> Any:
        self.given.append(value)
        annotation = self.tensor(tuple(shape or value.shape), str(value.dtype))
        self.params.append(self.relax.Var(f"x{len(self.params)}", annotation))
        return self.params[-1]

    def weight(self, *shape: int) -> Any:
        return self.relax.const(real(*shape))

    def dense(self, x: Any, inputs: int, outputs: int) -> Any:
        return self.op.add(self.op.matmul(x, self.weight(inputs, outputs)), self.weight(outputs))


@model
def residual(b: Builder) -> Any:
    x = b.input(real(1, 8, 10, 10))
    y = b.nn.relu(b.nn.conv2d(x, b.weight(8, 8, 3, 3), padding=1))
    y = b.nn.conv2d(y, b.weight(8, 8, 3, 3), padding=1)
    return b.nn.avg_pool2d(b.nn.relu(b.op.add(x, y)), (2, 2), (2, 2))


@model
def depthwise(b: Builder) -> Any:
    x = b.input(real(1, 6, 9, 9))
    y = b.nn.conv2d(x, b.weight(6, 1, 3, 3), groups=6, strides=2, padding=1)
    return b.nn.conv2d(b.op.clip(y, 0, 6), b.weight(12, 6, 1, 1))


@model
def attention(b: Builder) -> Any:
    x = b.input(real(2, 6, 16))
    q, k, v = (b.dense(x, 16, 16) for _ in range(3))
    scores = b.op.multiply(
        b.op.matmul(q, b.op.permute_dims(k, (0, 2, 1))), b.relax.const(0.25, "float32")
    )
    return b.op.matmul(b.nn.softmax(scores, -1), v)


@model
def attention_of_any_length(b: Builder) -> Any:
    n = b.symbol("n")
    x = b.input(real(7, 8), (n, 8))
    scores = b.op.matmul(b.dense(x, 8, 8), b.op.permute_dims(b.dense(x, 8, 8)))
    return b.op.matmul(b.nn.softmax(scores, -1), x)


@model
def lstm(b: Builder) -> Any:
    x, h, c = b.input(real(4, 1, 8)), b.input(real(1, 8)), b.input(real(1, 8))
    w, u = b.weight(8, 32), b.weight(8, 32)
    for t in range(4):
        step = b.op.squeeze(b.op.strided_slice(x, [0], [t], [t + 1]), [0])
        gates = b.op.add(b.op.matmul(step, w), b.op.matmul(h, u))
        i, f, g, o = b.block.emit(b.op.split(gates, 4, axis=1))
        c = b.op.add(
            b.op.multiply(b.op.sigmoid(f), c), b.op.multiply(b.op.sigmoid(i), b.op.tanh(g))
        )
        c = b.block.emit(c)
        h = b.block.emit(b.op.multiply(b.op.sigmoid(o), b.op.tanh(c)))
    return b.relax.Tuple([h, c])


@model
def gru(b: Builder) -> Any:
    x, h = b.input(real(1, 8)), b.input(real(1, 8))
    z = b.op.sigmoid(b.op.add(b.dense(x, 8, 8), b.dense(h, 8, 8)))
    n = b.op.tanh(b.op.add(b.dense(x, 8, 8), b.op.multiply(z, b.dense(h, 8, 8))))
    return b.op.add(b.op.multiply(z, h), b.op.subtract(n, b.op.multiply(z, n)))


@model
def embedding(b: Builder) -> Any:
    ids = b.input(RANDOM.integers(0, 20, (3, 5)).astype("int32"))
    return b.op.mean(b.op.take(b.weight(20, 8), ids, axis=0), axis=1)


@model
def batch_of_any_size(b: Builder) -> Any:
    n = b.symbol("n")
    x = b.input(real(3, 16), (n, 16))
    return b.nn.softmax(b.dense(b.nn.gelu(b.dense(x, 16, 32)), 32, 4), -1)


@model
def normalised(b: Builder) -> Any:
    x = b.input(real(4, 12))
    return b.nn.silu(b.nn.layer_norm(x, b.weight(12), b.weight(12), axes=[-1]))


@model
def quantised(b: Builder) -> Any:
    x = b.input(RANDOM.integers(-100, 100, (4, 16)).astype("int8"))
    w = b.relax.const(RANDOM.integers(-100, 100, (16, 8)).astype("int8"))
    y = b.op.matmul(x, w, out_dtype="int32")
    return b.op.astype(
        b.op.round(b.op.multiply(b.op.astype(y, "float32"), b.relax.const(0.001, "float32"))),
        "int8",
    )


@model
def sorted_values(b: Builder) -> Any:
    x = b.input(real(3, 9))
    parts = [b.block.emit(b.op.topk(x, 4, axis=1))[0], b.op.sort(x, 1, True), b.op.argsort(x, 1)]
    return b.relax.Tuple(parts)


@model
def summed(b: Builder) -> Any:
    x = b.input(real(3, 9))
    y = b.op.cumsum(x, axis=1)
    return b.op.where(b.op.greater(y, x), b.op.exp(x), b.op.negative(y))


@model
def joined(b: Builder) -> Any:
    x, y = b.input(real(2, 4)), b.input(real(2, 6))
    both = b.block.emit(b.op.concat([x, y], axis=1))
    parts = b.block.emit(b.op.split(both, [3, 7], axis=1))
    return b.relax.Tuple([parts[2], b.op.flip(parts[0], 1), b.op.expand_dims(parts[1], 0)])


@model
def half(b: Builder) -> Any:
    x = b.input(real(4, 8).astype("float16"))
    return b.op.astype(b.op.multiply(b.op.add(x, x), x), "float32")


@model
def reduced(b: Builder) -> Any:
    n = b.symbol("n")
    x = b.input(real(5, 6), (n, 6))
    parts = [
        b.op.max(x, 0),
        b.op.argmax(x, 1),
        b.op.sum(x, [0, 1]),
        b.op.std(x, 0),
        b.op.shape_of(x),
    ]
    return b.relax.Tuple([b.block.emit(part) for part in parts])


@model
def clipped(b: Builder) -> Any:
    x = b.input(real(4, 4))
    return b.op.minimum(
        b.op.maximum(x, b.relax.const(-0.1, "float32")), b.relax.const(0.1, "float32")
    )


@model
def branches(b: Builder) -> Any:
    from tvm.script import ir, relax

    b.input(np.array(False))
    b.input(real(3, 5))

    @ir.ir_module  # type: ignore[misc]
    class Program:
        @relax.function  # type: ignore[misc]
        def main(
            wide: relax.Tensor((), "bool"), x: relax.Tensor((3, 5), "float32")
        ) -> relax.Tensor((3, 5), "float32"):
            if wide:
                y = relax.exp(x)
            else:
                positive = relax.greater(relax.sum(x), relax.const(0, "float32"))
                if positive:  # noqa: SIM108
                    y = relax.sin(x)
                else:
                    y = relax.negative(relax.tanh(x))
            return y

    return Program


@model
def recursion(b: Builder) -> Any:
    from tvm.script import ir, relax

    b.input(np.array(30, "int32"))
    b.input(real(4, 4))

    @ir.ir_module  # type: ignore[misc]
    class Program:
        @relax.function  # type: ignore[misc]
        def main(n: relax.Tensor((), "int32"), x: relax.Tensor((4, 4), "float32")) -> relax.Tensor(
            (4, 4), "float32"
        ):
            cls = Program
            done = relax.less_equal(n, relax.const(0, "int32"))
            if done:
                y = relax.nn.softmax(x)
            else:
                left = relax.subtract(n, relax.const(1, "int32"))
                step = relax.tanh(relax.matmul(x, x))
                y = cls.main(left, relax.add(step, x))
            return y

    return Program


@model
def module_of_nn(b: Builder) -> Any:
    """Of TVM's `nn` frontend, whose functions take the weights behind the inputs."""
    from tvm.relax.frontend import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(16, -1, bias=False)
            self.up, self.down = nn.Linear(16, 24), nn.Linear(24, 16, bias=False)

        def main(self, x: Any) -> Any:
            return x + self.down(nn.op.silu(self.up(self.norm(x))))

    program, weights = Block().export_tvm({"main": {"x": nn.spec.Tensor(["n", 16], "float32")}})
    b.input(real(3, 16))
    for _, weight in weights:
        b.input(real(*map(int, weight.shape)))
    return program


@model
def convolutions_of_nn(b: Builder) -> Any:
    """An embedding, convolutions in groups, and attention of several heads, of the `nn` frontend."""
    from tvm.relax.frontend import nn

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 16, dtype="float32")
            self.conv = nn.Conv1D(16, 16, 3, padding=1, groups=2)
            self.norm = nn.LayerNorm(16)
            self.parts = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])

        def main(self, ids: Any) -> Any:
            x = self.table(ids)
            y = nn.op.permute_dims(self.conv(nn.op.permute_dims(x, [0, 2, 1])), [0, 2, 1])
            y = self.norm(x + y)
            heads = [nn.op.reshape(part(y), (2, 5, 4, 4)) for part in self.parts]
            z = nn.op.scaled_dot_product_attention(*heads)
            return nn.op.reshape(z, (2, 5, 16)) + y

    program, weights = Net().export_tvm({"main": {"ids": nn.spec.Tensor([2, 5], "int32")}})
    b.input(RANDOM.integers(0, 20, (2, 5)).astype("int32"))
    for _, weight in weights:
        b.input(real(*map(int, weight.shape)))
    return program


# -- of TVM's ONNX frontend ------------------------------------------------------------------------

Ends = Sequence[tuple[str, str, Sequence[Any]]]  # name, type and shape


def of_onnx(
    nodes: Sequence[Any], inputs: Ends, outputs: Ends, weights: dict[str, Any], opset: int = 18
) -> Any:
    from onnx import helper, numpy_helper
    from tvm.relax.frontend.onnx import from_onnx

    held = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "network", ends(inputs), ends(outputs), held)
    return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))


def ends(rows: Ends) -> list[Any]:
    from onnx import TensorProto, helper

    return [
        helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)
        for name, kind, shape in rows
    ]


def node(kind: str, *names: str, **attributes: Any) -> Any:
    """A node of one output, whose name comes last."""
    from onnx import helper

    return helper.make_node(kind, names[:-1], names[-1:], **attributes)


@model
def network_of_onnx(b: Builder) -> Any:
    """Convolutions with a residual, for any batch."""
    shapes = {"w0": (4, 3, 3, 3), "w1": (4, 4, 3, 3), "w2": (5, 4), "b2": (5,)}
    nodes = [
        node("Conv", "x", "w0", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Conv", "b", "w1", "c", pads=[1, 1, 1, 1]),
        node("Add", "b", "c", "d"),
        node("GlobalAveragePool", "d", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f", "w2", "b2", "g", transB=1),
        node("Softmax", "g", "y", axis=1),
    ]
    weights = {name: real(*shape) for name, shape in shapes.items()}
    b.input(real(2, 3, 8, 8))
    inputs, outputs = [("x", "FLOAT", ["n", 3, 8, 8])], [("y", "FLOAT", ["n", 5])]
    return of_onnx(nodes, inputs, outputs, weights, 13)


@model
def attention_of_onnx(b: Builder) -> Any:
    """An embedding, and attention of one head; any batch, any length."""
    nodes = [
        node("Gather", "table", "ids", "e"),
        *(node("MatMul", "e", f"w{part}", part) for part in "qkv"),
        node("Transpose", "k", "t", perm=[0, 2, 1]),
        node("MatMul", "q", "t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p", "v", "o"),
        node("Add", "o", "e", "r"),
        node("LayerNormalization", "r", "scale", "shift", "y", axis=-1),
    ]
    shapes = {
        "table": (20, 8),
        "wq": (8, 8),
        "wk": (8, 8),
        "wv": (8, 8),
        "scale": (8,),
        "shift": (8,),
    }
    weights = {name: real(*shape) for name, shape in shapes.items()}
    b.input(RANDOM.integers(0, 20, (3, 7)))
    inputs, outputs = [("ids", "INT64", ["n", "m"])], [("y", "FLOAT", ["n", "m", 8])]
    return of_onnx(nodes, inputs, outputs, weights)


@model
def quantised_of_onnx(b: Builder) -> Any:
    """A convolution whose inputs, weights and results are int8 with scales."""
    nodes = [
        node("QuantizeLinear", "x", "sx", "zx", "xq"),
        node("DequantizeLinear", "xq", "sx", "zx", "xd"),
        node("DequantizeLinear", "wq", "sw", "zw", "w"),
        node("Conv", "xd", "w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r", "sy", "zy", "y"),
    ]
    scales = {"sx": np.float32(0.02), "sw": np.float32(0.01), "sy": np.float32(0.03)}
    zeros = {"zx": np.int8(3), "zw": np.int8(0), "zy": np.int8(-5)}
    weights = {"wq": RANDOM.integers(-100, 100, (4, 3, 3, 3)).astype("int8"), **scales, **zeros}
    b.input(real(1, 3, 6, 6))
    inputs, outputs = [("x", "FLOAT", [1, 3, 6, 6])], [("y", "INT8", [1, 4, 6, 6])]
    return of_onnx(nodes, inputs, outputs, weights)


@model
def integers_of_onnx(b: Builder) -> Any:
    right = RANDOM.integers(-9, 9, (4, 5)).astype("int8")
    b.input(RANDOM.integers(-9, 9, (3, 4)).astype("int8"))
    nodes = [node("MatMulInteger", "x", "w", "y")]
    return of_onnx(nodes, [("x", "INT8", [3, 4])], [("y", "INT32", [3, 5])], {"w": right})


@model
def branches_of_onnx(b: Builder) -> Any:
    """`If`, whose branches are graphs of their own."""
    from onnx import helper

    then, other = (
        helper.make_graph([node(kind, "x", name)], name, [], ends([(name, "FLOAT", [2, 3])]))
        for kind, name in (("Exp", "a"), ("Neg", "b"))
    )
    b.input(np.array(True))
    b.input(real(2, 3))
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other)]
    inputs = [("c", "BOOL", []), ("x", "FLOAT", [2, 3])]
    return of_onnx(nodes, inputs, [("y", "FLOAT", [2, 3])], {})


@model
def places_of_onnx(b: Builder) -> Any:
    """`NonZero`, whose shape depends on the data."""
    b.input(np.array([0, 1, 0, 2, 3], "float32"))
    nodes = [node("NonZero", "x", "y")]
    return of_onnx(nodes, [("x", "FLOAT", ["n"])], [("y", "INT64", [1, "k"])], {})


@model
def transposed_of_onnx(b: Builder) -> Any:
    nodes = [
        node("ConvTranspose", "x", "w", "c", strides=[2, 2]),
        node("BatchNormalization", "c", "s", "b", "m", "v", "d"),
        node("MaxPool", "d", "p", kernel_shape=[2, 2]),
        node("ReduceMean", "p", "y", keepdims=0),
    ]
    weights = {name: real(3) for name in "sbm"}
    weights |= {"w": real(2, 3, 3, 3), "v": abs(real(3)) + 1}
    b.input(real(2, 2, 4, 4))
    return of_onnx(nodes, [("x", "FLOAT", ["n", 2, 4, 4])], [("y", "FLOAT", [])], weights)


def flat(value: Any) -> list[Any]:
    """Results as arrays."""
    import tvm

    if isinstance(value, tvm.runtime.Tensor):
        return [value.numpy()]
    if all(isinstance(item, int) for item in value):  # a Shape
        return [np.array(list(value), "int64")]
    return [array for item in value for array in flat(item)]


def write(name: str, make: Callable[[Any], Any], folder: Path) -> None:
    import tvm
    from tvm import relax

    b = Builder()
    with b.block.function("main"):
        made = make(b)
        whole = isinstance(made, tvm.IRModule)
        b.block.emit_func_output(b.block.normalize(b.params[0] if whole else made), b.params)
    program = made if whole else b.block.get()
    target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2"})
    given = {f"a{i}": value for i, value in enumerate(b.given)}
    for mode in ("bytecode", "compiled"):
        path = folder / f"{name}.{mode}.so"
        relax.build(program, target, exec_mode=mode).export_library(str(path))
        if mode == "bytecode":
            vm = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
            results = flat(vm["main"](*map(tvm.runtime.tensor, given.values())))
            given |= {f"r{i}": array for i, array in enumerate(results)}
    np.savez(folder / f"{name}.npz", **given)


if __name__ == "__main__":
    for name, make in MODELS.items():
        if "onnx" not in name or find_spec("onnx"):
            write(name, make, Path(sys.argv[1]))
