// In the style of apps/cpp_rtvm (TVMRunner): a class that opens a model, asks it for its inputs and
// outputs, and moves raw files in and out. Arguments: the model's library.
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/profiling.h>
#include <tvm/runtime/registry.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace runner {
using namespace tvm::runtime;

struct TensorInfo {
  std::vector<int> shape;
  std::string dtype;
  int64_t mem_size;
};

static int64_t GetMemSize(NDArray &narr) {
  int64_t size = 1;
  for (int i = 0; i < narr->ndim; ++i) size *= narr->shape[i];
  return size * ((narr->dtype.bits * narr->dtype.lanes + 7) / 8);
}

class TVMRunner {
 public:
  TVMRunner(std::string path, std::string device) : path_(path), device_(device) {}
  int Load() {
    module_ = Module::LoadFromFile(path_ + "");
    executor_ = module_.GetFunction("default")(DLDevice{DLDeviceType(kDLCPU), 0});
    LOG(INFO) << "opened for " << device_;
    return 0;
  }
  void ReadMetaInfo() {
    Map<String, ObjectRef> in = executor_.GetFunction("get_input_info")();
    auto shapes = GetRef<Map<String, ObjectRef>>(in["shape"].as<MapNode>());
    auto dtypes = GetRef<Map<String, ObjectRef>>(in["dtype"].as<MapNode>());
    for (const auto &entry : shapes) {
      auto shape = GetRef<ShapeTuple>(entry.second.as<ShapeTupleObj>());
      std::vector<int> extents;
      for (size_t i = 0; i < shape.size(); ++i) extents.push_back(static_cast<int>(shape[i]));
      auto dtype = GetRef<String>(dtypes[entry.first].as<StringObj>());
      NDArray array = executor_.GetFunction("get_input")(std::string(entry.first));
      inputs_[entry.first] = {extents, dtype, GetMemSize(array)};
    }
  }
  void PrintMetaInfo() {
    for (auto &entry : inputs_) {
      std::cout << entry.first << ":" << entry.second.dtype << "[";
      for (int extent : entry.second.shape) std::cout << extent << ' ';
      std::cout << "] " << entry.second.mem_size << '\n';
    }
  }
  void SetInput(const std::string &name, const std::vector<char> &raw) {
    NDArray array = executor_.GetFunction("get_input")(name);
    array.CopyFromBytes(raw.data(), raw.size());
  }
  std::vector<float> Run() {
    executor_.GetFunction("run")();
    TVMSynchronize(kDLCPU, 0, nullptr);
    const int count = executor_.GetFunction("get_num_outputs")();
    CHECK_EQ(count, 2);
    NDArray output = executor_.GetFunction("get_output")(0);
    std::vector<float> values(GetMemSize(output) / sizeof(float));
    output.CopyToBytes(values.data(), values.size() * sizeof(float));
    return values;
  }

 private:
  std::string path_, device_;
  Module module_, executor_;
  std::map<std::string, TensorInfo> inputs_;
};
}  // namespace runner

int main(int, char **argv) {
  runner::TVMRunner app(argv[1], "cpu");
  app.Load();
  app.ReadMetaInfo();
  app.PrintMetaInfo();
  const float x[6] = {0, 1, 2, 3, 4, 5};
  const char *bytes = reinterpret_cast<const char *>(x);
  app.SetInput("x", std::vector<char>(bytes, bytes + sizeof(x)));
  for (float value : app.Run()) std::cout << value << ' ';
}
