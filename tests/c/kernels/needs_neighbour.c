/* A library that finds another one through $ORIGIN. */
#include <tvm/runtime/c_runtime_api.h>

TVM_DLL void *__tvm_module_ctx __attribute__((weak)); /* which code of TVM has */
int neighbour(void);

TVM_DLL int asks_neighbour(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                           void *resource);
TVM_DLL int asks_neighbour(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                           void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = neighbour();
  *ret_code = kTVMArgInt;
  return 0;
}
