/* Functions: making, counting, calling. */
#define _GNU_SOURCE
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "core/call/aligned.h"
#include "core/call/aligned_call.h"
#include "core/call/argument.h"
#include "core/call/function.h"
#include "core/call/return_value.h"
#include "core/loaded/loaded.h"

mblob_function *mb_function_new(enum mb_function_kind kind, struct mb_library *library,
                                const char *name) {
  const size_t size = strlen(name) + 1;
  mblob_function *function = mb_block_take(sizeof(*function));
  char *copy = mb_block_take_unset(size);
  if (!function || !copy) {
    if (function) mb_block_give(function, sizeof(*function));
    if (copy) mb_block_give(copy, size);
    (void)mb_fail_memory(sizeof(*function));
    return NULL;
  }
  function->name = memcpy(copy, name, size);
  function->tag = MB_TAG_FUNCTION;
  function->kind = kind;
  function->takes = kind == MB_SAFE_CALL ? MBLOB_ARGUMENTS_FFI : MBLOB_ARGUMENTS_CLASSIC;
  function->library = library;
  function->signature = function->prototype = "";
  function->alignment = MB_DEFAULT_ALIGNMENT;
  atomic_init(&function->references, 1);
  return function;
}

void mb_function_free(mblob_function *function) {
  if (function->kind == MB_CALLBACK && function->u.callback.finalize)
    function->u.callback.finalize(function->u.callback.resource);
  /* A reference to the own library would keep it open for ever. */
  if (function->kind == MB_FORWARD && function->u.target->library != function->library)
    mblob_function_release(function->u.target);
  mb_block_give(function->name, strlen(function->name) + 1);
  mb_block_give(function, sizeof(*function));
}

int mblob_function_create(TVMPackedCFunc call, void *resource, TVMPackedCFuncFinalizer finalize,
                          mblob_function **out) {
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (mb_is_null(__func__, "call", (const void *)(uintptr_t)call)) return MBLOB_E_ARGUMENT;
  *out = mb_function_new(MB_CALLBACK, NULL, "callback");
  if (!*out) return MBLOB_E_MEMORY;
  (*out)->alignment = 0; /* the callback sees tensors as they are */
  (*out)->u.callback.call = call;
  (*out)->u.callback.resource = resource;
  (*out)->u.callback.finalize = finalize;
  return MBLOB_OK;
}

mblob_function *mblob_function_retain(mblob_function *function) {
  if (!function) return NULL;
  if (function->library)
    mb_library_retain(function->library);
  else
    atomic_fetch_add_explicit(&function->references, 1, memory_order_relaxed);
  return function;
}

static void end_function(struct mb_destruction *ending) {
  mb_function_free((mblob_function *)(void *)((char *)ending - offsetof(mblob_function, ending)));
}

void mblob_function_release(mblob_function *function) {
  if (!function) return;
  if (function->library)
    mb_library_release(function->library);
  else if (atomic_fetch_sub_explicit(&function->references, 1, memory_order_acq_rel) == 1)
    mb_destroy(&function->ending, end_function);
}

/* What a function stands for: alignment and signature are that function's. */
static const mblob_function *target_behind(const mblob_function *function) {
  while (function->kind == MB_FORWARD) function = function->u.target;
  return function;
}

uint32_t mblob_function_alignment(const mblob_function *function) {
  return function ? target_behind(function)->alignment : 0;
}

const char *mblob_function_signature(const mblob_function *function) {
  return function ? target_behind(function)->signature : "";
}

const char *mblob_function_prototype(const mblob_function *function) {
  return function ? target_behind(function)->prototype : "";
}

int mblob_function_first_output(const mblob_function *function) {
  return function ? target_behind(function)->first_output : 0;
}

mblob_argument_mode mblob_function_argument_mode(const mblob_function *function) {
  return function ? target_behind(function)->takes : MBLOB_ARGUMENTS_CLASSIC;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* `rc` is what the callee returned, `before` the count of errors when it was called. */
static int call_failed(const mblob_function *function, int rc, uint64_t before) {
  if (mb_fail_thrown(rc, function->name)) return MBLOB_E_KERNEL;
  if (mb_error_serial() == before)
    return mb_fail(MBLOB_E_KERNEL, MB_TEXT_RETURNED, function->name, rc);
  return mblob_last_error_info()->status;
}

static int call_code(mblob_function *function, const TVMValue *args, const int *codes, int count,
                     struct mb_return *result) {
  union {
    void *address;
    TVMBackendPackedCFunc call;
  } code = {function->u.address};
  uint64_t before = mb_error_serial();
  /* Kernels of TVM 0.5 and 0.6 have three parameters: they ignore the rest and set no result. */
  /* The convention has no const; kernels may write one slot behind the last argument only in
   * their own arrays. */
  MB_CATCHES;
  int rc = code.call((TVMValue *)(uintptr_t)args, (int *)(uintptr_t)codes, count, &result->value,
                     &result->code, NULL);
  if (rc) {
    result->code = kTVMNullptr;
    return call_failed(function, rc, before);
  }
  return mb_return_check(function->name, result);
}

/* Tensors alone are what the caller aligns (mblob_function_alignment). */
static int call_safe(const mblob_function *function, const TVMValue *args, const int *codes,
                     int count, struct mb_return *result) {
  if (function->alignment >= MB_DEFAULT_ALIGNMENT)
    for (int i = 0; i < count; i++)
      if (codes[i] == kTVMObjectHandle && !mb_value_is_aligned(args[i], codes[i]))
        return mb_call_aligned(function, args, codes, count, result);
  return mb_call_as_they_are(function, args, codes, count, result);
}

static int call_callback(mblob_function *function, const TVMValue *args, const int *codes,
                         int count, struct mb_return *result) {
  uint64_t before = mb_error_serial();
  MB_CATCHES;
  int rc = function->u.callback.call((TVMValue *)(uintptr_t)args, (int *)(uintptr_t)codes, count,
                                     result, function->u.callback.resource);
  return rc ? call_failed(function, rc, before) : MBLOB_OK;
}

int mb_function_run(mblob_function *function, const TVMValue *args, const int *codes, int count,
                    struct mb_return *result) {
  while (function->kind == MB_FORWARD || function->kind == MB_ENVIRONMENT) {
    mblob_function *next = function->kind == MB_FORWARD ? function->u.target : NULL;
    const int status = next ? MBLOB_OK : function->u.environment.resolve(function, &next);
    if (status) return status;
    function = next;
  }
  return function->kind == MB_KERNEL      ? call_code(function, args, codes, count, result)
         : function->kind == MB_SAFE_CALL ? call_safe(function, args, codes, count, result)
                                          : call_callback(function, args, codes, count, result);
}

/* The error of a call whose arguments are not what they should be. */
static int refuse_call(const mblob_function *function, const TVMValue *args, int count) {
  static const char name[] = "mblob_function_call";
  if (count < 0)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: count is %d, expected 0 or more", name, count);
  else if (!mb_no_function(name, "function", function))
    (void)mb_is_null(name, args ? "codes" : "args", NULL);
  return MBLOB_E_ARGUMENT;
}

int mblob_function_call(mblob_function *function, const TVMValue *args, const int *codes, int count,
                        TVMValue *ret, int *ret_code) {
  struct mb_return result = MB_RETURN_NOTHING;
  if (ret_code) *ret_code = kTVMNullptr;
  if (ret) *ret = result.value;
  if (!function || function->tag != MB_TAG_FUNCTION || count < 0 || (count && !(args && codes)))
    return refuse_call(function, args, count);
  const int status = mb_function_run(function, args, codes, count, &result);
  if (status || !ret || !ret_code) {
    mb_return_drop(&result);
    return status;
  }
  mb_return_hand_over(&result, ret, ret_code);
  return MBLOB_OK;
}
