/* ffi_module.h - tvm::ffi::Module for C++ programs that were written for tvm_ffi and link
 * libmblob-ffi in place of libtvm_ffi. The classes are those of tvm_ffi's own headers; what its
 * library defines of them is defined here, over mblob.h.
 *
 *   c++ -include mblob/ffi_module.h main.cpp -I.../tvm_ffi/include -lmblob-ffi -lmblob
 *
 * Any number of sources may include it. Module::LoadFromFile opens what mblob_open opens. Modules
 * that functions take or give are such Modules, too. */
#ifndef MBLOB_FFI_MODULE_H
#define MBLOB_FFI_MODULE_H

#include <mblob.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/reflection/registry.h>
#if __has_include(<tvm/ffi/tvm_ffi.h>) /* all headers; tvm_ffi 0.1.0 to 0.1.7 have no such file */
#include <tvm/ffi/tvm_ffi.h>
#endif

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mblob_ffi {

[[noreturn]] inline void Raise() {
  throw ::tvm::ffi::Error("RuntimeError", mblob_last_error(), "");
}

/* A module of mblob. */
class __attribute__((visibility("hidden"))) LibraryObj : public ::tvm::ffi::ModuleObj {
 public:
  /* Takes over the reference. */
  explicit LibraryObj(mblob_module *module) : module_(module) {}
  LibraryObj(const LibraryObj &) = delete;
  LibraryObj &operator=(const LibraryObj &) = delete;
  virtual ~LibraryObj() { mblob_module_release(module_); }

  mblob_module *handle() const { return module_; }
  const char *kind() const final { return mblob_module_type_key(module_); }
  int GetPropertyMask() const final { return ::tvm::ffi::Module::kRunnable; }
  ::tvm::ffi::Optional<::tvm::ffi::Function> GetFunction(const ::tvm::ffi::String &name) final {
    mblob_function *function = nullptr;
    const int status = mblob_module_function(module_, name.c_str(), 0, &function);
    if (status == MBLOB_E_NOT_FOUND) return std::nullopt;
    if (status) Raise();
    void *object = nullptr;
    const int made = mblob_function_to_ffi(function, &object);
    mblob_function_release(function);
    if (made) Raise();
    using ::tvm::ffi::details::ObjectUnsafe;
    return ObjectUnsafe::ObjectRefFromObjectPtr<::tvm::ffi::Function>(
        ObjectUnsafe::ObjectPtrFromOwned<::tvm::ffi::Object>(static_cast<TVMFFIObject *>(object)));
  }
  /* The module, whose reference is taken over, and all that it imports. */
  static ::tvm::ffi::Module Of(mblob_module *root) {
    using ::tvm::ffi::make_object;
    using ::tvm::ffi::Module;
    std::unordered_map<mblob_module *, Module> made; /* one object of each */
    std::vector<mblob_module *> waiting{root};
    made.emplace(root, Module(make_object<LibraryObj>(root)));
    for (size_t at = 0; at < waiting.size(); ++at) {
      mblob_module *const module = waiting[at];
      for (size_t i = 0; i < mblob_module_import_count(module); ++i) {
        mblob_module *const import = mblob_module_import_at(module, i);
        auto found = made.find(import);
        if (found == made.end()) {
          Module object(make_object<LibraryObj>(mblob_module_retain(import)));
          found = made.emplace(import, std::move(object)).first;
          waiting.push_back(import);
        }
        made.at(module)->ImportModule(found->second);
      }
    }
    return made.at(root);
  }

 private:
  mblob_module *module_;
};

/* Whoever passes values between mblob and C++ finds these two: a module of mblob as an object, and
 * the module of mblob that is behind an object, or null. */
inline const bool kRegistered = [] {
  using ::tvm::ffi::Module;
  ::tvm::ffi::reflection::TypeAttrDef<::tvm::ffi::ModuleObj>()
      .def("__mblob_object__",
           [](void *module) {
             return LibraryObj::Of(mblob_module_retain(static_cast<mblob_module *>(module)));
           })
      .def("__mblob_handle__", [](const Module &module) -> void * {
        const auto *library = dynamic_cast<const LibraryObj *>(module.get());
        return library ? library->handle() : nullptr;
      });
  return true;
}();

}  // namespace mblob_ffi

namespace tvm {
namespace ffi {

/* Functions that tvm_ffi's library has. */
inline void ModuleObj::ImportModule(const Module &other) { imports_.push_back(other); }
inline void ModuleObj::ClearImports() { imports_.clear(); }
inline Optional<Function> ModuleObj::GetFunction(const String &name, bool query_imports) {
  Optional<Function> found = GetFunction(name);
  std::unordered_set<ModuleObj *> seen; /* each module once, however many import it */
  std::vector<ModuleObj *> waiting{this};
  while (query_imports && !found.has_value() && !waiting.empty()) {
    ModuleObj *const module = waiting.back();
    waiting.pop_back();
    if (!seen.insert(module).second) continue;
    if (module != this) found = module->GetFunction(name);
    for (int64_t i = static_cast<int64_t>(module->imports_.size()); i-- > 0;)
      waiting.push_back(const_cast<ModuleObj *>(module->imports_[i].cast<Module>().operator->()));
  }
  return found;
}
inline bool ModuleObj::ImplementsFunction(const String &name, bool query_imports) {
  return GetFunction(name, query_imports).has_value();
}
inline Module Module::LoadFromFile(const String &file_name) {
  mblob_module *module = nullptr;
  if (mblob_open(file_name.c_str(), nullptr, &module)) ::mblob_ffi::Raise();
  return ::mblob_ffi::LibraryObj::Of(module);
}

}  // namespace ffi
}  // namespace tvm

#endif /* MBLOB_FFI_MODULE_H */
