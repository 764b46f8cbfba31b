/* A constructor that forks, or waits, where the host asks for it. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

static pid_t forked = -1;

__attribute__((constructor)) static void begin(void) {
  const char *what = getenv("MBLOB_TEST_CONSTRUCTOR");
  char byte = 0;
  if (!what) return;
  if (*what == 'f') forked = fork();
  if (*what == 's' && system("true") != 0) abort();
  if (*what == 'w' && (write(atoi(what + 1), "", 1) != 1 || read(atoi(what + 1), &byte, 1) != 1))
    abort();
}

TVM_DLL int child(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                  void *resource);
TVM_DLL int child(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                  void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = forked;
  *ret_code = kTVMArgInt;
  return 0;
}
