"""Partitions of test graphs, and what must hold for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import mblob
from mblob import byoc
from tests.packager import graphs
from tests.packager.graphs import interpret_codegen, run_model

GENERATORS = {"one": interpret_codegen, "two": interpret_codegen}
Graph = Mapping[str, Any]


def regions_of(graph: Graph, targets: Mapping[str, Any], **more: Any) -> byoc.Partition:
    """Annotated, merged and cut."""
    params = more.pop("params", {})
    read = byoc.read_graph(graph)
    keys = byoc.annotate(read, targets, params)
    return byoc.partition(read, byoc.merge(read, keys, **more), keys, params)


def names(parts: byoc.Partition) -> list[list[str]]:
    return [[operator.function for operator in region.operators] for region in parts.regions]


def array(seed: int) -> Any:
    return np.random.default_rng(seed).integers(-(2**31), 2**31 - 1, 4).astype("int32")


def reference(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """The results of a graph, computed in Python, without memory that is shared."""
    values: dict[tuple[int, int], Any] = {}
    with np.errstate(over="ignore"):
        for i, node in enumerate(graph["nodes"]):
            if node["op"] == "null":
                values[i, 0] = inputs[node["name"]]
                continue
            made = graphs.PYTHON[node["attrs"]["func_name"]](
                *(values[n, o] for n, o, _ in node["inputs"])
            )
            for k, value in enumerate(made if isinstance(made, tuple) else (made,)):
                values[i, k] = value
    return [values[n, o] for n, o, _ in graph["heads"]]


def check(
    graph: Graph, module: mblob.Module, path: Path, inputs: Mapping[str, Any], runs: int = 1
) -> list[str]:
    """A model gives the numbers of a graph; the regions that ran."""
    left = {n["name"] for n in json.loads(module.get_source() or "")["nodes"] if n["op"] == "null"}
    log: list[str] = []
    got = run_model(module, path, {k: v for k, v in inputs.items() if k in left}, log, runs)
    want = reference(graph, inputs)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)
    return log


def check_storage(graph: Graph) -> None:
    """No value is overwritten before its last use; inputs and results never; reshapes stay in
    place."""
    storage = graph["attrs"]["storage_id"][1]
    rows = graph["node_row_ptr"]
    last: dict[int, int] = {}
    for i, node in enumerate(graph["nodes"]):
        for n, o, _ in node["inputs"]:
            last[rows[n] + o] = i
    for i, node in enumerate(graph["nodes"]):
        if node["op"] == "null":
            last[rows[i]] = len(graph["nodes"])
    for n, o, _ in graph["heads"]:
        last[rows[n] + o] = len(graph["nodes"])
    born = [i for i, _ in enumerate(graph["nodes"]) for _ in range(rows[i], rows[i + 1])]
    same: dict[int, int] = {}  # entry -> the entry it is a reshape of
    for i, node in enumerate(graph["nodes"]):
        if node["op"] != "null" and node["attrs"]["func_name"] == "__nop":
            n, o, _ = node["inputs"][0]
            same[rows[i]] = same.get(rows[n] + o, rows[n] + o)
            assert storage[rows[i]] == storage[rows[n] + o]
    for a in range(len(storage)):
        for b in range(a):
            if storage[a] == storage[b] and same.get(a, a) != same.get(b, b):
                assert last.get(b, born[b]) < born[a]
