/* relax_allocations LIBRARY : how often a hundred warm calls of its main(uint8[3,1,8,8]) allocate.
 * glibc alone: the functions below stand for its own, in libmblob too. */
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static long allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t to, size_t size);

void *malloc(size_t size) {
  allocations++;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  allocations++;
  return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  allocations++;
  return __libc_realloc(old, size);
}
void *aligned_alloc(size_t to, size_t size) {
  allocations++;
  return __libc_memalign(to, size);
}
int posix_memalign(void **out, size_t to, size_t size) {
  allocations++;
  return (*out = __libc_memalign(to, size)) == NULL;
}

static int failed(void) {
  fprintf(stderr, "%s\n", mblob_last_error());
  return 1;
}

int main(int argc, char **argv) {
  int64_t shape[4] = {3, 1, 8, 8};
  mblob_module *program = NULL, *vm = NULL;
  mblob_function *run = NULL;
  TVMArrayHandle images = NULL;
  if (argc < 2 || mblob_open(argv[1], NULL, &program) ||
      mblob_executor_create(program, NULL, 1, 0, &vm) ||
      mblob_module_function(vm, "main", 0, &run) || TVMArrayAlloc(shape, 4, 1, 8, 1, 1, 0, &images))
    return failed();
  memset(images->data, 1, 192);
  for (int i = 0; i < 200; i++) {
    TVMValue arg = {.v_handle = images}, ret;
    int code = kTVMNDArrayHandle, ret_code;
    if (i == 100) allocations = 0;
    if (mblob_function_call(run, &arg, &code, 1, &ret, &ret_code)) return failed();
    TVMArrayFree(ret.v_handle);
  }
  printf("%ld\n", allocations);
  TVMArrayFree(images);
  mblob_function_release(run);
  mblob_module_release(vm);
  mblob_module_release(program);
  return 0;
}
