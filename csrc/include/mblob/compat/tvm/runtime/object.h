/* object.h - ObjectRef: one reference to something that the runtime counts. Module, PackedFunc
 * and NDArray are ObjectRefs; a copy is another reference to the same thing, as with
 * std::shared_ptr. */
#ifndef TVM_RUNTIME_OBJECT_H_
#define TVM_RUNTIME_OBJECT_H_

#include <tvm/runtime/container/optional.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

MBLOB_FACE_BEGIN

/* The base of what is written in C++ and counted by ObjectPtr: nodes of modules. */
class Object {
 public:
  virtual ~Object() = default;
};

template <typename T>
using ObjectPtr = std::shared_ptr<T>;

template <typename T, typename... Args>
ObjectPtr<T> make_object(Args &&...args) {
  static_assert(std::is_base_of_v<Object, T>,
                "make_object makes classes that derive from tvm::runtime::Object");
  return std::make_shared<T>(std::forward<Args>(args)...);
}

namespace detail {
/* A handle together with the reference that comes with it. */
struct Owned {
  void *handle;
};
}  // namespace detail

class String;
/* The text of a String that is an object: `data` and `size`. */
class StringObj : public TVMByteArray {};

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

  /* To compare with; there is nothing to see there. */
  const Object *get() const { return static_cast<const Object *>(handle_); }
  /* References to the object. Of a module or function of a library: references to that library. */
  int use_count() const;
  bool unique() const { return use_count() == 1; }
  /* Objects of one's own are not values of this runtime: it could not tell what they are. */
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>>
  explicit ObjectRef(const ObjectPtr<T> &) {
    static_assert(
        !std::is_base_of_v<Object, T>,
        "mblob: an ObjectRef cannot hold an object of one's own; only a Module can be made of a node, "
        "which derives from ModuleNode (docs/tvm_hosts.md)");
  }

  /* The same object as a `T`, which is a class of references (NDArray, Array<..>, ADT, String,
   * ...); nothing if it is something else. Of StringObj a pointer to the text, null if it is no
   * String, which lives as long as the object. */
  template <typename T>
  auto as() const;

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
    if (type_code == kTVMObjectHandle) (void)TVMObjectFree(handle);
  }

  void *handle_ = nullptr;
  int type_code_ = kTypeCode;
};

namespace detail {

template <typename T, typename = void>
struct HasTypeIndex : std::false_type {};
template <typename T>
struct HasTypeIndex<T, std::void_t<decltype(T::kTypeIndex)>> : std::true_type {};
template <typename T, typename = void>
struct HasIsInstance : std::false_type {};
template <typename T>
struct HasIsInstance<T, std::void_t<decltype(T::IsInstance(nullptr))>> : std::true_type {};

/* Whether an object is what a reference of class T refers to. */
template <typename T>
bool IsA(void *handle, int type_code) {
  if constexpr (std::is_same_v<T, ObjectRef>) return true;
  if (type_code != T::kTypeCode) return false;
  if constexpr (HasTypeIndex<T>::value) {
    unsigned index = 0;
    CheckCall(TVMObjectGetTypeIndex(handle, &index));
    return index == T::kTypeIndex;
  } else if constexpr (HasIsInstance<T>::value) {
    return T::IsInstance(handle);
  } else {
    return true;
  }
}

inline constexpr unsigned kStringIndex = 3; /* the type index of String */
/* The text of an object; null if it is no String. Defined in packed_func.h. */
inline const StringObj *StringOf(const ObjectRef &ref);

}  // namespace detail

/* The same object as a `T`; throws if it is something else. Null stays null. */
template <typename T>
T Downcast(ObjectRef ref) {
  if (!ref.defined()) return T();
  if constexpr (std::is_same_v<T, String>) {
    const StringObj *text = detail::StringOf(ref);
    if (!text) throw InternalError("Downcast: the object is no String");
    return T(text->data, text->size);
  } else {
    const int code = ref.type_code();
    if (code != T::kTypeCode)
      throw InternalError("Downcast: the object has type code " + std::to_string(code) +
                          ", expected " + std::to_string(T::kTypeCode));
    if (!detail::IsA<T>(ref.handle(), code))
      throw InternalError("Downcast: the object of type code " + std::to_string(code) +
                          " is of another class");
    return T(detail::Owned{ref.release()});
  }
}

template <typename T>
auto ObjectRef::as() const {
  if constexpr (std::is_same_v<T, StringObj>) {
    return detail::StringOf(*this);
  } else {
    bool fits;
    if constexpr (std::is_same_v<T, String>)
      fits = detail::StringOf(*this) != nullptr;
    else
      fits = defined() && detail::IsA<T>(handle_, type_code_);
    return fits ? Optional<T>(Downcast<T>(*this)) : Optional<T>();
  }
}

MBLOB_FACE_END

namespace tvm {
using runtime::Downcast;
using runtime::Object;
using runtime::ObjectPtr;
using runtime::ObjectRef;
using runtime::StringObj;
}  // namespace tvm

/* Of classes of nodes: nothing has to be declared here. */
#ifndef TVM_DECLARE_FINAL_OBJECT_INFO
#define TVM_DECLARE_FINAL_OBJECT_INFO(type, parent) static_assert(true, "")
#define TVM_DECLARE_BASE_OBJECT_INFO(type, parent) static_assert(true, "")
#define TVM_REGISTER_OBJECT_TYPE(type) static_assert(true, "")
#endif

#endif /* TVM_RUNTIME_OBJECT_H_ */
