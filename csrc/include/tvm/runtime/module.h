/* module.h - Module: a reference to a module of a library, or one that a function made. */
#ifndef TVM_RUNTIME_MODULE_H_
#define TVM_RUNTIME_MODULE_H_

#include <tvm/runtime/container/string.h>
#include <tvm/runtime/object.h>

#include <string>
#include <vector>

MBLOB_FACE_BEGIN

class ModuleNode;
class ModuleView;
class PackedFunc;

class Module : public ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMModuleHandle;

  Module() = default;
  Module(std::nullptr_t) {} /* NOLINT */
  explicit Module(detail::Owned module) : ObjectRef(module, kTypeCode) {}
  /* A module whose functions the node gives. Each call makes another module of the node. */
  explicit Module(ObjectPtr<ModuleNode> node);

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
  ModuleView operator->() const;
  /* The node that the module was made of, if it is a `Node`; else null. It lives as long as the module. */
  template <typename Node>
  Node *as() const;

 private:
  friend class ModuleView;
  TVMModuleHandle Defined() const {
    if (!defined()) throw InternalError("Module: the module is null");
    return handle();
  }
};

/* What `->` of a Module gives. */
class ModuleView {
 public:
  const ModuleView *operator->() const { return this; }

  /* Lives as long as the module. */
  const char *type_key() const;
  PackedFunc GetFunction(const std::string &name, bool query_imports = false) const;
  bool ImplementsFunction(const std::string &name, bool query_imports = false) const;
  std::vector<Module> imports() const;
  void Import(const Module &other) const { module_.Import(other); }

 private:
  friend class Module;
  explicit ModuleView(Module module) : module_(std::move(module)) { (void)module_.Defined(); }
  Module module_;
};

inline ModuleView Module::operator->() const { return ModuleView(*this); }

/* The base of modules that are written in C++:
 *
 *   class Doubler : public ModuleNode {
 *    public:
 *     const char *type_key() const final { return "doubler"; }
 *     PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self) final;
 *   };
 *   Module module(make_object<Doubler>());
 *
 * What GetFunction gave for a name is kept, and it is not asked for that name again. A function that uses the node
 * keeps `sptr_to_self`. Functions may be asked for, and called, on any thread. */
class ModuleNode : public Object {
 public:
  virtual const char *type_key() const = 0;
  /* One of the two is overridden: that of TVM 0.13 and later, or that of 0.12 and before. */
  virtual PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self);
  virtual PackedFunc GetFunction(const std::string &name, const ObjectPtr<Object> &sptr_to_self);
  /* Not asked here: modules that are made in code are not exported. */
  virtual int GetPropertyMask() const { return 0; }
  virtual bool IsDSOExportable() const { return false; }
};

/* Whether code for that target can run: "cpu", "llvm" and "c" here. */
bool RuntimeEnabled(const std::string &target);

MBLOB_FACE_END

/* Defines what is declared here, and what programs expect with this header. */
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_MODULE_H_ */
