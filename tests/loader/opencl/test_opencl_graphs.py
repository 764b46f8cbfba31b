"""Graphs of which some operators run on an OpenCL device and the others on the host, with copies
between: the answers are those of the host alone, however the graph is split. The host code is what
TVM writes: kernels looked up in the environment, the device set before the launch, device memory
for what lies between two kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import mblob
from tests.loader.opencl.opencl_libraries import X, python

pytestmark = pytest.mark.own_process

SHAPE = (7, 30)


KERNELS = """
__kernel void add_kernel(__global const float *x, __global const float *y, __global float *z) {
  int i = get_global_id(0);
  z[i] = x[i] + y[i];
}
__kernel void square_kernel(__global const float *x, __global float *y) {
  int i = get_global_id(0);
  y[i] = x[i] * x[i];
}
__kernel void minus_kernel(__global const float *x, float by, __global float *y) {
  int i = get_global_id(0);
  y[i] = x[i] - by;
}
"""
FUNCTIONS = [
    ("add_kernel", ["handle", "handle", "handle"], X),
    ("square_kernel", ["handle", "handle"], X),
    ("minus_kernel", ["handle", "float32", "handle"], X),
]

# square(x) - 3 of the device: two kernels, with memory between them.
HOST = r"""
#include <dlpack/dlpack.h>
#include <tvm/runtime/c_backend_api.h>
extern void *__tvm_module_ctx;

#define PACKED(name) int32_t name(TVMValue *args, int *codes, int count, TVMValue *out, int *out_code, void *self)
#define DATA(i) ((float *)((DLTensor *)args[i].v_handle)->data)

static int launch(const char *name, TVMValue *values, int *codes, int count) {
  static const int grid[] = {21, 10};
  TVMFunctionHandle function;
  TVMValue ret, device[2] = {{.v_int64 = 4}, {.v_int64 = 0}};
  int code, ints[2] = {kTVMArgInt, kTVMArgInt};
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "__tvm_set_device", &function) ||
      TVMFuncCall(function, device, ints, 2, &ret, &code) ||
      TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, &function))
    return -1;
  for (int i = 0; i < 2; i++) values[count].v_int64 = grid[i], codes[count++] = kTVMArgInt;
  return TVMFuncCall(function, values, codes, count, &ret, &code);
}

PACKED(add_there) {
  TVMValue v[5] = {{.v_handle = DATA(0)}, {.v_handle = DATA(1)}, {.v_handle = DATA(2)}};
  return launch("add_kernel", v, (int[5]){kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle}, 3);
}
PACKED(polynomial_there) {
  void *between = TVMBackendAllocWorkspace(4, 0, 210 * sizeof(float), kDLFloat, 32);
  if (!between) return -1;
  TVMValue square[4] = {{.v_handle = DATA(0)}, {.v_handle = between}};
  TVMValue minus[5] = {{.v_handle = between}, {.v_float64 = 3}, {.v_handle = DATA(1)}};
  int status = launch("square_kernel", square, (int[4]){kTVMOpaqueHandle, kTVMOpaqueHandle}, 2);
  if (!status) status = launch("minus_kernel", minus, (int[5]){kTVMOpaqueHandle, kTVMArgFloat, kTVMOpaqueHandle}, 3);
  return TVMBackendFreeWorkspace(4, 0, between) ? -1 : status;
}
PACKED(add_here) {
  for (int i = 0; i < 210; i++) DATA(2)[i] = DATA(0)[i] + DATA(1)[i];
  return 0;
}
PACKED(polynomial_here) {
  for (int i = 0; i < 210; i++) DATA(1)[i] = DATA(0)[i] * DATA(0)[i] - 3;
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> mblob.Module:
    path = tmp_path_factory.mktemp("graph") / "graph.so"
    host = mblob.csource_module(HOST)
    host.import_module(mblob.device_module("opencl", KERNELS, functions=FUNCTIONS))
    host.export_library(path)
    return mblob.load_module(path)


class Split:
    """A graph that is written operator by operator, with a copy wherever a value is needed
    elsewhere."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.types: list[int] = []
        self.copies: dict[int, int] = {}

    def input(self, name: str) -> int:
        return self._node({"op": "null", "name": name, "inputs": []}, 1)

    def call(self, function: str, inputs: list[int], device_type: int) -> int:
        attrs = {
            "func_name": function,
            "num_inputs": str(len(inputs)),
            "num_outputs": "1",
            "flatten_data": "0",
        }
        ends = [[i, 0, 0] for i in inputs]
        return self._node(
            {"op": "tvm_op", "name": f"n{len(self.nodes)}", "attrs": attrs, "inputs": ends},
            device_type,
        )

    def on(self, value: int, device_type: int) -> int:
        if self.types[value] == device_type:
            return value
        if value not in self.copies:
            self.copies[value] = self.call("__copy", [value], device_type)
        return self.copies[value]

    def _node(self, node: dict[str, Any], device_type: int) -> int:
        self.nodes.append(node)
        self.types.append(device_type)
        return len(self.nodes) - 1

    def graph(self, result: int) -> dict[str, Any]:
        count = len(self.nodes)
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "node_row_ptr": list(range(count + 1)),
            "heads": [[result, 0, 0]],
            "attrs": {
                "dltype": ["list_str", ["float32"] * count],
                "storage_id": ["list_int", list(range(count))],
                "shape": ["list_shape", [list(SHAPE)] * count],
                "device_index": ["list_int", self.types],
            },
        }


def network(split: random.Random | None, shape: random.Random) -> dict[str, Any]:
    """A network of 12 operators by `shape`; each is where `split` chooses, on the host without."""
    graph = Split()
    values = [graph.input("x"), graph.input("y")]
    for _ in range(12):
        name, count = shape.choice((("add", 2), ("polynomial", 1)))
        chosen = [shape.choice(values[-4:]) for _ in range(count)]
        there = split is not None and split.random() < 0.5
        inputs = [graph.on(value, 4 if there else 1) for value in chosen]
        values.append(
            graph.call(f"{name}_{'there' if there else 'here'}", inputs, 4 if there else 1)
        )
    return graph.graph(graph.on(values[-1], 1))


def run(
    library: mblob.Module, graph: dict[str, Any], devices: list[mblob.Device]
) -> np.ndarray[Any, Any]:
    model = mblob.graph_executor.create(graph, library, devices)
    rng = np.random.default_rng(3)
    for _ in range(2):  # memory of both devices is used again
        model.set_input(
            x=rng.uniform(-1, 1, SHAPE).astype("f"), y=rng.uniform(-1, 1, SHAPE).astype("f")
        )
        model.run()
    return model.get_output(0).numpy()


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(12))
def test_a_split_graph_gives_the_answer_of_the_host(
    seed: int, library: mblob.Module, opencl_device: mblob.Device
) -> None:
    host = run(library, network(None, random.Random(seed)), [mblob.cpu(0)])
    split = network(random.Random(100 + seed), random.Random(seed))
    assert {1, 4} == set(split["attrs"]["device_index"][1])
    found = run(library, split, [mblob.cpu(0), opencl_device])
    np.testing.assert_allclose(found, host, rtol=1e-5)


BESIDE = """
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
graph = mblob.GraphBuilder()
x = graph.input("x", (7, 30))
there, here = graph.copy(x, mblob.opencl(0)), x
for _ in range(2):
    there = graph.call("polynomial_there", [there], (7, 30))
    here = graph.call("waits", [here], (7, 30))
graph.output(graph.copy(there, mblob.cpu(0)))
graph.output(here)

def waits(x, y):
    time.sleep(0.01)

lib = mblob.load_module({path!r})
lib.import_module(mblob.Module("tests.kernels", functions={{"waits": waits}}))
model = mblob.graph_executor.create_debug(graph.graph_json(), lib, [mblob.cpu(0), mblob.opencl(0)])
rows = model.profile(x=np.ones((7, 30), "f"))
print(sorted({{(row.function == "waits", row.thread) for row in rows}}))
"""


@pytest.mark.parametrize(
    ("environment", "threads"),
    [({}, "[(False, 0), (True, 1)]"), ({"TVM_NUM_THREADS": "1"}, "[(False, 0), (True, 0)]")],
)
def test_a_device_works_beside_the_only_processor_of_the_host(
    environment: dict[str, str], threads: str, library: mblob.Module, opencl_device: mblob.Device
) -> None:
    unset = {"TVM_NUM_THREADS": "", "OMP_NUM_THREADS": ""}
    script = "import os, time\n" + BESIDE.format(path=library._node.path)
    assert python(script, **{**unset, **environment}) == f"{threads}\n"


def test_without_the_device_its_operators_are_told_what_they_got(
    library: mblob.Module, opencl_device: mblob.Device
) -> None:
    """As in TVM, values of a device that is not given lie on the first one."""
    split = network(random.Random(1), random.Random(1))
    with pytest.raises(
        (ValueError, mblob.MblobError), match=r"_kernel': argument 0: .* is no memory of an Op"
    ):
        run(library, split, [mblob.cpu(0)])
