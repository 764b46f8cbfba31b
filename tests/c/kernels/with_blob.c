/* A library whose blob is the file BLOB, byte for byte; `which` tells libraries apart. With LOADED the
 * environment tells that its code has run. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <tvm/runtime/c_backend_api.h>

__asm__(
    ".section .rodata\n.balign 64\n.globl __tvm_dev_mblob\n.type __tvm_dev_mblob, %object\n"
    "__tvm_dev_mblob:\n.incbin \"" BLOB "\"\n.size __tvm_dev_mblob, . - __tvm_dev_mblob\n.text");

static void *cached;

#ifdef LOADED
__attribute__((constructor)) static void tell(void) { (void)setenv(LOADED, "1", 1); }
#endif

/* Calls `in_child` of the imports. */
TVM_DLL int calls_child(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                        void *resource);
TVM_DLL int calls_child(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                        void *resource) {
  (void)resource;
  if (!cached && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "in_child", &cached) != 0) return -1;
  return TVMFuncCall(cached, args, codes, count, ret, ret_code);
}

#ifndef WHICH
#define WHICH 0
#endif
TVM_DLL int which(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                  void *resource);
TVM_DLL int which(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                  void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = WHICH;
  *ret_code = kTVMArgInt;
  return 0;
}
