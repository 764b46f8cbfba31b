"""A host in the style of TVM 0.7: graph_runtime over one library, contexts, debug_runtime, Relay's VM."""

import os
import sys
import tempfile

import numpy as np
import tvm
import tvm.contrib.graph_runtime as runtime
from tvm import relay, runtime as tvm_runtime
from tvm.contrib import graph_runtime
from tvm.contrib.debugger import debug_runtime
from tvm.runtime.vm import VirtualMachine

folder = sys.argv[1]
known = np.load(os.path.join(folder, "mlp_llvm.npz"))
target = "llvm"
ctx = tvm.context(str(target), 0)
lib = tvm.runtime.load_module(os.path.join(folder, "mlp_llvm.so"))
gmod = graph_runtime.GraphModule(lib["default"](ctx))
gmod.set_input("data", tvm.nd.array(known["data"], ctx))
gmod.run()
out = gmod.get_output(0).asnumpy()
tvm.testing.assert_allclose(out, known["out"], rtol=1e-5)
assert gmod.get_num_outputs() == 1 and gmod.get_input("data").context == ctx

params = relay.load_param_dict(relay.save_param_dict(lib.get_params()))
m = runtime.create(lib["get_graph_json"](), lib.imported_modules[0], ctx)
m.set_input("data", tvm.nd.array(known["data"].astype("float32")), **params)
m.run()
tvm.testing.assert_allclose(m.get_output(0, tvm.nd.empty(out.shape, "float32", ctx)).asnumpy(), out)
m["run"]()
e = m.module.time_evaluator("run", ctx, number=1, repeat=2)
print(e().mean, e().results)

with tempfile.TemporaryDirectory() as root:
    d = debug_runtime.create(lib["get_graph_json"](), lib.imported_modules[0], ctx, dump_root=root)
    d.set_input("data", known["data"], **params)
    d.run()
    tvm.testing.assert_allclose(d.get_output(0).asnumpy(), out)

vm = VirtualMachine(tvm_runtime.load_module(os.path.join(folder, "vm_mlp.so")), ctx)
vm.set_input("main", known["data"])
tvm.testing.assert_allclose(vm.invoke("main").asnumpy(), out, rtol=1e-5)
