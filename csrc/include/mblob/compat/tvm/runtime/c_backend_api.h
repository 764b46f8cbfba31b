/* c_backend_api.h - what compiled kernels call: workspaces, parallel loops, functions of the
 * environment.
 *
 * The names and contracts are TVM's (0.7 - 0.19). See c_runtime_api.h for the two modes. */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include <tvm/runtime/c_runtime_api.h>

#if defined(__cplusplus) && __cplusplus >= 201703L && !defined(MBLOB_NO_VECTOR_TYPES)
#include <tvm/runtime/vector_types.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A packed function as compiled code has it. Returns 0, or -1 after TVMAPISetLastError. The
 * result goes to *out_ret_value with its TVMArgTypeCode in *out_ret_tcode; untouched, it is
 * kTVMNullptr. */
typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args,
                                     TVMValue *out_ret_value, int *out_ret_tcode,
                                     void *resource_handle);

#if MBLOB_KERNEL_MODE

/* Code from TVM's C generator names this variable without declaring it (0.8) or defines it
 * itself (0.7, and 0.9 on for AOT). In C the two merge; in C++ only the use of the name defines
 * it, unless the source says with MBLOB_OWN_MODULE_CTX that it does so itself. */
#ifdef __cplusplus
extern TVM_DLL __attribute__((weak)) void *__tvm_module_ctx;
#ifndef MBLOB_OWN_MODULE_CTX
static inline int mblob_get_func_with_ctx(void *mod_node, const char *func_name,
                                          TVMFunctionHandle *out) {
  MBLOB_DEFINE_SLOT(__tvm_module_ctx);
  return TVMBackendGetFuncFromEnv(mod_node, func_name, out);
}
#define TVMBackendGetFuncFromEnv mblob_get_func_with_ctx
#endif
#else
TVM_DLL __attribute__((weak)) void *__tvm_module_ctx;
#endif

/* Runs f(cdata) the first time `handle` is seen. Like TVM's: not for racing threads. */
static inline int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes) {
  (void)nbytes;
  if (*handle) return 0;
  *handle = (void *)(uintptr_t)1;
  return f(cdata);
}

#else

typedef struct {
  void *sync_handle; /* num_task 32-bit counters, one per 64 bytes */
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

/* A function of the imports of module `mod_node`, then of the global registry. The handle is
 * borrowed and stays valid as long as the library that asks. */
TVM_DLL int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out);
/* Scratch memory of this thread, 128-byte aligned, at least `nbytes`; NULL when there is none. */
TVM_DLL void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                       int dtype_code_hint, int dtype_bits_hint);
/* By the thread that allocated; -1 for a pointer that it does not have. */
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr);
/* Run flambda(0..num_task-1) in parallel and wait; num_task 0 means one task per worker. The
 * environment says how many there are: just one, on this thread, if the caller is itself a task.
 * -1 with "Task <i> error: <text>" lines if any task failed. */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task);
/* Wait until all tasks of the launch have come here. */
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);
/* f(cdata) and its result the first time that *handle is seen, 0 afterwards. One of several
 * racing threads runs it, and none waits for it. */
TVM_DLL int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes);

#endif

/* Statically linked libraries announce their symbols with this. */
MBLOB_TVM_API(TVMBackendRegisterSystemLibSymbol, (const char *name, void *ptr), (name, ptr))
/* Hooks of the host language: PyErr_CheckSignals, Py_IncRef, Py_DecRef. */
MBLOB_TVM_API(TVMBackendRegisterEnvCAPI, (const char *name, void *ptr), (name, ptr))
/* Registers of a compiled virtual machine: `anylist` is an array of result cells (value, code). */
MBLOB_TVM_API(TVMBackendAnyListSetPackedArg,
              (void *anylist, int index, TVMValue *args, int *type_codes, int arg_offset),
              (anylist, index, args, type_codes, arg_offset))
MBLOB_TVM_API(TVMBackendAnyListResetItem, (void *anylist, int index), (anylist, index))
MBLOB_TVM_API(TVMBackendAnyListMoveFromPackedReturn,
              (void *anylist, int index, TVMValue *args, int *type_codes, int ret_offset),
              (anylist, index, args, type_codes, ret_offset))

#ifdef __cplusplus
}
#endif
#endif /* TVM_RUNTIME_C_BACKEND_API_H_ */
