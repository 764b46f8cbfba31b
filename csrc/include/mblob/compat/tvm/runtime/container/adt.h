/* adt.h - ADT: a tuple or constructor of Relay's virtual machine: a tag and fields, which are
 * arrays or ADTs. Here it is a module of the key "runtime.ADT". */
#ifndef TVM_RUNTIME_CONTAINER_ADT_H_
#define TVM_RUNTIME_CONTAINER_ADT_H_

#include <tvm/runtime/packed_func.h>

#include <cstdint>
#include <vector>

MBLOB_FACE_BEGIN

/* What `->` of an ADT shows. */
struct MBLOB_HIDDEN ADTObj {
  int32_t tag;
  uint32_t size; /* number of fields */
  static constexpr int kTypeCode = kTVMModuleHandle;
  /* True if a module is one. */
  static bool IsInstance(void *handle) {
    return std::string(detail::ModuleTypeKey(handle)) == detail::kADTKey;
  }
  const ADTObj *operator->() const { return this; }
};

class MBLOB_HIDDEN ADT : public ObjectRef {
 public:
  static constexpr int kTypeCode = ADTObj::kTypeCode;
  using ContainerType = ADTObj;

  ADT() = default;
  ADT(std::nullptr_t) {} /* NOLINT: as in TVM */
  explicit ADT(detail::Owned adt) : ObjectRef(adt, kTypeCode) {}
  ADT(int32_t tag, const std::vector<ObjectRef> &fields)
      : ObjectRef(
            detail::CallWithList(detail::kADTKey, fields.size() + 1, [&](const TVMArgsSetter &set) {
              set(0, tag);
              for (std::size_t i = 0; i < fields.size(); ++i) set(i + 1, fields[i]);
            })) {}
  static ADT Tuple(const std::vector<ObjectRef> &fields) { return ADT(0, fields); }
  template <typename... Fields>
  static ADT Tuple(const Fields &...fields) {
    return Tuple(std::vector<ObjectRef>{fields...});
  }

  ADTObj operator->() const { return {tag(), static_cast<uint32_t>(size())}; }
  int32_t tag() const { return Call("get_tag"); }
  std::size_t size() const { return static_cast<std::size_t>(Call("get_size").operator int64_t()); }
  ObjectRef operator[](std::size_t i) const { return Call("get_field", i); }

  static bool IsInstance(void *handle) { return ADTObj::IsInstance(handle); }

 private:
  template <typename... Args>
  TVMRetValue Call(const char *name, Args... args) const {
    if (!defined()) throw InternalError("ADT: the object is null");
    return Module(detail::Owned{Share(handle(), kTypeCode)}).GetFunction(name)(args...);
  }
};

MBLOB_FACE_END

namespace tvm {
using runtime::ADT;
using runtime::ADTObj;
}  // namespace tvm

#endif /* TVM_RUNTIME_CONTAINER_ADT_H_ */
