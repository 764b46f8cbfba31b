/* Packed functions as a C generator writes them, without a blob. */
#include <stdbool.h>
#include <tvm/runtime/c_backend_api.h>

typedef struct {
  TVMValue *args;
  int *codes;
  int count;
} call_args;

#define PACKED(name)                                                                    \
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, \
                   void *resource);                                                     \
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, \
                   void *resource)
#define UNUSED (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource

/* vadd(a, b, c): float32, c = a + b. */
PACKED(vadd) {
  UNUSED;
  if (count != 3) {
    TVMAPISetLastError("vadd: num_args should be 3");
    return -1;
  }
  const DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *c = args[2].v_handle;
  for (int64_t i = 0; i < a->shape[0]; i++)
    ((float *)c->data)[i] = ((const float *)a->data)[i] + ((const float *)b->data)[i];
  return 0;
}

PACKED(returns_int) {
  UNUSED;
  ret->v_int64 = count;
  *ret_code = kTVMArgInt;
  return 0;
}

PACKED(returns_string) {
  UNUSED;
  static const char text[] = "from a kernel";
  ret->v_str = text;
  *ret_code = kTVMStr;
  return 0;
}

PACKED(returns_nonsense) {
  UNUSED;
  *ret_code = 77;
  return 0;
}

PACKED(fails_silently) {
  UNUSED;
  return -1;
}

static void *cached;

/* calls host.twice(args[0]) of the environment */
PACKED(calls_twice) {
  UNUSED;
  if (!cached && TVMBackendGetFuncFromEnv(__tvm_module_ctx, "host.twice", &cached) != 0) return -1;
  return TVMFuncCall(cached, args, codes, count, ret, ret_code);
}

struct sums {
  int64_t tasks[256];
  int32_t count;
};

static int add_task(int task_id, TVMParallelGroupEnv *env, void *cdata) {
  struct sums *sums = cdata;
  sums->tasks[task_id] = task_id + 1;
  if (TVMBackendParallelBarrier(task_id, env) != 0) return -1;
  int64_t seen = 0;
  for (int32_t i = 0; i < env->num_task; i++) seen += sums->tasks[i];
  if (task_id == 0) sums->count = env->num_task;
  return seen == (int64_t)env->num_task * (env->num_task + 1) / 2 ? 0 : -1;
}

/* parallel(n): n tasks that meet at a barrier; returns how many there were. */
PACKED(parallel) {
  UNUSED;
  struct sums sums = {{0}, 0};
  if (TVMBackendParallelLaunch(add_task, &sums, (int)args[0].v_int64) != 0) return -1;
  ret->v_int64 = sums.count;
  *ret_code = kTVMArgInt;
  return 0;
}

static int failing_task(int task_id, TVMParallelGroupEnv *env, void *cdata) {
  (void)env, (void)cdata;
  if (task_id == 1) TVMAPISetLastError("the second task does not like it");
  return task_id == 1 ? -1 : 0;
}

PACKED(parallel_fails) {
  UNUSED;
  return TVMBackendParallelLaunch(failing_task, NULL, 3);
}

static int nested_task(int task_id, TVMParallelGroupEnv *env, void *cdata) {
  (void)task_id, (void)env;
  struct sums sums = {{0}, 0};
  (void)cdata;
  return TVMBackendParallelLaunch(add_task, &sums, 0);
}

PACKED(parallel_nested) {
  UNUSED;
  return TVMBackendParallelLaunch(nested_task, NULL, 2);
}

/* workspace(n): takes n blocks of growing size, checks their alignment, and gives them back. */
PACKED(workspace) {
  UNUSED;
  void *blocks[64];
  int64_t n = args[0].v_int64;
  bool aligned = true;
  for (int64_t i = 0; i < n; i++) {
    blocks[i] = TVMBackendAllocWorkspace(1, 0, (uint64_t)(i * 1000), 2, 32);
    if (!blocks[i]) return -1;
    aligned = aligned && (uintptr_t)blocks[i] % 128 == 0;
    for (int64_t k = 0; k < i * 1000; k++) ((char *)blocks[i])[k] = (char)i;
  }
  while (n-- > 0)
    if (TVMBackendFreeWorkspace(1, 0, blocks[n]) != 0) return -1;
  if (!aligned) TVMAPISetLastError("workspace is not aligned");
  return aligned ? 0 : -1;
}

/* A host function from a kernel: there only if a runtime is in the process. */
PACKED(asks_the_host) {
  UNUSED;
  void *found = NULL;
  if (TVMFuncGetGlobal("host.twice", &found) != 0) return -1;
  return TVMFuncFree(found);
}

TVM_DLL const char __tvm_main__[] = "vadd";
TVM_DLL int some_data = 5;

TVM_DLL double plain_c(double x);
TVM_DLL double plain_c(double x) { return x + 0.5; }
