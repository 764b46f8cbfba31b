/* checks_ffi.h - arguments and errors of the ffi dialect's calling convention, for checks.h.
 * Kinds of errors, and how their texts begin, are those of the kernels that TVM 0.27 compiles. */
#include <tvm/ffi/c_api.h>

#define MBLOB_EXPECTED "Expected"
#define MBLOB_SMALL_FLOATS MB_DTYPES_OF_DLPACK, MB_SMALL_FLOATS
#define MBLOB_EXPECTED_TENSOR(name) "expected Tensor of %s, found %s%s", name

/* One call: what it is of, and its arguments. */
typedef struct {
  const char *function;     /* its signature */
  const char *const *names; /* of the parameters, "" for one without */
  const TVMFFIAny *args;
} mblob_call_info;

MBLOB_CHECK int mblob_return_string(TVMFFIAny *result, const char *text);

#ifndef MBLOB_CHECKS_APART

static mblob_kind mblob_kind_of(const mblob_call_info *call, int i) {
  const TVMFFIAny *a = &call->args[i];
  switch (a->type_index) {
    case kTVMFFIInt:
    case kTVMFFIBool: return MBLOB_INT;
    case kTVMFFIFloat: return MBLOB_FLOAT;
    case kTVMFFIDLTensorPtr:
    case kTVMFFITensor: return a->v_ptr ? MBLOB_TENSOR : MBLOB_NULL;
    case kTVMFFIOpaquePtr: return MBLOB_HANDLE;
    case kTVMFFINone: return MBLOB_NONE;
    case kTVMFFIRawStr:
    case kTVMFFIStr: return a->v_ptr ? MBLOB_STRING : MBLOB_NULL;
    case kTVMFFISmallStr: return MBLOB_STRING;
    default: return MBLOB_OTHER;
  }
}

static const char *mblob_kind_name(const mblob_call_info *call, int i) {
  static const char *const values[] = {"None",   "int",    "bool",   "float", "handle",
                                       "dtype",  "device", "Tensor", "str",   "bytes",
                                       "object", "str",    "bytes"};
  static const char *const objects[] = {"object",   "str",    "bytes",           "error",
                                        "function", "Shape",  "Tensor",          "Array",
                                        "Map",      "module", "object of Python"};
  if (mblob_kind_of(call, i) == MBLOB_NULL) return "NULL";
  int index = call->args[i].type_index;
  if (index >= 0 && index < (int)(sizeof values / sizeof *values)) return values[index];
  index -= kTVMFFIStaticObjectBegin;
  return index >= 0 && index < (int)(sizeof objects / sizeof *objects) ? objects[index]
                                                                       : "another object";
}

MBLOB_STATIC int64_t mblob_int_of(const mblob_call_info *call, int i) {
  return call->args[i].v_int64;
}
MBLOB_STATIC double mblob_float_of(const mblob_call_info *call, int i) {
  return call->args[i].v_float64;
}
MBLOB_STATIC void *mblob_handle_of(const mblob_call_info *call, int i) {
  return call->args[i].v_ptr;
}
MBLOB_STATIC const char *mblob_string_of(const mblob_call_info *call, int i, size_t *size) {
  const TVMFFIAny *a = &call->args[i];
  if (a->type_index == kTVMFFIRawStr) return a->v_c_str;
  const int is_small = a->type_index == kTVMFFISmallStr;
  *size = is_small ? a->small_str_len : TVMFFIBytesGetByteArrayPtr(a->v_obj)->size;
  return is_small ? a->v_bytes : TVMFFIBytesGetByteArrayPtr(a->v_obj)->data;
}
MBLOB_STATIC const DLTensor *mblob_tensor_of(const mblob_call_info *call, int i) {
  const TVMFFIAny *a = &call->args[i];
  return a->type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(a->v_obj)
                                        : (const DLTensor *)a->v_ptr;
}

MBLOB_STATIC void mblob_raise(const mblob_call_info *call, int i, mblob_rule rule,
                              const char *text) {
  static const char *const members[] = {"",     "", ".dtype", ".shape", ".strides", ".device_type",
                                        ".data"};
  char number[12];
  const char *name = *call->names[i] ? call->names[i] : "argument";
  (void)snprintf(number, sizeof number, "%d", i);
  const char *parts[] = {rule == MBLOB_VALUE ? "Invalid " : "Mismatched ",
                         rule == MBLOB_TYPE ? "type" : name,
                         members[rule],
                         " on argument #",
                         number,
                         MB_TEXT_WHEN_CALLING "  `",
                         call->function,
                         "`,\n  ",
                         text};
  TVMFFIErrorSetRaisedFromCStrParts(
      rule == MBLOB_TYPE || rule == MBLOB_DTYPE ? "TypeError" : "ValueError", parts, 9);
}

MBLOB_STATIC void mblob_raise_of_call(const char *function, const char *text, const char *kind) {
  const char *parts[] = {text, MB_TEXT_WHEN_CALLING "  `", function, "`"};
  TVMFFIErrorSetRaisedFromCStrParts(kind, parts, 4);
}

/* A result of text, which the caller owns: what is short lies in the value itself, the rest in
 * an object of the runtime. Where none is, the caller gets the pointer. */
MBLOB_CHECK int mblob_return_string(TVMFFIAny *result, const char *text) {
  size_t size = text ? __builtin_strlen(text) : 0;
  result->zero_padding = 0;
  result->v_int64 = 0;
  result->type_index = text ? kTVMFFISmallStr : kTVMFFINone;
  if (!text) return 0;
  if (size < sizeof result->v_bytes) {
    __builtin_memcpy(result->v_bytes, text, size);
    result->small_str_len = (uint32_t)size;
    return 0;
  }
  TVMFFIByteArray bytes = {text, size};
  extern int TVMFFIStringFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out)
      __attribute__((weak));
  if (TVMFFIStringFromByteArray) return TVMFFIStringFromByteArray(&bytes, result);
  result->type_index = kTVMFFIRawStr;
  result->v_c_str = text;
  return 0;
}

#endif
