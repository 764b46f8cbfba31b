"""The time that mblob adds to the launch of an OpenCL kernel: C programs on both sides, in one process, by
turns."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import mblob
from benchmarks.executors import wall_seconds
from mblob import loader
from mblob.compilers import include_flags

SOURCE = """\
__kernel void add(__global float *a, __global float *b, __global float *c) {
  int i = get_global_id(0);
  c[i] = a[i] + b[i];
}
"""
ROOT = Path(__file__).resolve().parent.parent


def available() -> bool:
    """True if there is an OpenCL device."""
    try:
        mblob.empty((1,), "float32", mblob.opencl(0))
    except mblob.MblobError:
        return False
    return True


def launches(folder: Path, rounds: int, count: int) -> Iterator[tuple[float, float]]:
    """Pairs of seconds per launch: through mblob, and with the vendor's interface alone."""
    library, program = folder / "opencl.so", folder / "opencl_launch"
    host = mblob.csource_module("int unused;")
    kernel = ("add", ["handle"] * 3, ["blockIdx.x", "threadIdx.x"])
    host.import_module(mblob.device_module("opencl", SOURCE, [kernel]))
    mblob.export_library(host, library)
    runtime = next((Path(loader.__file__).parent / "_lib").glob("libmblob.so.0"))
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", *include_flags(), "-DMBLOB_HOST",
         str(ROOT / "benchmarks/opencl_launch.c"), "-o",
         str(program), str(runtime), f"-Wl,-rpath,{runtime.parent}", "-ldl"],
        check=True,
    )  # fmt: skip
    command = [str(program), str(library), str(rounds), str(count)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in run.stdout.splitlines():
        ours, plain = map(float, line.split())
        yield ours, plain


# The host and the device have work for about as long, which does not depend on each other. The
# kernel is one group, for which PoCL takes one processor.
HOST = """\
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
void *__tvm_module_ctx = NULL;
static void *data(TVMValue *args, int i) { return ((DLTensor *)args[i].v_handle)->data; }
int there(TVMValue *args, int *codes, int count, TVMValue *ret, int *code) {
  TVMFunctionHandle set_device, kernel;
  TVMValue device[2] = {{.v_int64 = 4}, {.v_int64 = 0}};
  TVMValue given[4] = {{.v_handle = data(args, 1)}, {.v_handle = data(args, 0)}};
  int ints[2] = {kTVMArgInt, kTVMArgInt}, kinds[4] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMArgInt, kTVMArgInt};
  (void)codes, (void)count;
  given[2].v_int64 = 1, given[3].v_int64 = SIZE;
  return TVMBackendGetFuncFromEnv(__tvm_module_ctx, "__tvm_set_device", &set_device) ||
         TVMFuncCall(set_device, device, ints, 2, ret, code) ||
         TVMBackendGetFuncFromEnv(__tvm_module_ctx, "there_kernel", &kernel) ||
         TVMFuncCall(kernel, given, kinds, 4, ret, code) ? -1 : 0;
}
int here(TVMValue *args, int *codes, int count, TVMValue *ret, int *code) {
  (void)codes, (void)count, (void)ret, (void)code;
  float *x = data(args, 0), *y = data(args, 1);
  for (int i = 0; i < SIZE; ++i) {
    float v = x[i];
    for (int k = 0; k < ROUNDS; ++k) v = v * 0.999f + 0.5f;
    y[i] = v;
  }
  return 0;
}
int join(TVMValue *args, int *codes, int count, TVMValue *ret, int *code) {
  (void)codes, (void)count, (void)ret, (void)code;
  float *a = data(args, 0), *b = data(args, 1), *y = data(args, 2);
  for (int i = 0; i < SIZE; ++i) y[i] = a[i] + b[i];
  return 0;
}
"""
THERE = """\
__kernel void there_kernel(__global float *y, __global float *x) {
  int i = get_global_id(0);
  float v = x[i];
  for (int k = 0; k < ROUNDS; ++k) v = v * 0.999f + 0.5f;
  y[i] = v;
}
"""
SIZE = 1024
ORDERS = {
    "the device first": ("to", "there", "here", "back", "joined"),
    "the host first": ("here", "to", "there", "back", "joined"),
}


def split_graph(order: Sequence[str]) -> str:
    """The graph with its nodes in that order."""
    graph = mblob.GraphBuilder()
    made = {"x": graph.input("x", (SIZE,))}
    nodes = {
        "to": lambda: graph.copy(made["x"], mblob.opencl(0)),
        "there": lambda: graph.call("there", [made["to"]], (SIZE,)),
        "here": lambda: graph.call("here", [made["x"]], (SIZE,)),
        "back": lambda: graph.copy(made["there"], mblob.cpu(0)),
        "joined": lambda: graph.call("join", [made["back"], made["here"]], (SIZE,)),
    }
    for name in order:
        made[name] = nodes[name]()
    graph.output(made["joined"])
    return graph.graph_json()


def both_at_once(folder: Path, rounds: int, work: int) -> Iterator[tuple[float, float]]:
    """Pairs of seconds of one run of a graph over the host and the device: with the host's node
    first, and with the device's."""

    def text(source: str) -> str:
        return source.replace("ROUNDS", str(work)).replace("SIZE", str(SIZE))

    host = mblob.csource_module(text(HOST))
    kernel = ("there_kernel", ["handle"] * 2, ["blockIdx.x", "threadIdx.x"])
    host.import_module(mblob.device_module("opencl", text(THERE), [kernel]))
    host.export_library(folder / "both.so")
    lib = mblob.load_module(folder / "both.so")
    models = []
    for order in ("the host first", "the device first"):
        model = mblob.graph_executor.create(
            split_graph(ORDERS[order]), lib, [mblob.cpu(0), mblob.opencl(0)]
        )
        model.run(x=np.ones(SIZE, "float32"))
        models.append(model)
    np.testing.assert_array_equal(*(model.get_output(0).numpy() for model in models))
    for _ in range(rounds):
        yield wall_seconds(models[0].run), wall_seconds(models[1].run)


SIDE = 0.15  # seconds of each branch, about


def side_graph(here: int, there: int) -> str:
    """A graph of a branch of so many operators of the host, and of one of the device that comes back
    to the host halfway; a branch of none is not there."""
    graph = mblob.GraphBuilder()
    x = graph.input("x", (SIZE,))
    ends = []
    for part in (there - there // 2, there // 2) if there else ():
        value = graph.copy(ends.pop() if ends else x, mblob.opencl(0))
        for _ in range(part):
            value = graph.call("there", [value], (SIZE,))
        ends.append(graph.copy(value, mblob.cpu(0)))
    if here:
        value = x
        for _ in range(here):
            value = graph.call("here", [value], (SIZE,))
        ends.append(value)
    graph.output(graph.call("join", [ends[0], ends[-1]], (SIZE,)))
    return graph.graph_json()


def longer_side(folder: Path, rounds: int) -> Iterator[tuple[float, float, float]]:
    """Seconds of a run of a graph over the host and the device, as the model measures it; of the
    longer of its sides alone; and of the graph on one thread. Both sides compute, each on one
    processor and for about as long. `both_at_once` has made the library."""
    lib = mblob.load_module(folder / "both.so")

    def model(here: int, there: int) -> mblob.graph_executor.GraphModule:
        text = side_graph(here, there)
        made = mblob.graph_executor.create(text, lib, [mblob.cpu(0), mblob.opencl(0)])
        for _ in range(3):
            made.run(x=np.ones(SIZE, "float32"))
        return made

    def taken(one: mblob.graph_executor.GraphModule, parallel: int | None = None) -> float:
        return wall_seconds(lambda: one.run(parallel=parallel))

    def of_length(*sample: int) -> int:
        """The number of operators that take as long as a side is meant to."""
        return max(2, round(SIDE * sum(sample) / min(taken(model(*sample)) for _ in range(5))))

    here, there = of_length(8, 0), of_length(0, 8)
    host, device, both = model(here, 0), model(0, there), model(here, there)
    for _ in range(rounds):
        yield taken(both), max(taken(host), taken(device)), taken(both, 1)
