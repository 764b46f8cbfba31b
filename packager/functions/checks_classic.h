/* checks_classic.h - arguments and errors of the classic calling convention, for checks.h. */
#ifdef MBLOB_CHECKS_APART /* the calls of the runtime are there, and compiled already */
#include <mblob/packed.h>
#else
#include <tvm/runtime/c_runtime_api.h>
#endif

#define MBLOB_EXPECTED "expected"
#define MBLOB_SMALL_FLOATS MB_SMALL_FLOATS /* 6 and 7 are those of TVM 0.15 to 0.19 */
#define MBLOB_EXPECTED_TENSOR(name) \
  "expected %s %s tensor, found %s%s", *(name) == 'i' ? "an" : "a", name

/* One call: what it is of, and its arguments. */
typedef struct {
  const char *function;
  const char *const *names; /* of the parameters, "" for one without */
  const TVMValue *args;
  const int *codes;
} mblob_call_info;

#ifndef MBLOB_CHECKS_APART

static mblob_kind mblob_kind_of(const mblob_call_info *call, int i) {
  switch (call->codes[i]) {
    case kTVMArgInt:
    case kTVMArgBool: return MBLOB_INT;
    case kTVMArgFloat: return MBLOB_FLOAT;
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle: return call->args[i].v_handle ? MBLOB_TENSOR : MBLOB_NULL;
    case kTVMOpaqueHandle: return MBLOB_HANDLE;
    case kTVMNullptr: return MBLOB_NONE;
    case kTVMStr: return call->args[i].v_str ? MBLOB_STRING : MBLOB_NULL;
    default: return MBLOB_OTHER;
  }
}

static const char *mblob_kind_name(const mblob_call_info *call, int i) {
  static const char *const names[] = {"int",    "uint",   "float",  "handle", "None",     "dtype",
                                      "device", "tensor", "object", "module", "function", "str",
                                      "bytes",  "tensor", "object", "bool"};
  if (mblob_kind_of(call, i) == MBLOB_NULL) return "NULL";
  int code = call->codes[i];
  return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "an unknown type";
}

MBLOB_STATIC int64_t mblob_int_of(const mblob_call_info *call, int i) {
  return call->args[i].v_int64;
}
MBLOB_STATIC double mblob_float_of(const mblob_call_info *call, int i) {
  return call->args[i].v_float64;
}
MBLOB_STATIC void *mblob_handle_of(const mblob_call_info *call, int i) {
  return call->args[i].v_handle;
}
MBLOB_STATIC const char *mblob_string_of(const mblob_call_info *call, int i, size_t *size) {
  (void)size;
  return call->args[i].v_str;
}
MBLOB_STATIC const DLTensor *mblob_tensor_of(const mblob_call_info *call, int i) {
  return (const DLTensor *)call->args[i].v_handle;
}

MBLOB_STATIC void mblob_raise(const mblob_call_info *call, int i, mblob_rule rule,
                              const char *text) {
  char whole[440];
  const char *name = call->names[i];
  (void)rule;
  (void)snprintf(whole, sizeof whole, "%s" MB_TEXT_ARGUMENT "%d%s%s%s: %s", call->function, i,
                 *name ? " (" : "", name, *name ? ")" : "", text);
  TVMAPISetLastError(whole);
}

MBLOB_STATIC void mblob_raise_of_call(const char *function, const char *text, const char *kind) {
  char whole[240];
  (void)kind;
  (void)snprintf(whole, sizeof whole, "%s: %s", function, text);
  TVMAPISetLastError(whole);
}

#endif
