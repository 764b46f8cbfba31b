// Names of TVM's headers that programs use beside calls: tables of member functions, properties,
// devices, loops.
#include <dmlc/logging.h>
#include <tvm/runtime/container.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/executor_info.h>
#include <tvm/runtime/memory.h>
#include <tvm/runtime/relax_vm/memory_manager.h>
#include <tvm/runtime/threading_backend.h>

#include <atomic>
#include <sstream>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

const DLDevice kCpu{kDLCPU, 0};

template <typename T>
std::string Text(const T &value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// As modules are written from TVM 0.13 on.
class Table : public ModuleNode {
 public:
  TVM_MODULE_VTABLE_BEGIN("table");
  TVM_MODULE_VTABLE_ENTRY("add", &Table::Add);
  TVM_MODULE_VTABLE_ENTRY("factor", &Table::Factor);
  TVM_MODULE_VTABLE_ENTRY_PACKED("count", &Table::Count);
  TVM_MODULE_VTABLE_END();

  int GetPropertyMask() const final { return kBinarySerializable | kRunnable; }
  bool ImplementsFunction(const String &name, bool) final { return name == "later"; }
  void SaveToFile(const String &file_name, const String &format) final {
    saved = file_name + "." + format;
  }
  void SaveToBinary(dmlc::Stream *) final { saved = "stream"; }
  String GetSource(const String &format) final { return "source in " + format; }
  String GetFormat() final { return "text"; }

  std::string saved;

 private:
  int64_t Add(int64_t a, int64_t b) { return factor_ * (a + b); }
  int Factor() const { return factor_; }
  void Count(TVMArgs args, TVMRetValue *rv) { *rv = args.size(); }
  int factor_ = 2;
};

// As before, and with what its table does not have.
class Older : public ModuleNode {
 public:
  TVM_MODULE_VTABLE_BEGIN("older");
  TVM_MODULE_VTABLE_END_WITH_DEFAULT(&Older::Other);
  std::string GetSource(const std::string &format) final { return "old " + format; }

 private:
  PackedFunc Other(const String &name) {
    const std::string text = name;
    return TypedPackedFunc<std::string()>([text] { return text; });
  }
};

void TablesOfMembersAreModules() {
  PackedFunc add;
  {
    Module module(make_object<Table>());
    add = module.GetFunction("add");
    REQUIRE(module.GetFunction("factor")().operator int() == 2 &&
            module.GetFunction("nothing") == nullptr);
    REQUIRE(module.GetFunction("count")(1, "two").operator int() == 2);
    REQUIRE(module->ImplementsFunction("add") && module->ImplementsFunction("later") &&
            !module->ImplementsFunction("never"));
    REQUIRE(module->GetSource("c") == "source in c" && module->GetFormat() == "text");
    module->SaveToFile("m", "x");
    REQUIRE(module.as<Table>()->saved == "m.x");
    module->SaveToBinary(nullptr);
    REQUIRE(module.as<Table>()->saved == "stream");
    REQUIRE(module->IsBinarySerializable() && !module->IsDSOExportable() &&
            Text(module) == "Module(type_key= table)");
    REQUIRE(Has(Thrown([&] { module.GetFunction("add")(1); }), "add: expected 2 arguments"));
  }
  REQUIRE(add(20, 1).operator int() == 42);
  const Module older(make_object<Older>());
  REQUIRE(older.GetFunction("echo")().operator std::string() == "echo" &&
          older->GetSource("x") == "old x");
  REQUIRE(older->GetPropertyMask() == 0 && older->GetFormat().empty());
  REQUIRE(Has(Thrown([&] { older->SaveToFile("m", ""); }),
              "Module[older] does not support SaveToFile"));
}

void CompiledModulesHaveNoSource() {
  const Module library = Module::LoadFromFile(std::getenv("TEST_LIBRARY"));
  REQUIRE(library->GetSource().empty() && library->GetPropertyMask() == kRunnable);
  REQUIRE(Has(Thrown([&] { library->SaveToFile("m", "so"); }),
              "Module[library] does not support SaveToFile"));
  REQUIRE(std::string(symbol::tvm_module_main) == "__tvm_main__");
}

void DevicesAreNamedAndAsked() {
  REQUIRE(Text(kCpu) == "cpu:0" && Text(DLDevice{kDLROCM, 2}) == "rocm:2" &&
          std::string(DLDeviceType2Str(35)) == "microdev");
  const DLDevice remote{static_cast<DLDeviceType>(kRPCSessMask * 2 + kDLCUDA), 1};
  REQUIRE(Text(remote) == "remote[1]-cuda:1" && IsRPCSessionDevice(remote) &&
          !IsRPCSessionDevice(kCpu));
  REQUIRE(RemoveRPCSessionMask(remote).device_type == kDLCUDA && DeviceAPI::NeedSetDevice(kDLCUDA));
  TVMRetValue rv;
  DeviceAPI::Get(kCpu)->GetAttr(kCpu, kExist, &rv);
  REQUIRE(rv.operator int() == 1);
  DeviceAPI::Get(kCpu)->GetAttr({kDLMetal, 0}, kExist, &rv);
  REQUIRE(rv.operator int() == 0);
  const NDArray array = NDArray::Empty({3, 5}, DataType::Float(16), kCpu, String("global"));
  REQUIRE(DeviceAPI::Get(kCpu)->GetDataSize(*array.operator->()) == 30);
  DLTensor tensor = *array.operator->();
  REQUIRE(NDArray::AbilityOfZeroCopyForDLTensor(&tensor, kCpu));
  REQUIRE(!NDArray::AbilityOfZeroCopyForDLTensor(&tensor, {kDLCUDA, 0}));
  tensor.byte_offset = 2;
  REQUIRE(!NDArray::AbilityOfZeroCopyForDLTensor(&tensor, kCpu));
  REQUIRE(array.CopyTo(kCpu, String("global")).Shape() == array.Shape());
  NDArray gone = array;
  gone.reset();
  REQUIRE(!gone.defined() && array.defined());
  REQUIRE(String2DLDataType("e4m3_float8").code == 6 &&
          DLDataType2String(DataType::NVFloat8E5M2()) == "e5m2_float8");
  REQUIRE(DataType::ShapeIndex() == DataType::Int(64) && DataType::NVFloat8E4M3().is_float8());
}

void RowsAndMapsAreEdited() {
  Array<String> row{"a", "b", "c"};
  const Array<String> before = row;
  row.erase(row.begin() + 1);
  row.insert(row.begin(), "z");
  row.pop_back();
  row.resize(3);
  REQUIRE(row.size() == 3 && row[0] == "z" && row[1] == "a" && row[2] == "" && before[1] == "b" &&
          before.size() == 3);
  const Array<int> sizes =
      before.Map([](const String &text) { return static_cast<int>(text.size()); });
  REQUIRE(sizes.size() == 3 && sizes.front() == 1);
  REQUIRE(Has(Thrown([&] { row.erase(row.end()); }), "cannot erase items 3 to 4 of 3"));
  row.clear();
  REQUIRE(row.empty() && Has(Thrown([&] { row.pop_back(); }), "cannot erase"));
  Map<String, int> map{{"a", 1}, {"b", 2}};
  const Map<String, int> merged = Merge(map, Map<String, int>{{"b", 3}, {"c", 4}});
  REQUIRE(merged.size() == 3 && merged["b"] == 3 && map["b"] == 2);
  map.erase("a");
  map.erase("nothing");
  REQUIRE(map.size() == 1 && map.count("a") == 0);
  map.clear();
  REQUIRE(map.empty());
}

void LoopsRunOnThePool() {
  std::atomic<int64_t> sum{0};
  std::atomic<int> tasks{0};
  parallel_for_with_threading_backend([&](int64_t i) { sum += i; }, 5, 1005);
  REQUIRE(sum == 504500);
  parallel_for_with_threading_backend([&](int64_t) { sum = -1; }, 3, 3);
  parallel_launch_with_threading_backend([&](int, int count) { tasks += count > 0; });
  REQUIRE(sum == 504500 && tasks >= 1 && tasks <= threading::MaxConcurrency());
  REQUIRE(Has(Thrown<tvm::Error>([] {
                parallel_for_with_threading_backend(
                    [](int64_t i) {
                      if (i == 3) throw std::out_of_range("no 3");
                    },
                    0, 8);
              }),
              "no 3"));
  const int before = threading::NumThreads();
  threading::Configure(threading::ThreadGroup::kBig, 2);
  REQUIRE(threading::NumThreads() == 2);
  threading::Configure(threading::ThreadGroup::kBig, before, {0, 1});
  threading::ResetThreadPool();
  threading::Yield();
}

void OlderPathsHaveTheirNames() {
  REQUIRE(kTvmExecutorGraph == std::string("graph") && kTvmExecutorAot == std::string("aot"));
  REQUIRE(relax_vm::AllocatorType::kPooled == 2 && relax_vm::kNaive == 1);
  REQUIRE(Has(Thrown<dmlc::Error>([] { CHECK_EQ(1, 2) << "of dmlc"; }), "of dmlc"));
}

}  // namespace

void TestNames() {
  OlderPathsHaveTheirNames();
  TablesOfMembersAreModules();
  CompiledModulesHaveNoSource();
  DevicesAreNamedAndAsked();
  RowsAndMapsAreEdited();
  LoopsRunOnThePool();
}
