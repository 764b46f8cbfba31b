"""A host in the style of TVM 0.8 to 0.19: one library, graph_executor, benchmark, the debugger."""

import os
import sys
import tempfile
import timeit

import numpy as np
import tvm
import tvm.contrib.graph_executor as runtime
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor
from tvm.contrib.debugger.debug_executor import GraphModuleDebug

folder = sys.argv[1]
known = np.load(os.path.join(folder, "mlp_llvm.npz"))
target = "llvm -mcpu=core-avx2"
dev = tvm.device(str(target), 0)
if not tvm.cuda(0).exist:
    print("no CUDA device")

lib = tvm.runtime.load_module(os.path.join(folder, "mlp_llvm.so"))
module = graph_executor.GraphModule(lib["default"](dev))
dtype = "float32"
module.set_input("data", tvm.nd.array(known["data"].astype(dtype), dev))
module.run()
tvm_output = module.get_output(0, tvm.nd.empty(known["out"].shape, device=dev)).numpy()
np.testing.assert_allclose(tvm_output, known["out"], rtol=1e-5)
assert module.get_num_inputs() >= 1 and module.get_num_outputs() == 1
shape_dict, dtype_dict = module.get_input_info()
assert tuple(shape_dict["data"]) == known["data"].shape and dtype_dict["data"] == dtype
assert module.get_input("data", tvm.nd.empty(known["data"].shape)).numpy().sum() > 0
first = module.get_input_index("data")
assert module.get_input(first).shape == known["data"].shape

print(module.benchmark(dev, number=1, repeat=3))
print(module.benchmark(dev, number=1, repeat=3, end_to_end=True, data=known["data"]))
ftimer = module.module.time_evaluator("run", dev, number=1, repeat=3, min_repeat_ms=1)
prof_res = np.array(ftimer().results) * 1e3
print(f"{np.mean(prof_res):.3f} ms, {np.median(prof_res):.3f} ms, {np.std(prof_res):.3f} ms")
print(timeit.Timer(lambda: module.run()).timeit(number=2))

# The graph, the parameters and the kernels apart, as `graph, lib, params = relay.build(...)` gave.
params = lib.get_params()
executor = runtime.create(lib["get_graph_json"](), lib.imported_modules[0], dev)
executor.set_input(**params)
executor.load_params(tvm.runtime.save_param_dict(params))
executor.run(data=known["data"])
np.testing.assert_allclose(executor.get_output(0).numpy(), known["out"], rtol=1e-5)

with tempfile.TemporaryDirectory() as root:
    debug = debug_executor.create(lib["get_graph_json"](), lib.imported_modules[0], dev, root)
    debug.load_params(tvm.runtime.save_param_dict(params))
    debug.set_input("data", known["data"])
    debug.run(number=1)
    np.testing.assert_allclose(debug.get_output(0).numpy(), known["out"], rtol=1e-5)
    debug.exit()
debug = GraphModuleDebug(lib["debug_create"]("default", dev), [dev], lib["get_graph_json"](), None)
print(debug.profile(data=known["data"]))

try:
    lib["no_such_model"](dev)
except AttributeError as error:
    print(error)
try:
    module.set_input("data", np.zeros((2, 2), "float32"))
    module.run()
except tvm.error.TVMError as error:
    print(error)


@tvm.register_func("hosts.callback", override=True)
def callback(array):
    return array.numpy().sum()


assert tvm.get_global_func("hosts.callback")(tvm.nd.array(np.ones(3, "float32"))) == 3
assert tvm.get_global_func("hosts.absent", allow_missing=True) is None
