"""A convolutional network of plain C kernels, whole or with its layers given to oneDNN.

    python convnet.py plain.so            # every layer in C
    python convnet.py fast.so --dnnl      # what oneDNN has runs there: the same answers, faster

Images are float32[1,3,32,32]. Six 3x3 convolutions with bias and relu, one of them around a
shortcut, two poolings, the mean, a dense layer, softmax over ten classes. The weights are drawn,
not trained; always the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import mblob

Value = mblob.byoc.Value
HERE = Path(__file__).resolve().parent
IMAGE = (1, 3, 32, 32)


class Network:
    """A graph with kernels in C; layers are added one behind the other."""

    def __init__(self) -> None:
        self.graph = mblob.GraphBuilder()
        self.code = [(HERE / "kernels.h").read_text()]
        self.functions: list[str] = []
        self._random = np.random.default_rng(20)

    def weight(self, name: str, *shape: int) -> Value:
        """A parameter, uniform around 0 and scaled so that layers neither grow nor shrink their
        input."""
        fan_in = int(np.prod(shape[1:])) or 1
        bound = (6 / fan_in) ** 0.5 if len(shape) > 1 else 0.1
        drawn = (2 * self._random.random(shape) - 1) * bound
        return self.graph.param(name, drawn.astype("float32"))

    def layer(
        self, name: str, body: str, inputs: list[Value], shape: tuple[int, ...], **attrs: object
    ) -> Value:
        """A node and its function.

        Args:
            body: C statement over p0, p1, ... (pointers to the inputs) and q.
            attrs: what the operator is, for code generators; executors do not read them.
        """
        arrays = [f"const float x{i}{_dims(x.shape)}" for i, x in enumerate(inputs)]
        prototype = f"void {name}({', '.join([*arrays, f'float y{_dims(shape)}'])})"
        pointers = "".join(
            f"  const float *p{i} = (const float *)x{i};\n" for i in range(len(inputs))
        )
        self.code.append(f"{prototype} {{\n{pointers}  float *q = (float *)y;\n  {body};\n}}")
        self.functions.append(prototype)
        return self.graph.call(name, inputs, shape, attrs=attrs)

    # -- kinds of layers ---------------------------------------------------------------------------

    def conv(self, name: str, x: Value, out: int, relu: bool = True) -> Value:
        _, channels, rows, columns = x.shape
        w, b = self.weight(f"{name}.weight", out, channels, 3, 3), self.weight(f"{name}.bias", out)
        body = f"conv3x3(p0, p1, p2, q, {channels}, {out}, {rows}, {columns}, {int(relu)})"
        activation = {"activation": "relu"} if relu else {}
        return self.layer(
            name,
            body,
            [x, w, b],
            (1, out, rows, columns),
            op="nn.conv2d",
            padding=[1, 1],
            **activation,
        )

    def add(self, name: str, a: Value, b: Value) -> Value:
        size = int(np.prod(a.shape))
        body = f"for (int i = 0; i < {size}; i++) q[i] = p0[i] + p1[i]"
        return self.layer(name, body, [a, b], a.shape, op="add")

    def relu(self, name: str, x: Value) -> Value:
        size = int(np.prod(x.shape))
        body = f"for (int i = 0; i < {size}; i++) q[i] = at_least_zero(p0[i])"
        return self.layer(name, body, [x], x.shape, op="nn.relu")

    def max_pool(self, name: str, x: Value) -> Value:
        _, channels, rows, columns = x.shape
        body = f"max_pool2x2(p0, q, {channels}, {rows}, {columns})"
        shape = (1, channels, rows // 2, columns // 2)
        return self.layer(
            name, body, [x], shape, op="nn.max_pool2d", pool_size=[2, 2], strides=[2, 2]
        )

    def mean(self, name: str, x: Value) -> Value:
        _, channels, rows, columns = x.shape
        body = f"mean_of_planes(p0, q, {channels}, {rows * columns})"
        return self.layer(name, body, [x], (1, channels, 1, 1), op="nn.global_avg_pool2d")

    def flatten(self, name: str, x: Value) -> Value:
        return self.graph.reshape(x, (1, int(np.prod(x.shape))), name=name)

    def dense(self, name: str, x: Value, out: int) -> Value:
        size = x.shape[1]
        w, b = self.weight(f"{name}.weight", out, size), self.weight(f"{name}.bias", out)
        return self.layer(
            name, f"dense_layer(p0, p1, p2, q, {size}, {out})", [x, w, b], (1, out), op="nn.dense"
        )

    def softmax(self, name: str, x: Value) -> Value:
        body = f"softmax_layer(p0, q, {x.shape[1]})"
        return self.layer(name, body, [x], x.shape, op="nn.softmax", axis=-1)

    # -- the whole ---------------------------------------------------------------------------------

    def host(self, options: str = "-O3") -> mblob.Module:
        """The kernels."""
        return mblob.csource_module(
            "\n".join(self.code), "c", functions=self.functions, packed="name", options=options
        )


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"[{extent}]" for extent in shape)


def convnet() -> Network:
    n = Network()
    x = n.graph.input("image", IMAGE)
    x = n.conv("conv1", x, 32)
    x = n.max_pool("pool1", n.conv("conv2", x, 32))
    x = n.conv("conv3", x, 64)
    x = n.max_pool("pool2", n.conv("conv4", x, 64))
    shortcut = n.conv("conv5", x, 128)
    x = n.relu("relu6", n.add("add6", n.conv("conv6", shortcut, 128, relu=False), shortcut))
    x = n.flatten("flatten", n.mean("mean", x))
    n.graph.output(n.softmax("classes", n.dense("dense", x, 10)))
    return n


def model(dnnl: bool) -> mblob.Module:
    """The network as a module to export; with `dnnl` its layers are oneDNN's where it has them."""
    network = convnet()
    targets = {"dnnl": mblob.byoc.dnnl.supported} if dnnl else {}
    return mblob.partition_graph(network.graph, None, network.host(), targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("output", help="the library to write")
    parser.add_argument("--dnnl", action="store_true", help="give layers to oneDNN")
    args = parser.parse_args()
    model(args.dnnl).export_library(args.output)


if __name__ == "__main__":
    main()
