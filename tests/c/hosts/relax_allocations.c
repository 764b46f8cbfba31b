/* relax_allocations LIBRARY FUNCTION TENSOR... : how often a hundred warm calls of a function of a
 * program allocate. TENSOR is a type and a shape, such as f3,16; f: zeros of float32, u: zeros of uint8,
 * i: a three, then zeros, of int32; l: ones of int64. glibc alone: the functions below stand for its own, in libmblob too. */
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

#define ARGUMENTS 8

static TVMArrayHandle tensor(const char *text) {
  int64_t shape[4];
  int ndim = 0, bits = *text == 'u' ? 8 : *text == 'l' ? 64 : 32;
  const int code = *text == 'u' ? kDLUInt : *text == 'f' ? kDLFloat : kDLInt;
  size_t size = (size_t)bits / 8;
  char *at = (char *)(uintptr_t)text + 1;
  for (; *at && ndim < 4; at += *at == ',') size *= (size_t)(shape[ndim++] = strtol(at, &at, 10));
  TVMArrayHandle made = NULL;
  if (TVMArrayAlloc(shape, ndim, code, bits, 1, kDLCPU, 0, &made)) exit(failed());
  memset(made->data, 0, size);
  if (*text == 'i') *(int32_t *)made->data = 3;
  for (size_t i = 0; *text == 'l' && i < size / 8; i++) ((int64_t *)made->data)[i] = 1;
  return made;
}

static void drop(TVMValue value, int code) {
  if (code == kTVMNDArrayHandle) (void)TVMArrayFree(value.v_handle);
  if (code == kTVMObjectHandle) (void)TVMObjectFree(value.v_handle);
  if (code == kTVMPackedFuncHandle) (void)TVMFuncFree(value.v_handle);
}

int main(int argc, char **argv) {
  mblob_module *program = NULL, *vm = NULL;
  mblob_function *run = NULL;
  TVMValue given[ARGUMENTS];
  int codes[ARGUMENTS];
  const int count = argc - 3;
  if (count < 0 || count > ARGUMENTS || mblob_open(argv[1], NULL, &program) ||
      mblob_executor_create(program, NULL, kDLCPU, 0, &vm) ||
      mblob_module_function(vm, argv[2], 0, &run))
    return failed();
  for (int i = 0; i < count; i++) {
    given[i].v_handle = tensor(argv[3 + i]);
    codes[i] = kTVMNDArrayHandle;
  }
  for (int i = 0; i < 200; i++) {
    TVMValue ret;
    int ret_code;
    if (i == 100) allocations = 0;
    if (mblob_function_call(run, given, codes, count, &ret, &ret_code)) return failed();
    drop(ret, ret_code);
  }
  printf("%ld\n", allocations);
  for (int i = 0; i < count; i++) drop(given[i], codes[i]);
  mblob_function_release(run);
  mblob_module_release(vm);
  mblob_module_release(program);
  return 0;
}
