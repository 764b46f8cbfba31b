"""The cost of a call of a dnnl_json module beside oneDNN itself: a dense layer, against the same in
C."""

from __future__ import annotations

import ctypes
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import mblob
from mblob.loader.plugins import plugins

ROWS, FEATURES, UNITS = 16, 512, 512

# With weights in the format that the primitive likes, as the plug-in has them.
YARDSTICK = r"""
#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>
#include <stdlib.h>

#define OK(call) do { if ((call) != dnnl_success) return -1; } while (0)
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_primitive_t dense;
static dnnl_memory_t memories[3];

typedef dnnl_memory_desc_t desc;
#if DNNL_VERSION_MAJOR == 2
#define ADDRESS(md) (&(md))
#define MAKE_DESC dnnl_memory_desc_init_by_tag
#else
#define ADDRESS(md) (md)
#define MAKE_DESC dnnl_memory_desc_create_with_tag
#endif
#define QUERY(pd, what) dnnl_primitive_desc_query_md(pd, what, 0)

static int make(dnnl_primitive_desc_t *pd, desc *src, desc *weights, desc *dst) {
#if DNNL_VERSION_MAJOR == 2
  dnnl_inner_product_desc_t d;
  OK(dnnl_inner_product_forward_desc_init(&d, dnnl_forward_inference, src, weights, NULL, dst));
  OK(dnnl_primitive_desc_create(pd, &d, NULL, engine, NULL));
#else
  OK(dnnl_inner_product_forward_primitive_desc_create(pd, engine, dnnl_forward_inference, *src, *weights, NULL, *dst,
                                                      NULL));
#endif
  return 0;
}

int prepare(int rows, int features, int units, float *given) {
  dnnl_dims_t x = {rows, features}, w = {units, features}, y = {rows, units};
  desc src, weights, dst, plain;
  dnnl_primitive_desc_t pd, reorder_pd;
  dnnl_primitive_t reorder;
  dnnl_memory_t from;
  OK(dnnl_engine_create(&engine, dnnl_cpu, 0));
  OK(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
  OK(MAKE_DESC(&src, 2, x, dnnl_f32, dnnl_ab));
  OK(MAKE_DESC(&weights, 2, w, dnnl_f32, dnnl_format_tag_any));
  OK(MAKE_DESC(&plain, 2, w, dnnl_f32, dnnl_ab));
  OK(MAKE_DESC(&dst, 2, y, dnnl_f32, dnnl_ab));
  if (make(&pd, &src, &weights, &dst)) return -1;
  OK(dnnl_primitive_create(&dense, pd));
  OK(dnnl_memory_create(&memories[0], QUERY(pd, dnnl_query_src_md), engine, NULL));
  OK(dnnl_memory_create(&memories[1], QUERY(pd, dnnl_query_weights_md), engine, DNNL_MEMORY_ALLOCATE));
  OK(dnnl_memory_create(&memories[2], QUERY(pd, dnnl_query_dst_md), engine, NULL));
  OK(dnnl_memory_create(&from, ADDRESS(plain), engine, given));
  OK(dnnl_reorder_primitive_desc_create(&reorder_pd, ADDRESS(plain), engine, QUERY(pd, dnnl_query_weights_md), engine,
                                        NULL));
  OK(dnnl_primitive_create(&reorder, reorder_pd));
  dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, memories[1]}};
  OK(dnnl_primitive_execute(reorder, stream, 2, args));
  OK(dnnl_stream_wait(stream));
  return 0;
}

int run(float *x, float *y, int loops) {
  for (int i = 0; i < loops; ++i) {
    OK(dnnl_memory_set_data_handle(memories[0], x));
    OK(dnnl_memory_set_data_handle(memories[2], y));
    dnnl_exec_arg_t args[3] = {
        {DNNL_ARG_SRC, memories[0]}, {DNNL_ARG_WEIGHTS, memories[1]}, {DNNL_ARG_DST, memories[2]}};
    OK(dnnl_primitive_execute(dense, stream, 3, args));
    OK(dnnl_stream_wait(stream));
  }
  return 0;
}

int major(void) { return dnnl_version()->major; }
"""


def _library(folder: Path) -> mblob.Module:
    """The dense layer as TVM writes it."""

    def attributes(**values: object) -> dict[str, object]:
        return {"dtype": [["float32"]], **values}

    nodes = [
        {"op": "input", "name": "x", "attrs": attributes(shape=[[[ROWS, FEATURES]]])},
        {"op": "const", "name": "net_const_0", "attrs": attributes(shape=[[[UNITS, FEATURES]]])},
        {
            "op": "kernel",
            "name": "nn.dense",
            "inputs": [[0, 0, 0], [1, 0, 0]],
            "attrs": attributes(
                shape=[[[ROWS, UNITS]]], num_inputs="2", num_outputs="1", units=[[str(UNITS)]]
            ),
        },
    ]
    graph = {
        "symbol": "net",
        "nodes": nodes,
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
        "node_row_ptr": [0, 1, 2, 3],
    }
    path = folder / "onednn.so"
    mblob.json_module("dnnl_json", "net", json.dumps(graph), ["net_const_0"]).export_library(
        str(path)
    )
    return mblob.load_module(path)


def available(folder: Path) -> bool:
    """True if there is oneDNN, of the version of which the compiler finds the headers."""
    described = [p.describe() for p in plugins() if p.name == "dnnl" and not p.problem]
    built = _yardstick(folder)
    return bool(described) and built is not None and f"oneDNN {built.major()}." in described[0]


def _yardstick(folder: Path) -> ctypes.CDLL | None:
    source, target = folder / "onednn_yardstick.c", folder / "onednn_yardstick.so"
    if not target.exists():
        source.write_text(YARDSTICK, encoding="utf-8")
        command = ["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(target), "-ldnnl"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
    return ctypes.CDLL(str(target))


def dense(folder: Path, pairs: int, loops: int) -> Iterator[tuple[float, float]]:
    """Wall seconds of a call, from Python with numpy arrays, and of the same primitive in a C
    loop."""
    x, weights = np.ones((ROWS, FEATURES), "float32"), np.ones((UNITS, FEATURES), "float32")
    y, other = np.empty((ROWS, UNITS), "float32"), np.empty((ROWS, UNITS), "float32")
    lib, bare = _library(folder), _yardstick(folder)
    assert bare is not None
    lib["__init_net"](weights)
    call = lib["net"]
    assert bare.prepare(ROWS, FEATURES, UNITS, weights.ctypes.data_as(ctypes.c_void_p)) == 0
    data = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, other)]

    def ours() -> None:
        for _ in range(loops):
            call(x, y)

    def plain() -> None:
        assert bare.run(*data, loops) == 0

    ours()
    plain()
    assert np.array_equal(y, other)
    for _ in range(pairs):
        found = []
        for action in (ours, plain):
            start = time.perf_counter()
            action()
            found.append((time.perf_counter() - start) / loops)
        yield found[0], found[1]
