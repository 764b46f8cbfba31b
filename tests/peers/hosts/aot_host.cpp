// In the style of hosts of the ahead-of-time executor (0.8 and later). Arguments: the library, the raw
// input.
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

#include <fstream>
#include <iostream>

int main(int, char **argv) {
  using tvm::runtime::Module;
  using tvm::runtime::NDArray;
  const DLDevice dev{kDLCPU, 0};
  Module factory = Module::LoadFromFile(argv[1]);
  Module executor = factory.GetFunction("default")(dev);
  NDArray data = NDArray::Empty({1, 1, 8, 8}, {kDLFloat, 32, 1}, dev);
  std::ifstream(argv[2], std::ios::binary)
      .read(static_cast<char *>(data->data), 64 * sizeof(float));
  executor.GetFunction("set_input")("data", data);
  executor.GetFunction("run")();
  NDArray out = executor.GetFunction("get_output")(0);
  for (int i = 0; i < 10; ++i) std::cout << static_cast<float *>(out->data)[i] << ' ';
}
