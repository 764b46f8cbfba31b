// Modules and functions of the C++ face: calls both ways, the registry, errors, threads.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

class Custom : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

float Half(float x) { return x / 2; }

void ModulesGiveFunctions(const Module &module) {
  REQUIRE(module->type_key() == std::string("library") && module->imports().empty());
  REQUIRE(module->ImplementsFunction("vadd") && !module->ImplementsFunction("nope"));
  REQUIRE(module.GetFunction("nope") == nullptr && module->GetFunction("vadd") != nullptr);
  PackedFunc vadd = module.GetFunction("vadd", true);
  NDArray a = OnesFromSecondUnit(4),
          c = NDArray::Empty({4}, DataType::Float(32), DLDevice{kDLCPU, 0});
  vadd(a, const_cast<DLTensor *>(a.operator->()), c);
  REQUIRE(static_cast<float *>(c->data)[3] == 2);
  const int64_t count = module.GetFunction("returns_int")(1, 2.0, "three");
  REQUIRE(count == 3);
  const std::string text = module.GetFunction("returns_string")();
  REQUIRE(text == "from a kernel");
  REQUIRE(Has(Thrown([&] { Module::LoadFromFile("/no/such/file.so"); }), "/no/such/file.so"));
  REQUIRE(Has(Thrown([] { Module().GetFunction("f"); }), "the module is null"));
  REQUIRE(Has(Thrown([] { PackedFunc()(1); }), "the function is null"));
}

void KernelsCallCxx(const Module &module) {
  const PackedFunc calls_twice = module.GetFunction("calls_twice");
  REQUIRE(Has(Thrown([&] { calls_twice(1); }), "host.twice"));
  Registry::Register("host.twice").set_body_typed([](int64_t x) {
    if (x < 0) throw Custom("no doubling below zero");
    return 2 * x;
  });
  REQUIRE(calls_twice(21).operator int() == 42);
  // An exception passes through the kernel, which is C, as an error.
  REQUIRE(Thrown<Custom>([&] { calls_twice(-1); }) == "no doubling below zero");
  REQUIRE(
      Has(Thrown([&] { calls_twice("x"); }), "host.twice: argument 0: expected int, found str"));
  // Kernels see a function that was replaced.
  Registry::Register("host.twice", true).set_body_typed([](int64_t x) { return 20 * x; });
  REQUIRE((*Registry::Get("host.twice"))(1).operator int() == 20);
  REQUIRE(calls_twice(1).operator int() == 20);
  REQUIRE(Registry::Remove("host.twice") && !Registry::Remove("host.twice"));
  REQUIRE(calls_twice(1).operator int() == 20);  // the last one, kept for the kernel
}

void TypedFunctionsConvert() {
  const TypedPackedFunc<int(int, std::string)> repeat = [](int n, const std::string &s) {
    return n * static_cast<int>(s.size());
  };
  REQUIRE(repeat(2, "abc") == 6 && repeat.packed()(2, "abcd").operator int() == 8);
  const TypedPackedFunc<float(float)> half(Half, "half");
  REQUIRE(half(3.0f) == 1.5f);
  REQUIRE(Thrown([&] { half.packed()("x"); }) == "half: argument 0: expected float, found str");
  REQUIRE(Thrown([&] { half.packed()(1, 2); }) == "half: expected 1 argument, found 2");
  REQUIRE(Has(Thrown([&] { repeat.packed()(int64_t{1} << 33, ""); }),
              "C++ function: argument 0: the integer"));
  const TypedPackedFunc<void()> nothing = [] {};
  nothing();
  REQUIRE(nothing.packed()().type_code() == kTVMNullptr && TypedPackedFunc<void()>() == nullptr);
  // Functions are arguments and results.
  const TypedPackedFunc<TypedPackedFunc<int(int)>(int)> adder = [](int a) {
    return TypedPackedFunc<int(int)>([a](int b) { return a + b; });
  };
  REQUIRE(adder(40)(2) == 42);
  const TypedPackedFunc<int(PackedFunc)> call = [](const PackedFunc &f) {
    return f(1).operator int();
  };
  REQUIRE(call(adder(1).packed()) == 2);
  const TypedPackedFunc<NDArray(NDArray, bool, double, DLDevice, uint8_t)> mixed =
      [](NDArray a, bool keep, double, DLDevice, uint8_t) { return keep ? a : NDArray(); };
  NDArray array = OnesFromSecondUnit(2);
  REQUIRE(mixed(array, true, 1.5, DLDevice{kDLCPU, 0}, 200).same_as(array));
  REQUIRE(!mixed(array, false, 1, DLDevice{kDLCPU, 0}, 0).defined());
  const TypedPackedFunc<std::string(TVMArgValue)> kind = [](TVMArgValue v) -> std::string {
    return ArgTypeCode2Str(v.type_code());
  };
  REQUIRE(kind.packed()(1.5).operator std::string() == "float");
}

void TheRegistryIsShared() {
  const PackedFunc *add = Registry::Get("second.add");
  REQUIRE(add && (*add)(40, 2).operator int() == 42 && add == FindFromSecondUnit("second.add"));
  REQUIRE(!Registry::Get("no.such"));
  REQUIRE(
      Has(Thrown([] { Registry::Register("second.add"); }), "'second.add' is already registered"));
  REQUIRE(Has(Thrown([] { Registry::Register("runtime.SystemLib"); }), "already registered"));
  bool listed = false;
  for (const String &name : Registry::ListNames()) listed = listed || name == "second.add";
  REQUIRE(listed);
  Registry::Register("test.once").set_body([](TVMArgs, TVMRetValue *rv) { *rv = 1; });
  const PackedFunc held = *Registry::Get("test.once");
  REQUIRE(Registry::Remove("test.once") && held().operator int() == 1 &&
          !Registry::Get("test.once"));
  Registry::Register("test.once").set_body(held);
  REQUIRE(Registry::Get("test.once")->same_as(held) && Registry::Remove("test.once"));
  const Module opened = (*Registry::Get("runtime.ModuleLoadFromFile"))(std::getenv("TEST_LIBRARY"));
  REQUIRE(opened->type_key() == std::string("library"));
}

// Frees a name of the registry when it goes, as objects that functions hold may do.
struct Unregisters {
  ~Unregisters() { REQUIRE(Registry::Remove("test.inner")); }
};

void WhatAFunctionHoldsMayUseTheRegistry() {
  Registry::Register("test.inner").set_body([](TVMArgs, TVMRetValue *) {});
  auto held = std::make_shared<Unregisters>();
  Registry::Register("test.outer").set_body([held](TVMArgs, TVMRetValue *) {});
  held.reset();
  REQUIRE(Registry::Get("test.outer") && Registry::Remove("test.outer") &&
          !Registry::Get("test.inner"));
  const TypedPackedFunc<TVMRetValue(int)> any = [](int x) {
    TVMRetValue rv;
    rv = x + 1;
    return rv;
  };
  REQUIRE(any(1).operator int() == 2);
}

void ResourcesAreFreedWithTheFunction() {
  auto resource = std::make_shared<int>(5);
  const std::weak_ptr<int> watch = resource;
  PackedFunc copy;
  {
    const PackedFunc f([resource](TVMArgs, TVMRetValue *rv) { *rv = *resource; });
    resource.reset();
    copy = f;
  }
  REQUIRE(copy().operator int() == 5 && !watch.expired());
  copy = nullptr;
  REQUIRE(watch.expired());
}

void ImportsFormATree(const Module &module) {
  const Module other = Module::LoadFromFile(std::getenv("TEST_LIBRARY"));
  module.Import(other);
  REQUIRE(module->imports().size() == 1 && module->imports()[0] == other);
  for (const Module &m : module->imports()) REQUIRE(m->type_key() == std::string("library"));
}

}  // namespace

void TestFunctions(const Module &module) {
  ModulesGiveFunctions(module);
  KernelsCallCxx(module);
  TypedFunctionsConvert();
  TheRegistryIsShared();
  ResourcesAreFreedWithTheFunction();
  WhatAFunctionHoldsMayUseTheRegistry();
  ImportsFormATree(module);
}

void TestErrors(const Module &module) {
  REQUIRE(Thrown([&] { module.GetFunction("vadd")(1); }) == "vadd: num_args should be 3");
  REQUIRE(Has(Thrown([&] { module.GetFunction("fails_silently")(); }), "gave no reason"));
  // A C++ function's own exception comes back to a C++ caller, also through C and another unit.
  const PackedFunc throws(
      [](TVMArgs, TVMRetValue *) { throw Custom("the disk is on fire\nreally"); });
  REQUIRE(Thrown<Custom>([&] { ThrowFromSecondUnit(throws); }) == "the disk is on fire\nreally");
  const PackedFunc outer([&](TVMArgs, TVMRetValue *rv) { *rv = throws(); });
  REQUIRE(Thrown<Custom>([&] { outer(); }) == "the disk is on fire\nreally");
  // A C caller sees its text.
  TVMValue value;
  int code;
  REQUIRE(TVMFuncCall(throws.handle(), nullptr, nullptr, 0, &value, &code) == -1);
  REQUIRE(std::string(TVMGetLastError()) == "the disk is on fire\nreally");
  // Another error in between is not taken for it.
  REQUIRE(TVMFuncCall(nullptr, nullptr, nullptr, 0, &value, &code) == -1);
  REQUIRE(!Thrown<InternalError>([] { detail::ThrowLastError(); }).empty());
  REQUIRE(Thrown([&] {
            PackedFunc([](TVMArgs, TVMRetValue *) { CHECK_EQ(1, 2) << "in a function"; })();
          }).find("in a function") != std::string::npos);
  int caught = 0;
  try {
    PackedFunc([](TVMArgs, TVMRetValue *) { throw 42; })();
  } catch (int number) {
    caught = number;
  }
  REQUIRE(caught == 42);
}

void TestThreads(const Module &module) {
  const PackedFunc add = *Registry::Get("second.add"), count = module.GetFunction("returns_int");
  std::atomic<int> sum{0}, failures{0};
  const PackedFunc tally([&](TVMArgs args, TVMRetValue *) { sum += args[0].operator int(); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string name = "thread." + std::to_string(t);
        const NDArray array = OnesFromSecondUnit(8), same = array;
        const Module shared = module;
        if (add(t, i).operator int() != t + i || count(array).operator int() != 1) ++failures;
        Registry::Register(name).set_body_typed([i](int x) { return x + i; });
        if ((*Registry::Get(name))(1).operator int() != 1 + i || !Registry::Remove(name))
          ++failures;
        const std::string mine = "thread " + std::to_string(t) + ", " + std::to_string(i);
        if (Thrown<Custom>(
                [&] { PackedFunc([&](TVMArgs, TVMRetValue *) { throw Custom(mine); })(); }) != mine)
          ++failures;
        if (Registry::Get("second.add") == nullptr) ++failures;
        tally(1);
      }
    });
  for (std::thread &thread : threads) thread.join();
  REQUIRE(sum == 800 && failures == 0);
}
