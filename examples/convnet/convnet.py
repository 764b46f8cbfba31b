"""A convolutional network of plain C kernels, whole or with its layers given to oneDNN.

    python convnet.py plain.so            # every layer in C
    python convnet.py fast.so --dnnl      # what oneDNN has runs there: the same answers, faster

Images are float32[1,3,32,32]. Six 3x3 convolutions with bias and relu, one of them around a
shortcut, two poolings, the mean, a dense layer, softmax over ten classes. The weights are drawn,
not trained; always the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import mblob

HERE = Path(__file__).resolve().parent
IMAGE = (1, 3, 32, 32)


class Network:
    """Collects nodes of a graph, their kernels in C, and weights; layers are added one behind the
    other."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.shapes: list[tuple[int, ...]] = []
        self.params: dict[str, Any] = {}
        self.code = [(HERE / "kernels.h").read_text()]
        self.functions: list[str] = []
        self._random = np.random.default_rng(20)

    def input(self, name: str, shape: tuple[int, ...]) -> int:
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        self.shapes.append(shape)
        return len(self.nodes) - 1

    def weight(self, name: str, *shape: int) -> int:
        """A parameter, uniform around 0 and scaled so that layers neither grow nor shrink their
        input."""
        fan_in = int(np.prod(shape[1:])) or 1
        bound = (6 / fan_in) ** 0.5 if len(shape) > 1 else 0.1
        self.params[name] = ((2 * self._random.random(shape) - 1) * bound).astype("float32")
        return self.input(name, shape)

    def layer(
        self, name: str, body: str, inputs: list[int], shape: tuple[int, ...], **attrs: object
    ) -> int:
        """A node and its function.

        Args:
            body: C statement over x0, x1, ... (pointers to the inputs) and y; "" for a reshape.
            attrs: what the operator is, for code generators; executors do not read them.
        """
        count = len(inputs)
        if body:
            arrays = [f"const float x{i}{_dims(self.shapes[n])}" for i, n in enumerate(inputs)]
            prototype = f"void {name}({', '.join([*arrays, f'float y{_dims(shape)}'])})"
            pointers = "".join(
                f"  const float *p{i} = (const float *)x{i};\n" for i in range(count)
            )
            self.code.append(f"{prototype} {{\n{pointers}  float *q = (float *)y;\n  {body};\n}}")
            self.functions.append(prototype)
        function = name if body else "__nop"
        texts = {
            "func_name": function,
            "num_inputs": str(count),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        texts |= {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in attrs.items()
        }
        self.nodes.append(
            {"op": "tvm_op", "name": name, "attrs": texts, "inputs": [[n, 0, 0] for n in inputs]}
        )
        self.shapes.append(shape)
        return len(self.nodes) - 1

    # -- kinds of layers ---------------------------------------------------------------------------

    def conv(self, name: str, x: int, out: int, relu: bool = True) -> int:
        _, channels, rows, columns = self.shapes[x]
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

    def add(self, name: str, a: int, b: int) -> int:
        size = int(np.prod(self.shapes[a]))
        body = f"for (int i = 0; i < {size}; i++) q[i] = p0[i] + p1[i]"
        return self.layer(name, body, [a, b], self.shapes[a], op="add")

    def relu(self, name: str, x: int) -> int:
        size = int(np.prod(self.shapes[x]))
        body = f"for (int i = 0; i < {size}; i++) q[i] = at_least_zero(p0[i])"
        return self.layer(name, body, [x], self.shapes[x], op="nn.relu")

    def max_pool(self, name: str, x: int) -> int:
        _, channels, rows, columns = self.shapes[x]
        body = f"max_pool2x2(p0, q, {channels}, {rows}, {columns})"
        shape = (1, channels, rows // 2, columns // 2)
        return self.layer(
            name, body, [x], shape, op="nn.max_pool2d", pool_size=[2, 2], strides=[2, 2]
        )

    def mean(self, name: str, x: int) -> int:
        _, channels, rows, columns = self.shapes[x]
        body = f"mean_of_planes(p0, q, {channels}, {rows * columns})"
        return self.layer(name, body, [x], (1, channels, 1, 1), op="nn.global_avg_pool2d")

    def flatten(self, name: str, x: int) -> int:
        return self.layer(name, "", [x], (1, int(np.prod(self.shapes[x]))))

    def dense(self, name: str, x: int, out: int) -> int:
        size = self.shapes[x][1]
        w, b = self.weight(f"{name}.weight", out, size), self.weight(f"{name}.bias", out)
        return self.layer(
            name, f"dense_layer(p0, p1, p2, q, {size}, {out})", [x, w, b], (1, out), op="nn.dense"
        )

    def softmax(self, name: str, x: int) -> int:
        body = f"softmax_layer(p0, q, {self.shapes[x][1]})"
        return self.layer(name, body, [x], self.shapes[x], op="nn.softmax", axis=-1)

    # -- the whole ---------------------------------------------------------------------------------

    def graph(self, head: int) -> dict[str, Any]:
        """The graph, whose result is node `head`."""
        memory: list[int] = []
        for i, node in enumerate(self.nodes):
            is_reshape = node["op"] != "null" and node["attrs"]["func_name"] == "__nop"
            memory.append(memory[node["inputs"][0][0]] if is_reshape else i)
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "heads": [[head, 0, 0]],
            "node_row_ptr": list(range(len(self.nodes) + 1)),
            "attrs": {
                "dltype": ["list_str", ["float32"] * len(self.nodes)],
                "shape": ["list_shape", [list(shape) for shape in self.shapes]],
                "storage_id": ["list_int", memory],
            },
        }

    def host(self, options: str = "-O3") -> mblob.Module:
        """The kernels."""
        return mblob.csource_module(
            "\n".join(self.code), "c", functions=self.functions, packed="name", options=options
        )


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"[{extent}]" for extent in shape)


def convnet() -> tuple[Network, dict[str, Any]]:
    """The network, and its graph."""
    n = Network()
    x = n.input("image", IMAGE)
    x = n.conv("conv1", x, 32)
    x = n.max_pool("pool1", n.conv("conv2", x, 32))
    x = n.conv("conv3", x, 64)
    x = n.max_pool("pool2", n.conv("conv4", x, 64))
    shortcut = n.conv("conv5", x, 128)
    x = n.relu("relu6", n.add("add6", n.conv("conv6", shortcut, 128, relu=False), shortcut))
    x = n.flatten("flatten", n.mean("mean", x))
    return n, n.graph(n.softmax("classes", n.dense("dense", x, 10)))


def model(dnnl: bool) -> mblob.Module:
    """The network as a module to export; with `dnnl` its layers are oneDNN's where it has them."""
    network, graph = convnet()
    targets = {"dnnl": mblob.byoc.dnnl.supported} if dnnl else {}
    return mblob.partition_graph(graph, network.params, network.host(), targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("output", help="the library to write")
    parser.add_argument("--dnnl", action="store_true", help="give layers to oneDNN")
    args = parser.parse_args()
    model(args.dnnl).export_library(args.output)


if __name__ == "__main__":
    main()
