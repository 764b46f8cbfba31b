/* adapters.h - functions of one calling convention as functions of the other, and the runtime of
 * the one for code that was compiled for the other. Stands in front of what
 * packager/functions/adapters.py generates; all of it is static but for the slots at its end.
 * MBLOB_TO_FFI: classic code in a library of the ffi dialect; without it the other way round.
 * MBLOB_JOINS: the code is in a finished library, which the adapters join when they are linked. */
#include <stdio.h>
#include <tvm/ffi/c_api.h>
#include <tvm/runtime/c_backend_api.h>

#define MBLOB_ARGUMENTS 16 /* up to so many need no memory from the heap */
#define MBLOB_STATIC static __attribute__((unused))

/* The library's handle, which the loader of the library's own dialect sets. */
extern TVM_DLL __attribute__((weak)) void *__tvm_ffi__library_ctx;
#if !defined(MBLOB_TO_FFI) && \
    !defined(MBLOB_JOINS) /* by such a name loaders tell libraries of the ffi dialect */
__asm__(".hidden __tvm_ffi__library_ctx");
#endif
__attribute__((weak)) void *__tvm_ffi__library_ctx;
#if !defined(MBLOB_TO_FFI) && \
    !defined(MBLOB_JOINS) /* by such a name loaders tell libraries of the ffi dialect */
__asm__(".hidden __tvm_ffi__library_ctx");
#endif

#ifdef MBLOB_JOINS /* what joins them to the library that has the code hides them there */
#define MBLOB_INSIDE TVM_DLL
#else
#define MBLOB_INSIDE __attribute__((visibility("hidden")))
#endif

static __thread int mblob_raised; /* by the code that runs */

#ifdef MBLOB_TO_FFI
MBLOB_STATIC void mblob_raise(const char *kind, const char *text) {
  mblob_raised = 1;
  TVMFFIErrorSetRaisedFromCStr(kind, text ? text : "");
}
#else
MBLOB_STATIC void mblob_raise(const char *kind, const char *text) {
  size_t size = strlen(kind) + (text ? strlen(text) : 0) + 3;
  char *whole = (char *)malloc(size);
  mblob_raised = 1;
  if (whole) (void)snprintf(whole, size, "%s: %s", kind, text ? text : "");
  TVMAPISetLastError(whole ? whole : kind);
  free(whole);
}
#endif

/* Status -1 after an error that says what `name` was given or gave. */
MBLOB_STATIC int mblob_no_way(const char *name, const char *what, int i, int code) {
  char text[200];
  if (i >= 0)
    (void)snprintf(text, sizeof text, "%.100s: argument %d is of type %d, which %s has no equal of",
                   name, i, code, what);
  else
    (void)snprintf(text, sizeof text, "%.100s: its result is of type %d, which %s has no equal of",
                   name, code, what);
  mblob_raise("TypeError", text);
  return -1;
}

MBLOB_STATIC int mblob_done(const char *name, int status) {
  char text[160];
  if (!status) return 0;
  if (!mblob_raised) {
    (void)snprintf(text, sizeof text, "%.100s: failed with status %d, and without a text", name,
                   status);
    mblob_raise("RuntimeError", text);
  }
  return -1;
}

/* What a value of one dialect points to, as the other has it. */
typedef union {
  TVMByteArray bytes;
  DLTensor tensor;
} mblob_room;

/* Codes of types: those of TVM 0.15 to 0.19, where flags are uint1, and DLPack's. float8_e3m4,
 * which those do not have, keeps the code of the runtime. */
/* THE CODES */

MBLOB_STATIC DLDataType mblob_type_to_ffi(DLDataType type) {
  if (type.code == kDLUInt && type.bits == 1) {
    type.code = kDLBool;
    type.bits = 8;
  } else if (type.code == MB_E4M3_FLOAT8)
    type.code = kDLFloat8_e4m3fn;
  else if (type.code == MB_E5M2_FLOAT8)
    type.code = kDLFloat8_e5m2;
  else if (type.code == MB_FLOAT8_E3M4)
    type.code = kDLFloat8_e3m4;
  return type;
}

MBLOB_STATIC DLDataType mblob_type_to_classic(DLDataType type) {
  if (type.code == kDLBool) {
    type.code = kDLUInt;
    type.bits = 1;
  } else if (type.code == kDLFloat8_e4m3fn)
    type.code = MB_E4M3_FLOAT8;
  else if (type.code == kDLFloat8_e5m2)
    type.code = MB_E5M2_FLOAT8;
  else if (type.code == kDLFloat8_e3m4)
    type.code = MB_FLOAT8_E3M4;
  return type;
}

/* A tensor whose type is `type` for the callee. */
MBLOB_STATIC DLTensor *mblob_tensor_as(DLTensor *tensor, DLDataType type, mblob_room *room) {
  if (tensor->dtype.code == type.code) return tensor;
  room->tensor = *tensor;
  room->tensor.dtype = type;
  return &room->tensor;
}

/* A value of the classic dialect, borrowed by one of the ffi dialect. 0 if there is no such
 * type. `room`: NULL where no tensor comes. */
MBLOB_STATIC int mblob_to_ffi(const TVMValue *value, int code, TVMFFIAny *out, mblob_room *room) {
  out->type_index = kTVMFFINone;
  out->zero_padding = 0;
  out->v_int64 = value->v_int64;
  switch (code) {
    case kTVMArgInt: out->type_index = kTVMFFIInt; return 1;
    case kTVMArgBool: out->type_index = kTVMFFIBool; return 1;
    case kTVMArgFloat: out->type_index = kTVMFFIFloat; return 1;
    case kTVMOpaqueHandle: out->type_index = kTVMFFIOpaquePtr; return 1;
    case kTVMNullptr: out->v_int64 = 0; return 1;
    case kTVMDataType:
      out->type_index = kTVMFFIDataType;
      out->v_dtype = mblob_type_to_ffi(value->v_type);
      return 1;
    case kDLDevice: out->type_index = kTVMFFIDevice; return 1;
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle:
      out->type_index = kTVMFFIDLTensorPtr;
      if (value->v_handle && room) {
        DLTensor *tensor = (DLTensor *)value->v_handle;
        out->v_ptr = mblob_tensor_as(tensor, mblob_type_to_ffi(tensor->dtype), room);
      }
      return 1;
    case kTVMStr: out->type_index = value->v_str ? kTVMFFIRawStr : kTVMFFINone; return 1;
    case kTVMBytes: out->type_index = kTVMFFIByteArrayPtr; return 1;
    default: return 0;
  }
}

/* The other way round; `room` is also for bytes that lie in the value itself. A text with a NUL
 * inside has no equal: it would end there. */
MBLOB_STATIC int mblob_to_classic(const TVMFFIAny *any, TVMValue *out, int *code,
                                  mblob_room *room) {
  DLTensor *tensor;
  out->v_int64 = any->v_int64;
  switch (any->type_index) {
    case kTVMFFINone: *code = kTVMNullptr; return 1;
    case kTVMFFIInt:
    case kTVMFFIBool: /* code up to TVM 0.17 knows no other number */ *code = kTVMArgInt; return 1;
    case kTVMFFIFloat: *code = kTVMArgFloat; return 1;
    case kTVMFFIOpaquePtr: *code = kTVMOpaqueHandle; return 1;
    case kTVMFFIDataType:
      *code = kTVMDataType;
      out->v_type = mblob_type_to_classic(any->v_dtype);
      return 1;
    case kTVMFFIDevice: *code = kDLDevice; return 1;
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor:
      tensor = any->type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(any->v_obj)
                                                : (DLTensor *)any->v_ptr;
      out->v_handle =
          tensor ? mblob_tensor_as(tensor, mblob_type_to_classic(tensor->dtype), room) : NULL;
      *code = kTVMDLTensorHandle;
      return 1;
    case kTVMFFIRawStr: *code = kTVMStr; return 1;
    case kTVMFFISmallStr:
      out->v_str = any->v_bytes;
      *code = kTVMStr;
      return !memchr(out->v_str, 0, any->small_str_len);
    case kTVMFFIStr:
      out->v_str = TVMFFIBytesGetByteArrayPtr(any->v_obj)->data;
      *code = kTVMStr;
      return !memchr(out->v_str, 0, TVMFFIBytesGetByteArrayPtr(any->v_obj)->size);
    case kTVMFFIByteArrayPtr: *code = kTVMBytes; return 1;
    case kTVMFFISmallBytes:
      room->bytes.data = any->v_bytes;
      room->bytes.size = any->small_str_len;
      out->v_handle = &room->bytes;
      *code = kTVMBytes;
      return 1;
    case kTVMFFIBytes:
      room->bytes.data = TVMFFIBytesGetByteArrayPtr(any->v_obj)->data;
      room->bytes.size = TVMFFIBytesGetByteArrayPtr(any->v_obj)->size;
      out->v_handle = &room->bytes;
      *code = kTVMBytes;
      return 1;
    default: return 0;
  }
}

/* Status -1 after an error that says why mblob_to_classic gave 0. */
MBLOB_STATIC int mblob_not_in_classic(const char *name, int i, const TVMFFIAny *any) {
  char text[200], which[32] = "its result";
  if (any->type_index != kTVMFFISmallStr && any->type_index != kTVMFFIStr)
    return mblob_no_way(name, "the classic dialect", i, any->type_index);
  if (i >= 0) (void)snprintf(which, sizeof which, "argument %d", i);
  (void)snprintf(text, sizeof text,
                 "%.100s: %s is a str with a NUL inside, where texts of the classic dialect end",
                 name, which);
  mblob_raise("ValueError", text);
  return -1;
}

/* Give back a value that a call returned; its object, if it is one, is freed with its last
 * reference. */
MBLOB_STATIC void mblob_release(TVMFFIAny *any) {
  if (any->type_index < kTVMFFIStaticObjectBegin || !any->v_obj) return;
  TVMFFIObject *object = any->v_obj;
  const uint64_t weak = (uint64_t)1 << 32;
  uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, 1, __ATOMIC_ACQ_REL);
  if (before == weak + 1) {
    if (object->deleter) object->deleter(object, 3);
  } else if ((uint32_t)before == 1) {
    if (object->deleter) object->deleter(object, 1);
    before = __atomic_fetch_sub(&object->combined_ref_count, weak, __ATOMIC_ACQ_REL);
    if (before == weak && object->deleter) object->deleter(object, 2);
  }
}

/* Texts and bytes of results outlive the call until the next one on the thread. */
static __thread char *mblob_kept;
static __thread TVMByteArray mblob_kept_bytes;

MBLOB_STATIC int mblob_keep(TVMValue *value, int code) {
  const char *data = code == kTVMStr ? value->v_str : ((const TVMByteArray *)value->v_handle)->data;
  size_t size = code == kTVMStr ? strlen(data) : ((const TVMByteArray *)value->v_handle)->size;
  char *copy = (char *)malloc(size + 1);
  if (!copy) return -1;
  memcpy(copy, data, size);
  copy[size] = 0;
  free(mblob_kept);
  mblob_kept = copy;
  mblob_kept_bytes.data = copy;
  mblob_kept_bytes.size = size;
  if (code == kTVMStr)
    value->v_str = copy;
  else
    value->v_handle = &mblob_kept_bytes;
  return 0;
}

/* A result of the ffi dialect, which is given back, as one of the classic dialect. A DLTensor *
 * stays the callee's own, so its element type must have the same code in both. */
MBLOB_STATIC int mblob_result_to_classic(const char *name, TVMFFIAny *any, TVMValue *value,
                                         int *code) {
  mblob_room room; /* of this call: nothing that is returned may point to it */
  int status = 0;
  if (!mblob_to_classic(any, value, code, &room) || any->type_index == kTVMFFITensor)
    status = mblob_not_in_classic(name, -1, any);
  else if (*code == kTVMDLTensorHandle && value->v_handle == &room.tensor) {
    char text[240];
    (void)snprintf(
        text, sizeof text,
        "%.100s: its result is a DLTensor * with element type code %d, which is another code in the classic dialect; "
        "let the function write to an argument",
        name, ((const DLTensor *)any->v_ptr)->dtype.code);
    mblob_raise("TypeError", text);
    status = -1;
  } else if ((*code == kTVMStr || *code == kTVMBytes) && mblob_keep(value, *code)) {
    mblob_raise("MemoryError", name);
    status = -1;
  }
  mblob_release(any);
  return status;
}

/* A result of the classic dialect as one of the ffi dialect, which the caller owns. */
MBLOB_STATIC int mblob_result_to_ffi(const char *name, const TVMValue *value, int code,
                                     TVMFFIAny *any) {
#ifdef MBLOB_TO_FFI
  extern int TVMFFIStringFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out)
      __attribute__((weak));
  extern int TVMFFIBytesFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out)
      __attribute__((weak));
#endif
  if (code == kTVMDLTensorHandle || code == kTVMNDArrayHandle ||
      !mblob_to_ffi(value, code, any, NULL))
    return mblob_no_way(name, "the ffi dialect", -1, code);
  if (any->type_index != kTVMFFIRawStr && any->type_index != kTVMFFIByteArrayPtr) return 0;
  int is_text = any->type_index == kTVMFFIRawStr;
  TVMFFIByteArray bytes = {value->v_str, 0};
  if (is_text)
    bytes.size = strlen(bytes.data);
  else
    bytes = *(const TVMFFIByteArray *)value->v_handle;
  if (bytes.size < sizeof any->v_bytes) {
    any->type_index = is_text ? kTVMFFISmallStr : kTVMFFISmallBytes;
    any->v_int64 = 0;
    if (bytes.size) memcpy(any->v_bytes, bytes.data, bytes.size);
    any->small_str_len = (uint32_t)bytes.size;
    return 0;
  }
#ifdef MBLOB_TO_FFI
  int (*make)(const TVMFFIByteArray *, TVMFFIAny *) =
      is_text ? TVMFFIStringFromByteArray : TVMFFIBytesFromByteArray;
  if (make) return make(&bytes, any);
#endif
  return 0;
}

/* Arguments of the ffi dialect for a classic function: one of the library, or one of the
 * environment by its handle. */
typedef int (*mblob_classic)(TVMValue *, int *, int, TVMValue *, int *, void *);

MBLOB_STATIC int mblob_call_classic(mblob_classic function, void *handle, const char *name,
                                    const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {
  mblob_room few_rooms[MBLOB_ARGUMENTS + 1];
  TVMValue few[MBLOB_ARGUMENTS + 1];
  int few_codes[MBLOB_ARGUMENTS + 1];
  size_t n = num_args < 0 ? 0 : (size_t)num_args;
  int small = n <= MBLOB_ARGUMENTS;
  TVMValue *values = small ? few : (TVMValue *)malloc((n + 1) * sizeof *values);
  int *codes = small ? few_codes : (int *)malloc((n + 1) * sizeof *codes);
  mblob_room *rooms = small ? few_rooms : (mblob_room *)malloc((n + 1) * sizeof *rooms);
  int status = 0;
  if (!values || !codes || !rooms) {
    mblob_raise("MemoryError", name);
    status = -1;
  }
  for (size_t i = 0; i < n && !status; i++)
    if (!mblob_to_classic(&args[i], &values[i], &codes[i], &rooms[i]))
      status = mblob_not_in_classic(name, (int)i, &args[i]);
  if (!status) {
    TVMValue value;
    int code = kTVMNullptr;
    value.v_int64 = 0;
    mblob_raised = 0;
#ifdef MBLOB_TO_FFI
    status = mblob_done(name, function(values, codes, (int)n, &value, &code, handle));
    void *owned = code == 0x1000c ? value.v_handle : NULL; /* bytes that the caller frees */
    if (owned) code = kTVMBytes;
#else
    (void)function;
    status = TVMFuncCall(handle, values, codes, (int)n, &value, &code);
    mblob_raised = status != 0;
#endif
    if (!status && result) status = mblob_result_to_ffi(name, &value, code, result);
#ifdef MBLOB_TO_FFI
    if (!result || result->type_index != kTVMFFIByteArrayPtr) free(owned); /* else it is lent */
#endif
  }
  if (!small) {
    free(values);
    free(codes);
    free(rooms);
  }
  return status;
}

/* THE ARRAYS */
/* Arguments of the classic dialect for a function of the ffi dialect: the same. */
MBLOB_STATIC int mblob_call_ffi(TVMFFISafeCallType function, void *handle, const char *name,
                                TVMValue *args, int *codes, int num_args, TVMValue *ret,
                                int *ret_code) {
  TVMFFIAny few[MBLOB_ARGUMENTS];
  mblob_room few_rooms[MBLOB_ARGUMENTS];
  size_t n = num_args < 0 ? 0 : (size_t)num_args;
  int small = n <= MBLOB_ARGUMENTS;
  TVMFFIAny *values = small ? few : (TVMFFIAny *)malloc(n * (sizeof *values + sizeof(mblob_room)));
  int status = 0;
  if (!values) {
    mblob_raise("MemoryError", name);
    return -1;
  }
  mblob_room *rooms = small ? few_rooms : (mblob_room *)(void *)(values + n);
  size_t made = 0;
  for (; made < n && !status; made++) {
    if (mblob_to_ffi(&args[made], codes[made], &values[made], &rooms[made])) continue;
    values[made].type_index = kTVMFFINone;
    status = mblob_object_to_ffi(name, (int)made, args[made], codes[made], &values[made]);
  }
  if (!status) {
    TVMFFIAny result;
    TVMValue value;
    int code = kTVMNullptr;
    memset(&result, 0, sizeof result);
    mblob_raised = 0;
#ifdef MBLOB_TO_FFI
    (void)function;
    status = TVMFFIFunctionCall(handle, values, (int32_t)n, &result);
    mblob_raised = status != 0;
#else
    status = mblob_done(name, function(handle, values, (int32_t)n, &result));
#endif
    if (!status) status = mblob_result_to_classic(name, &result, &value, &code);
    if (!status && ret && ret_code) {
      *ret = value;
      *ret_code = code;
    }
  }
  while (made-- > 0) mblob_release(&values[made]);
  if (!small) free(values);
  return status;
}

/* ---- the runtime that the code was compiled for, over that of the library -------------------- */

/* Slots of the other dialect are hidden: a loader that knows them, too, would store functions
 * that do not fit. */
#define MBLOB_HIDDEN_SLOT(name, function)                                    \
  extern MBLOB_INSIDE __typeof__(&function) mblob_own_##name __asm__(#name); \
  __typeof__(&function) mblob_own_##name = function

#ifdef MBLOB_TO_FFI
static int mblob_func_call(void *f, TVMValue *args, int *codes, int n, TVMValue *ret,
                           int *ret_code) {
  return mblob_call_ffi(NULL, f, "TVMFuncCall", args, codes, n, ret, ret_code);
}
/* A text that begins with a kind, as those do that came from the ffi dialect, has it again. */
static void mblob_set_last_error(const char *text) {
  char kind[64];
  size_t size = 0;
  while (text && size < sizeof kind - 1 && ((text[size] | 32) >= 'a' && (text[size] | 32) <= 'z'))
    size++;
  if (size > 5 && !strncmp(text + size - 5, "Error: ", 7)) {
    memcpy(kind, text, size);
    kind[size] = 0;
    mblob_raise(kind, text + size + 2);
    return;
  }
  mblob_raise("RuntimeError", text);
}
static int mblob_get_func(void *module, const char *name, void **out) {
  (void)module;
  int status = TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, name, out);
  mblob_raised = status != 0;
  return status;
}
MBLOB_HIDDEN_SLOT(__TVMFuncCall, mblob_func_call);
MBLOB_HIDDEN_SLOT(__TVMAPISetLastError, mblob_set_last_error);
MBLOB_HIDDEN_SLOT(__TVMBackendGetFuncFromEnv, mblob_get_func);
#else
static int mblob_function_call(void *f, TVMFFIAny *args, int32_t n, TVMFFIAny *result) {
  return mblob_call_classic(NULL, f, "TVMFFIFunctionCall", args, n, result);
}
static int mblob_look_up(void *ctx, const char *name, void **out) {
  int status = TVMBackendGetFuncFromEnv(ctx, name, out);
  mblob_raised = status != 0;
  return status;
}
MBLOB_HIDDEN_SLOT(__TVMFFIFunctionCall, mblob_function_call);
MBLOB_HIDDEN_SLOT(__TVMFFIErrorSetRaisedFromCStr, mblob_raise);
MBLOB_HIDDEN_SLOT(__TVMFFIEnvModLookupFromImports, mblob_look_up);
/* Handles are the same for all threads that race for one, so any of them may stay. */
static int mblob_init_once(void **handle, int (*init)(void **)) {
  void *made = NULL;
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE)) return 0;
  int status = init(&made);
  if (!status) __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  return status;
}
MBLOB_HIDDEN_SLOT(__TVMFFIHandleInitOnce, mblob_init_once);
#endif
#ifndef MBLOB_TO_FFI
/* Packed forms make their texts with this; here the adapter keeps them. */
MBLOB_INSIDE __attribute__((weak)) int TVMFFIStringFromByteArray(const TVMFFIByteArray *input,
                                                                 TVMFFIAny *out);
int TVMFFIStringFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out) {
  out->type_index = kTVMFFIRawStr;
  out->zero_padding = 0;
  out->v_int64 = 0;
  out->v_c_str = input->data;
  return 0;
}
#endif
