/* A plug-in of some program that has libmblob.a in it: uses what threads have, and is closed. */
#include <mblob.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

static int task(int id, TVMParallelGroupEnv *env, void *data) {
  (void)id, (void)env;
  atomic_fetch_add((atomic_int *)data, 1);
  return 0;
}

static int says(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  TVMValue text = {.v_str = "a text that is long enough for the heap"};
  int code = kTVMStr;
  (void)args, (void)codes, (void)count, (void)resource;
  return TVMCFuncSetReturn(ret, &text, &code, 1);
}

/* 0, or the number of what failed. */
__attribute__((visibility("default"))) int use(const char *library, int tasks);
int use(const char *library, int tasks) {
  mblob_module *module = NULL;
  mblob_function *function = NULL;
  TVMValue ret;
  const char **names;
  int code, count;
  atomic_int ran = 0;
  if (mblob_open("/nowhere/none.so", NULL, &module) != MBLOB_E_IO) return 1;
  if (mblob_open(library, NULL, &module)) return 2;
  if (!mblob_module_function(module, "nothing of that name", 0, &function)) return 3;
  mblob_module_release(module);
  if (mblob_function_create(says, NULL, NULL, &function)) return 4;
  if (mblob_function_call(function, NULL, NULL, 0, &ret, &code) || code != kTVMStr) return 5;
  mblob_function_release(function);
  if (TVMFuncListGlobalNames(&count, &names) || !count) return 6;
  void *block = TVMBackendAllocWorkspace(kDLCPU, 0, 10000, kDLFloat, 32);
  if (!block || TVMBackendFreeWorkspace(kDLCPU, 0, block)) return 7;
  if (TVMBackendParallelLaunch(task, &ran, tasks) || atomic_load(&ran) != tasks) return 8;
  return strstr(TVMGetLastError(), "nothing of that name") ? 0 : 9;
}
