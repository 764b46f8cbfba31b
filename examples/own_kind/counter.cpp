// A kind of module in C++, with TVM's classes: "counter_cpp". Its payload is a name and a number.
#include <dmlc/io.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>

#include <string>

using namespace tvm::runtime;

class Counter : public ModuleNode {
 public:
  const char *type_key() const final { return "counter_cpp"; }

  PackedFunc GetFunction(const String &name, const ObjectPtr<Object> &sptr_to_self) final {
    if (name != "cpp_count") return PackedFunc();
    return PackedFunc([this, sptr_to_self](TVMArgs args, TVMRetValue *rv) {
      const int64_t step = args[0];
      *rv = static_cast<int64_t>(count_ += static_cast<uint64_t>(step));
    });
  }

  void SaveToBinary(dmlc::Stream *stream) final {
    stream->Write(name_);
    stream->Write(count_);
  }

  static Module LoadFromBinary(void *handle) {
    dmlc::Stream *stream = static_cast<dmlc::Stream *>(handle);
    ObjectPtr<Counter> counter = make_object<Counter>();
    ICHECK(stream->Read(&counter->name_) && stream->Read(&counter->count_)) << "counter: too short";
    return Module(counter);
  }

 private:
  std::string name_;
  uint64_t count_ = 0;
};

TVM_REGISTER_GLOBAL("runtime.module.loadbinary_counter_cpp")
    .set_body_typed(Counter::LoadFromBinary);
