// In the style of apps/bundle_deploy/demo.cc: knows nothing but the functions of a bundle, which it
// opens. Arguments: the bundle, the graph's JSON, the parameters.
#include <assert.h>
#include <dlfcn.h>
#include <tvm/runtime/c_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

template <typename F>
auto getFunc(void *bundle, const char *name) {
  dlerror();
  auto *f = reinterpret_cast<typename std::add_pointer<F>::type>(dlsym(bundle, name));
  assert(!dlerror());
  return f;
}

static std::string Read(const char *path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

int main(int argc, char **argv) {
  assert(argc == 4);
  auto *bundle = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
  if (!bundle) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  const std::string json = Read(argv[2]), params = Read(argv[3]);
  const auto start = std::chrono::steady_clock::now();
  auto *handle = getFunc<void *(const char *, const char *, uint64_t)>(
      bundle, "tvm_runtime_create")(json.c_str(), params.data(), params.size());
  float x[6] = {0, 1, 2, 3, 4, 5}, y[6] = {0};
  int64_t shape[2] = {2, 3};
  DLTensor input{x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  DLTensor output{y, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  getFunc<void(void *, const char *, void *)>(bundle, "tvm_runtime_set_input")(handle, "x", &input);
  auto *ftvm_runtime_run = getFunc<auto(void *)->void>(bundle, "tvm_runtime_run");
  ftvm_runtime_run(handle);
  getFunc<void(void *, int, void *)>(bundle, "tvm_runtime_get_output")(handle, 0, &output);
  getFunc<void(void *)>(bundle, "tvm_runtime_destroy")(handle);
  assert(std::chrono::steady_clock::now() >= start);
  for (float value : y) std::printf("%g ", value);
  return dlclose(bundle);
}
