"""The code generator of oneDNN: what it takes, fuses and writes, against numpy and against a
network in C."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import byoc
from mblob.bytes.wire import Cursor
from mblob.format.graph_json import CALL
from mblob.packager.byoc.build import as_records
from mblob.packager.errors import BuildError
from tests.packager.byoc import dnnl_reference

Shape = tuple[int, ...]


class Layers:
    """A graph of operators without functions: for what generators write."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.shapes: list[Shape] = []
        self.params: dict[str, Any] = {}

    def input(self, name: str, *shape: int, constant: bool = False) -> int:
        self.nodes.append({"op": "null", "name": name, "inputs": []})
        self.shapes.append(shape)
        if constant:
            self.params[name] = (
                np.random.default_rng(len(self.nodes)).random(shape, dtype="float32") + 0.1
            )
        return len(self.nodes) - 1

    def op(self, name: str, inputs: list[int], *shape: int, **attrs: str) -> int:
        call = {
            "func_name": "none",
            "num_inputs": str(len(inputs)),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        self.nodes.append(
            {
                "op": "tvm_op",
                "name": f"n{len(self.nodes)}",
                "attrs": {**call, "op": name, **attrs},
                "inputs": [[i, 0, 0] for i in inputs],
            }
        )
        self.shapes.append(shape)
        return len(self.nodes) - 1

    def graph(self, *heads: int, dtype: str = "float32") -> dict[str, Any]:
        count = len(self.nodes)
        return {
            "nodes": self.nodes, "arg_nodes": [i for i, n in enumerate(self.nodes) if n["op"] == "null"],
            "heads": [[h, 0, 0] for h in heads], "node_row_ptr": list(range(count + 1)),
            "attrs": {"dltype": ["list_str", [dtype] * count], "shape": ["list_shape", list(map(list, self.shapes))],
                      "storage_id": ["list_int", list(range(count))]},
        }  # fmt: skip


def kernels(layers: Layers, *heads: int) -> list[tuple[str, int]]:
    """Names and numbers of inputs of the kernels of the one region that a graph is."""
    module = mblob.partition_graph(
        layers.graph(*heads), layers.params, None, {"dnnl": byoc.dnnl.supported}
    )
    loader = module.imported_modules[0]
    (region,) = [m for m in loader.imported_modules if m.type_key == "dnnl_json"]
    left = json.loads(module.get_source() or "")["nodes"]
    assert sum(n["op"] == "tvm_op" for n in left) == 1, left
    nodes = json.loads(region.get_source() or "")["nodes"]
    return [(n["name"], len(n["inputs"])) for n in nodes if n["op"] == "kernel"]


def run(layers: Layers, path: Path, inputs: dict[str, Any], *heads: int) -> list[Any]:
    """The results of the graph, by the numpy runtime."""
    module = mblob.partition_graph(
        layers.graph(*heads), layers.params, None, {"dnnl": byoc.dnnl.supported}
    )
    module.export_library(path)
    opened = mblob.load_module(path, loaders={"dnnl_json": dnnl_reference.load})
    model = mblob.graph_executor.GraphModule(opened["default"](mblob.cpu(0)))
    model.set_input(**inputs)
    model.run()
    return [model.get_output(i).numpy() for i in range(len(heads))]


def conv(layers: Layers, x: int, out: int, size: int = 3, **attrs: str) -> int:
    """A convolution that keeps rows and columns."""
    _, channels, rows, columns = layers.shapes[x]
    w = layers.input(f"w{len(layers.nodes)}", out, channels, size, size, constant=True)
    return layers.op(
        "nn.conv2d", [x, w], 1, out, rows, columns, padding=f"[{size // 2}, {size // 2}]", **attrs
    )


def vector(layers: Layers, size: int) -> int:
    return layers.input(f"v{len(layers.nodes)}", size, constant=True)


# -- fusing ----------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ("", [("nn.conv2d", 2)]),
        ("r", [("dnnl.conv2d_relu", 2)]),
        ("b", [("dnnl.conv2d_bias", 3)]),
        ("br", [("dnnl.conv2d_bias_relu", 3)]),
        ("bt", [("dnnl.conv2d_bias_tanh", 3)]),
        ("bs", [("dnnl.conv2d_bias_sum", 4)]),
        ("bsr", [("dnnl.conv2d_bias_sum_relu", 4)]),
        ("bst", [("dnnl.conv2d_bias_sum", 4), ("tanh", 1)]),
        ("s", [("nn.conv2d", 2), ("add", 2)]),
        ("rr", [("dnnl.conv2d_relu", 2), ("nn.relu", 1)]),
        ("brs", [("dnnl.conv2d_bias_relu", 3), ("add", 2)]),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_follows_a_convolution(
    chain: str, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    layers = Layers()
    x = layers.input("x", 1, 4, 6, 5)
    value, want = conv(layers, x, 4), None
    for letter in chain:
        shape = layers.shapes[value]
        if letter == "b":
            value = layers.op("nn.bias_add", [value, vector(layers, 4)], *shape)
        elif letter == "s":
            value = layers.op("add", [x, value], *shape)
        else:
            value = layers.op({"r": "nn.relu", "t": "tanh"}[letter], [value], *shape)
    assert kernels(layers, value) == expected
    data = np.random.default_rng(1).standard_normal((1, 4, 6, 5)).astype("float32")
    (got,) = run(layers, tmp_path / "x.so", {"x": data}, value)
    attrs = {"strides": [["1", "1"]], "padding": [["1"] * 4], "dilation": [["1", "1"]], "groups": [["1"]],
             "data_layout": [["NCHW"]], "kernel_layout": [["OIHW"]], "channels": [["4"]],
             "kernel_size": [["3", "3"]]}  # fmt: skip
    want = dnnl_reference.conv2d(attrs, data, layers.params["w1"])
    for letter in chain:
        if letter == "b":
            want = want + layers.params["v3"][:, None, None]
        else:
            want = {"s": lambda v: v + data, "r": lambda v: np.maximum(v, 0), "t": np.tanh}[letter](
                want
            )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_result_that_others_need_is_not_swallowed() -> None:
    layers = Layers()
    c = conv(layers, layers.input("x", 1, 3, 4, 4), 3)
    b = layers.op("nn.bias_add", [c, vector(layers, 3)], 1, 3, 4, 4)
    r = layers.op("nn.relu", [b], 1, 3, 4, 4)
    assert kernels(layers, r, b) == [("dnnl.conv2d_bias", 3), ("nn.relu", 1)]
    assert kernels(layers, r, c) == [("nn.conv2d", 2), ("dnnl.conv2d_bias", 3), ("nn.relu", 1)]
    twice = layers.op("add", [r, r], 1, 3, 4, 4)
    assert kernels(layers, twice) == [("dnnl.conv2d_bias_relu", 3), ("add", 2)]


def test_two_convolutions_into_one_sum() -> None:
    """The summand must be there when the fused node runs, whichever came first."""
    layers = Layers()
    x = layers.input("x", 1, 3, 4, 4)
    made = []
    for _ in range(2):
        c = conv(layers, x, 3)
        made.append(layers.op("nn.bias_add", [c, vector(layers, 3)], 1, 3, 4, 4))
    s = layers.op("add", made, 1, 3, 4, 4)
    found = kernels(layers, layers.op("nn.relu", [s], 1, 3, 4, 4))
    assert sorted(found) == [("dnnl.conv2d_bias", 3), ("dnnl.conv2d_bias_sum_relu", 4)]


def test_dense_layers(tmp_path: Path) -> None:
    layers = Layers()
    x = layers.input("x", 2, 6)
    w = layers.input("w", 4, 6, constant=True)
    d = layers.op("dense", [x, w], 2, 4)
    b = layers.op("bias_add", [d, vector(layers, 4)], 2, 4, axis="-1")
    s = layers.op("softmax", [layers.op("sigmoid", [b], 2, 4)], 2, 4)
    assert kernels(layers, s) == [("dnnl.dense_bias_sigmoid", 3), ("nn.softmax", 1)]
    data = np.random.default_rng(1).standard_normal((2, 6)).astype("float32")
    (got,) = run(layers, tmp_path / "x.so", {"x": data}, s)
    want = 1 / (1 + np.exp(-(data @ layers.params["w"].T + layers.params["v3"])))
    want = np.exp(want) / np.exp(want).sum(1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_kernels_that_are_fused_already() -> None:
    layers = Layers()
    x = layers.input("x", 1, 3, 4, 4)
    w = layers.input("w", 5, 3, 1, 1, constant=True)
    c = layers.op("nn.conv2d", [x, w, vector(layers, 5)], 1, 5, 4, 4, activation="relu")
    assert kernels(layers, c) == [("dnnl.conv2d_bias_relu", 3)]
    r = layers.op("nn.relu", [c], 1, 5, 4, 4)
    assert kernels(layers, r) == [("dnnl.conv2d_bias_relu", 3), ("nn.relu", 1)]


def test_without_composites_each_operator_is_a_kernel() -> None:
    """Of a key that has no pattern table."""
    layers = Layers()
    x = layers.input("x", 1, 3, 4, 4)
    w = layers.input("w", 3, 3, 1, 1, constant=True)
    c = layers.op("nn.conv2d", [x, w, vector(layers, 3)], 1, 3, 4, 4, activation="relu")
    c = layers.op("nn.conv2d", [c, w, vector(layers, 3)], 1, 3, 4, 4)
    b = layers.op("nn.bias_add", [conv(layers, c, 3), vector(layers, 3)], 1, 3, 4, 4)
    graph = layers.graph(layers.op("nn.relu", [b], 1, 3, 4, 4))
    module = mblob.partition_graph(
        graph,
        layers.params,
        None,
        {"other": byoc.dnnl.supported},
        codegens={"other": byoc.dnnl.codegen},
    )
    nodes = json.loads(module.imported_modules[0].imported_modules[1].get_source() or "")["nodes"]
    assert [(n["name"], len(n["inputs"])) for n in nodes if n["op"] == "kernel"] == [
        ("dnnl.conv2d_bias_relu", 3),
        ("dnnl.conv2d_bias", 3),
        ("nn.conv2d", 2),
        ("dnnl.conv2d_bias", 3),
        ("nn.relu", 1),
    ]


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("include", ["0", "1"])
def test_pools_and_batch_norm(op: str, include: str, tmp_path: Path) -> None:
    layers = Layers()
    x = layers.input("x", 1, 3, 8, 8)
    n = layers.op(
        "nn.batch_norm", [x, *(vector(layers, 3) for _ in range(4))], 1, 3, 8, 8, epsilon="0.01"
    )
    more = {"count_include_pad": include} if op == "avg_pool2d" else {}
    p = layers.op(f"nn.{op}", [n], 1, 3, 4, 4, pool_size="[3, 3]", strides="2", padding="1", **more)
    g = layers.op("nn.global_avg_pool2d", [p], 1, 3, 1, 1)
    data = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype("float32")
    pooled, mean = run(layers, tmp_path / "x.so", {"x": data}, p, g)
    gamma, beta, average, variance = (layers.params[f"v{i}"][:, None, None] for i in range(1, 5))
    normal = (data - average) / np.sqrt(variance + 0.01) * gamma + beta
    want = np.empty_like(pooled)
    for r in range(4):
        for c in range(4):
            part = normal[:, :, max(2 * r - 1, 0) : 2 * r + 2, max(2 * c - 1, 0) : 2 * c + 2]
            if op == "max_pool2d":
                want[:, :, r, c] = part.max((2, 3))
            else:
                want[:, :, r, c] = part.sum((2, 3)) / (
                    9 if include == "1" else part.shape[2] * part.shape[3]
                )
    np.testing.assert_allclose(pooled, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mean[..., 0, 0], pooled.mean((2, 3)), rtol=1e-5, atol=1e-6)


def test_strides_groups_dilation_and_other_layouts(tmp_path: Path) -> None:
    layers = Layers()
    x = layers.input("x", 1, 9, 9, 4)
    w = layers.input("w", 3, 3, 2, 6, constant=True)
    c = layers.op("nn.conv2d", [x, w, vector(layers, 6)], 1, 4, 3, 6, strides="(2, 2)", dilation="[1, 2]", groups="2",
                  padding="[0, 1, 1, 0]", data_layout="NHWC", kernel_layout="HWIO")  # fmt: skip
    assert kernels(layers, c) == [("dnnl.conv2d_bias", 3)]
    data = np.random.default_rng(1).standard_normal((1, 9, 9, 4)).astype("float32")
    (got,) = run(layers, tmp_path / "x.so", {"x": data}, c)
    padded = np.pad(data, ((0, 0), (0, 1), (1, 0), (0, 0)))
    want = np.zeros((1, 4, 3, 6), "float32")
    for r in range(4):
        for s in range(3):
            for k in range(6):
                part = padded[
                    0, 2 * r : 2 * r + 3, 2 * s : 2 * s + 5 : 2, 2 * (k // 3) : 2 * (k // 3) + 2
                ]
                want[0, r, s, k] = (part * layers.params["w"][:, :, :, k]).sum() + layers.params[
                    "v2"
                ][k]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# -- what is not taken -----------------------------------------------------------------------------


def taken(layers: Layers, head: int, dtype: str = "float32") -> list[str]:
    read = byoc.read_graph(layers.graph(head, dtype=dtype))
    keys = byoc.annotate(read, {"dnnl": byoc.dnnl.supported}, as_records(layers.params))
    return [read.nodes[i].attrs["op"] for i in keys]


def test_what_stays_with_the_host() -> None:
    def alone(
        op: str,
        shape: Shape,
        *others: Shape,
        out: Shape | None = None,
        dtype: str = "float32",
        **attrs: str,
    ) -> bool:
        layers = Layers()
        inputs = [layers.input(f"i{i}", *s) for i, s in enumerate((shape, *others))]
        return bool(taken(layers, layers.op(op, inputs, *(out or shape), **attrs), dtype))

    image, weights = (1, 3, 4, 4), (5, 3, 1, 1)
    assert alone("nn.relu", image)
    assert not alone("nn.relu", image, dtype="float64")
    assert not alone("nn.relu", (0, 3))
    assert not alone("strange", image)
    assert alone("add", image, image)
    assert not alone("add", image, (3, 1, 1))
    assert alone("nn.conv2d", image, weights, out=(1, 5, 4, 4))
    assert not alone("nn.conv2d", image, weights, (5, 1, 1), out=(1, 5, 4, 4))
    assert not alone("nn.conv2d", image, weights, (5,), out=(1, 5, 4, 4), activation="gelu")
    assert not alone("nn.conv2d", image, weights, out=(1, 5, 4, 4), data_layout="NCHW4c")
    assert not alone("nn.bias_add", image, (3,)), "there is nothing to fuse it with"
    assert not alone("nn.batch_norm", image, (3,), (3,), (3,), (4,))
    assert not alone("nn.softmax", (2, 3), axis="2")
    assert not alone("nn.max_pool2d", image, out=(1, 3, 2, 2), layout="NCHW8c")


def test_attributes_that_are_wrong_are_named() -> None:
    layers = Layers()
    x = layers.input("x", 1, 3, 4, 4)
    bad = layers.op("nn.max_pool2d", [x], 1, 3, 2, 2, pool_size="[2, 2]", padding="[1, 2, 3]")
    with pytest.raises(
        BuildError, match=r"graph: node 'n1' \(nn.max_pool2d\): padding: expected 1, 2 or 4 numbers"
    ):
        kernels(layers, bad)
    layers = Layers()
    x = layers.input("x", 1, 3, 4, 4)
    with pytest.raises(BuildError, match=r"node 'n1' \(nn.max_pool2d\): no attribute 'pool_size'"):
        kernels(layers, layers.op("nn.max_pool2d", [x], 1, 3, 2, 2))


def test_a_bias_whose_convolution_is_elsewhere_is_named() -> None:
    """Only a predicate of the user's can part them."""
    layers = Layers()
    c = conv(layers, layers.input("x", 1, 3, 4, 4), 3)
    b = layers.op("nn.bias_add", [c, vector(layers, 3)], 1, 3, 4, 4)
    with pytest.raises(
        BuildError, match=r"'n4' \(nn.bias_add\) stands alone in .*: its 'n2' is made outside"
    ):
        mblob.partition_graph(
            layers.graph(b), layers.params, None, {"dnnl": lambda o: o.op == "nn.bias_add"}
        )


@pytest.mark.parametrize("targets", ["dnnl", ["dnnl_json"], {"dnnl_json": byoc.dnnl.supported}])
def test_what_is_registered_for_onednn(targets: Any) -> None:
    """Its operators, and its fusions as composites, by the name of the code generator alone."""
    layers = Layers()
    c = conv(layers, layers.input("x", 1, 3, 4, 4), 3)
    b = layers.op("nn.bias_add", [c, vector(layers, 3)], 1, 3, 4, 4)
    read = byoc.read_graph(
        layers.graph(layers.op("tanh", [layers.op("nn.relu", [b], 1, 3, 4, 4)], 1, 3, 4, 4))
    )
    keys = byoc.annotate(read, targets, as_records(layers.params))
    (region,) = byoc.partition(read, byoc.merge(read, keys), keys).regions
    assert [(o.op, len(o.inputs)) for o in region.calls] == [
        ("dnnl.conv2d_bias_relu", 3),
        ("tanh", 1),
    ]
    assert len(region.operators) == 4


# -- against TVM -----------------------------------------------------------------------------------


def network_of_tvm(golden: Path, data: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The graph of a library that TVM exported, its three calls as operators of Relay; two of its
    inputs as parameters."""
    graph = json.loads((golden / "dnnl_c_lib.json").read_text())["graph"]
    padding = {"padding": "[1, 1, 1, 1]"}
    operators = [("nn.conv2d", padding), ("nn.bias_add", {}), ("nn.relu", {})]
    for node, (op, attrs) in zip(graph["nodes"][3:], operators):
        call = {k: v for k, v in node["attrs"].items() if k in CALL}
        node["attrs"] = {**call, "func_name": op, **attrs}
        node["name"] = op
    return graph, {name: data[name] for name in ("w1", "b1")}


def test_regions_are_written_as_tvm_writes_them(golden: Path) -> None:
    """Where TVM left attributes empty, they have the values that the weights say."""
    data = np.load(golden / "dnnl_llvm.npz")
    graph, _ = network_of_tvm(golden, data)
    host = mblob.csource_module("", "c")
    two = {"dnnl": lambda o: o.op in ("nn.conv2d", "nn.relu")}
    ours = mblob.partition_graph(graph, None, host, two).imported_modules[0].imported_modules[1:]
    with mblob.open(golden / "dnnl_c_lib.so") as lib:
        for module, entry in zip(ours, [e for e in lib.entries if e.type_key == "dnnl_json"]):
            (symbol, text), names = read_json_module(bytes(entry.view()))
            theirs, mine = json.loads(text), json.loads(module.get_source())
            assert theirs.pop("symbol") == f"dnnl_{symbol}"
            assert (mine.pop("symbol"), names) == (symbol, [])
            for kernel in theirs["nodes"]:
                if kernel["name"] == "nn.conv2d":
                    assert kernel["attrs"]["channels"] == kernel["attrs"]["kernel_size"] == [[""]]
                    kernel["attrs"].update({"channels": [["32"]], "kernel_size": [["3", "3"]]})
            assert mine == theirs


def read_json_module(payload: bytes) -> tuple[list[str], list[str]]:
    cursor = Cursor(memoryview(payload))
    texts = [bytes(cursor.string("text")).decode() for _ in range(2)]
    return texts, [bytes(cursor.string("name")).decode() for _ in range(cursor.count("n", 8))]


@pytest.mark.own_process
@pytest.mark.usefixtures("onednn")
def test_a_network_of_tvm_gives_tvms_results_as_one_composite(golden: Path, tmp_path: Path) -> None:
    data = np.load(golden / "dnnl_llvm.npz")
    graph, params = network_of_tvm(golden, data)
    seen: list[str] = []
    module = mblob.partition_graph(graph, params, None, ["dnnl"], trace=seen.append)
    assert seen[2].count("dnnl, region 0, dnnl.conv2d_bias_relu\n") == 3
    module.export_library(tmp_path / "x.so")
    lib = mblob.load_module(tmp_path / "x.so")
    model = mblob.graph_executor.GraphModule(lib["default"](mblob.cpu(0)))
    model.run(d1=data["d1"])
    np.testing.assert_allclose(model.get_output(0).numpy(), data["out"], rtol=1e-5, atol=1e-5)


# -- a network -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def convnet(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("convnet", root / "examples/convnet/convnet.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["convnet"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_network_gives_the_same_answers(convnet: ModuleType, tmp_path: Path) -> None:
    """Its C kernels against the partitioned one in numpy."""
    answers = []
    image = np.random.default_rng(3).random(convnet.IMAGE, dtype="float32")
    for dnnl in (False, True):
        convnet.model(dnnl).export_library(tmp_path / "x.so")
        opened = mblob.load_module(tmp_path / "x.so", loaders={"dnnl_json": dnnl_reference.load})
        model = mblob.graph_executor.GraphModule(opened["default"](mblob.cpu(0)))
        model.set_input("image", image)
        model.run()
        answers.append(model.get_output(0).numpy().copy())
    np.testing.assert_allclose(answers[0], answers[1], rtol=2e-4)
    assert 0.01 < answers[0].max() < 0.99, "an answer that tells something"
    with mblob.open(tmp_path / "x.so") as lib:
        assert [e.type_key for e in lib.entries].count("dnnl_json") == 2
