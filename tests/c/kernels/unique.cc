// A library that cannot be unloaded: the static of a template is STB_GNU_UNIQUE.
#include <tvm/runtime/c_backend_api.h>

template <typename T>
struct counter {
  static int value;
};
template <typename T>
int counter<T>::value = 0;

static void *cached;

extern "C" TVM_DLL int counts(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                              void *resource);
int counts(TVMValue *, int *, int, TVMValue *ret, int *ret_code, void *) {
  ret->v_int64 = ++counter<int>::value;
  *ret_code = kTVMArgInt;
  return 0;
}

// The handle stays in `cached` when the library is closed.
extern "C" TVM_DLL int asks(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                            void *resource);
int asks(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *) {
  if (!cached && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "host.answer", &cached) != 0) return -1;
  return TVMFuncCall(cached, args, codes, count, ret, ret_code);
}
