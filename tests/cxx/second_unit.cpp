#include <tvm/runtime/device_api.h>

#include "test_face.h"

using tvm::runtime::NDArray;
using tvm::runtime::PackedFunc;
using tvm::runtime::Registry;

TVM_REGISTER_GLOBAL("second.add").set_body_typed([](int a, int b) { return a + b; });
TVM_REGISTER_GLOBAL("second.concat")
    .set_body([](tvm::runtime::TVMArgs args, tvm::runtime::TVMRetValue *rv) {
      std::string text;
      for (int i = 0; i < args.size(); ++i) text += args[i].operator std::string();
      *rv = text;
    });

const PackedFunc *FindFromSecondUnit(const char *name) { return Registry::Get(name); }

NDArray OnesFromSecondUnit(int64_t size) {
  NDArray array = NDArray::Empty({size}, tvm::DataType::Float(32), tvm::Device{kDLCPU, 0});
  for (int64_t i = 0; i < size; ++i) static_cast<float *>(array->data)[i] = 1;
  return array;
}

void ThrowFromSecondUnit(const PackedFunc &function) { function(); }
