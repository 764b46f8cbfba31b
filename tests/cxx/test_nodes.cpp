// Modules that are written in C++, and member functions as functions of the registry.
#include <tvm/runtime/memory.h>

#include <atomic>

#include "test_face.h"

using namespace tvm::runtime;

namespace {

std::atomic<int> alive{0};

class Doubler : public ModuleNode {
 public:
  explicit Doubler(int factor) : factor_(factor) { ++alive; }
  ~Doubler() override { --alive; }

  const char *type_key() const final { return "doubler"; }
  PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self) final {
    ++asked;
    if (name == "host.twice")
      return PackedFunc([sptr_to_self, this](TVMArgs args, TVMRetValue *rv) {
        *rv = factor_ * args[0].operator int64_t();
      });
    if (name == "fails") throw std::runtime_error("not today");
    return nullptr;
  }
  int Factor() const { return factor_; }
  int Times(int x) { return factor_ * x; }
  TVM_DECLARE_FINAL_OBJECT_INFO(Doubler, ModuleNode);

  int asked = 0;

 private:
  int factor_;
};

// As nodes were written before TVM 0.13.
class Old : public ModuleNode {
 public:
  const char *type_key() const override { return "old"; }
  PackedFunc GetFunction(const std::string &name, const ObjectPtr<Object> &) override {
    if (name != "answer") return PackedFunc(nullptr);
    return TypedPackedFunc<int()>([] { return 42; });
  }
};

void ANodeIsAModule() {
  PackedFunc kept;
  {
    const Module module(make_object<Doubler>(2));
    REQUIRE(std::string(module->type_key()) == "doubler" && alive == 1);
    REQUIRE(module.GetFunction("host.twice")(21).operator int() == 42);
    REQUIRE(module->ImplementsFunction("host.twice") && module.GetFunction("nothing") == nullptr);
    REQUIRE(Has(Thrown<std::runtime_error>([&] { module.GetFunction("fails"); }), "not today"));
    kept = module.GetFunction("host.twice");
    const Doubler *node = module.as<Doubler>();
    REQUIRE(node && node->Factor() == 2 && !module.as<Old>() && module.as<ModuleNode>() == node);
    REQUIRE(node->asked == 3);  // what it gave is kept
    const ObjectRef object = module;
    REQUIRE(object->IsInstance<Doubler>() && object->IsInstance<ModuleNode>() &&
            !object->IsInstance<Old>() && object.as<Doubler>() == node && !object.as<Old>());
    Module copy = module;
    const TypedPackedFunc<int(Module)> factor = [](Module m) { return m.as<Doubler>()->Factor(); };
    REQUIRE(factor(copy) == 2);
  }
  REQUIRE(alive == 1 && kept(4).operator int() == 8);
  kept = nullptr;
  REQUIRE(alive == 0);
  const Module old(make_object<Old>());
  REQUIRE(old.GetFunction("answer")().operator int() == 42 && !old.GetFunction("x").defined());
  REQUIRE(!Module(ObjectPtr<ModuleNode>()).defined());
}

void KernelsAndImportsFindIt(const Module &module) {
  const Module library = Module::LoadFromFile(std::getenv("TEST_LIBRARY"));
  REQUIRE(!library.as<Doubler>() && ObjectRef(library)->IsInstance<ModuleNode>() &&
          !ObjectRef(library)->IsInstance<Doubler>());
  Module top(make_object<Old>());
  top.Import(Module(make_object<Doubler>(3)));
  REQUIRE(top.GetFunction("host.twice", true)(5).operator int() == 15 && alive == 1);
  REQUIRE(top->imports().size() == 1 && top->imports()[0].as<Doubler>()->Factor() == 3);
  module.Import(top);
  REQUIRE(module.GetFunction("host.twice", true)(5).operator int() == 15);
}

void TypeKeysLiveWithTheirModules(const Module &module) {
  const char *key = module->type_key();
  const std::string text = module->type_key();
  REQUIRE(text == "library" && std::string(key) == "library" && key == module->type_key());
  REQUIRE(RuntimeEnabled("cpu") && RuntimeEnabled("llvm -mcpu=x") && !RuntimeEnabled("cuda"));
}

void MemberFunctionsAreFunctions() {
  Registry::Register("test.shape").set_body_method(&NDArray::Shape);
  Registry::Register("test.defined").set_body_method<NDArray>(&NDArray::IsContiguous);
  Registry::Register("test.factor").set_body_method<Module>(&Doubler::Factor);
  Registry::Register("test.times").set_body_method<Module>(&Doubler::Times);
  const NDArray array = OnesFromSecondUnit(4);
  REQUIRE((*Registry::Get("test.shape"))(array).operator ShapeTuple() == (ShapeTuple{4}));
  REQUIRE((*Registry::Get("test.defined"))(array).operator bool());
  const Module module(make_object<Doubler>(6));
  REQUIRE((*Registry::Get("test.factor"))(module).operator int() == 6);
  REQUIRE((*Registry::Get("test.times"))(module, 7).operator int() == 42);
  REQUIRE(Has(Thrown([] { (*Registry::Get("test.factor"))(Module(make_object<Old>())); }),
              "test.factor: argument 0: the module is made of another class"));
  for (const char *name : {"test.shape", "test.defined", "test.factor", "test.times"})
    REQUIRE(Registry::Remove(name));
}

void TheNumberOfThreadsIsSet(const Module &module) {
  const PackedFunc &config = *Registry::Get("runtime.config_threadpool"),
                   count = *Registry::Get("runtime.NumThreads");
  const int before = count();
  config(1, 3);
  REQUIRE(count().operator int() == 3);
  REQUIRE(module.GetFunction("parallel")(0).operator int() <= 3);
  config(-1, before);
  REQUIRE(count().operator int() == before);
  REQUIRE(Has(Thrown([&] { config(1, -1); }), "-1 threads"));
  REQUIRE(Has(Thrown([&] { config(1); }), "expected 2"));
}

}  // namespace

void TestNodes(const Module &module) {
  ANodeIsAModule();
  TypeKeysLiveWithTheirModules(module);
  MemberFunctionsAreFunctions();
  TheNumberOfThreadsIsSet(module);
  const Module own = Module::LoadFromFile(std::getenv("TEST_LIBRARY"));
  KernelsAndImportsFindIt(own);
}
