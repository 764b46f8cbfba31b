"""TVM 0.14's tests of regions of other code generators: relay/test_external_codegen (C, oneDNN) and
relay/test_json_runtime (oneDNN).

What TVM cut from Relay there, `mblob.partition_graph` cuts here. Where oneDNN is not installed, a
reader in numpy runs its regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from mblob.compat.tvm.contrib import graph_executor
from mblob.loader.plugins import plugins
from tests.loader.dnnl.dnnl_graphs import convolve
from tests.packager.byoc import dnnl_reference
from tests.peers.cases import Case

Array = Any
CPU = tvm.cpu(0)
C_TYPES = {"float32": "float", "int32": "int"}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}


def drawn(*shape: int, dtype: str = "float32") -> Array:
    numbers = np.random.default_rng(sum(shape)).random(shape) * 4
    return numbers.astype(dtype)


# -- regions in C ----------------------------------------------------------------------------------


def ccompiler(head: str = "") -> Callable[[mblob.byoc.Region], mblob.Module]:
    """A generator that writes a region of elementwise operators in C, its constants with it.

    Args:
        head: the first line of the code.
    """

    def generate(region: mblob.byoc.Region) -> mblob.Module:
        kind, names = C_TYPES[region.outputs[0].dtype], {}
        parameters, lines, tables = [], [], [head]
        for number, tensor in enumerate(region.constants):
            names[id(tensor)] = f"k{number}"
            numbers = ", ".join(repr(v) for v in tensor.numpy().ravel().tolist())
            tables.append(f"static const {kind} k{number}[] = {{{numbers}}};")
        size = int(np.prod(region.outputs[0].shape))
        for number, tensor in enumerate(region.inputs):
            names[id(tensor)] = f"x{number}"
            parameters.append(f"const {kind} x{number}[{size}]")
        results = {id(t): f"y{i}" for i, t in enumerate(region.outputs)}
        parameters += [f"{kind} {y}[{size}]" for y in results.values()]
        for number, operator in enumerate(region.operators):
            (made,) = operator.outputs
            place = results.get(id(made)) or f"t{number}"
            if id(made) not in results:
                tables.append(f"static {kind} t{number}[{size}];")
            a, b = (names[id(t)] for t in operator.inputs)
            names[id(made)] = place
            lines.append(
                f"for (int i = 0; i < {size}; i++) {place}[i] = {a}[i] {SIGNS[operator.op]} {b}[i];"
            )
        prototype = f"void {region.symbol}({', '.join(parameters)})"
        code = "\n".join([*tables, prototype, "{", *lines, "}"])
        return mblob.csource_module(code, functions=[prototype])

    return generate


class Net(mblob.GraphBuilder):
    """A graph of operators that code generators take."""

    def op(
        self, name: str, inputs: Sequence[Any], *shape: int, dtype: str = "float32", **more: Any
    ) -> Any:
        return self.call(
            more.pop("function", "none"), inputs, shape, dtype, attrs={"op": name, **more}
        )


def outputs(
    net: Net, inputs: dict[str, Array], key: str, takes: Any, host: Any = None, **more: Any
) -> list[Array]:
    """The results of a graph, of which `key` gets what it takes; packed, loaded and run."""
    factory = mblob.partition_graph(net, None, host, {key: takes}, **more)
    loaders = {} if key != "dnnl" or onednn() else {"dnnl_json": dnnl_reference.load}
    with TemporaryDirectory() as folder:
        factory.export_library(Path(folder, "lib.so"))
        library = mblob.load_module(Path(folder, "lib.so"), loaders=loaders)
    model = graph_executor.GraphModule(library["default"](CPU))
    model.set_input(**inputs)
    model.run()
    return [model.get_output(i).numpy() for i in range(model.get_num_outputs())]


@cache
def onednn() -> bool:
    """Whether the plug-in finds oneDNN."""
    try:
        return bool(next(p for p in plugins() if p.name == "dnnl").describe())
    except mblob.MblobError:
        return False


def in_c(
    net: Net, inputs: dict[str, Array], takes: Any = None, head: str = "", host: Any = None
) -> Array:
    takes = takes or (lambda operator: operator.op in SIGNS)
    (found,) = outputs(
        net, inputs, "ccompiler", takes, host, codegens={"ccompiler": ccompiler(head)}
    )
    return found


def two(dtype: str, *shape: int) -> tuple[Net, dict[str, Array]]:
    """x + y"""
    net = Net()
    x, y = (net.input(name, shape, dtype) for name in "xy")
    net.output(net.op("add", [x, y], *shape, dtype=dtype))
    return net, {"x": drawn(*shape, dtype=dtype), "y": drawn(*shape, dtype=dtype) * 3}


def single(dtype: str) -> Callable[[], None]:
    def check() -> None:
        net, given = two(dtype, 8, 8)
        np.testing.assert_array_equal(in_c(net, given), given["x"] + given["y"])

    return check


HOST = """
void rest(const float *x, const float *a, const float *b, float *y) {
  for (int i = 0; i < 100; i++) y[i] = x[i] + a[i] - b[i];
}
void join(const float *a, const float *b, const float *c, float *y) {
  for (int i = 0; i < 100; i++) y[i] = a[i], y[100 + i] = b[i], y[200 + i] = c[i];
}
"""
HOST_PROTOTYPES = [
    "void rest(const float x[10][10], const float a[10][10], const float b[10][10], float y[10][10])",
    "void join(const float a[10][10], const float b[10][10], const float c[10][10], float y[30][10])",
]


def several_nodes() -> None:
    net, w = Net(), {f"w{i}": drawn(10, 10) + i for i in range(8)}
    x = net.input("x", (10, 10), "float32")
    v = {name: net.input(name, (10, 10), "float32") for name in w}

    def region(a: str, b: str, c: str) -> Any:
        z = net.op("subtract", [net.op("add", [x, v[a]], 10, 10), v[b]], 10, 10)
        return net.op("multiply", [z, v[c]], 10, 10)

    parts = [region("w0", "w1", "w2"), region("w3", "w4", "w5")]
    parts.append(net.call("rest", [x, v["w6"], v["w7"]], (10, 10)))
    net.output(net.call("join", parts, (30, 10)))
    given = {"x": drawn(10, 10), **w}
    found = in_c(net, given, host=mblob.csource_module(HOST, functions=HOST_PROTOTYPES))
    z = given["x"]
    expected = [((z + w[a]) - w[b]) * w[c] for a, b, c in (("w0", "w1", "w2"), ("w3", "w4", "w5"))]
    expected.append(z + w["w6"] - w["w7"])
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-6)


def three_regions() -> None:
    net = Net()
    x, y = (net.input(name, (2, 2), "float32") for name in "xy")
    squared, doubled = net.op("multiply", [y, y], 2, 2), net.op("add", [x, x], 2, 2)
    net.output(net.op("subtract", [squared, doubled], 2, 2))
    given = {"x": drawn(2, 2), "y": drawn(2, 2) + 1}
    keys = {sign: (lambda o, sign=sign: o.op == sign) for sign in SIGNS}
    codegens = {sign: ccompiler() for sign in SIGNS}
    factory = mblob.partition_graph(net, None, None, keys, codegens=codegens)
    with TemporaryDirectory() as folder:
        factory.export_library(Path(folder, "lib.so"))
        library = tvm.runtime.load_module(Path(folder, "lib.so"))
    model = graph_executor.GraphModule(library["default"](CPU))
    model.run(**given)
    expected = given["y"] * given["y"] - (given["x"] + given["x"])
    np.testing.assert_allclose(model.get_output(0).numpy(), expected, rtol=1e-6)


def head_of_code() -> None:
    net, given = two("int32", 8, 8)
    assert (in_c(net, given, head="// Good") == given["x"] + given["y"]).all()
    with pytest.raises(mblob.BuildError):
        in_c(net, given, head="Bogus")


def constants(shape: tuple[int, ...] = (8, 8)) -> Net:
    net = Net()
    x, y = net.input("x", shape, "float32"), net.param("y", drawn(*shape) + 1)
    net.output(net.op("add", [x, y], *shape))
    return net


def constants_in_c() -> None:
    x = drawn(8, 8)
    np.testing.assert_array_equal(in_c(constants(), {"x": x}), x + (drawn(8, 8) + 1))


def parameters_of_constants() -> None:
    """They are in the region, so the graph has none."""
    factory = mblob.partition_graph(
        constants((1, 10)),
        None,
        None,
        {"ccompiler": lambda o: True},
        codegens={"ccompiler": ccompiler()},
    )
    with TemporaryDirectory() as folder:
        factory.export_library(Path(folder, "lib.so"))
        library = tvm.runtime.load_module(Path(folder, "lib.so"))
    assert len(library.get_params()) == 0
    model = graph_executor.create(library["get_graph_json"](), library.imports[0], CPU)
    model.load_params(tvm.runtime.save_param_dict(library.get_params()))
    model.run(x=drawn(1, 10))
    np.testing.assert_array_equal(model.get_output(0).numpy(), drawn(1, 10) + (drawn(1, 10) + 1))


# -- regions in oneDNN -----------------------------------------------------------------------------


class Layers(Net):
    """A graph, the arrays that it is given, and what its values are, in numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: dict[str, Array] = {}
        self.known: dict[Any, Array] = {}

    def data(self, *shape: int, constant: bool = False) -> Any:
        name, array = f"d{len(self.known)}", drawn(*shape) - 1
        value = self.param(name, array) if constant else self.input(name, shape, "float32")
        if not constant:
            self.arrays[name] = array
        self.known[value] = array
        return value

    def layer(self, name: str, inputs: Sequence[Any], expected: Array, **attrs: Any) -> Any:
        value = self.op(name, inputs, *expected.shape, **attrs)
        self.known[value] = expected
        return value

    def conv(self, x: Any, w: Any, padding: int | Sequence[int] = 1, **attrs: Any) -> Any:
        pads = (padding,) * 4 if isinstance(padding, int) else tuple(padding)
        strides, groups = attrs.get("strides", (1, 1)), attrs.get("groups", 1)
        expected = convolve(self.known[x], self.known[w], strides, pads, (1, 1), groups)
        return self.layer("nn.conv2d", [x, w], expected, padding=list(pads), **attrs)

    def binary(self, name: str, a: Any, b: Any) -> Any:
        function = np.add if name == "add" else np.multiply
        return self.layer(name, [a, b], function(self.known[a], self.known[b]))

    def relu(self, x: Any) -> Any:
        return self.layer("nn.relu", [x], np.maximum(self.known[x], 0))

    def bias(self, x: Any, b: Any) -> Any:
        return self.layer("nn.bias_add", [x, b], self.known[x] + self.known[b][:, None, None])

    def norm(self, x: Any, *statistics: Any) -> Any:
        gamma, beta, mean, variance = (self.known[v][:, None, None] for v in statistics)
        expected = (self.known[x] - mean) / np.sqrt(variance + 1e-5) * gamma + beta
        return self.layer("nn.batch_norm", [x, *statistics], expected, axis=1, epsilon=1e-5)

    def statistics(self, channels: int, constant: bool = False) -> list[Any]:
        found = [self.data(channels, constant=constant) for _ in range(4)]
        variance = found[-1]
        self.known[variance] += 1.5  # of which a root is drawn
        return found

    def check(self, *values: Any) -> None:
        """The whole graph runs in oneDNN, and gives these values."""
        self.output(*values)
        taken: list[str] = []

        def takes(operator: mblob.byoc.Operator) -> bool:
            found = mblob.byoc.dnnl.supported(operator)
            taken.append(operator.op) if found else pytest.fail(
                f"{operator.op} stays with the host"
            )
            return found

        results = outputs(self, self.arrays, "dnnl", takes)
        assert taken
        for found, value in zip(results, values):
            expected = self.known[value]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def convolution(inputs: int, outputs: int, **attrs: Any) -> Callable[[], None]:
    def check() -> None:
        net = Layers()
        x, w = net.data(1, inputs, 14, 9), net.data(outputs, inputs // attrs.get("groups", 1), 3, 3)
        net.check(net.conv(x, w, **attrs))

    return check


def depthwise(constant: bool) -> Callable[[], None]:
    def check() -> None:
        net = Layers()
        x, w = net.data(1, 16, 14, 14), net.data(16, 1, 3, 3, constant=constant)
        first = net.conv(x, w, groups=16)
        net.check(net.binary("add", first, net.conv(first, w, groups=16)))

    return check


def convolutions() -> None:
    convolution(8, 12)()
    convolution(16, 16, groups=16)()


def binary(name: str) -> Callable[[], None]:
    def check() -> None:
        net = Layers()
        net.check(net.binary(name, net.data(10, 10), net.data(10, 10)))

    return check


def relus() -> None:
    net = Layers()
    x = net.data(1, 8, 7, 7)
    net.check(net.relu(x))
    net = Layers()
    x = net.data(1, 8, 7, 7)
    net.check(net.relu(net.binary("add", net.relu(x), net.relu(x))))


def dense() -> None:
    net = Layers()
    x, w = net.data(2, 16), net.data(12, 16)
    net.check(net.layer("nn.dense", [x, w], net.known[x] @ net.known[w].T))


def batch_norm() -> None:
    net = Layers()
    x, statistics = net.data(1, 8, 7, 7), net.statistics(8, constant=True)
    net.check(net.norm(x, *statistics))


def several_layers() -> None:
    net = Layers()
    y = net.relu(net.conv(net.data(1, 8, 7, 7), net.data(8, 8, 3, 3)))
    net.check(net.relu(net.conv(y, net.data(8, 8, 5, 5), padding=2)))


def composite() -> None:
    for with_bias in (False, True):
        net = Layers()
        y = net.conv(net.data(1, 8, 7, 7), net.data(8, 8, 3, 3, constant=True))
        net.check(net.relu(net.bias(y, net.data(8, constant=True)) if with_bias else y))


def constant_layers() -> None:
    net = Layers()
    y = net.conv(net.data(1, 8, 7, 7), net.data(8, 8, 3, 3, constant=True))
    net.check(net.relu(net.norm(y, *net.statistics(8, constant=True))))


def partly_constant() -> None:
    net = Layers()
    a, b, c = net.data(10, 10), net.data(10, 10, constant=True), net.data(10, 10)
    sum_ = net.binary("add", net.binary("add", a, b), c)
    net.check(net.binary("add", net.binary("add", sum_, c), b))


EXTERNAL, JSON = "test_external_codegen", "test_json_runtime"
CASES = [
    Case(f"{EXTERNAL}.test_multi_node_subgraph", several_nodes),
    Case(f"{EXTERNAL}.test_extern_gcc_single_op", single("float32")),
    Case(f"{EXTERNAL}.test_extern_gcc_single_op_int", single("int32")),
    Case(f"{EXTERNAL}.test_extern_gcc", three_regions),
    Case(f"{EXTERNAL}.test_extern_gcc_with_target_instance", head_of_code),
    Case(f"{EXTERNAL}.test_extern_gcc_consts", constants_in_c),
    Case(
        f"{EXTERNAL}.test_extern_dnnl_padding",
        convolution(1, 54, strides=(2, 2), padding=(1, 0, 1, 1)),
    ),
    Case(f"{EXTERNAL}.test_extern_dnnl", depthwise(constant=False)),
    Case(f"{EXTERNAL}.test_extern_dnnl_const", depthwise(constant=True)),
    Case(f"{EXTERNAL}.test_load_params_with_constants_in_ext_codegen", parameters_of_constants),
    Case(f"{JSON}.test_conv2d", convolutions),
    Case(f"{JSON}.test_add", binary("add")),
    Case(f"{JSON}.test_multiply", binary("multiply")),
    Case(f"{JSON}.test_relu", relus),
    Case(f"{JSON}.test_dense", dense),
    Case(f"{JSON}.test_bn", batch_norm),
    Case(f"{JSON}.test_multiple_ops", several_layers),
    Case(f"{JSON}.test_composite", composite),
    Case(f"{JSON}.test_constant", constant_layers),
    Case(f"{JSON}.test_partial_constant", partly_constant),
]
