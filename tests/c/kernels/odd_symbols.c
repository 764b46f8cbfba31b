/* Undefined runtime functions beside symbols that need more from the dynamic linker: indirect
 * functions, thread storage of two models. */
#include <tvm/runtime/c_backend_api.h>

static int one(void) { return 1; }
static int two(void) { return 2; }
__attribute__((used)) static int (*choose(void))(void) { return sizeof(void *) ? two : one; }
int chosen(void) __attribute__((ifunc("choose")));

static int seventy(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                   void *self) {
  (void)args, (void)codes, (void)count, (void)self;
  ret->v_int64 = 70;
  *ret_code = kTVMArgInt;
  return 0;
}
__attribute__((used)) static int (*choose_packed(void))(TVMValue *, int *, int, TVMValue *, int *,
                                                        void *) {
  return seventy;
}
TVM_DLL int indirect(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                     void *self) __attribute__((ifunc("choose_packed")));

_Thread_local int dynamic = 5;
_Thread_local int fixed __attribute__((tls_model("initial-exec"))) = 9;

/* chosen(), and how often this thread called, from two variables. */
TVM_DLL int counts(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self);
int counts(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  (void)args, (void)codes, (void)count, (void)self;
  void *block = TVMBackendAllocWorkspace(1, 0, 64, 2, 32);
  if (!block || TVMBackendFreeWorkspace(1, 0, block)) return -1;
  ret->v_int64 = chosen() * 10000 + ++dynamic * 100 + ++fixed;
  *ret_code = kTVMArgInt;
  return 0;
}
