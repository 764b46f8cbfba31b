// Kinds of modules of which each fails in its own way: tests/e2e/test_saving.py.
#include <dmlc/io.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>

#include <new>
#include <stdexcept>
#include <string>

using namespace tvm::runtime;

template <int N>
class Kind : public ModuleNode {
 public:
  const char *type_key() const final {
    static const std::string key = "kind" + std::to_string(N);
    return key.c_str();
  }
  PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &self) final {
    if (name != "count") return PackedFunc();
    return PackedFunc([this, self](TVMArgs args, TVMRetValue *rv) {
      *rv = static_cast<int64_t>(count_ += static_cast<uint64_t>(args[0].operator int64_t()));
    });
  }
  void SaveToBinary(dmlc::Stream *stream) final {
    if (N == 1) throw std::runtime_error("boom");
    if (N == 2) throw std::bad_alloc();
    if (N == 3) throw 7;
    if (N == 4) return ModuleNode::SaveToBinary(stream);
    stream->Write(count_);
  }
  static Module LoadFromBinary(void *handle) {
    dmlc::Stream *stream = static_cast<dmlc::Stream *>(handle);
    ObjectPtr<Kind> kind = make_object<Kind>();
    if (N == 5) throw std::runtime_error("boom");
    if (N != 6) ICHECK(stream->Read(&kind->count_)) << "too short";
    return Module(kind);
  }

 private:
  uint64_t count_ = 0;
};

#define KIND(N)                                                       \
  TVM_REGISTER_GLOBAL("runtime.module.loadbinary_kind" #N)            \
      .set_body_typed(Kind<N>::LoadFromBinary);                       \
  TVM_REGISTER_GLOBAL("make_kind" #N).set_body_typed([]() -> Module { \
    return Module(make_object<Kind<N>>());                            \
  })
KIND(0);
KIND(1);
KIND(2);
KIND(3);
KIND(4);
KIND(5);
KIND(6);
