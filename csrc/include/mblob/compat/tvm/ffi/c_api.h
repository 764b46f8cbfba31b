/* c_api.h - what compiled kernels of the ffi dialect (TVM 0.22 and later) are written against:
 * values, tensors, calls, errors. Names, numbers and layouts are those of tvm-ffi 0.1.
 *
 * In kernel mode (c_runtime_api.h) nothing stays undefined in the linked library: see
 * tvm/ffi/kernel_slots.h. */
#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

#include <tvm/runtime/c_runtime_api.h>

#define TVM_FFI_DLL TVM_DLL
#define TVM_FFI_DLL_EXPORT TVM_DLL

#ifdef __cplusplus
extern "C" {
#endif

/* What a TVMFFIAny holds. */
typedef enum {
  kTVMFFIAny = -1,
  kTVMFFINone = 0,
  kTVMFFIInt = 1,   /* v_int64 */
  kTVMFFIBool = 2,  /* v_int64 */
  kTVMFFIFloat = 3, /* v_float64 */
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,  /* DLTensor *, borrowed */
  kTVMFFIRawStr = 8,       /* const char *, borrowed */
  kTVMFFIByteArrayPtr = 9, /* TVMFFIByteArray *, borrowed */
  kTVMFFIObjectRValueRef = 10,
  kTVMFFISmallStr = 11, /* up to 7 bytes in v_bytes, so many as small_str_len says */
  kTVMFFISmallBytes = 12,
  kTVMFFIStaticObjectBegin = 64,
  kTVMFFIObject = 64,
  kTVMFFIStr = 65,   /* behind the object's header a TVMFFIByteArray */
  kTVMFFIBytes = 66, /* the same */
  kTVMFFIError = 67,
  kTVMFFIFunction = 68,
  kTVMFFIShape = 69,
  kTVMFFITensor = 70, /* behind the object's header a DLTensor */
  kTVMFFIArray = 71,
  kTVMFFIMap = 72,
  kTVMFFIModule = 73,
  kTVMFFIOpaquePyObject = 74,
  kTVMFFIDynObjectBegin = 128
} TVMFFITypeIndex;

typedef void *TVMFFIObjectHandle;

typedef struct {
  uint64_t combined_ref_count; /* strong in the low half, weak in the high one */
  int32_t type_index;
  uint32_t padding;
  union {
    void (*deleter)(void *self, int flags);
    int64_t deleter_as_int64;
  };
} TVMFFIObject;

/* One argument or result: 16 bytes. */
typedef struct {
  int32_t type_index;
  union {
    uint32_t zero_padding;
    uint32_t small_str_len;
  };
  union {
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    const char *v_c_str;
    TVMFFIObject *v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
    uint64_t v_uint64;
  };
} TVMFFIAny;

typedef struct {
  const char *data;
  size_t size;
} TVMFFIByteArray;

/* How every function of a library is called: 0, or -1 with an error set. The result's type is
 * kTVMFFINone before. */
typedef int (*TVMFFISafeCallType)(void *handle, const TVMFFIAny *args, int32_t num_args,
                                  TVMFFIAny *result);

static inline DLTensor *TVMFFITensorGetDLTensorPtr(TVMFFIObjectHandle obj) {
  return (DLTensor *)(void *)((char *)obj + sizeof(TVMFFIObject));
}

static inline TVMFFIByteArray *TVMFFIBytesGetByteArrayPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIByteArray *)(void *)((char *)obj + sizeof(TVMFFIObject));
}

#if MBLOB_KERNEL_MODE
#include <tvm/ffi/kernel_slots.h>
#else
TVM_DLL int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny *args, int32_t num_args,
                               TVMFFIAny *result);
TVM_DLL void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
TVM_DLL void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **message_parts,
                                               int32_t num_parts);
TVM_DLL int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char *func_name,
                                          TVMFFIObjectHandle *out);
TVM_DLL int TVMFFIHandleInitOnce(void **handle_addr, int (*init_func)(void **result));
#endif

#ifdef __cplusplus
}
#endif
#endif /* TVM_FFI_C_API_H_ */
