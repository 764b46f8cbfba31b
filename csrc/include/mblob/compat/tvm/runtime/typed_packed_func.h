/* typed_packed_func.h - TypedPackedFunc: a PackedFunc with the types of its arguments and its
 * result, and the macros that export C++ functions from a library. A part of packed_func.h. */
#ifndef TVM_RUNTIME_TYPED_PACKED_FUNC_H_
#define TVM_RUNTIME_TYPED_PACKED_FUNC_H_

#if !defined(TVM_RUNTIME_PACKED_FUNC_H_)
#error "include tvm/runtime/packed_func.h"
#endif

#include <tuple>

MBLOB_FACE_BEGIN
namespace detail {

/* The signature R(Args...) of something that can be called, as `type`. */
template <typename F>
struct MBLOB_HIDDEN SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <typename R, typename... Args>
struct SignatureOf<R (*)(Args...)> {
  using type = R(Args...);
};
template <typename R, typename... Args>
struct SignatureOf<R (*)(Args...) noexcept> {
  using type = R(Args...);
};
#define MBLOB_MEMBER_SIGNATURE(qualifiers)            \
  template <typename C, typename R, typename... Args> \
  struct SignatureOf<R (C::*)(Args...) qualifiers> {  \
    using type = R(Args...);                          \
  };
MBLOB_MEMBER_SIGNATURE()
MBLOB_MEMBER_SIGNATURE(const)
MBLOB_MEMBER_SIGNATURE(noexcept)
MBLOB_MEMBER_SIGNATURE(const noexcept)
#undef MBLOB_MEMBER_SIGNATURE

/* The same under TVM's name. */
template <typename F>
struct MBLOB_HIDDEN function_signature {
  using FType = typename SignatureOf<F>::type;
};

/* A packed value as what a C++ function takes. */
template <typename T>
T FromPacked(const TVMPODValue_ &value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>) {
    return value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.operator double());
  } else if constexpr (std::is_integral_v<T>) {
    const int64_t wide = value;
    const T narrow = static_cast<T>(wide);
    /* A negative integer becomes a large uint64_t, as in TVM. */
    if (sizeof(T) < sizeof(wide) && static_cast<int64_t>(narrow) != wide)
      throw InternalError("the integer " + std::to_string(wide) + " does not fit");
    return narrow;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(value.operator int64_t());
  } else if constexpr (std::is_same_v<T, const char *>) {
    if (value.type_code() != kTVMStr) (void)value.operator std::string();
    return value.value().v_str;
  } else if constexpr (std::is_same_v<T, TVMArgValue>) {
    return TVMArgValue(value.value(), value.type_code());
  } else {
    return value;
  }
}

template <typename T>
T Argument(const TVMArgs &args, std::size_t i, const char *name) {
  try {
    return FromPacked<T>(args[static_cast<int>(i)]);
  } catch (const InternalError &error) {
    throw InternalError(std::string(name) + ": argument " + std::to_string(i) + ": " +
                        error.what());
  }
}

/* Call `f` with unpacked arguments and pack its result. */
template <typename R, typename... Args, typename F, std::size_t... I>
void CallUnpacked(F &f, const char *name, [[maybe_unused]] const TVMArgs &args,
                  [[maybe_unused]] TVMRetValue *rv, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<R>)
    f(Argument<std::decay_t<Args>>(args, I, name)...);
  else
    *rv = f(Argument<std::decay_t<Args>>(args, I, name)...);
}

template <typename Signature>
struct Unpacker;
template <typename R, typename... Args>
struct Unpacker<R(Args...)> {
  template <typename F>
  static void Call(F &f, const char *name, const TVMArgs &args, TVMRetValue *rv) {
    if (args.size() != static_cast<int>(sizeof...(Args)))
      throw InternalError(std::string(name) + ": expected " + std::to_string(sizeof...(Args)) +
                          (sizeof...(Args) == 1 ? " argument, found " : " arguments, found ") +
                          std::to_string(args.size()));
    CallUnpacked<R, Args...>(f, name, args, rv, std::index_sequence_for<Args...>());
  }
};

}  // namespace detail

template <typename R, typename... Args>
class TypedPackedFunc<R(Args...)> {
 public:
  TypedPackedFunc() = default;
  TypedPackedFunc(std::nullptr_t) {}                                                   /* NOLINT */
  TypedPackedFunc(PackedFunc packed) : packed_(std::move(packed)) {}                   /* NOLINT */
  TypedPackedFunc(const TVMPODValue_ &value) : packed_(value.operator PackedFunc()) {} /* NOLINT */
  /* A callable with that signature; `name` stands in its errors. */
  template <typename F,
            typename = std::enable_if_t<std::is_convertible_v<F, std::function<R(Args...)>> &&
                                        !std::is_base_of_v<TVMPODValue_, std::decay_t<F>>>>
  TypedPackedFunc(F f, std::string name) {
    packed_ = PackedFunc(
        [f = std::move(f), name = std::move(name)](TVMArgs args, TVMRetValue *rv) mutable {
          detail::Unpacker<R(Args...)>::Call(f, name.c_str(), args, rv);
        });
  }
  template <typename F,
            typename = std::enable_if_t<std::is_convertible_v<F, std::function<R(Args...)>> &&
                                        !std::is_same_v<std::decay_t<F>, PackedFunc> &&
                                        !std::is_same_v<std::decay_t<F>, TypedPackedFunc> &&
                                        !std::is_base_of_v<TVMPODValue_, std::decay_t<F>>>>
  TypedPackedFunc(F f) : TypedPackedFunc(std::move(f), "C++ function") {} /* NOLINT */

  R operator()(Args... args) const {
    TVMRetValue rv = packed_(std::forward<Args>(args)...);
    if constexpr (std::is_same_v<R, TVMRetValue>)
      return rv;
    else if constexpr (!std::is_void_v<R>)
      return detail::FromPacked<std::decay_t<R>>(rv);
  }
  operator PackedFunc() const { return packed_; } /* NOLINT */
  const PackedFunc &packed() const { return packed_; }
  bool defined() const { return packed_.defined(); }
  bool operator==(std::nullptr_t) const { return !defined(); }
  bool operator!=(std::nullptr_t) const { return defined(); }

 private:
  PackedFunc packed_;
};

template <typename Signature>
TVMPODValue_::operator TypedPackedFunc<Signature>() const {
  return TypedPackedFunc<Signature>(operator PackedFunc());
}

template <typename Signature>
TVMRetValue &TVMRetValue::operator=(const TypedPackedFunc<Signature> &function) {
  return *this = ObjectRef(function.packed());
}

namespace detail {

/* A member function of a node, with the reference to the node that keeps it. */
template <typename Node, typename T, typename R, typename... Args>
PackedFunc MemberFunction(const ObjectPtr<Object> &self, Node *node, R (T::*method)(Args...),
                          std::string name) {
  return TypedPackedFunc<R(Args...)>(
             [self, node, method](Args... args) -> R {
               return (node->*method)(std::forward<Args>(args)...);
             },
             std::move(name))
      .packed();
}
template <typename Node, typename T, typename R, typename... Args>
PackedFunc MemberFunction(const ObjectPtr<Object> &self, Node *node, R (T::*method)(Args...) const,
                          std::string name) {
  return TypedPackedFunc<R(Args...)>(
             [self, node, method](Args... args) -> R {
               return (node->*method)(std::forward<Args>(args)...);
             },
             std::move(name))
      .packed();
}
template <typename Node, typename Method>
PackedFunc PackedMember(const ObjectPtr<Object> &self, Node *node, Method method) {
  return PackedFunc(
      [self, node, method](TVMArgs args, TVMRetValue *rv) { (node->*method)(args, rv); });
}

}  // namespace detail

MBLOB_FACE_END

namespace tvm {
using runtime::TypedPackedFunc;
}

/* Export a function from a library under the name `export_name`, in the convention of compiled
 * kernels. `function` is a function or a lambda of any signature; for
 * TVM_DLL_EXPORT_PACKED_FUNC, of (TVMArgs, TVMRetValue *). */
#define TVM_DLL_EXPORT_PACKED_FUNC(export_name, function)                                     \
  extern "C" {                                                                                \
  TVM_DLL int export_name(TVMValue *args, int *type_codes, int num_args, TVMValue *out_value, \
                          int *out_type_code, void *resource_handle);                         \
  int export_name(TVMValue *args, int *type_codes, int num_args, TVMValue *out_value,         \
                  int *out_type_code, void *) {                                               \
    try {                                                                                     \
      ::tvm::runtime::TVMRetValue rv;                                                         \
      function(::tvm::runtime::TVMArgs(args, type_codes, num_args), &rv);                     \
      rv.MoveToCHost(out_value, out_type_code);                                               \
      return 0;                                                                               \
    } catch (...) {                                                                           \
      return ::tvm::runtime::detail::ReportException();                                       \
    }                                                                                         \
  }                                                                                           \
  }

#define TVM_DLL_EXPORT_TYPED_FUNC(export_name, function)                                          \
  static void mblob_unpack_##export_name(::tvm::runtime::TVMArgs args,                            \
                                         ::tvm::runtime::TVMRetValue *rv) {                       \
    auto f = function;                                                                            \
    ::tvm::runtime::detail::Unpacker<                                                             \
        ::tvm::runtime::detail::SignatureOf<decltype(f)>::type>::Call(f, #export_name, args, rv); \
  }                                                                                               \
  TVM_DLL_EXPORT_PACKED_FUNC(export_name, mblob_unpack_##export_name)

#endif /* TVM_RUNTIME_TYPED_PACKED_FUNC_H_ */
