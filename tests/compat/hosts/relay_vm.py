"""A host of Relay's virtual machine, TVM 0.8 to 0.19: the library, and code and kernels apart."""

import os
import sys

import numpy as np
import tvm
from tvm.runtime import vm as vm_rt
from tvm.runtime.vm import VirtualMachine

folder = sys.argv[1]
known = np.load(os.path.join(folder, "mlp_llvm.npz"))
dev = tvm.cpu()
data_tvm = tvm.nd.array(known["data"], device=dev)

lib = tvm.runtime.load_module(os.path.join(folder, "vm_mlp.so"))
vm = VirtualMachine(lib, dev)
vm.set_input("main", **{"data": data_tvm})
result = vm.run()
np.testing.assert_allclose(result.numpy(), known["out"], rtol=1e-5)
vm.invoke_stateful("main")
np.testing.assert_allclose(vm.get_outputs()[0].numpy(), known["out"], rtol=1e-5)
out = tvm.nd.empty(known["out"].shape)
vm.invoke_with_outputs("main", {"data": data_tvm}, [out])
np.testing.assert_allclose(out.numpy(), known["out"], rtol=1e-5)
print(vm.benchmark(dev, data_tvm, func_name="main", number=1, repeat=3))

code, kernels = vm_rt.Executable(lib).save()
loaded_vm_exec = vm_rt.Executable.load_exec(code, kernels)
print(loaded_vm_exec.stats, loaded_vm_exec.bytecode[:60], loaded_vm_exec.globals)
vm = vm_rt.VirtualMachine(loaded_vm_exec, dev, "naive")
np.testing.assert_allclose(vm.invoke("main", data_tvm).numpy(), known["out"], rtol=1e-5)
evaluator = vm.module.time_evaluator("invoke", dev, number=1, repeat=2)
print(evaluator("main", data_tvm).mean)
