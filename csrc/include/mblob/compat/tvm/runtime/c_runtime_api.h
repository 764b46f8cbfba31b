/* c_runtime_api.h - the part of TVM's C API that hosts and kernels use (TVM 0.7 - 0.19), served
 * by libmblob.
 *
 * Names and values are TVM's, so that sources written against TVM compile unchanged.
 *
 * Two modes, chosen by how the file is compiled:
 *   host    C++, C for programs, and everything with MBLOB_HOST: ordinary functions; link libmblob.
 *   kernel  C for shared libraries (-fPIC), and everything with MBLOB_KERNEL, which the packager
 *           defines: a loader finds nothing undefined in the linked library. What kernels call goes
 *           through slots that it fills (kernel_slots.h); the rest of the API is weak and fails
 *           with an error text where no runtime is in the process, but for what hosts alone call.
 * So a program in C that is compiled with -fPIC works, too, where libmblob is linked as a shared
 * library: the functions that hosts begin with fill its slots. C of a shared library that is a
 * host defines MBLOB_HOST.
 *
 * Every function returning int: 0 is success, -1 failure with a text in TVMGetLastError(). */
#ifndef TVM_RUNTIME_C_RUNTIME_API_H_
/* Above the guard, by which it knows a header of TVM. */
#include "../../../packed.h"
#define TVM_RUNTIME_C_RUNTIME_API_H_

#include <stddef.h>
#include <stdint.h>

#include "../../dlpack/dlpack.h"

#if defined(MBLOB_HOST)
#define MBLOB_KERNEL_MODE 0
#elif defined(MBLOB_KERNEL)
#define MBLOB_KERNEL_MODE 1
#elif defined(__cplusplus) || !defined(__PIC__) || defined(__PIE__) || !defined(__ELF__) || \
    !defined(__GNUC__)
#define MBLOB_KERNEL_MODE 0
#else
#define MBLOB_KERNEL_MODE 1
#endif

#ifndef TVM_DLL
#if defined(__GNUC__)
#define TVM_DLL __attribute__((visibility("default")))
#else
#define TVM_DLL
#endif
#endif

#ifndef TVM_WEAK
#define TVM_WEAK __attribute__((weak))
#endif

/* The last release whose names are here. */
#define TVM_VERSION "0.19.0"

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t tvm_index_t; /* extents and strides */

/* Names of 0.7 and before. The member `ctx` of DLTensor: see dlpack.h. */
typedef DLDevice DLContext;
typedef DLDevice TVMContext;
typedef DLDataType TVMType;
typedef DLTensor TVMArray;
#define kDLGPU kDLCUDA
#define kDLCPUPinned kDLCUDAHost
#define kTVMContext kDLDevice

/* Device types of TVM beyond DLPack's (0.11 and later). */
typedef enum {
  kDLAOCL = 32,
  kDLSDAccel = 33,
  kOpenGL = 34,
  kDLMicroDev = 35,
  TVMDeviceExtType_End = 36
} TVMDeviceExtType;

typedef int (*TVMExtensionFuncDeclarer)(TVMFunctionHandle register_func_handle);

#if MBLOB_KERNEL_MODE
#include <tvm/runtime/kernel_slots.h>
/* The wrapper has an assembler name of its own: under the target's, the compiler takes it for
 * the target. */
#define MBLOB_WEAK_API(name, params, args, before)                                      \
  static int mblob_weak_##name params __attribute__((weakref(#name)));                  \
  static inline int name params __asm__("mblob_kernel_" #name);                         \
  static inline int name params {                                                       \
    before;                                                                             \
    return mblob_weak_##name ? mblob_weak_##name args : mblob_kernel_no_runtime(#name); \
  }
#define MBLOB_TVM_API(name, params, args) MBLOB_WEAK_API(name, params, args, (void)0)
/* What gives a host its first function, and so comes before any call. */
#define MBLOB_TVM_ENTRY(name, params, args) \
  MBLOB_WEAK_API(name, params, args, mblob_adopt_runtime())
/* What hosts alone call: not weak, or linkers would leave out the library that a program has no
 * other use for. */
#if defined(__cplusplus)
#define MBLOB_TVM_HOST MBLOB_TVM_ENTRY
#else
#define MBLOB_TVM_HOST(name, params, args)                      \
  extern int mblob_host_##name params __asm__(#name);           \
  static inline int name params __asm__("mblob_kernel_" #name); \
  static inline int name params {                               \
    mblob_adopt_runtime();                                      \
    return mblob_host_##name args;                              \
  }
#endif
#else
#define MBLOB_TVM_API(name, params, args) TVM_DLL int name params;
#define MBLOB_TVM_ENTRY MBLOB_TVM_API
#define MBLOB_TVM_HOST MBLOB_TVM_API
TVM_DLL void TVMAPISetLastError(const char *msg);
/* Text of the last failure on this thread, never NULL; valid until the next failure on it. */
TVM_DLL const char *TVMGetLastError(void);
/* Call `func`. A result of kTVMStr, kTVMBytes is valid until the next TVMFuncCall on this
 * thread; handles in results are owned by the caller. `ret_val` and `ret_type_code` may be NULL. */
TVM_DLL int TVMFuncCall(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes, int num_args,
                        TVMValue *ret_val, int *ret_type_code);
#endif

/* Modules. `format` is not needed: the content decides. */
MBLOB_TVM_HOST(TVMModLoadFromFile,
               (const char *file_name, const char *format, TVMModuleHandle *out),
               (file_name, format, out))
MBLOB_TVM_API(TVMModImport, (TVMModuleHandle mod, TVMModuleHandle dep), (mod, dep))
/* *out is NULL, and the call succeeds, when there is no such function. */
MBLOB_TVM_HOST(TVMModGetFunction,
               (TVMModuleHandle mod, const char *func_name, int query_imports,
                TVMFunctionHandle *out),
               (mod, func_name, query_imports, out))
MBLOB_TVM_API(TVMModFree, (TVMModuleHandle mod), (mod))

/* Functions. Handles that get and create functions give out are freed with TVMFuncFree. */
MBLOB_TVM_API(TVMFuncFree, (TVMFunctionHandle func), (func))
/* From inside a TVMPackedCFunc: set the result (num_ret must be 1). Strings and bytes are
 * copied; of a counted handle the result takes a reference of its own. */
MBLOB_TVM_API(TVMCFuncSetReturn,
              (TVMRetValueHandle ret, TVMValue *value, int *type_code, int num_ret),
              (ret, value, type_code, num_ret))
/* Turn an argument of a callback into something the callback may keep (a reference is added). */
MBLOB_TVM_API(TVMCbArgToReturn, (TVMValue * value, int *code), (value, code))
MBLOB_TVM_ENTRY(TVMFuncCreateFromCFunc,
                (TVMPackedCFunc func, void *resource_handle, TVMPackedCFuncFinalizer fin,
                 TVMFunctionHandle *out),
                (func, resource_handle, fin, out))

/* Process-wide functions. Getting an unknown name succeeds with *out NULL. */
MBLOB_TVM_API(TVMFuncRegisterGlobal, (const char *name, TVMFunctionHandle f, int override),
              (name, f, override))
MBLOB_TVM_ENTRY(TVMFuncGetGlobal, (const char *name, TVMFunctionHandle *out), (name, out))
/* The array is valid until the next call on this thread. */
MBLOB_TVM_API(TVMFuncListGlobalNames, (int *out_size, const char ***out_array),
              (out_size, out_array))
MBLOB_TVM_API(TVMFuncRemoveGlobal, (const char *name), (name))

/* Arrays in host memory, aligned to 128 bytes. Sizes in bytes; a size that differs from the
 * array's fails. */
MBLOB_TVM_API(TVMArrayAlloc,
              (const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes,
               int device_type, int device_id, TVMArrayHandle *out),
              (shape, ndim, dtype_code, dtype_bits, dtype_lanes, device_type, device_id, out))
MBLOB_TVM_API(TVMArrayFree, (TVMArrayHandle handle), (handle))
MBLOB_TVM_API(TVMArrayCopyFromBytes, (TVMArrayHandle handle, void *data, size_t nbytes),
              (handle, data, nbytes))
MBLOB_TVM_API(TVMArrayCopyToBytes, (TVMArrayHandle handle, void *data, size_t nbytes),
              (handle, data, nbytes))
MBLOB_TVM_API(TVMArrayCopyFromTo, (TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream),
              (from, to, stream))
/* Takes ownership of `from` when it succeeds. */
MBLOB_TVM_API(TVMArrayFromDLPack, (DLManagedTensor * from, TVMArrayHandle *out), (from, out))
MBLOB_TVM_API(TVMArrayToDLPack, (TVMArrayHandle from, DLManagedTensor **out), (from, out))

/* Devices. Only the host has memory and (empty) streams here; other devices fail. */
MBLOB_TVM_API(TVMStreamCreate, (int device_type, int device_id, TVMStreamHandle *out),
              (device_type, device_id, out))
MBLOB_TVM_API(TVMStreamFree, (int device_type, int device_id, TVMStreamHandle stream),
              (device_type, device_id, stream))
MBLOB_TVM_API(TVMStreamStreamSynchronize,
              (int device_type, int device_id, TVMStreamHandle src, TVMStreamHandle dst),
              (device_type, device_id, src, dst))
MBLOB_TVM_API(TVMSetStream, (int device_type, int device_id, TVMStreamHandle handle),
              (device_type, device_id, handle))
MBLOB_TVM_API(TVMSynchronize, (int device_type, int device_id, TVMStreamHandle stream),
              (device_type, device_id, stream))
MBLOB_TVM_API(TVMDeviceAllocDataSpace,
              (DLDevice dev, size_t nbytes, size_t alignment, DLDataType type_hint,
               void **out_data),
              (dev, nbytes, alignment, type_hint, out_data))
/* Memory for a tensor of `ndim` extents; `mem_scope` is NULL, "" or "global", others are other
 * devices'. */
MBLOB_TVM_API(TVMDeviceAllocDataSpaceWithScope,
              (DLDevice dev, int ndim, const int64_t *shape, DLDataType dtype,
               const char *mem_scope, void **out_data),
              (dev, ndim, shape, dtype, mem_scope, out_data))
MBLOB_TVM_API(TVMDeviceFreeDataSpace, (DLDevice dev, void *ptr), (dev, ptr))
MBLOB_TVM_API(TVMDeviceCopyDataFromTo, (DLTensor * from, DLTensor *to, TVMStreamHandle stream),
              (from, to, stream))

/* Objects are modules, functions and containers (made by the global functions runtime.Array,
 * runtime.Map and runtime.ShapeTuple): their handles are TVMObjectHandles. The type indices are
 * TVM's: "runtime.Object" 0, "runtime.Module" 1, "runtime.NDArray" 2, "runtime.String" 3,
 * "Array" 4, "Map" 5, "runtime.ShapeTuple" 6, "runtime.PackedFunc" 7; other keys fail. */
MBLOB_TVM_API(TVMObjectGetTypeIndex, (TVMObjectHandle obj, unsigned *out_tindex), (obj, out_tindex))
MBLOB_TVM_API(TVMObjectTypeKey2Index, (const char *type_key, unsigned *out_tindex),
              (type_key, out_tindex))
/* *out_type_key is on the heap: free() it. */
MBLOB_TVM_API(TVMObjectTypeIndex2Key, (unsigned tindex, char **out_type_key),
              (tindex, out_type_key))
MBLOB_TVM_API(TVMObjectRetain, (TVMObjectHandle obj), (obj))
MBLOB_TVM_API(TVMObjectFree, (TVMObjectHandle obj), (obj))
MBLOB_TVM_API(TVMObjectDerivedFrom,
              (uint32_t child_type_index, uint32_t parent_type_index, int *is_derived),
              (child_type_index, parent_type_index, is_derived))
/* Does nothing: bytes in results belong to the thread (TVMFuncCall). */
MBLOB_TVM_API(TVMByteArrayFree, (TVMByteArray * arr), (arr))

/* Calls tensor->deleter. */
#if MBLOB_KERNEL_MODE
static inline void TVMDLManagedTensorCallDeleter(DLManagedTensor *tensor) {
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}
#else
TVM_DLL void TVMDLManagedTensorCallDeleter(DLManagedTensor *tensor);
#endif

#ifdef __cplusplus
}
#endif
#endif /* TVM_RUNTIME_C_RUNTIME_API_H_ */
