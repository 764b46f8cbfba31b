"""The graph after each pass as text: the modules that TVM prints, and what it has no words for."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import mblob
from mblob import byoc
from mblob.packager.byoc.patterns import is_op, wildcard
from mblob.packager.errors import BuildError
from tests.packager import graphs
from tests.packager.byoc.partitions import GENERATORS, array
from tests.packager.graphs import Builder, takes

TYPES = {
    "IMAGE": "Tensor[(1, 32, 56, 56), float32]",
    "WEIGHTS": "Tensor[(32, 32, 3, 3), float32]",
    "BIAS": "Tensor[(32), float32]",
}
# Printed by TVM (a published walk through BYOC with oneDNN): before, and after AnnotateTarget("dnnl")
# and PartitionGraph(). IMAGE, WEIGHTS and BIAS are types; a backslash is no end of a line.
BEFORE = """\
def @main(%d1: IMAGE, %w1: WEIGHTS, %b1: BIAS) -> IMAGE {
  %0 = nn.conv2d(%d1, %w1, padding=[1, 1, 1, 1]) /* ty=IMAGE */;
  %1 = nn.bias_add(%0, %b1) /* ty=IMAGE */;
  nn.relu(%1) /* ty=IMAGE */
}"""
AFTER = """\
def @main(%d1: IMAGE, %w1: WEIGHTS, %b1: BIAS) -> IMAGE {
  %0 = @tvmgen_default_dnnl_main_0(%d1, %w1) /* ty=IMAGE */;
  %1 = nn.bias_add(%0, %b1) /* ty=IMAGE */;
  @tvmgen_default_dnnl_main_2(%1) /* ty=IMAGE */
}

def @tvmgen_default_dnnl_main_0(%dnnl_0_i0: IMAGE, %dnnl_0_i1: WEIGHTS, Inline=1,\
 Compiler="dnnl", global_symbol="tvmgen_default_dnnl_main_0", Primitive=1) -> IMAGE {
  nn.conv2d(%dnnl_0_i0, %dnnl_0_i1, padding=[1, 1, 1, 1]) /* ty=IMAGE */
}

def @tvmgen_default_dnnl_main_2(%dnnl_2_i0: IMAGE, Inline=1,\
 Compiler="dnnl", global_symbol="tvmgen_default_dnnl_main_2", Primitive=1) -> IMAGE {
  nn.relu(%dnnl_2_i0) /* ty=IMAGE */
}"""
BEFORE, AFTER = (re.sub("IMAGE|WEIGHTS|BIAS", lambda m: TYPES[m[0]], t) for t in (BEFORE, AFTER))


def demo() -> mblob.GraphBuilder:
    """The network of TVM's text."""
    g, shape = mblob.GraphBuilder(), (1, 32, 56, 56)
    d1, w1, b1 = g.input("d1", shape), g.input("w1", (32, 32, 3, 3)), g.input("b1", (32,))
    conv = g.call("conv", [d1, w1], shape, attrs={"op": "nn.conv2d", "padding": [1, 1, 1, 1]})
    bias = g.call("bias", [conv, b1], shape, attrs={"op": "nn.bias_add"})
    g.output(g.call("relu", [bias], shape, attrs={"op": "nn.relu"}))
    return g


def comments(text: str) -> list[str]:
    """The ends of the lines of operators, and lines that are comments alone."""
    return re.findall(r"^ *(?://|.*?[;/]  //) (.*)$", text, re.MULTILINE)


def test_a_network_is_printed_as_tvm_prints_it() -> None:
    graph = byoc.read_graph(demo().graph_json())
    assert byoc.text(graph) == BEFORE
    keys = byoc.annotate(graph, {"dnnl": lambda o: o.op in ("nn.conv2d", "nn.relu")})
    assert byoc.text(byoc.partition(graph, byoc.merge(graph, keys), keys)) == AFTER


def test_each_pass_of_partition_graph_is_shown() -> None:
    """With composites, constants by their names, and what stays with the host."""
    seen: list[str] = []
    params = {"w1": np.zeros((32, 32, 3, 3), "float32")}
    mblob.partition_graph(demo(), params, None, ["dnnl"], trace=seen.append)
    heads = [text.partition("\n")[0] for text in seen]
    assert heads == ["// read_graph", "// annotate", "// merge", "// partition"]
    read, annotated, merged, cut = (text.partition("\n")[2].removesuffix("\n") for text in seen)
    assert read == BEFORE
    of = "dnnl.conv2d_bias_relu"
    assert comments(annotated)[:3] == [
        f"conv: dnnl, {of}",
        f"bias: dnnl, {of}",
        f"relu: dnnl, {of}",
    ]
    assert "// dnnl: nothing matches dnnl.conv2d_bias_sum_relu, dnnl.conv2d_bias_sum, " in annotated
    assert re.sub(r"  // .*", "", annotated).startswith(BEFORE)
    assert comments(merged) == [f"{n}: dnnl, region 0, {of}" for n in ("conv", "bias", "relu")]
    assert "def @main(%d1: Tensor[(1, 32, 56, 56), float32], %b1: " in cut
    assert comments(cut) == ["%w1 is tvmgen_default_dnnl_main_0_const_0", of, of, of]
    assert "  %0 = nn.conv2d(%dnnl_0_i0, %w1, padding=[1, 1, 1, 1]) /*" in cut
    assert "  %1 = nn.bias_add(%0, %dnnl_0_i1) /*" in cut


def test_composites_of_one_name_and_regions_have_numbers() -> None:
    b = Builder()
    value = b.input("x")
    for function in ("turn", "bump", "turn", "bump", "mix", "turn"):
        value = b.call(function, *[value] * graphs.ARITY[function][0])
    graph = byoc.read_graph(b.json(value))
    table = [("pair", is_op("bump")(is_op("turn"))), ("one", is_op("turn")), ("no", is_op("no"))]
    keys = byoc.annotate(graph, {"one": table})
    assert comments(byoc.text(graph, keys)) == [
        "turn1: one, pair", "bump2: one, pair", "turn3: one, pair (2)", "bump4: one, pair (2)", "mix5: host",
        "turn6: one, one", "one: nothing matches no",
    ]  # fmt: skip
    assert comments(byoc.text(graph, keys, byoc.merge(graph, keys, 2)))[3:] == [
        "bump4: one, region 0, pair (2)",
        "mix5: host",
        "turn6: host, its region of one is too small, one",
    ]
    regions = byoc.merge(graph, keys)
    marks = comments(byoc.text(graph, keys, regions))
    symbols = [r.symbol for r in byoc.partition(graph, regions, keys).regions]
    assert [
        f"tvmgen_default_one_main_{n}" for n in re.findall(r"region (\d+)", marks[0] + marks[5])
    ] == symbols


def test_results_inputs_and_attributes_of_every_kind() -> None:
    b = Builder()
    x = b.input("x")
    low, high = b.call(
        "split", x, op="my.split", axis="1", layout="NCHW", hash="7f", none="", q='a"b'
    )
    graph = b.json(high, x, b.call("turn", low), low)
    assert byoc.text(byoc.read_graph(graph)) == (
        "def @main(%x: Tensor[(4), int32]) -> (Tensor[(4), int32], Tensor[(4), int32], Tensor[(4), int32],"
        " Tensor[(4), int32]) {\n"
        '  %0 = my.split(%x, axis=1, layout="NCHW", q="a\\"b")'
        " /* ty=(Tensor[(4), int32], Tensor[(4), int32]) */;\n"
        "  %1 = turn(%0.0) /* ty=Tensor[(4), int32] */;\n"
        "  (%0.1, %x, %1, %0.0)\n}"
    )
    alone = Builder()
    x = alone.input("x")
    assert byoc.text(byoc.read_graph(alone.json(x))).endswith("-> Tensor[(4), int32] {\n  %x\n}")
    with pytest.raises(BuildError, match="text: expected a Graph or a Partition, found dict"):
        byoc.text(graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(8))
def test_every_operator_of_a_random_graph_is_there_once(
    seed: int, host: Callable[[], mblob.Module]
) -> None:
    graph, inputs = graphs.random_graph(3000 + seed, 30)
    table = [("c", is_op("add", "mix")(is_op("turn", "add"), wildcard()))]
    seen: list[str] = []
    params = {name: array(1) for name in inputs[1:]}
    mblob.partition_graph(
        graph,
        params,
        host(),
        {"one": table, "two": takes("split")},
        codegens=GENERATORS,
        trace=seen.append,
    )
    calls = sum(node["op"] != "null" for node in graph["nodes"])
    for text in seen:
        assert len(re.findall(r"^  .*(?:add|mix|turn|split|__nop)\(", text, re.MULTILINE)) == calls
    called = re.findall(r"^  .*@(\w+)\(", seen[3], re.MULTILINE)
    assert sorted(called) == sorted(re.findall(r"^def @(tvmgen\w+)", seen[3], re.MULTILINE))
