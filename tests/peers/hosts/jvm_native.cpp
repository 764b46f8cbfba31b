// In the style of jvm/native: each method of the Java classes is a function over the C API, with the
// arguments of a call on a stack of the thread. Arguments: the kernel's library, the model's library.
#include <tvm/runtime/c_runtime_api.h>

#include <iostream>
#include <string>
#include <thread>
#include <vector>

struct Entry {
  std::vector<TVMValue> values;
  std::vector<int> codes;
  std::vector<std::string> strings;
};
static thread_local Entry entry;

static void PushLong(int64_t value) {
  TVMValue v;
  v.v_int64 = value;
  entry.values.push_back(v);
  entry.codes.push_back(kTVMArgInt);
}
static void PushHandle(void *handle, int code) {
  TVMValue v;
  v.v_handle = handle;
  entry.values.push_back(v);
  entry.codes.push_back(code);
}
static void PushString(const std::string &text) {
  entry.strings.push_back(text);
  TVMValue v;
  v.v_str = entry.strings.back().c_str();
  entry.values.push_back(v);
  entry.codes.push_back(kTVMStr);
}

static TVMValue Call(TVMFunctionHandle f, int *code) {
  TVMValue ret;
  *code = kTVMNullptr;
  const int status = TVMFuncCall(f, entry.values.data(), entry.codes.data(),
                                 static_cast<int>(entry.values.size()), &ret, code);
  entry.values.clear();
  entry.codes.clear();
  entry.strings.clear();
  if (status) throw std::runtime_error(TVMGetLastError());
  return ret;
}

static TVMFunctionHandle Method(TVMModuleHandle module, const char *name) {
  TVMFunctionHandle f = nullptr;
  if (TVMModGetFunction(module, name, 0, &f)) throw std::runtime_error(TVMGetLastError());
  return f;
}

static int Invoke(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *) {
  for (int i = 0; i < count; ++i)
    if (codes[i] == kTVMNDArrayHandle || codes[i] == kTVMModuleHandle ||
        codes[i] == kTVMPackedFuncHandle)
      TVMCbArgToReturn(&args[i], &codes[i]);
  const std::string text = std::to_string(count) + " arguments";
  TVMValue value;
  value.v_str = text.c_str();
  int code = kTVMStr;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

int main(int, char **argv) {
  int code;
  std::thread([&] { entry.strings.reserve(8); }).join();
  entry.strings.reserve(8);
  TVMModuleHandle model;
  if (TVMModLoadFromFile(argv[2], "", &model)) return 1;
  PushHandle(nullptr, kDLDevice);
  entry.values.back().v_device = DLDevice{kDLCPU, 0};
  TVMModuleHandle executor = Call(Method(model, "default"), &code).v_handle;
  TVMArrayHandle x;
  const int64_t shape[] = {2, 3};
  TVMArrayAlloc(shape, 2, kDLFloat, 32, 1, kDLCPU, 0, &x);
  for (int i = 0; i < 6; ++i) static_cast<float *>(x->data)[i] = i;
  PushString("x");
  PushHandle(x, kTVMNDArrayHandle);
  Call(Method(executor, "set_input"), &code);
  Call(Method(executor, "run"), &code);
  PushLong(0);
  TVMArrayHandle y =
      static_cast<TVMArrayHandle>(Call(Method(executor, "get_output"), &code).v_handle);
  std::cout << (code == kTVMNDArrayHandle) << ' ' << static_cast<float *>(y->data)[5] << ' ';
  TVMFunctionHandle callback;
  TVMFuncCreateFromCFunc(Invoke, nullptr, nullptr, &callback);
  PushHandle(x, kTVMNDArrayHandle);
  PushHandle(model, kTVMModuleHandle);
  std::cout << Call(callback, &code).v_str << ' ';
  PushString("nobody");
  try {
    Call(Method(executor, "set_input"), &code);
  } catch (const std::exception &error) {
    std::cout << (std::string(error.what()).find("set_input") != std::string::npos);
  }
  TVMFuncFree(callback);
  TVMArrayFree(y);
  TVMArrayFree(x);
  TVMModFree(executor);
  return TVMModFree(model);
}
