/* packed_value.h - one argument or result of a packed function: TVMArgValue, TVMRetValue. A part of
 * packed_func.h.
 */
#ifndef TVM_RUNTIME_PACKED_VALUE_H_
#define TVM_RUNTIME_PACKED_VALUE_H_

#if !defined(TVM_RUNTIME_PACKED_FUNC_H_)
#error "include tvm/runtime/packed_func.h"
#endif

#include <tvm/runtime/container/optional.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

MBLOB_FACE_BEGIN

template <typename Signature>
class TypedPackedFunc;

/* A TVMArgTypeCode in words. */
inline const char *ArgTypeCode2Str(int type_code) {
  switch (type_code) {
    case kTVMArgInt: return "int";
    case kTVMArgUInt: return "uint";
    case kTVMArgFloat: return "float";
    case kTVMOpaqueHandle: return "handle";
    case kTVMNullptr: return "nullptr";
    case kTVMDataType: return "DLDataType";
    case kDLDevice: return "DLDevice";
    case kTVMDLTensorHandle: return "DLTensor*";
    case kTVMObjectHandle: return "Object";
    case kTVMModuleHandle: return "Module";
    case kTVMPackedFuncHandle: return "PackedFunc";
    case kTVMStr: return "str";
    case kTVMBytes: return "bytes";
    case kTVMNDArrayHandle: return "NDArray";
    case kTVMObjectRValueRefArg: return "Object&&";
    case kTVMArgBool: return "bool";
    default: return "unknown type";
  }
}

namespace detail {
/* True if values of that code are references. */
inline bool IsCounted(int type_code) {
  return type_code == kTVMModuleHandle || type_code == kTVMPackedFuncHandle ||
         type_code == kTVMNDArrayHandle || type_code == kTVMObjectHandle ||
         type_code == ObjectRef::kOwnObject;
}

/* Throws unless values of that code can leave for the runtime. */
inline void CheckRuntime(int type_code) {
  if (type_code == ObjectRef::kOwnObject)
    throw InternalError(
        "an object of a class of one's own cannot be passed to a function: the runtime does not know "
        "the class (docs/tvm_hosts.md)");
}

/* An integer or enum as functions take it. */
template <typename T>
int64_t PackInteger(T value) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(int64_t))
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      throw InternalError("the integer " + std::to_string(value) + " is above 2^63 - 1");
  return static_cast<int64_t>(value);
}
}  // namespace detail

/* A value and its code, borrowed. Conversions throw InternalError, "expected int, found str",
 * when the value is something else. Integers become floats and bools, nothing becomes a null
 * pointer. */
class MBLOB_HIDDEN TVMPODValue_ {
 public:
  operator double() const {
    if (IsInt()) return static_cast<double>(value_.v_int64);
    return Expect(kTVMArgFloat).v_float64;
  }
  operator int64_t() const { return Integer<int64_t>(); }
  operator uint64_t() const { return static_cast<uint64_t>(Integer<int64_t>()); }
  operator int() const { return Integer<int>(); }
  operator bool() const { return Integer<int64_t>() != 0; }
  operator void *() const {
    if (type_code_ == kTVMNullptr) return nullptr;
    if (type_code_ == kTVMDLTensorHandle || type_code_ == kTVMNDArrayHandle) return value_.v_handle;
    return Expect(kTVMOpaqueHandle).v_handle;
  }
  operator DLTensor *() const {
    if (type_code_ == kTVMNullptr) return nullptr;
    if (type_code_ == kTVMNDArrayHandle) return static_cast<DLTensor *>(value_.v_handle);
    return static_cast<DLTensor *>(Expect(kTVMDLTensorHandle).v_handle);
  }
  operator DLDevice() const { return Expect(kDLDevice).v_device; }
  /* Text is parsed. */
  operator DLDataType() const {
    if (type_code_ == kTVMStr) return String2DLDataType(value_.v_str);
    if (type_code_ == kTVMNullptr) return runtime::DataType::Void();
    return Expect(kTVMDataType).v_type;
  }
  operator runtime::DataType() const { return runtime::DataType(operator DLDataType()); }
  operator std::string() const {
    if (type_code_ == kTVMDataType) return DLDataType2String(value_.v_type);
    if (type_code_ == kTVMStr) return value_.v_str;
    if (const TVMByteArray *text = Text()) return std::string(text->data, text->size);
    const auto *bytes = static_cast<const TVMByteArray *>(Expect(kTVMBytes, "str").v_handle);
    return std::string(bytes->data, bytes->size);
  }
  operator String() const { return String(operator std::string()); }
  operator NDArray() const { return Shared<NDArray>(); }
  operator Module() const { return Shared<Module>(); }
  operator PackedFunc() const;
  operator ShapeTuple() const;
  template <typename Signature>
  operator TypedPackedFunc<Signature>() const;
  operator ObjectRef() const {
    if (type_code_ == kTVMNullptr) return ObjectRef();
    if (IsText()) return operator String();
    if (!IsCounted()) (void)Expect(kTVMObjectHandle);
    return ObjectRef(detail::Owned{ObjectRef::Share(value_.v_handle, type_code_)}, type_code_);
  }
  /* Array<T>, Map<K, V>, ADT: references to objects that headers of their own define. */
  template <typename T, typename = std::enable_if_t<detail::HasTypeIndex<T>::value ||
                                                    detail::HasIsInstance<T>::value>>
  operator T() const {
    return Shared<T>();
  }
  template <typename T>
  operator Optional<T>() const {
    if (type_code_ == kTVMNullptr) return Optional<T>();
    T value = *this;
    return Optional<T>(std::move(value));
  }
  template <typename T>
  bool IsObjectRef() const {
    if constexpr (std::is_same_v<T, String>)
      return IsText() || Text();
    else
      return IsCounted() && (std::is_same_v<T, ObjectRef> || type_code_ == T::kTypeCode) &&
             detail::IsA<T>(value_.v_handle, type_code_);
  }
  template <typename T>
  T AsObjectRef() const {
    return *this;
  }

  int type_code() const { return type_code_; }
  const TVMValue &value() const { return value_; }
  /* The handle as what the caller knows it to be. */
  template <typename T>
  T *ptr() const {
    return static_cast<T *>(value_.v_handle);
  }

 protected:
  TVMPODValue_() { value_.v_int64 = 0; }
  TVMPODValue_(TVMValue value, int type_code) : value_(value), type_code_(type_code) {}

  bool IsInt() const {
    return type_code_ == kTVMArgInt || type_code_ == kTVMArgUInt || type_code_ == kTVMArgBool;
  }
  bool IsText() const { return type_code_ == kTVMStr || type_code_ == kTVMBytes; }
  /* Of a String that is an object; else null. */
  const StringObj *Text() const {
    if (type_code_ != kTVMObjectHandle || !value_.v_handle) return nullptr;
    return detail::StringOf(
        ObjectRef(detail::Owned{ObjectRef::Share(value_.v_handle, type_code_)}, type_code_));
  }
  bool IsCounted() const { return detail::IsCounted(type_code_); }
  const TVMValue &Expect(int type_code, const char *name = nullptr) const {
    if (type_code_ != type_code)
      throw InternalError(std::string("expected ") + (name ? name : ArgTypeCode2Str(type_code)) +
                          ", found " + ArgTypeCode2Str(type_code_));
    return value_;
  }
  template <typename T>
  T Integer() const {
    const int64_t value = IsInt() ? value_.v_int64 : Expect(kTVMArgInt).v_int64;
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max())
      throw InternalError("the integer " + std::to_string(value) + " does not fit into an int");
    return static_cast<T>(value);
  }
  template <typename T>
  T Shared() const {
    if (type_code_ == kTVMNullptr) return T();
    void *handle = Expect(T::kTypeCode).v_handle;
    if (!detail::IsA<T>(handle, T::kTypeCode))
      throw InternalError(std::string("expected another class of ") + ArgTypeCode2Str(type_code_) +
                          " than this is");
    return T(detail::Owned{ObjectRef::Share(handle, T::kTypeCode)});
  }

  TVMValue value_;
  int type_code_ = kTVMNullptr;
};

/* An argument; valid during the call. */
class MBLOB_HIDDEN TVMArgValue : public TVMPODValue_ {
 public:
  TVMArgValue() = default;
  TVMArgValue(TVMValue value, int type_code) : TVMPODValue_(value, type_code) {}
};

/* A result, which owns what it holds: a reference, or a copy of a text. */
class MBLOB_HIDDEN TVMRetValue : public TVMPODValue_ {
 public:
  TVMRetValue() = default;
  TVMRetValue(const TVMRetValue &other) : TVMPODValue_() { Copy(other); }
  TVMRetValue(TVMRetValue &&other) noexcept : TVMPODValue_() { Swap(other); }
  ~TVMRetValue() { Clear(); }
  TVMRetValue &operator=(TVMRetValue other) noexcept {
    Swap(other);
    return *this;
  }
  TVMRetValue &operator=(const TVMArgValue &value) {
    TVMRetValue copy;
    copy.Copy(value);
    Swap(copy);
    return *this;
  }
  TVMRetValue &operator=(std::nullptr_t) { return Set(kTVMNullptr, TVMValue()); }
  TVMRetValue &operator=(double value) {
    TVMValue v;
    v.v_float64 = value;
    return Set(kTVMArgFloat, v);
  }
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
  TVMRetValue &operator=(T value) {
    TVMValue v;
    v.v_int64 = detail::PackInteger(value);
    return Set(kTVMArgInt, v);
  }
  TVMRetValue &operator=(void *handle) { return SetHandle(kTVMOpaqueHandle, handle); }
  TVMRetValue &operator=(DLTensor *tensor) { return SetHandle(kTVMDLTensorHandle, tensor); }
  TVMRetValue &operator=(DLDevice device) {
    TVMValue v;
    v.v_device = device;
    return Set(kDLDevice, v);
  }
  TVMRetValue &operator=(DLDataType type) {
    TVMValue v;
    v.v_type = type;
    return Set(kTVMDataType, v);
  }
  TVMRetValue &operator=(const runtime::DataType &type) {
    return *this = static_cast<DLDataType>(type);
  }
  TVMRetValue &operator=(const char *text) { return SetText(kTVMStr, text); }
  TVMRetValue &operator=(std::string text) { return SetText(kTVMStr, std::move(text)); }
  TVMRetValue &operator=(const TVMByteArray &bytes) {
    return SetText(kTVMBytes, std::string(bytes.data, bytes.size));
  }
  TVMRetValue &operator=(const String &text) {
    std::string copy = text;
    const int code = copy.find('\0') == std::string::npos ? kTVMStr : kTVMBytes;
    return SetText(code, std::move(copy));
  }
  TVMRetValue &operator=(ObjectRef object) {
    const int code = object.type_code();
    return SetHandle(code, object.release());
  }
  template <typename Signature>
  TVMRetValue &operator=(const TypedPackedFunc<Signature> &function);
  TVMRetValue &operator=(const ShapeTuple &shape);
  template <typename T>
  TVMRetValue &operator=(const Optional<T> &value);

  /* For the code that carries results over the C API. */

  /* Take a result of TVMFuncCall: texts are copied, references are this value's. */
  static TVMRetValue MoveFromCHost(TVMValue value, int type_code) {
    TVMRetValue result;
    const TVMPODValue_ given = TVMArgValue(value, type_code);
    if (type_code == kTVMStr || type_code == kTVMBytes)
      result.SetText(type_code, given);
    else
      result.Set(type_code, value);
    return result;
  }
  /* Hand it over with its reference. Texts stay with the thread until the next one is handed
   * over. */
  void MoveToCHost(TVMValue *value, int *type_code) {
    detail::CheckRuntime(type_code_);
    if (!IsText()) {
      *value = value_;
      *type_code = std::exchange(type_code_, kTVMNullptr);
      return;
    }
    /* Reached by texts alone: its destructor keeps the library in memory until the thread ends. */
    static thread_local TVMRetValue last_text;
    last_text = std::move(*this);
    *value = last_text.value_;
    *type_code = last_text.type_code_;
  }
  /* Set it as the result of a TVMPackedCFunc, which makes a copy. */
  void CopyToReturn(TVMRetValueHandle ret) {
    detail::CheckRuntime(type_code_);
    if (type_code_ != kTVMNullptr)
      detail::CheckCall(TVMCFuncSetReturn(ret, &value_, &type_code_, 1));
  }

 private:
  /* Of a text: the value points here, which stays where it is when the result moves. */
  struct Text {
    std::string text;
    TVMByteArray bytes;
  };

  TVMRetValue &Set(int type_code, TVMValue value) {
    Clear();
    type_code_ = type_code;
    value_ = value;
    return *this;
  }
  TVMRetValue &SetHandle(int type_code, void *handle) {
    TVMValue v;
    v.v_handle = handle;
    return Set(handle ? type_code : kTVMNullptr, v);
  }
  TVMRetValue &SetText(int type_code, std::string text) {
    auto owned = std::make_unique<Text>();
    owned->text = std::move(text);
    owned->bytes = {owned->text.data(), owned->text.size()};
    TVMValue v;
    if (type_code == kTVMStr)
      v.v_str = owned->text.c_str();
    else
      v.v_handle = &owned->bytes;
    Set(type_code, v);
    text_ = std::move(owned);
    return *this;
  }
  void Copy(const TVMPODValue_ &other) {
    const int code = other.type_code();
    if (code == kTVMStr || code == kTVMBytes) {
      SetText(code, other);
    } else {
      TVMValue v = other.value();
      if (detail::IsCounted(code)) v.v_handle = ObjectRef::Share(v.v_handle, code);
      Set(code, v);
    }
  }
  void Clear() {
    if (IsCounted()) ObjectRef(detail::Owned{value_.v_handle}, type_code_);
    text_.reset();
    type_code_ = kTVMNullptr;
  }
  void Swap(TVMRetValue &other) noexcept {
    std::swap(value_, other.value_);
    std::swap(type_code_, other.type_code_);
    std::swap(text_, other.text_);
  }

  std::unique_ptr<Text> text_;
};

MBLOB_FACE_END

#endif /* TVM_RUNTIME_PACKED_VALUE_H_ */
