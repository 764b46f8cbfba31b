// In the style of apps/dso_plugin_module/plugin_module.cc: a library whose function makes a module of
// a class of its own.
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

namespace tvm_dso_plugin {
using namespace tvm::runtime;

class MyModuleNode : public ModuleNode {
 public:
  explicit MyModuleNode(int value) : value_(value) {}
  virtual const char *type_key() const final { return "MyModule"; }
  int GetPropertyMask() const final { return ModulePropertyMask::kRunnable; }
  virtual PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self) final {
    if (name == "add")
      return TypedPackedFunc<int(int)>([sptr_to_self, this](int value) { return value_ + value; });
    if (name == "mul")
      return TypedPackedFunc<int(int)>([sptr_to_self, this](int value) { return value_ * value; });
    LOG(FATAL) << "unknown function " << name;
    return PackedFunc();
  }

 private:
  int value_;
};

void CreateMyModule_(TVMArgs args, TVMRetValue *rv) {
  int value = args[0];
  *rv = Module(make_object<MyModuleNode>(value));
}

int SubOne_(int x) { return x - 1; }

TVM_DLL_EXPORT_PACKED_FUNC(CreateMyModule, tvm_dso_plugin::CreateMyModule_);
TVM_DLL_EXPORT_TYPED_FUNC(SubOne, tvm_dso_plugin::SubOne_);
}  // namespace tvm_dso_plugin
