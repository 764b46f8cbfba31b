"""A host of Relax's virtual machine, TVM 0.20 to 0.27, with tvm_ffi."""

import os
import sys

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import VirtualMachine
from tvm.runtime.vm import VirtualMachine as RuntimeMachine

folder = os.path.join(sys.argv[1], "relax")
known = np.load(os.path.join(folder, "mlp_static.npz"))
dev = tvm.device("cpu", 0)
ex = tvm.runtime.load_module(os.path.join(folder, "mlp_static.so"))
print(ex.kind, [m.kind for m in ex.imports])
names, expected = [f"c0_a{i}" for i in range(5)], known["c0_r"]
for machine in (relax.VirtualMachine, VirtualMachine, RuntimeMachine):
    vm = machine(ex, dev)
    inputs = [tvm.runtime.tensor(known[n], device=dev) for n in names]
    np.testing.assert_allclose(vm["forward"](*inputs).numpy(), expected, rtol=1e-4)
    vm.set_input("forward", *inputs)
    vm.invoke_stateful("forward")
    np.testing.assert_allclose(vm.get_outputs("forward").numpy(), expected, rtol=1e-4)
    print(vm.time_evaluator("forward", dev, number=2, repeat=2)(*inputs))

same = tvm_ffi.load_module(os.path.join(folder, "mlp_static.so"))
vm = relax.VirtualMachine(same, tvm.cpu())
inputs = [tvm_ffi.from_dlpack(known[n]) for n in names]
np.testing.assert_allclose(vm["forward"](*inputs).numpy(), expected, rtol=1e-4)


@tvm.register_global_func("hosts.shape")
def shape_of(x):
    return tvm_ffi.Shape(x.shape)


assert tuple(tvm.get_global_func("hosts.shape")(inputs[0])) == tuple(known[names[0]].shape)
