/* mblob/packed.h - values and functions of packed calls: the types of TVM's C API (0.7 - 0.19) that
 * mblob.h and mblob/plugin.h work with. Names, values and layouts are TVM's.
 *
 * The rest of that API is <tvm/runtime/c_runtime_api.h>, which `pkg-config mblob-tvm` finds. A
 * program that has TVM's own file of that name includes it before <mblob.h>. */
#ifndef MBLOB_PACKED_H
#define MBLOB_PACKED_H

#include "dlpack.h"
#include <stddef.h>
#include <stdint.h>

#ifndef TVM_RUNTIME_C_RUNTIME_API_H_ /* else they are those of TVM's file */
#ifdef __cplusplus
extern "C" {
#endif

/* Type codes: they tell which member of a TVMValue is set. */
typedef enum {
  kTVMArgInt = 0, /* v_int64 */
  kTVMArgUInt = 1,
  kTVMArgFloat = 2,            /* v_float64 */
  kTVMOpaqueHandle = 3,        /* v_handle */
  kTVMNullptr = 4,             /* nothing; also "no result" */
  kTVMDataType = 5,            /* v_type */
  kDLDevice = 6,               /* v_device */
  kTVMDLTensorHandle = 7,      /* DLTensor *, borrowed */
  kTVMObjectHandle = 8,        /* TVMObjectHandle */
  kTVMModuleHandle = 9,        /* TVMModuleHandle */
  kTVMPackedFuncHandle = 10,   /* TVMFunctionHandle */
  kTVMStr = 11,                /* const char *, NUL terminated */
  kTVMBytes = 12,              /* TVMByteArray * */
  kTVMNDArrayHandle = 13,      /* TVMArrayHandle: the DLTensor of a counted array */
  kTVMObjectRValueRefArg = 14, /* opaque here */
  kTVMArgBool = 15, /* v_int64, 0.18 and later; 0.17 and before pass booleans as kTVMArgInt */
  kTVMExtBegin = 16,
  kTVMNNVMFirst = 16,
  kTVMNNVMLast = 20,
  kTVMExtReserveEnd = 64,
  kTVMExtEnd = 128
} TVMArgTypeCode;

/* One argument or result: 8 bytes. Integers of any width travel as v_int64, floats as v_float64. */
typedef union {
  int64_t v_int64;
  double v_float64;
  void *v_handle;
  const char *v_str;
  DLDataType v_type;
  DLDevice v_device;
  DLDevice v_ctx; /* its name in 0.7 and before */
} TVMValue;

typedef struct {
  const char *data;
  size_t size;
} TVMByteArray;

typedef DLTensor *TVMArrayHandle;
typedef void *TVMModuleHandle;
typedef void *TVMFunctionHandle;
typedef void *TVMRetValueHandle;
typedef void *TVMStreamHandle;
typedef void *TVMObjectHandle;

/* A callback that is called as a packed function; a result goes through TVMCFuncSetReturn of
 * <tvm/runtime/c_runtime_api.h>. */
typedef int (*TVMPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMRetValueHandle ret,
                              void *resource_handle);
typedef void (*TVMPackedCFuncFinalizer)(void *resource_handle);

#ifdef __cplusplus
}
#endif
#endif
#endif /* MBLOB_PACKED_H */
