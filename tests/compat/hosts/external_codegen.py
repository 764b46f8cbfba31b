"""A host of libraries whose parts run elsewhere: oneDNN, OpenCL. Where there is neither, it says so."""

import os
import sys

import numpy as np
import tvm
from tvm.contrib import graph_executor

folder = sys.argv[1]
known = np.load(os.path.join(folder, "dnnl_llvm.npz"))
dev = tvm.cpu(0)
try:
    lib = tvm.runtime.load_module(os.path.join(folder, "dnnl_llvm_factory.so"))
    module = graph_executor.GraphModule(lib["default"](dev))
    names = [n for n in module.get_input_info()[0] if n in known.files]
    module.set_input(**{n: known[n] for n in names})
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), known["out"], rtol=1e-4, atol=1e-4)
except tvm.TVMError as error:
    assert "oneDNN" in str(error), error

dev = tvm.opencl(0)
if dev.exist:
    vadd = tvm.runtime.load_module(os.path.join(folder, "opencl_llvm.so"))["vadd"]
    a = tvm.nd.array(np.arange(1024, dtype="float32"), dev)
    b = tvm.nd.array(np.ones(1024, "float32"), device=dev)
    c = tvm.nd.empty((1024,), "float32", dev)
    vadd(a, b, c)
    dev.sync()
    np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    print(dev.device_name, dev.max_threads_per_block, dev.total_global_memory)
