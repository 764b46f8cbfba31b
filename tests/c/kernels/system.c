/* Kernels of a statically linked library; several are linked into one program, each with another
 * BIAS. */
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

int calls; /* each library has its own */

void shift(const float *in, float *out, int64_t n) {
  calls++;
  for (int64_t i = 0; i < n; i++) out[i] = in[i] + BIAS;
}

int how_often(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  ret->v_int64 = calls;
  *ret_code = kTVMArgInt;
  return 0;
}

int fail(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource;
  static const char text[] = {'n', 'o', ' ', '0' + BIAS % 10, 0};
  TVMAPISetLastError(text);
  return -1;
}

/* Calls the function "test.twice" of the environment. */
int ask(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  static void *twice;
  (void)count, (void)resource;
  if (!twice && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "test.twice", &twice)) return -1;
  return TVMFuncCall(twice, args, codes, 1, ret, ret_code);
}

static int fill(int task, TVMParallelGroupEnv *env, void *data) {
  int32_t *counts = data;
  for (int i = task; i < 64; i += env->num_task) counts[i] = i;
  return TVMBackendParallelBarrier(task, env);
}

/* 0 + 1 + ... + 63, in parallel, in a workspace. */
int sum(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  int32_t *counts = TVMBackendAllocWorkspace(kDLCPU, 0, 64 * sizeof(*counts), kDLInt, 32);
  if (!counts) return -1;
  int status = TVMBackendParallelLaunch(fill, counts, 0);
  ret->v_int64 = 0;
  *ret_code = kTVMArgInt;
  for (int i = 0; i < 64; i++) ret->v_int64 += counts[i];
  return TVMBackendFreeWorkspace(kDLCPU, 0, counts) || status ? -1 : 0;
}
