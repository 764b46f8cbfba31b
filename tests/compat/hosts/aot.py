"""A host of a model compiled ahead of time, TVM 0.11 to 0.19."""

import os
import sys

import numpy as np
import tvm
from tvm.runtime.executor import aot_executor

folder = sys.argv[1]
known = np.load(os.path.join(folder, "mlp_llvm.npz"))
lib = tvm.runtime.load_module(os.path.join(folder, "aot_mlp.so"))
assert list(lib["list_module_names"]()) == ["default"]
runner = tvm.runtime.executor.AotModule(lib["default"](tvm.cpu(0)))
runner.set_input("data", known["data"])
runner.run()
np.testing.assert_allclose(runner.get_output(0).numpy(), known["out"], rtol=1e-5)
same = aot_executor.AotModule(lib["default"](tvm.cpu(0)))
same.run(data=known["data"])
np.testing.assert_allclose(same.get_output(0).asnumpy(), known["out"], rtol=1e-5)
shapes, dtypes = runner.get_input_info()
print(runner.get_input_name(0), dict(shapes), dict(dtypes), runner.get_num_outputs())
