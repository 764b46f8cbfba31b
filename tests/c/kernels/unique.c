/* A library that cannot be unloaded: it has an STB_GNU_UNIQUE symbol, as statics of C++
 * templates are. */
#include <tvm/runtime/c_backend_api.h>

#if defined(MBLOB_HOST) /* where the header defines nothing */
TVM_DLL void *__tvm_module_ctx;
#endif

#if defined(__clang__) /* its assembler changes no binding that its compiler wrote */
extern int unique_value;
__asm__(
    ".pushsection .bss\n.balign 4\n.type unique_value, %gnu_unique_object\n.size unique_value, 4\n"
    "unique_value: .zero 4\n.popsection");
#else
int unique_value;
__asm__(".type unique_value, %gnu_unique_object");
#endif

static void *cached;

TVM_DLL int counts(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                   void *resource);
int counts(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = ++unique_value;
  *ret_code = kTVMArgInt;
  return 0;
}

/* The handle stays in `cached` when the library is closed. */
TVM_DLL int asks(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource);
int asks(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)resource;
  if (!cached && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "host.answer", &cached) != 0) return -1;
  return TVMFuncCall(cached, args, codes, count, ret, ret_code);
}
