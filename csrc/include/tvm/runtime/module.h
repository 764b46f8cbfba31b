/* module.h - Module: a reference to a module of a library, or one that a function made. */
#ifndef TVM_RUNTIME_MODULE_H_
#define TVM_RUNTIME_MODULE_H_

#include <tvm/runtime/object.h>

#include <string>
#include <vector>

MBLOB_FACE_BEGIN

class ModuleNode;
class PackedFunc;

class Module : public ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMModuleHandle;

  Module() = default;
  Module(std::nullptr_t) {} /* NOLINT */
  explicit Module(detail::Owned module) : ObjectRef(module, kTypeCode) {}

  /* Opens a library; its constructors run. `format` is not needed: the content decides. */
  static Module LoadFromFile(const std::string &file_name, const std::string &format = "") {
    TVMModuleHandle handle = nullptr;
    detail::CheckCall(TVMModLoadFromFile(file_name.c_str(), format.c_str(), &handle));
    return Module(detail::Owned{handle});
  }
  /* The function of that name; null if there is none. With `query_imports` the imports are asked too. */
  PackedFunc GetFunction(const std::string &name, bool query_imports = false) const;
  void Import(const Module &other) const { detail::CheckCall(TVMModImport(Defined(), other.Defined())); }
  /* `module->type_key()` and so on. */
  ModuleNode operator->() const;

 private:
  friend class ModuleNode;
  TVMModuleHandle Defined() const {
    if (!defined()) throw InternalError("Module: the module is null");
    return handle();
  }
};

/* What `->` of a Module gives. Others cannot be made: modules of one's own are made with mblob_module_create.
 */
class ModuleNode {
 public:
  const ModuleNode *operator->() const { return this; }

  std::string type_key() const;
  PackedFunc GetFunction(const std::string &name, bool query_imports = false) const;
  bool ImplementsFunction(const std::string &name, bool query_imports = false) const;
  std::vector<Module> imports() const;
  void Import(const Module &other) const { module_.Import(other); }

 private:
  friend class Module;
  explicit ModuleNode(Module module) : module_(std::move(module)) { (void)module_.Defined(); }
  Module module_;
};

inline ModuleNode Module::operator->() const { return ModuleNode(*this); }

MBLOB_FACE_END

/* Defines what is declared here, and what programs expect with this header. */
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_MODULE_H_ */
