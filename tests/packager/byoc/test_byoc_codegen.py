"""Code generators: what they get of a partitioned graph, and the use of what they give."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob import byoc
from mblob.module import CODEGEN_PREFIXES
from mblob.packager.byoc.build import as_records
from mblob.packager.errors import BuildError
from tests.packager.byoc.partitions import GENERATORS, array, check, regions_of
from tests.packager.graphs import Builder, interpret_codegen, takes

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

# -- constants -------------------------------------------------------------------------------------


def test_constants_go_with_their_regions(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    """w1 is one region's, w2 two regions', w3 a region's and the host's, w4 the host's."""
    b = Builder()
    x, w1, w2, w3, w4 = (b.input(name) for name in ("x", "w1", "w2", "w3", "w4"))
    first = b.call("add", b.call("add", b.call("add", x, w1), w2), w3)
    between = b.call("mix", b.call("mix", first, w4), w3)
    graph = b.json(b.call("add", between, w2))
    params = {name: array(i) for i, name in enumerate(("w1", "w2", "w3", "w4"))}
    module = mblob.partition_graph(
        graph, params, host(), {"one": takes("add")}, codegens=GENERATORS
    )
    check(graph, module, tmp_path / "x.so", {"x": array(9), **params})
    made = json.loads(module.get_source() or "")
    assert [n["name"] for n in made["nodes"] if n["op"] == "null"] == ["x", "w3", "w4"]
    with mblob.open(tmp_path / "x.so") as lib:
        keys = [e.type_key for e in lib.entries]
        assert keys[:2] == ["GraphExecutorFactory", "const_loader"]
        loader = bytes(lib.entries[1].view())
        factory = bytes(lib.entries[0].view())
    assert loader.count(params["w2"].tobytes()) == 1
    assert [factory.count(params[name].tobytes()) for name in params] == [0, 0, 1, 1]


def test_constants_as_a_region_sees_them() -> None:
    b = Builder()
    x, w = b.input("x"), b.input("w")
    graph = b.json(b.call("add", w, b.call("add", x, w)))
    value = array(1)
    records = as_records({"w": value})
    (region,) = regions_of(graph, {"one": takes("add")}, params=records).regions
    assert [t.name for t in region.inputs] == ["x"]
    (w_tensor,) = region.constants
    assert w_tensor.is_constant
    np.testing.assert_array_equal(w_tensor.numpy(), value)
    assert region.constant_names == ["tvmgen_default_one_main_0_const_0"]
    assert region.named_constants == {"tvmgen_default_one_main_0_const_0": w_tensor}
    assert w_tensor.name == "w"
    assert region.operators[0].inputs[1] is w_tensor
    assert region.operators[1].inputs[0] is w_tensor
    assert region.operators[1].inputs[1] is region.operators[0].outputs[0]
    with pytest.raises(ValueError, match="x is no constant"):
        region.inputs[0].numpy()


def test_a_region_of_constants_alone(tmp_path: Path) -> None:
    b = Builder()
    w = b.input("w")
    graph = b.json(b.call("turn", w))
    value = array(2)
    module = mblob.partition_graph(
        graph, {"w": value}, None, {"one": takes("turn")}, codegens=GENERATORS
    )
    check(graph, module, tmp_path / "x.so", {"w": value})


def test_params_as_bytes_and_what_does_not_fit() -> None:
    b = Builder()
    x, w = b.input("x"), b.input("w")
    graph = b.json(b.call("add", x, w))
    data = mblob.save_param_dict({"w": array(1)})
    module = mblob.partition_graph(graph, data, None, {"one": takes("add")}, codegens=GENERATORS)
    assert "w" not in [n["name"] for n in json.loads(module.get_source() or "")["nodes"]]
    with pytest.raises(
        BuildError, match="params: the graph has no input 'other', 'W'; it has x, w"
    ):
        mblob.partition_graph(
            graph, {"other": array(1), "w": array(1), "W": array(1)}, None, {}, codegens=GENERATORS
        )
    for wrong, message in (
        (np.zeros(4, "float32"), r"params: 'w' is float32\[4\], the graph has int32\[4\]"),
        (np.zeros(5, "int32"), r"params: 'w' is int32\[5\], the graph has int32\[4\]"),
        ("text", r"params\['w'\]: expected an array"),
    ):
        with pytest.raises(BuildError, match=message):
            mblob.partition_graph(
                graph, {"w": wrong}, None, {"one": takes("add")}, codegens=GENERATORS
            )


# -- generators ------------------------------------------------------------------------------------


@pytest.fixture
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No code generators but those that come with mblob; the others are back afterwards."""

    def global_names() -> list[str]:
        return [n for n in mblob.list_global_func_names() if n.startswith(CODEGEN_PREFIXES)]

    before = {name: mblob.get_global_func(name) for name in global_names()}
    monkeypatch.setattr("mblob.packager.byoc.codegens._registered", {})
    for name in before:
        mblob.remove_global_func(name)
    yield
    for name in global_names():
        mblob.remove_global_func(name)
    for name, function in before.items():
        mblob.register_func(name, function)


@pytest.mark.usefixtures("nothing_registered")
def test_generators_are_global_functions() -> None:
    """Under TVM's name and ours; those that come with mblob as soon as they are asked for."""
    assert mblob.get_global_func("relay.ext.dnn", allow_missing=True) is None
    for key in ("dnnl", "dnnl_json"):
        for prefix in CODEGEN_PREFIXES:
            assert mblob.get_global_func(prefix + key).name == prefix + key
    g = mblob.GraphBuilder()
    g.output(g.call("relu", [g.input("x", (4,))], (4,), attrs={"op": "nn.relu"}))
    relu = byoc.read_graph(g.graph_json())
    keys = byoc.annotate(relu, ["dnnl"])
    (region,) = byoc.partition(relu, byoc.merge(relu, keys), keys).regions
    assert mblob.get_global_func("relay.ext.dnnl")(region).type_key == "dnnl_json"

    made: list[mblob.Module] = []
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))

    def generate(region: byoc.Region) -> mblob.Module:
        made.append(mblob.json_module("mine", region.symbol, "{}"))
        return made[-1]

    for prefix in CODEGEN_PREFIXES:
        mblob.register_func(prefix + "mine", generate)
        with pytest.raises(BuildError, match="'mine' has a generator; pass override=True"):
            mblob.register_codegen("mine")(interpret_codegen)
        model = mblob.partition_graph(graph, None, None, {"mine": takes("turn")})
        assert model.imported_modules[0].imported_modules[1] is made[-1]
        mblob.remove_global_func(prefix + "mine")
    assert len(made) == 2
    with pytest.raises(
        BuildError,
        match=r"for 'mime' \(there are: dnnl, .*mine\); .*\('mime'\); did you mean 'mine'\?$",
    ):
        mblob.register_codegen("mine")(generate)
        mblob.partition_graph(graph, None, None, {"mime": takes("turn")})
    mblob.register_func("relay.ext.mine", lambda _: 1, override=True)  # TVM's name decides
    with pytest.raises(BuildError, match="the code generator of 'mine' gave int for tvmgen_def"):
        mblob.partition_graph(graph, None, None, {"mine": takes("turn")})


@pytest.mark.usefixtures("nothing_registered")
def test_errors_of_generators_that_are_global_functions_are_the_same() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    error = mblob.ToolchainError("no compiler", command=["x"])
    for raised, expected in (
        (ZeroDivisionError("nought"), BuildError),
        (error, mblob.ToolchainError),
    ):

        @mblob.register_codegen("mine", override=True)
        def generate(region: byoc.Region, raised: Exception = raised) -> mblob.Module:
            raise raised

        with pytest.raises(expected, match=r"'mine'.* for tvmgen_default_mine_main_0: ") as caught:
            mblob.partition_graph(graph, None, None, {"mine": takes("turn")})
        assert raised in (caught.value, caught.value.__cause__)


@pytest.mark.usefixtures("nothing_registered")
def test_registered_generators() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    with pytest.raises(
        BuildError,
        match=r"no code generator is registered for 'mine' \(there are: dnnl, dnnl_json\)",
    ):
        mblob.partition_graph(graph, None, None, {"mine": takes("turn")})
    seen: list[byoc.Region] = []

    @mblob.register_codegen("mine")
    def mine(region: byoc.Region) -> Any:
        seen.append(region)
        return mblob.json_module("mine", region.symbol, "{}") if len(seen) == 1 else None

    mblob.partition_graph(graph, None, None, {"mine": takes("turn")})
    assert seen[0].key == "mine"
    with pytest.raises(
        BuildError,
        match="the code generator of 'mine' gave NoneType for tvmgen_default_mine_main_0",
    ):
        mblob.partition_graph(graph, None, None, {"mine": takes("turn")})
    mblob.register_codegen("mine")(mine)
    with pytest.raises(BuildError, match="'mine' has a generator"):
        mblob.register_codegen("mine")(interpret_codegen)
    mblob.register_codegen("mine", override=True)(interpret_codegen)
    with pytest.raises(BuildError, match="'library' is the format's own"):
        mblob.register_codegen("library")
    with pytest.raises(BuildError, match="'library' is the format's own"):
        mblob.partition_graph(graph, None, None, {"library": takes("turn")})
    with pytest.raises(
        BuildError, match="one: expected a predicate or a list of patterns, found int"
    ):
        mblob.partition_graph(graph, None, None, {"one": 1})  # type: ignore[dict-item]


def test_a_generator_that_fails_is_named() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    at = r"'one'.* for tvmgen_default_one_main_0: "

    def fails(error: Exception) -> Callable[[byoc.Region], mblob.Module]:
        def codegen(region: byoc.Region) -> mblob.Module:
            raise error

        return codegen

    with pytest.raises(BuildError, match=at + "ZeroDivisionError: by nought") as caught:
        mblob.partition_graph(
            graph,
            None,
            None,
            {"one": takes("turn")},
            codegens={"one": fails(ZeroDivisionError("by nought"))},
        )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    error = mblob.ToolchainError("no compiler", command=["x"])
    with pytest.raises(
        mblob.ToolchainError, match=r"'one', for tvmgen_default_one_main_0: no compiler"
    ) as failed:
        mblob.partition_graph(
            graph, None, None, {"one": takes("turn")}, codegens={"one": fails(error)}
        )
    assert failed.value is error


PLAIN = "void {0}(const int x[4], int y[4]) {{ y[0] = x[0]; }}"


def test_a_module_without_the_regions_function_is_refused(tmp_path: Path) -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))
    symbol = "tvmgen_default_one_main_0"
    prototype = "void {0}(const int x[4], int y[4])"
    for name in ("other", symbol):
        (tmp_path / f"{name}.c").write_text(PLAIN.format(name))
        subprocess.run(["cc", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    (tmp_path / "made.h").write_text("")
    above = mblob.csource_module("", "c")
    above.import_module(mblob.json_module("one", symbol, "{}"))
    for wrong in (
        mblob.json_module("one", "other", "{}"),
        mblob.csource_module("", "c"),
        mblob.csource_module(PLAIN.format("other"), functions=[prototype.format("other")]),
        mblob.csource_module(tmp_path / "other.c"),
        mblob.static_library(tmp_path / "other.o", functions=[prototype.format("other")]),
    ):
        with pytest.raises(
            BuildError,
            match=rf"'one' gave a module \({wrong.type_key}\) without a function {symbol}",
        ):
            mblob.partition_graph(
                graph, None, None, {"one": takes("turn")}, codegens={"one": lambda _, m=wrong: m}
            )
    for possible in (
        above,
        mblob.blob_module("one", b"", data=False),
        mblob.csource_module(PLAIN.format(symbol), functions=[prototype.format(symbol)]),
        mblob.csource_module('#include "made.h"\n', "c"),
        mblob.csource_module(PLAIN.format("NAME"), options=[f"-DNAME={symbol}"]),
        mblob.static_library(tmp_path / "other.o"),
        mblob.static_library(tmp_path / f"{symbol}.o", functions=[prototype.format("other")]),
    ):
        mblob.partition_graph(
            graph, None, None, {"one": takes("turn")}, codegens={"one": lambda _, m=possible: m}
        )


def test_a_generator_of_c_is_linked(host: Callable[[], mblob.Module], tmp_path: Path) -> None:
    """As TVM's `ccompiler`: the region is a packed function in C, its constants come through
    `__init_`."""
    b = Builder()
    x, w = b.input("x"), b.input("w")
    graph = b.json(b.call("add", b.call("bump", x), w))

    def codegen(region: byoc.Region) -> mblob.Module:
        assert [o.function for o in region.operators] == ["add"]
        return mblob.csource_module(
            "#include <tvm/runtime/c_runtime_api.h>\n"
            "#include <tvm/runtime/c_backend_api.h>\n"
            "#include <string.h>\n"
            "extern void *__tvm_module_ctx;\n"
            "static int32_t w[4];\n"
            "static const int32_t *at(TVMValue v) { return (const int32_t *)((DLTensor *)v.v_handle)->data; }\n"
            f"int __init_{region.symbol}(TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *x) {{\n"
            "  (void)c; (void)r; (void)rc; (void)x;\n"
            "  void *get;\n"
            "  TVMValue given[2] = {a[0], {.v_int64 = 0}}, item;\n"
            "  int codes[2] = {kTVMObjectHandle, kTVMArgInt}, code;\n"
            '  if (n != 1 || TVMBackendGetFuncFromEnv(__tvm_module_ctx, "runtime.ArrayGetItem", &get)) return -1;\n'
            "  if (TVMFuncCall(get, given, codes, 2, &item, &code)) return -1;\n"
            "  memcpy(w, at(item), sizeof(w));\n"
            "  return 0;\n}\n"
            f"int {region.symbol}(TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *x) {{\n"
            "  (void)c; (void)n; (void)r; (void)rc; (void)x;\n"
            "  for (int i = 0; i < 4; i++)\n"
            "    ((int32_t *)at(a[1]))[i] = (int32_t)((uint32_t)at(a[0])[i] + (uint32_t)w[i]);\n"
            "  return 0;\n}\n"
        )

    params = {"w": array(1)}
    module = mblob.partition_graph(
        graph, params, host(), {"ccompiler": takes("add")}, codegens={"ccompiler": codegen}
    )
    check(graph, module, tmp_path / "x.so", {"x": array(2), **params})


# -- what a generator is told ----------------------------------------------------------------------


def test_attributes_of_operators() -> None:
    b = Builder()
    x = b.input("x")
    y = b.call("turn", x, name="t", op="nn.conv2d", strides="[2, 3]", padding="(1,)", axis="-1", flag="True",
               eps="1e-5", layout='"NCHW"', text="a,b")  # fmt: skip
    seen: list[byoc.Operator] = []
    regions_of(b.json(y), {"one": lambda o: seen.append(o)})  # type: ignore[func-returns-value]
    (o,) = seen
    assert (o.op, o.function, o.name) == ("nn.conv2d", "turn", "t")
    assert o.ints("strides") == (2, 3)
    assert o.ints("padding", count=2) == (1, 1)
    assert o.ints("absent", (4, 5)) == (4, 5)
    assert (o.integer("axis"), o.integer("absent", 7)) == (-1, 7)
    assert (o.flag("flag"), o.flag("absent")) == (True, False)
    assert (o.number("eps"), o.number("absent", 0.5)) == (1e-5, 0.5)
    assert (o.text("layout"), o.text("absent", "x")) == ("NCHW", "x")
    assert "num_inputs" not in o.attrs
    assert o.inputs[0].dtype == "int32"
    for ask, message in (
        (
            lambda: o.ints("text"),
            r"graph: node 't' \(nn.conv2d\): text: expected whole numbers, found 'a,b'",
        ),
        (lambda: o.ints("strides", count=3), "strides: expected 3 numbers, found"),
        (lambda: o.text("absent"), "no attribute 'absent'"),
        (lambda: o.integer("strides"), r"strides: expected one number, found '\[2, 3\]'"),
        (lambda: o.flag("text"), "text: expected true or false, found 'a,b'"),
        (lambda: o.flag("layout"), "layout: expected true or false, found 'NCHW'"),
        (lambda: o.number("text"), "text: expected a number"),
    ):
        with pytest.raises(BuildError, match=message):
            ask()


def test_the_json_of_a_region() -> None:
    """Against TVM's own: inputs, then constants, as arguments; texts in lists of lists."""
    b = Builder()
    x, w = b.input("x"), b.input("w")
    low, high = b.call("split", b.call("add", x, w))
    graph = b.json(b.call("bump", low), high)
    records = as_records({"w": array(1)})
    (region,) = regions_of(graph, {"one": takes("add", "split")}, params=records).regions
    made = byoc.JsonGraph(region)
    for o in region.operators:
        made.kernel(f"my.{o.op}", o.inputs, o.outputs, {"axis": 1, "pads": [1, 2], "keep": True})
    module = made.module("my_json")
    assert module.type_key == "my_json"
    symbol = region.symbol
    types = {"dtype": [["int32"]], "shape": [[[4]]]}
    attrs = {"axis": [["1"]], "pads": [["1", "2"]], "keep": [["1"]]}
    assert json.loads(module.get_source() or "") == {
        "symbol": symbol,
        "nodes": [
            {"op": "input", "name": "one_0_i0", "attrs": types},
            {"op": "const", "name": f"{symbol}_const_0", "attrs": types},
            {"op": "kernel", "name": "my.add", "inputs": [[0, 0, 0], [1, 0, 0]],
             "attrs": {"num_inputs": "2", "num_outputs": "1", **types, **attrs}},
            {"op": "kernel", "name": "my.split", "inputs": [[2, 0, 0]],
             "attrs": {"num_inputs": "1", "num_outputs": "2", "dtype": [["int32", "int32"]],
                       "shape": [[[4], [4]]], **attrs}},
        ],
        "arg_nodes": [0, 1],
        "heads": [[3, 0, 0], [3, 1, 0]],
        "node_row_ptr": [0, 1, 2, 3, 5],
    }  # fmt: skip
    unfinished = byoc.JsonGraph(region, write_symbol=False)
    with pytest.raises(BuildError, match="no kernel makes its result split3"):
        unfinished.module("my_json")
    with pytest.raises(BuildError, match=r"my\.split uses add2, which no kernel before it makes"):
        unfinished.kernel("my.split", region.operators[1].inputs, region.operators[1].outputs)
    with pytest.raises(BuildError, match="the attribute 'shape' is the format's own"):
        unfinished.kernel("x", region.inputs, region.operators[0].outputs, {"shape": 1})
    for o in region.operators:
        unfinished.kernel(o.op, o.inputs, o.outputs)
    assert "symbol" not in unfinished.to_json()


def test_a_predicate_that_fails_is_named_with_the_node() -> None:
    b = Builder()
    graph = b.json(b.call("turn", b.input("x")))

    def divides(operator: byoc.Operator) -> bool:
        return bool(1 // 0)

    with pytest.raises(
        BuildError, match=r"^the predicate of 'one', for node 'turn1' \(turn\), failed: Zero"
    ) as caught:
        mblob.partition_graph(graph, None, None, {"one": divides}, codegens=GENERATORS)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(
        BuildError,
        match=r"^the predicate of 'one', for node 'turn1' \(turn\): .*no attribute 'axis'",
    ):
        mblob.partition_graph(
            graph, None, None, {"one": lambda o: o.integer("axis")}, codegens=GENERATORS
        )


@pytest.mark.slow
def test_large_graphs_take_steps_in_proportion() -> None:
    """What is counted are steps of searches, not seconds: twice the graph is about twice the
    work."""
    counts = [_steps_of_merge(n) for n in (400, 800)]
    assert counts[1] < 2.5 * counts[0]


def _steps_of_merge(size: int) -> int:
    import sys

    b = Builder()
    value = x = b.input("x")
    for i in range(size):
        value = b.call("add", b.call("bump", value), value if i % 3 else x)
        value = b.call("bump", value, share=value)
    value = b.call("turn", value)
    for _ in range(size):
        value = b.call("__nop", value, share=value)
    graph = byoc.read_graph(b.json(b.call("turn", value)))
    keys = byoc.annotate(graph, {"one": lambda o: o.function != "turn"})
    steps = 0

    def count(*_: object) -> object:
        nonlocal steps
        steps += 1
        return count

    sys.settrace(count)
    try:
        byoc.partition(graph, byoc.merge(graph, keys), keys)
    finally:
        sys.settrace(None)
    return steps
