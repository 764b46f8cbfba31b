"""A host in the style of TVM 0.6: three files, graph_runtime, contexts."""

import os
import sys

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_runtime, util

folder = sys.argv[1]
known = np.load(os.path.join(folder, "mlp_llvm.npz"))
temp = util.tempdir()
loaded_lib = tvm.module.load(os.path.join(folder, "mlp_llvm.so"))
with open(temp.relpath("deploy_graph.json"), "w") as fo:
    fo.write(loaded_lib["get_graph_json"]())
with open(temp.relpath("deploy_param.params"), "wb") as fo:
    fo.write(relay.save_param_dict(loaded_lib.get_params()))

loaded_json = open(temp.relpath("deploy_graph.json")).read()
loaded_params = bytearray(open(temp.relpath("deploy_param.params"), "rb").read())
ctx = tvm.context("llvm -mcpu=skylake", 0)
assert ctx.exist
input_data = tvm.nd.array(known["data"], ctx=ctx)
assert input_data.ctx == ctx

module = graph_runtime.create(loaded_json, loaded_lib, ctx)
module.load_params(loaded_params)
module.set_input("data", input_data)
module.run()
out_deploy = module.get_output(0).asnumpy()
np.testing.assert_allclose(out_deploy, known["out"], rtol=1e-5)
out = module.get_output(0, tvm.nd.empty(known["out"].shape, ctx=ctx))
tvm.testing.assert_allclose(out.asnumpy(), known["out"], rtol=1e-5)

ftimer = module.module.time_evaluator("run", ctx, number=1, repeat=3)
prof_res = np.array(ftimer().results) * 1000
print("Mean inference time (std dev): %.2f ms (%.2f ms)" % (np.mean(prof_res), np.std(prof_res)))
temp.remove()
