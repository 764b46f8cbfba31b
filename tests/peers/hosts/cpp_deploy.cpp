// In the style of apps/howto_deploy/cpp_deploy.cc (0.8 and later): a kernel by the C API's tensors, then
// a graph by its factory. Arguments: the kernel's library, the model's library.
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cstdio>

static void RunKernel(tvm::runtime::Module lib, std::string name) {
  tvm::runtime::PackedFunc f = lib.GetFunction(name);
  CHECK(f != nullptr) << "no function " << name;
  DLTensor *x;
  DLTensor *y;
  int64_t shape[1] = {10};
  TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &x);
  TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &y);
  for (int i = 0; i < shape[0]; ++i) static_cast<float *>(x->data)[i] = i;
  f(x, y);
  for (int i = 0; i < shape[0]; ++i) CHECK_EQ(static_cast<float *>(y->data)[i], i + 1.0f);
  TVMArrayFree(x);
  TVMArrayFree(y);
  LOG(INFO) << name << " is right";
}

static void RunGraph(const char *path) {
  DLDevice dev{kDLCPU, 0};
  tvm::runtime::Module factory = tvm::runtime::Module::LoadFromFile(path);
  tvm::runtime::Module executor = factory.GetFunction("default")(dev);
  tvm::runtime::PackedFunc set_input = executor.GetFunction("set_input");
  tvm::runtime::PackedFunc get_output = executor.GetFunction("get_output");
  tvm::runtime::PackedFunc run = executor.GetFunction("run");
  tvm::runtime::NDArray x = tvm::runtime::NDArray::Empty({2, 3}, DLDataType{kDLFloat, 32, 1}, dev);
  tvm::runtime::NDArray y = tvm::runtime::NDArray::Empty({2, 3}, DLDataType{kDLFloat, 32, 1}, dev);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) static_cast<float *>(x->data)[i * 3 + j] = i * 3 + j;
  set_input("x", x);
  run();
  get_output(0, y);
  for (int i = 0; i < 6; ++i) std::printf("%g ", static_cast<float *>(y->data)[i]);
}

int main(int argc, char **argv) {
  CHECK_EQ(argc, 3);
  tvm::runtime::Module lib = tvm::runtime::Module::LoadFromFile(argv[1]);
  RunKernel(lib, "addone");
  RunGraph(argv[2]);
  return 0;
}
