#define _GNU_SOURCE
#include "core/call/return_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "core/call/argument.h"
#include "core/call/function.h"
#include "core/call/object.h"
#include "core/loaded/loaded.h"

/* The last text that was returned on this thread. */
struct last_text {
  char *text;
  TVMByteArray bytes;
};

static __thread struct last_text last_returned;

static void free_last(void *p) {
  struct last_text *mine = p;
  free(mine->text);
  mine->text = NULL;
}

static struct mb_thread_end returned_at_end = MB_THREAD_END(free_last);

/* Of the thread that unloads this, or ends the process. */
MB_HANDLER(destructor) static void free_returned(void) { free_last(&last_returned); }

void mb_value_retain(TVMValue value, int code) {
  if (!value.v_handle) return;
  if (code == kTVMModuleHandle) (void)mblob_module_retain(value.v_handle);
  if (code == kTVMPackedFuncHandle) (void)mblob_function_retain(value.v_handle);
  if (code == kTVMNDArrayHandle) mb_array_retain(value.v_handle);
  if (code == kTVMObjectHandle && mb_handle_is_object(value.v_handle))
    mb_object_retain(value.v_handle);
}

void mblob_value_release(TVMValue value, int code) {
  if (!value.v_handle) return;
  if (code == kTVMModuleHandle) mblob_module_release(value.v_handle);
  if (code == kTVMPackedFuncHandle) mblob_function_release(value.v_handle);
  if (code == kTVMNDArrayHandle) mb_array_release(value.v_handle);
  if (code == kTVMObjectHandle && mb_handle_is_object(value.v_handle))
    mb_object_release(value.v_handle);
}

size_t mb_value_references(TVMValue value, int code) {
  if (!value.v_handle) return 0;
  switch (code) {
    case kTVMNDArrayHandle: return mb_array_references(value.v_handle);
    case kTVMModuleHandle:
      return atomic_load(&((const mblob_module *)value.v_handle)->library->users);
    case kTVMPackedFuncHandle: {
      const mblob_function *function = value.v_handle;
      return atomic_load(function->library ? &function->library->users : &function->references);
    }
    case kTVMObjectHandle:
      return mb_handle_is_object(value.v_handle) ? mb_object_references(value.v_handle) : 0;
    default: return 0;
  }
}

static int copy_returned_text(struct mb_return *result, const char *data, size_t size) {
  result->text = malloc(size + 1);
  if (!result->text) return mb_fail_memory(size + 1);
  if (size) memcpy(result->text, data, size);
  result->text[size] = 0;
  result->bytes = (TVMByteArray){result->text, size};
  return MBLOB_OK;
}

/* Take the text that `value` points to into `result`. */
static int adopt_text(struct mb_return *result) {
  if (result->code == kTVMStr)
    return copy_returned_text(result, result->value.v_str, strlen(result->value.v_str));
  const TVMByteArray *bytes = result->value.v_handle;
  return copy_returned_text(result, bytes->data, bytes->size);
}

/* Code 15 is bool since TVM 0.18. Before, it was the first extension type, which no kernel
 * returns. */
int mb_return_check_value(TVMValue value, int code) {
  bool known = (code >= kTVMArgInt && code <= kTVMNDArrayHandle) || code == kTVMArgBool;
  if (!known)
    return mb_fail(MBLOB_E_ARGUMENT, "return value: type code %d cannot be returned", code);
  if (code != kTVMStr && code != kTVMBytes) return MBLOB_OK;
  if (!value.v_handle)
    return mb_fail(MBLOB_E_ARGUMENT, "return value: %s NULL",
                   code == kTVMStr ? "a string that is" : "bytes that are");
  const TVMByteArray *bytes = code == kTVMBytes ? value.v_handle : NULL;
  if (bytes && !bytes->data && bytes->size)
    return mb_fail(MBLOB_E_ARGUMENT, "return value: %zu bytes whose data is NULL", bytes->size);
  return MBLOB_OK;
}

/* A handle that a host gave is what its code says. */
static int check_handle(TVMValue value, int code) {
  if (!value.v_handle) return MBLOB_OK;
  bool wrong =
      (code == kTVMModuleHandle && mb_no_module("return value", "the handle", value.v_handle)) ||
      (code == kTVMPackedFuncHandle &&
       mb_no_function("return value", "the handle", value.v_handle));
  return wrong ? MBLOB_E_ARGUMENT : MBLOB_OK;
}

int mb_return_set(struct mb_return *result, TVMValue value, int code) {
  int status = mb_return_check_value(value, code);
  if (!status) status = check_handle(value, code);
  if (status) return status;
  mb_return_drop(result);
  result->value = value;
  result->code = code;
  if (code == kTVMStr || code == kTVMBytes) {
    status = adopt_text(result);
    if (status) result->code = kTVMNullptr;
  } else {
    mb_value_retain(value, code);
  }
  return status;
}

int mb_return_check(const char *function, struct mb_return *result) {
  if (result->code == MB_OWNED_BYTES && result->value.v_handle) {
    result->text = result->value.v_handle;
    result->bytes = *(TVMByteArray *)result->value.v_handle;
    result->code = kTVMBytes;
    return MBLOB_OK;
  }
  int status = mb_return_check_value(result->value, result->code);
  if (!status && (result->code == kTVMStr || result->code == kTVMBytes))
    status = adopt_text(result);
  if (!status) return status;
  result->code = kTVMNullptr;
  mb_error_prefix(function);
  return status;
}

void mb_return_drop(struct mb_return *result) {
  if (result->text)
    free(result->text);
  else
    mblob_value_release(result->value, result->code);
  *result = (struct mb_return)MB_RETURN_NOTHING;
}

void mb_return_hand_over(struct mb_return *result, TVMValue *ret, int *ret_code) {
  *ret = result->value;
  *ret_code = result->code;
  if (!result->text) return;
  mb_thread_end_set(&returned_at_end, &last_returned);
  free(last_returned.text);
  last_returned = (struct last_text){result->text, result->bytes};
  if (result->code == kTVMStr)
    ret->v_str = last_returned.text;
  else
    ret->v_handle = &last_returned.bytes;
}
