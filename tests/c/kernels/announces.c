/* A library that exports nothing: all it does is to announce itself when it is loaded. */
#include <tvm/runtime/c_backend_api.h>

static int announced(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                     void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = 77;
  *ret_code = kTVMArgInt;
  return 0;
}

__attribute__((constructor)) static void announce(void) {
  (void)TVMBackendRegisterSystemLibSymbol("announced", (void *)(uintptr_t)announced);
}
