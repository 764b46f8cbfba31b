"""In the style of tvm-ffi's run_example.py and examples/quickstart/load/load_numpy.py. Argument: the
library."""

import sys

import numpy as np

import mblob.compat.tvm_ffi as tvm_ffi

mod = tvm_ffi.load_module(sys.argv[1])
x = np.array([1, 2, 3, 4, 5], dtype=np.float32)
y = np.empty_like(x)
mod.add_one(x, y)
print(y.tolist())
tensor = tvm_ffi.from_dlpack(x)
mod.add_one(tensor, y)
print(tensor.shape, tensor.dtype, tensor.device)
try:
    mod.add_one(np.zeros(2, "float32"), y)
except ValueError as error:
    print(type(error).__mro__[1].__name__, isinstance(error, tvm_ffi.error.Error))
