/* driver.h - the part of CUDA's driver API that is used here, opened at run time: no toolkit is
 * needed to build, and a machine without a driver gets an error with the first use of a device,
 * not a library that does not load.
 *
 * Names, numbers and layouts are facts of the API (versioned names such as cuMemAlloc_v2 are the
 * ones that cuda.h means). */
#ifndef MB_CUDA_DRIVER_H
#define MB_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "common.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
};

enum { /* CUdevice_attribute */
       CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
       CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
       CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
       CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
       CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
       CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
       CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
       CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum { /* CUfunction_attribute */
       CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
       CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

enum { /* CUjit_option */
       CU_JIT_ERROR_LOG_BUFFER = 5,
       CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6
};

enum {
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEM_ATTACH_GLOBAL = 1,
  CU_STREAM_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2
};

/* F(member, symbol, parameters): all return CUresult. */
#define MB_CUDA_FUNCTIONS(F)                                                                       \
  F(init, "cuInit", (unsigned flags))                                                              \
  F(driver_version, "cuDriverGetVersion", (int *version))                                          \
  F(error_name, "cuGetErrorName", (CUresult error, const char **text))                             \
  F(error_string, "cuGetErrorString", (CUresult error, const char **text))                         \
  F(device_count, "cuDeviceGetCount", (int *count))                                                \
  F(device_get, "cuDeviceGet", (CUdevice * device, int ordinal))                                   \
  F(device_name, "cuDeviceGetName", (char *name, int size, CUdevice device))                       \
  F(device_memory, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device))                        \
  F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))        \
  F(device_can_peer, "cuDeviceCanAccessPeer", (int *can, CUdevice device, CUdevice peer))          \
  F(context_retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))            \
  F(context_current, "cuCtxGetCurrent", (CUcontext * context))                                     \
  F(context_push, "cuCtxPushCurrent_v2", (CUcontext context))                                      \
  F(context_pop, "cuCtxPopCurrent_v2", (CUcontext * context))                                      \
  F(context_synchronize, "cuCtxSynchronize", (void))                                               \
  F(context_enable_peer, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned flags))                \
  F(module_load, "cuModuleLoadDataEx",                                                             \
    (CUmodule * module, const void *image, unsigned count, int *options, void **values))           \
  F(module_unload, "cuModuleUnload", (CUmodule module))                                            \
  F(module_function, "cuModuleGetFunction",                                                        \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  F(function_get, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))          \
  F(function_set, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))           \
  F(launch, "cuLaunchKernel",                                                                      \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments, \
     void **extra))                                                                                \
  F(memory_info, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total_bytes))                     \
  F(memory_allocate, "cuMemAlloc_v2", (CUdeviceptr * out, size_t size))                            \
  F(memory_free, "cuMemFree_v2", (CUdeviceptr data))                                               \
  F(host_allocate, "cuMemHostAlloc", (void **out, size_t size, unsigned flags))                    \
  F(host_free, "cuMemFreeHost", (void *data))                                                      \
  F(managed_allocate, "cuMemAllocManaged", (CUdeviceptr * out, size_t size, unsigned flags))       \
  F(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                        \
    (CUdeviceptr to, const void *from, size_t size, CUstream stream))                              \
  F(copy_to_host, "cuMemcpyDtoHAsync_v2",                                                          \
    (void *to, CUdeviceptr from, size_t size, CUstream stream))                                    \
  F(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                        \
    (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))                              \
  F(copy_any, "cuMemcpyAsync", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream))   \
  F(copy_peer, "cuMemcpyPeerAsync",                                                                \
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,  \
     CUstream stream))                                                                             \
  F(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags))                          \
  F(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                       \
  F(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                                  \
  F(stream_wait, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))            \
  F(event_create, "cuEventCreate", (CUevent * event, unsigned flags))                              \
  F(event_record, "cuEventRecord", (CUevent event, CUstream stream))                               \
  F(event_destroy, "cuEventDestroy_v2", (CUevent event))

struct cuda_driver {
#define MB_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
  MB_CUDA_FUNCTIONS(MB_MEMBER)
#undef MB_MEMBER
};

/* The driver, opened and initialized: libcuda.so.1, or what MBLOB_CUDA_LIBRARY names. A failure
 * (recorded, MBLOB_E_INCOMPATIBLE) is no final answer: the next call tries again. A driver
 * without a device is none: *out is set and *device_count 0. */
int cuda_driver_open(const struct cuda_driver **out, int *device_count);

/* "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)". */
void cuda_error_text(const struct cuda_driver *driver, CUresult error, char *text, size_t size);
/* The status (mblob_status) that an error of the driver is told as. */
int cuda_error_status(CUresult error);
/* True if the error ends a context: every later call on it fails. */
bool cuda_is_sticky(CUresult error);

#endif
