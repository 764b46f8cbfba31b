"""TVM 0.14's tests of whole networks, and of the debugger: what TVM compiled from Relay there, a C
compiler and the tests' own assembler compile here."""

from __future__ import annotations

import json
import re
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import mblob
import mblob.compat.tvm as tvm
from mblob.compat.tvm.contrib.debugger import debug_executor
from tests.loader import payloads
from tests.loader.conftest import KERNELS as MACROS
from tests.loader.dnnl.dnnl_graphs import convolve, pool
from tests.loader.executors.vm_programs import F32, Function, Program
from tests.peers.cases import Case

Array = Any
CPU = tvm.cpu(0)

# -- models compiled ahead of time -----------------------------------------------------------------

METADATA = r"""
struct tensor_info { const char *name; const int64_t *shape; int64_t ndim; DLDataType dtype; };
struct metadata {
  int64_t version;
  const struct tensor_info *inputs; int64_t input_count;
  const struct tensor_info *outputs; int64_t output_count;
  const struct tensor_info *pools; int64_t pool_count;
  const void *constants; int64_t constant_count;
  const char *name;
};
"""
CODES = {"f": 2, "i": 0, "u": 1}


def _infos(name: str, arrays: dict[str, Array]) -> str:
    shapes = "".join(
        f"static const int64_t {name}_shape{i}[] = {{{', '.join(map(str, a.shape))}}};\n"
        for i, a in enumerate(arrays.values())
    )
    rows = ", ".join(
        f'{{"{key}", {name}_shape{i}, {a.ndim}, {{{CODES[a.dtype.kind]}, {8 * a.itemsize}, 1}}}}'
        for i, (key, a) in enumerate(arrays.items())
    )
    return f"{shapes}static const struct tensor_info {name}[] = {{{rows}}};\n"


def aot(code: str, body: str, inputs: dict[str, Array], output: Array, **params: Array) -> Any:
    """The executor of a model whose entry function calls `code`; packed, loaded.

    Args:
        body: of the entry function: `args` are the inputs, then the output.
        inputs: arrays with the shapes and types of the inputs; the parameters are further inputs.
        output: an array with those of the output.
    """
    given = {**inputs, **params}
    source = (
        f"{MACROS}{METADATA}{code}{_infos('inputs', given)}{_infos('outputs', {'output': output})}"
        f"static const struct metadata meta = {{1, inputs, {len(given)}, outputs, 1, 0, 0, 0, 0,"
        ' "tvmgen_default"};\n'
        "KERNEL(get_c_metadata) { UNUSED; ret->v_handle = (void *)&meta; *ret_code = kTVMOpaqueHandle;"
        " return 0; }\n"
        f"KERNEL(tvmgen_default___tvm_main__) {{ UNUSED;\n{body}\nreturn 0; }}\n"
    )
    factory = mblob.blob_module("AotExecutorFactory", payloads.aot_factory(params, "default"))
    metadata = mblob.blob_module("metadata_module", b"")
    metadata.import_module(mblob.csource_module(source))
    factory.import_module(metadata)
    with TemporaryDirectory() as folder:
        factory.export_library(Path(folder, "lib.so"))
        library = tvm.runtime.load_module(Path(folder, "lib.so"))
    return tvm.runtime.executor.AotModule(library["default"](CPU))


INTEGERS = r"""
enum { C = 3, S = 64, K = 5, P = S - 2 };
static int32_t sums[C][S][S];
static void conv(const int16_t *x, int n, const int8_t *w) { /* padding 2 */
  for (int o = 0; o < C; o++) for (int r = 0; r < n; r++) for (int c = 0; c < n; c++) {
    int32_t sum = 0;
    for (int i = 0; i < C; i++) for (int p = 0; p < K; p++) for (int q = 0; q < K; q++) {
      const int y = r + p - 2, z = c + q - 2;
      if (y >= 0 && y < n && z >= 0 && z < n) sum += x[(i * n + y) * n + z] * w[((o * C + i) * K + p) * K + q];
    }
    sums[o][r][c] = sum;
  }
}
static int32_t largest(int o, int r, int c) {
  int32_t found = sums[o][r][c];
  for (int p = 0; p < 9; p++) { int32_t v = sums[o][r + p / 3][c + p % 3]; if (v > found) found = v; }
  return found;
}
"""
TWO_CONVOLUTIONS = """
  static int16_t x[C * S * S], y[C * P * P];
  const uint8_t *given = tensor(args[0])->data;
  const int8_t *w = tensor(args[1])->data;
  int32_t *out = tensor(args[2])->data;
  for (int i = 0; i < C * S * S; i++) x[i] = given[i];
  conv(x, S, w);
  for (int o = 0, i = 0; o < C; o++) for (int r = 0; r < P; r++) for (int c = 0; c < P; c++)
    y[i++] = (int8_t)largest(o, r, c);
  conv(y, P, w);
  for (int o = 0, i = 0; o < C; o++) for (int r = 0; r < P - 2; r++) for (int c = 0; c < P - 2; c++)
    out[i++] = largest(o, r, c);
"""


def aot_convolutions() -> None:
    rng = np.random.default_rng(5)
    data = rng.integers(0, 256, (1, 3, 64, 64), dtype="uint8")
    weight = rng.integers(-4, 5, (3, 3, 5, 5), dtype="int8")

    def layer(x: Array) -> Array:
        sums = convolve(x, weight, (1, 1), (2, 2, 2, 2), (1, 1))
        return pool(sums, "max", (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)).astype("int32")

    expected = layer(layer(data).astype("int8"))
    model = aot(INTEGERS, TWO_CONVOLUTIONS, {"data": data}, expected, weight=weight)
    model.set_input(data=data)
    assert model.get_input_name(0) == "data"
    shapes, dtypes = model.get_input_info()
    assert tuple(shapes["data"]) == (1, 3, 64, 64) and dtypes["data"] == "uint8"
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), expected)


SUM = """
  const float *x = tensor(args[0])->data, *w = tensor(args[1])->data;
  float *y = tensor(args[2])->data;
  for (int i = 0; i < 50; i++) y[i] = x[i] + w[i % 5];
"""


def aot_names() -> None:
    x, weight = np.arange(50, dtype="float32").reshape(10, 5), np.arange(5, dtype="float32")
    for name in ("input:0", "input@0", "input_0"):
        model = aot("", SUM, {"input_0": x}, x, weight=weight)  # TVM writes such names so
        model.set_input(name, x)
        model.run()
        np.testing.assert_array_equal(model.get_output(0).numpy(), x + weight)


# -- a small MobileNet -----------------------------------------------------------------------------

LAYERS = r"""
static float *floats(const DLTensor *t) { return (float *)((char *)t->data + t->byte_offset); }
/* Groups, stride and padding follow from the shapes; relu comes last. */
static void conv(const DLTensor *x, const DLTensor *w, const DLTensor *y) {
  const int ins = (int)x->shape[1], n = (int)x->shape[2], outs = (int)y->shape[1], m = (int)y->shape[2];
  const int depth = (int)w->shape[1], k = (int)w->shape[2], step = n / m, pad = k / 2, share = outs / (ins / depth);
  for (int o = 0; o < outs; o++) for (int r = 0; r < m; r++) for (int c = 0; c < m; c++) {
    float sum = 0;
    for (int i = 0; i < depth; i++) for (int p = 0; p < k; p++) for (int q = 0; q < k; q++) {
      const int u = r * step + p - pad, v = c * step + q - pad, in = o / share * depth + i;
      if (u >= 0 && u < n && v >= 0 && v < n)
        sum += floats(x)[(in * n + u) * n + v] * floats(w)[((o * depth + i) * k + p) * k + q];
    }
    floats(y)[(o * m + r) * m + c] = sum > 0 ? sum : 0;
  }
}
static void mean(const DLTensor *x, const DLTensor *y) {
  const int size = (int)(x->shape[2] * x->shape[3]);
  for (int c = 0; c < x->shape[1]; c++) {
    floats(y)[c] = 0;
    for (int i = 0; i < size; i++) floats(y)[c] += floats(x)[c * size + i] / (float)size;
  }
}
static void dense(const DLTensor *x, const DLTensor *w, const DLTensor *y) {
  for (int o = 0; o < y->shape[1]; o++) {
    floats(y)[o] = 0;
    for (int i = 0; i < x->shape[1]; i++) floats(y)[o] += floats(x)[i] * floats(w)[o * x->shape[1] + i];
  }
}
KERNEL(net_conv) { UNUSED; conv(tensor(args[0]), tensor(args[1]), tensor(args[2])); return 0; }
KERNEL(net_mean) { UNUSED; mean(tensor(args[0]), tensor(args[1])); return 0; }
KERNEL(net_dense) { UNUSED; dense(tensor(args[0]), tensor(args[1]), tensor(args[2])); return 0; }
"""
# Kind, shape of the weights, shape of the result.
MOBILE: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("conv", (8, 3, 3, 3), (1, 8, 16, 16)),
    ("conv", (8, 1, 3, 3), (1, 8, 16, 16)),
    ("conv", (16, 8, 1, 1), (1, 16, 16, 16)),
    ("conv", (16, 1, 3, 3), (1, 16, 8, 8)),
    ("conv", (32, 16, 1, 1), (1, 32, 8, 8)),
    ("mean", (), (1, 32)),
    ("dense", (10, 32), (1, 10)),
]


@cache
def mobile() -> tuple[Array, dict[str, Array], Array]:
    """An image, the weights, and the result."""
    rng = np.random.default_rng(8)
    image = rng.random((1, 3, 32, 32), dtype="float32")
    weights, x = {}, image
    for number, (kind, shape, made) in enumerate(MOBILE):
        if shape:
            w = weights[f"w{number}"] = rng.standard_normal(shape).astype("float32")
        if kind == "conv":
            step, pad = x.shape[2] // made[2], shape[2] // 2
            x = convolve(x, w, (step, step), (pad,) * 4, (1, 1), x.shape[1] // shape[1])
            x = np.maximum(x, 0)
        else:
            x = x.mean((2, 3)) if kind == "mean" else x @ w.T
    return image, weights, x


def aot_mobilenet() -> None:
    image, weights, expected = mobile()
    lines = ["  DLTensor t[8];", "  t[0] = *tensor(args[0]);", "  int used = 1;"]
    for number, (kind, shape, made) in enumerate(MOBILE):
        lines.append(f"  static float d{number}[{int(np.prod(made))}];")
        lines.append(f"  static int64_t s{number}[] = {{{', '.join(map(str, made))}}};")
        lines.append(
            f"  t[{number + 1}] = (DLTensor){{d{number}, {{1, 0}}, {len(made)}, {{2, 32, 1}}, s{number}, 0, 0}};"
        )
        w = "tensor(args[used++]), " if shape else ""
        lines.append(f"  {kind}(&t[{number}], {w}&t[{number + 1}]);")
    lines.append(
        f"  memcpy(tensor(args[used])->data, d{len(MOBILE) - 1}, sizeof d{len(MOBILE) - 1});"
    )
    output = expected.astype("float32")
    model = aot(LAYERS, "\n".join(lines), {"data": image}, output, **weights)
    model.run(data=image)
    np.testing.assert_allclose(model.get_output(0).numpy(), expected, rtol=1e-4)


def vm_mobilenet() -> None:
    image, weights, expected = mobile()
    code: list[tuple[Any, ...]] = []
    constants: list[Any] = [np.int64(0)]
    value, free = 0, 1

    def constant(array: Any) -> int:
        nonlocal free
        constants.append(array)
        code.append(("LoadConst", len(constants) - 1, free))
        free += 1
        return free - 1

    kinds = ["conv", "mean", "dense"]
    for number, (kind, shape, made) in enumerate(MOBILE):
        given = [value, *([constant(weights[f"w{number}"])] if shape else [])]
        size, offset = constant(np.int64(4 * int(np.prod(made)))), constant(np.int64(0))
        storage, out, free = free, free + 1, free + 2
        code.append(("AllocStorage", size, 64, *F32, storage))
        code.append(("AllocTensor", storage, offset, *F32, len(made), out, *made))
        code.append(("InvokePacked", kinds.index(kind), len(given) + 1, 1, *given, out))
        value = out
    code.append(("Ret", value))
    program = Program(
        {"main": Function(["data"], free, code)}, constants, [f"net_{kind}" for kind in kinds]
    )
    with TemporaryDirectory() as folder:
        mblob.csource_module(MACROS + LAYERS).export_library(Path(folder, "lib.so"))
        library = tvm.runtime.load_module(Path(folder, "lib.so"))
    executable = tvm.runtime.vm.Executable.load_exec(program.code(), library)
    again = tvm.runtime.vm.Executable.load_exec(*executable.save())
    machine = tvm.runtime.vm.VirtualMachine(again, CPU)
    np.testing.assert_allclose(machine.run(image).numpy(), expected, rtol=1e-4)


# -- test_runtime_graph_debug ----------------------------------------------------------------------


def debugged() -> None:
    """Nodes, tensors, times and the trace of a model whose function waits a quarter of a second."""

    def myadd(x: Any, y: Any) -> None:
        time.sleep(0.25)
        y.copyfrom(x.numpy() + 1)

    add = {"func_name": "myadd", "flatten_data": "1", "num_inputs": "1", "num_outputs": "1"}
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "tvm_op", "name": "add", "inputs": [[0, 0, 0]], "attrs": add},
        ],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[4], [4]]],
            "dltype": ["list_str", ["float32", "float32"]],
            "storage_id": ["list_int", [0, 1]],
        },
    }
    module = mblob.Module("frontend", functions={"myadd": mblob.packed_function(myadd)})
    x = np.random.default_rng(1).random(4, dtype="float32")
    with TemporaryDirectory() as root:
        model = debug_executor.create(json.dumps(graph), module, CPU, dump_root=root)
        debug = model.debug_datum
        assert debug is not None and debug.path is not None
        model.set_input(x=x)
        (graph_file,) = debug.path.iterdir()
        written = json.loads(graph_file.read_text())
        assert set(written) >= {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"}
        model.run()
        lines = [re.split(r"   *", line) for line in debug.get_debug_result().split("\n")]
        names = ["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs", "Outputs"]
        assert lines[0] == [*names, "Measurements(us)", ""]
        assert lines[2][:2] == ["add", "myadd"] and 0.25 < float(lines[2][2]) / 1e6 < 2.5
        assert lines[3][0] == "Total_time" and lines[3][2] == lines[2][2]
        trace = json.loads((debug.path / "_tvmdbg_execution_trace.json").read_text())
        assert trace["displayTimeUnit"] == "ns"
        events = trace["traceEvents"]
        assert [(e["name"], e["ph"], e["pid"], e["tid"]) for e in events] == [
            (name, phase, 1, 1) for name in ("x", "add") for phase in "BE"
        ]
        assert events[0]["ts"] == 0 and events[-1]["ts"] == pytest.approx(float(lines[2][2]), abs=1)
        out = model.get_output(0, tvm.nd.empty((4,)))
        np.testing.assert_array_equal(out.numpy(), x + 1)
        model.exit()
        assert not debug.path.exists()


CASES = [
    Case("test_runtime_graph_debug.test_end_to_end_graph_simple", debugged),
    Case("test_vm_serialization.test_mobilenet", vm_mobilenet),
    Case("test_cpp_aot.test_conv2d", aot_convolutions),
    Case("test_cpp_aot.test_mobilenet", aot_mobilenet),
    Case("test_cpp_aot.test_aot_input_name_with_special_character", aot_names),
]
