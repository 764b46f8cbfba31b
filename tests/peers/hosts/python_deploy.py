"""In the style of apps/howto_deploy/python_deploy.py. Arguments: the kernel's library, the model's
library."""

import sys

import numpy as np

import mblob.compat.tvm as tvm
from mblob.compat.tvm import te
from mblob.compat.tvm.contrib import graph_executor


def verify(mod, fname):
    f = mod.get_function(fname)
    x = tvm.nd.array(np.arange(10, dtype=np.float32))
    y = tvm.nd.empty((10,), dtype="float32")
    f(x, y)
    np.testing.assert_equal(y.numpy(), x.numpy() + 1)
    print(f"{fname} is right")


verify(tvm.runtime.load_module(sys.argv[1]), "addone")
assert te is not None  # which deployment scripts import out of habit
dev = tvm.cpu(0)
module = graph_executor.GraphModule(tvm.runtime.load_module(sys.argv[2])["default"](dev))
module.set_input("x", np.arange(6, dtype="float32").reshape(2, 3))
module.run()
print(module.get_output(0, tvm.nd.empty((2, 3))).numpy().tolist())
