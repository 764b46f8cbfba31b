/* In the style of golang/src (gotvm): a binding over the C API, which offers functions of its own
 * language to kernels, and reads errors as texts. Argument: the kernel's library. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static int finalized;

/* Every callback of the other language comes in here. */
static int callback(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *handle) {
  TVMValue sum = {.v_int64 = *(int *)handle};
  int code = kTVMArgInt;
  for (int i = 0; i < count; ++i) {
    if (codes[i] != kTVMArgInt) return TVMAPISetLastError("ValueError: expected integers"), -1;
    sum.v_int64 += args[i].v_int64;
  }
  return TVMCFuncSetReturn(ret, &sum, &code, 1);
}

static void finalize(void *handle) { finalized += *(int *)handle == 100; }

int main(int argc, char **argv) {
  static int hundred = 100;
  TVMFunctionHandle made, found, addone;
  TVMModuleHandle library;
  TVMValue args[2] = {{.v_int64 = 1}, {.v_int64 = 2}}, ret;
  int codes[2] = {kTVMArgInt, kTVMArgInt}, ret_code, names;
  const char **list;
  if (argc != 2 || TVMModLoadFromFile(argv[1], "so", &library) ||
      TVMModGetFunction(library, "addone", 0, &addone))
    return puts(TVMGetLastError()), 1;

  if (TVMFuncCreateFromCFunc(callback, &hundred, finalize, &made) ||
      TVMFuncRegisterGlobal("gotvm.sum", made, 1) || TVMFuncFree(made) ||
      TVMFuncGetGlobal("gotvm.sum", &found) || TVMFuncCall(found, args, codes, 2, &ret, &ret_code))
    return puts(TVMGetLastError()), 1;
  printf("%d ", (int)ret.v_int64);
  codes[1] = kTVMOpaqueHandle;
  if (TVMFuncCall(found, args, codes, 2, &ret, &ret_code) == 0) return 1;
  printf("%s ", strstr(TVMGetLastError(), "expected integers") ? "error" : TVMGetLastError());

  if (TVMFuncListGlobalNames(&names, &list)) return 1;
  for (int i = 0; i < names; ++i)
    if (strcmp(list[i], "gotvm.sum") == 0) printf("listed ");

  TVMArrayHandle x, y;
  const int64_t shape[1] = {3};
  float values[3] = {1, 2, 3};
  if (TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &x) ||
      TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &y) ||
      TVMArrayCopyFromBytes(x, values, sizeof(values)))
    return 1;
  args[0].v_handle = x;
  args[1].v_handle = y;
  codes[0] = codes[1] = kTVMNDArrayHandle;
  if (TVMFuncCall(addone, args, codes, 2, &ret, &ret_code)) return puts(TVMGetLastError()), 1;
  if (TVMArrayCopyToBytes(y, values, sizeof(values))) return 1;
  printf("%g %g %g ", (double)values[0], (double)values[1], (double)values[2]);
  TVMArrayFree(x);
  TVMArrayFree(y);
  TVMFuncFree(addone);
  TVMFuncFree(found);
  TVMFuncRemoveGlobal("gotvm.sum");
  printf("%d", finalized);
  return TVMModFree(library);
}
