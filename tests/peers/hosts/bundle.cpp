// In the style of apps/bundle_deploy/bundle.cc: a library of C functions around a graph executor over
// the kernels that are linked into it.
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>

#include <memory>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void *tvm_runtime_create(const char *json_data, const char *params_data,
                                  const uint64_t params_size) {
  int device_type = kDLCPU, device_id = 0;
  tvm::runtime::Module mod_syslib = (*tvm::runtime::Registry::Get("runtime.SystemLib"))();
  tvm::runtime::Module mod = (*tvm::runtime::Registry::Get("tvm.graph_executor.create"))(
      json_data, mod_syslib, device_type, device_id);
  TVMByteArray params{params_data, static_cast<size_t>(params_size)};
  mod.GetFunction("load_params")(params);
  return new tvm::runtime::Module(mod);
}

EXPORTED void tvm_runtime_destroy(void *handle) {
  delete reinterpret_cast<tvm::runtime::Module *>(handle);
}

EXPORTED void tvm_runtime_set_input(void *handle, const char *name, void *tensor) {
  reinterpret_cast<tvm::runtime::Module *>(handle)->GetFunction("set_input")(
      name, reinterpret_cast<DLTensor *>(tensor));
}

EXPORTED void tvm_runtime_run(void *handle) {
  reinterpret_cast<tvm::runtime::Module *>(handle)->GetFunction("run")();
}

EXPORTED void tvm_runtime_get_output(void *handle, int index, void *tensor) {
  reinterpret_cast<tvm::runtime::Module *>(handle)->GetFunction("get_output")(
      index, reinterpret_cast<DLTensor *>(tensor));
}
