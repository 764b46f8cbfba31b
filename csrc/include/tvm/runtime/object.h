/* object.h - ObjectRef: one reference to something that the runtime counts. Module, PackedFunc and NDArray
 * are ObjectRefs; a copy is another reference to the same thing, as with std::shared_ptr. */
#ifndef TVM_RUNTIME_OBJECT_H_
#define TVM_RUNTIME_OBJECT_H_

#include <tvm/runtime/logging.h>

#include <cstddef>
#include <utility>

MBLOB_FACE_BEGIN

namespace detail {
/* A handle together with the reference that comes with it. */
struct Owned {
  void *handle;
};
}  // namespace detail

class ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMObjectHandle;

  ObjectRef() = default;
  ObjectRef(std::nullptr_t) {} /* NOLINT: `Module m = nullptr` */
  ObjectRef(detail::Owned object, int type_code) : handle_(object.handle), type_code_(type_code) {}
  ObjectRef(const ObjectRef &other)
      : ObjectRef(detail::Owned{Share(other.handle_, other.type_code_)}, other.type_code_) {}
  ObjectRef(ObjectRef &&other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), type_code_(other.type_code_) {}
  ObjectRef &operator=(ObjectRef other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(type_code_, other.type_code_);
    return *this;
  }
  ~ObjectRef() { Free(handle_, type_code_); }

  bool defined() const { return handle_ != nullptr; }
  bool same_as(const ObjectRef &other) const { return handle_ == other.handle_; }
  friend bool operator==(const ObjectRef &a, const ObjectRef &b) { return a.same_as(b); }
  friend bool operator!=(const ObjectRef &a, const ObjectRef &b) { return !a.same_as(b); }
  bool operator<(const ObjectRef &other) const { return handle_ < other.handle_; }

  /* The handle of the C API, borrowed; its TVMArgTypeCode. */
  void *handle() const { return handle_; }
  int type_code() const { return type_code_; }
  /* The handle and the reference, which are the caller's from now on. */
  void *release() { return std::exchange(handle_, nullptr); }

  /* Another reference to what `handle` is. */
  static void *Share(void *handle, int type_code) {
    if (!handle) return nullptr;
    TVMValue value;
    value.v_handle = handle;
    detail::CheckCall(TVMCbArgToReturn(&value, &type_code));
    return value.v_handle;
  }

 private:
  static void Free(void *handle, int type_code) {
    if (!handle) return;
    if (type_code == kTVMModuleHandle) (void)TVMModFree(handle);
    if (type_code == kTVMPackedFuncHandle) (void)TVMFuncFree(handle);
    if (type_code == kTVMNDArrayHandle) (void)TVMArrayFree(static_cast<TVMArrayHandle>(handle));
  }

  void *handle_ = nullptr;
  int type_code_ = kTypeCode;
};

/* The same object as a `T`; throws if it is something else. Null stays null. */
template <typename T>
T Downcast(ObjectRef ref) {
  if (!ref.defined()) return T();
  const int code = ref.type_code();
  if (code != T::kTypeCode)
    throw InternalError("Downcast: the object has type code " + std::to_string(code) + ", expected " +
                        std::to_string(T::kTypeCode));
  return T(detail::Owned{ref.release()});
}

MBLOB_FACE_END

namespace tvm {
using runtime::Downcast;
using runtime::ObjectRef;
}  // namespace tvm

#endif /* TVM_RUNTIME_OBJECT_H_ */
