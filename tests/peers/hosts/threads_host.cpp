// In the style of servers: a thread for each executor of one model. Argument: the model's library.
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/threading_backend.h>

#include <atomic>
#include <iostream>
#include <thread>
#include <vector>

int main(int, char **argv) {
  using namespace tvm::runtime;
  Module factory = Module::LoadFromFile(argv[1]);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      threading::Configure(threading::ThreadGroup::kBig, 1, {});
      Module executor = factory.GetFunction("default")(DLDevice{kDLCPU, 0});
      NDArray x = NDArray::Empty({2, 3}, DataType::Float(32), {kDLCPU, 0});
      for (int round = 0; round < 50; ++round) {
        for (int i = 0; i < 6; ++i) static_cast<float *>(x->data)[i] = t + round;
        executor.GetFunction("set_input")("x", x);
        executor.GetFunction("run")();
        NDArray y = executor.GetFunction("get_output")(0);
        right += static_cast<float *>(y->data)[5] == (t + round) * 5 + 0.5f;
      }
    });
  for (auto &thread : threads) thread.join();
  std::cout << right;
}
