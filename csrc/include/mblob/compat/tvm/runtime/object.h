/* object.h - ObjectRef: one reference to something that is counted. Module, PackedFunc and NDArray
 * are ObjectRefs of what the runtime counts; a copy is another reference to the same thing. Classes
 * that derive from Object are counted by themselves, with the pointers and macros that TVM has for
 * them; the runtime does not know them, so its functions do not take them. */
#ifndef TVM_RUNTIME_OBJECT_H_
#define TVM_RUNTIME_OBJECT_H_

#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/container/string.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

MBLOB_FACE_BEGIN

template <typename T>
class ObjectPtr;
class ObjectRef;

struct TypeIndex {
  enum : uint32_t {
    kRoot = 0,
    kRuntimeModule = 1,
    kRuntimeNDArray = 2,
    kStaticIndexEnd = 8,
    kDynamic = 8
  };
};

/* The base of what is written in C++ and counted by ObjectPtr. */
class MBLOB_HIDDEN Object {
 public:
  static constexpr const char *_type_key = "runtime.Object";
  static uint32_t RuntimeTypeIndex() { return TypeIndex::kRoot; }

  Object() = default;
  Object(const Object &) {}
  Object &operator=(const Object &) { return *this; }
  virtual ~Object() = default;

  /* Of the most derived class that has TVM_DECLARE_BASE_OBJECT_INFO, or _FINAL_. */
  virtual uint32_t type_index() const { return RuntimeTypeIndex(); }
  virtual std::string GetTypeKey() const { return _type_key; }
  template <typename T>
  bool IsInstance() const {
    return dynamic_cast<const T *>(this) != nullptr;
  }
  int use_count() const { return references_.load(std::memory_order_relaxed); }
  bool unique() const { return use_count() == 1; }

 private:
  template <typename>
  friend class ObjectPtr;
  friend class ObjectRef;
  template <typename T, typename E, typename... Args>
  friend ObjectPtr<T> make_inplace_array_object(std::size_t count, Args &&...args);

  void Retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (memory_) {
      void *const memory = memory_;
      this->~Object();
      ::operator delete(memory);
    } else {
      delete this;
    }
  }

  mutable std::atomic<int> references_{0};
  void *memory_ = nullptr; /* that it was made in, if not by `new` */
};

/* A counted pointer. */
template <typename T>
class MBLOB_HIDDEN ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(std::nullptr_t) {} /* NOLINT: as in TVM */
  explicit ObjectPtr(T *object) : object_(object) {
    if (object) object->Retain();
  }
  ObjectPtr(const ObjectPtr &other) : ObjectPtr(other.object_) {}
  ObjectPtr(ObjectPtr &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U *, T *>>>
  ObjectPtr(const ObjectPtr<U> &other) : ObjectPtr(static_cast<T *>(other.get())) {} /* NOLINT */
  ObjectPtr &operator=(ObjectPtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ObjectPtr() { reset(); }

  T *get() const { return object_; }
  T *operator->() const { return object_; }
  T &operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  void reset() {
    if (T *object = std::exchange(object_, nullptr)) object->Release();
  }
  void swap(ObjectPtr &other) { std::swap(object_, other.object_); }
  int use_count() const { return object_ ? object_->use_count() : 0; }
  bool unique() const { return use_count() == 1; }

  bool operator==(const ObjectPtr &other) const { return object_ == other.object_; }
  bool operator!=(const ObjectPtr &other) const { return object_ != other.object_; }
  bool operator==(std::nullptr_t) const { return !object_; }
  bool operator!=(std::nullptr_t) const { return object_ != nullptr; }

 private:
  T *object_ = nullptr;
};

template <typename T, typename... Args>
ObjectPtr<T> make_object(Args &&...args) {
  static_assert(std::is_base_of_v<Object, T>,
                "make_object makes classes that derive from tvm::runtime::Object");
  return ObjectPtr<T>(new T(std::forward<Args>(args)...));
}

/* An object of class T with room for `count` elements behind it (container/base.h). */
template <typename T, typename E, typename... Args>
ObjectPtr<T> make_inplace_array_object(std::size_t count, Args &&...args) {
  static_assert(
      std::is_base_of_v<Object, T> && alignof(T) % alignof(E) == 0 && sizeof(T) % alignof(E) == 0,
      "elements follow the object, so it has at least their alignment");
  if (count > (static_cast<std::size_t>(PTRDIFF_MAX) - sizeof(T)) / sizeof(E))
    throw std::bad_alloc();
  void *const memory = ::operator new(sizeof(T) + count * sizeof(E));
  try {
    T *object = new (memory) T(std::forward<Args>(args)...);
    static_cast<Object *>(object)->memory_ = memory;
    return ObjectPtr<T>(object);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
}

namespace detail {
/* A handle together with the reference that comes with it. */
struct MBLOB_HIDDEN Owned {
  void *handle;
};
}  // namespace detail

/* What `->` shows of any object: what Object has. */
class MBLOB_HIDDEN ObjectView {
 public:
  ObjectView(void *handle, int type_code) : handle_(handle), type_code_(type_code) {}
  const ObjectView *operator->() const { return this; }

  /* True if it is of a class of objects: one's own, StringObj, NDArray::Container, ModuleNode, ...
   * Defined in packed_func.h, as are the others. */
  template <typename T>
  bool IsInstance() const;
  uint32_t type_index() const;
  std::string GetTypeKey() const;
  /* References to the object. Of a module or function of a library: references to that library. */
  int use_count() const;
  bool unique() const { return use_count() == 1; }

 private:
  void *handle_;
  int type_code_;
};

class MBLOB_HIDDEN ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMObjectHandle;
  static constexpr int kOwnObject = -64; /* a type code that the runtime does not know */
  using ContainerType = Object;

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

  /* An object of one's own; others only to compare with: there is nothing to see there. */
  const Object *get() const { return static_cast<const Object *>(handle_); }
  /* References to the object. Of a module or function of a library: references to that library. */
  int use_count() const;
  bool unique() const { return use_count() == 1; }
  /* An object of a class of one's own. */
  template <typename T, typename = std::enable_if_t<std::is_base_of_v<Object, T>>>
  explicit ObjectRef(const ObjectPtr<T> &object)
      : handle_(const_cast<Object *>(static_cast<const Object *>(object.get()))),
        type_code_(kOwnObject) {
    if (object.get()) object.get()->Retain();
  }
  ObjectView operator->() const { return {handle_, type_code_}; }

  /* The same object as a `T`, which is a class of references (NDArray, Array<..>, ADT, String,
   * ...); nothing if it is something else. Of a class of objects (one's own, StringObj, MapNode,
   * ArrayNode, ShapeTupleObj, NDArray::Container) a pointer, which lives as long as the object, null
   * if it is no such object. */
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
    if (type_code == kOwnObject) {
      static_cast<Object *>(handle)->Retain();
      return handle;
    }
    TVMValue value;
    value.v_handle = handle;
    detail::CheckCall(TVMCbArgToReturn(&value, &type_code));
    return value.v_handle;
  }

 private:
  static void Free(void *handle, int type_code) {
    if (!handle) return;
    if (type_code == kOwnObject) static_cast<Object *>(handle)->Release();
    if (type_code == kTVMModuleHandle) (void)TVMModFree(handle);
    if (type_code == kTVMPackedFuncHandle) (void)TVMFuncFree(handle);
    if (type_code == kTVMNDArrayHandle) (void)TVMArrayFree(static_cast<TVMArrayHandle>(handle));
    if (type_code == kTVMObjectHandle) (void)TVMObjectFree(handle);
  }

  void *handle_ = nullptr;
  int type_code_ = kTypeCode;
};

/* What pointers to objects of the runtime point to; nothing of it is seen. */
class MapNode {
 public:
  static constexpr uint32_t RuntimeTypeIndex() { return 5; }
};
class ArrayNode {
 public:
  static constexpr uint32_t RuntimeTypeIndex() { return 4; }
};
struct ShapeTupleObj;
class ModuleNode;

namespace detail {

template <typename T, typename = void>
struct HasTypeIndex : std::false_type {};
template <typename T>
struct HasTypeIndex<T, std::void_t<decltype(T::kTypeIndex)>> : std::true_type {};
template <typename T, typename = void>
struct HasIsInstance : std::false_type {};
template <typename T>
struct HasIsInstance<T, std::void_t<decltype(T::IsInstance(nullptr))>> : std::true_type {};
/* True for a class of references to objects of one's own (TVM_DEFINE_OBJECT_REF_METHODS). */
template <typename T, typename = void>
struct IsOwnRef : std::false_type {};
template <typename T>
struct IsOwnRef<T, std::void_t<typename T::ContainerType>>
    : std::bool_constant<std::is_base_of_v<Object, typename T::ContainerType> &&
                         !std::is_same_v<Object, typename T::ContainerType>> {};

/* A pointer to the extents of a ShapeTuple, which it keeps. Defined in packed_func.h. */
template <typename T>
struct ShapePointer;

/* The node that a module was made of, if it is a `Node`; else null. Defined in packed_func.h. */
template <typename Node>
const Node *NodeOf(void *module);

/* An object of one's own, or the node of a module; null if it is no `T`. */
template <typename T>
const T *Pointer(void *handle, int type_code) {
  if (type_code == ObjectRef::kOwnObject)
    return dynamic_cast<const T *>(static_cast<const Object *>(handle));
  if constexpr (std::is_base_of_v<ModuleNode, T>)
    if (handle && type_code == kTVMModuleHandle) return NodeOf<T>(handle);
  return nullptr;
}

/* True for a class of the runtime's own objects, which have fixed type indices. */
template <typename T, typename = void>
struct IsRuntimeClass : std::false_type {};
template <typename T>
struct IsRuntimeClass<T, std::void_t<decltype(T::RuntimeTypeIndex())>>
    : std::bool_constant<!std::is_base_of_v<Object, T>> {};
/* True for a class of references to values of its own, String or ShapeTuple, that are made of
 * an object. */
template <typename T, typename = void>
struct IsValue : std::false_type {};
template <typename T>
struct IsValue<T, std::void_t<typename T::ContainerType>>
    : std::bool_constant<IsRuntimeClass<typename T::ContainerType>::value &&
                         !std::is_base_of_v<ObjectRef, T>> {};
inline uint32_t IndexOf(void *handle, int type_code) {
  unsigned index = TypeIndex::kRoot;
  if (!handle) return index;
  if (type_code == ObjectRef::kOwnObject) return static_cast<const Object *>(handle)->type_index();
  if (type_code == kTVMNDArrayHandle) return TypeIndex::kRuntimeNDArray;
  CheckCall(TVMObjectGetTypeIndex(handle, &index));
  return index;
}

/* True if an object is what a reference of class T refers to. */
template <typename T>
bool IsA(void *handle, int type_code) {
  if constexpr (std::is_same_v<T, ObjectRef>) {
    return true;
  } else if constexpr (IsOwnRef<T>::value) {
    return type_code == ObjectRef::kOwnObject &&
           static_cast<const Object *>(handle)->IsInstance<typename T::ContainerType>();
  } else {
    if (type_code != T::kTypeCode) return false;
    if constexpr (HasTypeIndex<T>::value)
      return IndexOf(handle, type_code) == T::kTypeIndex;
    else if constexpr (HasIsInstance<T>::value)
      return T::IsInstance(handle);
    else
      return true;
  }
}

/* The text of an object; null if it is no String. Defined in packed_func.h. */
inline const StringObj *StringOf(const ObjectRef &ref);

}  // namespace detail

/* The same object as a `T`; throws if it is something else. Null stays null. */
template <typename T>
T Downcast(ObjectRef ref) {
  if (!ref.defined()) return T();
  if constexpr (detail::IsValue<T>::value) {
    if (!ref->IsInstance<typename T::ContainerType>())
      throw InternalError("Downcast: the object is a " + ref->GetTypeKey() + ", expected a " +
                          T::ContainerType::_type_key);
    return T(std::move(ref));
  } else if constexpr (std::is_same_v<T, ObjectRef>) {
    return ref;
  } else {
    const int code = ref.type_code();
    if constexpr (!detail::IsOwnRef<T>::value)
      if (code != T::kTypeCode)
        throw InternalError("Downcast: the object has type code " + std::to_string(code) +
                            ", expected " + std::to_string(T::kTypeCode));
    if (!detail::IsA<T>(ref.handle(), code))
      throw InternalError("Downcast: the object of type code " + std::to_string(code) +
                          " is of another class");
    if constexpr (detail::IsOwnRef<T>::value) {
      return T(ObjectPtr<Object>(const_cast<Object *>(ref.ObjectRef::get())));
    } else {
      return T(detail::Owned{ref.release()});
    }
  }
}

template <typename T>
auto ObjectRef::as() const {
  if constexpr (std::is_same_v<T, StringObj>) {
    return detail::StringOf(*this);
  } else if constexpr (std::is_same_v<T, ShapeTupleObj>) {
    return detail::ShapePointer<T>(*this);
  } else if constexpr (detail::IsRuntimeClass<T>::value) {
    const bool fits = detail::IndexOf(handle_, type_code_) == T::RuntimeTypeIndex();
    return static_cast<const T *>(fits ? handle_ : nullptr);
  } else if constexpr (std::is_base_of_v<Object, T>) {
    return detail::Pointer<T>(handle_, type_code_);
  } else {
    bool fits;
    if constexpr (detail::IsValue<T>::value)
      fits = (*this)->template IsInstance<typename T::ContainerType>();
    else
      fits = defined() && detail::IsA<T>(handle_, type_code_);
    return fits ? Optional<T>(Downcast<T>(*this)) : Optional<T>();
  }
}

/* A reference to an object that is there already. */
template <typename Ref, typename Node, typename = std::enable_if_t<std::is_base_of_v<Object, Node>>>
Ref GetRef(const Node *object) {
  return Ref(ObjectPtr<Object>(const_cast<Node *>(object)));
}
template <typename Base, typename Node>
ObjectPtr<Base> GetObjectPtr(Node *object) {
  return ObjectPtr<Base>(static_cast<Base *>(object));
}
template <typename Ref, typename Node,
          typename = std::enable_if_t<detail::IsRuntimeClass<Node>::value && std::is_empty_v<Node>>,
          typename = void>
Ref GetRef(const Node *object) {
  return Ref(detail::Owned{ObjectRef::Share(const_cast<Node *>(object), kTVMObjectHandle)});
}

struct ObjectPtrHash {
  std::size_t operator()(const ObjectRef &a) const { return std::hash<const void *>()(a.handle()); }
  template <typename T>
  std::size_t operator()(const ObjectPtr<T> &a) const {
    return std::hash<const void *>()(a.get());
  }
};
struct ObjectPtrEqual {
  bool operator()(const ObjectRef &a, const ObjectRef &b) const { return a.same_as(b); }
  template <typename T>
  bool operator()(const ObjectPtr<T> &a, const ObjectPtr<T> &b) const {
    return a == b;
  }
};

MBLOB_FACE_END

namespace tvm {
using runtime::Downcast;
using runtime::GetObjectPtr;
using runtime::GetRef;
using runtime::make_object;
using runtime::Object;
using runtime::ObjectPtr;
using runtime::ObjectPtrEqual;
using runtime::ObjectPtrHash;
using runtime::ObjectRef;
using runtime::StringObj;
using runtime::TypeIndex;
}  // namespace tvm

namespace tvm {
namespace runtime MBLOB_HIDDEN {
namespace detail {
/* A number for a class of objects. */
inline uint32_t NewTypeIndex() {
  static std::atomic<uint32_t> next{TypeIndex::kDynamic};
  return next++;
}
}  // namespace detail
}  // namespace runtime MBLOB_HIDDEN
}  // namespace tvm

/* In a class that derives from Object, which has a _type_key. */
#ifndef TVM_DECLARE_FINAL_OBJECT_INFO
#define TVM_DECLARE_BASE_OBJECT_INFO(TypeName, ParentType)                      \
  static uint32_t RuntimeTypeIndex() {                                          \
    static const uint32_t index = ::tvm::runtime::detail::NewTypeIndex();       \
    return index;                                                               \
  }                                                                             \
  static uint32_t _GetOrAllocRuntimeTypeIndex() { return RuntimeTypeIndex(); }  \
  uint32_t type_index() const override { return TypeName::RuntimeTypeIndex(); } \
  std::string GetTypeKey() const override { return TypeName::_type_key; }       \
  static_assert(std::is_base_of_v<::tvm::runtime::Object, ParentType>, "an object class")
#define TVM_DECLARE_FINAL_OBJECT_INFO(TypeName, ParentType) \
  TVM_DECLARE_BASE_OBJECT_INFO(TypeName, ParentType)
#define TVM_REGISTER_OBJECT_TYPE(TypeName) static_assert(true, "")

/* In a class of references to such objects. */
#define TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName) \
  TypeName(const TypeName &) = default;                   \
  TypeName(TypeName &&) = default;                        \
  TypeName &operator=(const TypeName &) = default;        \
  TypeName &operator=(TypeName &&) = default
#define MBLOB_OBJECT_REF(TypeName, ParentType, ObjectName, qualifier)                       \
  explicit TypeName(::tvm::runtime::ObjectPtr<::tvm::runtime::Object> n) : ParentType(n) {} \
  TVM_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName);                                        \
  qualifier ObjectName *operator->() const {                                                \
    return const_cast<ObjectName *>(                                                        \
        dynamic_cast<const ObjectName *>(::tvm::runtime::ObjectRef::get()));                \
  }                                                                                         \
  qualifier ObjectName *get() const {                                                       \
    return const_cast<ObjectName *>(                                                        \
        dynamic_cast<const ObjectName *>(::tvm::runtime::ObjectRef::get()));                \
  }                                                                                         \
  using ContainerType = ObjectName
#define TVM_DEFINE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName) \
  TypeName() = default;                                                 \
  MBLOB_OBJECT_REF(TypeName, ParentType, ObjectName, const)
#define TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName) \
  TypeName() = default;                                                         \
  MBLOB_OBJECT_REF(TypeName, ParentType, ObjectName, )
#define TVM_DEFINE_NOTNULLABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName) \
  MBLOB_OBJECT_REF(TypeName, ParentType, ObjectName, const)
#define TVM_DEFINE_MUTABLE_NOTNULLABLE_OBJECT_REF_METHODS(TypeName, ParentType, ObjectName) \
  MBLOB_OBJECT_REF(TypeName, ParentType, ObjectName, )
#endif

/* Defines what is declared here. A header that needs this one to go on includes it itself. */
#if !defined(TVM_RUNTIME_MODULE_H_) && !defined(TVM_RUNTIME_NDARRAY_H_) && \
    !defined(TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_)
#include <tvm/runtime/packed_func.h>
#endif

#endif /* TVM_RUNTIME_OBJECT_H_ */
