/* ffi_module.h - tvm::ffi::Module for C++ programs that were written for tvm_ffi and link libmblob-ffi
 * in place of libtvm_ffi. The classes are those of tvm_ffi's own headers; what its library defines of
 * them is defined here, over mblob.h.
 *
 *   c++ -include mblob/ffi_module.h main.cpp -I.../tvm_ffi/include -lmblob-ffi -lmblob
 *
 * Any number of sources may include it. Module::LoadFromFile opens what mblob_open opens. */
#ifndef MBLOB_FFI_MODULE_H
#define MBLOB_FFI_MODULE_H

#include <mblob.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

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
  static ::tvm::ffi::Module Of(mblob_module *module) {
    ::tvm::ffi::Module made(::tvm::ffi::make_object<LibraryObj>(module));
    for (size_t i = 0; i < mblob_module_import_count(module); ++i)
      made->ImportModule(Of(mblob_module_retain(mblob_module_import_at(module, i))));
    return made;
  }

 private:
  mblob_module *module_;
};

}  // namespace mblob_ffi

namespace tvm {
namespace ffi {

/* What tvm_ffi's library has. */
inline void ModuleObj::ImportModule(const Module &other) { imports_.push_back(other); }
inline void ModuleObj::ClearImports() { imports_.clear(); }
inline Optional<Function> ModuleObj::GetFunction(const String &name, bool query_imports) {
  Optional<Function> found = GetFunction(name);
  for (size_t i = 0; query_imports && !found.has_value() && i < imports_.size(); ++i)
    found = imports_[i].cast<Module>()->GetFunction(name, true);
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
