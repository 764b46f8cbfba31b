"""Relax modules that apache-tvm compiles: `python relax_modules.py FOLDER` writes NAME.so, with regions for an engine,
NAME.txt, which tells what went where, and NAME.npz with the input x and what TVM's own kernels give: y0, y1, ..."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax, topi
from tvm.relax import dpl
from tvm.script import relax as script

import mblob
from mblob.packager.byoc.operators import Operator, Region
from mblob.packager.byoc.relax_operators import type_of

op = relax.op
random = np.random.default_rng(7)


# The type of numbers, and the one that they were rounded to before.
kinds = ["float32", "float32"]


def number(value: Any) -> Any:
    with np.errstate(over="ignore"):
        return relax.const(np.asarray(value, "float32").astype(kinds[1]).astype(kinds[0]))


def constant(*shape: int, positive: bool = False) -> Any:
    values = random.standard_normal(shape).astype("float32")
    return number(np.abs(values) + 0.5 if positive else values / 4)


class Net:
    """Emits calls, one after the other."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def __call__(self, made: Any) -> Any:
        return self.block.emit(made)

    def hardswish(self, x: Any, way: int) -> Any:
        three, six = number(3.0), number(6.0)
        gate = self(op.clip(self(op.add(x, three)), 0, 6))
        if way == 0:
            return self(op.multiply(x, self(op.divide(gate, six))))
        if way == 1:
            return self(op.divide(self(op.multiply(gate, x)), six))
        return self(op.multiply(self(op.multiply(gate, number(1 / 6))), x))

    def norm(self, x: Any, channels: int, training: bool = False) -> Any:
        if kinds[1] != "float32":  # TVM 0.27 takes the batch norm of halves for one of float32
            scaled = self(op.multiply(x, constant(channels, 1, 1, positive=True)))
            return self(op.add(scaled, constant(channels, 1, 1)))
        rest = [constant(channels) for _ in range(3)]
        variance = constant(channels, positive=True)
        made = op.nn.batch_norm(x, *rest, variance, axis=1, training=training)
        return self(self(made)[0])


def layers(net: Net, x: Any) -> list[Any]:
    """[1, 6, 13, 12]: convolutions of each kind, norms, activations, pools, a dense layer."""
    a = net(op.nn.conv2d(x, constant(8, 6, 3, 3), strides=(2, 1), padding=(1, 0, 2, 1)))
    a = net.hardswish(net.norm(a, 8), 0)
    b = net(op.nn.conv2d(a, constant(8, 1, 3, 3), padding=1, groups=8))
    b = net.hardswish(net.norm(b, 8), 1)
    c = net(op.nn.conv2d(b, constant(8, 4, 3, 3), padding=2, dilation=2, groups=2))
    c = net(op.add(c, constant(1, 8, 1, 1)))
    c = net.hardswish(net(op.nn.relu(net(op.add(a, c)))), 2)
    c = net(op.add(net(op.multiply(c, number(0.75))), number(-0.25)))
    up = net(op.nn.conv2d_transpose(c, constant(8, 5, 3, 3), strides=2))
    up = net(op.sigmoid(net.norm(up, 5)))
    pools = [
        net(op.nn.max_pool2d(up, (3, 3), strides=(2, 2), padding=1, ceil_mode=True)),
        net(op.nn.avg_pool2d(up, (2, 2), strides=(2, 2), count_include_pad=False)),
    ]
    mean = net(op.mean(c, [2, 3], keepdims=True))
    flat = net(op.reshape(mean, (1, 8)))
    dense = net(op.add(net(op.matmul(flat, constant(8, 4))), constant(4)))
    return [*pools, net(op.nn.softmax(net(op.tanh(dense))))]


def shapes(net: Net, x: Any) -> list[Any]:
    """[2, 4, 6]: tensors in other orders, sizes and numbers, and operands that are spread."""
    a = net(op.nn.conv1d(x, constant(4, 4, 3), padding=1))
    b = net(op.permute_dims(a, [2, 0, 1]))
    c = net(op.concat([net(op.permute_dims(b, [1, 2, 0])), x], axis=1))
    image = net(op.reshape(c, (2, 8, 2, 3)))
    nearest = net(op.image.resize2d(
        image, (4, 9), layout="NCHW", method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric", rounding_method="floor",
    ))  # fmt: skip
    linear = net(op.image.resize2d(
        image, (5, 7), layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel"
    ))  # fmt: skip
    low = net.block.emit_te(topi.maximum, nearest, number(-0.5))
    clipped = net.block.emit_te(topi.minimum, low, number(0.5))
    spread = net(op.multiply(clipped, net(op.mean(nearest, [2, 3], keepdims=True))))
    turned = net(op.subtract(number(1.0), spread))
    return [turned, net(op.divide(number(2.0), net(op.exp(linear))))]


def twice(net: Net, x: Any) -> list[Any]:
    """[1, 4, 5, 5]: the same function twice, whose variables are the same objects then."""
    weights = constant(4, 4, 1, 1)
    first = net(op.nn.relu(net(op.nn.conv2d(x, weights))))
    second = net(op.nn.relu(net(op.nn.conv2d(first, weights))))
    return [first, second]


def tiles(net: Net, x: Any) -> list[Any]:
    """[2, 3, 5, 4]: transposed convolutions whose kernel is their stride, in a row."""
    a = net(op.nn.conv2d(x, constant(8, 3, 3, 3), padding=1))
    b = net(op.nn.conv2d_transpose(a, constant(8, 6, 2, 2), strides=2))
    b = net(op.nn.relu(net.norm(net(op.add(b, constant(1, 6, 1, 1))), 6)))
    c = net(op.sigmoid(net(op.nn.conv2d_transpose(b, constant(6, 1, 3, 2), strides=(3, 2)))))
    return [net(op.nn.conv2d(b, constant(4, 6, 3, 3))), c]


def gates(net: Net, x: Any) -> list[Any]:
    """[2, 6, 8]: functions of one element, as frontends write them out, behind products."""
    one, two, half = number(1.0), number(2.0), number(0.5)
    root = number(2**0.5)

    def layer(x: Any) -> Any:
        return net(op.add(net(op.matmul(x, constant(8, 8))), constant(8)))

    def erf(x: Any) -> Any:
        return net(op.add(one, net(op.erf(net(op.divide(x, root))))))

    a = layer(x)
    a = net(op.multiply(net(op.multiply(a, erf(a))), half))
    b = layer(a)
    b = net(op.multiply(net(op.multiply(half, b)), erf(b)))
    c = layer(b)
    cube = net(op.multiply(number(0.044715), net(op.power(c, number(3.0)))))
    inner = net(op.multiply(net(op.add(c, cube)), number((2 / np.pi) ** 0.5)))
    tanh = net(op.add(net(op.tanh(inner)), one))
    c = net(op.multiply(net(op.multiply(c, half)), tanh))
    d = layer(c)
    d = net(op.multiply(d, net(op.sigmoid(d))))
    e = layer(net(op.nn.gelu(layer(d))))
    rest = net(op.nn.relu(net(op.subtract(one, net(op.exp(e))))))
    e = net(op.add(net(op.multiply(number(-0.5), rest)), net(op.nn.relu(e))))
    f = layer(net(op.nn.leakyrelu(layer(e), 0.1)))
    g = layer(net(op.multiply(f, net(op.tanh(net(op.log(net(op.add(one, net(op.exp(f)))))))))))
    alone = net(op.erf(net(op.divide(g, two))))
    return [net(op.nn.prelu(g, constant(6), 1)), alone]


def attention(net: Net, x: Any) -> list[Any]:
    """[2, 6, 8]: a block of a transformer, whose norms are written out, or not."""

    def norm(x: Any) -> Any:
        apart = net(op.subtract(x, net(op.mean(x, [-1], keepdims=True))))
        squared = net(op.mean(net(op.power(apart, number(2.0))), [-1], keepdims=True))
        root = net(op.sqrt(net(op.add(squared, number(1e-5)))))
        made = net(op.multiply(net(op.divide(apart, root)), constant(8)))
        return net(op.add(made, constant(8)))

    def heads(x: Any, axes: list[int]) -> Any:
        projected = net(op.add(net(op.matmul(x, constant(8, 8))), constant(8)))
        return net(op.permute_dims(net(op.reshape(projected, (2, 6, 2, 4))), axes))

    a = norm(x)
    queries, keys = heads(a, [0, 2, 1, 3]), heads(a, [0, 2, 3, 1])
    scores = net(op.divide(net(op.matmul(queries, keys)), number(2.0)))
    mask = number(np.triu(np.full((6, 6), -1e9), 1))
    shares = net(op.nn.softmax(net(op.add(scores, mask)), axis=-1))
    mixed = net(op.permute_dims(net(op.matmul(shares, heads(a, [0, 2, 1, 3]))), [0, 2, 1, 3]))
    b = net(op.matmul(net(op.reshape(mixed, (2, 6, 8))), constant(8, 8)))
    c = net(op.add(x, net(op.add(b, constant(8)))))
    made = op.nn.layer_norm(c, constant(6, 8), constant(6, 8), axes=[-2, -1], epsilon=1e-6)
    pooled = net(op.mean(net(made), [1]))
    long = net(op.squeeze(net(op.nn.conv1d_transpose(
        net(op.expand_dims(pooled, 1)), constant(1, 1, 3), strides=2, padding=1, output_padding=1
    )), [1]))  # fmt: skip
    return [net(op.nn.log_softmax(pooled, axis=0)), net(op.negative(long)), net(op.max(c, [0, 1]))]


def left(net: Net, x: Any) -> list[Any]:
    """[1, 3, 4, 4]: operators and types that code generators have no word for."""
    most = net(op.max(net(op.nn.conv2d(x, constant(4, 3, 1, 1))), [1], keepdims=True))
    most = net.norm(most, 1, training=True)
    whole = net(op.astype(net(op.round(most)), "int32"))
    apart = net(op.strided_slice(x, [3], [0], [4], [3]))
    return [net(op.add(whole, relax.const(2, "int32"))), net(op.cumsum(most, axis=2)), apart]


def needed_between(net: Net, x: Any) -> list[Any]:
    """[2, 6, 8]: a gelu, and integers that a layer and others use, of which others need a part; powers."""

    def back(*shape: int) -> Any:
        whole = random.integers(-90, 90, shape).astype("int8")
        scale, zero = relax.const(np.float32(0.01)), relax.const(np.int8(0))
        return net(op.dequantize(relax.const(whole), scale, zero, axis=0))

    table = back(6, 8)
    rows = net(op.add(x, net(op.erf(table))))
    scores = net(op.matmul(rows, net(op.permute_dims(table, [1, 0]))))
    gate = net(
        op.add(relax.const(1.0), net(op.erf(net(op.multiply(scores, relax.const(0.5**0.5))))))
    )
    gelu = net(op.multiply(net(op.multiply(scores, gate)), relax.const(0.5)))
    whole = net(op.power(net(op.nn.relu(net(op.add(gelu, gate)))), relax.const(1.0)))
    high = net(op.power(whole, relax.const(np.full((1, 1, 1, 1), 2, "float32"))))
    vector = net(op.matmul(net(op.mean(x, [0, 1])), back(8, 3)))
    return [high, vector]


def unknown(net: Net, x: Any) -> list[Any]:
    """[n, 4]: a size that only the call tells."""
    return [net(op.nn.relu(net(op.matmul(x, constant(4, 3)))))]


def open_sizes(net: Net, x: Any) -> list[Any]:
    """[n, 3, h, w]: sizes that only the call tells, and others computed of them."""
    a = net(op.nn.conv2d(x, constant(4, 3, 3, 3), strides=2, padding=1))
    a = net.hardswish(net.norm(a, 4), 0)
    pool = net(op.nn.max_pool2d(a, (2, 2), strides=(2, 2)))
    up = net(op.nn.conv2d_transpose(pool, constant(4, 5, 2, 2), strides=2))
    both = net(op.concat([a, a], axis=1))
    batch, _, height, width = type_of(net.block.normalize(both)).shape
    rows = net(op.reshape(both, (batch, 8, height * width)))
    rows = net(op.permute_dims(rows, [0, 2, 1]))
    scores = net(op.matmul(rows, net(op.permute_dims(rows, [0, 2, 1]))))
    mixed = net(op.matmul(net(op.nn.softmax(scores)), rows))
    mixed = net(op.nn.gelu(net(op.add(net(op.matmul(mixed, constant(8, 4))), constant(4)))))
    mixed = net(op.nn.layer_norm(mixed, constant(4), constant(4), axes=[-1]))
    gate = net(op.multiply(a, net(op.sigmoid(net(op.mean(a, [2, 3], keepdims=True))))))
    return [up, net(op.mean(mixed, [1])), gate]


def between(net: Net, x: Any) -> list[Any]:
    """[4, 8]: two operators of one pattern, of which others need the value between, too."""
    both = net(op.add(x, x))
    return [net(op.nn.softmax(net(op.nn.relu(both)))), net(op.nn.softmax(both))]


def sliced(net: Net, x: Any) -> list[Any]:
    """[1, 4, 6, 6]: layers beside a slice and a split."""
    a = net(op.nn.relu(net(op.nn.conv2d(x, constant(4, 4, 1, 1)))))
    part = net(op.strided_slice(a, [1], [0], [2]))
    halves = net(op.split(part, 2, axis=2))
    b = net(op.nn.conv2d(net(op.nn.conv2d(a, constant(4, 4, 1, 1))), constant(3, 4, 1, 1)))
    return [net(op.nn.relu(b)), net(relax.TupleGetItem(halves, 1))]


def words(net: Net, x: Any) -> list[Any]:
    """[2, 4, 6, 6]: what frontends write in other words than engines."""
    layer = net(op.nn.relu(net(op.nn.conv2d(x, constant(40, 4, 3, 3), padding=1))))
    parts = net(op.split(layer, [16, 32, 38], axis=-3))
    a, b, c, d = (net(relax.TupleGetItem(parts, i)) for i in range(4))
    both = net(op.stack([a, net(op.nn.conv2d(b, constant(16, 16, 1, 1)))], axis=-1))
    odd = net(op.strided_slice(layer, [2, 3], [1, 0], [1000, -1], [2, 3]))
    last = net(op.strided_slice(layer, [1], [-8], [40]))
    same = net(op.strided_slice(layer, [1, 2], [0, 0], [40, 6]))
    wide = net(op.broadcast_to(net(op.mean(c, [0, 1], keepdims=True)), (1, 6, 6, 6)))
    gated = net(op.multiply(c, wide))
    total = net(op.add(net(op.sum(gated, [1], keepdims=True)), d))
    largest = net(op.max(net(op.stack([a, b, net(op.tanh(a))], axis=1)), [1]))
    summed = net(op.sum(net(op.stack([c, c], axis=-5)), [0]))
    least = net(op.min(net(op.stack([d, d], axis=1)), [2]))
    return [
        net(op.max(both, [1])), net(op.exp(odd)), last, net(op.tanh(same)), gated, total, largest, summed, least,
    ]  # fmt: skip


def integers(net: Net, x: Any) -> list[Any]:
    """[2, 4, 8, 8]: layers between dequantize and quantize, as ONNX has them; the last results tell their steps."""

    def back(x: Any, scale: Any, zero: Any, axis: int = 1) -> Any:
        return net(op.dequantize(x, relax.const(np.float32(scale)), relax.const(zero), axis=axis))

    def step(x: Any, scale: float, zero: Any) -> Any:
        made = op.quantize(
            x, relax.const(np.float32(scale)), relax.const(zero), axis=1, out_dtype=str(zero.dtype)
        )
        return back(net(made), scale, zero)

    def weights(*shape: int, axis: int = 0) -> Any:
        whole = random.integers(-90, 90, shape).astype("int8")
        scale = (random.random(shape[axis]) / 50 + 0.01).astype("float32")
        return back(relax.const(whole), scale, np.zeros(shape[axis], "int8"), axis)

    def bias(count: int) -> Any:
        whole = relax.const(random.integers(-200, 200, count).astype("int32"))
        return net(
            op.reshape(
                back(whole, np.full(count, 0.01), np.zeros(count, "int32"), 0), (1, count, 1, 1)
            )
        )

    plain = net(op.nn.conv2d(x, weights(4, 4, 1, 1)))
    a = net(op.nn.conv2d(step(x, 0.02, np.uint8(128)), weights(8, 4, 3, 3)))
    a = step(net(op.nn.relu(net(op.add(a, bias(8))))), 0.2, np.uint8(0))
    b = net(op.nn.conv2d(a, weights(8, 4, 3, 3), padding=1, groups=2))
    b = step(net(op.add(b, bias(8))), 1.5, np.int8(-3))
    flat = net(op.reshape(net(op.mean(b, [2, 3])), (2, 8)))
    rows = step(flat, 0.3, np.int8(7))
    c = net(op.add(net(op.matmul(rows, weights(8, 6, axis=1))), constant(6)))
    d = net(op.matmul(rows, net(op.permute_dims(weights(5, 8), [1, 0]))))
    return [plain, a, b, c, step(d, 0.5, np.uint8(100))]


def steps(net: Net, x: Any) -> list[Any]:
    """[2, 4, 8, 8]: what is rounded to steps between operators, as quantizers of ONNX write it."""

    def back(x: Any, scale: Any, zero: Any, axis: int = 1) -> Any:
        return net(op.dequantize(x, relax.const(np.float32(scale)), relax.const(zero), axis=axis))

    def step(x: Any, scale: float, zero: Any) -> Any:
        parts = relax.const(np.float32(scale)), relax.const(zero)
        return back(net(op.quantize(x, *parts, axis=1, out_dtype=str(zero.dtype))), scale, zero)

    def weights(*shape: int, zero: Any) -> Any:
        whole = random.integers(0, 90, shape).astype(zero.dtype)
        return back(relax.const(whole), np.float32(0.01), zero, 0)

    a = step(x, 0.0213, np.uint8(128))
    c = net(op.nn.conv2d(a, weights(8, 4, 3, 3, zero=np.uint8(45)), padding=1))
    c = step(c, 0.0517, np.int8(5))  # needed twice, as a float
    gate = step(net(op.sigmoid(c)), 1 / 256, np.uint8(0))
    s = step(net(op.multiply(c, gate)), 0.0517, np.int8(5))
    pool = step(net(op.nn.max_pool2d(s, (3, 3), padding=1)), 0.0517, np.int8(5))
    both = step(net(op.concat([pool, s], axis=1)), 0.0517, np.int8(5))
    deep = net(
        op.nn.conv2d(s, weights(8, 1, 3, 3, zero=np.int8(0)), padding=[0, 2, 1, 1], groups=8)
    )
    total = step(net(op.add(net(op.nn.relu(s)), c)), 0.11, np.uint8(9))
    whole = net(op.quantize(total, relax.const(np.float32(0.11)), relax.const(np.uint8(9)), axis=1))
    return [
        c,
        s,
        net(op.nn.relu(pool)),
        net(op.nn.relu(both)),
        step(deep, 0.51, np.uint8(100)),
        total,
        whole,
    ]


def casts(net: Net, x: Any) -> list[Any]:
    """[2, 4, 6, 6]: a layer that gives float32, and what needs float32 between others."""
    a = net(op.nn.conv2d(x, constant(8, 4, 3, 3), padding=1, out_dtype="float32"))
    b = net(op.astype(net(op.nn.softmax(a, axis=1)), kinds[0]))
    return [a, net(op.nn.relu(net(op.add(b, constant(8, 1, 1)))))]


CASES: dict[str, tuple[Callable[[Net, Any], list[Any]], tuple[int, ...]]] = {
    "layers": (layers, (1, 6, 13, 12)),
    "shapes": (shapes, (2, 4, 6)),
    "twice": (twice, (1, 4, 5, 5)),
    "tiles": (tiles, (2, 3, 5, 4)),
    "gates": (gates, (2, 6, 8)),
    "attention": (attention, (2, 6, 8)),
    "left": (left, (1, 3, 4, 4)),
    "needed_between": (needed_between, (2, 6, 8)),
    "between": (between, (4, 8)),
    "sliced": (sliced, (1, 4, 6, 6)),
    "words": (words, (2, 4, 6, 6)),
    "open_words": (words, (2, 4, 6, 6)),
    "unknown": (unknown, (5, 4)),
    "integers": (integers, (2, 4, 8, 8)),
    "steps": (steps, (2, 4, 8, 8)),
    "open": (open_sizes, (2, 3, 17, 14)),
    "casts": (casts, (2, 4, 6, 6)),
}
IN_HALVES = {  # what TVM knows of each
    "float16": ("layers", "shapes", "gates", "attention", "casts", "open", "words"),
    "bfloat16": ("layers", "shapes", "casts"),
}
OPEN = {"unknown": {0: "n"}, "open": {0: "n", 2: "h", 3: "w"}, "open_words": {0: "n"}}


def build(name: str) -> Any:
    make, shape = CASES[name]
    names = OPEN.get(name, {})
    extents = [
        tvm.tirx.Var(names[i], "int64") if i in names else size for i, size in enumerate(shape)
    ]
    x = relax.Var("x", script.Tensor(extents, kinds[0]))
    block = relax.BlockBuilder()
    with block.function("main", [x]):
        with block.dataflow():
            results = [block.emit_output(made) for made in make(Net(block), x)]
        block.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return block.get()


@mblob.byoc.register_pattern_table("negator", lambda operator: operator.op == "nn.relu")
def table() -> list[Any]:
    return []


@mblob.register_codegen("negator")
def negator(region: Region) -> mblob.Module:
    """A backend of a user's own: relu in C, which is wrong on purpose."""
    operator: Operator = region.operators[0]
    count = int(np.prod(operator.outputs[0].shape))
    return mblob.csource_module(
        f"void {region.symbol}(const float x[{count}], float y[{count}]) {{"
        f" for (int i = 0; i < {count}; i++) y[i] = x[i] > 0 ? -x[i] : 0; }}"
    )


@mblob.byoc.register_pattern_table(
    "namer", lambda operator: operator.op in ("add", "multiply", "clip")
)
def no_table() -> list[Any]:
    return []


named: list[str] = []


@mblob.register_codegen("namer")
def namer(region: Region) -> mblob.Module:
    """Keeps the names of the operators that it gets."""
    named.extend(operator.op for operator in region.operators)
    return mblob.csource_module(f"void {region.symbol}(void) {{}}")


@mblob.register_codegen("pair")
def pair(region: Region) -> mblob.Module:
    """A backend of a user's own with several results."""
    values = {"add": "x[i] + x[i]", "nn.relu": "x[i] > 0 ? x[i] + x[i] : 0"}
    made = [str(t.producer and t.producer.op) for t in region.outputs]
    rows = "".join(f" y{k}[i] = {values[name]};" for k, name in enumerate(made))
    results = "".join(f", float y{k}[32]" for k in range(len(made)))
    return mblob.csource_module(
        f"void {region.symbol}(const float x[32]{results}) {{ for (int i = 0; i < 32; i++) {{{rows} }} }}"
    )


def halves(folder: Path, name: str, kind: str) -> None:
    """NAME_KIND: results of the same numbers in float32, which are nearly exact, and of TVM in halves."""
    made, found = {}, {}
    for kinds[:] in ([kind, kind], ["float32", kind]):
        globals()["random"] = np.random.default_rng(7)
        made[kinds[0]] = build(name)
    x = np.random.default_rng(8).standard_normal(CASES[name][1]).astype(kind)
    for each, mod in made.items():
        machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
        y = machine["main"](tvm.runtime.tensor(x.astype(each)))
        y = [y] if hasattr(y, "numpy") else [*y]
        found[each] = [t.numpy().astype("float32") for t in y]
    told: list[str] = []
    lib = mblob.byoc.relax.build(
        made[kind], "llvm", "dnnl", trace=told.append, prepack=name == "layers"
    )
    (folder / f"{name}_{kind}.txt").write_text("\n".join(told))
    lib.export_library(folder / f"{name}_{kind}.so")
    rows = {
        f"{e}{i}": t
        for e, ts in (("y", found["float32"]), ("t", found[kind]))
        for i, t in enumerate(ts)
    }
    np.savez(folder / f"{name}_{kind}.npz", x=x.astype("float32"), **rows)
    kinds[:] = ["float32", "float32"]


def main(folder: Path) -> None:
    told: list[str] = []
    for name in CASES:
        made = build(name)
        relax.build(made, "llvm").export_library(str(folder / f"{name}.tvm.so"))
        machine = relax.VirtualMachine(
            tvm.runtime.load_module(str(folder / f"{name}.tvm.so")), tvm.cpu()
        )
        x = random.standard_normal(CASES[name][1]).astype("float32")
        y = machine["main"](tvm.runtime.tensor(x))
        y = [y] if hasattr(y, "numpy") else [*y]
        np.savez(folder / f"{name}.npz", x=x, **{f"y{i}": t.numpy() for i, t in enumerate(y)})
        told = []
        lib = mblob.byoc.relax.build(made, "llvm", "dnnl", trace=told.append)
        (folder / f"{name}.txt").write_text("\n".join(told))
        lib.export_library(folder / f"{name}.so")
    for kind, names in IN_HALVES.items():
        for name in names:
            halves(folder, name, kind)
    mblob.byoc.relax.build(build("twice"), "llvm", "negator").export_library(folder / "negator.so")
    a, b = dpl.wildcard(), dpl.wildcard()
    patterns = [("pair.add_relu", dpl.is_op("relax.nn.relu")(dpl.is_op("relax.add")(a, b)))]
    lib = mblob.byoc.relax.build(
        build("between"), "llvm", "pair", patterns=patterns, trace=told.append
    )
    lib.export_library(folder / "pair.so")
    (folder / "pair.txt").write_text("\n".join(told[-2:]))
    mblob.byoc.relax.partition(build("layers"), "namer")
    (folder / "named.txt").write_text(" ".join(sorted({*named})))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
