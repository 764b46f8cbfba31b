// In the style of hosts of the Relax virtual machine (0.12 to 0.20, mlc-llm's loader). Arguments: the
// library, the raw input.
#include <tvm/runtime/data_type.h>
#include <tvm/runtime/memory/memory_manager.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <fstream>
#include <iostream>

using namespace tvm::runtime;

struct Session {
  explicit Session(const std::string &path) : device{kDLCPU, 0} {
    executable = Module::LoadFromFile(path);
    PackedFunc fload_exec = executable->GetFunction("vm_load_executable");
    ICHECK(fload_exec.defined()) << "no executable in " << path;
    local_vm = fload_exec();
    using tvm::runtime::memory::AllocatorType;
    local_vm->GetFunction("vm_initialization")(
        static_cast<int>(device.device_type), device.device_id,
        static_cast<int>(AllocatorType::kPooled), static_cast<int>(kDLCPU), 0,
        static_cast<int>(AllocatorType::kPooled));
    forward = local_vm->GetFunction("forward");
  }
  DLDevice device;
  Module executable, local_vm;
  PackedFunc forward;
};

int main(int, char **argv) {
  Session session(argv[1]);
  NDArray data = NDArray::Empty({1, 3, 8, 8}, DataType::Float(32), session.device);
  std::ifstream(argv[2], std::ios::binary)
      .read(static_cast<char *>(data->data), 192 * sizeof(float));
  NDArray out = session.forward(data);
  const int numel = static_cast<int>(out.Shape()->Product());
  for (int i = 0; i < numel; ++i) std::cout << static_cast<float *>(out->data)[i] << ' ';
}
