"""Graphs that are measured: what an executor adds to its kernels, and what running branches side by
side saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mblob

KERNELS = """\
#include <tvm/runtime/c_backend_api.h>

#define KERNEL(name) \\
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self); \\
  int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self)

static float *first(TVMValue value) { return ((const DLTensor *)value.v_handle)->data; }

KERNEL(tiny) {
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  *first(args[1]) = *first(args[0]) + 1;
  return 0;
}

/* tiny(x, y), args[2] times, as an executor without any overhead would */
KERNEL(loop) {
  TVMBackendPackedCFunc volatile call = tiny;
  for (int64_t i = 0; i < args[2].v_int64; i++) call(args, codes, 2, ret, ret_code, self);
  return count != 3;
}

/* some milliseconds of one thread */
KERNEL(busy) {
  (void)codes, (void)ret, (void)ret_code, (void)self;
  float value = *first(args[0]);
  for (int i = 0; i < 2000000; i++) value = value * 0.9999f + 0.5f;
  *first(args[count - 1]) = value;
  return 0;
}
"""
NODES = 1000
BRANCHES, DEPTH = 4, 3


def operator(name: str, function: str, source: int) -> dict[str, Any]:
    """A node with one input and one output."""
    attributes = {"func_name": function, "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}
    return {"op": "tvm_op", "name": name, "attrs": attributes, "inputs": [[source, 0, 0]]}


def graph(
    sources: list[int], function: str, storages: list[int], heads: list[int]
) -> dict[str, Any]:
    """float32[1] everywhere; node 0 is the input, node i + 1 is `function` of node sources[i]."""
    nodes: list[dict[str, Any]] = [{"op": "null", "name": "x", "inputs": []}]
    nodes += [operator(f"n{i}", function, source) for i, source in enumerate(sources, 1)]
    return {
        "nodes": nodes,
        "arg_nodes": [0],
        "heads": [[i, 0, 0] for i in heads],
        "node_row_ptr": list(range(len(nodes) + 1)),
        "attrs": {
            "dltype": ["list_str", ["float32"] * len(nodes)],
            "storage_id": ["list_int", storages],
            "shape": ["list_shape", [[1]] * len(nodes)],
        },
    }


def library(folder: Path) -> Any:
    """The kernels, as a library."""
    path = folder / "graph_kernels.so"
    if not path.exists():
        mblob.export_library(mblob.csource_module(KERNELS), path)
    return mblob.load_module(path)


def seconds(clock: Callable[[], int], loops: int, action: Callable[[], object]) -> float:
    """Mean of `loops` calls."""
    start = clock()
    for _ in range(loops):
        action()
    return (clock() - start) / loops / 1e9


def chain(folder: Path, pairs: int, loops: int) -> Iterator[tuple[float, float]]:
    """CPU seconds of one node of a chain, and of its kernel called in a loop of C."""
    kernels = library(folder)
    storages = [0, *(1 + i % 2 for i in range(NODES))]
    model = mblob.graph_executor.create(
        graph(list(range(NODES)), "tiny", storages, [NODES]), kernels
    )
    model.set_input("x", np.zeros(1, "f"))
    x, y, loop = np.zeros(1, "f"), np.zeros(1, "f"), kernels["loop"]
    model.run()
    assert model.get_output(0).numpy()[0] == NODES
    for _ in range(pairs):
        ours = seconds(time.thread_time_ns, loops, model.run) / NODES
        yield ours, seconds(time.thread_time_ns, loops, lambda: loop(x, y, NODES)) / NODES


def branches(folder: Path, pairs: int) -> Iterator[tuple[float, float]]:
    """Wall seconds of a run as the model measures it, and in order. The results are the same."""
    sources = [0 if i % DEPTH == 0 else i for i in range(BRANCHES * DEPTH)]
    heads = [DEPTH * (i + 1) for i in range(BRANCHES)]
    storages = list(range(BRANCHES * DEPTH + 1))
    model = mblob.graph_executor.create(graph(sources, "busy", storages, heads), library(folder))
    model.set_input("x", np.ones(1, "f"))

    def outputs() -> list[float]:
        return [float(model.get_output(i).numpy()[0]) for i in range(BRANCHES)]

    model.run(parallel=1)
    expected = outputs()
    for _ in range(2):
        model.run()  # and measures
    for _ in range(pairs):
        side_by_side = seconds(time.perf_counter_ns, 1, model.run)
        assert outputs() == expected
        yield side_by_side, seconds(time.perf_counter_ns, 1, lambda: model.run(parallel=1))
