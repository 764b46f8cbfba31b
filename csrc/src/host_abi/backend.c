/* The runtime as kernels see it: TVM's C backend API (tvm/runtime/c_backend_api.h), over this
 * runtime's parts. */
#define _GNU_SOURCE
#include <tvm/runtime/c_backend_api.h>

#include "core/call/call.h"
#include "core/device/device.h"
#include "core/threads/threads.h"

void TVMAPISetLastError(const char *msg) { mb_set_kernel_error(msg); }

const char *TVMGetLastError(void) { return mblob_last_error(); }

int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                TVMValue *ret_val, int *ret_type_code) {
  if (MB_NO_FUNCTION(func) || (num_args && (MB_IS_NULL(arg_values) || MB_IS_NULL(type_codes))))
    return -1;
  if (num_args < 0) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "TVMFuncCall: num_args is %d, expected 0 or more", num_args);
    return -1;
  }
  bool watched = atomic_load_explicit(&mb_call_watches, memory_order_relaxed) != 0;
  int status = (watched ? mb_call_watched : mblob_function_call)(func, arg_values, type_codes,
                                                                 num_args, ret_val, ret_type_code);
  /* A flag of a Python function: callers of before TVM 0.18 know numbers only. */
  if (ret_type_code && *ret_type_code == kTVMArgBool &&
      mblob_function_argument_mode(func) == MBLOB_ARGUMENTS_CLASSIC)
    *ret_type_code = kTVMArgInt;
  return status ? -1 : 0;
}

int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret) {
  if (MB_IS_NULL(ret) || MB_IS_NULL(value) || MB_IS_NULL(type_code)) return -1;
  if (num_ret != 1) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "TVMCFuncSetReturn: num_ret is %d, expected 1", num_ret);
    return -1;
  }
  return mb_named_result(__func__, mb_return_set(ret, *value, *type_code));
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  return ptr ? mb_workspace_free((DLDevice){(DLDeviceType)device_type, device_id}, ptr) : 0;
}

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task) {
  if (mb_is_null(__func__, "flambda", (const void *)(uintptr_t)flambda)) return -1;
  return mb_parallel_launch(flambda, cdata, num_task);
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  if (MB_IS_NULL(penv)) return -1;
  return mb_parallel_barrier(task_id, penv);
}

int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes) {
  void *never = NULL;
  (void)nbytes;
  if (MB_IS_NULL(handle) || mb_is_null(__func__, "f", (const void *)(uintptr_t)f)) return -1;
  /* TVM leaves races to its callers; here one of them runs f. None waits for it. */
  bool first = __atomic_compare_exchange_n(handle, &never, (void *)(uintptr_t)1, false,
                                           __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return first ? f(cdata) : 0;
}

int TVMBackendRegisterEnvCAPI(const char *name, void *ptr) {
  if (MB_IS_NULL(name)) return -1;
  if (strcmp(name, "mblob_interrupted") == 0) {
    const union {
      void *address;
      mb_interrupt_hook call;
    } hook = {ptr};
    mb_interrupt_ask(hook.call);
    return 0;
  }
  /* Hooks of the host language. This runtime calls back into a host only through functions that
   * the host made, so it has no use for them, but libraries and hosts may offer them. */
  static const char known[][24] = {"PyErr_CheckSignals", "Py_IncRef", "Py_DecRef",
                                   "PyGILState_Ensure", "PyGILState_Release"};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
    if (strcmp(name, known[i]) == 0) return 0;
  (void)ptr;
  (void)mb_fail(MBLOB_E_ARGUMENT, "TVMBackendRegisterEnvCAPI: '%s' is no hook that is known", name);
  return -1;
}
