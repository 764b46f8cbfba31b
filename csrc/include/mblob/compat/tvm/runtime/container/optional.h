/* optional.h - Optional<T>: a T, or nothing. As an argument nothing is a null. */
#ifndef TVM_RUNTIME_CONTAINER_OPTIONAL_H_
#define TVM_RUNTIME_CONTAINER_OPTIONAL_H_

#include <tvm/runtime/logging.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

MBLOB_FACE_BEGIN

struct MBLOB_HIDDEN NullOptType {};
inline constexpr NullOptType NullOpt{};

template <typename T>
class MBLOB_HIDDEN Optional {
 public:
  using ContainerType = T;
  template <typename U>
  using IfValue = std::enable_if_t<!std::is_same_v<std::decay_t<U>, Optional> &&
                                   !std::is_null_pointer_v<std::decay_t<U>>>;

  Optional() = default;
  Optional(NullOptType) {}                                                   /* NOLINT: as in TVM */
  Optional(std::nullptr_t) {}                                                /* NOLINT */
  Optional(T value) : value_(std::make_shared<const T>(std::move(value))) {} /* NOLINT */
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U &&, T> &&
                                                    !std::is_convertible_v<U &&, Optional> &&
                                                    !std::is_same_v<std::decay_t<U>, T>>>
  Optional(U &&value)
      : value_(std::make_shared<const T>(std::forward<U>(value))) {
  } /* NOLINT: "text" for an Optional<String> */

  bool defined() const { return value_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const T &value() const {
    if (!value_) throw InternalError("Optional: there is no value");
    return *value_;
  }
  T value_or(T other) const { return value_ ? *value_ : std::move(other); }

  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }
  bool operator==(const Optional &other) const {
    return defined() && other.defined() ? *value_ == *other.value_ : value_ == other.value_;
  }
  bool operator!=(const Optional &other) const { return !(*this == other); }
  /* With a value: nothing equals none. */
  template <typename U, typename = IfValue<U>>
  bool operator==(const U &other) const {
    return defined() && *value_ == other;
  }
  template <typename U, typename = IfValue<U>>
  bool operator!=(const U &other) const {
    return !(*this == other);
  }

 private:
  std::shared_ptr<const T> value_; /* copies share it */
};

MBLOB_FACE_END

namespace tvm {
using runtime::NullOpt;
using runtime::Optional;
}  // namespace tvm

#endif /* TVM_RUNTIME_CONTAINER_OPTIONAL_H_ */
