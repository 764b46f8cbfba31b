/* dlopen_host LIBRARY: calls packed functions of a library that nobody gave a runtime. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static void *library;

static int call(const char *name, int64_t argument, int64_t *result) {
  union {
    void *address;
    TVMBackendPackedCFunc function;
  } f = {dlsym(library, name)};
  TVMValue arg = {.v_int64 = argument}, ret = {.v_int64 = 0};
  int code = kTVMArgInt, ret_code = kTVMNullptr;
  CHECK(f.address);
  int rc = f.function(&arg, &code, 1, &ret, &ret_code, NULL);
  *result = ret.v_int64;
  return rc;
}

int main(int argc, char **argv) {
  int64_t result;
  CHECK(argc == 2);
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library);
  union {
    void *address;
    const char *(*function)(void);
  } last_error = {dlsym(library, "__mblob_last_error")};
  CHECK(last_error.address);
  CHECK(call("workspace", 30, &result) == 0);
  CHECK(call("parallel", 8, &result) == 0 && result == 1);
  CHECK(call("vadd", 0, &result) == -1);
  CHECK(strcmp(last_error.function(), "vadd: num_args should be 3") == 0);
  CHECK(call("calls_twice", 0, &result) == -1);
  CHECK(strstr(last_error.function(), "host.twice"));
  CHECK(call("asks_the_host", 0, &result) == -1);
  CHECK(strstr(last_error.function(), "TVMFuncGetGlobal"));
  dlclose(library);
  return 0;
}
