// A host written for TVM's C++ runtime, as TVM's deployment guides do it; here it needs no TVM.
// Opens lib.so, calls its function on tensors made in two ways, and offers a function of its own.
#include <dlpack/dlpack.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

using tvm::runtime::Module;
using tvm::runtime::NDArray;
using tvm::runtime::PackedFunc;
using tvm::runtime::Registry;

constexpr int kSize = 10;

// Tensors of the C API: the caller frees them.
void VerifyWithTensors(const PackedFunc &addone) {
  DLTensor *x = nullptr;
  DLTensor *y = nullptr;
  const int64_t shape[1] = {kSize};
  ICHECK_EQ(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &x), 0);
  ICHECK_EQ(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &y), 0);
  for (int i = 0; i < kSize; ++i) static_cast<float *>(x->data)[i] = static_cast<float>(i);
  addone(x, y);
  for (int i = 0; i < kSize; ++i)
    ICHECK_EQ(static_cast<float *>(y->data)[i], static_cast<float>(i) + 1.0f);
  TVMArrayFree(x);
  TVMArrayFree(y);
}

// Counted arrays: nobody frees them.
NDArray VerifyWithArrays(const PackedFunc &addone) {
  const DLDevice cpu{kDLCPU, 0};
  NDArray x = NDArray::Empty({2, kSize / 2}, DLDataType{kDLFloat, 32, 1}, cpu);
  NDArray y = NDArray::Empty({2, kSize / 2}, DLDataType{kDLFloat, 32, 1}, cpu);
  float values[kSize] = {};
  x.CopyFromBytes(values, sizeof(values));
  addone(x, y);
  y.CopyToBytes(values, sizeof(values));
  for (const float value : values) ICHECK_EQ(value, 1.0f) << "in an array of shape " << y.Shape();
  return y;
}

}  // namespace

// Kernels, Python in this process, and the lines below find it by its name.
TVM_REGISTER_GLOBAL("example.sum").set_body_typed([](const NDArray &array) {
  double sum = 0;
  const float *data = static_cast<const float *>(array->data);
  for (int64_t i = 0; i < array.Shape().Product(); ++i) sum += static_cast<double>(data[i]);
  return sum;
});

int main(int argc, char **argv) try {
  const Module lib = Module::LoadFromFile(argc > 1 ? argv[1] : "lib.so");
  const PackedFunc addone = lib.GetFunction("addone");
  ICHECK(addone != nullptr) << "the library has no function addone";
  VerifyWithTensors(addone);
  const NDArray ones = VerifyWithArrays(addone);
  const PackedFunc *sum = Registry::Get("example.sum");
  ICHECK(sum != nullptr);
  const double total = (*sum)(ones);
  std::printf("%g\n", total);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
