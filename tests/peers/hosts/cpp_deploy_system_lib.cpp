// In the style of the second part of apps/howto_deploy/cpp_deploy.cc: the kernels are linked into the
// program, and found by runtime.SystemLib.
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

int main() {
  tvm::runtime::Module syslib = (*tvm::runtime::Registry::Get("runtime.SystemLib"))();
  tvm::runtime::PackedFunc addone = syslib.GetFunction("addone");
  CHECK(addone != nullptr);
  tvm::runtime::NDArray x = tvm::runtime::NDArray::Empty({4}, {kDLFloat, 32, 1}, {kDLCPU, 0});
  tvm::runtime::NDArray y = tvm::runtime::NDArray::Empty({4}, {kDLFloat, 32, 1}, {kDLCPU, 0});
  for (int i = 0; i < 4; ++i) static_cast<float *>(x->data)[i] = 10 * i;
  addone(x, y);
  for (int i = 0; i < 4; ++i) std::cout << static_cast<float *>(y->data)[i] << ' ';
  return 0;
}
