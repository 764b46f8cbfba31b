/* Packed functions as TVM's target="c" and external code generators write them: the runtime's
 * functions are ordinary undefined externals, called, pointed to from data, taken as values and
 * used by a constructor. */
#include <tvm/runtime/c_backend_api.h>

#if defined(__PIC__) && !defined(MBLOB_HOST)
#error "compile with -DMBLOB_HOST: these must stay undefined"
#endif

#define PACKED(name)                                                                    \
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, \
                   void *resource);                                                     \
  TVM_DLL int name(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, \
                   void *resource)
#define UNUSED (void)args, (void)codes, (void)count, (void)ret, (void)ret_code, (void)resource

#ifdef __cplusplus
extern "C" {
#endif

extern uint16_t __gnu_f2h_ieee(float value);
extern float __gnu_h2f_ieee(uint16_t half);
#if defined(__x86_64__) || defined(__aarch64__)
extern float __extendhfsf2(float half); /* a half travels in the low bits of a vector register */
extern float __truncsfhf2(float value);
extern float __truncdfhf2(double value);
extern double __extendhfdf2(float half);
#endif
#if defined(__x86_64__)
extern long double __extendhfxf2(float half);
extern float __truncxfhf2(long double value);
#endif
extern int TVMNoRuntimeHasThis(void) __attribute__((weak));
#pragma weak TVMFuncGetGlobal

TVM_DLL void *__tvm_module_ctx;

static int64_t returned(TVMValue *ret, int *ret_code, int64_t value) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

/* out = (a + 1) * 2, through a workspace */
PACKED(two_stages) {
  UNUSED;
  const DLTensor *a = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  int64_t n = a->shape[0];
  float *between = (float *)TVMBackendAllocWorkspace(1, 0, (uint64_t)n * sizeof(float), 2, 32);
  if (!between) return -1;
  for (int64_t i = 0; i < n; i++) between[i] = ((const float *)a->data)[i] + 1;
  for (int64_t i = 0; i < n; i++) ((float *)out->data)[i] = between[i] * 2;
  return TVMBackendFreeWorkspace(1, 0, between) ? -1 : 0;
}

static void *host_answer_packed;

PACKED(asks) {
  UNUSED;
  if (!host_answer_packed &&
      TVMBackendGetFuncFromEnv(__tvm_module_ctx, "host.answer", &host_answer_packed))
    return -1;
  return TVMFuncCall(host_answer_packed, args, codes, count, ret, ret_code) ? -1 : 0;
}

PACKED(fails_with) {
  UNUSED;
  TVMAPISetLastError(args[0].v_str);
  return -1;
}

static int count_task(int task_id, TVMParallelGroupEnv *env, void *cdata) {
  if (TVMBackendParallelBarrier(task_id, env)) return -1;
  if (task_id == 0) *(int *)cdata = env->num_task;
  return 0;
}

PACKED(parallel) {
  UNUSED;
  int tasks = 0;
  if (TVMBackendParallelLaunch(count_task, &tasks, (int)args[0].v_int64)) return -1;
  return (int)returned(ret, ret_code, tasks);
}

/* ---- float16 --------------------------------------------------------------------------------- */

PACKED(half_to_float) {
  UNUSED;
  const DLTensor *half = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < half->shape[0]; i++)
    ((float *)out->data)[i] = __gnu_h2f_ieee(((const uint16_t *)half->data)[i]);
  return 0;
}

PACKED(float_to_half) {
  UNUSED;
  const DLTensor *in = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < in->shape[0]; i++)
    ((uint16_t *)out->data)[i] = __gnu_f2h_ieee(((const float *)in->data)[i]);
  return 0;
}

#if defined(__x86_64__) || defined(__aarch64__)
static float in_register(uint16_t half) {
  union {
    uint32_t bits;
    float value;
  } u = {0xABCD0000u | half}; /* what is above the half does not count */
  return u.value;
}

static uint16_t from_register(float value) {
  union {
    float value;
    uint32_t bits;
  } u = {value};
  return (uint16_t)u.bits;
}

PACKED(half_to_float_in_registers) {
  UNUSED;
  const DLTensor *half = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < half->shape[0]; i++)
    ((float *)out->data)[i] = __extendhfsf2(in_register(((const uint16_t *)half->data)[i]));
  return 0;
}

PACKED(float_to_half_in_registers) {
  UNUSED;
  const DLTensor *in = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < in->shape[0]; i++)
    ((uint16_t *)out->data)[i] = from_register(__truncsfhf2(((const float *)in->data)[i]));
  return 0;
}

PACKED(double_to_half_in_registers) {
  UNUSED;
  const DLTensor *in = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < in->shape[0]; i++)
    ((uint16_t *)out->data)[i] = from_register(__truncdfhf2(((const double *)in->data)[i]));
  return 0;
}

PACKED(half_to_double_in_registers) {
  UNUSED;
  const DLTensor *half = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < half->shape[0]; i++)
    ((double *)out->data)[i] = __extendhfdf2(in_register(((const uint16_t *)half->data)[i]));
  return 0;
}

#if defined(__x86_64__)
PACKED(half_to_extended_in_registers) {
  UNUSED;
  const DLTensor *half = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < half->shape[0]; i++)
    ((double *)out->data)[i] =
        (double)__extendhfxf2(in_register(((const uint16_t *)half->data)[i]));
  return 0;
}

/* The halves nearest to the sums of two doubles, which are added in extended precision. */
PACKED(sum_to_half_in_registers) {
  UNUSED;
  const DLTensor *a = (DLTensor *)args[0].v_handle, *b = (DLTensor *)args[1].v_handle;
  const DLTensor *out = (DLTensor *)args[2].v_handle;
  for (int64_t i = 0; i < a->shape[0]; i++) {
    long double sum =
        (long double)((const double *)a->data)[i] + (long double)((const double *)b->data)[i];
    ((uint16_t *)out->data)[i] = from_register(__truncxfhf2(sum));
  }
  return 0;
}
#endif

/* LLVM before 15 took the result of __truncsfhf2 from an integer register. */
PACKED(float_to_half_as_integer) {
  UNUSED;
#if defined(__x86_64__)
  uint16_t (*truncate)(float) = (uint16_t (*)(float))(void (*)(void))__truncsfhf2;
#else
  uint16_t (*truncate)(float) = __gnu_f2h_ieee;
#endif
  const DLTensor *in = (DLTensor *)args[0].v_handle, *out = (DLTensor *)args[1].v_handle;
  for (int64_t i = 0; i < in->shape[0]; i++)
    ((uint16_t *)out->data)[i] = truncate(((const float *)in->data)[i]);
  return 0;
}
#endif

/* ---- where symbols went ---------------------------------------------------------------------- */

typedef int (*call_type)(void *, TVMValue *, int *, int, TVMValue *, int *);
call_type stored_in_data = TVMFuncCall;
static const call_type stored_in_constants[] = {TVMFuncCall, TVMFuncCall};
static int workspaces_in_constructor;

__attribute__((constructor)) static void at_load(void) {
  void *block = TVMBackendAllocWorkspace(1, 0, 64, 2, 32);
  workspaces_in_constructor = block && TVMBackendFreeWorkspace(1, 0, block) == 0;
}

PACKED(constructor_ran) {
  UNUSED;
  return (int)returned(ret, ret_code, workspaces_in_constructor);
}

/* Whether every way to the same function leads to the same place; that place. */
PACKED(address_of_call) {
  UNUSED;
  call_type taken = TVMFuncCall;
  __asm__("" : "+r"(taken));
  if (taken != stored_in_data || taken != stored_in_constants[count > 0]) {
    TVMAPISetLastError("the addresses of a function differ");
    return -1;
  }
  return (int)returned(ret, ret_code, (int64_t)(intptr_t)taken);
}

/* 1: TVMFuncGetGlobal is there, 2: TVMNoRuntimeHasThis. */
PACKED(weak_ones) {
  UNUSED;
  return (int)returned(ret, ret_code, (TVMFuncGetGlobal ? 1 : 0) + (TVMNoRuntimeHasThis ? 2 : 0));
}

#ifdef __cplusplus
}
#endif
