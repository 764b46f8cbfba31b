/* packed_func.h - PackedFunc: a function that takes and gives packed values, whoever wrote it. */
#ifndef TVM_RUNTIME_PACKED_FUNC_H_
#define TVM_RUNTIME_PACKED_FUNC_H_

#include <tvm/runtime/packed_value.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

MBLOB_FACE_BEGIN

/* Arguments of a call, borrowed. */
class MBLOB_HIDDEN TVMArgs {
 public:
  const TVMValue *values;
  const int *type_codes;
  int num_args;

  TVMArgs(const TVMValue *values_of, const int *codes_of, int count)
      : values(values_of), type_codes(codes_of), num_args(count) {}
  int size() const { return num_args; }
  TVMArgValue operator[](int i) const {
    if (i < 0 || i >= num_args)
      throw InternalError("argument " + std::to_string(i) + " is missing: the call has " +
                          std::to_string(num_args));
    return TVMArgValue(values[i], type_codes[i]);
  }
  template <typename T>
  T At(int i) const {
    return (*this)[i];
  }
};

/* A function over the runtime's handle; copies share it. Calls may come from any number of
 * threads. */
class MBLOB_HIDDEN PackedFunc : public ObjectRef {
 public:
  static constexpr int kTypeCode = kTVMPackedFuncHandle;
  using FType = std::function<void(TVMArgs args, TVMRetValue *rv)>;

  PackedFunc() = default;
  PackedFunc(std::nullptr_t) {} /* NOLINT */
  explicit PackedFunc(detail::Owned function) : ObjectRef(function, kTypeCode) {}
  /* A callable of the form of FType. What it throws is the error of the call. */
  template <typename F, typename = std::enable_if_t<
                            std::is_invocable_v<std::decay_t<F> &, TVMArgs, TVMRetValue *> &&
                            !std::is_base_of_v<PackedFunc, std::decay_t<F>>>>
  explicit PackedFunc(F &&body) : PackedFunc(Create(FType(std::forward<F>(body)))) {}

  template <typename... Args>
  TVMRetValue operator()(Args &&...args) const;
  /* `rv` may be null. */
  void CallPacked(TVMArgs args, TVMRetValue *rv) const {
    if (!defined()) throw InternalError("PackedFunc: the function is null");
    TVMValue value;
    int code = kTVMNullptr;
    detail::CheckCall(TVMFuncCall(handle(), const_cast<TVMValue *>(args.values),
                                  const_cast<int *>(args.type_codes), args.num_args, &value,
                                  &code));
    TVMRetValue result = TVMRetValue::MoveFromCHost(value, code);
    if (rv) *rv = std::move(result);
  }

 private:
  static detail::Owned Create(FType body) {
    auto resource = std::make_unique<FType>(std::move(body));
    TVMFunctionHandle handle = nullptr;
    detail::CheckCall(TVMFuncCreateFromCFunc(Call, resource.get(), Delete, &handle));
    (void)resource.release(); /* the function's now */
    return {handle};
  }
  static int Call(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                  void *resource) noexcept {
    try {
      TVMRetValue rv;
      (*static_cast<FType *>(resource))(TVMArgs(args, codes, count), &rv);
      rv.CopyToReturn(ret);
      return 0;
    } catch (...) {
      return detail::ReportException();
    }
  }
  static void Delete(void *resource) { delete static_cast<FType *>(resource); }
};

/* Fills the arrays of a call. What a text or an object points to must live until the call has
 * returned. */
class MBLOB_HIDDEN TVMArgsSetter {
 public:
  TVMArgsSetter(TVMValue *values, int *type_codes) : values_(values), type_codes_(type_codes) {}

  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> || std::is_enum_v<T>>>
  void operator()(std::size_t i, T value) const {
    values_[i].v_int64 = detail::PackInteger(value);
    type_codes_[i] = kTVMArgInt;
  }
  void operator()(std::size_t i, double value) const {
    values_[i].v_float64 = value;
    type_codes_[i] = kTVMArgFloat;
  }
  void operator()(std::size_t i, std::nullptr_t) const { SetHandle(i, kTVMNullptr, nullptr); }
  void operator()(std::size_t i, void *handle) const { SetHandle(i, kTVMOpaqueHandle, handle); }
  void operator()(std::size_t i, DLTensor *tensor) const {
    SetHandle(i, kTVMDLTensorHandle, tensor);
  }
  void operator()(std::size_t i, DLDevice device) const {
    values_[i].v_device = device;
    type_codes_[i] = kDLDevice;
  }
  void operator()(std::size_t i, DLDataType type) const {
    values_[i].v_type = type;
    type_codes_[i] = kTVMDataType;
  }
  void operator()(std::size_t i, const DataType &type) const {
    (*this)(i, static_cast<DLDataType>(type));
  }
  void operator()(std::size_t i, const char *text) const {
    values_[i].v_str = text;
    type_codes_[i] = kTVMStr;
  }
  void operator()(std::size_t i, const std::string &text) const { (*this)(i, text.c_str()); }
  void operator()(std::size_t i, const String &text) const {
    if (text.size() == std::char_traits<char>::length(text.c_str()))
      (*this)(i, text.c_str());
    else
      SetHandle(i, kTVMBytes, text.bytes());
  }
  void operator()(std::size_t i, const TVMByteArray &bytes) const {
    SetHandle(i, kTVMBytes, const_cast<TVMByteArray *>(&bytes));
  }
  void operator()(std::size_t i, const ShapeTuple &shape) const { (*this)(i, shape.object()); }
  template <typename T>
  void operator()(std::size_t i, const Optional<T> &value) const {
    if (value.defined())
      (*this)(i, value.value());
    else
      (*this)(i, nullptr);
  }
  void operator()(std::size_t i, const ObjectRef &object) const {
    detail::CheckRuntime(object.type_code());
    SetHandle(i, object.defined() ? object.type_code() : kTVMNullptr, object.handle());
  }
  template <typename Signature>
  void operator()(std::size_t i, const TypedPackedFunc<Signature> &function) const {
    (*this)(i, static_cast<const ObjectRef &>(function.packed()));
  }
  void operator()(std::size_t i, const TVMPODValue_ &value) const {
    values_[i] = value.value();
    type_codes_[i] = value.type_code();
  }

 private:
  void SetHandle(std::size_t i, int type_code, void *handle) const {
    values_[i].v_handle = handle;
    type_codes_[i] = type_code;
  }

  TVMValue *values_;
  int *type_codes_;
};

template <typename... Args>
TVMRetValue PackedFunc::operator()(Args &&...args) const {
  constexpr std::size_t kCount = sizeof...(Args);
  TVMValue values[kCount + 1] = {};
  int codes[kCount + 1] = {};
  [[maybe_unused]] const TVMArgsSetter set(values, codes);
  [[maybe_unused]] std::size_t i = 0;
  (set(i++, args), ...);
  TVMRetValue rv;
  CallPacked(TVMArgs(values, codes, static_cast<int>(kCount)), &rv);
  return rv;
}

inline TVMPODValue_::operator PackedFunc() const { return Shared<PackedFunc>(); }

/* ---- what module.h declares
 * -------------------------------------------------------------------------------- */

inline PackedFunc Module::GetFunction(const std::string &name, bool query_imports) const {
  TVMFunctionHandle handle = nullptr;
  detail::CheckCall(TVMModGetFunction(Defined(), name.c_str(), query_imports ? 1 : 0, &handle));
  return PackedFunc(detail::Owned{handle});
}

inline PackedFunc ModuleView::GetFunction(const std::string &name,
                                          const ObjectPtr<Object> &) const {
  return module_.GetFunction(name);
}

inline PackedFunc ModuleView::GetFunction(const std::string &name, bool query_imports) const {
  return module_.GetFunction(name, query_imports);
}

namespace detail {
/* A global function that the runtime itself brings along. */
inline PackedFunc RuntimeFunction(const char *name) {
  TVMFunctionHandle handle = nullptr;
  CheckCall(TVMFuncGetGlobal(name, &handle));
  if (!handle) throw InternalError(std::string("the runtime has no function ") + name);
  return PackedFunc(Owned{handle});
}
}  // namespace detail

namespace detail {

/* The type key of a module; lives as long as the module. */
inline const char *ModuleTypeKey(void *handle) {
  const Module module(Owned{ObjectRef::Share(handle, kTVMModuleHandle)});
  return static_cast<const char *>(
      RuntimeFunction("mblob.ModuleTypeKeyText")(module).operator void *());
}

/* What a runtime function gives for `count` arguments, which `fill` sets. */
template <typename Fill>
ObjectRef CallWithList(const char *name, std::size_t count, const Fill &fill) {
  std::vector<TVMValue> values(count + 1);
  std::vector<int> codes(count + 1);
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()) - 1)
    throw InternalError(std::string(name) + ": " + std::to_string(count) +
                        " arguments are too many");
  fill(TVMArgsSetter(values.data(), codes.data()));
  TVMRetValue rv;
  RuntimeFunction(name).CallPacked(TVMArgs(values.data(), codes.data(), static_cast<int>(count)),
                                   &rv);
  return rv;
}

inline constexpr const char *kADTKey = "runtime.ADT"; /* the type key of ADTs, which are modules */

/* The name under which modules made here give their node; it names the layout of the classes. */
inline constexpr const char *kNodeName = "mblob.cxx_node.2";

}  // namespace detail

template <typename Node>
Node *Module::as() const {
  static_assert(std::is_base_of_v<ModuleNode, Node>,
                "Module::as gives classes that derive from ModuleNode");
  if (!defined()) return nullptr;
  TVMFunctionHandle handle = nullptr;
  if (TVMModGetFunction(this->handle(), detail::kNodeName, 0, &handle) != 0 || !handle)
    return nullptr;
  const PackedFunc get(detail::Owned{handle});
  return dynamic_cast<Node *>(static_cast<ModuleNode *>(get().operator void *()));
}

namespace detail {
template <typename Node>
const Node *NodeOf(void *module) {
  return Module(Owned{ObjectRef::Share(module, kTVMModuleHandle)}).as<Node>();
}
}  // namespace detail

template <typename T>
bool ObjectView::IsInstance() const {
  if (!handle_) return false;
  if constexpr (std::is_same_v<T, Object>) {
    return true;
  } else if constexpr (detail::IsRuntimeClass<T>::value) {
    return type_index() == T::RuntimeTypeIndex();
  } else if constexpr (std::is_same_v<T, ModuleNode>) {
    return GetTypeKey() == "runtime.Module"; /* which an ADT is not */
  } else if constexpr (std::is_base_of_v<Object, T>) {
    return detail::Pointer<T>(handle_, type_code_) != nullptr;
  } else {
    return type_code_ == T::kTypeCode && T::IsInstance(handle_);
  }
}
inline uint32_t ObjectView::type_index() const { return detail::IndexOf(handle_, type_code_); }
inline std::string ObjectView::GetTypeKey() const {
  if (handle_ && type_code_ == ObjectRef::kOwnObject)
    return static_cast<const Object *>(handle_)->GetTypeKey();
  if (type_code_ == kTVMModuleHandle && handle_)
    if (std::string(detail::ModuleTypeKey(handle_)) == detail::kADTKey) return detail::kADTKey;
  char *key = nullptr;
  detail::CheckCall(TVMObjectTypeIndex2Key(type_index(), &key));
  const std::unique_ptr<char, decltype(&std::free)> owner(key, &std::free);
  return key;
}
inline int ObjectView::use_count() const {
  if (!handle_) return 0;
  if (type_code_ == ObjectRef::kOwnObject) return static_cast<const Object *>(handle_)->use_count();
  /* `held` is one more. */
  const ObjectRef held(detail::Owned{ObjectRef::Share(handle_, type_code_)}, type_code_);
  return detail::RuntimeFunction("mblob.UseCount")(held).operator int() - 1;
}
inline int ObjectRef::use_count() const { return ObjectRef::operator->().use_count(); }

inline const char *ModuleView::type_key() const { return detail::ModuleTypeKey(module_.handle()); }

inline bool ModuleView::ImplementsFunction(const std::string &name, bool query_imports) const {
  ModuleNode *node = module_.as<ModuleNode>();
  if (node && node->ImplementsFunction(name, query_imports)) return true;
  return detail::RuntimeFunction("runtime.ModuleImplementsFunction")(module_, name, query_imports);
}

inline std::vector<Module> ModuleView::imports() const {
  const PackedFunc get = detail::RuntimeFunction("runtime.ModuleGetImport");
  const int64_t count = detail::RuntimeFunction("runtime.ModuleImportsSize")(module_);
  std::vector<Module> imports;
  for (int64_t i = 0; i < count; ++i) imports.push_back(get(module_, i));
  return imports;
}

inline PackedFunc ModuleNode::GetFunction(const String &name,
                                          const ObjectPtr<Object> &sptr_to_self) {
  return GetFunction(std::string(name), sptr_to_self);
}

inline PackedFunc ModuleNode::GetFunction(const std::string &, const ObjectPtr<Object> &) {
  return nullptr;
}

inline void ModuleNode::SaveToFile(const String &file_name, const String &format) {
  SaveToFile(std::string(file_name), std::string(format));
}
inline void ModuleNode::SaveToFile(const std::string &, const std::string &) {
  throw InternalError(std::string("Module[") + type_key() + "] does not support SaveToFile");
}
inline void ModuleNode::SaveToBinary(dmlc::Stream *) {
  throw InternalError(std::string("Module[") + type_key() + "] does not support SaveToBinary");
}
inline String ModuleNode::GetSource(const String &format) { return GetSource(std::string(format)); }
inline std::string ModuleNode::GetSource(const std::string &) { return ""; }

namespace detail {
/* Stands for modules that were not made of a node. */
class MBLOB_HIDDEN NoNode : public ModuleNode {
 public:
  explicit NoNode(const char *key) : key_(key) {}
  const char *type_key() const final { return key_; }
  int GetPropertyMask() const final { return kRunnable; }

 private:
  const char *key_;
};

/* What `f` makes of the module's node. */
template <typename F>
auto WithNode(const Module &module, const F &f) {
  ModuleNode *node = module.as<ModuleNode>();
  NoNode none(node ? "" : ModuleTypeKey(module.handle()));
  return f(node ? *node : none);
}
}  // namespace detail

inline String ModuleView::GetSource(const String &format) const {
  return detail::WithNode(module_, [&](ModuleNode &node) { return node.GetSource(format); });
}
inline String ModuleView::GetFormat() const {
  return detail::WithNode(module_, [](ModuleNode &node) { return node.GetFormat(); });
}
inline void ModuleView::SaveToFile(const String &file_name, const String &format) const {
  detail::WithNode(module_, [&](ModuleNode &node) { node.SaveToFile(file_name, format); });
}
inline void ModuleView::SaveToBinary(dmlc::Stream *stream) const {
  detail::WithNode(module_, [&](ModuleNode &node) { node.SaveToBinary(stream); });
}
inline int ModuleView::GetPropertyMask() const {
  return detail::WithNode(module_, [](ModuleNode &node) { return node.GetPropertyMask(); });
}

namespace detail {
/* Has a node save itself to `write`, as mblob_loader.save; <dmlc/io.h> stores it. */
using SaverHook = int (*)(ModuleNode *node, void *write, void *to);
inline SaverHook &BinarySaverHook() {
  static SaverHook hook = nullptr;
  return hook;
}
inline constexpr const char *kSaveName = "mblob.cxx_save";
}  // namespace detail

inline Module::Module(ObjectPtr<ModuleNode> node) {
  if (!node) return;
  const detail::SaverHook save = detail::BinarySaverHook();
  const PackedFunc find([node, save](TVMArgs args, TVMRetValue *rv) {
    const String name = args[0];
    if (name == detail::kNodeName)
      *rv = PackedFunc(
          [raw = node.get()](TVMArgs, TVMRetValue *out) { *out = static_cast<void *>(raw); });
    else if (save && name == detail::kSaveName)
      *rv = PackedFunc([raw = node.get(), save](TVMArgs to, TVMRetValue *out) {
        *out = save(raw, to[0].operator void *(), to[1].operator void *());
      });
    else
      *rv = node->GetFunction(name, node);
  });
  const std::string key = node->type_key();
  const PackedFunc create = detail::RuntimeFunction("mblob.ModuleCreate");
  *this = save ? create(key, find, true) : create(key, find);
}

inline bool RuntimeEnabled(const std::string &target) {
  return detail::RuntimeFunction("runtime.RuntimeEnabled")(target);
}

/* ---- String as an object ---- */

inline const ObjectRef &String::object() const {
  std::call_once(shared_->once, [this] {
    if (!shared_->object)
      shared_->object = std::make_shared<const ObjectRef>(
          detail::RuntimeFunction("runtime.String")(*this).operator ObjectRef());
  });
  return *shared_->object;
}
inline String::operator ObjectRef() const { return object(); }
inline String::String(const StringObj *object)
    : String(object ? std::string(object->data, object->size) : std::string()) {}
inline String::String(ObjectRef object) : String(detail::StringOf(object)) {
  shared_->object = std::make_shared<const ObjectRef>(std::move(object));
}
inline bool String::same_as(const String &other) const {
  return shared_ == other.shared_ || object().same_as(other.object());
}
inline bool String::same_as(const ObjectRef &other) const { return object().same_as(other); }
template <typename Ref, typename = std::enable_if_t<std::is_same_v<Ref, String>>>
Ref GetRef(const StringObj *object) {
  return Ref(object);
}
template <typename Ref, typename = std::enable_if_t<std::is_same_v<Ref, NDArray>>>
Ref GetRef(const NDArray::Container *object) {
  void *const handle = const_cast<NDArray::Container *>(object);
  return Ref(detail::Owned{ObjectRef::Share(handle, kTVMNDArrayHandle)});
}

namespace detail {
inline const StringObj *StringOf(const ObjectRef &ref) {
  if (IndexOf(ref.handle(), ref.type_code()) != StringObj::RuntimeTypeIndex()) return nullptr;
  return static_cast<const StringObj *>(
      RuntimeFunction("mblob.StringBytes")(ref).operator void *());
}
}  // namespace detail

/* ---- ShapeTuple as a value of functions ---- */

inline const ObjectRef &ShapeTuple::object() const {
  std::call_once(shared_->once, [this] {
    shared_->object =
        detail::CallWithList("runtime.ShapeTuple", size(), [this](const TVMArgsSetter &set) {
          for (std::size_t i = 0; i < size(); ++i) set(i, (*this)[i]);
        });
  });
  return shared_->object;
}

inline TVMPODValue_::operator ShapeTuple() const {
  if (type_code_ == kTVMNullptr) return ShapeTuple();
  (void)Expect(kTVMObjectHandle);
  const ObjectRef object = *this;
  const PackedFunc get = detail::RuntimeFunction("runtime.GetShapeTupleElem");
  std::vector<int64_t> extents(static_cast<std::size_t>(
      detail::RuntimeFunction("runtime.GetShapeTupleSize")(object).operator int64_t()));
  for (std::size_t i = 0; i < extents.size(); ++i) extents[i] = get(object, i);
  return ShapeTuple(std::move(extents));
}

inline ShapeTuple::ShapeTuple(ObjectRef object)
    : ShapeTuple([&] {
        TVMRetValue value;
        value = object;
        return value.operator ShapeTuple();
      }()) {
  std::call_once(shared_->once, [&] { shared_->object = std::move(object); });
}

namespace detail {
template <typename T>
struct MBLOB_HIDDEN ShapePointer {
  explicit ShapePointer(const ObjectRef &ref)
      : is_shape(IndexOf(ref.handle(), ref.type_code()) == T::RuntimeTypeIndex()) {
    TVMRetValue value;
    value = is_shape ? ref : ObjectRef();
    shape = value;
  }
  explicit operator bool() const { return is_shape; }
  bool operator==(std::nullptr_t) const { return !is_shape; }
  bool operator!=(std::nullptr_t) const { return is_shape; }
  const T *operator->() const { return shape.get(); }
  const T &operator*() const { return *shape.get(); }

  bool is_shape;
  ShapeTuple shape;
};
}  // namespace detail
template <typename Ref, typename = std::enable_if_t<std::is_same_v<Ref, ShapeTuple>>>
Ref GetRef(const detail::ShapePointer<ShapeTupleObj> &pointer) {
  return pointer.shape;
}

inline TVMRetValue &TVMRetValue::operator=(const ShapeTuple &shape) {
  return *this = shape.object();
}

template <typename T>
TVMRetValue &TVMRetValue::operator=(const Optional<T> &value) {
  if (!value.defined()) return *this = nullptr;
  return *this = value.value();
}

MBLOB_FACE_END

#include <tvm/runtime/typed_packed_func.h>

/* Which programs expect with this header. */
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/container/map.h>

#endif /* TVM_RUNTIME_PACKED_FUNC_H_ */
