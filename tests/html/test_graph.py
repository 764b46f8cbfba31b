"""The drawing of a model's graph: where boxes and lines are, how much is drawn, and how the page
shows it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.inspect.graph_summary import GraphNode
from mblob.inspect.html import graph
from tests.html.browser import Page

Write = Callable[[Path], Path]


def operator(name: str, *inputs: int) -> GraphNode:
    return GraphNode("operator", name, name, tuple((i, 0) for i in inputs), ("float32[2]",))


def null(name: str) -> GraphNode:
    return GraphNode("input", name, "", (), ("float32[2]",))


def chain(length: int) -> list[GraphNode]:
    """A graph of so many operators, with branches and lines that pass layers."""
    nodes = [null("data")]
    for i in range(1, length):
        nodes.append(operator(f"op{i}", i - 1, *([i - 4] if i > 4 and i % 3 == 0 else [])))
    return nodes


def places(drawn: dict[str, object]) -> dict[int, tuple[int, int, int, int]]:
    return {b[0]: tuple(b[3:7]) for b in drawn["boxes"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("length", [10, 1000])
def test_boxes_do_not_overlap_and_inputs_stand_above(length: int) -> None:
    nodes = chain(length)
    drawn = graph.drawing(nodes, [(length - 1, 0)], {})
    found = places(drawn)
    assert len(found) == length
    for i, node in enumerate(nodes):
        for source, _ in node.inputs:
            assert found[source][1] + found[source][3] < found[i][1]
    rows: dict[int, list[tuple[int, int]]] = {}
    for x, y, width, height in found.values():
        assert x >= 0 and x + width <= drawn["width"] and y + height <= drawn["height"]
        rows.setdefault(y, []).append((x, width))
    for row in rows.values():
        row.sort()
        assert all(a[0] + a[1] <= b[0] for a, b in zip(row, row[1:]))


def test_a_long_graph_with_a_branch_at_one_side_goes_straight_down() -> None:
    """A line that passes each block at its right would lead the drawing to the right with each."""
    nodes = [null("data")]
    for block in range(140):
        x = len(nodes) - 1
        nodes += [operator(f"convolution {block}", x), operator("b", x), operator("c", x + 2)]
        nodes += [operator("convolution", x + 3), operator("e", x)]
        nodes += [operator("f", x + 1, x + 4, x + 5, x + 2), operator("add", x + 6, x)]
    drawn = graph.drawing(nodes, [(len(nodes) - 1, 0)], {})
    assert drawn["width"] < 1200 < 10 * 1200 < drawn["height"]


def test_parameters_are_written_on_the_operators_that_take_them() -> None:
    nodes = [null("data"), null("w"), operator("dense", 0, 1)]
    drawn = graph.drawing(nodes, [(2, 0)], {"w": "float32[2, 2]"})
    assert [b[2] for b in drawn["boxes"]] == [
        ["data", "→ float32[2]"],
        ["dense", "+ w float32[2, 2]", "→ float32[2]"],
    ]
    assert [b[1] for b in drawn["boxes"]] == ["input", "output"]


def test_a_line_over_many_layers_becomes_a_note() -> None:
    nodes = [*chain(20), operator("last", 19, 0)]
    drawn = graph.drawing(nodes, [], {})
    last = drawn["boxes"][20]
    assert last[7] == [0]
    assert [0, 20] not in [edge[:2] for edge in drawn["edges"]]


@pytest.mark.slow
def test_what_is_drawn_is_bounded_and_takes_no_quadratic_time() -> None:
    chosen = random.Random(1)
    many = [
        operator(f"n{i}", *(chosen.randrange(i) for _ in range(40))) if i else null("x")
        for i in range(20_000)
    ]
    begin = time.perf_counter()
    drawn = graph.drawing(many, [], {})
    assert time.perf_counter() - begin < 20
    assert len(drawn["boxes"]) == graph.NODES
    assert drawn["left_out"] == 18_000
    assert len(drawn["edges"]) <= graph.EDGES


@pytest.mark.parametrize(
    "inputs", [[[0, 0, 0]], [[2, 0, 0]], [[-1, 0, 0]], [[1 << 70]], "x", [None], [[0, -5, 1]]]
)
def test_graphs_that_lie_are_drawn_as_far_as_they_go(inputs: object) -> None:
    from mblob.inspect.graph_summary import nodes_of

    text = {
        "nodes": [{"op": "tvm_op", "name": "a", "inputs": inputs}, {"op": 5, "inputs": [[0]]}],
        "heads": [[9, 9, 9], [0, 1 << 70, 0]],
        "node_row_ptr": [0, -4, 1 << 40],
    }
    drawn = graph.drawing(*nodes_of(memoryview(json.dumps(text).encode())), {})
    assert len(drawn["boxes"]) == 2


def library_of(length: int, path: Path) -> Path:
    """A model of so many nodes. It does not run."""
    nodes = [
        {"op": "null", "name": n.name, "inputs": []} if n.kind == "input" else
        {"op": "tvm_op", "name": n.name, "inputs": [[i, 0, 0] for i, _ in n.inputs], "attrs": {
            "func_name": "twice", "num_inputs": str(len(n.inputs)), "num_outputs": "1", "flatten_data": "0"}}
        for n in chain(length)
    ]  # fmt: skip
    text = {
        "nodes": nodes,
        "arg_nodes": [0],
        "heads": [[length - 1, 0, 0]],
        "node_row_ptr": list(range(length + 1)),
        "attrs": {
            "dltype": ["list_str", ["float32"] * length],
            "shape": ["list_shape", [[1, 8]] * length],
            "storage_id": ["list_int", list(range(length))],
        },
    }
    root = mblob.graph_executor_factory(json.dumps(text), {})
    prototype = "int twice(int x)"
    root.import_module(
        mblob.csource_module(f"{prototype} {{ return x; }}", functions=[prototype], packed="name")
    )
    root.export_library(path)
    return path


@pytest.mark.slow
def test_a_wide_page_has_modules_and_functions_beside_the_graph(
    browser: Page, write: Write, tmp_path: Path
) -> None:
    page = write(library_of(10, tmp_path / "graph.so"))
    for width, beside in ((1300, True), (420, False)):
        browser.open(page, width=width, height=900)
        left, right = (
            browser.value(f"document.querySelector('{one}').getBoundingClientRect().{side}")
            for one, side in (("#functions", "right"), ("#models", "left"))
        )
        assert (left < right) is beside
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_lists_the_parameters_of_a_model_and_of_functions(
    browser: Page, write: Write, tmp_path: Path
) -> None:
    builder = mblob.GraphBuilder()
    x = builder.input("x", (4,))
    weight = builder.param("the.weight", np.ones(4, "f4"))
    builder.output(builder.call("scale", [x, weight], (4,)))
    root = mblob.graph_executor_factory(builder)
    prototype = "void scale(const float x[4], const float by[4], float out[4])"
    body = "{ for (int i = 0; i < 4; i++) out[i] = x[i] * by[i]; }"
    root.import_module(mblob.csource_module(prototype + body, functions=[prototype], packed="name"))
    root.export_library(tmp_path / "m.so")
    browser.open(write(tmp_path / "m.so"), width=1300, height=900)
    assert "the.weight  float32[4]" in browser.value("document.querySelector('.held').textContent")
    assert (
        browser.value("document.querySelector('#functions tbody').textContent")
        == "scalepackedconst float x[4], const float by[4], float out[4]"
    )


@pytest.mark.slow
@pytest.mark.parametrize("length", [10, 1000])
def test_the_page_draws_a_graph_that_keys_walk_and_words_find(
    browser: Page, write: Write, tmp_path: Path, length: int
) -> None:
    browser.open(write(library_of(length, tmp_path / f"graph{length}.so")), width=420, height=900)
    assert browser.problems == []
    assert browser.value("document.querySelectorAll('.graph .box').length") == length
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    browser.value("document.querySelector('.graph .box').focus()")
    browser.press("ArrowDown", "ArrowDown")
    chosen = "document.querySelector('.graph .chosen').getAttribute('aria-label')"
    assert browser.value(chosen) == "twice, → float32[1, 8]"
    assert browser.value("document.querySelector('#models .told').textContent").startswith("op2")
    if length > 10:
        find = (
            f"const f = document.querySelector('#models input'); f.value = 'op{length - 1}';"
            "f.dispatchEvent(new Event('input'))"
        )
        browser.value(f"(() => {{ {find} }})()")
        assert browser.value("document.querySelector('#models .told').textContent").startswith(
            f"op{length - 1}"
        )
        box = "document.querySelector('.graph .chosen').getBoundingClientRect()"
        view = "document.querySelector('.graph').getBoundingClientRect()"
        assert browser.value(f"{box}.top >= {view}.top && {box}.bottom <= {view}.bottom")
