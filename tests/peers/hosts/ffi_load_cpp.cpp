// In the style of tvm-ffi's examples/quickstart/load/load_cpp.cc. Argument: the library.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstdlib>
#include <iostream>

namespace {
namespace ffi = tvm::ffi;

struct CPUAlloc {
  void AllocData(DLTensor *tensor) { tensor->data = std::malloc(ffi::GetDataSize(*tensor)); }
  void FreeData(DLTensor *tensor) { std::free(tensor->data); }
};

ffi::Tensor Empty(ffi::Shape shape) {
  return ffi::Tensor::FromNDAlloc(CPUAlloc(), shape, DLDataType{kDLFloat, 32, 1},
                                  DLDevice{kDLCPU, 0});
}
}  // namespace

int main(int, char **argv) {
  ffi::Module mod = ffi::Module::LoadFromFile(argv[1]);
  ffi::Tensor x = Empty({5}), y = Empty({5});
  for (int i = 0; i < 5; ++i) static_cast<float *>(x.data_ptr())[i] = i + 1;
  ffi::Function add_one = mod->GetFunction("add_one").value();
  add_one(x, y);
  for (int i = 0; i < 5; ++i) std::cout << static_cast<float *>(y.data_ptr())[i] << ' ';
  try {
    add_one(x, Empty({2}));
  } catch (const ffi::Error &error) {
    std::cout << error.kind() << ' ';
  }
  ffi::Function::SetGlobal("peers.twice", ffi::Function::FromTyped([](int v) { return 2 * v; }));
  int listed = 0;
  for (const ffi::String &name : ffi::Function::ListGlobalNames()) listed += name == "peers.twice";
  std::cout << listed << ' ' << ffi::Function::GetGlobalRequired("peers.twice")(21).cast<int>()
            << ' ';
  ffi::Function::RemoveGlobal("peers.twice");
  std::cout << ffi::Function::GetGlobal("peers.twice").has_value();
}
