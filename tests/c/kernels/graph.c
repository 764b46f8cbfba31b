/* Functions for graphs: elementwise on float32, any shape; each checks that its tensors have one
 * size. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <tvm/runtime/c_backend_api.h>

static int64_t size_of(const DLTensor *t) {
  int64_t size = 1;
  for (int i = 0; i < t->ndim; i++) size *= t->shape[i];
  return size;
}

static float *data_of(const DLTensor *t) { return (float *)((char *)t->data + t->byte_offset); }

/* The arguments as tensors of one size; -1 if they are not. */
static int64_t check(TVMValue *args, int *codes, int count, int expected, DLTensor **t) {
  if (count != expected) return -1;
  for (int i = 0; i < count; i++) {
    if (codes[i] != kTVMDLTensorHandle) return -1;
    t[i] = args[i].v_handle;
    if (t[i]->dtype.code != kDLFloat || t[i]->dtype.bits != 32 || t[i]->dtype.lanes != 1) return -1;
    if (size_of(t[i]) != size_of(t[0])) return -1;
  }
  return size_of(t[0]);
}

#define KERNEL(name, n)                                                                       \
  static void name##_body(DLTensor **t, int64_t size);                                        \
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,       \
                   void *self);                                                               \
  int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) { \
    DLTensor *t[n];                                                                           \
    (void)ret, (void)ret_code, (void)self;                                                    \
    int64_t size = check(args, codes, count, n, t);                                           \
    if (size < 0) {                                                                           \
      TVMAPISetLastError(#name ": wrong arguments");                                          \
      return -1;                                                                              \
    }                                                                                         \
    name##_body(t, size);                                                                     \
    return 0;                                                                                 \
  }                                                                                           \
  static void name##_body(DLTensor **t, int64_t size)

KERNEL(add_one, 2) {
  for (int64_t i = 0; i < size; i++) data_of(t[1])[i] = data_of(t[0])[i] + 1;
}

KERNEL(twice, 2) {
  for (int64_t i = 0; i < size; i++) data_of(t[1])[i] = data_of(t[0])[i] * 2;
}

/* Not associative in floating point, so that an order shows in the result. */
KERNEL(mix, 3) {
  for (int64_t i = 0; i < size; i++)
    data_of(t[2])[i] = data_of(t[0])[i] * 1.37f - data_of(t[1])[i] * 0.73f;
}

KERNEL(both, 3) { /* two outputs */
  for (int64_t i = 0; i < size; i++) {
    data_of(t[1])[i] = data_of(t[0])[i] + 10;
    data_of(t[2])[i] = data_of(t[0])[i] + 20;
  }
}

KERNEL(dimensions, 2) {
  for (int64_t i = 0; i < size; i++) data_of(t[1])[i] = (float)(10 * t[0]->ndim + t[1]->ndim);
}

TVM_DLL int fails(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self);
int fails(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  const DLTensor *t = args[0].v_handle;
  if (data_of(t)[0] >= 0) return 0;
  TVMAPISetLastError("negative, of all things");
  return -1;
}

TVM_DLL int fails_late(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                       void *self);
int fails_late(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  TVMAPISetLastError("too late");
  return -1;
}

KERNEL(sleeps, 2) { /* some milliseconds */
  (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  for (int64_t i = 0; i < size; i++) data_of(t[1])[i] = data_of(t[0])[i] + 1;
}

/* Numbers that are subnormal: whether they count as zero belongs to a thread. */
KERNEL(divides, 2) {
  (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  for (int64_t i = 0; i < size; i++) data_of(t[1])[i] = data_of(t[0])[i] / 3;
}

static int half(int task_id, TVMParallelGroupEnv *env, void *data) {
  DLTensor **t = data;
  for (int64_t i = task_id; i < size_of(t[0]); i += env->num_task)
    data_of(t[1])[i] = data_of(t[0])[i] / 2;
  return 0;
}

KERNEL(launches, 2) {
  (void)size;
  (void)TVMBackendParallelLaunch(half, t, 0);
}

/* The result depends on the number of tasks. */
struct sum {
  DLTensor **t;
  float parts[16];
};

static int add_up(int task_id, TVMParallelGroupEnv *env, void *data) {
  struct sum *sum = data;
  for (int64_t i = task_id; i < size_of(sum->t[0]); i += env->num_task)
    sum->parts[task_id] += data_of(sum->t[0])[i] / 3;
  return 0;
}

static void put_sum(const struct sum *sum, int first, int step) {
  float all = 0;
  for (int i = 0; i < 16; i++) all += sum->parts[i];
  for (int64_t i = first; i < size_of(sum->t[1]); i += step) data_of(sum->t[1])[i] = all + (float)i;
}

/* The second half of each task reads what the first halves of all wrote. */
static int add_up_and_put(int task_id, TVMParallelGroupEnv *env, void *data) {
  if (add_up(task_id, env, data) || TVMBackendParallelBarrier(task_id, env)) return -1;
  put_sum(data, task_id, env->num_task);
  return TVMBackendParallelBarrier(task_id, env);
}

KERNEL(sums, 2) {
  struct sum sum = {t, {0}};
  (void)size;
  (void)TVMBackendParallelLaunch(add_up, &sum, 0);
  put_sum(&sum, 0, 1);
}

KERNEL(sums_of_seven, 2) {
  struct sum sum = {t, {0}};
  (void)size;
  (void)TVMBackendParallelLaunch(add_up, &sum, 7);
  put_sum(&sum, 0, 1);
}

KERNEL(meets_itself, 2) {
  struct sum sum = {t, {0}};
  (void)size;
  (void)TVMBackendParallelLaunch(add_up_and_put, &sum, 0);
}

KERNEL(meets_itself_with_seven, 2) {
  struct sum sum = {t, {0}};
  (void)size;
  (void)TVMBackendParallelLaunch(add_up_and_put, &sum, 7);
}

/* Two of these have to run at the same time: each waits for the other, some seconds. */
TVM_DLL int meets(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self);
int meets(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  static atomic_int arrivals;
  (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)self;
  int wanted = (atomic_fetch_add(&arrivals, 1) / 2 + 1) * 2;
  time_t end = time(NULL) + 20;
  while (atomic_load(&arrivals) < wanted) {
    if (time(NULL) > end) {
      TVMAPISetLastError("nobody came");
      return -1;
    }
    (void)sched_yield();
  }
  return 0;
}

static const float weights[4] __attribute__((aligned(128))) = {1, 2, 3, 4};

/* Storage 1 is linked into the library. */
TVM_DLL int _lookup_linked_param(TVMValue *args, int *codes, int count, TVMValue *ret,
                                 int *ret_code, void *self);
int _lookup_linked_param(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                         void *self) {
  (void)codes, (void)count, (void)self;
  *ret_code = args[0].v_int64 == 1 ? kTVMOpaqueHandle : kTVMNullptr;
  ret->v_handle = args[0].v_int64 == 1 ? (void *)(uintptr_t)weights : 0;
  return 0;
}
