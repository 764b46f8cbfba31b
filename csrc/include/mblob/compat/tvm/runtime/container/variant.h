/* variant.h - Variant<T...>: a reference to an object of one of several classes. */
#ifndef TVM_RUNTIME_CONTAINER_VARIANT_H_
#define TVM_RUNTIME_CONTAINER_VARIANT_H_

#include <tvm/runtime/packed_func.h>

MBLOB_FACE_BEGIN

namespace detail {
/* True if an object of one's own may be what a reference of class T refers to. */
template <typename T>
bool MayBe(const Object *object) {
  if constexpr (IsOwnRef<T>::value)
    return object->IsInstance<typename T::ContainerType>();
  else
    return false;
}
}  // namespace detail

template <typename... T>
class MBLOB_HIDDEN Variant : public ObjectRef {
  static_assert((std::is_convertible_v<T, ObjectRef> && ...), "classes of references");
  template <typename U>
  using IfOne = std::enable_if_t<(std::is_same_v<U, T> || ...)>;

 public:
  using ContainerType = Object;

  Variant() = default;
  template <typename U, typename = IfOne<U>>
  Variant(U value) : ObjectRef(static_cast<ObjectRef>(std::move(value))) {} /* NOLINT: as in TVM */
  template <typename U, typename = IfOne<U>>
  Variant &operator=(U value) {
    ObjectRef::operator=(static_cast<ObjectRef>(std::move(value)));
    return *this;
  }
  explicit Variant(ObjectPtr<Object> object) : ObjectRef(object) {
    if (object.get() && !(detail::MayBe<T>(object.get()) || ...))
      throw InternalError("Variant: it cannot hold an object of class " + object->GetTypeKey());
  }
};

MBLOB_FACE_END

namespace tvm {
using runtime::Variant;
}

#endif /* TVM_RUNTIME_CONTAINER_VARIANT_H_ */
