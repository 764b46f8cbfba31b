"""dnnl_json graphs and arguments that are wrong: errors that name what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import floats
from tests.loader.dnnl.dnnl_graphs import small_convolution as conv

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]


def edited(change: Callable[[dict[str, Any]], Any], **attrs: Any) -> Callable[[str], mblob.Module]:
    def make(symbol: str) -> mblob.Module:
        g = conv(symbol, **attrs)
        graph = json.loads(g.text())
        change(graph)
        return g.module(json.dumps(graph))

    return make


def kernel(**values: Any) -> Callable[[str], mblob.Module]:
    return edited(lambda graph: graph["nodes"][3].update(values))


LIES: dict[str, tuple[Callable[[str], mblob.Module], str]] = {
    "no_operator": (kernel(name="nn.fancy"), "node 3 `nn.fancy`: this operator is not one"),
    "missing": (
        edited(lambda g: None, strides=None),
        "node 3 `dnnl.conv2d_bias_relu`: the attribute strides is missing",
    ),
    "no_number": (
        edited(lambda g: None, groups="many"),
        "the attribute groups is `many`, expected a whole number",
    ),
    "too_few": (
        edited(lambda g: None, strides=[1]),
        "the attribute strides has 1 values, expected 2",
    ),
    "no_stride": (
        edited(lambda g: None, strides=[0, 1]),
        "the attribute strides is 0, expected 1 to 2147483647",
    ),
    "nested": (
        edited(lambda g: g["nodes"][3]["attrs"].update(groups={"a": 1})),
        "the attribute groups is no text",
    ),
    "groups": (
        edited(lambda g: None, groups=3),
        "4 channels and 8 results cannot be divided into 3 groups",
    ),
    "layout": (
        edited(lambda g: None, data_layout="NCXY"),
        "data_layout is `NCXY`: a letter that names no axis",
    ),
    "layout_rank": (
        edited(lambda g: None, data_layout="NCHW8c"),
        r"does not fit the shape of float32\[1, 4, 6, 6\]",
    ),
    "layout_block": (edited(lambda g: None, data_layout="NCHW8"), "a block is a number"),
    "padding": (
        edited(lambda g: None, padding=[3] * 4),
        "the result has 6 at spatial axis 0, and .* make it 10",
    ),
    "weights": (
        edited(lambda g: g["nodes"][1]["attrs"].update(shape=[[[8, 5, 3, 3]]])),
        r"expected float32\[8, 5, 3, 3\]",
    ),
    "cycle": (
        kernel(inputs=[[3, 0, 0], [1, 0, 0], [2, 0, 0]]),
        "input 0 of node 3 names node 3, expected one below 3",
    ),
    "far": (
        kernel(inputs=[[0, 0, 0], [1, 7, 0], [2, 0, 0]]),
        "input 1 of node 3 names output 7 of node 1",
    ),
    "few_inputs": (kernel(inputs=[[0, 0, 0]]), "it has 1 inputs, expected at least 2"),
    "head": (edited(lambda g: g.update(heads=[[9, 0, 0]])), "head 0 names node 9"),
    "no_heads": (edited(lambda g: g.update(heads=[])), "no heads"),
    "rows": (
        edited(lambda g: g.update(node_row_ptr=[0, 2, 3, 4, 5])),
        "node_row_ptr says 2, and its shapes make it 1",
    ),
    "args": (
        edited(lambda g: g.update(arg_nodes=[0, 1, 3])),
        "arg_nodes names node 3, which is no input",
    ),
    "args_twice": (edited(lambda g: g.update(arg_nodes=[0, 1, 1])), "arg_nodes names node 1 twice"),
    "const_name": (
        edited(lambda g: g["nodes"][1].update(name="x")),
        "no const node of arg_nodes is called `const_name_const_0`",
    ),
    "dtype": (
        edited(lambda g: g["nodes"][3]["attrs"].update(dtype=[["float64"]])),
        "a dtype that oneDNN does not have",
    ),
    "huge": (
        edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[1 << 40, 1 << 40]]])),
        "a shape of 2\\^63 bytes",
    ),
    "negative": (
        edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[-1, 4]]])),
        "a dimension below 1",
    ),
    "rank": (
        edited(lambda g: g["nodes"][0]["attrs"].update(shape=[[[1] * 13]])),
        "more than 12 dimensions",
    ),
    "op": (kernel(op="data"), "none of input, const, kernel"),
    "json": (lambda s: conv(s).module('{"nodes": [}'), "the graph's JSON, at byte"),
    "mixed": (
        edited(lambda g: g["nodes"][3]["attrs"].update(dtype=[["int32"]])),
        r"does not do this \(.*\), from float32\[1, 4, 6, 6\]",
    ),
}


@pytest.fixture(scope="module")
def lies(tmp_path_factory: pytest.TempPathFactory, onednn: str) -> mblob.Module:
    return ref.export(
        [make(name) for name, (make, _) in LIES.items()] + [conv("good").module()],
        tmp_path_factory.mktemp("lies"),
    )


@pytest.mark.parametrize("name", LIES)
def test_lies(name: str, lies: mblob.Module) -> None:
    index = list(LIES).index(name)
    module = next(
        m for i, m in enumerate(reversed(lies.imported_modules[: len(LIES) + 1])) if i == index
    )
    with pytest.raises((mblob.MblobError, ValueError), match=LIES[name][1]) as caught:
        module[name](floats(1, 4, 6, 6), floats(1, 8, 6, 6))
    assert "\n" not in str(caught.value)


ARGUMENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "count": ((floats(1, 4, 6, 6),), r"expected 2 arguments \(1 inputs, then 1 outputs\), found 1"),
    "shape": (
        (floats(1, 4, 6, 5), floats(1, 8, 6, 6)),
        r"argument 0: expected float32\[1, 4, 6, 6\], found float32\[1, 4, 6, 5\]",
    ),
    "dtype": (
        (floats(1, 4, 6, 6).astype("float64"), floats(1, 8, 6, 6)),
        r"found float64\[1, 4, 6, 6\]",
    ),
    "number": ((3, floats(1, 8, 6, 6)), "argument 0: expected a tensor, found an integer"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments(name: str, lies: mblob.Module) -> None:
    arguments, text = ARGUMENTS[name]
    good = lies["good"]
    kinds = {"number": (TypeError,), "shape": (ValueError,)}.get(name, (TypeError, ValueError))
    with pytest.raises(mblob.errors.ArgumentError, match=text) as caught:
        good(*arguments)
    assert [c for c in (TypeError, ValueError) if isinstance(caught.value, c)] == [*kinds]
