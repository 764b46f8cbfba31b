/* module.h - Module: a reference to a module of a library, or one that a function made. */
#ifndef TVM_RUNTIME_MODULE_H_
#define TVM_RUNTIME_MODULE_H_

#include <tvm/runtime/container/string.h>
#include <tvm/runtime/object.h>

#include <ostream>
#include <string>
#include <vector>

namespace dmlc {
class Stream; /* <dmlc/io.h> */
}

MBLOB_FACE_BEGIN

/* What GetPropertyMask is made of. */
enum ModulePropertyMask : int { kBinarySerializable = 1, kRunnable = 2, kDSOExportable = 4 };

/* Names that libraries export, and functions that compiled code asks for. */
namespace symbol {
inline constexpr const char *tvm_module_ctx = "__tvm_module_ctx";
inline constexpr const char *tvm_dev_mblob = "__tvm_dev_mblob";
inline constexpr const char *tvm_set_device = "__tvm_set_device";
inline constexpr const char *tvm_global_barrier_state = "__tvm_global_barrier_state";
inline constexpr const char *tvm_prepare_global_barrier = "__tvm_prepare_global_barrier";
inline constexpr const char *tvm_module_main = "__tvm_main__";
inline constexpr const char *tvm_param_prefix = "__tvm_param__";
inline constexpr const char *tvm_lookup_linked_param = "_lookup_linked_param";
inline constexpr const char *tvm_entrypoint_suffix = "run";
}  // namespace symbol

class ModuleNode;
class ModuleView;
class PackedFunc;

class MBLOB_HIDDEN Module : public ObjectRef {
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
  /* The function of that name; null if there is none. With `query_imports` the imports are asked
   * too. */
  PackedFunc GetFunction(const std::string &name, bool query_imports = false) const;
  void Import(const Module &other) const {
    detail::CheckCall(TVMModImport(Defined(), other.Defined()));
  }
  /* `module->type_key()` and so on. */
  ModuleView operator->() const;
  /* The node that the module was made of, if it is a `Node`; else null. It lives as long as the
   * module. */
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
class MBLOB_HIDDEN ModuleView {
 public:
  const ModuleView *operator->() const { return this; }

  /* Lives as long as the module. */
  const char *type_key() const;
  PackedFunc GetFunction(const std::string &name, bool query_imports = false) const;
  /* As one calls a node; the second argument says nothing here. */
  PackedFunc GetFunction(const std::string &name, const ObjectPtr<Object> &sptr_to_self) const;
  bool ImplementsFunction(const std::string &name, bool query_imports = false) const;
  std::vector<Module> imports() const;
  void Import(const Module &other) const { module_.Import(other); }

  /* What the node says that the module was made of. Of others: no source, and an error from
   * SaveToFile, as TVM has it for compiled code. */
  String GetSource(const String &format = "") const;
  String GetFormat() const;
  void SaveToFile(const String &file_name, const String &format) const;
  void SaveToBinary(dmlc::Stream *stream) const;
  int GetPropertyMask() const;
  bool IsDSOExportable() const { return (GetPropertyMask() & kDSOExportable) != 0; }
  bool IsBinarySerializable() const { return (GetPropertyMask() & kBinarySerializable) != 0; }

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
 * What GetFunction gave for a name is kept, and it is not asked for that name again. A function
 * that uses the node keeps `sptr_to_self`. Functions may be asked for, and called, on any
 * thread. */
class MBLOB_HIDDEN ModuleNode : public Object {
 public:
  virtual const char *type_key() const = 0;
  /* One of the two is overridden: that of TVM 0.13 and later, or that of 0.12 and before. */
  virtual PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self);
  virtual PackedFunc GetFunction(const std::string &name, const ObjectPtr<Object> &sptr_to_self);
  /* True if it has a function that GetFunction does not give. */
  virtual bool ImplementsFunction(const String &, bool = false) { return false; }

  /* For programs that export modules themselves; here nothing asks but they. Of a pair one is
   * overridden, as above. */
  virtual void SaveToFile(const String &file_name, const String &format);
  virtual void SaveToFile(const std::string &file_name, const std::string &format);
  virtual void SaveToBinary(dmlc::Stream *stream);
  virtual String GetSource(const String &format);
  virtual std::string GetSource(const std::string &format);
  virtual String GetFormat() { return ""; }
  virtual int GetPropertyMask() const { return 0; }
  virtual bool IsDSOExportable() const { return (GetPropertyMask() & kDSOExportable) != 0; }
  virtual bool IsBinarySerializable() const {
    return (GetPropertyMask() & kBinarySerializable) != 0;
  }
};

inline std::ostream &operator<<(std::ostream &os, const Module &module) {
  return os << "Module(type_key= " << module->type_key() << ')';
}

/* True if code for that target can run: "cpu", "llvm" and "c" here. */
bool RuntimeEnabled(const std::string &target);

MBLOB_FACE_END

/* GetFunction of a node as a table of its member functions (0.13 and later):
 *
 *   TVM_MODULE_VTABLE_BEGIN("doubler");
 *   TVM_MODULE_VTABLE_ENTRY("twice", &Doubler::Twice);
 *   TVM_MODULE_VTABLE_ENTRY_PACKED("any", &Doubler::Any);     void Any(TVMArgs args, TVMRetValue *rv)
 *   TVM_MODULE_VTABLE_END();                                  or _END_WITH_DEFAULT(&Doubler::Other) */
#define TVM_MODULE_VTABLE_BEGIN(TypeKey)                                         \
  const char *type_key() const final { return TypeKey; }                         \
  ::tvm::runtime::PackedFunc GetFunction(                                        \
      const ::tvm::runtime::String &_name,                                       \
      const ::tvm::runtime::ObjectPtr<::tvm::runtime::Object> &_self) override { \
    (void)_self
#define TVM_MODULE_VTABLE_ENTRY(Name, MemFunc) \
  if (_name == Name) return ::tvm::runtime::detail::MemberFunction(_self, this, MemFunc, Name)
#define TVM_MODULE_VTABLE_ENTRY_PACKED(Name, MemFunc) \
  if (_name == Name) return ::tvm::runtime::detail::PackedMember(_self, this, MemFunc)
#define TVM_MODULE_VTABLE_END() \
  return nullptr;               \
  }                             \
  static_assert(true, "")
#define TVM_MODULE_VTABLE_END_WITH_DEFAULT(MemFunc) \
  return (this->*(MemFunc))(_name);                 \
  }                                                 \
  static_assert(true, "")

/* Defines what is declared here, and what programs expect with this header. */
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_MODULE_H_ */
