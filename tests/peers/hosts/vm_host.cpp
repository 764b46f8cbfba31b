// In the style of hosts of the Relay virtual machine (0.7 to 0.15). Arguments: the library, the raw input.
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/vm/memory_manager.h>

#include <fstream>
#include <iostream>

int main(int, char **argv) {
  using namespace tvm::runtime;
  Module exec = Module::LoadFromFile(argv[1]);
  Module machine = exec.GetFunction("vm_load_executable")();
  machine.GetFunction("init")(static_cast<int>(kDLCPU), 0,
                              static_cast<int>(vm::AllocatorType::kPooled));
  NDArray data = NDArray::Empty({1, 1, 8, 8}, DataType::Float(32), {kDLCPU, 0});
  std::ifstream(argv[2], std::ios::binary)
      .read(static_cast<char *>(data->data), 64 * sizeof(float));
  machine.GetFunction("set_input")("main", data);
  NDArray out = machine.GetFunction("invoke")("main");
  for (int i = 0; i < 10; ++i) std::cout << static_cast<float *>(out->data)[i] << ' ';
}
