"""dnnl_json graphs with dimensions that only a call tells: a plan for each set of sizes, the last sixteen of them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import Graph, floats

pytestmark = [pytest.mark.own_process, pytest.mark.usefixtures("onednn")]
W, B = floats(8, 4, 3, 3), floats(8)
X = ["n", 4, "h", "w"]
Y = ["n", 8, "h 1 - 2 / 1 +", "w 2 -"]


def convolution(symbol: str) -> Graph:
    """relu(x * w + b) with a stride of 2 and a padding of 1 on the first axis of the image, and its mean."""
    g = Graph(symbol)
    entry = g.kernel(
        "dnnl.conv2d_bias_relu", [g.input(floats(1, 4, 6, 6)), g.const(W), g.const(B)], (1, 8, 3, 4),
        **{**ref.CONVOLUTION, "strides": [2, 1], "padding": [1, 0, 1, 0]},
    )  # fmt: skip
    mean = g.kernel("mean", [entry], (1, 8), axis=[2, 3])
    g.result(entry, np.zeros((1, 8, 3, 4), "float32"))
    return g.result(mean, np.zeros((1, 8), "float32"))


def opened(g: Graph, **nodes: Any) -> mblob.Module:
    """`n3=[...]`: the shape of the node 3."""
    graph = json.loads(g.text())
    for name, shape in nodes.items():
        graph["nodes"][int(name[1:])]["attrs"]["shape"] = [[shape]]
    return g.module(json.dumps(graph))


SHAPES: dict[str, Any] = {"n0": X, "n3": Y, "n4": ["n", 8]}


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    return ref.export([opened(convolution("net"), **SHAPES)], tmp_path_factory.mktemp("open"))


def check(lib: mblob.Module, n: int, h: int, w: int) -> None:
    x = floats(n, 4, h, w)
    wanted = ref.convolve(x, W, [2, 1], [1, 0, 1, 0], [1, 1]) + B.reshape(-1, 1, 1)
    wanted = np.maximum(wanted, 0)
    y, mean = np.full(wanted.shape, 7, "float32"), np.full((n, 8), 7, "float32")
    lib["net"](x, y, mean)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mean, wanted.mean((2, 3)), rtol=1e-4, atol=1e-4)


def test_more_sets_of_sizes_than_are_kept_and_each_again(lib: mblob.Module) -> None:
    sizes = [(n, h, w) for n in (1, 3) for h in (3, 4, 9) for w in (3, 5, 16, 17)]
    for size in (*sizes, *sizes[::-1], *sizes[:1] * 3):
        check(lib, *size)


def test_threads_that_make_and_drop_plans_do_not_disturb_each_other(lib: mblob.Module) -> None:
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        chosen = np.random.default_rng(seed)
        try:
            for _ in range(60):
                check(lib, *(int(i) for i in chosen.integers(3, 7, 3)))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_the_primitives_are_those_of_the_last_sizes(lib: mblob.Module) -> None:
    check(lib, 2, 8, 8)
    (loader,) = lib.imported_modules
    told = json.loads(loader.imported_modules[0]["get_primitives"]())
    assert {step["operator"] for step in told if step["node"] == 3} == {"dnnl.conv2d_bias_relu"}


def test_before_init_there_is_an_error_and_another_init_takes_its_place(tmp_path: Path) -> None:
    lib = ref.export([opened(convolution("net"), **SHAPES)], tmp_path)
    module = lib.imported_modules[0].imported_modules[0]
    x, y, mean = floats(1, 4, 6, 6), np.zeros((1, 8, 3, 4), "float32"), np.zeros((1, 8), "float32")
    with pytest.raises(mblob.MblobError, match="has not been initialized"):
        module["net"](x, y, mean)
    module["__init_net"](W, B)
    module["net"](x, y, mean)
    first = y.copy()
    module["__init_net"](W * 0, B)
    module["net"](x, y, mean)
    assert not np.array_equal(first, y)
    np.testing.assert_array_equal(y[0, :, 0, 0], np.maximum(B, 0))


@pytest.mark.parametrize(
    "shape, out, said",
    [
        ((1, 5, 6, 6), (1, 8, 3, 4), r"argument 0: expected float32\[1, 4, 6, 6\], found float32\[1, 5, 6, 6\]"),
        ((4, 6, 6), (1, 8, 3, 4), r"argument 0: expected float32\[n, 4, h, w\], found float32\[4, 6, 6\]"),
        ((1, 4, 6, 6), (1, 8, 4, 4), r"argument 1: expected float32\[1, 8, 3, 4\], found float32\[1, 8, 4, 4\]"),
        ((1, 4, 6, 2), (1, 8, 3, 4), "node 3 `dnnl.conv2d_bias_relu`: the dimension `w 2 -` is below 1"),
    ],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_told(
    lib: mblob.Module, shape: tuple[int, ...], out: tuple[int, ...], said: str
) -> None:
    with pytest.raises(mblob.MblobError, match=said):
        lib["net"](
            np.zeros(shape, "float32"), np.zeros(out, "float32"), np.zeros((1, 8), "float32")
        )


def test_one_name_is_one_size_for_all_inputs(tmp_path: Path) -> None:
    g = Graph("sum")
    inputs = [g.input(floats(2, 3)), g.input(floats(2, 3))]
    g.result(g.kernel("add", inputs, (2, 3)), np.zeros((2, 3), "float32"))
    lib = ref.export([opened(g, n0=["n", 3], n1=["n", 3], n2=["n", 3])], tmp_path)
    a, b, y = floats(5, 3), floats(5, 3), np.zeros((5, 3), "float32")
    lib["sum"](a, b, y)
    np.testing.assert_array_equal(y, a + b)
    with pytest.raises(mblob.MblobError, match=r"argument 1: expected float32\[5, 3\]"):
        lib["sum"](a, b[:4], y)


@pytest.mark.parametrize(
    "shapes, said",
    [
        ({"n3": ["n", 8, "q", 4]}, "node 3 .* dimension `q`: expected names of input dimensions"),
        ({"n0": ["n 2 *", 4, "h", "w"], "n3": ["n", 8, "h", "w"]}, "dimension `n"),
        ({"n3": ["n", 8, "h +", 4]}, "dimension `h [+]`: expected names"),
        ({"n0": ["3", 4, 6, 6], "n3": [3, 8, 4, 4]}, "dimension `3`: expected names of input dimensions"),
        ({"n3": ["n", 8, "h h", 4]}, "dimension `h h`: expected names"),
        ({"n3": ["n", 8, "", 4]}, "dimension ``: expected names"),
        ({"n1": ["n", 4, 3, 3]}, "node 1 .*: a constant needs fixed dimensions, found `n`"),
        ({"n3": ["n", 8, "n " + "n " * 40 + "+ " * 40, 4]}, "expected names of input dimensions"),
        ({"n3": ["n", 8, "h 0 /", "w 2 -"]}, "the dimension `h 0 /` is below 1"),
        ({"n3": ["n", 8, "h 9223372036854775807 *", 4]}, "below 1 for these inputs, or outside 64 bits"),
        ({"n3": ["n", 8, "h", "w 2 -"]}, "the result has 6 at spatial axis 0, and .* make it 3"),
    ],
)  # fmt: skip
def test_computations_that_are_wrong_are_errors_that_name_them(
    tmp_path: Path, shapes: dict[str, Any], said: str
) -> None:
    module = opened(convolution("net"), **{**SHAPES, **shapes})
    lib = ref.export([module], tmp_path)
    height = 6 if shapes.get("n3", [0] * 3)[2] == "h" else 3
    y, mean = np.zeros((1, 8, height, 4), "float32"), np.zeros((1, 8), "float32")
    with pytest.raises(mblob.MblobError, match=said):
        lib["net"](floats(1, 4, 6, 6), y, mean)
