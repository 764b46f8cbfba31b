/* Methods that are written in C here: as functions, their arguments and their results. */
#define _GNU_SOURCE
#include "core/call/method.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/call/argument.h"
#include "core/call/function.h"
#include "core/call/return_value.h"
#include "core/loaded/loaded.h"

/* What a bound method's callback gets. */
struct bound_method {
  const struct mb_method *method;
  void *object;
};

static int call_bound(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                      void *resource) {
  const struct bound_method *bound = resource;
  struct mb_call call = {
      .method = bound->method->name, .args = args, .codes = codes, .count = count, .result = ret};
  int status = bound->method->call(bound->object, &call);
  if (status) mb_error_place(bound->method->name);
  return status;
}

/* The first argument that a method writes to; argument 0 says of what. 0: nothing is known.
 * set_input_zero_copy has no argument 2, so it is known to write to none: a caller that copies
 * read-only arrays for functions of which nothing is known must not copy here. */
static uint8_t first_written(const char *method) {
  static const char writers[][24] = {"get_input",   "get_output",           "debug_get_output",
                                     "set_outputs", "set_output_zero_copy", "copy_output"};
  for (size_t i = 0; i < sizeof(writers) / sizeof(*writers); i++)
    if (strcmp(writers[i], method) == 0) return 1;
  return strcmp(method, "set_input_zero_copy") == 0 ? 2 : 0;
}

/* Methods that keep the memory of the tensors that they are given: it must not be a copy that goes
 * with the call. They check its alignment themselves. */
static bool keeps_memory(const char *method) {
  return strstr(method, "zero_copy") || strcmp(method, "set_outputs") == 0;
}

int mb_method_bind(const struct mb_method *method, void *object, mblob_function **out) {
  struct bound_method *bound = malloc(sizeof(*bound));
  *out = NULL;
  if (!bound) return mb_fail_memory(sizeof(*bound));
  *bound = (struct bound_method){method, object};
  int status = mblob_function_create(call_bound, bound, free, out);
  if (status)
    free(bound);
  else
    (*out)->first_output = first_written(method->name),
    (*out)->alignment = keeps_memory(method->name),
    (*out)->takes = strncmp(method->name, "vm.builtin.", 11) == 0 ? MBLOB_ARGUMENTS_KEPT
                                                                  : MBLOB_ARGUMENTS_CLASSIC;
  return status;
}

const struct mb_method *mb_method_of(const mblob_function *function) {
  const bool is_one = function->kind == MB_CALLBACK && function->u.callback.call == call_bound;
  return is_one ? ((const struct bound_method *)function->u.callback.resource)->method : NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool is_pointer(int code) {
  return code == kTVMDLTensorHandle || code == kTVMNDArrayHandle || code == kTVMModuleHandle ||
         code == kTVMPackedFuncHandle || code == kTVMObjectHandle || code == kTVMStr ||
         code == kTVMBytes;
}

static int wrong_argument(const struct mb_call *call, int i, const char *expected) {
  if (i >= call->count)
    return mb_fail_argument(MB_ARGUMENT_COUNT, "argument %d is missing: expected %s", i, expected);
  const int code = call->codes[i];
  const bool null = is_pointer(code) && !call->args[i].v_handle;
  return mb_fail_argument(MB_ARGUMENT_TYPE, "argument %d: expected %s, found %s%s", i, expected,
                          mb_type_code_name(code), null ? " that is NULL" : "");
}

/* The type code of an argument; -1 when there is none. */
static int code_of_argument(const struct mb_call *call, int i) {
  return i < call->count ? call->codes[i] : -1;
}

int mb_call_expect(const struct mb_call *call, int at_least, int at_most) {
  if (call->count >= at_least && call->count <= at_most) return MBLOB_OK;
  if (at_least == at_most)
    return mb_fail_argument(MB_ARGUMENT_COUNT, MB_TEXT_COUNT, "expected", at_least,
                            at_least == 1 ? "" : "s", "", call->count);
  return mb_fail_argument(MB_ARGUMENT_COUNT, "expected %d to %d arguments, found %d", at_least,
                          at_most, call->count);
}

int mb_call_int(const struct mb_call *call, int i, int64_t *out) {
  return mb_call_expected_int(call, i, "an integer", out);
}

int mb_call_expected_int(const struct mb_call *call, int i, const char *expected, int64_t *out) {
  int code = code_of_argument(call, i);
  if (code != kTVMArgInt && code != kTVMArgBool) return wrong_argument(call, i, expected);
  *out = call->args[i].v_int64;
  return MBLOB_OK;
}

bool mb_call_is_text(const struct mb_call *call, int i) {
  return code_of_argument(call, i) == kTVMStr;
}

int mb_call_text(const struct mb_call *call, int i, const char **out) {
  if (!mb_call_is_text(call, i) || !call->args[i].v_str) return wrong_argument(call, i, "a string");
  *out = call->args[i].v_str;
  return MBLOB_OK;
}

int mb_call_bytes(const struct mb_call *call, int i, const void **data, size_t *size) {
  int code = code_of_argument(call, i);
  if ((code != kTVMStr && code != kTVMBytes) || !call->args[i].v_handle)
    return wrong_argument(call, i, "bytes or a string");
  if (code == kTVMStr) {
    *data = call->args[i].v_str;
    *size = strlen(call->args[i].v_str);
  } else {
    const TVMByteArray *bytes = call->args[i].v_handle;
    if (!bytes->data && bytes->size)
      return mb_fail(MBLOB_E_ARGUMENT, "argument %d: %zu bytes whose data is NULL", i, bytes->size);
    *data = bytes->data;
    *size = bytes->size;
  }
  return MBLOB_OK;
}

int mb_call_tensor(const struct mb_call *call, int i, DLTensor **out) {
  int code = code_of_argument(call, i);
  if ((code != kTVMDLTensorHandle && code != kTVMNDArrayHandle) || !call->args[i].v_handle)
    return wrong_argument(call, i, "a tensor");
  *out = call->args[i].v_handle;
  return MBLOB_OK;
}

int mb_call_module(const struct mb_call *call, int i, mblob_module **out) {
  if (code_of_argument(call, i) != kTVMModuleHandle || !call->args[i].v_handle)
    return wrong_argument(call, i, "a module");
  if (!mb_handle_is_module(call->args[i].v_handle))
    return mb_fail_argument(MB_ARGUMENT_TYPE, "argument %d: expected a module, found %s", i,
                            mb_handle_kind(call->args[i].v_handle));
  *out = call->args[i].v_handle;
  return MBLOB_OK;
}

/* One device from argument *i on, which is moved behind it. */
static int next_device(const struct mb_call *call, int *i, DLDevice *out) {
  if (code_of_argument(call, *i) == kDLDevice) {
    *out = call->args[(*i)++].v_device;
    return MBLOB_OK;
  }
  int64_t type = 0, id = 0;
  int status = mb_call_expected_int(call, *i, "a device", &type);
  if (!status) status = mb_call_expected_int(call, *i + 1, "the number of the device", &id);
  if (status) return status;
  if (type < 1 || type > INT32_MAX || id < 0 || id > INT32_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "argument %d: (%lld, %lld) is no device", *i, (long long)type,
                   (long long)id);
  *out = (DLDevice){(DLDeviceType)type, (int32_t)id};
  *i += 2;
  return MBLOB_OK;
}

int mb_call_devices(const struct mb_call *call, int i, DLDevice *out, size_t limit, size_t *count) {
  for (*count = 0; i < call->count; (*count)++) {
    if (*count == limit) return mb_fail(MBLOB_E_ARGUMENT, "more than %zu devices", limit);
    int status = next_device(call, &i, &out[*count]);
    if (status) return status;
  }
  return *count ? MBLOB_OK : wrong_argument(call, i, "a device");
}

/* ---- results --------------------------------------------------------------------------------- */

static void put_returned(struct mb_call *call, TVMValue value, int code) {
  mb_return_drop(call->result);
  call->result->value = value;
  call->result->code = code;
}

void mb_call_return_int(struct mb_call *call, int64_t value) {
  put_returned(call, (TVMValue){.v_int64 = value}, kTVMArgInt);
}

int mb_call_return_text(struct mb_call *call, const char *text) {
  return mb_return_set(call->result, (TVMValue){.v_str = text}, kTVMStr);
}

int mb_call_return_stream(struct mb_call *call, FILE *out, char **text, const size_t *size) {
  bool failed = ferror(out) != 0;
  failed |= fclose(out) != 0;
  int status = failed || !*text ? mb_fail_memory(*size) : mb_call_return_text(call, *text);
  free(*text);
  *text = NULL;
  return status;
}

void mb_call_return_module(struct mb_call *call, mblob_module *module) {
  put_returned(call, (TVMValue){.v_handle = module}, kTVMModuleHandle);
}

void mb_call_return_array(struct mb_call *call, DLTensor *array) {
  put_returned(call, (TVMValue){.v_handle = array}, kTVMNDArrayHandle);
}

void mb_call_return_function(struct mb_call *call, mblob_function *function) {
  put_returned(call, (TVMValue){.v_handle = function}, kTVMPackedFuncHandle);
}
