// In the style of apps/bundle_deploy/test.cc: a C++ program of today's names around a bundle's graph
// whose input changes between runs. Arguments: the model's library.
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>

#include <cstring>
#include <iostream>
#include <vector>

int main(int, char **argv) {
  using namespace tvm::runtime;
  const Device dev = {kDLCPU, 0};
  Module executor = Module::LoadFromFile(argv[1], "so").GetFunction("default")(dev);
  std::vector<float> expected(6), input(6);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 6; ++i) input[i] = i + round, expected[i] = (i + round) * i + 0.5f;
    int64_t shape[] = {2, 3};
    DLTensor x;
    std::memset(&x, 0, sizeof(x));
    x.data = input.data();
    x.device = dev;
    x.ndim = 2;
    x.dtype = DLDataType{kDLFloat, 32, 1};
    x.shape = shape;
    executor.GetFunction("set_input")(0, &x);
    executor.GetFunction("run")();
    NDArray y = executor.GetFunction("get_output")(0);
    ICHECK_EQ(std::memcmp(y->data, expected.data(), 6 * sizeof(float)), 0) << "round " << round;
  }
  const int outputs = executor.GetFunction("get_num_outputs")();
  std::cout << outputs << " outputs, all rounds are right\n";
}
